"""The steps of a restoration: what is left to put back, planned anew in each round from what is there."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from orchestrator.actor.gate import Gate
from orchestrator.actor.journal import TaskJournal
from orchestrator.actor.wait import Wait
from orchestrator.core import facts
from orchestrator.core.approval import call_digest
from orchestrator.core.items import SYSTEM
from orchestrator.core.policy import BUILT_IN_CATALOG
from orchestrator.core.restoring.planning import Entry, Op, ops_of
from orchestrator.core.restoring.touches import Changes
from orchestrator.tasks import new_call_id
from orchestrator.undoing import Undoing, Wish, told_of

_SETTLED_S: Final = 5.0
"""Between two looks whether the task that is taken back still has a call under way."""
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
        wish = await self.undoing.wish(task.restores)
        if wish.open:
            return Wait(seconds=_SETTLED_S)
        own = await self.undoing.changes(task.task_id)
        entries = await self.undoing.plan(wish, task.restores, own=own)
        ops = ops_of(entries)
        calls = tuple(_call(index, op) for index, op in enumerate(ops))
        stuck = bool(task.turns) and [call.call_digest for call in calls] == list(task.turns[-1].digests)
        if calls and not stuck:
            await self._propose(told_of(entries, task.restores), calls)
            return None
        away = [entry for entry in entries if entry.verdict == "away"]
        if away and not stuck:
            return Wait(computer=away[0].place.computer)
        ended = _end(entries, wish, own, task.turns[-1].results if stuck else (), _WORDS[task.restores.applies])
        await self.journal.intend(ended)
        return None

    async def _propose(self, told: str, calls: tuple[facts.ToolCall, ...]) -> None:
        rules = self.gate.law.rules
        proposed = facts.CallsProposed(
            explanation=told,
            calls=calls,
            evaluations=self.gate.judge_all(calls),
            siblings=rules.siblings,
            partial=rules.partial,
        )
        await self.journal.intend(proposed, actor=SYSTEM)


def _call(index: int, op: Op) -> facts.ToolCall:
    tool = "local_restore" if op.place.computer is None else "cc_restore"
    args = {"path": op.place.path, "to": op.to, "found": op.found}
    computer = op.place.computer
    digest = call_digest(tool=tool, tool_version=BUILT_IN_CATALOG[tool].version, args=args, computer=computer)
    return facts.ToolCall(
        call_id=new_call_id(), index=index, tool=tool, args=args, computer=computer, call_digest=digest
    )


def _end(
    entries: Sequence[Entry], wish: Wish, own: Changes, failed: Sequence[tuple[str, str]], done: str
) -> facts.TaskEnded:
    """How it ended: what was put back (``done``: how that is called), and what was not and why."""
    put_back = sorted({str(touch.place) for touch in own.touches if touch.after is not None})
    kept = {str(entry.place): entry.why for entry in entries if entry.verdict == "conflict"}
    left = [str(entry.place) for entry in entries if entry.verdict in ("restore", "remove")]
    untold = Counter(one.what for one in wish.untold)
    nothing_done = bool(kept) and not put_back
    details = {
        "put_back": put_back[:_NAMED],
        "kept": dict(list(kept.items())[:_NAMED]),
        "left": left[:_NAMED],
        "cannot_be_undone": list(untold),
    }
    parts = [f"{len(put_back)} {done}" if put_back or kept or left else "There was nothing to be done"]
    parts += [f"{len(kept)} kept, since somebody changed them"] if kept else []
    parts += [f"{len(left)} not {done}: {failed[0][1]}"] if left and failed else []
    return facts.TaskEnded(
        status="Failed" if left or nothing_done else "Completed",
        status_reason="not_restored" if left else "conflicts" if nothing_done else "final",
        message=", ".join(parts) + ".",
        details={key: value for key, value in details.items() if value},
        verified=None if left or nothing_done else True,
    )
