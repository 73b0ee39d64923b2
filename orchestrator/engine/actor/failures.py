"""What fails is written down and counted; what failed too often ends the task with the reason."""

from orchestrator.core.task.facts import FailedBecause, WorkFailed
from orchestrator.core.task.failures import failed, why_it_ends
from orchestrator.core.task.items import SYSTEM
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.actor.journal import TaskJournal
from orchestrator.tools.environment import settled


async def note_failure(
    journal: TaskJournal,
    reason: str,
    because: FailedBecause,
    *,
    effect: str = "",
    computer: ComputerId | None = None,
) -> WorkFailed:
    """Record that what was to be done next failed; the task is over, and ``gave_up``, where that was once too often."""
    failure = failed(journal.task, reason, because, effect)
    await journal.happened(failure, SYSTEM)
    if failure.count >= failure.most:
        await _give_up(journal, why_it_ends(failure, computer))
    return failure


async def _give_up(journal: TaskJournal, why: str) -> None:
    """End a task that does not go on: what was begun is of unknown outcome, and nothing is tried any more."""
    for record in journal.task.open_runs:
        await journal.happened(settled(record, "unknown", reason=why), SYSTEM)
    await journal.service.fail(journal.task.task_id, "stuck", why)
    await journal.refold()
