"""What an actor that cannot go on now waits for: a computer, some time, or the server of its model.

Theory. While the model server cannot be reached the task is in the phase ``waiting``, and its journal says for which
server and until when. It holds no worker, no computer and no lease: it falls due every few seconds, whichever node
takes it asks the server for a sign of life, and asks the model anew once there is one. A model that shows no sign of
life but a reply is asked anew after 1 s, then 2, 4 and so on, so that the journal does not fill up.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from orchestrator.core.errors import ModelFailed
from orchestrator.core.task import facts
from orchestrator.core.task.task import AgentTask
from orchestrator.core.wire.wire import ComputerId

LOOK_S: Final = 1.0
"""How soon a server that went away is looked for."""
_SELDOM_S: Final = 5.0
"""How often it is looked for later: workers hear at once of what is due so soon."""
_OF_THE_WAIT: Final = 0.1
"""Each look comes after this share of the time that the task has waited."""
_ASK_AT_MOST_S: Final = 60.0
_MOST_DOUBLED: Final = 6


@dataclass(frozen=True)
class Wait:
    """The actor cannot go on now: sleep until woken, or until ``seconds`` have passed."""

    computer: ComputerId | None = None
    seconds: float | None = None


def wait_for(task: AgentTask, away: ModelFailed, now: datetime, wait_s: float) -> facts.ModelAwaited | None:
    """The wait for a model server that could not be reached; None: the task has waited for all of ``wait_s``.

    The waits since the model's last reply count together: a server that comes and goes has no more time than another.
    """
    if task.wait_for_model:
        return facts.ModelAwaited(server=away.server, why=str(away))
    left_s = wait_s - task.waited_until(now)
    if left_s <= 0:
        return None
    return facts.ModelAwaited(server=away.server, why=str(away), until=now + timedelta(seconds=left_s))


def too_long(task: AgentTask, server: str, why: str, now: datetime) -> ModelFailed:
    """Why a task ends that has waited for its model server in vain."""
    waited = f"{task.waited_until(now):.0f} s"
    return ModelFailed(
        f"The model server at {server} could not be reached for {waited}, and the task ended. {why}",
        remedy="Then run the task again; with `run --wait-for-model` it waits without an end.",
        lasting=True,
    )


def is_over(task: AgentTask, now: datetime) -> bool:
    """Whether a task that waits for its model server has waited long enough."""
    return task.awaited is not None and task.awaited.until is not None and now >= task.awaited.until


def may_ask_in_s(task: AgentTask, now: datetime) -> float:
    """Seconds until a waiting task may ask its model anew, even where the server answers; 0: it may now."""
    if task.awaited_at is None:
        return 0.0
    pause_s = min(_ASK_AT_MOST_S, LOOK_S * 2.0 ** min(task.waits - 1, _MOST_DOUBLED))
    return max(0.0, pause_s - (now - task.awaited_at).total_seconds())


def look_again_in_s(task: AgentTask, now: datetime) -> float:
    """Seconds until a waiting task looks for its model server again; it looks once more when its time is up."""
    seconds = min(_SELDOM_S, max(LOOK_S, _OF_THE_WAIT * task.waited_until(now)), may_ask_in_s(task, now) or _SELDOM_S)
    until = task.awaited.until if task.awaited is not None else None
    return seconds if until is None else max(0.0, min(seconds, (until - now).total_seconds()))
