"""The actor's part of checks: due checks, shown beside approvals, proposed as calls, and judged.

Theory. A claim of success is a reply that waits while its checks are made: the fold keeps it (phase ``replied``), so
the next worker goes on from the record. First the programs run, in the order of the checks, then
files are looked at. All of it are calls as those of the model: the policy judges them, people approve them, each has
its bracket. Only what must stay unchanged is looked at without a call, as the gate looks before it asks a person.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.core.approval.approval import CallState, call_digest
from orchestrator.core.approval.command import ActivePolicy
from orchestrator.core.approval.grants import own_paths
from orchestrator.core.errors import CallLost, CallVoid, ComputerAway, ComputerFailed, InvalidRequest, ToolFailed
from orchestrator.core.evidence.checks import Due, judged, said_failing
from orchestrator.core.evidence.user_checks import Check, read_check
from orchestrator.core.policy import BUILT_IN_CATALOG, Effect, PathCheck, PolicyDecision, RiskLevel, severity
from orchestrator.core.policy.match import may_hold
from orchestrator.core.reply.response import FinalResult, canonical_args
from orchestrator.core.task import facts
from orchestrator.core.task.facts import Observed, ShownCheck, ToolCall
from orchestrator.core.task.items import SYSTEM
from orchestrator.core.task.task import AgentTask, CallRecord
from orchestrator.core.text.paths import path_matches
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.actor.interrupts import Wait
from orchestrator.engine.actor.journal import TaskJournal
from orchestrator.engine.tasks import new_call_id
from orchestrator.tools.deps import ABSENT
from orchestrator.tools.environment import Environment

_Place = tuple[ComputerId, str]
"""A path on a computer."""


def due_of(task: AgentTask, rules: Iterable[PathCheck], changed: Iterable[_Place]) -> tuple[Due, ...]:
    """The checks that must hold when a task claims success: the user's, and the policy's for the ``changed`` paths."""
    if task.restores is not None:
        return ()
    names = dict(zip(task.named_computers, task.computers, strict=True))
    found = [_due(one, one.text, names.get(ComputerId(one.computer))) for one in map(read_check, task.checking.wanted)]
    only = task.computers[0] if len(task.computers) == 1 else None
    due = {one.line: one if one.computer or one.check.kind == "prints" else _on(one, only) for one in found}
    for rule in rules:
        check = read_check(rule.check)
        for name, computer in names.items():
            if any(where == computer and _is_meant(rule.path, path) for where, path in changed):
                line = check.text if only is not None else f"@{name} {check.text}"
                due.setdefault(line, _due(check, line, computer, rule.path))
    return tuple(due.values())


def _is_meant(glob: str, path: str) -> bool:
    """Whether a change of a path is one of what a glob means: of a directory, of all that may be in it."""
    named = path.removesuffix("/")
    return path_matches(glob, named, ignore_case=True) or (named != path and may_hold(glob, named))


def _due(check: Check, line: str, computer: ComputerId | None, by_policy: str = "") -> Due:
    return Due(check, line, computer, _digest(check, computer), by_policy)


def _on(due: Due, computer: ComputerId | None) -> Due:
    return _due(due.check, due.line, computer)


def _digest(check: Check, computer: ComputerId | None) -> str:
    call = _call(check, computer)
    return "" if call is None else call.call_digest


def _call(check: Check, computer: ComputerId | None, index: int = 0) -> ToolCall | None:
    """The call by which a check is made; None: it needs none."""
    if check.call is None:
        return None
    tool, wanted = check.call
    args = canonical_args(tool, wanted)
    digest = call_digest(tool=tool, tool_version=BUILT_IN_CATALOG[tool].version, args=args, computer=computer)
    return ToolCall(call_id=new_call_id(), index=index, tool=tool, args=args, computer=computer, call_digest=digest)


@dataclass
class ShownChecks:
    """Adds to an approval request the checks that are approved together with it."""

    journal: TaskJournal
    world: Environment
    active_policy: ActivePolicy

    async def shown_with(self, asked: tuple[facts.RequestedCall, ...]) -> tuple[facts.RequestedCall, ...]:
        """The calls that a person is asked about, with the runs of checks that nobody has approved yet.

        A check goes with a call of at least its own risk, first with one on the same computer.
        """
        task = self.journal.task
        if task.checking.step:
            return asked
        known = {one.shown.call_digest for one in task.checking.approved}
        records = [self.journal.record(one.call_id) for one in asked]
        for due in due_of(task, self.active_policy.checks, (*task.checking.changed, *_would_change(records))):
            call = _call(due.check, due.computer)
            if due.check.kind != "runs" or call is None or call.call_digest in known:
                continue
            shown = await self._shown(task, due, call)
            place = None if shown is None else _carrier(asked, records, shown)
            if shown is not None and place is not None:
                carrier = asked[place].model_copy(update={"checks": (*asked[place].checks, shown)})
                asked = (*asked[:place], carrier, *asked[place + 1 :])
        return asked

    async def _shown(self, task: AgentTask, due: Due, call: ToolCall) -> ShownCheck | None:
        """A check as it is shown; None: nobody has to be asked, or asking with another call is not enough."""
        observed = await self._looked(task, call)
        verdict = self.active_policy.judge(task, call, observed.program)
        if verdict.effect is not Effect.ASK or verdict.risk is RiskLevel.CRITICAL or call.computer is None:
            return None
        program, sha256 = next(iter(observed.state.items()), ("", ABSENT))
        # The result of the task's own changes may be something that nobody has seen.
        bound = sha256 != ABSENT and not task.checking.touched
        return ShownCheck(
            check=due.line,
            computer=call.computer,
            call_digest=call.call_digest,
            path=due.check.path,
            risk=verdict.risk,
            program=program if bound else "",
            sha256=sha256 if bound else "",
            identity=self.world.identity(call.computer),
        )

    async def _looked(self, task: AgentTask, call: ToolCall) -> Observed:
        """The program that a check would run now; empty: nobody can look."""
        if call.computer is None or not self.world.online(call.computer):
            return Observed(state={})
        record = CallRecord(call=call, evaluation=self.active_policy.judge(task, call), state=CallState.PROPOSED)
        try:
            return await self.world.observe(record)
        except (ToolFailed, ComputerFailed, ComputerAway, CallLost, CallVoid, InvalidRequest):
            return Observed(state={})


def _would_change(records: Iterable[CallRecord]) -> list[_Place]:
    return [
        (one.call.computer, path)
        for one in records
        if one.mutates and one.call.computer is not None
        for path in own_paths(one.call.tool, one.call.args)
    ]


def _carrier(asked: Sequence[facts.RequestedCall], records: Sequence[CallRecord], shown: ShownCheck) -> int | None:
    """The place of the call with which a check is approved; None: none of them has its risk."""
    fit = [at for at, one in enumerate(asked) if severity(one.evaluation.risk) >= severity(shown.risk)]
    return min(fit, key=lambda at: records[at].call.computer != shown.computer, default=None)


@dataclass
class Checker:
    """Makes the checks of one task."""

    journal: TaskJournal
    world: Environment
    active_policy: ActivePolicy
    judge_all: Callable[[tuple[ToolCall, ...]], tuple[PolicyDecision, ...]]
    """The policy's verdicts on the calls of one step."""

    def due(self, task: AgentTask) -> tuple[Due, ...]:
        """The checks that must hold if the task claims success now."""
        return due_of(task, self.active_policy.checks, task.checking.changed)

    async def begin(self) -> Wait | None:
        """Note what is in the places that must stay unchanged, before the model is asked first."""
        now = await self._now(self.due(self.journal.task))
        if isinstance(now, Wait):
            return now
        await self.journal.intend(facts.ChecksBegun(found=dict(now)))
        return None

    async def go(self) -> tuple[facts.CheckResult, ...] | Wait | None:
        """Propose what is left to be made for the present claim, or judge; None: it was proposed.

        Where nothing changed or ran since the same checks were judged, that judgment stands.
        """
        task = self.journal.task
        due, results = self.due(task), task.checking.results
        if not task.checking.moved and [one.line for one in due] == [one.check for one in results]:
            return results
        made = {one.digest for one in task.checking.made}
        left = [one for one in due if one.digest and one.digest not in made]
        runs = [one for one in left if one.check.kind == "runs"]
        if left:
            await self._propose(runs or left)
            return None
        now = await self._now(due)
        return now if isinstance(now, Wait) else judged(task.checking, due, now)

    async def _propose(self, due: Sequence[Due]) -> None:
        once = list({one.digest: one for one in due}.values())
        calls = tuple(
            call for index, one in enumerate(once) if (call := _call(one.check, one.computer, index)) is not None
        )
        rules = self.active_policy.rules
        proposed = facts.CallsProposed(
            explanation=f"The model says that it is done. These checks are made: {'; '.join(one.line for one in due)}.",
            calls=calls,
            evaluations=self.judge_all(calls),
            siblings=rules.siblings,
            partial=rules.partial,
            checks=tuple(one.line for one in once),
        )
        await self.journal.intend(proposed, actor=SYSTEM)

    async def _now(self, due: Iterable[Due]) -> Mapping[str, str] | Wait:
        """What is at the path of each ``unchanged`` check, by its line, where the policy lets it be read.

        Raises ComputerAway, CallLost, CallVoid of a computer that is busy.
        """
        found: dict[str, str] = {}
        for one in due:
            if one.check.kind != "unchanged" or one.computer is None or self._is_denied(one):
                continue
            if not self.world.online(one.computer):
                return Wait(computer=one.computer)
            try:
                there = await self.world.found(one.computer, one.check.path)
            except (ToolFailed, ComputerFailed, InvalidRequest, CallVoid) as error:
                if isinstance(error, CallVoid) and error.reason == "busy":
                    raise
                continue
            found[one.line] = there.tree or there.state
        return found

    def _is_denied(self, due: Due) -> bool:
        args = {"path": due.check.path}
        digest = call_digest(tool="cc_read", tool_version=1, args=args, computer=due.computer)
        look = ToolCall(
            call_id=new_call_id(), index=0, tool="cc_read", args=args, computer=due.computer, call_digest=digest
        )
        return self.active_policy.judge(self.journal.task, look).effect is Effect.DENY


def final_end(
    final: FinalResult, reason: Literal["final", "answered"] = "final", *, lacks: str | None = None
) -> facts.TaskEnded:
    """The model's final word, and what it ``lacks`` to be a success that the journal supports; None: nothing."""
    judged = final.success and reason == "final"
    return facts.TaskEnded(
        status="Completed" if final.success else "Failed",
        status_reason="unverified" if judged and lacks is not None else reason,
        verified=lacks is None if judged else None,
        doubt=(lacks or "") if judged else "",
        message=final.message,
        explanation=final.explanation,
        details=final.details,
    )


def checks_failed(final: FinalResult, results: tuple[facts.CheckResult, ...]) -> facts.TaskEnded:
    """The end of a task whose checks do not hold, whatever the model says."""
    return facts.TaskEnded(
        status="Failed",
        status_reason="checks_failed",
        message=said_failing(results),
        explanation=final.message,
        details=final.details,
    )
