"""Reviewers who watch: sockets at ``/reviewer``, each a person of its own, which read whatever comes."""

import asyncio
from contextlib import suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from bench.call_server import WAIT_S
from bench.measure import raise_file_limit
from bench.worker import answer_all, options, run


class Watchers:
    """The sockets that are open now."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._open: list[tuple[ClientConnection, asyncio.Task[None]]] = []

    async def be(self, tokens: list[str]) -> None:
        """Watch with these tokens and no others; returns when each socket has its first message, the snapshot."""
        for socket, reading in self._open:
            await socket.close()
            await reading
        async with asyncio.timeout(WAIT_S):
            self._open = [await self._begun(token) for token in tokens]

    async def _begun(self, token: str) -> tuple[ClientConnection, asyncio.Task[None]]:
        headers = {"Authorization": f"Bearer {token}"}
        socket = await connect(self._url, additional_headers=headers, compression=None, proxy=None)
        await socket.recv()
        return socket, asyncio.create_task(_read(socket))


async def _read(socket: ClientConnection) -> None:
    with suppress(ConnectionClosed):
        while True:
            await socket.recv()


async def main() -> None:
    """Watch as the pipe says."""
    raise_file_limit()
    watchers = Watchers(f"ws://127.0.0.1:{options()['port']}/reviewer")

    async def handle(request: dict[str, Any]) -> dict[str, Any]:
        await watchers.be(request["tokens"])
        return {"watching": len(request["tokens"])}

    await answer_all(handle)


if __name__ == "__main__":
    run(main)
