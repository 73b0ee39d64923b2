"""Whether a decision was made before, so that it is carried out already."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from orchestrator.core.approval.approval import CallDecision, ResumeRequest
from orchestrator.core.approval.workflow import Workflow
from orchestrator.core.errors import InvalidDecision, NotPending, RequestExpired
from orchestrator.core.policy import PathCheck, PolicyDecision, Quotas, RequestRules, SecretsToModel, Undo
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId, QuestionId, RequestedCall, RequestId, ToolCall
from orchestrator.core.task.items import AgentTaskItem, canonical_json
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.task.task import AgentTask, ClosedRequest, OpenRequest
from orchestrator.core.values import ComputerId, sha256_hex

# -- What a decision needs to be judged: who decides what of which request, and the active policy


class ActivePolicy(Protocol):
    """The active policy, for those who judge by it."""

    @property
    def version(self) -> str:
        """The policy's version."""

    @property
    def rules(self) -> RequestRules:
        """What it says of requests."""

    @property
    def undo(self) -> Undo:
        """What it says of the changes of a task that failed or was canceled."""

    @property
    def quotas(self) -> Quotas:
        """What it lets people use in a day, and how they take turns."""

    @property
    def watch(self) -> tuple[str, ...]:
        """Where it says that programs are watched, as globs."""

    @property
    def checks(self) -> tuple[PathCheck, ...]:
        """What it wants to hold where a task changed a path."""

    @property
    def secrets_to_model(self) -> SecretsToModel | None:
        """Whether it lets models be told secrets; None: it does not say."""

    def run_timeout_s(self, computer: ComputerId) -> int | None:
        """Seconds of the game that it lets a program run on a computer; None: it does not say."""

    def summary(self, task: AgentTask) -> str:
        """The summary that the model of a task gets."""

    def workflow(self, task: AgentTask, calls: Sequence[tuple[ToolCall, RequestedCall]]) -> Workflow:
        """The people who have to approve these calls of one request."""

    def judge(self, task: AgentTask, call: ToolCall, program: str | None = None) -> PolicyDecision:
        """Its verdict on a call; ``program``: what a run resolves to, once somebody has looked."""


@dataclass(frozen=True)
class Decide:
    """Decide a request, whole or in part; the new ids are those of calls that are retried and of grants."""

    request_id: RequestId
    resume: ResumeRequest
    by: str
    now: datetime
    active_policy: ActivePolicy
    new_call_id: Callable[[], CallId]
    new_grant_id: Callable[[], GrantId]
    authorize: Callable[[AgentTask], str] = lambda _: ""
    """For whom they decide as the task is now: empty for themselves, else a person who is away. Raises Forbidden."""
    overrides: bool = False
    """Whether no claim of somebody else holds them up."""


# -- The refusals of a request that takes no more decisions, and of a question that takes no more answers

_RENEW = "Look at the task: a new request can be raised from it, or it goes on without the call."


def expired(request: OpenRequest) -> RequestExpired:
    """The refusal of a request whose time is over, whether or not that is recorded yet (promise D9)."""
    return RequestExpired(
        f"The request expired at {request.expires_at:%Y-%m-%d %H:%M:%S} UTC, and nobody had answered.", remedy=_RENEW
    )


def closed_request(task: AgentTask, request_id: RequestId) -> NotPending:
    """The refusal of a request that takes no more decisions: says how it was closed, and by whom."""
    for closed in reversed(task.closed):
        if closed.request_id == request_id:
            kind = RequestExpired if closed.how == "expired" else NotPending
            became = "it expired" if kind is RequestExpired else f"it was {closed.how}"
            message = f"The request is no longer open: {became}."
            return kind(
                message,
                remedy=_RENEW if kind is RequestExpired else _present(task),
                details={
                    "decided_by": closed.actor_id,
                    "how": closed.how,
                    "at": closed.at.isoformat() if closed.at is not None else None,
                    "status": task.status.value,
                },
            )
    return NotPending(
        f"The request is no longer open: the task is {task.status.value}.",
        remedy=_present(task),
        details={"status": task.status.value},
    )


def _present(task: AgentTask) -> str:
    return f"`cc-orchestrator tasks show {task.task_id}` shows the task as it is now."


def closed_question(items: Iterable[AgentTaskItem], question_id: QuestionId) -> NotPending | None:
    """The refusal of a question of this journal that is not open: says who answered it; None: there never was one."""
    asked = False
    for item in items:
        match item.fact:
            case facts.QuestionAnswered(question_id=known) if known == question_id:
                return NotPending(
                    f"The question was answered already, by {item.actor.id} at {item.at:%Y-%m-%d %H:%M:%S} UTC.",
                    remedy="The first answer counts.",
                    details={"decided_by": item.actor.id, "how": "answered", "at": item.at.isoformat()},
                )
            case facts.QuestionAsked(question_id=known) if known == question_id:
                asked = True
            case _:
                pass
    if not asked:
        return None
    return NotPending(
        "The question is no longer open: the task is over, and nobody had answered.", remedy="Look at the task for why."
    )


# -- Whether a decision was made before, so that it is carried out already ---------------


def repeated(task: AgentTask, command: Decide) -> bool:
    """Whether this person made this very decision before, so that it is carried out already: promise D6.

    A decision on the whole is the same as the one that closed the request. Raises InvalidDecision
    where the idempotency key came with another decision, or for another request of the task.
    """
    resume = command.resume
    own = [closed for closed in task.closed if closed.actor_id == command.by]
    keyed = [closed for closed in own if resume.idempotency_key and closed.key == resume.idempotency_key]
    same = [
        closed for closed in _comparable(task, command) if closed.actor_id == command.by and _same(task, resume, closed)
    ]
    if keyed and not any(closed.key == resume.idempotency_key for closed in same):
        raise InvalidDecision(
            "This idempotency key was used for another decision.",
            remedy="Take a new key for this one.",
            details={"used_for": keyed[-1].request_id, "how": keyed[-1].how},
        )
    return bool(same)


def _comparable(task: AgentTask, command: Decide) -> list[ClosedRequest]:
    """The decisions on this request which the command could repeat: on the whole of it, the one that closed it."""
    earlier = [closed for closed in task.closed if closed.request_id == command.request_id]
    whole = command.resume.decisions is None
    if whole and (task.request is None or task.request.request_id != command.request_id):
        return [*earlier[-1:], *(closed for closed in _with_whole(earlier) if _was_all(closed))]
    earlier = _with_whole([closed for closed in earlier if _is_of_now(task, closed)])
    # On the whole: approvals of all that still waits, which are not enough yet.
    waits = {*task.request.call_ids} if whole and task.request is not None else set()
    return [closed for closed in earlier if waits <= {one.call_id for one in closed.decisions}]


def _was_all(closed: ClosedRequest) -> bool:
    """Whether somebody decided all that waited then, though others may have had to decide it as well."""
    return {*closed.waited_for} <= {one.call_id for one in closed.decisions} and bool(closed.decisions)


def _with_whole(earlier: list[ClosedRequest]) -> list[ClosedRequest]:
    """These decisions, and those that became two items, since a part of them waits for other people, as one."""
    parts: dict[tuple[str, str], list[ClosedRequest]] = {}
    for closed in earlier:
        parts.setdefault((closed.actor_id, closed.whole_digest), []).append(closed)
    split = [some for some in parts.values() if len(some) > 1]
    whole = (replace(some[-1], decisions=tuple(one for part in some for one in part.decisions)) for some in split)
    return [*earlier, *whole]


def _is_of_now(task: AgentTask, closed: ClosedRequest) -> bool:
    """Whether what was decided and still waits is as it was decided: nobody edited it since."""
    waiting = {record.call_id: record.action_digest for record in task.pending_tool_calls}
    return all(waiting.get(one.call_id) in (None, one.runs_digest or one.action_digest) for one in closed.decisions)


def _same(task: AgentTask, resume: ResumeRequest, closed: ClosedRequest) -> bool:
    """Whether a decision says what was said then, of what was seen then; the reason may be another."""
    made = {one.call_id: one for one in closed.decisions if one.grant_id is None}
    said = {call_id: one.said_digest for call_id, one in made.items()}
    if resume.expected_digest not in (None, closed.whole_digest):
        return False
    if resume.decisions is None:
        whole = CallDecision.model_construct(action=resume.action, on_reject=resume.on_reject)
        return set(said.values()) == {said_digest(task, whole)}
    return said == {one.call_id: said_digest(task, one) for one in resume.decisions} and all(
        one.expected_digest in (None, made[one.call_id].action_digest) for one in resume.decisions
    )


def said_digest(task: AgentTask, one: CallDecision) -> str:
    """What a person said of a call, except for the reason and what they had seen, as one digest."""
    on_reject = (one.on_reject or task.on_reject) if one.action == "reject" else None
    rest = one.model_dump(mode="json", include={"args", "answer", "remember"}, exclude_none=True)
    said = {"action": one.action, "on_reject": on_reject, **rest}
    return sha256_hex(canonical_json(said))
