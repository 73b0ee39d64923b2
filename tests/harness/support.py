"""Fakes at our own ports: replies of a model, a computer in memory, and a computer on a socket."""

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from orchestrator.core.errors import CallLost, ComputerAway, ComputerFailed
from orchestrator.core.ports import CallResult, ChatMessage, ComputerInfo, ModelReply, Settlement
from orchestrator.core.ports.computers import NOBODY, OnOutput
from orchestrator.core.wire import wire
from orchestrator.core.wire.identity import NOTHING_HEARD, Heard
from orchestrator.core.wire.wire import ComputerId, RunId, SettledCall, sha256_hex
from orchestrator.testing.stub_computer import StubComputer
from tests.waiting import within

ABSENT = "absent"


# -- replies of a model ------------------------------------------------------------------


def call(tool: str, **args: Any) -> dict[str, Any]:
    """One tool call as a reply names it."""
    return {"tool": tool, "args": args}


def says(*calls: dict[str, Any], explanation: str = "because") -> dict[str, Any]:
    """A reply that wants one call, or several at once."""
    if len(calls) == 1:
        return {"kind": "tool", "explanation": explanation, "tool_call": calls[0]}
    return {"kind": "tool", "explanation": explanation, "tool_calls": list(calls)}


def final(message: str = "done", *, success: bool = True, **details: Any) -> dict[str, Any]:
    """A reply that ends the task."""
    return {"kind": "final", "explanation": "that was it", "success": success, "message": message, "details": details}


NEW = b"print('new')\n"
"""What a test writes into a program: it has to parse."""
WRITE = call("cc_write", path="a.lua", content=NEW.decode())


class Listening:
    """A ``ChatModel`` that answers from a script and keeps what it was asked."""

    name = "listening"

    def __init__(self, *script: dict[str, Any] | str | Exception) -> None:
        self.script = deque(script)
        self.asked: list[list[ChatMessage]] = []
        self._last: dict[str, Any] | str | Exception | None = None

    async def window(self) -> None:
        """It does not say."""

    async def reply(
        self,
        messages: Sequence[ChatMessage],
        *,
        on_text: Callable[[str], None] | None = None,
        max_output_tokens: int | None = None,
        user: str = "",
        affinity: str = "",
        one_computer: bool = False,
    ) -> ModelReply:
        del on_text, max_output_tokens
        self.asked.append(list(messages))
        if not self.script and self._last is not None and messages[-1].content.startswith("You say success"):
            # As a model does that has nothing else to say.
            self.script.append(self._last)
        answer = self._last = self.script.popleft()
        if isinstance(answer, Exception):
            raise answer
        return ModelReply(text=answer if isinstance(answer, str) else json.dumps(answer))

    @property
    def told(self) -> str:
        """The last message of the last request: what the model was told of its last step."""
        return self.asked[-1][-1].content


# -- a computer in memory ----------------------------------------------------------------


@dataclass
class Disk:
    """The files of a computer, and the client's methods on them as docs/protocol.md tells them."""

    files: dict[str, bytes] = field(default_factory=dict)
    output: bytes = b"Hello, world!\n"
    done: list[str] = field(default_factory=list)
    """What changed or ran, in order."""

    def hash(self, path: str) -> str:
        return sha256_hex(self.files[path]) if path in self.files else ABSENT

    def perform(self, method: str, params: Mapping[str, Any], body: bytes | None) -> CallResult:
        match method:
            case "fs_read":
                path = self._there(params["path"])
                return CallResult({"size": len(self.files[path]), "sha256": self.hash(path)}, self.files[path])
            case "fs_list":
                entries = [{"name": name, "dir": False, "size": len(data)} for name, data in sorted(self.files.items())]
                return CallResult({"count": len(entries)}, json.dumps(entries).encode())
            case "fs_stat":
                return self._stat(params)
            case "fs_write" | "fs_edit" | "fs_delete":
                return self._change(method, params, body)
            case "run_program" | "shell":
                self._expect(params)
                self.done.append(f"{method} {params['path']}")
                return CallResult({"ended": "returned", "output": len(self.output), "cut": 0}, self.output)
        raise ComputerFailed("unknown_method", f"There is no method {method}.")

    def _stat(self, params: Mapping[str, Any]) -> CallResult:
        path = params.get("path", "")
        if "command" in params:
            word = params["command"].lstrip("/")
            path = word if word in self.files else f"{word}.lua"
        if path not in self.files:
            return CallResult({"kind": "absent", "path": path, "sha256": ABSENT})
        size = len(self.files[path])
        return CallResult({"kind": "file", "path": path, "size": size, "sha256": self.hash(path), "read_only": False})

    def _change(self, method: str, params: Mapping[str, Any], body: bytes | None) -> CallResult:
        path = params["path"]
        before = self._expect(params)
        if method == "fs_write":
            self.files[path] = body or b""
        elif method == "fs_edit":
            old, new = (body or b"")[: params["old_size"]], (body or b"")[params["old_size"] :]
            self.files[path] = self.files[path].replace(old, new)
        else:
            del self.files[path]
        self.done.append(f"{method} {path}")
        return CallResult({"before": before, "sha256": self.hash(path)})

    def _expect(self, params: Mapping[str, Any]) -> str:
        found = self.hash(params["path"])
        if found != params["if_hash"]:
            raise ComputerFailed("stale", f"{params['path']} is not what was expected.", {"actual": found})
        return found

    def _there(self, path: str) -> str:
        if path not in self.files:
            raise ComputerFailed("not_found", "No such file")
        return path


@dataclass(frozen=True)
class Frame:
    """One call as it was sent."""

    method: str
    params: Mapping[str, Any]
    body: bytes | None = None
    run_id: str = ""
    number: int = 0


@dataclass
class Channel:
    """A ``CommandChannel``: a disk, or the answer that a test laid out for a method."""

    disk: Disk = field(default_factory=Disk)
    answers: dict[str, CallResult | Exception] = field(default_factory=dict)
    frames: list[Frame] = field(default_factory=list)

    async def call(
        self, method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        del wait_s
        self.frames.append(Frame(method, params, body))
        answer = self.answers.get(method)
        if isinstance(answer, Exception):
            raise answer
        return answer or self.disk.perform(method, params, body)


@dataclass
class FakeComputers:
    """The port ``Computers`` over disks in memory, with the faults that a test lays out.

    ``faults[method]`` are taken one a call: an exception is raised before anything is done, ``lost``
    loses the answer after it was done, ``vanish`` too and the computer is away, ``hang`` does it when
    ``go`` is set.
    """

    disks: dict[ComputerId, Disk] = field(default_factory=lambda: {ComputerId("3"): Disk()})
    away: set[ComputerId] = field(default_factory=set)
    families: dict[ComputerId, str] = field(default_factory=dict)
    faults: dict[str, deque[Exception | str]] = field(default_factory=dict)
    settle_faults: deque[Exception] = field(default_factory=deque)
    frames: list[Frame] = field(default_factory=list)
    settles: list[tuple[tuple[RunId, ...], int]] = field(default_factory=list)
    forgotten: dict[RunId, int] = field(default_factory=dict)
    outcomes: dict[RunId, CallResult | Exception] = field(default_factory=dict)
    settled_as: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Method to what a settle says of its runs, whatever happened."""
    hanging: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    def sent(self, *methods: str) -> list[Frame]:
        return [frame for frame in self.frames if frame.method in methods]

    def heard(self, computer: ComputerId) -> Heard:
        return NOTHING_HEARD

    def info(self, computer: ComputerId) -> ComputerInfo | None:
        if computer not in self.disks:
            return None
        family = self.families.get(computer, "computer")
        return ComputerInfo(computer=computer, online=computer not in self.away, family=family)

    def pinned(self, computers: Collection[ComputerId]) -> contextlib.AbstractAsyncContextManager[None]:
        return contextlib.nullcontext()

    async def find(self, computers: Collection[ComputerId]) -> None:
        pass

    async def call(
        self,
        computer: ComputerId,
        *,
        run_id: RunId,
        task_id: str,
        number: int,
        method: str,
        params: Mapping[str, Any],
        body: bytes | None = None,
        wait_s: float = 60.0,
        on_output: OnOutput | None = None,
    ) -> CallResult:
        del task_id, wait_s
        if computer in self.away:
            raise ComputerAway(f"Computer {computer} is not connected.")
        self.frames.append(Frame(method, dict(params), body, run_id, number))
        queue = self.faults.get(method)
        fault = queue.popleft() if queue else None
        if isinstance(fault, Exception):
            raise fault
        if fault == "hang":
            self.hanging.set()
            await self.go.wait()
        self.outcomes[run_id] = self._outcome(computer, method, params, body)
        if fault == "vanish":
            self.away.add(computer)
        if fault in ("lost", "vanish"):
            raise CallLost(f"The connection of computer {computer} ended.")
        outcome = self.outcomes[run_id]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _outcome(
        self, computer: ComputerId, method: str, params: Mapping[str, Any], body: bytes | None
    ) -> CallResult | Exception:
        try:
            return self.disks[computer].perform(method, params, body)
        except ComputerFailed as error:
            return error

    async def settle(
        self,
        computer: ComputerId,
        *,
        run_ids: Sequence[RunId],
        number: int,
        on_output: Mapping[RunId, OnOutput] = NOBODY,
    ) -> dict[RunId, Settlement]:
        if computer in self.away:
            raise ComputerAway(f"Computer {computer} is not connected.")
        self.settles.append((tuple(run_ids), number))
        if self.settle_faults:
            raise self.settle_faults.popleft()
        for tell in on_output.values():
            tell(4, b"on and on")
        return {run_id: self._settlement(run_id) for run_id in run_ids}

    def _settlement(self, run_id: RunId) -> Settlement:
        method = next((frame.method for frame in self.frames if frame.run_id == run_id), "")
        forced = self.settled_as.get(method)
        if forced is not None or run_id not in self.outcomes:
            return Settlement(SettledCall.model_validate({"call_id": run_id, "state": "void", **(forced or {})}))
        outcome = self.outcomes[run_id]
        ok = isinstance(outcome, CallResult)
        return Settlement(SettledCall(call_id=run_id, state="finished", ok=ok), outcome)

    def acknowledge(self, computer: ComputerId, run_id: RunId, number: int) -> None:
        del computer
        self.forgotten[run_id] = number


# -- a computer on a socket --------------------------------------------------------------


def hello(**changes: Any) -> wire.Hello:
    """What a computer of the newest kind says first."""
    values: dict[str, Any] = {
        "protocol": wire.PROTOCOL_VERSION,
        "computer_id": 3,
        "label": "farm",
        "host": "ComputerCraft 1.113.1 (Minecraft 1.20.1)",
        "family": "advanced",
        "boot": "boot-1",
        "client": "0.1.0",
        "highest": 0,
        "journal_seq": 1,
    }
    return wire.Hello(**{**values, **changes})


@asynccontextmanager
async def stubs_connected(*stubs: StubComputer) -> AsyncIterator[None]:
    """Stub computers that were welcomed, while the block runs; each keeps its files and its journal."""
    running = [asyncio.create_task(one.run()) for one in stubs]
    try:
        for one in stubs:
            await within(one.welcomed.wait())
        yield
    finally:
        for work in running:
            work.cancel()
        await asyncio.gather(*running, return_exceptions=True)


@dataclass
class StubClient:
    """A computer spoken by hand: it sends and hears single messages."""

    socket: ClientConnection

    async def send(self, message: Any, body: bytes = b"") -> None:
        await self.socket.send(wire.encode(message, body))

    async def hear(self, kind: str | None = None) -> tuple[Any, bytes]:
        """The next message; it has to be of ``kind``."""
        data = await within(self.socket.recv())
        assert isinstance(data, bytes)
        message, body = wire.decode_any(data)
        assert kind in {None, message.type}, message
        return message, body

    async def greet(self, **changes: Any) -> wire.Welcome:
        await self.send(hello(**changes))
        welcome, _ = await self.hear("welcome")
        assert isinstance(welcome, wire.Welcome)
        return welcome

    async def result(self, run_id: str, outcome: CallResult | ComputerFailed) -> None:
        """Say how a call went."""
        if isinstance(outcome, ComputerFailed):
            failed = wire.Result(
                journal_seq=3, call_id=run_id, ok=False, code=outcome.reason, message=outcome.message, data=outcome.data
            )
            await self.send(failed)
            return
        body = wire.whole(outcome.body) if outcome.body else None
        done = wire.Result(journal_seq=3, call_id=run_id, ok=True, data=outcome.data, body=body)
        await self.send(done, outcome.body)

    async def settled(self, number: int, *calls: SettledCall) -> None:
        body = json.dumps([one.model_dump(exclude_none=True) for one in calls]).encode()
        await self.send(wire.Settled(journal_seq=4, number=number, body=wire.whole(body)), body)

    async def closed(self) -> tuple[int, str]:
        """Code and reason of the close that has to come."""
        await within(self.socket.wait_closed())
        return self.socket.close_code or 0, self.socket.close_reason or ""

    async def serve(self, disk: Disk) -> None:
        """Answer every call from a disk until the connection is over."""
        try:
            while True:
                data = await self.socket.recv()
                assert isinstance(data, bytes)
                message, body = wire.decode_any(data)
                if isinstance(message, wire.Call):
                    await self.send(wire.Ack(journal_seq=2, call_id=message.call_id))
                    await self.result(message.call_id, _performed(disk, message, body))
                elif isinstance(message, wire.Ping):
                    await self.send(wire.Pong(journal_seq=2, n=message.n))
                elif isinstance(message, wire.Settle):
                    calls = [SettledCall(call_id=one, state="void") for one in message.call_ids]
                    await self.settled(message.number, *calls)
        except ConnectionClosed:
            pass


def _performed(disk: Disk, message: wire.Call, body: bytes) -> CallResult | ComputerFailed:
    try:
        return disk.perform(message.method, message.params, body)
    except ComputerFailed as error:
        return error


@asynccontextmanager
async def dialed(url: str, token: str = "") -> AsyncIterator[StubClient]:
    """A computer's connection, before its hello."""
    socket = await connect(
        f"{url.replace('http', 'ws', 1)}/computer?n=1",
        additional_headers={"Authorization": f"Bearer {token}"},
        subprotocols=[Subprotocol(wire.COMPUTER_SUBPROTOCOL)],
        compression=None,
        proxy=None,
    )
    async with socket:
        yield StubClient(socket)
