"""What stays open: a socket as the hub and the reviewers' endpoint take it, and all sockets and streams by holder."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import Identity, TokenRow
from orchestrator.web.frames import EXTENSION, FrameProtocol

LOOK_EVERY_S: Final = 0.5
"""Half of the second within which a revoked token's socket is closed; a look is one count in the store."""
CLOSE_S: Final = 2.0
"""What a peer gets to take what stands before the close; one that takes nothing is cut off."""
MOST_OPEN: Final = 64
"""Streams and sockets of one token; a tab of the page has four."""
_REVOKED: Final = "the token was revoked"
_SIGNED_OUT: Final = "the browser was signed out"


class TooManyStreams(OrchestratorError):
    """One token has as many streams and sockets open as it may."""

    code = "too_many_streams"
    http_status = 429


class StarletteSocket:
    """A Starlette WebSocket as the hub and the reviewers' endpoint take it."""

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
        """Close within ``CLOSE_S`` seconds; closing twice is harmless."""
        if not self._closed:
            self._closed = True
            with suppress(RuntimeError, WebSocketDisconnect, OSError):
                try:
                    async with asyncio.timeout(CLOSE_S):
                        await self._websocket.close(code, reason)
                except TimeoutError:
                    self._cut_off()

    def _cut_off(self) -> None:
        """End the connection without a word, as far as that is known how."""


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
        self._abort = protocol.abort

    def _cut_off(self) -> None:
        self._abort()


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


class Connection(Protocol):
    """What stays open, and can be ended."""

    async def close(self, code: int, reason: str) -> None:
        """Close; closing twice is harmless."""


class OpenStream:
    """A stream of events that somebody reads."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        """Set when nothing more may be told."""

    async def close(self, code: int, reason: str) -> None:
        """End it: an answer that has begun has no place for a reason."""
        del code, reason
        self.over.set()


class OpenSockets:
    """The open sockets and streams by kind and name of whom they belong to."""

    def __init__(self) -> None:
        self._open: defaultdict[tuple[str, str], set[Connection]] = defaultdict(set)
        self._count: Counter[tuple[tuple[str, str], str]] = Counter()
        """How many each token has."""
        self._tokens: dict[Connection, str] = {}
        """The hash of the token with which each was opened."""
        self._sessions: dict[Connection, str] = {}
        """The hash of the browser's secret by which each was opened."""
        self._closed = False
        self._looked_at = -1
        """How many tokens had been revoked when all of these were looked at; -1: not all were."""

    @contextmanager
    def holding(self, identity: Identity, websocket: WebSocket) -> Iterator[StarletteSocket]:
        """An accepted socket, known by its holder while this is open."""
        socket = accepted(websocket)
        with self._known(identity, socket):
            yield socket

    @contextmanager
    def streaming(self, identity: Identity) -> Iterator[asyncio.Event]:
        """A stream, known by its holder while this is open; it is over when the event is set."""
        stream = OpenStream()
        full = self._is_full(identity)
        with self._known(identity, stream):
            # Several may have been accepted at once.
            if self._closed or full:
                stream.over.set()
            yield stream.over

    def check_room(self, identity: Identity) -> None:
        """Raises TooManyStreams when a token has as many open as it may."""
        if self._is_full(identity):
            raise TooManyStreams(
                f"{MOST_OPEN} streams and sockets are open with this token.",
                remedy="Close some of them: tabs, `tasks watch`, programs that follow a task.",
            )

    def _is_full(self, identity: Identity) -> bool:
        holder = (identity.kind, identity.name)
        return self._count[holder, identity.token_hash] >= MOST_OPEN

    @contextmanager
    def _known(self, identity: Identity, one: Connection) -> Iterator[None]:
        holder = (identity.kind, identity.name)
        self._open[holder].add(one)
        self._count[holder, identity.token_hash] += 1
        if identity.auth in ("token", "session"):
            # What came in otherwise has no token that could be revoked.
            self._tokens[one] = identity.token_hash
        if identity.session_hash:
            self._sessions[one] = identity.session_hash
        # Its token may have been revoked since it was looked up.
        self._looked_at = -1
        try:
            yield
        finally:
            self._tokens.pop(one, None)
            self._sessions.pop(one, None)
            self._count[holder, identity.token_hash] -= 1
            self._count += Counter()  # Drops what is zero.
            self._open[holder].discard(one)
            if not self._open[holder]:
                del self._open[holder]

    async def hang_up(self, kind: str, name: str) -> None:
        """Close what a holder has open whose token was revoked."""
        await self._drop(set(self._open.get((kind, name), ())), _REVOKED)

    async def hang_up_session(self, session_hash: str) -> None:
        """Close what a browser has open that was signed out."""
        await self._drop({one for one, session in self._sessions.items() if session == session_hash}, _SIGNED_OUT)

    async def watch(
        self, tokens: Tokens, signed_in: Callable[[], Awaitable[Collection[str]]], every_s: float = LOOK_EVERY_S
    ) -> None:
        """Close what belongs to a revoked token or to a browser that is signed out, by whatever way.

        ``signed_in``: the hashes of those that are not. Goes on until it is canceled.
        """
        while True:
            await asyncio.sleep(every_s)
            with suppress(OrchestratorError):
                if self._tokens:
                    await self._drop_revoked(tokens)
                if self._sessions:
                    # Those that come while this looks are looked at the next time.
                    open_now = dict(self._sessions)
                    good = await signed_in()
                    await self._drop({one for one, session in open_now.items() if session not in good}, _SIGNED_OUT)

    async def _drop_revoked(self, tokens: Tokens) -> None:
        revoked = await tokens.count_revoked()
        if revoked == self._looked_at:
            return
        # Before the list: who comes while it is read wants another look.
        self._looked_at = revoked
        try:
            rows = await tokens.list_tokens()
        except OrchestratorError:
            self._looked_at = -1
            raise
        good = {row.token_hash for row in rows if not row.revoked}
        await self._drop({one for one, token in self._tokens.items() if token not in good}, _REVOKED)

    async def close_all(self) -> None:
        """Close everything, for a clean stop."""
        self._closed = True
        ones = [one for ones in self._open.values() for one in ones]
        await asyncio.gather(*(one.close(1001, "the orchestrator stops") for one in ones))

    async def _drop(self, ones: Collection[Connection], why: str) -> None:
        # At once: one whose reader is stuck keeps no other open.
        await asyncio.gather(*(one.close(1008, why) for one in ones))
