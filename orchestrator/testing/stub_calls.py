"""The journal of a stub computer, in memory, and the life of its calls: docs/protocol.md section 1.5."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from orchestrator.core.wire import wire
from orchestrator.core.wire.wire import RunId
from orchestrator.testing.stub_disk import Answer, StubDisk
from orchestrator.testing.stub_parameters import StubFailure
from orchestrator.testing.stub_programs import StubPeripherals, StubPrograms

RUNNERS: Final = ("run_program", "shell")


class Line(Protocol):
    """The present connection, as a call needs it."""

    def send(self, message: Any, body: bytes = b"") -> None:
        """Send a message, in parts where its body is large; without a connection it is lost."""


@dataclass
class Entry:
    """One call in the journal."""

    state: str
    """``open``, ``ok`` or ``failed``."""
    result: wire.Result | None = None
    body: bytes = b""
    sha256: str | None = None


@dataclass
class StubCalls:
    """The computer's record of its calls."""

    line: Line
    disk: StubDisk
    programs: StubPrograms
    peripherals: StubPeripherals
    own: Mapping[str, Callable[[dict[str, Any]], Answer]]
    """Methods about the computer itself, by their names."""
    seq: int = 1
    fence: int = 0
    highest: int = 0
    found_seq: int | None = 0
    """A stub begins without a journal."""
    entries: dict[RunId, Entry] = field(default_factory=dict)

    def raise_fence(self, number: int) -> None:
        """Calls below the number never start from now on."""
        self.seq += 1
        self.fence = max(self.fence, number)
        self.highest = max(self.highest, number)

    async def take(self, call: wire.Call, body: bytes | None) -> None:
        """Take a call whose body is whole: run it once, or say again what became of it."""
        run_id = RunId(call.call_id)
        if run_id in self.entries:
            self._again(run_id)
            return
        code = self._refusal(call)
        if code is not None:
            refused = wire.CallRefused(journal_seq=self.seq, call_id=run_id, code=code, message="The call never ran.")
            self.line.send(refused)
            return
        self.seq += 1
        self.highest = max(self.highest, call.number)
        entry = self.entries[run_id] = Entry("open")
        self.line.send(wire.Ack(journal_seq=self.seq, call_id=run_id))
        outcome = await self._outcome(run_id, call, body)
        self.seq += 1
        self._record(run_id, entry, outcome)
        self.say(run_id)

    def settle(self, message: wire.Settle) -> tuple[wire.Settled, bytes]:
        """Raise the fence and say what became of each call; the results themselves are the line's to send before."""
        self.raise_fence(message.number)
        body = json.dumps([self._settled(RunId(one)) for one in message.call_ids], separators=(",", ":")).encode()
        return wire.Settled(journal_seq=self.seq, number=message.number, body=wire.whole(body)), body

    def acknowledge(self, message: wire.ResultAck) -> bool:
        """Forget an outcome; False: the call still runs."""
        entry = self.entries.get(RunId(message.call_id))
        if entry is not None and entry.state == "open":
            return False
        self.seq += 1
        self.entries.pop(RunId(message.call_id), None)
        self.highest = max(self.highest, message.number)
        return True

    def finished(self, run_id: RunId) -> bool:
        """Whether there is a result to say."""
        entry = self.entries.get(run_id)
        return entry is not None and entry.result is not None

    def say(self, run_id: RunId) -> None:
        """Send the result of a finished call."""
        entry = self.entries[run_id]
        if entry.result is not None:
            self.line.send(entry.result.model_copy(update={"journal_seq": self.seq}), entry.body)

    # -- inside --------------------------------------------------------------------------

    def _refusal(self, call: wire.Call) -> str | None:
        is_open = sum(entry.state == "open" for entry in self.entries.values())
        if call.number < self.fence:
            return "below_fence"
        if is_open >= wire.MAX_OPEN_CALLS or len(self.entries) - is_open >= wire.MAX_UNACKNOWLEDGED:
            return "busy"
        return None

    def _again(self, run_id: RunId) -> None:
        if self.finished(run_id):
            self.say(run_id)
        else:
            self.line.send(wire.Ack(journal_seq=self.seq, call_id=run_id))

    async def _outcome(self, run_id: RunId, call: wire.Call, body: bytes | None) -> Answer | StubFailure:
        def tell(offset: int, data: bytes) -> None:
            described = wire.Body(offset=offset, total=offset + len(data), sha256=wire.sha256_hex(data))
            self.line.send(wire.Output(journal_seq=self.seq, call_id=run_id, body=described), data)

        try:
            if call.method in RUNNERS:
                return await self.programs.execute(run_id, call.method, call.params, body, tell)
            if call.method == "terminate":
                return self.programs.terminate(call.params)
            if call.method == "screen":
                of = call.params.get("of", "program")
                is_monitor = of != "program" and isinstance(of, str)
                return self.peripherals.screen(str(of)) if is_monitor else self.programs.screen(call.params)
            if call.method == "peripheral_call":
                return self.peripherals.call(call.params, body)
            if call.method in self.own:
                return self.own[call.method](call.params)
            answer = self.disk.perform(call.method, call.params, body)
            if len(answer.body or b"") > wire.MAX_WHOLE_BYTES:
                return StubFailure("too_large", "The answer is larger than a body can be.")
        except StubFailure as failure:
            return failure
        return answer

    def _record(self, run_id: RunId, entry: Entry, outcome: Answer | StubFailure) -> None:
        failed = isinstance(outcome, StubFailure)
        entry.state = "failed" if failed else "ok"
        entry.body = outcome.body or b""
        has_body = bool(outcome.body) if failed else outcome.body is not None
        entry.result = wire.Result(
            journal_seq=self.seq,
            call_id=run_id,
            ok=not failed,
            code=outcome.code if isinstance(outcome, StubFailure) else None,
            message=outcome.message[:512] if isinstance(outcome, StubFailure) else None,
            data=outcome.data,
            body=wire.whole(entry.body) if has_body else None,
        )
        entry.sha256 = outcome.sha256 if isinstance(outcome, Answer) else None

    def _settled(self, run_id: RunId) -> dict[str, Any]:
        entry = self.entries.get(run_id)
        if entry is None:
            return {"call_id": run_id, "state": "void"}
        if entry.result is None:
            return {"call_id": run_id, "state": "running"}
        said = {"call_id": run_id, "state": "finished", "ok": entry.result.ok}
        if entry.result.code is not None:
            said["code"] = entry.result.code
        if entry.sha256 is not None:
            said["sha256"] = entry.sha256
        return said
