"""What time alone does to a task: reminders, requests that expire, approvals that nobody used.

Theory. Times are those of the items, in UTC, so they survive a restart, and what passed while
nothing ran is due at once (promise O5). Silence never approves: a request that nobody answered is
expired, by nobody's decision, and what then becomes of the task was said when it was raised. An
approval that could not be used in time is shown again instead of running late (promises B5, B7).
"""

from datetime import datetime
from typing import Final

from orchestrator.core.task import facts
from orchestrator.core.task.effects import next_effects
from orchestrator.core.task.facts import Fact, FailedBecause, WorkFailed
from orchestrator.core.task.states import CallState, Phase
from orchestrator.core.task.task import AgentTask, CallRecord, OpenRequest
from orchestrator.core.values import ComputerId, immutable

# -- What may be spent of something: of a rate, which fills again with time, and of a task's tokens, which do not

LEAST_REPLY: Final = 16
"""Tokens that the shortest reply needs."""


class Budget:
    """An amount for each second, and no more than ``most`` at once.

    ``now`` is in seconds, of any clock that only rises.
    """

    def __init__(self, rate: float, most: float, now: float) -> None:
        self._rate, self._most = rate, most
        self._left, self._at = most, now

    def takes(self, size: float, now: float) -> bool:
        """Whether so many bytes more are within it; if so they are counted."""
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
        if size > self._left:
            return False
        self._left -= size
        return True


@immutable
class Tokens:
    """The tokens of a task before a request is sent: a request that could pass the limit is not."""

    limit: int
    """0: none."""
    used: int
    """Tokens of all requests before, in and out."""
    estimated: int
    """How many of the used tokens the model's server did not count."""
    prompt: int
    """Tokens of the messages of this request, rather too many than too few."""
    counted: int
    """How many of those the server has counted in an earlier request; 0: none, all are estimated."""

    @property
    def reply(self) -> int | None:
        """The most that the reply may have; None: there is no limit."""
        return max(1, self.limit - self.used - self.prompt) if self.limit else None

    def passed(self) -> str | None:
        """Why the request may not be sent, as a sentence; None: it may."""
        if not self.limit or self.used + self.prompt + LEAST_REPLY <= self.limit:
            return None
        used = f"{self.used} were used{f' ({self.estimated} of them estimated)' if self.estimated else ''}"
        how = (
            f"{self.counted} of them counted by the model's server, the rest estimated" if self.counted else "estimated"
        )
        return (
            f"The limit of {self.limit} tokens leaves no room for another request, so none was sent: {used}, and the "
            f"next prompt has up to {self.prompt} ({how})."
        )


# -- What a task does next fails: how often that is tried again, after which pauses, and what people are told
#
# Theory. Each failure is an item of the task's journal, so that the count holds over a restart and on another node. The
# count begins when the task last got on: at an item that is more than a beginning. Failures by itself and missing
# answers of a connected computer are counted apart. A computer that is away is waited for, and nothing is counted.

MAX_FAILED: Final = 5
"""Failures in a row after which a task ends."""
MAX_UNANSWERED: Final = 25
"""The same for a connected computer that is busy or does not answer: about a quarter of an hour of pauses."""
_PAUSE_S: Final = 1.0
_SHORT_PAUSES: Final = 5
_MAX_PAUSE_S: Final = 60.0
_MAX_REASON: Final = 1000


def failed(task: AgentTask, reason: str, because: FailedBecause, effect: str = "") -> WorkFailed:
    """The failure of what the task was to do next, counted; ``effect`` empty: as the task says."""
    before = next((one.count for one in task.failures if one.because == because), 0)
    most = MAX_FAILED if because == "failed" else MAX_UNANSWERED
    return WorkFailed(
        effect=effect or type(next_effects(task)[0]).__name__,
        reason=reason[:_MAX_REASON],
        because=because,
        count=before + 1,
        most=most,
    )


def pause_s(count: int) -> float:
    """Seconds before a computer that did not answer so often is asked again."""
    return min(_MAX_PAUSE_S, _PAUSE_S * 2.0 ** max(0, count - _SHORT_PAUSES))


def why_it_ends(failure: WorkFailed, computer: ComputerId | None = None) -> str:
    """Why a task ends that failed too often, and what to do where a computer is the reason."""
    if failure.because == "failed":
        return f"It was tried {failure.count} times and does not go on. {failure.reason}"
    name = f"Computer {computer}" if computer is not None else "The computer"
    return (
        f"{name} was connected but did not do what it was asked {failure.count} times in a row. {failure.reason} "
        "Look at it in the game: its program may hang, or other tasks keep it busy. Reboot it, then run the task again."
    )


# -- What time alone does to a task: reminders, requests that expire, approvals that nobody used

_NOBODY = "Nobody answered the request for a person's decision in time. That is not a rejection: nobody looked at it."
_UNUSED = "The approval was not used in time; it is shown again."


def next_deadline(task: AgentTask) -> datetime | None:
    """When time will next do something to the task; None: never."""
    if task.phase is Phase.ENDED:
        return None
    times = [record.valid_until for record in _approved(task)]
    if task.request is not None:
        times += [task.request.expires_at, None if task.request.reminded else task.request.remind_at]
        times.append(task.request.team.escalate_at)
    return min((one for one in times if one is not None), default=None)


def overdue(task: AgentTask, now: datetime) -> tuple[Fact, ...]:
    """The effects of time on the task by ``now`` that are not recorded yet; to be recorded together."""
    if task.phase is Phase.ENDED:
        return ()
    request = task.request
    if request is not None and request.expires_at is not None and now >= request.expires_at:
        return _expired(request)
    unused = [record for record in _approved(task) if record.valid_until is not None and now >= record.valid_until]
    if unused:
        return (
            facts.RequestEnded(
                request_id=unused[0].request_id,
                end="expired",
                call_ids=tuple(record.call_id for record in unused if record.request_id == unused[0].request_id),
                reason=_UNUSED,
                code="approval_expired",
            ),
        )
    if request is not None and request.team.escalate_at is not None and now >= request.team.escalate_at:
        return (escalation(request, now),)
    if request is not None and request.remind_at is not None and now >= request.remind_at and not request.reminded:
        return (facts.ReviewNoted(what="reminded", request_id=request.request_id),)
    return ()


def escalation(request: OpenRequest, now: datetime) -> facts.ReviewNoted:
    """The request goes to the people who come next, and they have as much time as the former ones had."""
    lasts = None if request.expires_at is None else request.expires_at - request.created_at
    return facts.ReviewNoted(
        what="escalated",
        request_id=request.request_id,
        to=request.team.next_group,
        expires_at=None if lasts is None else now + lasts,
    )


def _approved(task: AgentTask) -> list[CallRecord]:
    return [record for record in task.calls if record.state is CallState.APPROVED]


def _expired(request: OpenRequest) -> tuple[Fact, ...]:
    ended = facts.RequestEnded(
        request_id=request.request_id,
        end="expired",
        call_ids=request.call_ids,
        reason=_NOBODY,
        then=request.on_timeout,
    )
    if request.on_timeout != "cancel":
        return (ended,)
    return ended, facts.TaskEnded(status="Canceled", status_reason="expired", message=_NOBODY)
