"""A request as people see it: whole where it can be, without secrets, and never approved where it was cut.

Stored and running calls are never changed by it: a view is made again each time it is asked for.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from orchestrator.core.approval.approval import (
    DECISIONS,
    INFORMATIONAL,
    MAX_ASKED_AGAIN,
    CommentView,
    HitlResponse,
    RequestedCallView,
    ResumeRequest,
    SiblingView,
    TeamView,
    request_digest,
)
from orchestrator.core.approval.grants import own_paths
from orchestrator.core.approval.workflow import ONE_PERSON, Team, told_people, told_progress
from orchestrator.core.errors import InvalidDecision, NotFound
from orchestrator.core.policy import PolicyDecision, RiskLevel, severity
from orchestrator.core.task.facts import CallId, DecisionAction, Observed, RequestId
from orchestrator.core.task.task import AgentTask, CallRecord, OpenRequest
from orchestrator.core.text.redact import redact
from orchestrator.core.text.visible import cut
from orchestrator.core.undo.wanted import planned

# -- A request as people see it: whole where it can be, without secrets, and never approved where it was cut

LIST_CHARS: Final = 16_384
"""Characters of one text in a list or on the reviewers' socket.

A screen shows less, and a hundred of them must travel.
"""
_RESULT_CHARS: Final = 4_000
"""Characters of a sibling's result, which is context and decides nothing."""


class _Shown:
    """One view in the making: notes whether something was taken out of it, or cut."""

    def __init__(self, salt: str, max_chars: int | None) -> None:
        self._salt = salt
        self._max_chars = max_chars
        self.redacted = False
        self.cut_calls: set[CallId] = set()

    def value(self, value: Any, of: CallId | None = None) -> Any:
        """A value without its secrets and, at every depth, with its texts no longer than the view allows."""
        clean = redact(value, salt=self._salt)
        self.redacted = self.redacted or clean != value
        return self._capped(clean, of)

    def _capped(self, value: Any, of: CallId | None) -> Any:
        if isinstance(value, dict):
            return {name: self._capped(one, of) for name, one in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self._capped(one, of) for one in value)
        if not isinstance(value, str) or self._max_chars is None:
            return value
        shown, was_cut = cut(value, self._max_chars)
        if was_cut and of is not None:
            self.cut_calls.add(of)
        return shown


def hitl_response(task: AgentTask, *, max_chars: int | None = None) -> HitlResponse:
    """The open request of a paused task; ``max_chars``: of one text, None: whole.

    Raises NotFound when there is none.
    """
    request = task.request
    if request is None or task.created_at is None:
        raise NotFound("The task waits for no decision.", remedy="Look at the task.")
    shown = _Shown(task.tag, max_chars)
    calls = tuple(_call(task, record, shown) for record in task.pending_tool_calls)
    context = tuple(_sibling(record, shown) for record in task.calls if record.call_id not in request.call_ids)
    digests = tuple(call.action_digest for call in calls)
    goal, explanation = shown.value(task.prompt), shown.value(task.explanation)
    informational: tuple[str, ...] = INFORMATIONAL
    if task.restores is not None:
        explanation = planned(explanation, task.user_id)
    if task.restores is not None or task.checking.step:
        informational = tuple(name for name in INFORMATIONAL if name != "explanation")
    return HitlResponse(
        task_id=task.task_id,
        session_id=task.session_id,
        request_id=request.request_id,
        approval_url=f"/v1/approve/{request.request_id}",
        rejection_url=f"/v1/reject/{request.request_id}",
        tool_calls=calls,
        reason="outcome_unknown" if request.reason == "outcome_unknown" else "approval",
        allowed_decisions=_verbs(task, request),
        risk=max((call.evaluation.risk for call in calls), key=severity, default=RiskLevel.UNKNOWN),
        policy_version=request.policy_version,
        action_digest=request_digest(digests) if all(digests) else "",
        requester=task.user_id,
        requester_roles=task.roles,
        asked_at=task.asked_at,
        goal=goal,
        explanation=explanation,
        created_at=request.created_at,
        expires_at=request.expires_at,
        on_timeout=request.on_timeout,
        on_reject=task.rejecting,
        context=context,
        informational=informational,
        team=_team(request, shown),
        redacted=shown.redacted,
    )


def _team(request: OpenRequest, shown: _Shown) -> TeamView | None:
    """The people of a request; None: one person decides it, and nobody said anything yet."""
    team = request.team
    if team == ONE_PERSON:
        return None
    need, approved_by, waits_for = _approvals(team, request.call_ids)
    return TeamView(
        need=need,
        approved_by=approved_by,
        waits_for=waits_for or told_people(""),
        progress=told_progress(need, approved_by, waits_for) if need > 1 else "",
        claimed_by=team.claim.by if team.claim is not None else "",
        claimed_until=team.claim.until if team.claim is not None else None,
        escalate_at=team.escalate_at,
        escalated_to=team.escalated_to,
        comments=tuple(CommentView(by=one.by, at=one.at, text=shown.value(one.text)) for one in team.comments),
    )


def progress_of(task: AgentTask, request_id: RequestId) -> str:
    """How far the approvals of a request are after a decision, such as ``1 of 2: ann``; empty: none waits for more."""
    request = task.request
    if request is None or request.request_id != request_id:
        return ""
    approved = [call_id for call_id in request.call_ids if request.team.votes_on(call_id)]
    return told_progress(*_approvals(request.team, approved)) if approved else ""


def _approvals(team: Team, call_ids: Sequence[CallId]) -> tuple[int, tuple[str, ...], str]:
    """What is needed, who approved the call with the fewest approvals, and whose approval comes next."""
    least = min(call_ids, key=lambda call_id: len(team.votes_on(call_id)))
    by = team.by_now(least)
    return team.workflow.need, tuple(map(str, team.votes_on(least))), told_people(by) if by else ""


def _verbs(task: AgentTask, request: OpenRequest) -> tuple[DecisionAction, ...]:
    """What the request takes: ``check`` as long as asking the computer once more may tell something.

    One person's answer does not stand for several people.
    """
    over = any(record.asked_again >= MAX_ASKED_AGAIN for record in task.pending_tool_calls)
    left_out = {"check"} if over else set()
    left_out |= {"respond"} if request.team.workflow.need > 1 else set()
    return tuple(verb for verb in DECISIONS[request.reason] if verb not in left_out)


def _call(task: AgentTask, record: CallRecord, shown: _Shown) -> RequestedCallView:
    call = record.call
    args = shown.value(call.args, call.call_id)
    found = record.observed or Observed(state={})
    note = " ".join(filter(None, (found.note, *_notes_of_checks(task, record))))
    observed = Observed.model_validate(shown.value({**found.model_dump(mode="json"), "note": note}, call.call_id))
    truncated = call.call_id in shown.cut_calls
    return RequestedCallView(
        call_id=call.call_id,
        index=call.index,
        plugin_name=call.plugin_name,
        tool=call.tool,
        args=args,
        computer=call.computer,
        state=record.state,
        observed=observed,
        evaluation=PolicyDecision.model_validate(shown.value(record.evaluation.model_dump(mode="json"))),
        action_digest="" if truncated else record.action_digest or "",
        truncated=truncated,
        original_args=shown.value(record.original.args) if record.original is not None else None,
        edited_by=record.edited_by,
        grant_paths=tuple(shown.value(list(own_paths(call.tool, call.args)))),
        checks=tuple(shown.value([one.check for one in record.checks])),
    )


def _notes_of_checks(task: AgentTask, record: CallRecord) -> Iterator[str]:
    """What an approval of a call means for checks that run a program."""
    for one in record.checks:
        there = f"as it is now (sha256 {one.sha256[:12]}) or " if one.sha256 else ""
        yield (
            f"Your approval covers the check {one.check!r} too: when the task claims success, it runs this program on "
            f"{one.computer}, {there}as calls that you approve write it. "
            "If its text is another one by then, it is shown to you first."
        )
    paths = own_paths(record.call.tool, record.call.args) if record.call.tool in ("cc_write", "cc_edit") else ()
    approved = [one.shown for one in task.checking.approved]
    runs_it = (one for one in approved if one.computer == record.call.computer and {one.program, one.path} & {*paths})
    yield from (f"The check {one.check!r}, which was approved, runs what this writes." for one in runs_it)


def _sibling(record: CallRecord, shown: _Shown) -> SiblingView:
    result = None if record.result is None else cut(shown.value(record.result), _RESULT_CHARS)[0]
    return SiblingView(
        tool=record.call.tool,
        args=shown.value(record.call.args),
        computer=record.call.computer,
        state=record.state,
        result=result,
    )


def must_have_seen(by: str, task: AgentTask, resume: ResumeRequest) -> None:
    """Raises InvalidDecision for an approval of what was cut in every view that this person had (promise V3).

    A digest shows that they have the whole, as having fetched it does.
    """
    request = task.request
    if request is None or by in request.viewed_by or resume.expected_digest:
        return
    said = {one.call_id: (one.action, one.expected_digest) for one in resume.decisions or ()}
    for record in task.pending_tool_calls:
        action, digest = said.get(record.call_id, (resume.action, None))
        if action in ("approve", "edit") and not digest and any(len(text) > LIST_CHARS for text in texts_of(record)):
            raise InvalidDecision(
                "Something of it is cut where requests are listed, so it cannot be approved unseen.",
                remedy=f"Fetch it whole, GET /v1/requests/{request.request_id}, then decide.",
            )


def texts_of(record: CallRecord) -> Iterator[str]:
    """The texts of a call that may be long."""
    yield from (value for value in record.call.args.values() if isinstance(value, str))
    if record.observed is not None:
        yield from (text for text in (record.observed.diff, record.observed.source) if text is not None)
