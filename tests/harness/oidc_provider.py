"""An OpenID provider over real HTTP with real keys: it checks what a provider has to, unless told to lie."""

import asyncio
import base64
import hashlib
import html
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from socket import create_server
from typing import Any
from urllib.parse import parse_qsl, urlencode

import httpx2
import uvicorn
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from orchestrator.app.serving import PortServer

CLIENT = "cc-orchestrator"
SECRET = "the-client's-secret"
PERSON = {"sub": "account-1", "preferred_username": "ann", "groups": ["teachers"]}
Signing = Callable[[dict[str, Any], RSAKey | ECKey], str]


FIRST = RSAKey.generate_key(2048, {"kid": "first"})
"""The key of every provider at first: making one takes a while."""


def signed(claims: dict[str, Any], key: RSAKey | ECKey) -> str:
    """A token as a provider signs it."""
    return jwt.encode({"alg": "ES256" if isinstance(key, ECKey) else "RS256", "kid": key.kid}, claims, key)


@dataclass
class OidcProvider:
    """The provider as a test sees it."""

    issuer: str = ""
    person: dict[str, Any] = field(default_factory=lambda: dict(PERSON))
    """The claims about the person who sits at its page."""
    lies: dict[str, Any] = field(default_factory=dict)
    """Claims of an ``id_token`` that are other than they should be; None: left out."""
    sign: Signing = signed
    key: RSAKey | ECKey = field(default_factory=lambda: FIRST)
    says: dict[str, Any] = field(default_factory=dict)
    """What its description of itself says besides, or otherwise."""
    answers: dict[str, Response] = field(default_factory=dict)
    """The answer at a path instead of the right one."""
    asked: Counter[str] = field(default_factory=Counter)
    """How often each path was asked."""
    sent: list[dict[str, str]] = field(default_factory=list)
    """The forms that reached the token endpoint."""
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)
    """While it is not set, the token endpoint says nothing."""
    arrived: asyncio.Queue[None] = field(default_factory=asyncio.Queue)
    """One for each request that reached the token endpoint."""
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        path = request.url.path
        self.asked[path] += 1
        if path in self.answers:
            return self.answers[path]
        if path == "/jwks":
            public = self.key.as_dict(private=False, use="sig")
            return JSONResponse({"keys": [public, {"kty": "of tomorrow", "kid": "x"}]})
        if path == "/authorize":
            return await self._authorize(request)
        return await self._token(request) if path == "/token" else JSONResponse(self._description())

    def _description(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            **self.says,
        }

    async def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT)
        assert "openid" in asked["scope"].split()
        assert asked["code_challenge_method"] == "S256"
        if request.method == "GET":
            name = html.escape(str(self.person["preferred_username"]))
            return HTMLResponse(f'<form method="post"><button>Continue as {name}</button></form>')
        code = secrets.token_urlsafe(16)
        self._codes[code] = asked
        back = urlencode({"code": code, "state": asked["state"], "iss": self.issuer})
        return RedirectResponse(f"{asked['redirect_uri']}?{back}", 303)

    async def _token(self, request: Request) -> Response:
        self.arrived.put_nowait(None)
        await self.goes_on.wait()
        form = dict(parse_qsl((await request.body()).decode()))
        self.sent.append(form)
        basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        asked = self._codes.pop(form.get("code", ""), None)
        if request.headers.get("authorization") != f"Basic {basic}":
            return JSONResponse({"error": "invalid_client"}, 401)
        shown = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if (
            asked is None
            or form.get("redirect_uri") != asked["redirect_uri"]
            or shown.rstrip(b"=").decode() != asked["code_challenge"]
        ):
            return JSONResponse({"error": "invalid_grant", "error_description": "<b>hostile</b>"}, 400)
        now = int(time.time())
        claims = {
            **{"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"]},
            **self.person,
            **self.lies,
        }
        claims = {name: one for name, one in claims.items() if one is not None}
        return JSONResponse(
            {"access_token": "at-1", "token_type": "Bearer", "expires_in": 300, "id_token": self.sign(claims, self.key)}
        )

    async def approve(self, url: str) -> str:
        """What a person does at its page; the address to which it sends the browser back."""
        async with httpx2.AsyncClient(trust_env=False) as http:
            answer = await http.post(url)
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])


@asynccontextmanager
async def oidc_provider(host: str = "127.0.0.1") -> AsyncIterator[OidcProvider]:
    """A provider on a free port; ``host``: how it names itself, ``localhost`` makes it another site for browsers."""
    provider = OidcProvider()
    provider.goes_on.set()
    app = Starlette(routes=[Route("/{path:path}", provider.answer, methods=["GET", "POST"])])
    with create_server(("127.0.0.1", 0)) as listener:
        provider.issuer = f"http://{host}:{listener.getsockname()[1]}"
        server = PortServer(uvicorn.Config(app, log_config=None, lifespan="off"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield provider
        finally:
            server.stop()
            await serving
