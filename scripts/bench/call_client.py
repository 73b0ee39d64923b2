"""The computers of the call bench: one process, no library, as little work as it takes to answer.

It speaks both protocols of `call_server`: that of this project, which acknowledges each call and then
answers it, in two frames; and of the raw server, one frame for one frame. Frames are made by
hand and masked with zeros, which the server has to unmask like any other mask.
"""

import asyncio
import base64
import hashlib
import json
import struct
from collections.abc import Callable
from typing import Any, Final, cast

from bench.measure import raise_file_limit
from bench.worker import answer_all, options, run

BODY: Final = b"print('all the crops are ripe')\n"
AT_ONCE: Final = 100
"""Connections that are being made at one time: a listener's queue is not what is measured."""
_SHA256: Final = hashlib.sha256(BODY).hexdigest()
_KEY: Final = base64.b64encode(b"0123456789abcdef").decode()


def frame(opcode: int, payload: bytes) -> bytes:
    """A client's frame, masked with zeros."""
    size = len(payload)
    length = bytes((0x80 | size,)) if size < 126 else struct.pack("!BH", 0x80 | 126, size)
    return bytes((0x80 | opcode,)) + length + bytes(4) + payload


class Client(asyncio.Protocol):
    """One connection: the handshake, then an answer to each frame."""

    def __init__(self, path: str, headers: str, ready: Callable[[], None]) -> None:
        self._path, self._headers, self._ready = path, headers, ready
        self._buffer = b""
        self._open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's is one in all but name.
        self._transport = cast("asyncio.Transport", transport)
        request = f"GET {self._path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        request += f"Sec-WebSocket-Key: {_KEY}\r\nSec-WebSocket-Version: 13\r\n{self._headers}\r\n"
        self._transport.write(request.encode())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._open and not self._upgraded():
            return
        while (payload := self._next()) is not None:
            self.answer(payload)

    def _upgraded(self) -> bool:
        head, end, rest = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return False
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise RuntimeError(f"The server did not upgrade: {head[:200]!r}")
        self._open, self._buffer = True, rest
        self.opened()
        return True

    def _next(self) -> bytes | None:
        buffer = self._buffer
        if len(buffer) < 4:
            return None
        size, start = buffer[1], 2
        if size == 126:
            (size,), start = struct.unpack_from("!H", buffer, 2), 4
        if len(buffer) < start + size:
            return None
        self._buffer = buffer[start + size :]
        return buffer[start : start + size]

    def opened(self) -> None:
        """The handshake is through."""
        self._ready()

    def answer(self, payload: bytes) -> None:
        """Answer one frame."""
        asked = json.loads(payload)
        if "id" in asked:
            self._finish(asked["id"])

    def _finish(self, number: Any) -> None:
        data = {"size": len(BODY), "sha256": _SHA256, "body": BODY.decode(), "body_sha256": _SHA256}
        self._tell({"id": number, "ok": True, "data": data})

    def _tell(self, message: dict[str, Any]) -> None:
        self._transport.write(frame(1, json.dumps(message).encode()))


class Acknowledging(Client):
    """A raw client that says first that it has the call."""

    def answer(self, payload: bytes) -> None:
        asked = json.loads(payload)
        if "id" in asked:
            self._tell({"id": asked["id"], "ok": False})
            asyncio.get_running_loop().call_soon(self._finish, asked["id"])


class Computer(Client):
    """One computer of this project: hello, then ack and result for each call, as the Lua client sends them."""

    _seq = 1

    def opened(self) -> None:
        hello = {
            "type": "hello",
            "protocol": 1,
            "computer_id": 7,
            "host": "ComputerCraft 1.116.1 (Minecraft 1.21.1)",
            "family": "advanced",
            "boot": "b1",
            "client": "bench",
            "highest": 0,
            "journal_seq": 1,
        }
        self._send(hello)

    def answer(self, payload: bytes) -> None:
        header = json.loads(payload.partition(b"\n")[0])
        match header["type"]:
            case "welcome":
                self._ready()
            case "call":
                self._call(header["call_id"])
            case "ping":
                self._send({"type": "pong", "journal_seq": self._seq, "n": header["n"]})
            case _:
                pass

    def _call(self, call_id: str) -> None:
        self._seq += 1
        self._send({"type": "ack", "journal_seq": self._seq, "call_id": call_id})
        # In the next turn of the loop: on a computer the disk is written between the two.
        asyncio.get_running_loop().call_soon(self._finish, call_id)

    def _finish(self, number: Any) -> None:
        self._seq += 1
        result = {
            "type": "result",
            "journal_seq": self._seq,
            "call_id": number,
            "ok": True,
            "data": {"size": len(BODY), "sha256": _SHA256},
            "body": {"offset": 0, "total": len(BODY), "sha256": _SHA256},
        }
        self._send(result, BODY)

    def _send(self, message: dict[str, Any], body: bytes = b"") -> None:
        self._transport.write(frame(2, json.dumps(message, separators=(",", ":")).encode() + b"\n" + body))


async def main() -> None:
    """Connect as many as are asked for and answer until the pipe closes."""
    raise_file_limit()
    told = options()
    ours = told["kind"] == "ours"
    make = {"ours": Computer, "raw": Client, "raw with four frames": Acknowledging}[told["kind"]]
    loop = asyncio.get_running_loop()
    gate = asyncio.Semaphore(AT_ONCE)

    async def connect(token: str) -> None:
        ready = asyncio.Event()
        headers = f"Authorization: Bearer {token}\r\n" if ours else ""
        path = f"/computer?n={token[:8]}" if ours else "/"
        async with gate:
            await loop.create_connection(lambda: make(path, headers, ready.set), "127.0.0.1", told["port"])
            async with asyncio.timeout(60):
                await ready.wait()

    async def handle(request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.gather(*(connect(token) for token in request["tokens"]))
        return {"connected": len(request["tokens"])}

    await answer_all(handle)


if __name__ == "__main__":
    run(main)
