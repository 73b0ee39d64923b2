"""The endpoints by which people sign in with a provider of their own: ``/v1/session/oidc`` and its callback.

Theory. All that a sign-in needs until the browser comes back is one secret in a cookie of this browser, for ten
minutes: state, nonce and the verifier of PKCE follow from it, so that any node can take the browser back, and the
callback of one browser is worth nothing in another one. The address that the browser is led to afterwards is fixed.

A person has a token row, as everybody has, and their browsers are bound to it. No text has the hash of this row, so it
is a token that nobody can show. The row also says which account of the provider it belongs to: the provider's name for
an account may change hands, its ``sub`` never. So a name belongs to the account that came with it first, an account
keeps its name, and a name that an admin gave to somebody belongs to no account. Roles are those of the last sign-in:
when they change, all tokens of the person end.
"""

import asyncio
import base64
import hashlib
import hmac
import html
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from orchestrator.core.approval.people import Group
from orchestrator.core.errors import Forbidden, InvalidRequest, NotFound, OrchestratorError, Unauthenticated
from orchestrator.core.ports import Identity, TokenRow
from orchestrator.core.task.items import Actor
from orchestrator.core.task.system_facts import DirectoryChanged, GroupValue, TokenIssued
from orchestrator.core.text.visible import one_line
from orchestrator.engine.directory import DirectoryKeeper
from orchestrator.web.auth import BY_PROVIDER, check_name, check_unlike
from orchestrator.web.browsers import cookie_of
from orchestrator.web.computers import peer_of
from orchestrator.web.errors import HEADERS, refused
from orchestrator.web.peers import Attempts, counted_as
from orchestrator.web.people import PeopleEndpoints
from orchestrator.web.session import SessionEndpoints

ATTEMPT_LIFE: Final = timedelta(minutes=10)
"""The time that somebody has at the provider's page."""
AT_ONCE: Final = 8
"""Codes that are exchanged at the same time."""
MOST_CHARS: Final = 4096
"""Of a code; it has fifty or so."""
PROVIDER: Final = Actor(kind="system", id="oidc", auth="provider")
"""The author of the items that a provider's word causes."""
_COOKIE: Final = "cc_oidc"
_ATTEMPT: Final = re.compile(r"([A-Za-z0-9_-]{43})\.([0-9]{1,12})")
_CALLBACK: Final = "/v1/session/oidc/callback"
_NAMING: Final = "oidc"
"""The singleton job that changes a person's row: of two sign-ins at two nodes, one comes after the other."""
_NAMING_S: Final = 10.0


class ProviderAway(OrchestratorError):
    """The provider cannot be reached, or does not answer as a provider does."""

    code = "provider_away"
    http_status = 502


class SignInRefused(Unauthenticated):
    """A sign-in with a provider that cannot be believed."""

    code = "sign_in_refused"

    def __init__(self, message: str, *, remedy: str = "Sign in again.") -> None:
        super().__init__(message, remedy=remedy)


@dataclass(frozen=True)
class Attempt:
    """A sign-in that a browser began: its secret, and when that was, in seconds."""

    secret: str
    begun: int

    def __str__(self) -> str:
        return f"{self.secret}.{self.begun}"

    @property
    def state(self) -> str:
        """What the callback has to name."""
        return self._derived("state")

    @property
    def nonce(self) -> str:
        """What the ``id_token`` has to name."""
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        """What only the server that began can show with the code (PKCE)."""
        return self._derived("verifier")

    def _derived(self, what: str) -> str:
        made = hmac.digest(self.secret.encode(), f"{what} {self.begun}".encode(), "sha256")
        return base64.urlsafe_b64encode(made).rstrip(b"=").decode()


class Provider(Protocol):
    """A provider, as the endpoints need it."""

    name: str
    """Its name for people."""

    async def address(self, attempt: Attempt, back: str) -> str:
        """The address of its page; ``back``: where it sends the browser afterwards. Raises ProviderAway."""

    async def claims(self, code: str, attempt: Attempt, back: str, *, issuer: str, now: datetime) -> Mapping[str, Any]:
        """The claims about a person. Raises ProviderAway, SignInRefused."""


@dataclass(frozen=True)
class Account:
    """A person as the claims name them."""

    name: str
    subject: str
    """The account, as its issuer and ``sub`` make it; nobody else ever has it."""
    roles: tuple[str, ...]
    groups: frozenset[str]


@dataclass(frozen=True)
class ClaimRules:
    """What the claims of a person mean here, as the settings have it."""

    name_claim: str
    roles_claim: str
    roles: Mapping[str, Collection[str]] = field(default_factory=dict)
    groups: Mapping[str, Collection[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises InvalidRequest for a group that cannot be one."""
        for group in self.all_groups:
            check_name(group)

    @property
    def all_groups(self) -> frozenset[str]:
        """The groups in which the provider's word counts."""
        return frozenset(one for listed in self.groups.values() for one in listed)

    def account(self, claims: Mapping[str, Any], known: Collection[str]) -> Account:
        """The account of these claims; ``known``: the roles that there are. Raises Forbidden."""
        name = _claim(claims, self.name_claim)
        try:
            check_name(name if isinstance(name, str) else "")
        except InvalidRequest as error:
            raise Forbidden(
                f"Your provider's name for you cannot be a name here. {error.message}",
                remedy=f"{error.remedy} An admin may choose another claim with oidc_name_claim.",
            ) from None
        told = _claim(claims, self.roles_claim)
        held = {one for one in (told if isinstance(told, list) else [told]) if isinstance(one, str)}
        roles = {role for value, listed in self.roles.items() if value in held for role in listed}
        groups = {group for value, listed in self.groups.items() if value in held for group in listed}
        subject = hashlib.sha256(f"{claims['iss']}\n{claims['sub']}".encode()).hexdigest()[:32]
        return Account(str(name), subject, tuple(sorted(roles & set(known))), frozenset(groups))


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its name, or by a path such as ``realm_access.roles``; None: there is none."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


class ProviderEndpoints(SessionEndpoints, PeopleEndpoints):
    """``/v1/session/oidc``."""

    provider: Provider | None
    claim_rules: ClaimRules
    directory: DirectoryKeeper
    attempts: Attempts
    exchanging: asyncio.Semaphore
    naming: asyncio.Lock

    async def oidc(self, request: Request) -> Response:
        """``GET /v1/session/oidc``: lead the browser to the provider's page."""
        attempt = Attempt(secrets.token_urlsafe(32), int(self.service.clock.now().timestamp()))
        try:
            provider = self._provider()
            self.browsers.place.check_host(request)
            self.browsers.place.check_origin(request)
            answer: Response = RedirectResponse(await provider.address(attempt, self._back(request)), 303)
        except OrchestratorError as error:
            return await self._not_signed_in(request, error)
        self._keep(request, answer, str(attempt))
        return answer

    async def oidc_callback(self, request: Request) -> Response:
        """``GET /v1/session/oidc/callback``: the browser comes back, and is signed in as the provider says."""
        try:
            provider = self._provider()
            self.browsers.place.check_host(request)
            identity = await self._identity(request, provider)
            await self._leave(request)
            secret, _, gone = await self.browsers.sign_in(identity, peer_of(request))
        except OrchestratorError as error:
            return await self._not_signed_in(request, error)
        for row in gone:
            await self.sockets.hang_up_session(row.session_hash)
        answer = RedirectResponse("/", 303)
        self.browsers.set_cookie(request, answer, secret)
        self._keep(request, answer, "")
        return answer

    def _provider(self) -> Provider:
        if self.provider is None:
            raise NotFound(
                "No provider is set up here.", remedy="Sign in with a token. An admin sets oidc_issuer: docs/people.md."
            )
        return self.provider

    def _back(self, request: Request) -> str:
        return self.browsers.place.address(request) + _CALLBACK

    async def _identity(self, request: Request, provider: Provider) -> Identity:
        """The person whom the provider signed in. Raises what says why there is none."""
        try:
            attempt, told = self._attempt(request), request.query_params
            if told.get("error"):
                shown = re.sub(r"[^a-z_]", "", told["error"])[:40]
                raise SignInRefused(f"The provider did not sign you in ({shown}).")
            if not 0 < len(told.get("code", "")) <= MOST_CHARS:
                raise SignInRefused("The provider sent you back without a code.")
            async with self.exchanging:
                claims = await provider.claims(
                    told["code"],
                    attempt,
                    self._back(request),
                    issuer=told.get("iss", ""),
                    now=self.service.clock.now(),
                )
        except Unauthenticated:
            self.token_tries.count(counted_as(peer_of(request)), asyncio.get_running_loop().time())
            raise
        account = self.claim_rules.account(claims, self.authorizer.role_names())
        async with self.naming, self.service.duties.held(_NAMING, _NAMING_S):
            row = await self._token_row(account)
            await self._set_groups(account)
        if not account.roles:
            raise _no_role(account)
        return Identity(kind="person", name=row.name, roles=row.rights, auth="oidc", token_hash=row.token_hash)

    def _attempt(self, request: Request) -> Attempt:
        """The attempt that this very browser began. Raises SignInRefused."""
        kept = _ATTEMPT.fullmatch(cookie_of(request, self._cookie(request)) or "")
        attempt = Attempt(kept[1], int(kept[2])) if kept else None
        age = self.service.clock.now().timestamp() - attempt.begun if attempt else 0.0
        if attempt is None or not -60 <= age <= ATTEMPT_LIFE.total_seconds():
            raise SignInRefused(
                "This sign-in was not begun in this browser, or it took more than ten minutes.",
                remedy=f"Open {self.browsers.place.address(request)} and sign in again.",
            )
        states = request.query_params.getlist("state")
        if len(states) != 1 or not hmac.compare_digest(states[0].encode(), attempt.state.encode()):
            raise SignInRefused("The answer belongs to another sign-in than the one that this browser began.")
        return attempt

    # -- the person's row and groups -----------------------------------------------------

    async def _token_row(self, account: Account) -> TokenRow:
        """The token row of an account, with the roles of now. Raises Forbidden."""
        rows = [one for one in await self.service.store.list_tokens() if one.kind == "person"]
        mark = f"{BY_PROVIDER}{account.subject}:"
        self._check_name(account, rows, mark)
        await self._check_unlike(account.name)
        live = [one for one in rows if one.name == account.name and not one.revoked]
        same = all(set(one.rights) == set(account.roles) for one in live)
        if not live and not account.roles:
            raise _no_role(account)
        found = [one for one in live if same and one.token_hash.startswith(mark)]
        if found:
            return found[0]
        # Without roles, too: so a person whom an admin revoked differs from one whom the provider gives no role now.
        at = self.service.clock.now()
        row = TokenRow(mark + secrets.token_hex(16), "person", account.name, account.roles, created_at=at)
        issued = TokenIssued(holder_kind="person", name=account.name, roles=account.roles)
        note = self.service.draft(issued, PROVIDER)
        if same:
            await self.service.store.add_token(row, note=note)
            await self.people_changed()
        else:
            # In one write: somebody who was only revoked would stay outside, as by an admin's word.
            await self.revoke_person(account.name, PROVIDER, programs=not account.roles, then=(row, note))
        return row

    def _check_name(self, account: Account, rows: Collection[TokenRow], mark: str) -> None:
        """Raises Forbidden unless the name is the account's, or nobody's yet."""
        own = {one.name for one in rows if one.token_hash.startswith(mark)}
        named = [one for one in rows if one.name == account.name]
        if own and own != {account.name}:
            raise Forbidden(
                f"Your account came here as {min(own)} before, and your provider calls it {account.name} now.",
                remedy="An account keeps its name: have it changed back at your provider, or ask an admin for a token.",
            )
        if named and not own:
            raise Forbidden(
                f"The name {account.name} belongs to somebody else here.",
                remedy="If that is you, sign in with your token; else have your name changed at your provider.",
            )
        if named and all(one.revoked for one in named):
            raise Forbidden(
                f"An admin has revoked {account.name}.",
                remedy=f"`cc-orchestrator people add {account.name} --role ROLE` by an admin lets you in again.",
            )

    async def _check_unlike(self, name: str) -> None:
        try:
            await check_unlike(self.service.store, "person", name)
        except InvalidRequest as error:
            raise Forbidden(error.message, remedy="Have your name changed at your provider, or ask an admin.") from None

    async def _set_groups(self, account: Account) -> None:
        """Put a person into the groups that the provider names, and out of the others that it might name.

        Raises Conflict where an admin changes one of them at this moment.
        """
        await self.directory.load()
        for name in sorted(self.claim_rules.all_groups):
            group = self.directory.present.groups.get(name, Group())
            people = group.people - {account.name} | ({account.name} if name in account.groups else set())
            if people == group.people:
                continue
            value = GroupValue(people=tuple(sorted(people)), computers=tuple(sorted(group.computers)))
            fact = DirectoryChanged(about="group", name=name, value=value)
            number = self.directory.number_of(fact.entry)
            await self.directory.set(self.service.draft(fact, PROVIDER), self.service.bus, expected=number)

    # -- answers -------------------------------------------------------------------------

    def _cookie(self, request: Request) -> str:
        return f"__Host-{_COOKIE}" if self.browsers.place.secure(request) else _COOKIE

    def _keep(self, request: Request, answer: Response, attempt: str) -> None:
        """Let the browser keep an attempt; empty: let it forget the one that it has."""
        answer.set_cookie(
            self._cookie(request),
            attempt,
            max_age=int(ATTEMPT_LIFE.total_seconds()) if attempt else 0,
            path="/",
            secure=self.browsers.place.secure(request),
            httponly=True,
            # The provider's page leads back here, and a strict cookie would stay behind.
            samesite="lax",
        )

    async def _not_signed_in(self, request: Request, error: OrchestratorError) -> Response:
        """The refusal as a page for a browser, else as every error; the attempt is over."""
        await self.attempts.refused(request, None, error)
        if "text/html" in request.headers.get("accept", ""):
            words = [html.escape(one_line(one, limit=600)) for one in (error.message, error.remedy)]
            headers = {"Content-Security-Policy": HEADERS["Content-Security-Policy"] + "; style-src 'self'"}
            answer: Response = HTMLResponse(_PAGE.format(*words), error.http_status, headers)
        else:
            answer = refused(error)
        self._keep(request, answer, "")
        return answer


def _no_role(account: Account) -> Forbidden:
    return Forbidden(
        f"Your provider gives {account.name} no role here.",
        remedy="Ask an admin: the setting oidc_roles says which of your provider's groups have which role.",
    )


_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Not signed in · cc-orchestrator</title>
<link rel="stylesheet" href="/console/console.css">
</head>
<body>
<main class="alone"><div class="card sign-in">
<h1>You are not signed in</h1>
<p role="alert">{}</p>
<p>{}</p>
<p><a href="/">Back to the sign-in</a></p>
</div></main>
</body>
</html>
"""
