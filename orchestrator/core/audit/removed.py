"""What was taken out of a store on purpose, held against what says so: pruned tasks, and backups made and removed.

Theory. Pruning must not look like tampering, nor tampering like pruning. A task goes in one transaction with
a note in the system stream, which nothing is ever taken out of and whose head each checkpoint has. The note
names the head that the task had. So a stream that a checkpoint knows may be missing if, and only if, there is
a note whose head is the checkpoint's, or a later one.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.core.audit.chain import SYSTEM_STREAM, Anchor, Fault, beside
from orchestrator.core.audit.tables import MADE_US, Row, Rows
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.system_facts import BackupRemoved, ComputerBackedUp, TaskPruned
from orchestrator.core.timestamps import to_us


@dataclass
class PruneBook:
    """The pruned tasks as the system stream tells them."""

    told: dict[str, TaskPruned] = field(default_factory=dict)
    at: dict[str, int] = field(default_factory=dict)
    """When, in microseconds."""

    def take(self, item: AgentTaskItem) -> None:
        """The next item of any stream."""
        if item.task_id == SYSTEM_STREAM and isinstance(item.fact, TaskPruned):
            self.told.setdefault(item.fact.task_id, item.fact)
            self.at.setdefault(item.fact.task_id, to_us(item.at))

    def explains(self, stream: str, anchor: Anchor) -> bool:
        """Whether a task that a checkpoint knows may be missing."""
        note = self.told.get(stream)
        if note is None:
            return False
        return (note.version, note.head_hash) == anchor or note.version > anchor[0]

    def faults(self, before: Rows, after: Rows, streams: Collection[str]) -> Iterator[Fault]:
        """Where the rows, as they were before and after the items were read, are not what the items say.

        ``streams``: all that are there.
        """
        for task_id in sorted(before.keys() - self.told.keys()):
            yield beside(task_id, "row", f"{task_id} counts as pruned, and no item says by whom.")
        for task_id in sorted(self.told):
            if task_id not in after:
                yield beside(task_id, "row", f"{task_id} was pruned, and the table of pruned tasks has no row of it.")
            elif not _is_near(after[task_id]["pruned_at"], self.at[task_id]):
                yield beside(
                    task_id, "row", f"{task_id} was pruned at another time than the table of pruned tasks has."
                )
            if task_id in streams:
                yield beside(task_id, "row", f"{task_id} was pruned, and a task of this name is there again.")


def _is_near(found: object, said: int) -> bool:
    return isinstance(found, int) and abs(found - said) <= MADE_US


@dataclass
class BackupBook:
    """The backups as the system stream tells them."""

    made: dict[str, AgentTaskItem] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)

    def take(self, item: AgentTaskItem) -> None:
        """The next item of any stream."""
        if isinstance(item.fact, ComputerBackedUp):
            self.made[item.fact.backup_id] = item
        elif isinstance(item.fact, BackupRemoved):
            self.removed.add(item.fact.backup_id)

    @property
    def kept(self) -> Mapping[str, AgentTaskItem]:
        """Those that nobody removed, each with the item that made it."""
        return {name: item for name, item in self.made.items() if name not in self.removed}

    def faults(self, before: Rows, after: Rows) -> Iterator[Fault]:
        """As those of :class:`PruneBook`."""
        for name in sorted(before.keys() - self.made.keys()):
            yield _backup(name, "is in the table, and no item made it")
        for name, item in self.kept.items():
            row = after.get(name)
            if row is None:
                yield _backup(name, "was made, and is not in the table")
            elif _said(row) != _as_row(item):
                yield _backup(name, "has something else in the table than the item that made it")
        for name in sorted(self.removed & after.keys()):
            yield _backup(name, "was removed, and the table has it")


def _said(row: Row) -> tuple[Any, ...]:
    try:
        data = json.loads(str(row["data"]))
    except ValueError:
        data = None
    return row["computer"], row["made_at"], row["made_by"], data


def _as_row(item: AgentTaskItem) -> tuple[Any, ...]:
    told = item.fact.model_dump(mode="json")
    return told["computer"], to_us(item.at), item.actor.id, told


def _backup(name: str, what: str) -> Fault:
    return beside("", "backup", f"The backup {name} {what}.")
