"""The endpoint by which a browser signs in and out: ``/v1/session``."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from orchestrator.core.approval.people import RIGHTS
from orchestrator.core.errors import Forbidden, Unauthenticated
from orchestrator.core.ports import Identity
from orchestrator.web.answers.base import SessionAnswer
from orchestrator.web.base import Room, as_json
from orchestrator.web.bodies import MAX_OPEN_BYTES, SignInBody, read_body
from orchestrator.web.browsers import Browser
from orchestrator.web.computers import peer_of
from orchestrator.web.doctor import About
from orchestrator.web.errors import explained
from orchestrator.web.peers import Tries, counted_as


class SessionEndpoints(Room):
    """``/v1/session``."""

    about: About
    token_tries: Tries
    provider_name: str
    """The provider at which people may sign in instead; empty: none."""

    async def sign_in(self, request: Request) -> Response:
        """``POST /v1/session``: a cookie for a person's token."""
        self.browsers.place.check_host(request)
        # Another site's page could sign its visitors in as somebody who then sees what they do.
        self.browsers.place.check_origin(request)
        body = await read_body(request, SignInBody, MAX_OPEN_BYTES)
        peer = peer_of(request)
        identity = await self._shown(body.token.strip(), peer)
        request.state.identity = identity
        if identity.kind == "agent":
            raise Forbidden("A program's token opens no console.", remedy="A person signs in with their own token.")
        await self._leave(request)
        secret, browser, gone = await self.browsers.sign_in(identity, peer)
        for row in gone:
            await self.sockets.hang_up_session(row.session_hash)
        answer = as_json(self._of(browser), 201)
        self.browsers.set_cookie(request, answer, secret)
        return answer

    async def session(self, request: Request) -> Response:
        """``GET /v1/session``: who is signed in, and what the page shows with what it changes."""
        try:
            browser = await self.browser(request)
        except Unauthenticated as error:
            error.details.update(self._ways())
            raise
        if browser is None:
            # Every page asks so when it is loaded: that is not an attempt to be written down.
            nobody = _nobody()
            nobody.details.update(self._ways())
            return await explained(request, nobody)
        return as_json(self._of(browser), 200)

    async def sign_out(self, request: Request) -> Response:
        """``DELETE /v1/session``: for good, in all its tabs."""
        browser = await self._signed_in(request)
        await self.browsers.sign_out(browser)
        await self.sockets.hang_up_session(browser.identity.session_hash)
        answer = Response(status_code=204)
        self.browsers.set_cookie(request, answer, "")
        return answer

    def _ways(self) -> dict[str, str]:
        """The details of the answer to somebody who is not signed in: the provider that they may use."""
        return {"provider": self.provider_name} if self.provider_name else {}

    def _of(self, browser: Browser) -> SessionAnswer:
        held = self.authorizer.holder(browser.identity).rights
        more = {"csrf": browser.csrf, "expires_at": browser.ends_at, "version": self.about.version}
        more["rights"] = [one for one in RIGHTS if one in held]
        return SessionAnswer.made_from(browser.identity, **more)

    async def _shown(self, token: str, peer: str) -> Identity:
        """The identity that has a token. Raises Unauthenticated, TooManyTries."""
        try:
            identity = await self.authorizer.authenticate(f"Bearer {token}")
            if identity.kind == "computer":
                raise Unauthenticated(
                    "This endpoint is for people; the token is a computer's.", remedy="Send a person's."
                )
        except Unauthenticated:
            self.token_tries.count(counted_as(peer), asyncio.get_running_loop().time())
            raise
        return identity

    async def _leave(self, request: Request) -> None:
        """End the sign-in that this very browser had, which it forgets now."""
        secret = self.browsers.secret_of(request)
        if secret is not None:
            try:
                before = await self.browsers.known(secret)
            except Unauthenticated:
                return
            await self.browsers.sign_out(before)
            await self.sockets.hang_up_session(before.identity.session_hash)

    async def _signed_in(self, request: Request) -> Browser:
        browser = await self.browser(request)
        if browser is None:
            raise _nobody()
        return browser


def _nobody() -> Unauthenticated:
    return Unauthenticated("No browser is signed in here.", remedy="Sign in: POST /v1/session with a token.")
