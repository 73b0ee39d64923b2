"""Browsers that are signed in: a secret of 256 bits in a cookie, which stands for the token that it was given for.

Theory. The secret is drawn here and nowhere else, so that nobody can be made to use one that another
knows; of it only a hash is kept. It ends with its token, when its person signs out, when it was not used
for 30 days, and after 90 in any case; what has ended is forgotten, so that a clock that goes back brings
nothing again. Cookies belong to a host and not to a port: where a browser sends two of our name, another
program of this host may have set one, and neither counts.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from starlette.requests import HTTPConnection
from starlette.responses import Response

from orchestrator.core.errors import Forbidden, Unauthenticated
from orchestrator.core.ports import Identity, SignInRow
from orchestrator.core.task.items import Draft
from orchestrator.core.task.system_facts import SignedIn, SignedOut
from orchestrator.engine.tasks import TaskService, person
from orchestrator.web.auth import TokenAuthorizer
from orchestrator.web.origin import Place

UNUSED: Final = timedelta(days=30)
LONGEST: Final = timedelta(days=90)
MOST: Final = 20
"""Of one person: a few devices with a few browsers each."""
USE_EVERY: Final = timedelta(hours=1)
"""A use is written down no more often; against 30 days that is nothing."""
_AHEAD: Final = timedelta(days=1)
"""A sign-in that begins later than this from now was made by a clock that was wrong, and would last too long."""
COOKIE: Final = "cc_session"
SECURE_COOKIE: Final = "__Host-cc_session"
"""The browser itself sees to it that only this host has set it, by https."""
CSRF_HEADER: Final = "x-csrf-token"
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True)
class Browser:
    """One that is signed in."""

    identity: Identity
    csrf: str
    """What its page shows with everything that changes something: no other page can read it."""
    ends_at: datetime
    """Unless it is used again before."""


class Browsers:
    """Signs browsers in and out, and knows them again."""

    def __init__(self, service: TaskService, authorizer: TokenAuthorizer, place: Place) -> None:
        self._service = service
        self._store = service.store
        self._authorizer = authorizer
        self.place = place

    async def sign_in(self, identity: Identity, peer: str) -> tuple[str, Browser, list[SignInRow]]:
        """A new secret for who showed a person's token, and whose sign-ins made room for it."""
        now = self._service.clock.now()
        await self._store.forget_sign_ins(begun=now - LONGEST, used=now - UNUSED)
        secret = secrets.token_urlsafe(32)
        note = self._service.draft(SignedIn(name=identity.name, peer=peer), person(identity))
        row = SignInRow(_hash(secret), identity.token_hash, identity.name, note.at, note.at)
        gone = await self._store.add_sign_in(row, most=MOST, note=note)
        return secret, _browser(secret, row, identity), gone

    async def known(self, secret: str) -> Browser:
        """The browser that has a secret. Raises Unauthenticated."""
        now = self._service.clock.now()
        row = await self._store.find_sign_in(_hash(secret))
        if row is not None and is_over(row, now):
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
        return _browser(secret, row, identity)

    async def sign_out(self, browser: Browser) -> None:
        """For good."""
        identity = browser.identity
        await self._store.end_sign_in(identity.session_hash, note=self._signed_out(identity))

    async def present(self, identity: Identity) -> Identity:
        """Who somebody is now. Raises Unauthenticated once the token was revoked, or the browser is signed out."""
        present = await self._authorizer.present(identity)
        if identity.session_hash:
            row = await self._store.find_sign_in(identity.session_hash)
            if row is None or is_over(row, self._service.clock.now()):
                raise _signed_out()
        return present

    async def standing(self) -> Collection[str]:
        """The hashes of all that are signed in now."""
        now = self._service.clock.now()
        return {row.session_hash for row in await self._store.list_sign_ins() if not is_over(row, now)}

    # -- cookies -------------------------------------------------------------------------

    def secret_of(self, connection: HTTPConnection) -> str | None:
        """The secret that a browser sent; None: none, or two of which one cannot be ours."""
        name = self._cookie_name(connection)
        pairs = (part.partition("=") for line in connection.headers.getlist("cookie") for part in line.split(";"))
        found = [value.strip() for key, _, value in pairs if key.strip() == name]
        return found[0] if len(found) == 1 and _SECRET.fullmatch(found[0]) else None

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
                remedy="Load the page anew: GET /v1/session has it.",
            )

    def _cookie_name(self, connection: HTTPConnection) -> str:
        return SECURE_COOKIE if self.place.secure(connection) else COOKIE

    def _signed_out(self, identity: Identity) -> Draft:
        return self._service.draft(SignedOut(name=identity.name), person(identity))


def is_over(row: SignInRow, now: datetime) -> bool:
    """Whether a sign-in has ended by time."""
    return now >= _ends_at(row) or row.begun_at - now > _AHEAD


def _ends_at(row: SignInRow) -> datetime:
    return min(row.used_at + UNUSED, row.begun_at + LONGEST)


def _browser(secret: str, row: SignInRow, identity: Identity) -> Browser:
    known = replace(identity, auth="session", session_hash=row.session_hash)
    # It follows from the secret, which does not follow from it: it is the same for all tabs, and kept nowhere.
    csrf = hmac.new(secret.encode(), b"csrf", hashlib.sha256).hexdigest()
    return Browser(known, csrf, _ends_at(row))


def _signed_out() -> Unauthenticated:
    return Unauthenticated("You are not signed in, or no longer.", remedy="Sign in with your token.")


def _hash(secret: str) -> str:
    # Marked, so that it is never the hash of a bearer token.
    return hashlib.sha256(f"browser {secret}".encode()).hexdigest()
