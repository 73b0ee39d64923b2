"""What a task's calls touch: its computers and the workspace, in one place for the actor.

Looking (``observe``) makes pure calls without a bracket; doing (``run``) makes the one call
that the bracket names; settling asks the computer what became of brackets whose outcome
nobody heard. A library call brings its own dependencies instead.
"""

import asyncio
import logging
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.core import facts
from orchestrator.core.errors import CallLost, ComputerAway, ComputerFailed, OrchestratorError, ToolFailed
from orchestrator.core.facts import Observed
from orchestrator.core.policy import BUILT_IN_CATALOG, PolicyContext
from orchestrator.core.restoring.listings import Listed
from orchestrator.core.restoring.planning import Found
from orchestrator.core.restoring.touches import ABSENT, DIRECTORY
from orchestrator.core.task import AgentTask, CallRecord
from orchestrator.core.wire import ComputerId, RunId, sha256_hex
from orchestrator.ports import CallResult, Computers, Lease, Settlement, Store, Workspace
from orchestrator.tools.computer.disks import other_disks
from orchestrator.tools.computer.keeping import look, missing_above
from orchestrator.tools.computer.listing import Kept, OnRead, keep_tree, list_tree, nobody_waits
from orchestrator.tools.deps import CCAgentDeps, Encoding
from orchestrator.tools.registry import TOOL_REGISTRY

logger = logging.getLogger(__name__)

_TERMINATE_WITHIN_S = 5.0
"""A computer that does not answer for so long is as good as away."""
_INFO_WITHIN_S = 20.0
OUTCOME_UNKNOWN = "outcome_unknown"
"""The client's code for a change that failed half way and could not be taken back."""


@dataclass(frozen=True)
class Outcome:
    """What a call that succeeded came to."""

    text: str
    """What the model is told."""
    after: Mapping[str, str] = field(default_factory=dict)
    """Each changed path with its sha256 or ``absent`` now, where it is known."""


@dataclass
class World:
    """Computers, workspace and mode of one orchestrator (or of one library call)."""

    store: Store
    computers: Computers | None = None
    """None: there are none, and ``library`` is what the tools work with."""
    workspace: Workspace | None = None
    library: CCAgentDeps = field(default_factory=lambda: CCAgentDeps(mode="stub"))
    """The dependencies of a library call: a dictionary in stub mode, or the caller's own channel."""

    def online(self, computer: ComputerId) -> bool:
        """Whether a call to the computer can be made now."""
        if self.computers is None:
            return True
        info = self.computers.info(computer)
        return info is not None and info.online

    def context(self, computer: ComputerId | None) -> PolicyContext:
        """What the policy may know of a call's computer."""
        info = self.computers.info(computer) if self.computers and computer else None
        return PolicyContext(
            computer=computer, family=info.family if info else None, label=info.label if info else None
        )

    def identity(self, computer: ComputerId | None) -> str:
        """Which computer goes by this name now; empty where that is not known, or on this host."""
        info = self.computers.info(computer) if self.computers and computer else None
        return info.identity if info is not None else ""

    async def observe(self, record: CallRecord) -> Observed:
        """What the call would touch, as it is now; the bytes that it would change are in the store then.

        Raises ToolFailed, ComputerAway, CallLost.
        """
        tool = TOOL_REGISTRY[record.call.tool]
        if tool.observe is None:
            return Observed(state={})
        deps = self._deps(record.call.computer, _Looking(self, record.call.computer))
        deps.keep = self._keep
        return await tool.observe(deps, **_arguments(record))

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
        deps = self._deps(call.computer, _Looking(self, call.computer))
        named: Encoding = call.args.get("encoding", "utf-8")
        return tuple([one for path in absent for one in await missing_above(deps, path, named)])

    async def found(self, computer: ComputerId | None, path: str) -> Found:
        """What is in a place now; ``computer`` None: in the workspace. Raises ToolFailed, ComputerAway, CallLost."""
        if computer is None:
            return await asyncio.to_thread(_found_here, self.workspace, path)
        shown = await look(self._deps(computer, _Looking(self, computer)), path, path)
        if shown.kind == "directory":
            return Found(DIRECTORY, shown.inside, tree=shown.sha256)
        return Found(shown.sha256 if shown.kind == "file" else ABSENT, size=shown.size)

    async def listed(self, computer: ComputerId, path: str = "", *, until: float = math.inf) -> Listed:
        """All that is on a computer now, or below a path of it; ``until``: of the event loop's clock.

        Raises ToolFailed, also when it takes longer than that, ComputerAway, CallLost, CallVoid.
        """
        return await list_tree(self._deps(computer, _Looking(self, computer, until)), path)

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
        deps = self._deps(computer, _Looking(self, computer, until))
        deps.keep = self._keep
        return await keep_tree(deps, listed, self.store.touch_blobs, most=most, on_read=on_read)

    async def kept_whole(self, computer: ComputerId, on_read: OnRead = nobody_waits) -> Kept:
        """All that is on a computer now, with its bytes in the store, and what was left out with why.

        Raises as :meth:`kept`.
        """
        listed = await self.listed(computer)
        disks = await other_disks(self._deps(computer, _Looking(self, computer)), listed)
        return await self.kept(computer, replace(listed, skipped={**listed.skipped, **disks}), on_read=on_read)

    async def capacity(self, computer: ComputerId) -> int:
        """What fits on a computer's disk, in bytes; 0: it does not say. Raises as ``listed``."""
        told = await _Looking(self, computer).call("info", {}, wait_s=_INFO_WITHIN_S)
        capacity = told.data.get("capacity", 0)
        return max(0, capacity) if isinstance(capacity, int) else 0

    async def prepare(self, record: CallRecord, run_id: RunId) -> None:
        """What has to be on this host's disk before the bracket opens. Raises ToolFailed."""
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
        on_output: Callable[[int, bytes], None] | None = None,
    ) -> Outcome:
        """Do the started call, once; a program gets ``timeout_s`` seconds (None: the tools' own limit).

        ``on_output``: as ``Computers.call`` has it.
        Raises ToolFailed, ComputerFailed, ComputerAway, CallVoid, CallLost.
        """
        return await self._perform(record, _Doing(self, task, record, on_output), timeout_s)

    async def terminate(self, computer: ComputerId, run_id: RunId) -> None:
        """Stop a program that runs on a computer; one that cannot be stopped ends with its own time."""
        try:
            await _Looking(self, computer).call("terminate", {"run": run_id}, wait_s=_TERMINATE_WITHIN_S)
        except OrchestratorError as error:
            logger.info("run %s could not be stopped: %s", run_id, error, extra={"computer": computer})

    async def settle(
        self, computer: ComputerId | None, records: Sequence[CallRecord], lease: Lease
    ) -> list[facts.ToolSettled]:
        """What became of started calls. Raises ComputerAway, CallLost, LeaseLost."""
        if computer is None or self.computers is None:
            return [await self._settle_here(record) for record in records]
        number = await self.store.allot_number(computer, lease=lease)
        runs = [record.run_id for record in records if record.run_id is not None]
        settled = await self.computers.settle(computer, run_ids=runs, number=number)
        doubtful = self.computers.doubtful_below(computer)
        return [
            _settled(record, "unknown", reason=_IN_DOUBT)
            if record.mutates and record.number < doubtful
            else await self._settled(record, settled[record.run_id])
            for record in records
            if record.run_id is not None
        ]

    async def acknowledge(self, computer: ComputerId | None, run_id: RunId) -> None:
        """Let the computer forget an outcome that is durable here."""
        if computer is not None and self.computers is not None and self.online(computer):
            heard = self.computers.heard(computer)
            self.computers.acknowledge(computer, run_id, await self.store.allot_number(computer, heard=heard))

    # -- inside --------------------------------------------------------------------------

    async def _keep(self, content: bytes) -> None:
        await self.store.put_blob(content)

    async def _perform(
        self, record: CallRecord, channel: "_Looking | _Doing | _Replaying", timeout_s: float | None = None
    ) -> Outcome:
        deps = self._deps(record.call.computer, channel)
        deps.timeout_s = timeout_s if timeout_s is not None else deps.timeout_s
        deps.expected = record.before
        if record.observed is not None:
            deps.encoding, deps.noted = record.observed.encoding, record.observed.note
        deps.run_id = record.run_id
        text = await TOOL_REGISTRY[record.call.tool].function(deps, **_arguments(record))
        return Outcome(text, deps.after)

    def _deps(self, computer: ComputerId | None, channel: "_Looking | _Doing | _Replaying | None") -> CCAgentDeps:
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
        run_id = _run_id(record)
        if tool.spec.recovery == "pure":
            return _settled(record, "interrupted", reason="The orchestrator stopped while it looked.")
        if tool.settle is None or self.workspace is None:
            reason = "The orchestrator stopped while this ran."
            return _settled(record, "unknown", reason=reason)
        deps = self._deps(record.call.computer, None)
        if await tool.settle(deps, run_id):
            return _settled(record, "void", reason="The orchestrator stopped before it was done.")
        text = "Done, just before the orchestrator stopped."
        return _settled(record, "finished", ok=True, text=text, after=await self._left_here(record, deps))

    async def _left_here(self, record: CallRecord, deps: CCAgentDeps) -> dict[str, str]:
        """What a change on this host left behind; empty: that cannot be told."""
        tool = TOOL_REGISTRY[record.call.tool]
        deps.expected = record.before
        try:
            return await tool.left(deps, **_arguments(record)) if tool.left is not None else {}
        except ToolFailed:
            return {}

    async def _settled(self, record: CallRecord, answer: Settlement) -> facts.ToolSettled:
        state = answer.call.state
        if state in ("interrupted", "unknown", "void"):
            return _settled(record, "void" if state == "void" else state, reason=_REASONS[state])
        if answer.result is None:
            return _lost(record, answer)
        try:
            outcome = await self._perform(record, _Replaying(answer.result))
        except ComputerFailed as error:
            if error.reason == OUTCOME_UNKNOWN:
                return _settled(record, "unknown", reason=error.message)
            return _settled(record, "finished", ok=False, text=str(error), code=error.reason)
        except ToolFailed as error:
            return _settled(record, "finished", ok=False, text=str(error))
        return _settled(record, "finished", ok=True, text=outcome.text, after=dict(outcome.after))


def _found_here(workspace: Workspace | None, path: str) -> Found:
    """What is in a place of this host; blocks for as long as the disk takes."""
    inside = workspace.inside(path) if workspace is not None else None
    if inside is not None:
        return Found(DIRECTORY, inside, tree=DIRECTORY)
    data = workspace.read_bytes(path) if workspace is not None else None
    return Found(ABSENT if data is None else sha256_hex(data))


_IN_DOUBT = (
    "The computer's disk or the orchestrator's store was put back, or the computer was copied, while this was under "
    "way: nobody knows whether it was done."
)
_REASONS = {
    "interrupted": "The computer restarted while this ran.",
    "unknown": "The computer restarted in the middle of the change, and something else took the file's place.",
    "void": "It never ran.",
}


def _settled(record: CallRecord, state: Any, **rest: Any) -> facts.ToolSettled:
    return facts.ToolSettled(call_id=record.call_id, run_id=_run_id(record), state=state, **rest)


def _lost(record: CallRecord, answer: Settlement) -> facts.ToolSettled:
    if answer.call.ok:
        text = "Done: the computer's journal says so. Its output was lost when the computer restarted."
        return _settled(record, "finished", ok=True, text=text, after=_left(record, answer.call.sha256))
    code = answer.call.code or "failed"
    if code == "not_done":
        return _settled(record, "void", reason="The computer restarted before the change; nothing was changed.")
    text = f"It did not succeed ({code}): the computer's journal says so. Details were lost when it restarted."
    return _settled(record, "finished", ok=False, text=text, code=code)


def _left(record: CallRecord, sha256: str | None) -> dict[str, str]:
    """What a change left behind, by the one hash that the computer's journal keeps; empty: it changed no file."""
    if sha256 is None or record.before is None:
        return {}
    moved = record.call.tool == "cc_move"
    return {path: ABSENT if moved and found != ABSENT else sha256 for path, found in record.before.items()}


def _run_id(record: CallRecord) -> RunId:
    if record.run_id is None:
        raise CallLost(f"Call {record.call_id} was never started.")
    return record.run_id


def _arguments(record: CallRecord) -> dict[str, Any]:
    return {key: value for key, value in record.call.args.items() if key != "computer"}


@dataclass
class _Looking:
    """A channel for pure calls outside any bracket: each has an id and a number of its own."""

    world: World
    computer: ComputerId | None
    until: float = math.inf
    """When nobody waits any longer, by the event loop's clock."""

    async def call(
        self, method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        computers, computer = self.world.computers, self.computer
        if computers is None or computer is None:
            raise ToolFailed("This call names no computer.")
        if not self.world.online(computer):
            raise ComputerAway(f"Computer {computer} is not connected.")
        left_s = self.until - asyncio.get_running_loop().time()
        if left_s <= 0:
            raise ToolFailed("The computer took too long.")
        run_id = RunId("o" + secrets.token_hex(8))
        number = await self.world.store.allot_number(computer)
        try:
            result = await computers.call(
                computer,
                run_id=run_id,
                task_id="",
                number=number,
                method=method,
                params=params,
                body=body,
                wait_s=min(wait_s, left_s),
            )
        except ComputerFailed:
            await self.world.acknowledge(computer, run_id)
            raise
        except CallLost as lost:
            if self.until < math.inf and self.world.online(computer):
                raise ToolFailed("The computer took too long.") from lost
            raise
        await self.world.acknowledge(computer, run_id)
        return result


@dataclass
class _Doing:
    """The channel of one started run: it carries one frame and no more."""

    world: World
    task: AgentTask
    record: CallRecord
    on_output: Callable[[int, bytes], None] | None = None
    used: bool = False

    async def call(
        self, method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        computers, computer = self.world.computers, self.record.call.computer
        if self.used or computers is None or computer is None:
            raise OrchestratorError(f"Run {self.record.run_id} was to send a second frame.")
        self.used = True
        return await computers.call(
            computer,
            run_id=_run_id(self.record),
            task_id=self.task.task_id,
            number=self.record.number,
            method=method,
            params=params,
            body=body,
            wait_s=wait_s,
            on_output=self.on_output,
        )


@dataclass
class _Replaying:
    """A channel that answers with a result heard at settling, so that the tool words it as ever."""

    result: CallResult | Exception

    async def call(
        self, method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        del method, params, body, wait_s
        if isinstance(self.result, Exception):
            raise self.result
        return self.result
