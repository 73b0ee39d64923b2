"""A cable to a server that can be cut at the worst moment: after COMMIT was sent, before it was answered."""

import asyncio
from contextlib import suppress
from typing import Final, Self

_COMMIT: Final = b"COMMIT\0"


class Cable:
    """Carries TCP on a port of its own to a server's port, to be used as a context."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._writers: set[asyncio.StreamWriter] = set()
        self.cuts = 0
        """How many of the next commits are carried there, and their answers not back."""
        self.carries = asyncio.Event()
        """Cleared: whoever is connected, or connects, hears nothing, and of no end either."""
        self.carries.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in list(self._writers):
            writer.close()
        await self._server.wait_closed()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.carries.wait()
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        ends = {writer, back}
        self._writers |= ends
        cut = asyncio.Event()
        with suppress(ConnectionError):
            await asyncio.gather(self._forth(reader, back, cut), self._back(there, writer, cut))
        for end in ends:
            end.close()
        self._writers -= ends

    async def _forth(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cut: asyncio.Event) -> None:
        while data := await reader.read(65536):
            await self.carries.wait()
            if self.cuts and _COMMIT in data:
                self.cuts -= 1
                cut.set()
            writer.write(data)
        writer.close()

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cut: asyncio.Event) -> None:
        while data := await reader.read(65536):
            if cut.is_set():
                break
            writer.write(data)
        writer.close()
