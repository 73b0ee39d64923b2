"""Browsers that are signed in: how that begins and ends, and that no other page can use it."""

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from websockets.exceptions import ConnectionClosed, InvalidStatus

from orchestrator.core.ports import SYSTEM_STREAM
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.system_facts import AttemptRefused, SignedIn, SignedOut
from orchestrator.testing.drafts import ManualClock
from orchestrator.web.browsers import LONGEST, MOST, UNUSED, USE_EVERY
from orchestrator.web.peers import WRONG_TRIES
from tests.harness.browsing import Tab, as_it_stands, plain, set_cookies, signed_in
from tests.harness.endpoints import Writing
from tests.harness.whole_server import Server, running
from tests.waiting import within
from tests.web.test_web import refused

ELSEWHERE = "https://evil.example"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server of this test's own."""
    async with running(tmp_path, model=Writing()) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """One server for all the tests that leave nothing behind but sign-ins."""
    async with running(tmp_path_factory.mktemp("shared"), model=Writing()) as server:
        yield server


in_one_loop = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def clock(server: Server) -> ManualClock:
    """The clock by which sign-ins begin and end."""
    clock = ManualClock(datetime.now(UTC))
    server.orchestrator.service.clock = clock
    return clock


def files_of(directory: Path) -> list[Path]:
    """The store's."""
    found = list(directory.glob("store.db*"))
    assert found
    return found


async def noted(server: Server) -> list[Any]:
    """The facts of the system stream that concern browsers."""
    items = await server.orchestrator.store.read(TaskId(SYSTEM_STREAM))
    return [one for one in items if isinstance(one.fact, SignedIn | SignedOut | AttemptRefused)]


# -- in and out --------------------------------------------------------------------------


async def test_a_browser_signs_in_looks_around_decides_and_signs_out(server: Server) -> None:
    """By a cookie that its page cannot read; all of it is noted with how it was proved."""
    alice = await server.person("alice", "submitter", "reviewer")
    before = datetime.now(UTC)
    answer = await plain(server, "POST", "/v1/session", {"token": f" {alice}\n"}, Origin=server.url)
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    told = answer.json()
    assert set(told) == {"name", "roles", "rights", "csrf", "expires_at", "version"}
    assert (told["name"], told["roles"]) == ("alice", ["submitter", "reviewer"])
    assert abs(datetime.fromisoformat(told["expires_at"]) - before - UNUSED) < timedelta(minutes=1)
    line = answer.headers["set-cookie"]
    assert re.fullmatch(r"cc_session=[A-Za-z0-9_-]{43}; HttpOnly; Max-Age=7776000; Path=/; SameSite=strict", line)
    tab = Tab(server, line.partition(";")[0], told, server.url)
    assert (await tab.ask("GET", "/v1/session")).json() == told
    submitted = await tab.ask("POST", "/v1/tasks", {"prompt": "look", "computers": []})
    assert submitted.status_code == 201, submitted.text
    task = await server.orchestrator.service.load(submitted.json()["task_id"])
    assert task.user_id == "alice"
    (first, *_) = await server.orchestrator.store.read(task.task_id)
    assert (first.actor.id, first.actor.auth) == ("alice", "session")
    answer = await tab.ask("DELETE", "/v1/session")
    assert answer.status_code == 204
    assert set_cookies(answer)["cc_session"]["max-age"] == "0"
    refused(await tab.ask("GET", "/v1/session"), 401, "unauthenticated")
    refused(await tab.ask("DELETE", "/v1/session"), 401, "unauthenticated")
    begun, ended, *_ = await noted(server)
    assert (begun.actor.id, begun.actor.auth, begun.fact.name, begun.fact.peer) == (
        *("alice", "token", "alice"),
        "127.0.0.1",
    )
    assert (ended.actor.id, ended.actor.auth, ended.fact.name) == ("alice", "session", "alice")
    assert begun.fact.fingerprint == ended.fact.fingerprint != ""
    assert (await server.ask("GET", "/v1/audit/verify")).json()["faults"] == []


async def test_the_store_knows_no_secret(tmp_path: Path) -> None:
    """Neither the cookie nor what the page shows is in the file; a token is what the cookie never is."""
    async with running(tmp_path, store=f"sqlite:///{tmp_path / 'store.db'}") as server:
        tab = await signed_in(server)
        secret = tab.cookie.partition("=")[2]
        (await tab.ask("POST", "/v1/stop", {})).raise_for_status()
        kept = b"".join(path.read_bytes() for path in files_of(tmp_path))
        for hidden in (secret, tab.told["csrf"]):
            assert hidden.encode() not in kept
        refused(await server.ask("GET", "/v1/tasks", token=secret), 401, "unauthenticated")
        refused(await plain(server, "GET", "/v1/tasks", Cookie=f"cc_session={server.admin}"), 401, "unauthenticated")


async def test_it_outlives_the_server(tmp_path: Path) -> None:
    """Who is signed in is so after a restart, with the same word for the page; who signed out is not."""
    store = f"sqlite:///{tmp_path / 'store.db'}"
    async with running(tmp_path, store=store) as server:
        stays, leaves = await signed_in(server), await signed_in(server)
        await leaves.ask("DELETE", "/v1/session")
    async with running(tmp_path, store=store) as server:
        again = Tab(server, stays.cookie, stays.told, server.url)
        assert (await again.ask("GET", "/v1/session")).json() == stays.told
        assert (await again.ask("POST", "/v1/stop", {})).status_code == 200
        refused(await plain(server, "GET", "/v1/session", Cookie=leaves.cookie), 401, "unauthenticated")


async def test_two_tabs_are_one_browser_and_two_browsers_are_not(server: Server) -> None:
    """Tabs share the cookie and the page's word, and are signed out together; another browser has its own."""
    one, other = await signed_in(server), await signed_in(server)
    assert one.cookie != other.cookie
    assert one.told["csrf"] != other.told["csrf"]
    tab = Tab(server, one.cookie, (await one.ask("GET", "/v1/session")).json(), server.url)
    assert (await tab.ask("POST", "/v1/stop", {})).status_code == 200
    refused(await one.ask("POST", "/v1/stop", {}, X_CSRF_Token=other.told["csrf"]), 403, "forbidden")
    await tab.ask("DELETE", "/v1/session")
    refused(await one.ask("GET", "/v1/tasks"), 401, "unauthenticated")
    assert (await other.ask("GET", "/v1/tasks")).status_code == 200


async def test_signing_in_again_ends_what_the_browser_had(server: Server) -> None:
    """And never takes over a secret that it came with: that one may be known to another (session fixation)."""
    before = await signed_in(server)
    chosen = "cc_session=" + "A" * 43
    for cookie in (before.cookie, chosen, f"{before.cookie}; {chosen}"):
        after = await signed_in(server, Cookie=cookie)
        assert after.cookie not in (before.cookie, chosen)
        refused(await plain(server, "GET", "/v1/session", Cookie=chosen), 401, "unauthenticated")
    refused(await before.ask("GET", "/v1/session"), 401, "unauthenticated")


@in_one_loop
async def test_of_two_cookies_of_our_name_neither_counts(shared: Server) -> None:
    """Another program of this host, on another port, can set one: then nobody can tell which is ours."""
    mine, theirs = await signed_in(shared), await signed_in(shared, await shared.person("mallory"))
    for cookie in (f"{mine.cookie}; {theirs.cookie}", f"{theirs.cookie}; {mine.cookie}"):
        refused(await plain(shared, "GET", "/v1/tasks", Cookie=cookie), 401, "unauthenticated")
    assert (await plain(shared, "GET", "/v1/tasks", Cookie=f"theme=dark; {mine.cookie}; a")).status_code == 200


# -- who may -----------------------------------------------------------------------------


@in_one_loop
async def test_only_a_persons_token_signs_in(shared: Server) -> None:
    """A program decides nothing and a computer is no person; a body that does not fit says so."""
    agent = (await shared.ask("POST", "/v1/tokens", {"kind": "agent", "name": "bot", "roles": ["submitter"]})).json()
    machine = await shared.computer("77")
    origin = {"Origin": shared.url}
    refused(await plain(shared, "POST", "/v1/session", {"token": agent["token"]}, **origin), 403, "forbidden")
    refused(await plain(shared, "POST", "/v1/session", {"token": machine}, **origin), 401, "unauthenticated")
    for body in ({}, {"token": ""}, {"token": 1}, {"token": "x" * 201}, {"token": "x", "name": "admin"}):
        refused(await plain(shared, "POST", "/v1/session", body, **origin), 422, "invalid_request")
    answer = await plain(shared, "POST", "/v1/session", {"token": "nonsense"}, **origin)
    refused(answer, 401, "unauthenticated")
    assert "set-cookie" not in answer.headers


async def test_guessing_tokens_is_bounded(server: Server) -> None:
    """Ten wrong ones a minute from one address; right ones do not count, and are taken."""
    for _ in range(3):
        await signed_in(server)
    tries = [
        await plain(server, "POST", "/v1/session", {"token": f"ccp_{number}"}, Origin=server.url)
        for number in range(WRONG_TRIES + 2)
    ]
    assert [one.status_code for one in tries] == [401] * WRONG_TRIES + [429] * 2
    refused(tries[-1], 429, "too_many_tries")
    # Others may be behind the same address, and nobody guesses 256 bits.
    await signed_in(server)
    assert (await server.ask("GET", "/v1/tasks")).status_code == 200
    wrong = [one.fact for one in await noted(server) if isinstance(one.fact, AttemptRefused)]
    assert [(one.door, one.status, one.more) for one in wrong] == [
        ("POST /v1/session", 401, 0),
        ("POST /v1/session", 401, 9),
    ]


@pytest.mark.parametrize(
    "said", ["<script>alert(1)</script>", "x" * 9000, "fe80::1%" + "y" * 9000, "\x9b31m", "10.0.0.1"]
)
async def test_what_a_proxy_says_that_is_no_address_is_none(tmp_path: Path, said: str) -> None:
    """It is kept for good."""
    async with running(tmp_path, proxies="::1, 127.0.0.0/8") as server:
        answer = await plain(
            server, "POST", "/v1/session", {"token": server.admin}, Origin=server.url, X_Forwarded_For=said
        )
        assert answer.status_code == 201
        (begun,) = await noted(server)
        assert begun.fact.peer == {"1": "10.0.0.1", "f": "fe80::1"}.get(said[0], "")


@pytest.mark.parametrize("proxies", ["", "10.0.0.1"])
async def test_who_is_no_configured_proxy_says_nothing_about_its_address(tmp_path: Path, proxies: str) -> None:
    """Or each wrong token would come from an address of its own."""
    async with running(tmp_path, proxies=proxies) as server:
        statuses = []
        for number in range(WRONG_TRIES + 1):
            said = {"X_Forwarded_For": f"10.1.0.{number}", "X_Forwarded_Proto": "https"}
            answer = await plain(server, "POST", "/v1/session", {"token": "wrong"}, Origin=server.url, **said)
            statuses.append(answer.status_code)
        assert statuses == [401] * WRONG_TRIES + [429]
        said = {"X_Forwarded_For": "10.1.0.99"}
        answer = await plain(server, "POST", "/v1/session", {"token": server.admin}, Origin=server.url, **said)
        assert "Secure" not in answer.headers["set-cookie"]
        assert (await noted(server))[-1].fact.peer == "127.0.0.1"


async def test_a_page_that_asks_who_is_signed_in_is_no_attempt(server: Server) -> None:
    """A wrong cookie is one."""
    refused(await plain(server, "GET", "/v1/session"), 401, "unauthenticated")
    assert await noted(server) == []
    refused(await plain(server, "GET", "/v1/session", Cookie="cc_session=" + "A" * 43), 401, "unauthenticated")
    assert len(await noted(server)) == 1


async def test_rights_are_those_of_the_token_now(server: Server) -> None:
    """A browser may what its person may, and no more."""
    bob = await signed_in(server, await server.person("bob", "submitter"))
    refused(await bob.ask("GET", "/v1/tokens"), 403, "forbidden")
    refused(
        await bob.ask("POST", "/v1/tokens", {"kind": "person", "name": "eve", "roles": ["admin"]}), 403, "forbidden"
    )
    admin = await signed_in(server)
    rows = (await admin.ask("GET", "/v1/tokens")).json()["tokens"]
    assert [(one["name"], one["yours"]) for one in rows] == [("admin", True), ("bob", False)]


# -- whose page asks ---------------------------------------------------------------------

OTHERS = [
    ELSEWHERE,
    "null",
    "",
    "http://127.0.0.1",
    "http://127.0.0.1:1",
    "https://127.0.0.1:{port}",
    "http://localhost:{port}",
    "http://evil.127.0.0.1:{port}",
    "http://127.0.0.1.evil.example:{port}",
    "http://127.0.0.1:{port}@evil.example",
    "http://127.0.0.1:{port}/",
    "http://127.0.0.1:{port} http://evil.example",
    "file://",
]


@in_one_loop
@pytest.mark.parametrize("other", OTHERS)
async def test_no_other_page_can_ask(shared: Server, other: str) -> None:
    """Another site, scheme, port, name or nobody's page: whatever else it shows, nothing is done and nothing told."""
    tab = await signed_in(shared)
    origin = other.format(port=shared.url.rpartition(":")[2])
    for method, path in (("POST", "/v1/stop"), ("DELETE", "/v1/session"), ("GET", "/v1/tasks"), ("GET", "/v1/session")):
        error = refused(await tab.ask(method, path, Origin=origin, Sec_Fetch_Site="same-origin"), 403, "forbidden")
        assert "another site" in error["message"]
    answer = await plain(shared, "POST", "/v1/session", {"token": shared.admin}, Origin=origin)
    refused(answer, 403, "forbidden")
    assert "set-cookie" not in answer.headers
    with pytest.raises(InvalidStatus) as denied:
        async with tab.reviewing(origin or "null"):
            pass
    assert denied.value.response.status_code == 403
    assert (await tab.ask("GET", "/v1/session")).status_code == 200


@in_one_loop
@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", "", "same-origin, same-origin", "SAME-ORIGIN"])
async def test_without_an_origin_the_browser_has_to_say_that_it_is_our_page(shared: Server, site: str) -> None:
    """A GET that a person typed is theirs (``none``); of what changes something nothing less will do."""
    tab = await signed_in(shared)
    refused(await tab.ask("POST", "/v1/stop", {}, Origin=None, Sec_Fetch_Site=site), 403, "forbidden")
    typed = await tab.ask("GET", "/v1/tasks", Sec_Fetch_Site=site)
    assert typed.status_code == (200 if site == "none" else 403)


@in_one_loop
async def test_our_own_page_may(shared: Server) -> None:
    """By its origin, or by what the browser says instead of it; without either nothing is changed."""
    tab = await signed_in(shared)
    assert (await tab.ask("POST", "/v1/stop", {}, Origin=None, Sec_Fetch_Site="same-origin")).status_code == 200
    assert (await tab.ask("POST", "/v1/stop", {}, Origin=shared.url.upper().replace("HTTP", "http"))).status_code == 200
    assert (await tab.ask("GET", "/v1/tasks", Sec_Fetch_Site="same-origin")).status_code == 200
    assert (await tab.ask("GET", "/v1/tasks", Origin=shared.url)).status_code == 200
    refused(await tab.ask("POST", "/v1/stop", {}, Origin=None), 403, "forbidden")
    refused(await plain(shared, "POST", "/v1/session", {"token": shared.admin}), 403, "forbidden")


@in_one_loop
async def test_two_origins_are_none(shared: Server) -> None:
    """A proxy that reads the first and a server that reads the last would be of two minds."""
    tab = await signed_in(shared)
    twice = [("Cookie", tab.cookie), ("Origin", shared.url), ("Origin", ELSEWHERE), ("X-CSRF-Token", tab.told["csrf"])]
    answer = await shared.http.request("POST", "/v1/stop", headers=twice)
    refused(answer, 403, "forbidden")


@in_one_loop
async def test_what_changes_something_needs_the_pages_word(shared: Server) -> None:
    """A form or a fetch without CORS cannot send it, even from our own origin; a wrong one is none."""
    tab = await signed_in(shared)
    for method, path in (("POST", "/v1/stop"), ("DELETE", "/v1/grants/g-1"), ("DELETE", "/v1/session")):
        for word in (None, "", "x", tab.told["csrf"][:-1], tab.told["csrf"] + "0", tab.told["csrf"].upper(), "\u00e9"):
            error = refused(await tab.ask(method, path, X_CSRF_Token=word), 403, "forbidden")
            assert "X-CSRF-Token" in error["message"]
    form = {"Content_Type": "application/x-www-form-urlencoded", "Cookie": tab.cookie}
    for origin in ({"Origin": "null"}, {"Origin": ELSEWHERE}, {"Origin": shared.url}):
        answer = await plain(shared, "POST", "/v1/stop", b'{"reason":"x"}', **form, **origin)
        refused(answer, 403, "forbidden")
    text = {"Content_Type": "text/plain", "Origin": ELSEWHERE}
    refused(await plain(shared, "POST", "/v1/session", b'{"token":"x"}', **text), 403, "forbidden")
    options = await plain(shared, "OPTIONS", "/v1/stop", Origin=ELSEWHERE, Access_Control_Request_Method="POST")
    assert not [name for name in options.headers if name.startswith("access-control")]


@in_one_loop
@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "localhost.", "localhost.evil.example",
     "192.168.1.5:{port}", "[2001:db8::1]", "127.0.0.1:{port}, evil.example", "user@127.0.0.1", "127.0.0.1:x", ""],
)  # fmt: skip
async def test_a_name_that_is_not_ours_opens_nothing_to_a_browser(shared: Server, host: str) -> None:
    """DNS rebinding: a page whose own name leads here says that name, and its origin fits it."""
    tab = await signed_in(shared)
    named = host.format(port=shared.url.rpartition(":")[2])
    sent = {"Host": named, "Origin": f"http://{named}"}
    for method, path in (("GET", "/v1/tasks"), ("POST", "/v1/stop"), ("GET", "/v1/watch"), ("GET", "/v1/session")):
        refused(await tab.ask(method, path, **sent), 403, "forbidden")
    refused(await plain(shared, "POST", "/v1/session", {"token": shared.admin}, **sent), 403, "forbidden")
    for path in ("/", "/console/app.js"):
        refused(await plain(shared, "GET", path, Accept="text/html", **sent), 403, "forbidden")
    assert (await shared.ask("GET", "/v1/tasks", Host=named)).status_code == 200


@in_one_loop
async def test_two_names_are_none(shared: Server) -> None:
    """A browser sends one; nothing in between may take the other."""
    tab = await signed_in(shared)
    name = shared.url.removeprefix("http://")
    for hosts in ((name, "evil.example"), ("evil.example", name)):
        lines = (f"Cookie: {tab.cookie}", *(f"Host: {host}" for host in hosts))
        answer = await as_it_stands(shared, "GET /v1/tasks HTTP/1.1", *lines)
        assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 ")), answer
    none = await as_it_stands(shared, "GET /v1/tasks HTTP/1.0", f"Cookie: {tab.cookie}")
    assert none.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 ")), none


@in_one_loop
@pytest.mark.parametrize("host", ["localhost", "localhost:1234", "LOCALHOST", "127.0.0.1", "127.9.9.9:1", "[::1]:8765"])
async def test_every_name_of_this_host_itself_is_ours(shared: Server, host: str) -> None:
    """On any port: a tunnel may have another."""
    tab = await signed_in(shared, Host=host, Origin=f"http://{host.lower()}")
    assert (await tab.ask("POST", "/v1/stop", {}, Host=host)).status_code == 200


# -- tokens and cookies at once ----------------------------------------------------------


@in_one_loop
async def test_a_token_in_the_header_is_judged_alone(shared: Server) -> None:
    """Whatever cookie comes with it neither helps nor hurts."""
    tab = await signed_in(shared)
    bob = await shared.person("bob", "submitter")
    for wrong in ("Bearer nonsense", "Basic YTpi", "", "Bearer"):
        refused(await tab.ask("GET", "/v1/tasks", Authorization=wrong), 401, "unauthenticated")
    refused(await tab.ask("GET", "/v1/tokens", Authorization=f"Bearer {bob}"), 403, "forbidden")
    other = {"Authorization": f"Bearer {shared.admin}", "Origin": ELSEWHERE, "X_CSRF_Token": "", "Host": "evil.example"}
    assert (await tab.ask("POST", "/v1/stop", {}, **other)).status_code == 200
    refused(await tab.ask("GET", "/v1/session", Authorization=f"Bearer {shared.admin}"), 401, "unauthenticated")
    assert (await tab.ask("GET", "/v1/session")).json()["name"] == "admin"


# -- https -------------------------------------------------------------------------------


async def test_by_https_the_cookie_is_the_hosts_own(tmp_path: Path) -> None:
    """Behind a proxy that says so: ``__Host-`` and ``Secure``; the other cookie does not count there."""
    async with running(tmp_path, model=Writing(), proxies="127.0.0.1") as server:
        await by_https(server)


async def by_https(shared: Server) -> None:
    """Sign in and look around through a proxy."""
    origin, proxied = shared.url.replace("http", "https", 1), {"X_Forwarded_Proto": "https"}
    answer = await plain(shared, "POST", "/v1/session", {"token": shared.admin}, Origin=origin, **proxied)
    assert answer.status_code == 201
    assert re.fullmatch(
        r"__Host-cc_session=[A-Za-z0-9_-]{43}; HttpOnly; Max-Age=7776000; Path=/; SameSite=strict; Secure",
        answer.headers["set-cookie"],
    )
    secure = answer.headers["set-cookie"].partition(";")[0]
    tab = Tab(shared, secure, answer.json(), origin)
    assert (await tab.ask("POST", "/v1/stop", {}, **proxied)).status_code == 200
    async with tab.reviewing(**proxied) as socket:
        assert "snapshot" in str(await within(socket.recv()))
    with pytest.raises(InvalidStatus):
        async with tab.reviewing(shared.url, **proxied):
            pass
    refused(await tab.ask("POST", "/v1/stop", {}, Origin=shared.url, **proxied), 403, "forbidden")
    refused(await tab.ask("GET", "/v1/session"), 401, "unauthenticated")
    bare = secure.removeprefix("__Host-")
    refused(await plain(shared, "GET", "/v1/session", Cookie=bare, **proxied), 401, "unauthenticated")


async def test_the_public_url_is_a_name_and_an_origin_of_ours(tmp_path: Path) -> None:
    """Also behind a proxy that tells neither the name nor the scheme that it was asked under."""
    async with running(tmp_path, public_url="https://Game.example") as server:
        for host in ("game.example", "127.0.0.1"):
            tab = await signed_in(server, Host=host, Origin="https://game.example")
            assert tab.cookie.startswith("__Host-cc_session=")
            assert (await tab.ask("POST", "/v1/stop", {}, Host=host)).status_code == 200
            async with tab.reviewing() as socket:
                assert "snapshot" in str(await within(socket.recv()))
        refused(await tab.ask("GET", "/v1/tasks", Host="sub.game.example"), 403, "forbidden")
        refused(await tab.ask("POST", "/v1/stop", {}, Origin="http://game.example"), 403, "forbidden")


async def test_who_listens_everywhere_is_reached_by_any_address(tmp_path: Path) -> None:
    """A number cannot be led elsewhere; a name can."""
    async with running(tmp_path, host="0.0.0.0", insecure_bind=True) as server:
        server.url = server.url.replace("0.0.0.0", "127.0.0.1")
        tab = await signed_in(server, Host="192.168.1.5:8765", Origin="http://192.168.1.5:8765")
        assert (await tab.ask("GET", "/v1/tasks", Host="192.168.1.5:8765")).status_code == 200
        refused(await tab.ask("GET", "/v1/tasks", Host="game.example"), 403, "forbidden")


# -- how long ----------------------------------------------------------------------------


async def test_a_revoked_token_ends_its_browsers_at_once(server: Server) -> None:
    """And their sockets; those of another person, and of another token, go on."""
    token = await server.person("bob", "submitter", "reviewer")
    bob, admin = await signed_in(server, token), await signed_in(server)
    async with bob.reviewing() as socket, admin.reviewing() as other:
        for one in (socket, other):
            assert "snapshot" in str(await within(one.recv()))
        assert (await admin.ask("DELETE", "/v1/tokens/person/bob")).json() == {"revoked": 1}
        with pytest.raises(ConnectionClosed):
            await within(socket.recv())
        assert socket.close_code == 1008
        error = refused(await bob.ask("GET", "/v1/session"), 401, "unauthenticated")
        assert "revoked" in error["message"]
        with pytest.raises(InvalidStatus):
            async with bob.reviewing():
                pass
        assert other.close_code is None
    again = await signed_in(server, await server.person("bob"))
    refused(await bob.ask("GET", "/v1/session"), 401, "unauthenticated")
    assert (await again.ask("GET", "/v1/session")).status_code == 200


async def test_signing_out_ends_the_sockets_of_that_browser_alone(server: Server) -> None:
    """A script with the token goes on too."""
    one, other = await signed_in(server), await signed_in(server)
    async with one.reviewing() as socket, other.reviewing() as stays:
        for each in (socket, stays):
            await within(each.recv())
        await one.ask("DELETE", "/v1/session")
        with pytest.raises(ConnectionClosed):
            await within(socket.recv())
        assert (socket.close_code, socket.close_reason) == (1008, "the browser was signed out")
        assert stays.close_code is None
    assert (await server.ask("GET", "/v1/tasks")).status_code == 200


async def test_who_is_away_for_too_long_is_signed_out(server: Server, clock: ManualClock) -> None:
    """30 days after the last use, and never again when the clock goes back; each use begins them anew."""
    tab = await signed_in(server)
    for _ in range(2):
        clock.advance((UNUSED - timedelta(minutes=1)).total_seconds())
        assert (await tab.ask("GET", "/v1/tasks")).status_code == 200
    ends = datetime.fromisoformat((await tab.ask("GET", "/v1/session")).json()["expires_at"])
    assert ends == clock.now() + UNUSED
    clock.advance(UNUSED.total_seconds())
    refused(await tab.ask("GET", "/v1/tasks"), 401, "unauthenticated")
    clock.advance(-2 * UNUSED.total_seconds())
    refused(await tab.ask("GET", "/v1/tasks"), 401, "unauthenticated")


async def test_no_sign_in_lasts_longer_than_its_longest(server: Server, clock: ManualClock) -> None:
    """90 days after it began, however it was used; and its sockets end with it."""
    tab = await signed_in(server)
    begun = clock.now()
    for days in (25, 50, 75):
        clock.advance((begun + timedelta(days=days) - clock.now()).total_seconds())
        told = (await tab.ask("GET", "/v1/session")).json()
    assert datetime.fromisoformat(told["expires_at"]) == begun + LONGEST
    async with tab.reviewing() as socket:
        await within(socket.recv())
        clock.advance(timedelta(days=15).total_seconds())
        with pytest.raises(ConnectionClosed):
            await within(socket.recv())
        assert socket.close_code == 1008
    refused(await tab.ask("GET", "/v1/tasks"), 401, "unauthenticated")


async def test_a_clock_that_goes_back_signs_nobody_out_and_keeps_nobody(server: Server, clock: ManualClock) -> None:
    """A little is nothing; of a sign-in that begins far from now the clock was wrong, and it would last too long."""
    tab = await signed_in(server)
    clock.advance(-3600)
    assert (await tab.ask("GET", "/v1/tasks")).status_code == 200
    clock.advance(-timedelta(days=365).total_seconds())
    refused(await tab.ask("GET", "/v1/tasks"), 401, "unauthenticated")
    clock.advance(timedelta(days=366).total_seconds())
    refused(await tab.ask("GET", "/v1/tasks"), 401, "unauthenticated")


async def test_a_use_is_kept_once_an_hour(server: Server, clock: ManualClock) -> None:
    """Reading costs no write each time."""
    tab = await signed_in(server)
    (row,) = await server.orchestrator.store.list_sign_ins()
    clock.advance((USE_EVERY - timedelta(seconds=1)).total_seconds())
    await tab.ask("GET", "/v1/tasks")
    assert await server.orchestrator.store.list_sign_ins() == [row]
    clock.advance(1)
    await tab.ask("GET", "/v1/tasks")
    (used,) = await server.orchestrator.store.list_sign_ins()
    assert used.used_at == clock.now()


async def test_the_oldest_of_too_many_goes(server: Server, clock: ManualClock) -> None:
    """Of one person; what went ends at once, and the audit says what made it go. What is over is cleared away."""
    bob = await signed_in(server, await server.person("bob"))
    tabs = []
    for _ in range(MOST):
        clock.advance(1)
        tabs.append(await signed_in(server))
    async with tabs[0].reviewing() as socket:
        await within(socket.recv())
        newest = await signed_in(server)
        with pytest.raises(ConnectionClosed):
            await within(socket.recv())
    refused(await tabs[0].ask("GET", "/v1/session"), 401, "unauthenticated")
    for tab in (tabs[1], newest, bob):
        assert (await tab.ask("GET", "/v1/session")).status_code == 200
    begun = [one.fact for one in await noted(server) if isinstance(one.fact, SignedIn)]
    assert begun[-1].replaced == (begun[1].fingerprint,)
    assert (await server.ask("GET", "/v1/audit/verify")).json()["faults"] == []
    clock.advance(UNUSED.total_seconds())
    await signed_in(server)
    assert len(await server.orchestrator.store.list_sign_ins()) == 1


async def test_a_row_that_somebody_changed_shows_in_the_audit(tmp_path: Path) -> None:
    """Who can write the file could sign in as the admin: not without a trace."""
    store = tmp_path / "store.db"
    async with running(tmp_path, store=f"sqlite:///{store}") as server:
        bob = await signed_in(server, await server.person("bob"))
        await signed_in(server)
        assert (await server.ask("GET", "/v1/audit/verify")).json()["faults"] == []
        with closing(sqlite3.connect(store)) as connection, connection:
            stolen = "SELECT token_hash, name FROM sign_ins WHERE name = 'admin'"
            connection.execute(f"UPDATE sign_ins SET (token_hash, name) = ({stolen}) WHERE name = 'bob'")
        assert (await bob.ask("GET", "/v1/session")).json()["name"] == "admin"
        faults = (await server.ask("GET", "/v1/audit/verify")).json()["faults"]
        assert [(one["what"], one["detail"]) for one in faults] == [
            ("token", "A sign-in of bob is one of admin in the table."),
            ("token", "A sign-in of bob is bound to another token in the table than the one that it came with."),
        ]


# -- the reviewers' socket ---------------------------------------------------------------


async def test_the_reviewers_socket_takes_our_page_only(server: Server) -> None:
    """By its origin, which a browser always says; without one, or with a cookie of nobody's, it stays shut."""
    tab = await signed_in(server)
    async with tab.reviewing() as socket:
        assert "snapshot" in str(await within(socket.recv()))
    shut: list[tuple[Tab, str | None, int]] = [
        (tab, None, 403),
        (tab, ELSEWHERE, 403),
        (Tab(server, "cc_session=" + "A" * 43, tab.told, server.url), "", 401),
        (Tab(server, "theme=dark", tab.told, server.url), "", 401),
    ]
    for one, origin, status in shut:
        with pytest.raises(InvalidStatus) as denied:
            async with one.reviewing(origin, Sec_Fetch_Site="same-origin"):
                pass
        assert denied.value.response.status_code == status
    wrong = [one for one in await noted(server) if isinstance(one.fact, AttemptRefused)]
    assert [(one.actor.id, one.fact.door, one.fact.status) for one in wrong] == [
        ("admin", "WEBSOCKET /reviewer", 403),
        ("", "WEBSOCKET /reviewer", 401),
    ]


async def test_a_browser_is_no_computer(server: Server) -> None:
    """Whoever is signed in."""
    tab = await signed_in(server)
    answer = await tab.ask("GET", "/computer", Connection="Upgrade", Upgrade="websocket")
    assert answer.status_code in (400, 401, 426)
    assert len(await asyncio.gather(*(tab.ask("GET", "/v1/tasks") for _ in range(20)))) == 20
