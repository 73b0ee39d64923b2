"""The accepted sockets: one as the hub and the reviewers' door take it, and all that are open."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from orchestrator.core.errors import OrchestratorError
from orchestrator.ports import Identity, TokenRow
from orchestrator.web.frames import EXTENSION, FrameProtocol

LOOK_EVERY_S: Final = 0.5
"""Half of the second within which a revoked token's socket is closed; a look is one count in the store."""
_REVOKED: Final = "the token was revoked"


class StarletteSocket:
    """A Starlette WebSocket as the hub and the reviewers' door take it."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._closed = False

    async def receive(self) -> bytes | str | None:
        """The next frame; None when the connection is over."""
        message = await self._websocket.receive()
        if message["type"] != "websocket.receive":
            self._closed = True
            return None
        data: bytes | None = message.get("bytes")
        text: str | None = message.get("text")
        return data if data is not None else text

    async def send(self, frame: bytes | str) -> None:
        """Write one frame. Raises OSError when the connection is over."""
        try:
            if isinstance(frame, bytes):
                await self._websocket.send({"type": "websocket.send", "bytes": frame})
            else:
                await self._websocket.send_text(frame)
        except (WebSocketDisconnect, RuntimeError) as error:
            raise ConnectionError(str(error) or "the connection is over") from error

    async def close(self, code: int, reason: str) -> None:
        """Close; closing twice is harmless."""
        if not self._closed:
            self._closed = True
            with suppress(RuntimeError, WebSocketDisconnect, OSError):
                await self._websocket.close(code, reason)


class DirectSocket(StarletteSocket):
    """The same over a server that hands frames over at once: see :mod:`orchestrator.web.frames`."""

    def __init__(self, websocket: WebSocket, protocol: FrameProtocol) -> None:
        super().__init__(websocket)
        self.listen: Callable[[Callable[[bytes | str], None]], None] = protocol.listen
        """Hand over each frame from now on; ``receive`` answers only when the connection is over."""
        self.takes_more: Callable[[], bool] = protocol.writable.is_set
        """Whether the other side keeps up; if it does not, ``send`` waits until it does."""
        self.write: Callable[[Sequence[bytes]], None] = protocol.write
        """Write frames at once, in order. Raises OSError when the connection is over."""


def accepted(websocket: WebSocket) -> StarletteSocket:
    """An accepted WebSocket as a socket, by the shortest way that its server offers."""
    protocol = websocket.scope.get("extensions", {}).get(EXTENSION)
    return StarletteSocket(websocket) if protocol is None else DirectSocket(websocket, protocol)


class Tokens(Protocol):
    """What of a store tells that tokens were revoked."""

    async def count_revoked(self) -> int:
        """How many tokens were revoked."""

    async def list_tokens(self) -> list[TokenRow]:
        """All tokens."""


class OpenSockets:
    """The open sockets by kind and name of whom they belong to."""

    def __init__(self) -> None:
        self._open: defaultdict[tuple[str, str], set[StarletteSocket]] = defaultdict(set)
        self._tokens: dict[StarletteSocket, str] = {}
        """The hash of the token with which each was opened."""
        self._looked_at = -1
        """How many tokens had been revoked when all of these were looked at; -1: not all were."""

    @contextmanager
    def holding(self, identity: Identity, websocket: WebSocket) -> Iterator[StarletteSocket]:
        """An accepted socket, known by its holder while this is open."""
        socket, holder = accepted(websocket), (identity.kind, identity.name)
        self._open[holder].add(socket)
        if identity.auth == "token":
            # What came in otherwise has no token that could be revoked.
            self._tokens[socket] = identity.token_hash
        # Its token may have been revoked since it was looked up.
        self._looked_at = -1
        try:
            yield socket
        finally:
            self._tokens.pop(socket, None)
            self._open[holder].discard(socket)
            if not self._open[holder]:
                del self._open[holder]

    async def hang_up(self, kind: str, name: str) -> None:
        """Close the sockets of a holder whose token was revoked."""
        for socket in tuple(self._open.get((kind, name), ())):
            await socket.close(1008, _REVOKED)

    async def watch(self, tokens: Tokens, every_s: float = LOOK_EVERY_S) -> None:
        """Close the sockets whose token was revoked, by whatever way; goes on until it is canceled."""
        while True:
            await asyncio.sleep(every_s)
            if self._tokens:
                with suppress(OrchestratorError):
                    await self._drop_revoked(tokens)

    async def _drop_revoked(self, tokens: Tokens) -> None:
        revoked = await tokens.count_revoked()
        if revoked == self._looked_at:
            return
        self._looked_at = revoked
        good = {row.token_hash for row in await tokens.list_tokens() if not row.revoked}
        for socket in [one for one, token in self._tokens.items() if token not in good]:
            await socket.close(1008, _REVOKED)

    async def close_all(self) -> None:
        """Close every socket, for a clean stop."""
        for socket in [one for sockets in self._open.values() for one in sockets]:
            await socket.close(1001, "the orchestrator stops")
