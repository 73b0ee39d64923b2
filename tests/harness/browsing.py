"""A browser of a test: the cookie that it has, and what the console's page sends with it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from http.cookies import SimpleCookie
from typing import Any

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from orchestrator.core.wire.review import REVIEWER_SUBPROTOCOL
from orchestrator.web.events import EVENTS_SUBPROTOCOL
from tests.harness.whole_server import Server
from tests.waiting import HANG_S


def set_cookies(answer: httpx2.Response) -> SimpleCookie:
    """What a browser is told to keep."""
    cookies = SimpleCookie()
    for line in answer.headers.get_list("set-cookie"):
        cookies.load(line)
    return cookies


async def plain(server: Server, method: str, path: str, body: Any = None, **headers: str) -> httpx2.Response:
    """One request with these headers, in which underscores stand for dashes; a body of bytes goes as it is."""
    sent = {name.replace("_", "-").encode(): value.encode("latin-1") for name, value in headers.items()}
    content = body if isinstance(body, bytes) else None
    answer = await server.http.request(method, path, json=None if content else body, content=content, headers=sent)
    # A browser of a test keeps its own cookie: nothing here sends it for others.
    server.http.cookies.clear()
    return answer


async def as_it_stands(server: Server, *lines: str) -> bytes:
    """What is answered to a request of these lines, which no client tidies up or refuses to send."""
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    async with asyncio.timeout(HANG_S):
        reader, writer = await asyncio.open_connection(host, int(port))
        with closing(writer):
            writer.write("\r\n".join((*lines, "Connection: close", "", "")).encode("latin-1"))
            return await reader.read()


@dataclass
class Tab:
    """A page of the console in a browser that is signed in."""

    server: Server
    cookie: str
    """As it is sent: ``name=value``."""
    told: dict[str, Any]
    """What the sign-in answered."""
    origin: str

    async def ask(self, method: str, path: str, body: Any = None, **headers: str | None) -> httpx2.Response:
        """A request as the page makes it; a header that is None is left out, another is as given."""
        unsafe = {} if method == "GET" else {"Origin": self.origin, "X_CSRF_Token": self.told["csrf"]}
        sent = {"Cookie": self.cookie, **unsafe, **headers}
        return await plain(
            self.server, method, path, body, **{name: one for name, one in sent.items() if one is not None}
        )

    @asynccontextmanager
    async def reviewing(self, origin: str | None = "", **headers: str) -> AsyncIterator[ClientConnection]:
        """The reviewers' socket as the page opens it; ``origin`` empty: its own, None: none."""
        async with self._dialed("/reviewer", REVIEWER_SUBPROTOCOL, origin, headers) as socket:
            yield socket

    @asynccontextmanager
    async def stream(self, path: str, origin: str | None = "", **headers: str) -> AsyncIterator[ClientConnection]:
        """A stream of events as the page opens it, as a socket; ``origin`` as above."""
        async with self._dialed(path, EVENTS_SUBPROTOCOL, origin, headers) as socket:
            assert socket.subprotocol == EVENTS_SUBPROTOCOL
            yield socket

    def _dialed(self, path: str, subprotocol: str, origin: str | None, headers: Mapping[str, str]) -> connect:
        return connect(
            f"{self.server.url.replace('http', 'ws', 1)}{path}",
            additional_headers={"Cookie": self.cookie, **{k.replace("_", "-"): v for k, v in headers.items()}},
            origin=None if origin is None else Origin(origin or self.origin),
            subprotocols=[Subprotocol(subprotocol)],
            compression=None,
            proxy=None,
        )


async def signed_in(server: Server, token: str | None = None, **headers: str) -> Tab:
    """A browser that signed in with a token (None: the admin's)."""
    sent = {"Origin": server.url, **headers}
    answer = await plain(server, "POST", "/v1/session", {"token": token or server.admin}, **sent)
    assert answer.status_code == 201, answer.text
    ((name, morsel),) = set_cookies(answer).items()
    return Tab(server, f"{name}={morsel.value}", answer.json(), sent["Origin"])
