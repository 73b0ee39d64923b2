"""What every answer forbids of itself, whichever door gave it, errors and what no door answers too.

Theory. An answer of the doors is data. A browser that is led to one, or made to take it for a page, a script, a
picture or a frame, finds that it may be none of these, and keeps nothing of it. A door that says one of these headers
itself is right: the page is a page.
"""

from collections.abc import Callable, Mapping
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Whoever goes back after signing out, or has the cache of another, sees nothing.
    "Cache-Control": "no-store",
}
_STARTS: Final = frozenset({"http.response.start", "websocket.http.response.start"})


class Forbidding:
    """An application whose answers have these headers.

    ``leaving``: whether each answer is to be the last of its connection, so that a load balancer takes the next
    request elsewhere.
    """

    def __init__(self, app: ASGIApp, leaving: Callable[[], bool]) -> None:
        self._app = app
        self._leaving = leaving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""

        async def sending(message: Message) -> None:
            if message["type"] in _STARTS:
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if message["type"] == "http.response.start" and self._leaving():
                    headers["Connection"] = "close"
            await send(message)

        await self._app(scope, receive, sending)
