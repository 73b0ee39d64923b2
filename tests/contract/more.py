"""More words for the contract: a computer spoken by hand, the frames that a stub was sent, digests computed anew."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from orchestrator.core.ports import Store
from orchestrator.core.wire import wire
from orchestrator.testing.stub_computer import StubComputer
from tests.contract.house import Opened
from tests.harness.support import StubClient, dialed
from tests.waiting import within

LOOKS = ("fs_read", "fs_list", "fs_stat", "fs_find", "info", "screen")
"""The methods that change nothing."""


def sha256(data: bytes | str) -> str:
    """As hexadecimal digits."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def digest_of(content: Mapping[str, Any]) -> str:
    """sha256 of canonical JSON, computed here and not by the product."""
    return sha256(json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True))


def calls_of(stub: StubComputer) -> list[wire.Call]:
    """The calls that a stub is sent from now on, as they come."""
    heard: list[wire.Call] = []
    take = stub.start

    def start(call: wire.Call, body: bytes | None) -> None:
        heard.append(call)
        take(call, body)

    vars(stub)["start"] = start
    return heard


def changes_in(calls: list[wire.Call]) -> list[str]:
    """The methods of those that change something or run a program, in order."""
    return [one.method for one in calls if one.method not in LOOKS]


class ByHand:
    """Computer 3, spoken by the test frame by frame. ``seen``: every message of the orchestrator, pings left out."""

    def __init__(self, client: StubClient) -> None:
        self.client = client
        self.seen: list[Any] = []

    async def hear(self) -> tuple[Any, bytes]:
        """The next message that is no ping."""
        while True:
            message, body = await self.client.hear()
            if message.type == "ping":
                await self.client.send(wire.Pong(journal_seq=2, n=message.n))
                continue
            self.seen.append(message)
            return message, body

    async def call(self, *methods: str, files: Mapping[str, bytes] | None = None) -> wire.Call:
        """The next call of one of these methods, acknowledged; looks before it are answered from ``files``."""
        while True:
            message, _ = await self.hear()
            if isinstance(message, wire.Call):
                await self.client.send(wire.Ack(journal_seq=2, call_id=message.call_id))
                if message.method in methods:
                    return message
                await self._look(message, files or {})

    async def settle(self) -> wire.Settle:
        """The next question what became of calls; nothing but acknowledgements may come before it."""
        while True:
            message, _ = await self.hear()
            if isinstance(message, wire.Settle):
                return message
            assert isinstance(message, wire.ResultAck), message

    async def ok(self, call: wire.Call, data: Mapping[str, Any] | None = None, output: bytes = b"") -> None:
        """Say that a call succeeded."""
        body = wire.whole(output) if output else None
        done = wire.Result(journal_seq=3, call_id=call.call_id, ok=True, data=dict(data or {}), body=body)
        await self.client.send(done, output)

    async def failed(self, call: wire.Call, code: str) -> None:
        """Say that a call failed."""
        await self.client.send(wire.Result(journal_seq=3, call_id=call.call_id, ok=False, code=code, message="No."))

    async def _look(self, call: wire.Call, files: Mapping[str, bytes]) -> None:
        path = str(call.params.get("path", call.params.get("command", ""))).lstrip("/")
        data = files.get(path)
        if call.method == "fs_read" and data is not None:
            await self.ok(call, {"size": len(data), "sha256": sha256(data)}, data)
        elif call.method == "fs_stat" and data is not None:
            about = {"kind": "file", "path": path, "size": len(data), "sha256": sha256(data), "read_only": False}
            await self.ok(call, about)
        elif call.method == "fs_stat":
            await self.ok(call, {"kind": "absent", "path": path, "sha256": "absent", "read_only": False})
        else:
            await self.failed(call, "not_found")


@asynccontextmanager
async def by_hand(server: Opened, token: str, **hello: Any) -> AsyncIterator[ByHand]:
    """Computer 3 by hand, connected and welcome; ``hello``: what it says otherwise."""
    async with dialed(server.url, token) as client:
        await client.greet(**hello)
        yield ByHand(client)


class Gated:
    """A store whose appends of some kinds of facts wait for the test. ``reached[kind]`` is set when one waits.

    ``parked`` is set when a task was put to sleep.
    """

    def __init__(self, store: Store, *kinds: str) -> None:
        self._store = store
        self.reached = {kind: asyncio.Event() for kind in kinds}
        self.go = {kind: asyncio.Event() for kind in kinds}
        self.parked = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def park(self, *args: Any, **more: Any) -> None:
        """As the store has it."""
        await self._store.park(*args, **more)
        self.parked.set()

    async def append(self, task_id: Any, version: int, drafts: Any, **more: Any) -> Any:
        """As the store has it, once the test lets it."""
        for draft in drafts:
            kind = draft.fact.kind
            if kind in self.go:
                self.reached[kind].set()
                await within(self.go[kind].wait())
        return await self._store.append(task_id, version, drafts, **more)
