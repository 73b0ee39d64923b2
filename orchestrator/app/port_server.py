"""uvicorn as this program needs it: it accepts connections itself, leaves signals alone, and stops at once."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from typing import Any, Final

import uvicorn

logger = logging.getLogger(__name__)

_TICK_S: Final = 1.0
"""The date in an answer has whole seconds."""
_GONE_S: Final = 0.005
"""How long the end of a connection that was just closed takes to be noticed."""
_ACCEPTS: Final = 64
"""Connections that are accepted in one turn of the loop, unless files are few."""
_TURNS: Final = 8
"""A connection for which there is no room is closed some turns of the loop after it was accepted."""
_AGAIN_ACCEPT_S: Final = 0.1
"""When accepting is tried again that failed, for lack of files or memory."""


class PortServer(uvicorn.Server):
    """uvicorn without its signal handlers, since the composition root decides when to stop.

    It accepts connections itself: uvloop accepts one in each turn of the loop, and turns are long in a flood. Whoever
    comes then would wait behind all others that wait. ``spare``: open files that are not for connections.
    """

    def __init__(self, config: uvicorn.Config, spare: int = _ACCEPTS * _TURNS) -> None:
        super().__init__(config)
        self._accepts = max(min(_ACCEPTS, spare // _TURNS), 1)
        self._stopped = asyncio.Event()
        self._arriving: set[asyncio.Task[Any]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept."""
        loop = asyncio.get_running_loop()
        try:
            for listener in sockets or ():
                listener.setblocking(False)
                loop.add_reader(listener, self._accept, listener)
        except NotImplementedError:
            # The loop of Windows: it accepts many itself.
            await super().startup(sockets)
            return
        self.servers = []
        self.started = True

    def _accept(self, listener: socket.socket) -> None:
        """Take in connections that wait, as many as are served well in one turn."""
        loop = asyncio.get_running_loop()
        for _ in range(self._accepts - len(self._arriving)):
            try:
                own, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                logger.warning("no connection can be accepted now: %s", error.strerror or error)
                loop.remove_reader(listener)
                loop.call_later(_AGAIN_ACCEPT_S, self._accept_again, listener)
                return
            own.setblocking(False)
            with contextlib.suppress(OSError):
                own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            arriving = loop.create_task(self._arrive(own))
            self._arriving.add(arriving)
            arriving.add_done_callback(self._arriving.discard)

    async def _arrive(self, own: socket.socket) -> None:
        protocol: Any = self.config.http_protocol_class
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                lambda: protocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state), own
            )
        except OSError:
            # Its peer is gone again.
            own.close()

    def _accept_again(self, listener: socket.socket) -> None:
        if listener.fileno() >= 0 and not self.should_exit:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def stop(self) -> None:
        """Let `serve` return: at once, where uvicorn looks ten times a second."""
        self.should_exit = True
        self._stopped.set()

    async def main_loop(self) -> None:
        """Renew the date of the answers each second, until the server is stopped."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._stopped.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let go of what listens and of connections; where there are none, without uvicorn's waits for them."""
        for one in sockets or ():
            with contextlib.suppress(NotImplementedError):
                asyncio.get_running_loop().remove_reader(one)
        for listening in (*self.servers, *(sockets or ())):
            listening.close()
        await asyncio.sleep(_GONE_S)
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the composition root."""
        yield
