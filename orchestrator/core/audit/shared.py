"""What nodes have in common, held against what the system stream says: the policy in force, and what they agreed on."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from orchestrator.core.audit.chain import Fault, beside
from orchestrator.core.audit.tables import Row, Rows
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.system_facts import Agreed, NodeStarted, PolicyLoaded
from orchestrator.core.timestamps import to_us
from orchestrator.core.wire.wire import sha256_hex

IN_FORCE: Final = "in force"
"""The name of the one row of ``policies``."""
INSTALLATION: Final = "installation"
"""Under this name the nodes of a store agree on the word of their bus; it does not move with a store."""
UPDATES: Final = "updates"
"""Under this name they agree on the secret that the keys of updates are derived from."""
SECRETS: Final = frozenset({UPDATES})
"""Of these the item has the sha256: many read the journal, and nobody is to read them there."""
DUTY_US: Final = 7_200_000_000
"""No duty is taken for longer at once."""


@dataclass
class Since:
    """From when on codes, welcomes and what nodes agree on have items: an early release wrote none."""

    at: int | None = None
    """Microseconds since 1970; None: no node that writes them has started."""
    whole: bool = False
    """Whether such a node began the stream."""

    def take(self, item: AgentTaskItem) -> None:
        """The next item of any stream."""
        fact = item.fact
        if self.at is None and (
            (isinstance(fact, PolicyLoaded) and fact.number) or (isinstance(fact, NodeStarted) and fact.records)
        ):
            self.at, self.whole = to_us(item.at), item.version == 1

    def may_lack(self, at: object) -> bool:
        """Whether what was kept at a time may have no item."""
        return self.at is None or (not self.whole and isinstance(at, int) and at < self.at)


@dataclass
class PolicyBook:
    """The policy in force as the system stream tells it."""

    loaded: tuple[AgentTaskItem, PolicyLoaded] | None = None

    def take(self, item: AgentTaskItem) -> None:
        """The next item of any stream."""
        if isinstance(item.fact, PolicyLoaded):
            self.loaded = item, item.fact

    def faults(self, before: Rows, after: Rows) -> Iterator[Fault]:
        """Where the rows are not what the items say; what changed between the two looks is no fault."""
        # A row of version 0 is one that nobody has filled yet.
        rows = {name: row for name, row in after.items() if before.get(name) == row and row["version"] != 0}
        for name in sorted(rows.keys() - {IN_FORCE}):
            yield _policy(f"A policy is in the table as {name!r}, and only one is in force.")
        row = rows.get(IN_FORCE)
        if self.loaded is None:
            if row is not None:
                yield _policy("A policy is in force, and no item says who put it there.")
        elif row is not None:
            yield from _differences(row, *self.loaded)
        elif self.loaded[1].number and not after.get(IN_FORCE, {"version": 0})["version"]:
            yield _policy("The policy in force is not in the table.")


def _differences(row: Row, item: AgentTaskItem, fact: PolicyLoaded) -> Iterator[Fault]:
    expected: dict[str, object] = {"sha256": fact.sha256, "source": fact.source, "loaded_by": item.actor.id}
    if fact.number:
        expected |= {"version": fact.number, "loaded_at": to_us(item.at)}
    for name, said in expected.items():
        if row[name] != said:
            yield _policy(f"The policy in force has {name} {row[name]!r}, and its item says {said!r}.")
    if not isinstance(row["judged"], int) or not 0 <= row["judged"] <= _number(row["version"]):
        yield _policy(f"What waits was judged by policy {row['judged']!r}, and number {row['version']!r} is in force.")


def _policy(detail: str) -> Fault:
    return beside("", "policy", detail)


def _number(value: object) -> int:
    return value if isinstance(value, int) else -1


# -- what was agreed ---------------------------------------------------------------------


def told_of(name: str, value: str) -> str:
    """What an item says of a value."""
    return sha256_hex(value.encode()) if name in SECRETS else value


@dataclass
class AgreedBook:
    """What the nodes agreed on, as the system stream tells it."""

    said: dict[str, str] = field(default_factory=dict)

    def take(self, item: AgentTaskItem) -> None:
        """The next item of any stream."""
        if isinstance(item.fact, Agreed):
            self.said[item.fact.name] = item.fact.value

    def faults(self, before: Rows, after: Rows, since: Since, *, shared: bool) -> Iterator[Fault]:
        """As those of :class:`PolicyBook`; ``shared``: nodes have the store, and so a word for their bus."""
        for name, row in after.items():
            if before.get(name) != row:
                continue
            said, has = self.said.get(name), told_of(name, str(row["value"]))
            if said is None and not since.may_lack(0):
                yield _agreed(f"The nodes agreed on {has!r} for {name}, and no item says so.")
            elif said not in {None, has}:
                yield _agreed(f"The nodes agreed on {said!r} for {name}, and the table has {has!r}.")
        for name in sorted(self.said.keys() - after.keys()):
            if shared or name != INSTALLATION:
                yield _agreed(f"The nodes agreed on {self.said[name]!r} for {name}, and the table has nothing.")


def duty_faults(after: Rows, now: int) -> Iterator[Fault]:
    """Duties that nobody can have taken so."""
    for name, row in after.items():
        if not isinstance(row["until"], int) or row["until"] > now + DUTY_US:
            yield _agreed(f"The duty {name} is taken until {row['until']!r}, longer than any node takes it.")


def _agreed(detail: str) -> Fault:
    return beside("", "agreed", detail)
