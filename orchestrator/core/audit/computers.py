"""The rows of computers, compared with the items: accepted, frozen, doubtful numbers, claims.

Theory. A row changes with a welcome, a new label, a freeze and a release, each of which is an item. It also changes
with each number that is allotted and with each ``journal_seq`` that is heard; both only rise, and the second is noted
with each checkpoint. A change while the rest was read is not a fault: only a column that is the same before and after
is compared with the items.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel, ValidationError

from orchestrator.core.audit.chain import Fault, beside, fault_of
from orchestrator.core.audit.shared import Since
from orchestrator.core.audit.tables import Row, Rows, token_fingerprint
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.system_facts import (
    CheckpointMade,
    ComputerFrozen,
    ComputerLabelled,
    ComputerReleased,
    ComputersArrived,
    ComputerSide,
    ComputerWelcomed,
)
from orchestrator.core.task.task import AgentTask
from orchestrator.core.values import immutable, to_us

MOST_NUMBER: Final = 2**53
"""A computer counts in floating point: above it two numbers are one."""


@dataclass(eq=False, repr=False)
class _Told:
    """What the items tell of one computer."""

    welcomed: ComputerWelcomed | None = None
    frozen: AgentTaskItem | None = None
    released: AgentTaskItem | None = None
    """The release that nobody has come after."""
    doubtful_below: int = 0
    boot: str = ""
    """Whose ``journal_seq`` counts."""
    heard: int = 0
    """The least that was heard."""


def _told(fact: ComputerWelcomed) -> _Told:
    """What a welcome tells of its computer."""
    return _Told(welcomed=fact, doubtful_below=fact.doubtful_below, boot=fact.side.boot, heard=fact.heard)


@dataclass(eq=False, repr=False)
class ComputerBook:
    """The computers as the items tell them."""

    highest: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Computer to the highest number that a call was started with, and the task."""
    told: dict[str, _Told] = field(default_factory=dict)
    impossible: list[Fault] = field(default_factory=list)
    """Items that the store writes for nobody."""

    def take(self, item: AgentTaskItem) -> None:
        """The next item of any stream."""
        match item.fact:
            case facts.ToolStarted(computer=str(computer), number=number):
                if number > self.highest.get(computer, (0, ""))[0]:
                    self.highest[computer] = number, item.task_id
            case ComputerWelcomed() as fact:
                if self._of(fact.computer).frozen is not None:
                    why = f"computer {fact.computer} was welcome while it was frozen, and nobody had released it"
                    self.impossible.append(fault_of(item.task_id, item.version, "impossible", why))
                self.told[fact.computer] = _told(fact)
            case ComputersArrived() as fact:
                self.told.update({computer: _Told() for computer in fact.computers})
                self.told.update({one.computer: _told(one) for one in fact.welcomed})
            case ComputerFrozen() as fact:
                self._of(fact.computer).frozen = item
            case ComputerLabelled() as fact:
                told = self._of(fact.computer)
                if told.welcomed is not None:
                    labels = {"label": fact.label, "former_labels": fact.former_labels}
                    side = told.welcomed.side.model_copy(update=labels)
                    told.welcomed = told.welcomed.model_copy(update={"side": side})
            case ComputerReleased() as fact:
                told = self._of(fact.computer)
                told.frozen, told.released, told.doubtful_below = None, item, fact.number
            case CheckpointMade() as fact:
                for computer, (boot, heard) in fact.heard.items():
                    told = self._of(computer)
                    told.boot, told.heard = boot, max(heard, told.heard if told.boot == boot else 0)

    def _of(self, computer: str) -> _Told:
        return self.told.setdefault(computer, _Told())

    def faults(self, before: Rows, after: Rows, since: Since) -> Iterator[Fault]:
        """Where the rows, as they were before and after the items were read, are not what the items say."""
        yield from self.impossible
        for computer, (number, task_id) in self.highest.items():
            row = after.get(computer)
            at = 0 if row is None else _number(row["number"])
            if at < number:
                yield _fault(computer, f"is at number {at}, and {task_id} started a call there as number {number}")
        for computer, told in self.told.items():
            if told.welcomed is not None and computer not in after:
                yield _fault(computer, "was welcome, and the table does not know it")
        for computer, row in after.items():
            was = before.get(computer)
            if was is not None:
                steady = {name: value for name, value in row.items() if was[name] == value}
                yield from self._differences(computer, steady, row, since)

    def _differences(self, computer: str, steady: Row, row: Row, since: Since) -> Iterator[Fault]:
        told = self.told.get(computer, _Told())
        number, started = _number(row["number"]), self.highest.get(computer, (0, ""))[0]
        welcomed = told.welcomed.number if told.welcomed else 0
        # One that is below a call's is told already.
        if (number >= started or not started) and not welcomed <= number <= MOST_NUMBER:
            yield _fault(computer, f"is at number {row['number']!r}, which nobody allotted")
        yield from _frozen(computer, told, steady, since)
        if told.welcomed is not None:
            yield from _met(computer, told, told.welcomed, steady)
        elif not since.may_lack(_met_at(row)) and told.released is None:
            for name in ("known", "token", "doubtful_below", "heard"):
                if steady.get(name):
                    yield _fault(computer, f"has {name} {row[name]!r}, and no item says that it was ever welcome")
        if not isinstance(row["heard"], int):
            yield _fault(computer, f"has heard {row['heard']!r}, which is not a number")
        elif "heard" in steady and "known" in steady and row["heard"] < told.heard and _boot(row) == told.boot:
            yield _fault(computer, f"was heard at {told.heard}, and the table has only {row['heard']}")


def _met(computer: str, told: _Told, welcomed: ComputerWelcomed, steady: Row) -> Iterator[Fault]:
    """Whom a row takes for the computer, and with which token."""
    if "known" in steady and _read(ComputerSide, steady["known"]) != welcomed.side:
        yield _fault(computer, "has somebody else in the table than who was welcome last")
    if (
        "token" in steady
        and (token_fingerprint(str(steady["token"])) if steady["token"] else "") != welcomed.fingerprint
    ):
        yield _fault(computer, "has another token in the table than the one with which it was welcome last")
    if steady.get("doubtful_below", told.doubtful_below) != told.doubtful_below:
        yield _fault(
            computer, f"doubts numbers below {steady['doubtful_below']!r}, and its items say {told.doubtful_below}"
        )


def _frozen(computer: str, told: _Told, steady: Row, since: Since) -> Iterator[Fault]:
    frozen = told.frozen
    if "frozen" in steady:
        if frozen is None and steady["frozen"] is not None:
            yield _fault(computer, "counts as frozen, and no item says so")
        elif frozen is not None and _read(ComputerFrozen, steady["frozen"]) != frozen.fact:
            yield _fault(computer, "was frozen, and the table says something else of it")
    at = None if frozen is None else to_us(frozen.at)
    if "frozen_at" in steady and steady["frozen_at"] != at:
        yield _fault(computer, f"was frozen at {at}, and the table has {steady['frozen_at']!r}")
    if "released" in steady:
        if steady["released"] not in {0, 1} or (steady["released"] and told.released is None):
            yield _fault(computer, "counts as released, and nobody did that")
        elif told.released is not None and not steady["released"] and not since.may_lack(to_us(told.released.at)):
            yield _fault(computer, "was released, and the table says that it was not")


def _met_at(row: Row) -> int:
    """When who is known came, in microseconds; 0: version 0.6, which wrote no items, may have met it."""
    side = _read(ComputerSide, row["known"])
    return to_us(side.at) if isinstance(side, ComputerSide) else 0


def _boot(row: Row) -> str:
    side = _read(ComputerSide, row["known"])
    return side.boot if isinstance(side, ComputerSide) else ""


def _read(kind: type[BaseModel], data: object) -> BaseModel | None:
    try:
        return kind.model_validate_json(str(data), extra="ignore")
    except ValidationError:
        return None


# -- claims ------------------------------------------------------------------------------


@immutable
class Work:
    """A task's relation to computers, as it was read."""

    version: int
    open: frozenset[str]
    """Where it has calls of which nobody knows how they ended."""
    computers: frozenset[str]
    """The computers on which it may have a claim."""
    rests: bool
    """Whether it is over, nobody holds it and it is not due."""


def work_of(task: AgentTask, row: Row) -> Work:
    """The work of one task."""
    return Work(
        version=task.version,
        open=frozenset(one.call.computer for one in task.open_runs if one.call.computer is not None),
        computers=frozenset((*task.computers, *(one.call.computer for one in task.calls if one.call.computer))),
        rests=task.ended is not None and row["due"] is None and row["holder"] is None,
    )


def claim_faults(
    before: Rows, after: Rows, work: Mapping[str, Work], streams: Collection[str]
) -> dict[str, list[tuple[str, Fault]]]:
    """Claims that no task can have, and calls without one, by the task on whose state that rests."""
    found: dict[str, list[tuple[str, Fault]]] = {}
    for computer, row in after.items():
        was, task_id = before.get(computer), row["task"]
        if was is None or was["task"] != task_id:
            continue
        why = _wrong_claim(computer, str(task_id), work, streams) if task_id is not None else ""
        if why:
            found.setdefault(str(task_id), []).append((computer, _fault(computer, why)))
    for task_id, one in work.items():
        for computer in sorted(one.open):
            now, then = after.get(computer), before.get(computer)
            if now is not None and then is not None and now["task"] == then["task"] != task_id:
                why = f"has an open call of {task_id}, and the table says that {now['task'] or 'nobody'} has claimed it"
                found.setdefault(task_id, []).append((computer, _fault(computer, why)))
    return found


def _wrong_claim(computer: str, task_id: str, work: Mapping[str, Work], streams: Collection[str]) -> str:
    one = work.get(task_id)
    if one is None:
        return "" if task_id in streams else f"is claimed by {task_id}, which is not a task here"
    if one.rests and not one.open:
        return f"is claimed by {task_id}, which is over"
    if computer not in one.computers:
        return f"is claimed by {task_id}, which has nothing to do there"
    return ""


def _fault(computer: object, what: str) -> Fault:
    return beside("", "computer", f"Computer {computer} {what}.")


def _number(value: object) -> int:
    """A column that should be a number; -1: it is not a number."""
    return value if isinstance(value, int) else -1
