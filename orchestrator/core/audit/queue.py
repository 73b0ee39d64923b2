"""The queue's columns of a task's row, compared with its items: a task that nobody would go on with is found.

A lease and a time to wake are of no lasting worth, so that no item tells them. But they are never longer than
somebody can have meant, and a task that has something to do is due, held, or waits for a computer.
"""

from collections.abc import Iterator
from typing import Final

from orchestrator.core.audit.chain import Fault, beside
from orchestrator.core.audit.tables import Row
from orchestrator.core.task.effects import (
    AwaitAnswer,
    AwaitReview,
    AwaitRuns,
    BeginUndo,
    LookFirst,
    PlanRestoration,
    Rest,
    next_effects,
)
from orchestrator.core.task.limits import next_deadline
from orchestrator.core.task.task import AgentTask
from orchestrator.core.values import to_us

MOST_LEASE_US: Final = 3_600_000_000
"""The most that the setting ``lease_s`` may say."""
SLACK_US: Final = 60_000_000
"""Clocks that are set, and the way from a look at one to the row."""
_FOR_OTHERS: Final = (AwaitReview, AwaitAnswer, AwaitRuns, BeginUndo, Rest)
"""What is done by somebody else, or may turn out to be nothing."""


def queue_faults(row: Row, task: AgentTask, now: int) -> list[Fault]:
    """What the row of a task, as it was with these items, says of the queue and cannot be so."""
    return [beside(task.task_id, "row", f"The row of {task.task_id} {why}.") for why in _reasons(row, task, now)]


def _reasons(row: Row, task: AgentTask, now: int) -> Iterator[str]:
    lease_for, until, due = row["lease_for"], row["lease_until"], row["due"]
    if not isinstance(lease_for, int) or not 0 <= lease_for <= MOST_LEASE_US:
        yield f"has a lease for {lease_for!r} µs, longer than any"
    elif row["holder"] is None:
        yield from _asleep(due, row["waiting_for"], task, now)
    elif not isinstance(until, int) or until > now + lease_for + SLACK_US:
        yield f"is held by {row['holder']} until {until!r}, longer than any lease"


def _asleep(due: object, waiting_for: object, task: AgentTask, now: int) -> Iterator[str]:
    """For a task that nobody holds: whether it is taken up again in time."""
    effects = next_effects(task)
    deadline = next_deadline(task)
    if not all(isinstance(one, _FOR_OTHERS) for one in effects):
        latest: int | None = now + MOST_LEASE_US
    else:
        latest = None if deadline is None else to_us(deadline)
    if waiting_for is not None:
        named = {*task.computers, *task.named_computers, *(one.call.computer for one in task.calls)}
        elsewhere = any(isinstance(one, LookFirst | PlanRestoration) for one in effects)
        if waiting_for not in named and not elsewhere:
            yield f"waits for computer {waiting_for}, and it has nothing to do there"
    elif latest is not None and (not isinstance(due, int) or due > latest + SLACK_US):
        yield f"is due at {due!r}, and it has to go on by {latest}: nobody would"
