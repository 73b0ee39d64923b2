"""What reviewers do with a request beside deciding it: claim and release, comment, and escalate.

None of it lets a call run. An escalation gives the request to other people, keeps its id, and resets its deadline
(promise D21); a claim keeps others from deciding until it is released or over.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from orchestrator.core.approval.command import closed_request, expired
from orchestrator.core.approval.workflow import MAX_COMMENTS, told_people, until_of_claim
from orchestrator.core.errors import Forbidden, InvalidDecision, NotPending
from orchestrator.core.task.facts import RequestId, ReviewNoted
from orchestrator.core.task.limits import escalation
from orchestrator.core.task.task import AgentTask, OpenRequest


@dataclass(frozen=True)
class Claim:
    """Say that ``by`` looks at a request; ``overrides``: whether a claim of somebody else does not count."""

    request_id: RequestId
    by: str
    now: datetime
    overrides: bool = False


@dataclass(frozen=True)
class Unclaim:
    """Give a claim back; ``overrides``: also that of somebody else."""

    request_id: RequestId
    by: str
    overrides: bool = False


@dataclass(frozen=True)
class Remark:
    """Say something to the next reviewer."""

    request_id: RequestId
    text: str
    now: datetime


@dataclass(frozen=True)
class Escalate:
    """Give a request to the people who come next; ``overrides``: whether a claim of somebody else does not count."""

    request_id: RequestId
    by: str
    now: datetime
    overrides: bool = False


TeamCommand = Claim | Unclaim | Remark | Escalate


def open_request(task: AgentTask, request_id: RequestId, now: datetime | None = None) -> OpenRequest:
    """The request of this id. Raises NotPending once it is closed, RequestExpired where its time is over by ``now``."""
    request = task.request
    if request is None or request.request_id != request_id:
        raise closed_request(task, request_id)
    if now is not None and request.expires_at is not None and now >= request.expires_at:
        raise expired(request)
    return request


def teamwork(task: AgentTask, command: TeamCommand) -> tuple[ReviewNoted, ...]:
    """The facts of it; empty where it is so already. Raises NotPending, RequestExpired, Forbidden, InvalidDecision."""
    match command:
        case Claim(request_id=request_id, now=now):
            return _claim(open_request(task, request_id, now), command)
        case Unclaim(request_id=request_id):
            return _unclaim(open_request(task, request_id), command)
        case Remark(request_id=request_id, text=text, now=now):
            request = open_request(task, request_id, now)
            if len(request.team.comments) >= MAX_COMMENTS:
                raise InvalidDecision(f"A request has {MAX_COMMENTS} comments at the most.", remedy="Decide it.")
            return (ReviewNoted(what="commented", request_id=request_id, text=text),)
        case Escalate(request_id=request_id, now=now):
            return (_escalate(open_request(task, request_id, now), command),)
    assert_never(command)


def _must_be_unclaimed(request: OpenRequest, command: Claim | Escalate) -> None:
    other = request.team.claimed_from(command.by, command.now)
    if other is not None and not command.overrides:
        raise NotPending(
            f"{other.by} looks at the request until {other.until:%H:%M:%S} UTC.",
            remedy="Take another one, or wait until then.",
            details={"claimed_by": other.by, "until": other.until.isoformat()},
        )


def _claim(request: OpenRequest, command: Claim) -> tuple[ReviewNoted, ...]:
    _must_be_unclaimed(request, command)
    until = until_of_claim(command.now)
    return (ReviewNoted(what="claimed", request_id=command.request_id, valid_until=until),)


def _unclaim(request: OpenRequest, command: Unclaim) -> tuple[ReviewNoted, ...]:
    claim = request.team.claim
    if claim is None:
        return ()
    if claim.by != command.by and not command.overrides:
        raise Forbidden(f"The claim is {claim.by}'s.", remedy=f"{claim.by} or an admin releases it.")
    return (ReviewNoted(what="unclaimed", request_id=command.request_id),)


def _escalate(request: OpenRequest, command: Escalate) -> ReviewNoted:
    _must_be_unclaimed(request, command)
    team = request.team
    if team.escalated_to:
        raise InvalidDecision(
            f"The request was escalated already; {told_people(team.escalated_to)} decides it.",
            remedy="Nobody comes after them: ask them.",
        )
    return escalation(request, command.now)
