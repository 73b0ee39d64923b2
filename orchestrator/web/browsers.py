"""Browsers that are signed in: a secret of 256 bits in a cookie, which stands for the token that it was given for.

Theory. The secret is drawn here and nowhere else, so that nobody can be made to use one that another knows; only a hash
of it is kept. It ends with its token, when its person signs out, when it was not used for 30 days, and after 90 days in
any case. An ended one is forgotten, so that a clock that goes back brings nothing again. Cookies belong to a host and
not to a port: where a browser sends two of our name, another program of this host may have set one, and neither counts.
"""

import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from starlette.requests import HTTPConnection
from starlette.responses import Response

from orchestrator.core.errors import Forbidden, Unauthenticated
from orchestrator.core.ports import Identity, SignInRow
from orchestrator.core.task.items import Draft
from orchestrator.core.task.system_facts import SignedIn, SignedOut
from orchestrator.engine.tasks import TaskService, person
from orchestrator.web.auth import BY_PROVIDER, TokenAuthorizer

# -- Under which name a browser asks for this server, and whose page makes it ask --------
#
# Theory. A browser sends what any page tells it to, and adds the cookie of the server that it goes to. So a
# cookie proves whose browser it is, never who made it ask. ``Host`` says under which name the browser reached us:
# a page of another site can let its own name lead here (DNS rebinding), but cannot change what is said.
# ``Origin`` says whose page asks: a scheme, a host and a port that all have to be ours, since another port of
# this host is another program. A request with a token does not come from a browser that was led here, so neither is
# asked for.

_AUTHORITY: Final = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::([0-9]{1,5}))?")
_ORIGIN: Final = re.compile(r"(https?)://(.+)")
_PORTS: Final = {"http": 80, "https": 443}
_HTTP: Final = {"ws": "http", "wss": "https"}
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Origin(NamedTuple):
    """The origin of the page."""

    scheme: str
    host: str
    """In small letters, an address without its brackets."""
    port: int


class Place:
    """This server as browsers may name it; ``bound``: the address that it listens on, ``public_url`` may be empty."""

    def __init__(self, bound: str, public_url: str) -> None:
        self._bound = _normal(bound)
        self._public = _origin(public_url)
        self._public_url = public_url

    def secure(self, connection: HTTPConnection) -> bool:
        """Whether browsers reach this server by https."""
        return _scheme(connection) == "https" or (self._public is not None and self._public.scheme == "https")

    def address(self, connection: HTTPConnection) -> str:
        """The address of this server, without a path; :meth:`check_host` goes before."""
        return self._public_url or f"{_scheme(connection)}://{connection.headers.get('host', '')}"

    def check_host(self, connection: HTTPConnection) -> None:
        """Raises Forbidden for a name that is not known to be ours."""
        asked = self._asked(connection)
        if asked is None or not self._is_ours(asked.host):
            raise Forbidden(
                "The address that you asked for is not one of this orchestrator's.",
                remedy="Open it by the address that it printed, or name this one in the setting public_url.",
            )

    def check_origin(self, connection: HTTPConnection) -> None:
        """Raises Forbidden unless a page of ours asks, as far as the browser has to say it.

        On a GET within one page's server browsers need not say it; on every other request, and on a WebSocket, they do.
        """
        origins = connection.headers.getlist("origin")
        sites = connection.headers.getlist("sec-fetch-site")
        safe = connection.scope.get("method") in _SAFE
        if origins or connection.scope["type"] == "websocket":
            found = _origin(origins[0]) if len(origins) == 1 else None
            fine = found is not None and found in (self._asked(connection), self._public)
        elif sites:
            fine = sites == ["same-origin"] or (safe and sites == ["none"])
        else:
            fine = safe
        if not fine:
            raise Forbidden(
                "A page of another site asked for this, or your browser does not say whose page it was.",
                remedy="Use the console's own page. Behind a proxy, the setting public_url has to be its address. "
                "A program sends a token: Authorization: Bearer TOKEN.",
            )

    def _asked(self, connection: HTTPConnection) -> Origin | None:
        hosts = connection.headers.getlist("host")
        return _origin(f"{_scheme(connection)}://{hosts[0]}") if len(hosts) == 1 else None

    def _is_ours(self, host: str) -> bool:
        if host in ("localhost", self._bound) or (self._public is not None and host == self._public.host):
            return True
        address = _address(host)
        # Nobody can let a number lead elsewhere. A server that listens on all addresses may not know them: a container
        # does not.
        everywhere = self._bound in ("0.0.0.0", "::")
        return address is not None and (address.is_loopback or everywhere)


def _scheme(connection: HTTPConnection) -> str:
    scheme: str = connection.scope["scheme"]
    return _HTTP.get(scheme, scheme)


def _origin(text: str) -> Origin | None:
    """The origin that a URL without a path names; None: it is not such a URL."""
    parts = _ORIGIN.fullmatch(text)
    named = _AUTHORITY.fullmatch(parts[2]) if parts else None
    if parts is None or named is None:
        return None
    return Origin(parts[1], _normal(named[1]), int(named[2] or _PORTS[parts[1]]))


def _normal(host: str) -> str:
    host = host.lower().removeprefix("[").removesuffix("]")
    address = _address(host)
    return host if address is None else str(address)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


# -- Browsers that are signed in: a secret of 256 bits in a cookie, which stands for the token that it was given
# for

UNUSED: Final = timedelta(days=30)
LONGEST: Final = timedelta(days=90)
MOST: Final = 20
"""Sign-ins of one person: a few devices with a few browsers each."""
USE_EVERY: Final = timedelta(hours=1)
"""The least time between two uses that are written down; it is short beside 30 days."""
_AHEAD: Final = timedelta(days=1)
"""A sign-in that begins later than this from now was made by a clock that was wrong, and would last too long."""
COOKIE: Final = "cc_session"
SECURE_COOKIE: Final = "__Host-cc_session"
"""The browser itself makes sure that only this host has set it, by https."""
CSRF_HEADER: Final = "x-csrf-token"
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True)
class Browser:
    """One that is signed in."""

    identity: Identity
    csrf: str
    """A text that its page sends with every change: no other page can read it."""
    ends_at: datetime
    """Unless it is used again before."""


class Browsers:
    """Signs browsers in and out, and knows them again."""

    def __init__(self, service: TaskService, authorizer: TokenAuthorizer, place: Place, by_provider: timedelta) -> None:
        """``by_provider``: how long a sign-in with a provider lasts at most."""
        self._by_provider = by_provider
        self._service = service
        self._store = service.store
        self._authorizer = authorizer
        self.place = place

    async def sign_in(self, identity: Identity, peer: str) -> tuple[str, Browser, list[SignInRow]]:
        """A new secret for the person who showed a token, and the people whose sign-ins made room for it."""
        now = self._service.clock.now()
        await self._store.forget_sign_ins(begun=now - LONGEST, used=now - UNUSED)
        secret = secrets.token_urlsafe(32)
        note = self._service.draft(SignedIn(name=identity.name, peer=peer), person(identity))
        row = SignInRow(_hash(secret), identity.token_hash, identity.name, note.at, note.at)
        gone = await self._store.add_sign_in(row, most=MOST, note=note)
        return secret, self._browser(secret, row, identity), gone

    async def known(self, secret: str) -> Browser:
        """The browser that has a secret. Raises Unauthenticated."""
        now = self._service.clock.now()
        row = await self._store.find_sign_in(_hash(secret))
        if row is not None and self._is_over(row, now):
            await self._store.end_sign_in(row.session_hash)
            row = None
        if row is None:
            raise _signed_out()
        token = await self._store.find_token(row.token_hash)
        if token is None or token.revoked or (token.kind, token.name) != ("person", row.name):
            raise Unauthenticated(
                "The token that you signed in with was revoked.", remedy="Ask an admin for a new one."
            )
        if now - row.used_at >= USE_EVERY:
            await self._store.use_sign_in(row.session_hash, now)
            row = replace(row, used_at=now)
        identity = Identity(kind="person", name=token.name, roles=token.roles, token_hash=token.token_hash)
        return self._browser(secret, row, identity)

    async def sign_out(self, browser: Browser) -> None:
        """For good."""
        identity = browser.identity
        await self._store.end_sign_in(identity.session_hash, note=self._signed_out(identity))

    async def present(self, identity: Identity) -> Identity:
        """The present identity. Raises Unauthenticated once the token was revoked, or the browser is signed out."""
        present = await self._authorizer.present(identity)
        if identity.session_hash:
            row = await self._store.find_sign_in(identity.session_hash)
            if row is None or self._is_over(row, self._service.clock.now()):
                raise _signed_out()
        return present

    async def standing(self) -> Collection[str]:
        """The hashes of all that are signed in now."""
        now = self._service.clock.now()
        return {row.session_hash for row in await self._store.list_sign_ins() if not self._is_over(row, now)}

    # -- cookies -------------------------------------------------------------------------

    def secret_of(self, connection: HTTPConnection) -> str | None:
        """The secret that a browser sent; None: none, or two of which one cannot be ours."""
        found = cookie_of(connection, self._cookie_name(connection))
        return found if found is not None and _SECRET.fullmatch(found) else None

    def set_cookie(self, connection: HTTPConnection, response: Response, secret: str) -> None:
        """Let the browser keep a secret; empty: let it forget the one that it has."""
        response.set_cookie(
            self._cookie_name(connection),
            secret,
            max_age=int(LONGEST.total_seconds()) if secret else 0,
            path="/",
            secure=self.place.secure(connection),
            httponly=True,
            samesite="strict",
        )

    def check_asked(self, connection: HTTPConnection, browser: Browser) -> None:
        """Raises Forbidden unless the console's own page asked for this, as far as it could change something."""
        self.place.check_origin(connection)
        changes = connection.scope.get("method", "GET") not in ("GET", "HEAD", "OPTIONS")
        shown = connection.headers.get(CSRF_HEADER, "")
        if changes and not hmac.compare_digest(shown.encode(), browser.csrf.encode()):
            raise Forbidden(
                "The page did not show what belongs to this sign-in (X-CSRF-Token).",
                remedy="Reload the page: GET /v1/session has it.",
            )

    def _cookie_name(self, connection: HTTPConnection) -> str:
        return SECURE_COOKIE if self.place.secure(connection) else COOKIE

    def _is_over(self, row: SignInRow, now: datetime) -> bool:
        """Whether a sign-in has ended by time."""
        return now >= self._ends_at(row) or row.begun_at - now > _AHEAD

    def _ends_at(self, row: SignInRow) -> datetime:
        longest = self._by_provider if row.token_hash.startswith(BY_PROVIDER) else LONGEST
        return min(row.used_at + UNUSED, row.begun_at + longest)

    def _browser(self, secret: str, row: SignInRow, identity: Identity) -> Browser:
        auth = "oidc" if row.token_hash.startswith(BY_PROVIDER) else "session"
        known = replace(identity, auth=auth, session_hash=row.session_hash)
        # It follows from the secret, which does not follow from it: it is the same for all tabs, and kept nowhere.
        csrf = hmac.new(secret.encode(), b"csrf", hashlib.sha256).hexdigest()
        return Browser(known, csrf, self._ends_at(row))

    def _signed_out(self, identity: Identity) -> Draft:
        return self._service.draft(SignedOut(name=identity.name), person(identity))


def cookie_of(connection: HTTPConnection, name: str) -> str | None:
    """The cookie of a name that a browser sent; None: none, or two of which one cannot be ours."""
    pairs = (part.partition("=") for line in connection.headers.getlist("cookie") for part in line.split(";"))
    found = [value.strip() for key, _, value in pairs if key.strip() == name]
    return found[0] if len(found) == 1 else None


def _signed_out() -> Unauthenticated:
    return Unauthenticated("You are not signed in, or no longer.", remedy="Sign in with your token.")


def _hash(secret: str) -> str:
    # Marked, so that it is never the hash of a bearer token.
    return hashlib.sha256(f"browser {secret}".encode()).hexdigest()
