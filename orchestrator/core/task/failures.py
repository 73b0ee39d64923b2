"""What a task does next fails: how often that is tried again, after which pauses, and what people are told.

Theory. Each failure is an item of the task's journal, so that the count holds over a restart and on another node. It
counts since the task last got on: since an item that is no mere beginning. What fails by itself and a connected
computer that does not answer are counted apart. A computer that is away is waited for, and nothing is counted.
"""

from typing import Final

from orchestrator.core.task.effects import next_effects
from orchestrator.core.task.facts import FailedBecause, WorkFailed
from orchestrator.core.task.task import AgentTask
from orchestrator.core.wire.wire import ComputerId

MAX_FAILED: Final = 5
"""Failures in a row after which a task ends."""
MAX_UNANSWERED: Final = 25
"""The same for a connected computer that is busy or does not answer: about a quarter of an hour of pauses."""
AT_ONCE: Final = 3
"""Answers that a connected computer may miss before each next try is given a pause."""
_PAUSE_S: Final = 1.0
_SHORT_PAUSES: Final = 5
_MAX_PAUSE_S: Final = 60.0
_MAX_REASON: Final = 1000
_TOLD_EACH: Final = 10


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


def told(failure: WorkFailed) -> str:
    """Why a task does not go on now, for people."""
    tried = f"tried {failure.count} of {failure.most} times: {failure.reason}"
    return tried if failure.because == "failed" else f"waiting for a computer that does not answer, {tried}"


def is_worth_a_line(failure: WorkFailed) -> bool:
    """Whether the log of a task tells it: an answer that was missed once or twice is no news."""
    return failure.because == "failed" or failure.count == AT_ONCE + 1 or failure.count % _TOLD_EACH == 0


def why_it_ends(failure: WorkFailed, computer: ComputerId | None = None) -> str:
    """Why a task ends that failed too often, and what to do where a computer is the reason."""
    if failure.because == "failed":
        return f"It was tried {failure.count} times and does not go on. {failure.reason}"
    name = f"Computer {computer}" if computer is not None else "The computer"
    return (
        f"{name} was connected but did not do what it was asked {failure.count} times in a row. {failure.reason} "
        "Look at it in the game: its program may hang, or other tasks keep it busy. Reboot it, then run the task again."
    )
