"""Computers and workspace as the actor works with them.

Looking (``observe``) makes pure calls without a bracket; doing (``run``) makes the one call
that the bracket names; settling asks the computer what became of brackets whose outcome
nobody heard. A library call brings its own dependencies instead.
"""

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.core.errors import ComputerFailed, InvalidRequest, OrchestratorError, ToolFailed
from orchestrator.core.evidence.checks import BY_JOURNAL
from orchestrator.core.policy import BUILT_IN_CATALOG, RUNNERS
from orchestrator.core.ports import Lease, Settlement, Workspace
from orchestrator.core.ports.computers import NOBODY, OnOutput
from orchestrator.core.task import facts
from orchestrator.core.task.facts import Observed
from orchestrator.core.task.task import AgentTask, CallRecord
from orchestrator.core.undo.plan import Found, Listed
from orchestrator.core.undo.touches import ABSENT, DIRECTORY
from orchestrator.core.wire.wire import ComputerId, RunId, sha256_hex
from orchestrator.tools.computer.listings import Kept, OnRead, keep_tree, list_tree, nobody_waits, other_disks
from orchestrator.tools.computer.observation import look, missing_above
from orchestrator.tools.computer.programs import RUN_TIMEOUT_S, ran_of
from orchestrator.tools.deps import CCAgentDeps, CommandChannel, Encoding, ProgramFailed
from orchestrator.tools.environment.channels import Doing, Listening, Looking, Reach, Replaying, run_id_of
from orchestrator.tools.registry import TOOL_REGISTRY

# -- What is recorded of a call whose outcome nobody heard, once its computer or this host was asked

_IN_DOUBT = (
    "The computer's disk or the orchestrator's store was put back, or the computer was copied, while this was under "
    "way: nobody knows whether it was done."
)
_REASONS = {
    "interrupted": "The computer restarted while this ran.",
    "unknown": "The computer restarted in the middle of the change, and something else took the file's place.",
    "void": "It never ran.",
}


def settled(record: CallRecord, state: Any, **rest: Any) -> facts.ToolSettled:
    """The fact that a call was settled; ``rest``: its other fields."""
    return facts.ToolSettled(call_id=record.call_id, run_id=run_id_of(record), state=state, **rest)


def in_doubt(record: CallRecord) -> facts.ToolSettled:
    """The outcome of a change that was started before something was put back or copied: unknown, no answer counts."""
    return settled(record, "unknown", reason=_IN_DOUBT)


def by_journal(record: CallRecord, answer: Settlement) -> facts.ToolSettled:
    """The outcome of a call by a computer's journal alone: its result is not there, or never was."""
    state = answer.call.state
    if state in ("interrupted", "unknown", "void"):
        return settled(record, state, reason=_REASONS[state])
    code = answer.call.code or ("returned" if answer.call.ok else "failed")
    ran = _ran(record, code)
    if answer.call.ok or (ran is not None and ran.ended == "timed_out"):
        how = {"observed": "It was watched and then stopped", "timed_out": "It reached its limit of time"}
        begin = how.get(code, "Done")
        text = f"{begin}{BY_JOURNAL} Its output was lost when the computer restarted."
        after = _left(record, answer.call.sha256) if answer.call.ok else {}
        return settled(record, "finished", ok=True, text=text, after=after, ran=ran)
    if code == "not_done":
        return settled(record, "void", reason="The computer restarted before the change; nothing was changed.")
    text = f"It did not succeed ({code}){BY_JOURNAL} Details were lost when it restarted."
    return settled(record, "finished", ok=False, text=text, code=code, ran=ran)


def _ran(record: CallRecord, code: str) -> facts.Ran | None:
    """The program that a call ran, as its bracket bound it; None: it runs none, or the program never began."""
    if record.call.tool not in RUNNERS or not record.before:
        return None
    path, sha256 = next(iter(record.before.items()))
    return ran_of({"path": path, "if_hash": sha256}, {}, code)


def _left(record: CallRecord, sha256: str | None) -> dict[str, str]:
    """The state that a change left, by the one hash that the computer's journal keeps; empty: it changed no file."""
    if sha256 is None or record.before is None:
        return {}
    moved = record.call.tool == "cc_move"
    return {path: ABSENT if moved and found != ABSENT else sha256 for path, found in record.before.items()}


# -- Computers and workspace as the actor works with them --------------------------------

logger = logging.getLogger(__name__)

_TERMINATE_WITHIN_S = 5.0
"""A computer that does not answer for so long is as good as away."""
_INFO_WITHIN_S = 20.0
OUTCOME_UNKNOWN = "outcome_unknown"
"""The client's code for a change that failed half way and could not be taken back."""


@dataclass(frozen=True)
class Outcome:
    """The result of a call that succeeded."""

    text: str
    """The text for the model."""
    after: Mapping[str, str] = field(default_factory=dict)
    """Each changed path with its sha256 or ``absent`` now, where it is known."""
    ran: facts.Ran | None = None
    """The program that ran; None: the call runs none."""


@dataclass
class Environment(Reach):
    """Computers, workspace and mode of one orchestrator (or of one library call)."""

    workspace: Workspace | None = None
    run_timeout_s: int = RUN_TIMEOUT_S
    """Seconds of the game that a program may run where nothing else says."""
    library: CCAgentDeps = field(default_factory=lambda: CCAgentDeps(mode="stub"))
    """The dependencies of a library call: a dictionary in stub mode, or the caller's own channel."""

    async def observe(self, record: CallRecord) -> Observed:
        """The present target of the call; the bytes that it would change are in the store then.

        Raises ToolFailed, ComputerAway, CallLost.
        """
        tool = TOOL_REGISTRY[record.call.tool]
        if tool.observe is None:
            return Observed(state={})
        channel = Listening(Looking(self, record.call.computer))
        deps = self._deps(record.call.computer, channel)
        deps.keep = self._keep
        deps.by_person = record.original is not None
        with channel.told():
            return channel.observed(await tool.observe(deps, **_arguments(record)))

    async def missing_for(self, record: CallRecord, observed: Observed) -> tuple[str, ...]:
        """The directories on the way to what a call makes that are not there now: it makes them as well.

        Raises ToolFailed, ComputerAway, CallLost, CallVoid.
        """
        call = record.call
        if BUILT_IN_CATALOG[call.tool].recovery != "by_state":
            return observed.made
        absent = [path for path, found in observed.state.items() if found == ABSENT]
        if call.computer is None:
            space = self.workspace
            return await asyncio.to_thread(space.missing_above, absent[0]) if space is not None else observed.made
        deps = self._deps(call.computer, Looking(self, call.computer))
        named: Encoding = call.args.get("encoding", "utf-8")
        return tuple([one for path in absent for one in await missing_above(deps, path, named)])

    async def found(self, computer: ComputerId | None, path: str) -> Found:
        """What is in a place now; ``computer`` None: in the workspace. Raises ToolFailed, ComputerAway, CallLost."""
        if computer is None:
            return await asyncio.to_thread(_found_here, self.workspace, path)
        shown = await look(self._deps(computer, Looking(self, computer)), path, path)
        if shown.kind == "directory":
            return Found(DIRECTORY, shown.inside, tree=shown.sha256)
        return Found(shown.sha256 if shown.kind == "file" else ABSENT, size=shown.size)

    async def listed(self, computer: ComputerId, path: str = "", *, until: float = math.inf) -> Listed:
        """All that is on a computer now, or below a path of it; ``until`` is a time of the event loop's clock.

        Raises ToolFailed, also when it takes longer than that, ComputerAway, CallLost, CallVoid.
        """
        channel = Listening(Looking(self, computer, until))
        with channel.told():
            listed = await list_tree(self._deps(computer, channel), path)
        return replace(listed, pieces=frozenset(channel.pieces))

    async def kept(
        self,
        computer: ComputerId,
        listed: Listed,
        *,
        until: float = math.inf,
        most: float = math.inf,
        on_read: OnRead = nobody_waits,
    ) -> Kept:
        """A listing with the bytes of its files in the store; ``until`` and ``most`` new bytes: others are skipped.

        Raises ToolFailed, ComputerAway, CallLost, CallVoid.
        """
        deps = self._deps(computer, Looking(self, computer, until))
        deps.keep = self._keep
        return await keep_tree(deps, listed, self.store.touch_blobs, most=most, on_read=on_read)

    async def kept_whole(self, computer: ComputerId, on_read: OnRead = nobody_waits) -> Kept:
        """All that is on a computer now, with its bytes in the store; what was left out, with the reason.

        Raises as :meth:`kept`.
        """
        listed = await self.listed(computer)
        disks = await other_disks(self._deps(computer, Looking(self, computer)), listed)
        return await self.kept(computer, replace(listed, skipped={**listed.skipped, **disks}), on_read=on_read)

    async def capacity(self, computer: ComputerId) -> int:
        """The size of a computer's disk, in bytes; 0: it does not say. Raises as ``listed``."""
        told = await Looking(self, computer).call("info", {}, wait_s=_INFO_WITHIN_S)
        capacity = told.data.get("capacity", 0)
        return max(0, capacity) if isinstance(capacity, int) else 0

    async def prepare(self, record: CallRecord, run_id: RunId) -> None:
        """The work on this host's disk before the bracket opens. Raises ToolFailed."""
        tool = TOOL_REGISTRY[record.call.tool]
        if tool.prepare is not None:
            deps = self._deps(record.call.computer, None)
            deps.run_id = run_id
            await tool.prepare(deps, **_arguments(record))

    async def run(
        self,
        task: AgentTask,
        record: CallRecord,
        *,
        timeout_s: float | None = None,
        on_output: OnOutput | None = None,
    ) -> Outcome:
        """Do the started call, once; a program gets ``timeout_s`` seconds (None: the tools' own limit).

        Raises ToolFailed, ComputerFailed, ComputerAway, CallVoid, CallLost.
        """
        return await self._perform(record, Doing(self, task, record, on_output), timeout_s)

    async def terminate(self, computer: ComputerId, run_id: RunId) -> None:
        """Stop a program that runs on a computer; one that cannot be stopped ends with its own time."""
        try:
            await Looking(self, computer).call("terminate", {"run": run_id}, wait_s=_TERMINATE_WITHIN_S)
        except OrchestratorError as error:
            logger.info("run %s could not be stopped: %s", run_id, error, extra={"computer": computer})

    async def settle(
        self,
        computer: ComputerId | None,
        records: Sequence[CallRecord],
        lease: Lease,
        on_output: Mapping[RunId, OnOutput] = NOBODY,
    ) -> list[facts.ToolSettled]:
        """The outcome of started calls. Raises ComputerAway, CallLost, LeaseLost."""
        if computer is None or self.computers is None:
            return [await self._settle_here(record) for record in records]
        number = await self.store.allot_number(computer, lease=lease)
        runs = [record.run_id for record in records if record.run_id is not None]
        answers = await self.computers.settle(computer, run_ids=runs, number=number, on_output=on_output)
        # After the answers: then the record has what froze the computer before it gave them, on every node.
        doubtful = (await self.store.computer(computer)).doubtful_below
        return [
            in_doubt(record)
            if record.mutates and record.number < doubtful
            else await self._settled(record, answers[record.run_id])
            for record in records
            if record.run_id is not None
        ]

    # -- inside --------------------------------------------------------------------------

    async def _keep(self, content: bytes) -> None:
        await self.store.put_blob(content)

    async def _perform(self, record: CallRecord, channel: CommandChannel, timeout_s: float | None = None) -> Outcome:
        listening = Listening(channel)
        deps = self._deps(record.call.computer, listening)
        deps.timeout_s = timeout_s if timeout_s is not None else deps.timeout_s
        deps.expected = record.before
        if record.observed is not None:
            deps.encoding, deps.noted = record.observed.encoding, record.observed.note
        deps.run_id = record.run_id
        with listening.told():
            text = await TOOL_REGISTRY[record.call.tool].function(deps, **_arguments(record))
        return Outcome(listening.text(text), deps.after, deps.ran)

    def _deps(self, computer: ComputerId | None, channel: CommandChannel | None) -> CCAgentDeps:
        if self.computers is None:
            return replace(self.library, after={}, fetch=self.store.get_blob)
        info = self.computers.info(computer) if computer else None
        return CCAgentDeps(
            mode="live",
            ws_client=channel,
            workspace=self.workspace,
            computer=computer,
            host=info.host if info else "",
            family=info.family if info else "",
            fetch=self.store.get_blob,
        )

    async def _settle_here(self, record: CallRecord) -> facts.ToolSettled:
        tool = TOOL_REGISTRY[record.call.tool]
        run_id = run_id_of(record)
        if tool.spec.recovery == "pure":
            return settled(record, "interrupted", reason="The orchestrator stopped while it looked.")
        if tool.settle is None or self.workspace is None:
            reason = "The orchestrator stopped while this ran."
            return settled(record, "unknown", reason=reason)
        deps = self._deps(record.call.computer, None)
        try:
            undone = await tool.settle(deps, run_id)
        except (ToolFailed, InvalidRequest) as error:
            return settled(record, "unknown", reason=f"The orchestrator stopped while this ran. {error.message}")
        if undone:
            return settled(record, "void", reason="The orchestrator stopped before it was done.")
        text = "Done, just before the orchestrator stopped."
        return settled(record, "finished", ok=True, text=text, after=await self._left_here(record, deps))

    async def _left_here(self, record: CallRecord, deps: CCAgentDeps) -> dict[str, str]:
        """The state that a change on this host left; empty: that cannot be told."""
        tool = TOOL_REGISTRY[record.call.tool]
        deps.expected = record.before
        try:
            return await tool.left(deps, **_arguments(record)) if tool.left is not None else {}
        except (ToolFailed, InvalidRequest):
            return {}

    async def _settled(self, record: CallRecord, answer: Settlement) -> facts.ToolSettled:
        if answer.result is None:
            return by_journal(record, answer)
        try:
            outcome = await self._perform(record, Replaying(answer.result))
        except ComputerFailed as error:
            if error.reason == OUTCOME_UNKNOWN:
                return settled(record, "unknown", reason=error.message)
            return settled(record, "finished", ok=False, text=str(error), code=error.reason)
        except (ToolFailed, InvalidRequest) as error:
            return settled(record, "finished", ok=False, text=str(error), ran=ran_by(error))
        after = dict(outcome.after)
        return settled(record, "finished", ok=True, text=outcome.text, after=after, ran=outcome.ran)


def ran_by(error: Exception) -> facts.Ran | None:
    """The program of a call that failed; None: it ran none, or the program never began."""
    return error.ran if isinstance(error, ProgramFailed) else None


def _found_here(workspace: Workspace | None, path: str) -> Found:
    """What is in a place of this host; blocks for as long as the disk takes."""
    inside = workspace.inside(path) if workspace is not None else None
    if inside is not None:
        return Found(DIRECTORY, inside, tree=DIRECTORY)
    data = workspace.read_bytes(path) if workspace is not None else None
    return Found(ABSENT if data is None else sha256_hex(data))


def _arguments(record: CallRecord) -> dict[str, Any]:
    return {key: value for key, value in record.call.args.items() if key != "computer"}
