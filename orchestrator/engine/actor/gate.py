"""The gate as the actor walks through it: judged when a call is made, shown, and judged when it runs."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from orchestrator.core.approval.approval import (
    MAX_ASKED_AGAIN,
    OPEN_STATES,
    CallState,
    action_digest,
    call_digest,
)
from orchestrator.core.approval.command import ActivePolicy
from orchestrator.core.approval.grants import GrantState, first_covering
from orchestrator.core.approval.workflow import PLAIN, Workflow
from orchestrator.core.errors import CallVoid, ComputerFailed, InvalidRequest, ToolFailed
from orchestrator.core.evidence.checks import NO_PROGRAM
from orchestrator.core.policy import BUILT_IN_CATALOG, RUNNERS, Effect, PolicyDecision, severity, stricter
from orchestrator.core.task import effects as todo
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CANNOT_BE_KNOWN, Observed
from orchestrator.core.task.limits import overdue
from orchestrator.core.task.task import CallRecord
from orchestrator.core.values import changed
from orchestrator.engine.actor.checks import ShownChecks
from orchestrator.engine.actor.journal import TaskJournal
from orchestrator.engine.actor.programs import Programs
from orchestrator.engine.tasks import new_request_id
from orchestrator.tools.deps import ABSENT
from orchestrator.tools.environment import Environment

NOTHING = Observed(state={})
"""The expectation of a call that nobody had to look at first."""
MAX_VOIDS: Final = 5
"""Refusals of one call by its computer before that is told to the model as its result."""
_LOOK_AGAIN_S: Final = 0.2
_TWICE = "The same call stands twice in one reply; the first one counts."
_CHANGED = "The call that would run is not the one that was decided; it is shown again."
_ANOTHER = "Another computer goes by this name now; it is shown again."
_UNSEEN = "The edited call does something that was not shown yet; it is shown first."
_HINT = (
    "The user is to try this by themselves first. Explain to them, with ask_user or in your final message, what to "
    "change and why, and show the code. Once they say that they have changed the file, make the call again: it then "
    "waits for a person."
)
_GRANT_OVER = "The grant no longer holds; a person decides."


@dataclass
class Gate:
    """Judges the calls of one task by the policy that is in force when it is asked."""

    journal: TaskJournal
    world: Environment
    active_policy: ActivePolicy
    programs: Programs
    checks: ShownChecks

    def judge_all(self, calls: tuple[facts.ToolCall, ...]) -> tuple[PolicyDecision, ...]:
        """The verdicts on the calls of one reply."""
        seen: set[str] = set()
        verdicts: list[PolicyDecision] = []
        for call in calls:
            verdict = self.active_policy.judge(self.journal.task, call)
            if call.call_digest in seen and verdict.effect is not Effect.DENY:
                verdict = verdict.model_copy(update={"effect": Effect.DENY, "reason": _TWICE})
            verdicts.append(verdict)
            seen.add(call.call_digest)
        return tuple(verdicts)

    async def request_review(self, effect: todo.Observe) -> None:
        """Look at what the calls would touch and ask a person, where no grant stands in for one.

        Raises ComputerAway, CallLost, Conflict.
        """
        unknown = effect.reason == "outcome_unknown"
        shown: list[facts.RequestedCall] = []
        for call_id in effect.call_ids:
            one = await self._shown(self.journal.record(call_id), unknown=unknown)
            if one is None:
                return
            shown.append(one)
        noted = () if unknown else (*_allowed_after_all(shown), *self._under_checks(shown))
        settled = {one.call_id for note in noted for one in note.calls}
        left = [one for one in shown if one.call_id not in settled]
        noted = noted if unknown else (*noted, *await self._under_grants(left))
        settled = {one.call_id for note in noted for one in note.calls}
        asked = tuple(one for one in shown if one.call_id not in settled)
        if asked and not unknown:
            asked = await self.checks.shown_with(asked)
        requests = (self._requested(asked, unknown=unknown),) if asked else ()
        await self.journal.intend(*noted, *requests)

    def _under_checks(self, shown: list[facts.RequestedCall]) -> tuple[facts.ReviewNoted, ...]:
        """The runs of checks that a person approved with an earlier request of the task."""
        checking = self.journal.task.checking
        noted: list[facts.ReviewNoted] = []
        for one in shown if checking.step else ():
            approved = checking.covering(self.journal.record(one.call_id).call, one.observed, one.evaluation)
            if approved is not None:
                noted.append(facts.ReviewNoted(what="check_approved", request_id=approved, calls=(one,)))
        return tuple(noted)

    async def _shown(self, record: CallRecord, *, unknown: bool) -> facts.RequestedCall | None:
        """A call as a person would see it; None: it cannot be, and what that means is recorded."""
        observed = await self._look(record, unknown=unknown)
        if observed is None:
            return None
        if not unknown and self._will_never_be(record, observed):
            why = f"{observed.note} Write it first, or list the directory."
            await self._supersede(record, why, NO_PROGRAM)
            return None
        verdict = self._after_looking(record, observed)
        if verdict.effect is Effect.DENY and not unknown:
            await self._supersede(record, verdict.reason)
            return None
        released = unknown or self.journal.task.hints.releases(record.call.computer, observed.state)
        if verdict.effect is Effect.HINT and not released:
            await self._supersede(record, f"{_HINT} {verdict.reason}", "hint", observed.state)
            return None
        digest = self._digest(record, observed, verdict)
        return facts.RequestedCall(call_id=record.call_id, observed=observed, evaluation=verdict, action_digest=digest)

    def _after_looking(self, record: CallRecord, observed: Observed) -> PolicyDecision:
        """The verdict by what was found: of a run it takes the place of the first, which could not know the program."""
        verdict = self.active_policy.judge(self.journal.task, record.call, observed.program)
        return verdict if record.call.tool in RUNNERS else stricter(record.evaluation, verdict)

    def _requested(self, shown: tuple[facts.RequestedCall, ...], *, unknown: bool) -> facts.ReviewRequested:
        risk = max((one.evaluation.risk for one in shown), key=severity)
        rules = self.active_policy.rules
        now = self.journal.service.clock.now()
        workflow = PLAIN if unknown else self._workflow(shown)
        # An outcome that nobody knows does not become known by waiting.
        lasts_s = 0.0 if unknown else float(rules.expires_s(risk))
        remind_s = lasts_s - rules.remind_before_s if rules.remind_before_s else 0.0
        return facts.ReviewRequested(
            request_id=new_request_id(),
            reason="outcome_unknown" if unknown else "approval",
            calls=shown,
            risk=risk,
            policy_version=self.active_policy.version,
            expires_at=now + timedelta(seconds=lasts_s) if lasts_s else None,
            remind_at=now + timedelta(seconds=remind_s) if remind_s > 0 else None,
            on_timeout=rules.on_timeout,
            workflow=None if workflow == PLAIN else workflow,
            escalate_at=now + timedelta(seconds=workflow.escalate_after_s) if workflow.escalate_after_s else None,
        )

    def _workflow(self, shown: Sequence[facts.RequestedCall]) -> Workflow:
        """The people who have to approve these calls."""
        calls = [(self.journal.record(one.call_id).call, one) for one in shown]
        return self.active_policy.workflow(self.journal.task, calls)

    async def _under_grants(self, shown: list[facts.RequestedCall]) -> tuple[facts.ReviewNoted, ...]:
        """The calls for which a grant stands in, each with the grant that does; one person's never is for several."""
        grants = await self._grants()
        noted: list[facts.ReviewNoted] = []
        shown = [one for one in shown if self._workflow([one]).is_plain]
        for one in shown if grants else ():
            call = self.journal.record(one.call_id).call
            grant = first_covering(
                await self._given_by_deciders(grants, one),
                self.journal.service.clock.now(),
                tool=call.tool,
                computer=call.computer,
                args=call.args,
                call_digest=call.call_digest,
                state=one.observed.state,
                identity=one.observed.identity,
                verdict=one.evaluation,
            )
            if grant is not None:
                noted.append(facts.ReviewNoted(what="grant_used", calls=(one,), grant_id=grant.grant_id))
        return tuple(noted)

    async def _grants(self) -> list[GrantState]:
        """The grants for this task or its session."""
        task = self.journal.task
        return [
            one
            for one in await self.journal.service.store.list_grants(session_id=task.session_id)
            if one.grant.user_id == task.user_id and (one.grant.scope == "session" or one.grant.task_id == task.task_id)
        ]

    async def _given_by_deciders(self, grants: list[GrantState], shown: facts.RequestedCall) -> list[GrantState]:
        """The grants of people who may still decide a call, as it would be shown to them."""
        records = [
            changed(one, evaluation=shown.evaluation) if one.call_id == shown.call_id else one
            for one in self.journal.task.calls
        ]
        task = changed(self.journal.task, calls=tuple(records))
        decides = self.journal.service.authorizer.still_decides
        by = [(one, one.grant) for one in grants]
        return [one for one, given in by if await decides(given.granted_by, task, given.created_at, shown.call_id)]

    async def pass_through(self, record: CallRecord) -> tuple[Observed, str] | None:
        """The state that a call must find and the digest it runs under; None: it may not run now, and that is recorded.

        The gate once more, on exactly what is about to be sent (promises P16, B2).
        """
        if record.state is CallState.APPROVED and self._is_another(record):
            await self._stale(record, _ANOTHER, "computer_changed")
            return None
        if record.state is CallState.APPROVED and record.action_digest is None:
            await self._stale(record, _UNSEEN, "edited_target")
            return None
        observed = await self._expected(record)
        if observed is None:
            return None
        verdict = self.active_policy.judge(self.journal.task, record.call, observed.program)
        if verdict.effect is Effect.DENY:
            await self._supersede(record, verdict.reason)
            return None
        verdict = stricter(record.evaluation, verdict)
        digest = self._digest(record, observed, verdict)
        if record.state is not CallState.APPROVED:
            holds, why = verdict.effect is Effect.ALLOW, "policy"
        else:
            holds, why = digest == record.action_digest, "digest_mismatch"
        if holds:
            observed = await self._on_its_way(record, observed)
        if holds and not self.is_over(record):
            return observed, digest
        if holds:
            await self.journal.intend(*overdue(self.journal.task, self.journal.service.clock.now()))
            return None
        await self._stale(record, _CHANGED, why)
        return None

    def at_once(self, record: CallRecord) -> str | None:
        """The digest under which a call that was judged just now may run unseen; None: it has to pass through."""
        if record.mutates or record.evaluation.effect is not Effect.ALLOW:
            return None
        user_id = self.journal.task.user_id
        return action_digest(
            call=record.call.call_digest, user_id=user_id, observed=NOTHING, evaluation=record.evaluation
        )

    async def grant_is_over(self, record: CallRecord) -> None:
        """A call whose grant was revoked, spent or over before it started: a person is asked."""
        await self._stale(record, _GRANT_OVER, "grant_void")

    def is_over(self, record: CallRecord) -> bool:
        """Whether the approval ended while the computer was looked at: it does not run late (promise B7)."""
        until = record.valid_until if record.state is CallState.APPROVED else None
        return until is not None and self.journal.service.clock.now() >= until

    # -- looking -------------------------------------------------------------------------

    def _is_another(self, record: CallRecord) -> bool:
        """Whether the computer that was looked at is not the one that has this name now (promise B6)."""
        seen = record.observed.identity if record.observed is not None else ""
        return bool(seen) and seen != self.world.identity(record.call.computer)

    async def _on_its_way(self, record: CallRecord, observed: Observed) -> Observed:
        """With the directories that the call will make now: calls beside it and people made some since it was shown."""
        if observed is not record.observed or ABSENT not in observed.state.values():
            return observed
        try:
            return observed.model_copy(update={"made": await self.world.missing_for(record, observed)})
        except (ToolFailed, ComputerFailed, InvalidRequest):
            return observed

    def _will_never_be(self, record: CallRecord, observed: Observed) -> bool:
        """Whether a program is not there, and no call beside this one can still write it (promise S15)."""
        others = (one for one in self.journal.task.calls if one.call_id != record.call_id)
        may_come = any(
            one.mutates and one.state in OPEN_STATES and one.call.computer == record.call.computer for one in others
        )
        return observed.program is None and _absent_program(record, observed) and not may_come

    async def _look(self, record: CallRecord, *, unknown: bool = False) -> Observed | None:
        """The target of the call; None: it cannot work, and the model hears why before a person does (promise S15).

        ``unknown``: its outcome is not known, so that a person is asked whatever is found.
        """
        try:
            observed = await self._observed(record)
        except (ToolFailed, ComputerFailed, InvalidRequest, CallVoid) as error:
            if isinstance(error, CallVoid) and error.reason == "busy":
                raise
            if not unknown:
                await self._supersede(record, str(error))
                return None
            observed = Observed(state={}, note=f"It could not be looked at: {error}")
        note = " ".join(filter(None, (observed.note, self.programs.note(record.call))))
        if unknown:
            doubt = CANNOT_BE_KNOWN if record.asked_again >= MAX_ASKED_AGAIN else "Whether it was done is not known."
            note = f"{record.note} {doubt} {observed.note}".strip()
        found = {"identity": self.world.identity(record.call.computer), "note": note}
        return observed.model_copy(update=found)

    async def _observed(self, record: CallRecord) -> Observed:
        """A look that the computer refuses is taken again a few times; one that is only busy is left to its work."""
        for _ in range(MAX_VOIDS - 1):
            try:
                return await self.world.observe(record)
            except CallVoid as void:
                if void.reason == "busy":
                    raise
            await asyncio.sleep(_LOOK_AGAIN_S)
        return await self.world.observe(record)

    async def _expected(self, record: CallRecord) -> Observed | None:
        """The state that the run must find: the one that was shown, or, where nobody was asked, the present one."""
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

    async def _stale(self, record: CallRecord, reason: str, code: str) -> None:
        ended = facts.RequestEnded(
            request_id=record.request_id if record.state is CallState.APPROVED else None,
            end="stale",
            call_ids=(record.call_id,),
            reason=reason,
            code=code,
        )
        await self.journal.intend(ended)

    async def _supersede(
        self, record: CallRecord, reason: str, code: str = "", seen: Mapping[str, str] | None = None
    ) -> None:
        ended = facts.RequestEnded(
            request_id=record.request_id,
            end="superseded",
            call_ids=(record.call_id,),
            reason=reason,
            code=code,
            seen=dict(seen or {}),
        )
        await self.journal.intend(ended)


def _allowed_after_all(shown: list[facts.RequestedCall]) -> tuple[facts.ReviewNoted, ...]:
    """The runs that a rule allows by the very program that they resolve to, which had to be looked at first."""
    allowed = tuple(one for one in shown if one.evaluation.effect is Effect.ALLOW)
    return (facts.ReviewNoted(what="released", calls=allowed),) if allowed else ()


def _absent_program(record: CallRecord, observed: Observed) -> bool:
    """A program that was not there when it was shown: a sibling may have written it since, so look again."""
    return record.call.tool in RUNNERS and ABSENT in observed.state.values()
