"""Whether a decision was made before, so that it is carried out already."""

from typing import Any

from orchestrator.core.approval.approval import CallDecision, ResumeRequest
from orchestrator.core.approval.decisions.command import Decide
from orchestrator.core.errors import InvalidDecision
from orchestrator.core.task import facts
from orchestrator.core.task.items import canonical_json
from orchestrator.core.task.task import AgentTask, ClosedRequest
from orchestrator.core.wire.wire import sha256_hex


def repeated(task: AgentTask, command: Decide) -> bool:
    """Whether this person made this very decision before, so that it is carried out already: promise D6.

    A decision on the whole is the same as the one that closed the request. Raises InvalidDecision
    where the idempotency key came with another decision, or for another request of the task.
    """
    resume = command.resume
    own = [closed for closed in task.closed if closed.actor_id == command.by]
    keyed = [closed for closed in own if resume.idempotency_key and closed.key == resume.idempotency_key]
    same = [closed for closed in _comparable(task, command) if _same(task, resume, closed)]
    if keyed and not any(closed in same for closed in keyed):
        raise InvalidDecision(
            "This idempotency key was used for another decision.",
            remedy="Take a new key for this one.",
            details={"used_for": keyed[-1].request_id, "how": keyed[-1].how},
        )
    return any(closed in same for closed in own)


def _comparable(task: AgentTask, command: Decide) -> list[ClosedRequest]:
    """The decisions on this request which the command could repeat: on the whole of it, the one that closed it."""
    earlier = [closed for closed in task.closed if closed.request_id == command.request_id]
    if command.resume.decisions is not None:
        return earlier
    still_open = task.request is not None and task.request.request_id == command.request_id
    return [] if still_open else earlier[-1:]


def _same(task: AgentTask, resume: ResumeRequest, closed: ClosedRequest) -> bool:
    """Whether a decision says what was said then, of what was seen then; the reason may be another."""
    made = {one.call_id: one for one in closed.decisions if one.grant_id is None}
    said = {call_id: one.said_digest or said_digest(task, one) for call_id, one in made.items()}
    if closed.whole_digest and resume.expected_digest not in (None, closed.whole_digest):
        return False
    if resume.decisions is None:
        whole = CallDecision.model_construct(action=resume.action, on_reject=resume.on_reject)
        return set(said.values()) == {said_digest(task, whole)}
    return said == {one.call_id: said_digest(task, one) for one in resume.decisions} and all(
        one.expected_digest in (None, made[one.call_id].action_digest) for one in resume.decisions
    )


def said_digest(task: AgentTask, one: facts.Decision | CallDecision) -> str:
    """What a person said of a call, but for the reason and what they had seen, as one digest.

    A decision of an early release, which has none of its own, knew the verb and what a rejection does.
    """
    on_reject = (one.on_reject or task.on_reject) if one.action == "reject" else None
    said: dict[str, Any] = {"action": one.action, "on_reject": on_reject}
    if isinstance(one, CallDecision):
        rest = one.model_dump(mode="json", include={"args", "answer", "remember"}, exclude_none=True)
        said.update(rest)
    return sha256_hex(canonical_json(said))
