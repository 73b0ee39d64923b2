"""The gate as the actor walks through it: judged when a call is made, shown, and judged when it runs."""

from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.actor.journal import TaskJournal
from orchestrator.core import effects as todo
from orchestrator.core import facts
from orchestrator.core.approval import OPEN_STATES, CallState, action_digest, call_digest
from orchestrator.core.errors import ComputerFailed, InvalidRequest, ToolFailed
from orchestrator.core.facts import Observed
from orchestrator.core.policy import (
    BUILT_IN_CATALOG,
    RUNNERS,
    Effect,
    Policy,
    PolicyDecision,
    evaluate,
    severity,
    stricter,
)
from orchestrator.core.task import CallRecord
from orchestrator.tasks import new_request_id
from orchestrator.tools.deps import ABSENT
from orchestrator.world import World

NOTHING = Observed(state={})
"""What a call is bound to that nobody had to look at first."""
_TWICE = "The same call stands twice in one reply; the first one counts."
_REJECTED = "A person rejected this very call before; it is not asked again."
_CHANGED = "What would run is no longer what was decided; it is shown again."


@dataclass
class Gate:
    """Judges the calls of one task by the policy that is in force when it is asked."""

    journal: TaskJournal
    world: World
    policy: Callable[[], Policy]

    def judge_all(self, calls: tuple[facts.ToolCall, ...]) -> tuple[PolicyDecision, ...]:
        """The verdicts on the calls of one reply."""
        seen: set[str] = set()
        verdicts: list[PolicyDecision] = []
        for call in calls:
            verdict = self.judge(call)
            if call.call_digest in seen and verdict.effect is not Effect.DENY:
                verdict = verdict.model_copy(update={"effect": Effect.DENY, "reason": _TWICE})
            verdicts.append(verdict)
            seen.add(call.call_digest)
        return tuple(verdicts)

    def judge(self, call: facts.ToolCall, program: str | None = None) -> PolicyDecision:
        """The verdict on one call; ``program`` is what a run resolves to, once somebody has looked."""
        context = self.world.context(call.computer)
        if program is not None:
            context = context.model_copy(update={"program": program})
        verdict = evaluate(call, policy=self.policy(), context=context)
        if any(digest == call.call_digest for digest, _ in self.journal.task.rejections):
            return verdict.model_copy(update={"effect": Effect.DENY, "reason": _REJECTED})
        return verdict

    async def request_review(self, effect: todo.Observe) -> None:
        """Look at what the calls would touch and ask a person. Raises ComputerAway, CallLost, Conflict."""
        shown: list[facts.RequestedCall] = []
        for call_id in effect.call_ids:
            record = self.journal.record(call_id)
            observed = await self._look(record, unknown=effect.reason == "outcome_unknown")
            if observed is None:
                return
            if effect.reason == "approval" and self._will_never_be(record, observed):
                await self._supersede(record, f"{observed.note} Write it first, or list the directory.")
                return
            verdict = stricter(record.evaluation, self.judge(record.call, observed.program))
            if verdict.effect is Effect.DENY and effect.reason == "approval":
                await self._supersede(record, verdict.reason)
                return
            digest = self._digest(record, observed, verdict)
            shown.append(
                facts.RequestedCall(call_id=call_id, observed=observed, evaluation=verdict, action_digest=digest)
            )
        requested = facts.ReviewRequested(
            request_id=new_request_id(),
            reason="outcome_unknown" if effect.reason == "outcome_unknown" else "approval",
            calls=tuple(shown),
            risk=max((one.evaluation.risk for one in shown), key=severity),
            policy_version=self.policy().version,
        )
        await self.journal.intend(requested)

    async def pass_through(self, record: CallRecord) -> tuple[Observed, str] | None:
        """What a call must find and the digest it runs under; None: it may not run now, and that is recorded.

        The gate once more, on exactly what is about to be sent (hitl.md P16, B2).
        """
        observed = await self._expected(record)
        if observed is None:
            return None
        verdict = self.judge(record.call, observed.program)
        if verdict.effect is Effect.DENY:
            await self._supersede(record, verdict.reason)
            return None
        digest = self._digest(record, observed, stricter(record.evaluation, verdict))
        approved = record.state is CallState.APPROVED
        if digest == record.action_digest if approved else verdict.effect is Effect.ALLOW:
            return observed, digest
        await self.journal.intend(
            facts.RequestEnded(
                request_id=record.request_id if approved else None,
                end="stale",
                call_ids=(record.call_id,),
                reason=_CHANGED,
            )
        )
        return None

    def at_once(self, record: CallRecord) -> str | None:
        """The digest under which a call that was judged just now may run unseen; None: it has to pass through."""
        if record.mutates or record.evaluation.effect is not Effect.ALLOW:
            return None
        user_id = self.journal.task.user_id
        return action_digest(
            call=record.call.call_digest, user_id=user_id, observed=NOTHING, evaluation=record.evaluation
        )

    def _will_never_be(self, record: CallRecord, observed: Observed) -> bool:
        """Whether a program is not there, and no call beside this one can still write it (S15)."""
        others = (one for one in self.journal.task.calls if one.call_id != record.call_id)
        may_come = any(
            one.mutates and one.state in OPEN_STATES and one.call.computer == record.call.computer for one in others
        )
        return observed.program is None and _absent_program(record, observed) and not may_come

    async def _look(self, record: CallRecord, *, unknown: bool = False) -> Observed | None:
        """What the call would touch; None: it cannot work, and the model is told why before anybody is asked (S15).

        ``unknown``: its outcome is not known, so that a person is asked whatever is found.
        """
        try:
            observed = await self.world.observe(record)
        except (ToolFailed, ComputerFailed, InvalidRequest) as error:
            if not unknown:
                await self._supersede(record, str(error))
                return None
            observed = Observed(state={}, note=f"It could not be looked at: {error}")
        if unknown:
            note = f"{record.note} Whether it was done is not known. {observed.note}".strip()
            observed = observed.model_copy(update={"note": note})
        return observed

    async def _expected(self, record: CallRecord) -> Observed | None:
        """What the run must find: what was shown, or, where nobody had to be asked, what is there now."""
        if record.observed is not None and not _absent_program(record, record.observed):
            return record.observed
        if not record.mutates:
            return NOTHING
        return await self._look(record)

    def _digest(self, record: CallRecord, observed: Observed, verdict: PolicyDecision) -> str:
        call = record.call
        spec = BUILT_IN_CATALOG[call.tool]
        digest = call_digest(tool=call.tool, tool_version=spec.version, args=call.args, computer=call.computer)
        user_id = self.journal.task.user_id
        return action_digest(call=digest, user_id=user_id, observed=observed, evaluation=verdict)

    async def _supersede(self, record: CallRecord, reason: str) -> None:
        ended = facts.RequestEnded(
            request_id=record.request_id, end="superseded", call_ids=(record.call_id,), reason=reason
        )
        await self.journal.intend(ended)


def _absent_program(record: CallRecord, observed: Observed) -> bool:
    """A program that was not there when it was shown: a sibling may have written it since, so look again."""
    return record.call.tool in RUNNERS and ABSENT in observed.state.values()
