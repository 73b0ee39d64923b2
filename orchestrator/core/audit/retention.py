"""The parts of a store that may be removed: ended tasks, oldest first, and blobs that no item needs.

Theory. A blob is needed by each item that names its hash, and a kind of item that is not known yet may name one, too.
So nothing is decoded here. Every sha256 anywhere in the bytes of an item or a row counts as named, and so does every
file in the lines of a directory that is needed itself. To name too much keeps a few bytes longer; to name too little
would lose somebody's file.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from orchestrator.core.audit.chain import SYSTEM_STREAM, Anchor, Fault, beside
from orchestrator.core.audit.tables import MADE_US, Row, Rows
from orchestrator.core.task import facts
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.system_facts import BackupRemoved, ComputerBackedUp, ComputersArrived, GrantId, TaskPruned
from orchestrator.core.values import immutable, to_us

# -- What of a store may go: which ended tasks, oldest first, and which blobs nobody needs

LISTS: Final = b"\0file\0"
"""The part that the lines of a directory have wherever they name a file."""
_MADE: Final = b'"kind":"computer_backed_up"'
_NAME: Final = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_FILE: Final = re.compile(rb"\0file\0([0-9a-f]{64})\n")


def named_in(data: bytes) -> frozenset[str]:
    """Every sha256 that is in the bytes of an item or a row."""
    return frozenset(one.decode("ascii") for one in _NAME.findall(data))


def needed_by_note(data: bytes) -> frozenset[str]:
    """As :func:`named_in`, of an item that belongs to no task.

    What a backup needs, its row names, and only as long as it is kept: the item that made it stays for ever.
    """
    return frozenset() if _MADE in data else named_in(data)


def listed_in(lines: bytes) -> frozenset[str]:
    """The files that the lines of a directory name; of other bytes mostly nothing."""
    return frozenset(one.decode("ascii") for one in _FILE.findall(lines))


def referred(submitted: facts.TaskSubmitted) -> frozenset[TaskId]:
    """The tasks that a task builds on: what it undoes, and what its model is told of its session."""
    earlier = {one.task_id for one in submitted.earlier}
    restored = {TaskId(submitted.restores.task_id)} if submitted.restores and submitted.restores.task_id else set()
    return frozenset(earlier | restored)


def is_unfinished(items: Sequence[AgentTaskItem]) -> bool:
    """Whether a task rehearsed, and nobody has written down yet what that came to: its copy still has it."""
    told = [item.fact for item in items]
    rehearses = any(isinstance(one, facts.TaskSubmitted) and one.rehearses is not None for one in told)
    return rehearses and not any(isinstance(one, facts.RehearsalEnded) for one in told)


def pruned(items: Sequence[AgentTaskItem], why: str) -> TaskPruned:
    """The remains of a task, from all its items, when it is removed for this reason."""
    first, last = items[0], items[-1]
    told = [item.fact for item in items]
    uses = Counter(one.grant_id for one in told if isinstance(one, facts.ToolStarted) and one.grant_id is not None)
    decided = (one for one in told if isinstance(one, facts.DecisionRecorded))
    return TaskPruned(
        task_id=first.task_id,
        version=last.version,
        head_hash=last.hash,
        user_id=next((one.user_id for one in told if isinstance(one, facts.TaskSubmitted)), ""),
        created_at=first.at,
        updated_at=last.at,
        requests=sum(isinstance(one, facts.ReviewRequested) for one in told),
        grants=tuple(GrantId(grant.grant_id) for one in decided for grant in one.grants),
        uses=dict(uses),
        why=why,
    )


@immutable
class Weighed:
    """A task and what it takes."""

    task_id: TaskId
    at: datetime
    """When something happened to it last."""
    may_go: bool
    """Whether it is over, nobody keeps it, and nobody refers to it, as far as that is known."""
    size: int
    """Bytes of its items."""
    names: frozenset[str] = frozenset()
    """The blobs that it names, and those that these name."""


@immutable
class Weights:
    """All that a store keeps, grouped by what needs it."""

    tasks: tuple[Weighed, ...] = ()
    others: frozenset[str] = frozenset()
    """The blobs that are needed by something else than a task."""
    other_bytes: int = 0
    """The bytes of items that belong to no task."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """The sizes of all blobs."""

    @property
    def bytes(self) -> int:
        """All together."""
        return self.other_bytes + sum(one.size for one in self.tasks) + sum(self.sizes.values())

    def holding(self, names: Collection[TaskId]) -> "Weights":
        """The same, where some tasks turned out to stay."""
        if not names:
            return self
        tasks = (replace(one, may_go=one.may_go and one.task_id not in names) for one in self.tasks)
        return replace(self, tasks=tuple(tasks))

    def needed(self, without: Iterable[TaskId] = ()) -> frozenset[str]:
        """The names of blobs that somebody needs once some tasks are gone."""
        gone = frozenset(without)
        return self.others.union(*(one.names for one in self.tasks if one.task_id not in gone))


def to_prune(weights: Weights, *, until: datetime | None = None, down_to: int | None = None) -> dict[TaskId, str]:
    """The tasks that go, the oldest first, each with why: ``age`` or ``size``.

    ``until``: those to which nothing happened since; None: age is not a reason. ``down_to``: so many that what is kept
    has at most so many bytes; None: size is not a reason.
    """
    holders = Counter(name for one in weights.tasks for name in one.names)
    holders.update(weights.others)
    # Data that nobody needs goes in any case.
    left = weights.bytes - sum(size for name, size in weights.sizes.items() if not holders[name])
    going: dict[TaskId, str] = {}
    for one in sorted(weights.tasks, key=lambda one: (one.at, one.task_id)):
        if not one.may_go:
            continue
        aged = until is not None and one.at <= until
        if not aged and (down_to is None or left <= down_to):
            continue
        going[one.task_id] = "age" if aged else "size"
        left -= one.size
        for name in one.names:
            holders[name] -= 1
            left -= 0 if holders[name] else weights.sizes.get(name, 0)
    return going


# -- What was taken out of a store on purpose, compared with what says so: pruned tasks, and backups made and
# removed
#
# Theory. Pruning must not look like tampering, nor tampering like pruning. A task goes in one transaction with a
# note in the system stream, which nothing is ever taken out of and whose head each checkpoint has. The note names
# the head that the task had. So a stream that a checkpoint knows may be missing if, and only if, there is a note
# whose head is the checkpoint's, or a later one.


@dataclass(eq=False, repr=False)
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
        elif isinstance(item.fact, ComputersArrived):
            # A task that had left for another cell came back, longer than it was.
            for task_id in item.fact.tasks:
                self.told.pop(task_id, None)
                self.at.pop(task_id, None)

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


@dataclass(eq=False, repr=False)
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
        """The backups that nobody removed, each with the item that made it."""
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
