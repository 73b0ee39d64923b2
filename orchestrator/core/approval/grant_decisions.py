"""Grants as decisions give them and as calls find them: see :mod:`orchestrator.core.approval.grants`."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from orchestrator.core.approval.grants import SESSION_S, Grant, GrantSpec, covers, fixed_args, in_paths, own_paths
from orchestrator.core.errors import InvalidDecision
from orchestrator.core.policy import RUNNERS, RiskLevel
from orchestrator.core.task import facts
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.task.task import AgentTask, CallRecord


def granted(
    task: AgentTask,
    decision: facts.Decision,
    spec: GrantSpec,
    *,
    by: str,
    now: datetime,
    new_id: Callable[[], GrantId],
) -> Grant:
    """The grant that a person gives with a decision. Raises InvalidDecision."""
    record = task.call(decision.call_id)
    assert record is not None, "only a call of the request was decided"
    verdict = decision.evaluation or record.evaluation
    if verdict.risk is RiskLevel.CRITICAL:
        raise InvalidDecision("What is critical is decided each time.", remedy="Approve it this once.")
    if decision.action == "edit" and not decision.runs_digest:
        raise InvalidDecision(
            "What the edited call touches was not shown yet.", remedy="Approve it this once; remember it at the next."
        )
    call = record.call
    args = decision.args if decision.args is not None else call.args
    paths = own_paths(call.tool, args)
    if spec.paths is not None and not paths:
        raise InvalidDecision(f"{call.tool} has no path to widen.", remedy="Leave paths out.")
    if spec.paths is not None and not in_paths(spec.paths, paths):
        raise InvalidDecision(
            f"{', '.join(spec.paths)} does not cover {', '.join(paths)}, which this call touches.",
            remedy="Give a pattern that covers this call, or leave paths out.",
        )
    state = record.observed.state if record.observed is not None else {}
    lasts_s = spec.expires_s or (SESSION_S if spec.scope == "session" else None)
    return Grant(
        grant_id=new_id(),
        scope=spec.scope,
        task_id=task.task_id,
        session_id=task.session_id,
        user_id=task.user_id,
        granted_by=by,
        tool=call.tool,
        computer=call.computer,
        identity=record.observed.identity if record.observed is not None else "",
        call_digest=decision.call_digest or call.call_digest,
        paths=spec.paths or paths,
        any_content=spec.any_content,
        args=fixed_args(call.tool, args, any_content=spec.any_content),
        files=dict(state) if call.tool in RUNNERS else {},
        created_at=now,
        expires_at=None if lasts_s is None else now + timedelta(seconds=lasts_s),
        max_uses=spec.max_uses,
        risk=verdict.risk,
        guards=verdict.guards,
    )


def released(
    task: AgentTask, decisions: Sequence[facts.Decision], grants: Sequence[Grant]
) -> tuple[facts.Decision, ...]:
    """Siblings that wait in the same request and that a new grant covers, each with the grant's id (promise G4)."""
    decided = {one.call_id for one in decisions}
    found: list[facts.Decision] = []
    for record in task.pending_tool_calls:
        grant = next((one for one in grants if record.call_id not in decided and grant_covers(one, record)), None)
        if grant is not None:
            found.append(
                facts.Decision(
                    call_id=record.call_id,
                    action="approve",
                    action_digest=record.action_digest or "",
                    grant_id=grant.grant_id,
                )
            )
    return tuple(found)


def grant_covers(grant: Grant, record: CallRecord) -> bool:
    """Whether a grant stands for a call as it was observed and judged."""
    return covers(
        grant,
        tool=record.call.tool,
        computer=record.call.computer,
        args=record.call.args,
        call_digest=record.call.call_digest,
        state=record.observed.state if record.observed is not None else {},
        identity=record.observed.identity if record.observed is not None else "",
        verdict=record.evaluation,
    )
