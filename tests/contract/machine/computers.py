"""Computers at our own port that keep a record of what they were sent and what they did: the machine's witnesses."""

import contextlib
import json
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from orchestrator.core.errors import CallLost, CallVoid, ComputerAway, ComputerFailed
from orchestrator.core.ports import CallResult, Clock, ComputerInfo, Settlement
from orchestrator.core.wire.identity import NOTHING_HEARD, Heard
from orchestrator.core.wire.wire import ComputerId, RunId, SettledCall, sha256_hex
from orchestrator.testing.stub_disk import StubDisk
from orchestrator.testing.stub_parameters import StubFailure

FILES: Mapping[str, bytes] = {"a.lua": b"-- old a\n", "b.lua": b"-- old b\n", "run.lua": b"print('run')\n"}
FAULTS = ("busy", "not arrived", "answer lost", "gone", "reboot before", "reboot after")
RUNNING = ("run_program", "shell")
_LOOKING = ("fs_read", "fs_list", "fs_stat", "fs_find")


@dataclass(frozen=True)
class Deed:
    """One frame of a run that a computer got, and whether it did what stands there."""

    computer: str
    identity: str
    run_id: str
    number: int
    method: str
    params: Mapping[str, Any]
    body: bytes | None
    at: datetime
    done: bool
    """Whether it changed, ran or read something: refused as stale, nothing was done."""


@dataclass
class Witness:
    """One computer: its disk, its journal, its fence."""

    name: str
    identity: str
    disk: StubDisk = field(default_factory=lambda: StubDisk(FILES))
    online: bool = True
    fence: int = 0
    outcomes: dict[RunId, CallResult | ComputerFailed] = field(default_factory=dict)
    lost: dict[RunId, SettledCall] = field(default_factory=dict)
    """What the journal says of runs whose outcome a reboot took."""


@dataclass
class Witnesses:
    """The port ``Computers``. ``faults`` are taken one for each run that changes something or runs a program."""

    clock: Clock
    meddle: Callable[[str], Awaitable[None]]
    """Called as ``frame`` before a run is carried out and as ``outcome`` before it is answered."""
    all: dict[ComputerId, Witness]
    faults: deque[str] = field(default_factory=deque)
    deeds: list[Deed] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def info(self, computer: ComputerId) -> ComputerInfo | None:
        """As the port has it."""
        one = self.all.get(computer)
        return (
            None
            if one is None
            else ComputerInfo(computer=computer, online=one.online, family="advanced", identity=one.identity)
        )

    def pinned(self, computers: Collection[ComputerId]) -> contextlib.AbstractAsyncContextManager[None]:
        """Where all are is always known here."""
        del computers
        return contextlib.nullcontext()

    async def find(self, computers: Collection[ComputerId]) -> None:
        """Where all are is always known here."""

    def heard(self, computer: ComputerId) -> Heard:
        """There is no journal here."""
        del computer
        return NOTHING_HEARD

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
        on_output: Callable[[int, bytes], None] | None = None,
    ) -> CallResult:
        """Carry a frame out as the client does, with what goes wrong on the way."""
        del wait_s, on_output
        one = self.all[computer]
        if not one.online:
            raise ComputerAway(f"Computer {computer} is not connected.")
        if not task_id:
            return _answer(_performed(one.disk, method, params, body))
        assert run_id not in self._seen, f"run {run_id} was sent twice"
        self._seen.add(run_id)
        await self.meddle("frame")
        fault = self.faults.popleft() if self.faults and method not in _LOOKING else ""
        if not one.online or fault == "not arrived":
            raise CallLost(f"The connection of computer {computer} ended.")
        if number < one.fence or fault == "busy":
            raise CallVoid("below_fence" if number < one.fence else "busy", "The computer did not take it.")
        if fault == "reboot before":
            one.lost[run_id] = _interrupted(run_id, method)
            raise CallLost(f"Computer {computer} restarted.")
        outcome = _performed(one.disk, method, params, body)
        done = isinstance(outcome, CallResult)
        self.deeds.append(
            Deed(computer, one.identity, run_id, number, method, dict(params), body, self.clock.now(), done)
        )
        if fault == "reboot after":
            one.lost[run_id] = _remembered(run_id, method, outcome)
            raise CallLost(f"Computer {computer} restarted.")
        one.outcomes[run_id] = outcome
        one.online = one.online and fault != "gone"
        await self.meddle("outcome")
        if fault in ("answer lost", "gone") or not one.online:
            raise CallLost(f"The connection of computer {computer} ended.")
        return _answer(outcome)

    async def settle(
        self, computer: ComputerId, *, run_ids: Sequence[RunId], number: int, **more: Any
    ) -> dict[RunId, Settlement]:
        """What became of these runs; nothing below the number is taken any more."""
        one = self.all[computer]
        if not one.online:
            raise ComputerAway(f"Computer {computer} is not connected.")
        one.fence = max(one.fence, number)
        return {run_id: _settlement(one, run_id) for run_id in run_ids}

    def acknowledge(self, computer: ComputerId, run_id: RunId, number: int) -> None:
        """What is durable elsewhere may be forgotten."""
        del number
        self.all[computer].outcomes.pop(run_id, None)


def _performed(
    disk: StubDisk, method: str, params: Mapping[str, Any], body: bytes | None
) -> CallResult | ComputerFailed:
    try:
        if method in RUNNING:
            data = disk.file(params["path"])
            if sha256_hex(data) != params["if_hash"]:
                raise StubFailure("stale", "What is there is not what the call expects.")
            return CallResult({"ended": "returned", "output": 4, "cut": 0}, b"ran\n")
        answer = disk.perform(method, params, body)
    except StubFailure as failure:
        return ComputerFailed(failure.code, failure.message, failure.data, failure.body)
    return CallResult(answer.data, answer.body or b"")


def _answer(outcome: CallResult | ComputerFailed) -> CallResult:
    if isinstance(outcome, ComputerFailed):
        raise outcome
    return outcome


def _settlement(one: Witness, run_id: RunId) -> Settlement:
    if run_id in one.lost:
        return Settlement(one.lost[run_id])
    if run_id not in one.outcomes:
        return Settlement(SettledCall(call_id=run_id, state="void"))
    outcome = one.outcomes[run_id]
    ok = isinstance(outcome, CallResult)
    code = outcome.reason if isinstance(outcome, ComputerFailed) else None
    return Settlement(SettledCall(call_id=run_id, state="finished", ok=ok, code=code), outcome)


def _interrupted(run_id: RunId, method: str) -> SettledCall:
    """A change that its swap files say was not done; a program of which nobody knows."""
    if method in RUNNING:
        return SettledCall(call_id=run_id, state="interrupted")
    return SettledCall(call_id=run_id, state="finished", ok=False, code="not_done")


def _remembered(run_id: RunId, method: str, outcome: CallResult | ComputerFailed) -> SettledCall:
    """A change that its swap files say was done, or failed; a program of which nobody knows."""
    if isinstance(outcome, ComputerFailed):
        return SettledCall(call_id=run_id, state="finished", ok=False, code=outcome.reason)
    if method in RUNNING:
        return SettledCall(call_id=run_id, state="interrupted")
    return SettledCall(call_id=run_id, state="finished", ok=True)


def words(args: Sequence[str]) -> bytes:
    """The body of a run."""
    return json.dumps(list(args)).encode()
