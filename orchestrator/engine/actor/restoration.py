"""The steps of a restoration, planned again in each round from the present content."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final, NamedTuple

from orchestrator.core.approval.approval import call_digest
from orchestrator.core.errors import CallVoid, InvalidRequest, NotFound, OrchestratorError, ToolFailed
from orchestrator.core.policy import BUILT_IN_CATALOG
from orchestrator.core.task import facts
from orchestrator.core.task.items import SYSTEM
from orchestrator.core.task.task import AgentTask
from orchestrator.core.undo.plan import MAX_CALLS, Entry, Listing, Op, ops_of, without_place
from orchestrator.core.undo.touches import Changes, Place, as_argument, is_text, place_of, shown
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.actor.gate import Gate
from orchestrator.engine.actor.interrupts import Wait
from orchestrator.engine.actor.journal import TaskJournal
from orchestrator.engine.tasks import new_call_id
from orchestrator.engine.undo import Undoing, Wish, told_of

_UNHEARD_S: Final = 30.0
"""The node that hears how the last call of the undone task ended wakes it; after so long it looks by itself."""
_NAMED: Final = 50
_WORDS: Final = {False: "put back", True: "applied"}
"""What is done to a place, by whether a rehearsal is carried out."""


@dataclass
class Restoring:
    """Performs the plan of one restoration."""

    journal: TaskJournal
    gate: Gate
    undoing: Undoing

    async def plan(self) -> Wait | None:
        """Propose what is left to do, or end; or what is to be waited for first."""
        task = self.journal.task
        if task.restores is None:
            return None
        first = None
        try:
            if not task.steps:
                # The process that submitted it may have been killed before this was written down.
                await self.undoing.note(task)
            first = await self.undoing.first_look(task)
            wish = await self.undoing.wish(task.restores, first)
            own = await self.undoing.changes(task.task_id)
        except (NotFound, ToolFailed, InvalidRequest) as gone:
            # It went between the look at it and this task, or the computer cannot tell what is on it.
            await self.journal.intend(_impossible(gone))
            return None
        if wish.open:
            return Wait(seconds=_UNHEARD_S)
        if wish.unseen is not None:
            return self._until_seen([wish.unseen])
        entries = await self.undoing.plan(wish, task.restores, own=own)
        rejected = {digest for digest, _ in task.rejections}
        failed = own.vain - rejected
        planned = {op: _call(op) for op in ops_of(entries, in_vain=lambda op: _call(op).call_digest in failed)}
        refused = {op.place for op, call in planned.items() if call.call_digest in rejected}
        homeless = without_place(list(planned), refused)
        left = {op: call for op, call in planned.items() if call.call_digest not in rejected | failed}
        asked = [op for op in left if op.place not in homeless][:MAX_CALLS]
        if asked:
            present = await self._kept(wish.present) if first is None else ""
            told = told_of(entries, task.restores, {op.place for op in asked})
            await self._propose(told, [planned[op] for op in asked], present)
            return None
        away = [entry.place.computer for entry in entries if entry.verdict == "away"]
        if away:
            return self._until_seen([computer for computer in away if computer is not None])
        last = _LastWords(
            done=_WORDS[task.restores.applies],
            already=await self._already(task.restores, wish),
            why=_why(task, planned.values(), homeless),
            same=await self._all_the_same(entries),
        )
        await self.journal.intend(_end(entries, wish, own, last))
        return None

    async def _all_the_same(self, entries: Sequence[Entry]) -> list[str]:
        """The places that a person rejected and that are as they were all the same: something in them was put back."""
        task = self.journal.task
        rejected = {digest for digest, _ in task.rejections}
        proposed = [item.fact for item in await self.undoing.service.store.read(task.task_id)] if rejected else []
        calls = (call for fact in proposed if isinstance(fact, facts.CallsProposed) for call in fact.calls)
        places = {place_of(call) for call in calls if call.call_digest in rejected}
        return [str(entry.place) for entry in entries if entry.verdict == "nothing" and entry.place in places]

    async def _already(self, wanted: Restoration, wish: Wish) -> str:
        """The text where there was nothing to be done."""
        if wanted.applies:
            return "Everything was already as it was rehearsed"
        if wanted.listing:
            return "Everything was already as it is to be"
        others = await self.undoing.put_back_by(self.journal.task, wish)
        by = f": {' and '.join(others)} put it back" if others else ""
        return f"Everything was already as it was before the task{by}"

    def _until_seen(self, computers: Sequence[ComputerId]) -> Wait:
        """Wait until a computer that nobody could look at is back.

        Raises CallVoid for one that is connected and refused it.
        """
        for computer in filter(self.undoing.world.online, computers):
            raise CallVoid("unseen", f"Nobody could look at computer {computer}, though it is connected.")
        return Wait(computer=computers[0])

    async def _kept(self, present: Listing | None) -> str:
        """The hash of a listing whose lines are in the store; empty: there is none."""
        if present is None:
            return ""
        return (await self.undoing.service.store.put_blob(present.lines)).sha256

    async def _propose(self, told: str, planned: Sequence[facts.ToolCall], present: str) -> None:
        rules = self.gate.active_policy.rules
        calls = tuple(call.model_copy(update={"index": index}) for index, call in enumerate(planned))
        proposed = facts.CallsProposed(
            explanation=told,
            calls=calls,
            evaluations=self.gate.judge_all(calls),
            siblings=rules.siblings,
            partial=rules.partial,
            present=present,
        )
        await self.journal.intend(proposed, actor=SYSTEM)


def _call(op: Op) -> facts.ToolCall:
    tool = "local_restore" if op.place.computer is None else "cc_restore"
    args = {"path": as_argument(op.place.path), "to": op.to, "found": op.found}
    if op.replaces:
        args["replaces"] = op.replaces
    if not is_text(op.place.path):
        args["encoding"] = "latin-1"
    computer = op.place.computer
    digest = call_digest(tool=tool, tool_version=BUILT_IN_CATALOG[tool].version, args=args, computer=computer)
    return facts.ToolCall(call_id=new_call_id(), index=0, tool=tool, args=args, computer=computer, call_digest=digest)


class _LastWords(NamedTuple):
    """The words at the end, beside the present state."""

    done: str
    """What is done to a place, in a word."""
    already: str
    """Where there was nothing to be done."""
    why: Mapping[str, str]
    """Why a place is not as it was, by its text."""
    same: Sequence[str]
    """Places that are as they were although a person rejected that."""


def _why(task: AgentTask, left: Iterable[facts.ToolCall], homeless: Set[Place]) -> dict[str, str]:
    """The outcome of each call that is left, by the text of its place; ``homeless``: its directory was rejected."""
    turns = (zip(turn.digests, turn.results, strict=True) for turn in task.turns)
    words = {digest: text for turn in turns for digest, (_, text) in turn}
    # The words of a rejection for a model are not a sentence for a person.
    words |= dict.fromkeys((digest for digest, _ in task.rejections), "A person rejected it.")
    told = {place_of(call): words.get(call.call_digest, "") for call in left}
    told |= dict.fromkeys(homeless, "The directory for it was rejected.")
    return {str(place): sentence for place, sentence in told.items()}


def _impossible(gone: OrchestratorError) -> facts.TaskEnded:
    """How it ends where what is to be put back, or to be removed, is not known."""
    return facts.TaskEnded(status="Failed", status_reason="not_restored", message=gone.message)


def _end(entries: Sequence[Entry], wish: Wish, own: Changes, last: _LastWords) -> facts.TaskEnded:
    """How it ended: what was put back, and what was not and why."""
    put_back = sorted({str(touch.place) for touch in own.touches if touch.after is not None})
    kept = {str(entry.place): entry.why for entry in entries if entry.verdict == "conflict"}
    # An entry that waits for another one that was not done has no reason of its own.
    behind = next(iter(last.why.values()), "")
    left = {
        str(one.place): last.why.get(str(one.place), behind) for one in entries if one.verdict in ("restore", "remove")
    }
    untold = Counter(one.what for one in wish.untold)
    nothing_done = bool(kept) and not put_back
    details = {
        "put_back": put_back[:_NAMED],
        "kept": dict(list(kept.items())[:_NAMED]),
        "left": dict(list(left.items())[:_NAMED]),
        "rejected": list(last.same[:_NAMED]),
        "cannot_be_undone": list(untold),
        "came_since": [shown(path) for path in wish.came[:_NAMED]],
    }
    parts = [f"{len(put_back)} {last.done}" if put_back or kept or left else last.already]
    parts += [f"{len(last.same)} though a person rejected that, for what is in it"] if last.same else []
    parts += [f"{len(kept)} kept{_reason(kept.values())}"] if kept else []
    parts += [f"{len(wish.came)} left, since they came after it began"] if wish.came else []
    parts += [f"{len(left)} not {last.done}{_reason(left.values())}"] if left else []
    return facts.TaskEnded(
        status="Failed" if left or nothing_done else "Completed",
        status_reason="not_restored" if left else "conflicts" if nothing_done else "restored",
        message=", ".join(parts).rstrip(".") + ".",
        details={key: value for key, value in details.items() if value},
        verified=None if left or nothing_done else True,
    )


def _reason(why: Iterable[str]) -> str:
    """The reason of places that were kept, where it is the same for all; else the details have each."""
    reasons = {one.rstrip(".") for one in why}
    return f": {reasons.pop()}" if len(reasons) == 1 else ", each for a reason of its own"
