"""One address before several nodes, as a load balancer is: each new connection goes to the next node that is well.

Nothing is sticky. A node is well while its ``/healthz`` answers 200 in time; what is connected to one that is not
stays connected until either side ends it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import httpx2

LOOK_EVERY_S: Final = 0.25
WELL_WITHIN_S: Final = 1.0
CONNECT_WITHIN_S: Final = 1.0
CHUNK_BYTES: Final = 64 * 1024


@dataclass
class Balancer:
    """One address of several nodes."""

    ports: Sequence[int]
    """Of the nodes."""
    port: int = 0
    well: set[int] = field(default_factory=set)
    """The ports of those that answered well the last time."""
    _turn: int = 0
    _serving: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        """Where everybody goes."""
        return f"http://127.0.0.1:{self.port}"

    def accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Somebody's connection, passed on until one side ends it."""
        serving = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    async def look(self) -> None:
        """Look after the nodes until canceled."""
        async with httpx2.AsyncClient(trust_env=False, timeout=WELL_WITHIN_S, verify=False) as http:
            while True:
                await asyncio.gather(*(self._look_at(http, port) for port in self.ports))
                await asyncio.sleep(LOOK_EVERY_S)

    async def close(self) -> None:
        """End every connection."""
        serving = tuple(self._serving)
        for one in serving:
            one.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    async def _look_at(self, http: httpx2.AsyncClient, port: int) -> None:
        try:
            answer = await http.get(f"http://127.0.0.1:{port}/healthz")
        except httpx2.HTTPError:
            self.well.discard(port)
        else:
            (self.well.add if answer.status_code == httpx2.codes.OK else self.well.discard)(port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened = [writer]
        try:
            found = await self._node()
            if found is None:
                return
            up_reader, up_writer = found
            opened.append(up_writer)
            pumps = [
                asyncio.ensure_future(_pump(reader, up_writer)),
                asyncio.ensure_future(_pump(up_reader, writer)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            for one in opened:
                one.close()

    async def _node(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """A connection to the next node that is well and takes it; None: none does."""
        for _ in self.ports:
            self._turn += 1
            port = self.ports[self._turn % len(self.ports)]
            if port in self.well:
                with contextlib.suppress(OSError, TimeoutError):
                    async with asyncio.timeout(CONNECT_WITHIN_S):
                        return await asyncio.open_connection("127.0.0.1", port)
        return None


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()


@contextlib.asynccontextmanager
async def balanced(ports: Sequence[int]) -> AsyncIterator[Balancer]:
    """A balancer that listens, before nodes on these ports of this host."""
    balancer = Balancer(ports)
    server = await asyncio.start_server(balancer.accepted, "127.0.0.1", 0, backlog=1024)
    balancer.port = server.sockets[0].getsockname()[1]
    looking = asyncio.create_task(balancer.look())
    try:
        yield balancer
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        server.close()
        await balancer.close()
