"""A server of another version: a real one behind a wire on which some words are others, of the same length."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


@asynccontextmanager
async def another_version(url: str, *, told: Mapping[str, str]) -> AsyncIterator[str]:
    """The address of it. ``told``: words on the way back, and what they become."""
    there = urlsplit(url)

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection(there.hostname, there.port)
        ways = (_carry(reader, forth, {}), _carry(back, writer, told))
        await asyncio.gather(*ways)

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, words: Mapping[str, str]) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(1 << 20):
            for word, other in words.items():
                assert len(word) == len(other), "a frame has the length that it says"
                data = data.replace(word.encode(), other.encode())
            writer.write(data)
            await writer.drain()
    writer.close()
