"""Signing in with a provider: a real one answers over HTTP, and lies in every way that a sign-in must not believe."""

import asyncio
import base64
import gzip
import hmac
import json
import logging
import re
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
from joserfc import jwk, jwt
from starlette.responses import JSONResponse, Response

from orchestrator.app.first_start import started
from orchestrator.core.errors import InvalidRequest
from orchestrator.core.policy import default_policy
from orchestrator.core.ports import SYSTEM_STREAM
from orchestrator.core.task.facts import TaskId
from orchestrator.runtime.logs import _LIBRARIES
from orchestrator.runtime.settings import Settings, load_settings
from orchestrator.terminal.cli.server import _FLAGS
from orchestrator.testing.drafts import ManualClock
from orchestrator.web.oidc import AT_ONCE, ATTEMPT_LIFE
from orchestrator.web.peers import WRONG_TRIES
from orchestrator.web.provider import MOST_BYTES
from tests.harness.browsing import Tab, plain, set_cookies
from tests.harness.endpoints import Writing
from tests.harness.oidc_provider import CLIENT, FIRST, SECRET, OidcProvider, oidc_provider
from tests.harness.whole_server import Server, running
from tests.waiting import within
from tests.web.test_web import refused

ROLES = {"teachers": ("reviewer", "submitter"), "pupils": ("submitter",), "staff": ("admin",)}


@asynccontextmanager
async def with_provider(provider: OidcProvider, directory: Path, **settings: Any) -> AsyncIterator[Server]:
    """A server that is registered at a provider."""
    chosen: dict[str, Any] = {
        "oidc_issuer": provider.issuer,
        "oidc_client_id": CLIENT,
        "oidc_client_secret": SECRET,
        "oidc_roles": ROLES,
        **settings,
    }
    async with running(directory, model=Writing(), **chosen) as server:
        yield server


@pytest.fixture
async def provider() -> AsyncIterator[OidcProvider]:
    """A provider that tells the truth."""
    async with oidc_provider() as one:
        yield one


@pytest.fixture
async def server(provider: OidcProvider, tmp_path: Path) -> AsyncIterator[Server]:
    """A server with it."""
    async with with_provider(provider, tmp_path) as one:
        yield one


@dataclass
class Begun:
    """A sign-in that a browser began, and that its person approved at the provider."""

    cookie: str
    back: str
    """Path and query of the address to which the provider sends it back."""

    async def end(self, server: Server, **headers: str) -> httpx2.Response:
        """The browser comes back; the provider's page is another site's."""
        sent = {"Cookie": self.cookie, "Sec_Fetch_Site": "cross-site", **headers}
        return await plain(server, "GET", self.back, **{name: one for name, one in sent.items() if one})


async def begin(server: Server, provider: OidcProvider) -> Begun:
    answer = await plain(server, "GET", "/v1/session/oidc", Sec_Fetch_Site="same-origin")
    assert answer.status_code == 303, answer.text
    ((name, morsel),) = set_cookies(answer).items()
    back = await provider.approve(answer.headers["location"])
    assert back.startswith(f"{server.url}/v1/session/oidc/callback?")
    return Begun(f"{name}={morsel.value}", back.removeprefix(server.url))


async def tab_of(server: Server, answer: httpx2.Response) -> Tab:
    """The page in a browser that was signed in."""
    assert (answer.status_code, answer.headers.get("location")) == (303, "/"), answer.text
    cookies = set_cookies(answer)
    assert cookies["cc_oidc"]["max-age"] == "0"
    cookie = f"cc_session={cookies['cc_session'].value}"
    told = await plain(server, "GET", "/v1/session", Cookie=cookie)
    assert told.status_code == 200, told.text
    return Tab(server, cookie, told.json(), server.url)


async def signed_in(server: Server, provider: OidcProvider) -> Tab:
    """A browser after a whole sign-in."""
    return await tab_of(server, await (await begin(server, provider)).end(server))


async def denied(server: Server, provider: OidcProvider, status: int, code: str, words: str = "") -> None:
    """A whole sign-in that ends with a refusal, and signs nobody in."""
    answer = await (await begin(server, provider)).end(server)
    refused(answer, status, code)
    assert "cc_session" not in set_cookies(answer)
    assert words in answer.json()["error"]["message"], answer.text


async def people(server: Server) -> list[dict[str, Any]]:
    """The tokens of people but the first admin, those that count first."""
    told = (await server.ask("GET", "/v1/tokens")).json()["tokens"]
    found = [one for one in told if one["kind"] == "person" and not one["yours"]]
    return sorted(found, key=lambda one: (one["revoked"], one["name"]))


async def sound(server: Server) -> None:
    """The audit has nothing against the items."""
    assert (await server.ask("GET", "/v1/audit/verify")).json()["faults"] == []


# -- a sign-in -----------------------------------------------------------------------------


async def test_a_person_signs_in_and_the_audit_says_how(
    provider: OidcProvider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With the roles of the claims, for twelve hours; no secret of it is in the log or in the store."""
    caplog.set_level(logging.DEBUG)
    async with with_provider(provider, tmp_path, store=f"sqlite:///{tmp_path / 'store.db'}") as server:
        begun = await begin(server, provider)
        news: list[object] = []
        forget = server.orchestrator.service.bus.subscribe("directory", news.append)
        tab = await tab_of(server, await begun.end(server))
        forget()
        assert len(news) == 1  # Other nodes hear of a new person.
        assert (tab.told["name"], tab.told["roles"]) == ("ann", ["reviewer", "submitter"])
        ends = datetime.fromisoformat(tab.told["expires_at"])
        assert abs(ends - datetime.now(UTC) - timedelta(hours=12)) < timedelta(minutes=1)
        submitted = await tab.ask("POST", "/v1/tasks", {"prompt": "look", "computers": []})
        assert submitted.status_code == 201, submitted.text
        (first, *_) = await server.orchestrator.store.read(TaskId(submitted.json()["task_id"]))
        assert (first.actor.id, first.actor.auth) == ("ann", "oidc")
        items = await server.orchestrator.store.read(TaskId(SYSTEM_STREAM))
        assert [(one.fact.kind, one.actor.id, one.actor.auth) for one in items][-2:] == [
            ("token_issued", "oidc", "provider"),
            ("signed_in", "ann", "oidc"),
        ]
        await sound(server)
        query = parse_qs(urlsplit(begun.back).query)
        hidden = [query["code"][0], query["state"][0], begun.cookie.partition("=")[2], SECRET, "at-1"]
        with closing(sqlite3.connect(tmp_path / "store.db")) as store:
            kept = "\n".join(store.iterdump())
        # At `debug` these libraries log each request, of the test's own client too; a server has their warnings only.
        kept += "\n".join(one.getMessage() for one in caplog.records if one.name.partition(".")[0] not in _LIBRARIES)
        assert [one for one in hidden if one in kept] == []
        # The hash of the row is none of a text: no token opens anything with these rights.
        (row,) = [one for one in await server.orchestrator.store.list_tokens() if one.name == "ann"]
        assert re.fullmatch("oidc:[0-9a-f]{32}:[0-9a-f]{32}", row.token_hash)
        refused(await server.ask("GET", "/v1/tasks", token=row.token_hash), 401, "unauthenticated")


async def test_the_browser_is_led_with_all_that_binds_the_answer(server: Server, provider: OidcProvider) -> None:
    """PKCE, state and nonce, another each time; the provider's page may lead back, and no script reads the cookie."""
    seen = []
    for _ in range(2):
        answer = await plain(server, "GET", "/v1/session/oidc")
        line = answer.headers["set-cookie"]
        assert re.fullmatch(r"cc_oidc=[A-Za-z0-9_-]{43}\.\d+; HttpOnly; Max-Age=600; Path=/; SameSite=lax", line), line
        asked = parse_qs(urlsplit(answer.headers["location"]).query)
        assert asked["redirect_uri"] == [f"{server.url}/v1/session/oidc/callback"]
        assert (asked["code_challenge_method"], asked["response_type"]) == (["S256"], ["code"])
        secret = line.partition("=")[2].partition(".")[0]
        bound = [asked[one][0] for one in ("state", "nonce", "code_challenge")]
        assert len({secret, *bound}) == 4
        seen += bound
    assert len(set(seen)) == 6
    assert provider.asked["/.well-known/openid-configuration"] == 1


async def test_the_page_is_told_of_the_provider(server: Server, provider: OidcProvider) -> None:
    """Whoever is not signed in hears its name, whatever cookie they have."""
    for headers in ({}, {"Cookie": f"cc_session={'x' * 43}"}):
        answer = await plain(server, "GET", "/v1/session", **headers)
        assert answer.status_code == 401
        assert answer.json()["error"]["details"] == {"provider": urlsplit(provider.issuer).hostname}


async def test_without_a_provider_there_is_none(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        for path in ("/v1/session/oidc", "/v1/session/oidc/callback?code=x&state=y"):
            refused(await plain(server, "GET", path), 404, "not_found")
        assert (await plain(server, "GET", "/v1/session")).json()["error"].get("details", {}) == {}


async def test_behind_a_proxy_with_tls_any_node_takes_a_browser_back(provider: OidcProvider, tmp_path: Path) -> None:
    """The provider leads to the public address, cookies have the prefix that the browser checks, no node keeps any."""
    public = {"public_url": "https://cc.example.org"}
    async with (
        with_provider(provider, tmp_path / "one", **public) as one,
        with_provider(provider, tmp_path / "two", **public) as other,
    ):
        begun = await plain(one, "GET", "/v1/session/oidc")
        ((name, morsel),) = set_cookies(begun).items()
        assert (name, morsel["secure"], morsel["path"]) == ("__Host-cc_oidc", True, "/")
        back = await provider.approve(begun.headers["location"])
        assert back.startswith("https://cc.example.org/v1/session/oidc/callback?")
        path = back.removeprefix("https://cc.example.org")
        answer = await plain(other, "GET", path, Cookie=f"{name}={morsel.value}", Host="cc.example.org")
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert "__Host-cc_session" in set_cookies(answer)


# -- what must not be believed ---------------------------------------------------------------


def unsigned(claims: dict[str, Any], key: Any) -> str:
    """A token that says itself that nobody signed it."""
    del key
    return _parts("none", claims) + "."


def by_secret(secret: bytes) -> Any:
    """Signs with a secret that this server or everybody has; by hand, since libraries refuse to."""

    def sign(claims: dict[str, Any], key: Any) -> str:
        del key
        text = _parts("HS256", claims)
        return f"{text}.{_coded(hmac.digest(secret, text.encode(), 'sha256'))}"

    return sign


def _parts(alg: str, claims: dict[str, Any]) -> str:
    return ".".join(_coded(json.dumps(one).encode()) for one in ({"alg": alg, "kid": "first"}, claims))


def _coded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def by_another(claims: dict[str, Any], key: Any) -> str:
    """Signs with a key of its own under the name of the provider's."""
    del key
    own = jwk.RSAKey.generate_key(2048, {"kid": "first"})
    return jwt.encode({"alg": "RS256", "kid": "first"}, claims, own)


def rs512(claims: dict[str, Any], key: Any) -> str:
    """The right key, with an algorithm that is not on the list."""
    return jwt.encode({"alg": "RS512", "kid": "first"}, claims, key, algorithms=["RS512"])


LIES: dict[str, dict[str, Any]] = {
    "another nonce": {"lies": {"nonce": "other"}},
    "no nonce": {"lies": {"nonce": None}},
    "another client": {"lies": {"aud": "other"}},
    "other clients": {"lies": {"aud": ["other", "others"]}},
    "another client beside us, for which it is": {"lies": {"aud": [CLIENT, "other"], "azp": "other"}},
    "another client, in our name": {"lies": {"aud": "other", "azp": CLIENT}},
    "another issuer": {"lies": {"iss": "https://evil.example"}},
    "no issuer": {"lies": {"iss": None}},
    "no account": {"lies": {"sub": None}},
    "an account that is none": {"lies": {"sub": 7}},
    "expired": {"lies": {"exp": int(time.time()) - 31}},
    "without an end": {"lies": {"exp": None}},
    "an end that is none": {"lies": {"exp": "tomorrow"}},
    "of tomorrow": {"lies": {"iat": int(time.time()) + 86_400}},
    "not yet": {"lies": {"nbf": int(time.time()) + 86_400}},
    "of another access token": {"lies": {"at_hash": "x" * 22}},
    "unsigned": {"sign": unsigned},
    "signed with the client's secret": {"sign": by_secret(SECRET.encode())},
    "signed with the public key": {"sign": by_secret(FIRST.as_pem(private=False))},
    "signed by another": {"sign": by_another},
    "an algorithm that is not on the list": {"sign": rs512},
    "no token": {"sign": lambda claims, key: ""},
    "no form": {"sign": lambda claims, key: "a.b.c"},
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_token_that_is_not_right_signs_nobody_in(server: Server, provider: OidcProvider, lie: str) -> None:
    """Nor does it make a person; the truth afterwards does."""
    truth = {name: getattr(provider, name) for name in ("lies", "sign")}
    vars(provider).update(LIES[lie])
    await denied(server, provider, 401, "sign_in_refused", "cannot be believed")
    assert await people(server) == []
    vars(provider).update(truth)
    await signed_in(server, provider)


async def test_a_callback_counts_in_the_browser_that_began(server: Server, provider: OidcProvider) -> None:
    """Somebody else's code signs nobody in: neither without the cookie, nor with that of another sign-in, or two."""
    mine, theirs = await begin(server, provider), await begin(server, provider)
    for cookie in ("", theirs.cookie, f"{mine.cookie}; {theirs.cookie}", "cc_oidc=x.1", f"{mine.cookie}9"):
        answer = await Begun(cookie, mine.back).end(server)
        refused(answer, 401, "sign_in_refused")
        assert "cc_session" not in set_cookies(answer)
    for changed in ("state=x", "state="):
        back = re.sub("state=[^&]*", changed, mine.back)
        refused(await Begun(mine.cookie, back).end(server), 401, "sign_in_refused")
    refused(await Begun(mine.cookie, f"{mine.back}&state=x").end(server), 401, "sign_in_refused")
    assert provider.sent == []  # No code was shown to the provider on the word of another.
    await tab_of(server, await mine.end(server))


async def test_a_code_counts_once(server: Server, provider: OidcProvider) -> None:
    begun = await begin(server, provider)
    await tab_of(server, await begun.end(server))
    answer = await begun.end(server)
    refused(answer, 401, "sign_in_refused")
    assert "hostile" not in answer.text


async def test_what_is_no_code_is_not_shown_to_the_provider(server: Server, provider: OidcProvider) -> None:
    begun = await begin(server, provider)
    for code in ("code=", "x=1", f"code={'x' * 4097}"):
        refused(await Begun(begun.cookie, re.sub("code=[^&]*", code, begun.back)).end(server), 401, "sign_in_refused")
    assert provider.sent == []


async def test_a_crowd_asks_the_provider_a_few_at_a_time(server: Server, provider: OidcProvider) -> None:
    begun = [await begin(server, provider) for _ in range(AT_ONCE + 6)]
    provider.goes_on.clear()
    ending = [asyncio.create_task(one.end(server)) for one in begun]
    try:
        for _ in range(AT_ONCE):
            await within(provider.arrived.get())
        for _ in range(5):  # Time enough for one more to come.
            await begin(server, provider)
        assert provider.asked["/token"] == AT_ONCE
    finally:
        provider.goes_on.set()
    assert {one.status_code for one in await asyncio.gather(*ending)} == {303}


async def test_an_attempt_lasts_ten_minutes(server: Server, provider: OidcProvider) -> None:
    clock = server.orchestrator.service.clock = ManualClock(datetime.now(UTC))
    begun, late = await begin(server, provider), await begin(server, provider)
    clock.advance(ATTEMPT_LIFE.total_seconds() - 301)
    await tab_of(server, await begun.end(server))
    clock.advance(302)
    answer = await late.end(server)
    refused(answer, 401, "sign_in_refused")
    assert "more than ten minutes" in answer.json()["error"]["message"]
    assert len(provider.sent) == 1


async def test_another_provider_does_not_answer_for_ours(server: Server, provider: OidcProvider) -> None:
    """The callback names the provider (RFC 9207); one that says it always does may not leave it out."""
    begun = await begin(server, provider)
    other = re.sub("iss=[^&]*", "iss=https%3A%2F%2Fevil.example", begun.back)
    refused(await Begun(begun.cookie, other).end(server), 401, "sign_in_refused")
    assert provider.sent == []
    without = re.sub("&iss=[^&]*", "", begun.back)
    await tab_of(server, await Begun(begun.cookie, without).end(server))


async def test_a_provider_that_says_its_name_always_may_not_leave_it_out(
    provider: OidcProvider, tmp_path: Path
) -> None:
    provider.says = {"authorization_response_iss_parameter_supported": True}
    async with with_provider(provider, tmp_path) as server:
        begun = await begin(server, provider)
        without = re.sub("&iss=[^&]*", "", begun.back)
        refused(await Begun(begun.cookie, without).end(server), 401, "sign_in_refused")


async def test_nobody_is_led_elsewhere(server: Server, provider: OidcProvider) -> None:
    """Whatever an address asks for, the browser ends at our page; other sites begin nothing."""
    begun = await begin(server, provider)
    for more in ("next=https://evil.example", "redirect_uri=https://evil.example", "return_to=//evil.example"):
        begun.back += f"&{more}"
    assert (await begun.end(server)).headers["location"] == "/"
    answer = await plain(server, "GET", "/v1/session/oidc?redirect_uri=https://evil.example")
    assert answer.headers["location"].startswith(f"{provider.issuer}/authorize?")
    assert "evil" not in answer.headers["location"]
    refused(await plain(server, "GET", "/v1/session/oidc", Sec_Fetch_Site="cross-site"), 403, "forbidden")
    for path in ("/v1/session/oidc", begun.back):
        refused(await plain(server, "GET", path, Host="evil.example", Cookie=begun.cookie), 403, "forbidden")


async def test_a_secret_that_somebody_planted_signs_in_nobody(server: Server, provider: OidcProvider) -> None:
    """The sign-in gets a secret of its own, and ends the one that this browser had."""
    before = await signed_in(server, provider)
    begun = await begin(server, provider)
    begun.cookie = f"{begun.cookie}; {before.cookie}"
    after = await tab_of(server, await begun.end(server))
    assert after.cookie != before.cookie
    refused(await before.ask("GET", "/v1/session"), 401, "unauthenticated")


async def test_refused_sign_ins_are_bounded_and_written_down(server: Server, provider: OidcProvider) -> None:
    begun = await begin(server, provider)
    for _ in range(WRONG_TRIES):
        refused(await Begun("", begun.back).end(server), 401, "sign_in_refused")
    refused(await Begun("", begun.back).end(server), 429, "too_many_tries")
    await tab_of(server, await begun.end(server))  # A right one is taken.
    items = await server.orchestrator.store.read(TaskId(SYSTEM_STREAM))
    tried = [one.fact.door for one in items if one.fact.kind == "attempt_refused"]
    assert set(tried) == {"GET /v1/session/oidc/callback"}  # A path without its query.


# -- the provider's keys, and a provider that is away -------------------------------------------


async def test_keys_are_kept_and_a_new_one_is_found(server: Server, provider: OidcProvider) -> None:
    """Another kind of key, too; the old one counts no more."""
    for _ in range(3):
        await signed_in(server, provider)
    assert (provider.asked["/jwks"], provider.asked["/.well-known/openid-configuration"]) == (1, 1)
    old, sign = provider.key, provider.sign
    provider.key = jwk.ECKey.generate_key("P-256", {"kid": "second"})
    await signed_in(server, provider)
    assert provider.asked["/jwks"] == 2
    provider.sign = lambda claims, key: sign(claims, old)
    await denied(server, provider, 401, "sign_in_refused")


WRONG_FORMS: dict[str, dict[str, Any]] = {
    "another name": {"says": {"issuer": "https://evil.example"}},
    "a page without https": {"says": {"authorization_endpoint": "http://evil.example/a"}},
    "a script for a page": {"says": {"authorization_endpoint": "javascript:alert(1)"}},
    "no keys": {"says": {"jwks_uri": None}},
    "a list": {"answers": {"/.well-known/openid-configuration": JSONResponse([])}},
    "no JSON": {"answers": {"/.well-known/openid-configuration": Response("<html>")}},
    "an error": {"answers": {"/.well-known/openid-configuration": Response(status_code=500)}},
    "too much": {"says": {"more": "x" * MOST_BYTES}},
}


@pytest.mark.parametrize("form", WRONG_FORMS)
async def test_a_provider_that_is_none_is_told(provider: OidcProvider, tmp_path: Path, form: str) -> None:
    """Where it is asked, as a sentence; a token still signs in."""
    vars(provider).update(WRONG_FORMS[form])
    async with with_provider(provider, tmp_path) as server:
        refused(await plain(server, "GET", "/v1/session/oidc"), 502, "provider_away")
        answer = await plain(server, "POST", "/v1/session", {"token": server.admin}, Origin=server.url)
        assert answer.status_code == 201


async def test_an_answer_that_would_be_unpacked_is_not_read(provider: OidcProvider, tmp_path: Path) -> None:
    """A small one could become a large one; this one is as it should be but for that."""
    path = "/.well-known/openid-configuration"
    async with httpx2.AsyncClient(trust_env=False) as http:
        told = (await http.get(provider.issuer + path)).content
    provider.answers[path] = Response(gzip.compress(told), headers={"Content-Encoding": "gzip"})
    async with with_provider(provider, tmp_path) as server:
        refused(await plain(server, "GET", "/v1/session/oidc"), 502, "provider_away")


async def test_a_client_shows_its_secret_as_the_provider_takes_it(provider: OidcProvider, tmp_path: Path) -> None:
    """In the body, where the provider takes no header."""
    provider.says = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    async with with_provider(provider, tmp_path) as server:
        await (await begin(server, provider)).end(server)
    assert provider.sent[0]["client_secret"] == SECRET


async def test_a_provider_that_hangs_is_asked_once_for_all_who_wait(provider: OidcProvider, tmp_path: Path) -> None:
    """A crowd that finds it away is told at once, not one after the other."""
    provider.answers["/.well-known/openid-configuration"] = Response(status_code=500)
    async with with_provider(provider, tmp_path) as server:
        answers = await asyncio.gather(*(plain(server, "GET", "/v1/session/oidc") for _ in range(20)))
        assert {one.status_code for one in answers} == {502}
        assert provider.asked["/.well-known/openid-configuration"] == 1


@pytest.mark.parametrize("path", ["/token", "/jwks"])
@pytest.mark.parametrize("what", [Response("<html>", 502), Response("<html>"), JSONResponse([1])])
async def test_a_provider_that_fails_in_the_middle_is_told(
    server: Server, provider: OidcProvider, path: str, what: Response
) -> None:
    begun = await begin(server, provider)
    provider.answers[path] = what
    refused(await begun.end(server), 502, "provider_away")


async def test_a_provider_that_went_away_is_told_as_a_page(tmp_path: Path) -> None:
    """For a browser; it leads back to the sign-in, where a token still counts."""
    async with oidc_provider() as provider:
        issuer = provider.issuer
    provider.issuer = issuer
    async with with_provider(provider, tmp_path) as server:
        answer = await plain(server, "GET", "/v1/session/oidc", Accept="text/html")
        assert (answer.status_code, answer.headers["content-type"]) == (502, "text/html; charset=utf-8")
        assert "does not answer as it should" in answer.text
        assert "sign in with a token" in answer.text
        assert '<a href="/">' in answer.text
        assert "script" not in answer.headers["content-security-policy"]
        answer = await plain(server, "POST", "/v1/session", {"token": server.admin}, Origin=server.url)
        assert answer.status_code == 201


async def test_hostile_words_are_only_words_on_the_page(server: Server, provider: OidcProvider) -> None:
    provider.person["preferred_username"] = "<img src=x onerror=alert(1)>"
    answer = await (await begin(server, provider)).end(server, Accept="text/html")
    assert (answer.status_code, "<img" in answer.text) == (403, False)
    begun = await begin(server, provider)
    begun.back = re.sub(
        "code=[^&]*", urlencode({"error": "access_denied: 1-800", "error_description": "<b>"}), begun.back
    )
    answer = await begun.end(server, Accept="text/html")
    assert (answer.status_code, "access_denied" in answer.text) == (401, True)
    assert "1-800" not in answer.text
    assert "<b>" not in answer.text


# -- who somebody is --------------------------------------------------------------------------


async def test_roles_that_change_at_the_provider_change_here(server: Server, provider: OidcProvider) -> None:
    """At the next sign-in: what was open with the old ones ends, a token for the command line too."""
    before = await signed_in(server, provider)
    again = await signed_in(server, provider)
    program = await server.ask("POST", "/v1/tokens", {"kind": "agent", "name": "bot", "roles": [], "owner": "ann"})
    token = await server.person("ann", "reviewer", "submitter")
    assert len(await people(server)) == 2  # One for both browsers, and the one for the command line.
    async with before.reviewing() as socket:
        await within(socket.recv())
        provider.person["groups"] = ["pupils", "others"]
        after = await signed_in(server, provider)
        assert after.told["roles"] == ["submitter"]
        assert [one["revoked"] for one in await people(server)] == [False, True, True]
        await within(socket.wait_closed())
    for tab in (before, again):
        refused(await tab.ask("GET", "/v1/session"), 401, "unauthenticated")
    refused(await server.ask("GET", "/v1/tasks", token=token), 401, "unauthenticated")
    assert (await server.ask("GET", "/v1/whoami", token=program.json()["token"])).status_code == 200
    provider.person["groups"] = "others"
    await denied(server, provider, 403, "forbidden", "no role")
    refused(await after.ask("GET", "/v1/session"), 401, "unauthenticated")
    refused(await server.ask("GET", "/v1/whoami", token=program.json()["token"]), 401, "unauthenticated")
    await denied(server, provider, 403, "forbidden", "no role")
    provider.person["groups"] = ["staff"]
    assert (await signed_in(server, provider)).told["roles"] == ["admin"]
    await sound(server)


async def test_who_has_no_role_leaves_nothing_behind(provider: OidcProvider, tmp_path: Path) -> None:
    """Neither a person nor a member of a group, however often they come."""
    provider.person["groups"] = ["guests"]
    async with with_provider(provider, tmp_path, oidc_groups={"guests": ("visitors",)}) as server:
        for _ in range(2):
            await denied(server, provider, 403, "forbidden", "no role")
        assert await people(server) == []
        assert (await server.ask("GET", "/v1/groups")).json()["groups"] == []


async def test_a_name_that_an_admin_gave_belongs_to_no_account(server: Server, provider: OidcProvider) -> None:
    """Nor after it was revoked, nor one that looks like it."""
    await server.person("ann", "admin")
    await denied(server, provider, 403, "forbidden", "somebody else")
    provider.person["preferred_username"] = "аnn"  # noqa: RUF001 - the first letter is Cyrillic
    await denied(server, provider, 403, "forbidden")
    provider.person["preferred_username"] = "Ann"
    await denied(server, provider, 403, "forbidden", "looks like")
    await server.ask("DELETE", "/v1/tokens/person/ann")
    provider.person["preferred_username"] = "ann"
    await denied(server, provider, 403, "forbidden", "somebody else")
    assert [one["revoked"] for one in await people(server)] == [True]


async def test_an_account_has_one_name_and_a_name_one_account(server: Server, provider: OidcProvider) -> None:
    """Who changes their name at the provider neither gets another person's things here nor collects names."""
    await signed_in(server, provider)
    provider.person["preferred_username"] = "bob"
    await denied(server, provider, 403, "forbidden", "came here as ann before")
    provider.person |= {"sub": "account-2", "preferred_username": "ann"}
    await denied(server, provider, 403, "forbidden", "somebody else")
    assert [one["name"] for one in await people(server)] == ["ann"]


async def test_whom_an_admin_revoked_stays_out(server: Server, provider: OidcProvider) -> None:
    """Until an admin adds the person again; then the provider's roles count."""
    tab = await signed_in(server, provider)
    await server.ask("DELETE", "/v1/tokens/person/ann")
    refused(await tab.ask("GET", "/v1/session"), 401, "unauthenticated")
    await denied(server, provider, 403, "forbidden", "revoked ann")
    provider.person["groups"] = []
    await denied(server, provider, 403, "forbidden", "revoked ann")
    provider.person["groups"] = ["pupils"]
    await server.person("ann", "submitter")
    assert (await signed_in(server, provider)).told["roles"] == ["submitter"]
    await sound(server)


NAMES = ["", "..", "a b", "a\nb", "x" * 65, "ann\u202e", "ann@example.org", "orchestrator", "a\u0430", None, 7, ["ann"]]


async def test_a_person_who_is_revoked_elsewhere_is_hung_up_on(server: Server, provider: OidcProvider) -> None:
    """By another node, which this one hears of from the store."""
    tab = await signed_in(server, provider)
    async with tab.reviewing() as socket:
        await within(socket.recv())
        assert await server.orchestrator.store.revoke_tokens("person", "ann") == 1
        await within(socket.wait_closed())


async def test_a_name_that_is_none_is_refused_with_words(server: Server, provider: OidcProvider) -> None:
    for name in NAMES:
        provider.person["preferred_username"] = name
        await denied(server, provider, 403, "forbidden")
    assert await people(server) == []


async def test_ten_thousand_groups_are_no_more_than_one(server: Server, provider: OidcProvider) -> None:
    """As far as a token has room for them; values that are none count as none."""
    provider.person["groups"] = [*(f"g{number}" for number in range(10_000)), {"x": 1}, None, "pupils"]
    assert (await signed_in(server, provider)).told["roles"] == ["submitter"]
    provider.person["groups"] = [f"group-of-the-school-{number}" for number in range(30_000)]
    begun = await begin(server, provider)
    assert (await begun.end(server)).status_code in (401, 502)


async def test_other_claims_and_claims_in_claims_can_be_named(provider: OidcProvider, tmp_path: Path) -> None:
    provider.person |= {"nick": "annika", "realm_access": {"roles": ["boss", "unknown"]}}
    claims: dict[str, Any] = {
        "oidc_name_claim": "nick",
        "oidc_roles_claim": "realm_access.roles",
        "oidc_roles": {"boss": ("admin", "no-such-role")},
    }
    async with with_provider(provider, tmp_path, **claims) as server:
        tab = await signed_in(server, provider)
        assert (tab.told["name"], tab.told["roles"]) == ("annika", ["admin"])


async def test_groups_follow_the_provider(provider: OidcProvider, tmp_path: Path) -> None:
    """Those that the settings name; others stay as people made them, and so do computers of a group."""
    groups = {"teachers": ("class-7b", "staffroom"), "pupils": ("class-7b",)}
    async with with_provider(provider, tmp_path, oidc_groups=groups) as server:
        await server.computer("farm")
        await server.person("bob")
        await server.ask("POST", "/v1/groups/class-7b", {"add_people": ["bob"], "add_computers": ["farm"]})
        tab = await signed_in(server, provider)
        assert (await tab.ask("GET", "/v1/whoami")).json()["groups"] == ["class-7b", "staffroom"]
        await server.ask("POST", "/v1/groups/own", {"add_people": ["ann"]})
        provider.person["groups"] = ["pupils"]
        tab = await signed_in(server, provider)
        assert (await tab.ask("GET", "/v1/whoami")).json()["groups"] == ["class-7b", "own"]
        told = {one["name"]: one for one in (await server.ask("GET", "/v1/groups")).json()["groups"]}
        assert (told["class-7b"]["people"], told["class-7b"]["computers"]) == (["ann", "bob"], ["farm"])
        await sound(server)


async def test_many_sign_ins_at_once_make_one_person(provider: OidcProvider, tmp_path: Path) -> None:
    async with with_provider(provider, tmp_path, oidc_groups={"teachers": ("class-7b",)}) as server:
        begun = [await begin(server, provider) for _ in range(10)]
        answers = await asyncio.gather(*(one.end(server) for one in begun))
        assert {one.status_code for one in answers} == {303}
        assert len(await people(server)) == 1


async def test_a_sign_in_lasts_as_long_as_the_settings_say(provider: OidcProvider, tmp_path: Path) -> None:
    """However often it is used; what is open ends too."""
    async with with_provider(provider, tmp_path, oidc_session_h=2) as server:
        clock = server.orchestrator.service.clock = ManualClock(datetime.now(UTC))
        tab = await signed_in(server, provider)
        clock.advance(7199)
        assert (await tab.ask("GET", "/v1/session")).status_code == 200
        assert len(await server.orchestrator.endpoints.browsers.standing()) == 1
        clock.advance(1)
        assert await server.orchestrator.endpoints.browsers.standing() == set()
        refused(await tab.ask("GET", "/v1/session"), 401, "unauthenticated")


# -- settings ------------------------------------------------------------------------------------


def test_settings_say_the_same_in_each_place(tmp_path: Path) -> None:
    (tmp_path / "cc-orchestrator.toml").write_text(
        'oidc_roles = { "cn=staff,ou=x" = "admin", teachers = ["reviewer", "submitter"] }\noidc_client_secret = "s"\n'
    )
    settings = load_settings({"data_dir": tmp_path}, {})
    assert settings.oidc_roles == {"cn=staff,ou=x": ("admin",), "teachers": ("reviewer", "submitter")}
    text = "teachers=reviewer+submitter, staff = admin"
    for flags, environ in (({"oidc_roles": text}, {}), ({}, {"CC_ORCHESTRATOR_OIDC_ROLES": text})):
        found = load_settings({"data_dir": tmp_path / "none", **flags}, environ).oidc_roles
        assert found == {"teachers": ("reviewer", "submitter"), "staff": ("admin",)}
    for wrong in ("teachers", "=admin", "teachers="):
        with pytest.raises(InvalidRequest, match="oidc_roles"):
            load_settings({"data_dir": tmp_path, "oidc_roles": wrong}, {})
    for wrong in ("http://login.example.org", "login.example.org", "https://a.example/?x=1", "javascript:alert(1)"):
        with pytest.raises(InvalidRequest, match="oidc_issuer"):
            load_settings({"data_dir": tmp_path, "oidc_issuer": wrong}, {})


def test_the_clients_secret_is_never_shown(tmp_path: Path) -> None:
    """Neither by the settings, nor by the item of a start; and no flag has it, which others could read."""
    settings = load_settings({"data_dir": tmp_path}, {"CC_ORCHESTRATOR_OIDC_CLIENT_SECRET": SECRET})
    assert settings.oidc_client_secret.get_secret_value() == SECRET
    told = started(settings, default_policy(), "n")
    assert "oidc_client_secret" in told.settings
    assert SECRET not in f"{settings!r} {settings} {told!r} {settings.model_dump_json()}"
    assert "oidc_client_secret" not in {one.name for one in _FLAGS}


@pytest.mark.parametrize(
    ("missing", "words"),
    [("oidc_client_id", "oidc_client_id"), ("oidc_roles", "oidc_roles"), ("oidc_groups", "does not fit")],
)
async def test_settings_that_do_not_go_together_are_refused_at_the_start(
    tmp_path: Path, missing: str, words: str
) -> None:
    given: dict[str, Any] = {"oidc_client_id": CLIENT, "oidc_roles": ROLES, "oidc_groups": {}}
    given[missing] = {"a": ("x y",)} if missing == "oidc_groups" else Settings.model_fields[missing].default
    with pytest.raises(InvalidRequest, match=words):
        async with running(tmp_path, oidc_issuer="https://login.example.org", **given):
            pass
