"""Values that nodes share, compared with the system stream: the active policy and agreed settings."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, get_args

from orchestrator.core.approval.notices import PAUSES_S
from orchestrator.core.audit.chain import Fault, beside
from orchestrator.core.audit.tables import MADE_US, Row, Rows, token_fingerprint
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.system_facts import (
    Agreed,
    DirectoryChanged,
    NodeStarted,
    Notable,
    NoticeState,
    NotifyValue,
    PolicyLoaded,
    SignedIn,
    SignedOut,
)
from orchestrator.core.values import sha256_hex, to_us

# -- Who is signed in, compared with what the system stream says: a row that somebody put there lets them in


@dataclass(eq=False, repr=False)
class SignInBook:
    """The sign-ins as the system stream tells them.

    One that is over by time leaves no item, so that a row may be missing; it lets nobody in.
    """

    begun: dict[str, tuple[SignedIn, int]] = field(default_factory=dict)
    """Each with when it began, by its fingerprint."""
    ended: set[str] = field(default_factory=set)

    def take(self, item: AgentTaskItem) -> None:
        """The next item of any stream, each in its order."""
        match item.fact:
            case SignedIn() as fact:
                self.begun[fact.fingerprint] = fact, to_us(item.at)
                self.ended.update(fact.replaced)
            case SignedOut() as fact:
                self.ended.add(fact.fingerprint)

    def faults(self, before: Rows, after: Rows, now: int) -> Iterator[Fault]:
        """Where the rows, as they were before and after the items were read, are not what the items say."""
        for row in before.values():
            if not isinstance(row["used_at"], int) or row["used_at"] > now + MADE_US:
                yield _fault(row["name"], "was used later than now, and so would last longer")
        for key, row in before.items():
            found = self.begun.get(token_fingerprint(key))
            if found is None:
                yield _fault(row["name"], "is in the table, and nobody signed in so")
            else:
                yield from _differences(*found, row)
        for key, row in after.items():
            if token_fingerprint(key) in self.ended:
                yield _fault(row["name"], "is over, and the table lets it in again")


def _differences(fact: SignedIn, begun_at: int, row: Row) -> Iterator[Fault]:
    if row["name"] != fact.name:
        yield _fault(fact.name, f"is one of {row['name']} in the table")
    if token_fingerprint(str(row["token_hash"])) != fact.bound_to:
        yield _fault(fact.name, "is bound to another token in the table than the one that it came with")
    if row["begun_at"] != begun_at:
        yield _fault(fact.name, "began at another time in the table, and so ends at another")


def _fault(name: object, what: str) -> Fault:
    return beside("", "token", f"A sign-in of {name} {what}.")


# -- What nodes have in common, compared with what the system stream says: the active policy, and what they
# agreed on

IN_FORCE: Final = "in force"
"""The name of the one row of ``policies``."""
INSTALLATION: Final = "installation"
"""Under this name the nodes of a store agree on the word of their bus; it does not move with a store."""
UPDATES: Final = "updates"
"""Under this name they agree on the secret that the keys of updates and of pushes to browsers are derived from."""
SECRETS: Final = frozenset({UPDATES})
"""The item has only the sha256 of these: many people read the journal, and nobody may read the secrets there."""
DUTY_US: Final = 7_200_000_000
"""No singleton job is taken for longer at once."""


@dataclass(eq=False, repr=False)
class Since:
    """The times from which codes, welcomes and agreed values have items: version 0.6 wrote none."""

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


@dataclass(eq=False, repr=False)
class PolicyBook:
    """The active policy as the system stream tells it."""

    loaded: tuple[AgentTaskItem, PolicyLoaded] | None = None

    def take(self, item: AgentTaskItem) -> None:
        """The next item of any stream."""
        if isinstance(item.fact, PolicyLoaded):
            self.loaded = item, item.fact

    def faults(self, before: Rows, after: Rows) -> Iterator[Fault]:
        """The rows that differ from the items; a change between the two looks is not a fault."""
        # A row of version 0 is one that nobody has filled yet.
        rows = {name: row for name, row in after.items() if before.get(name) == row and row["version"] != 0}
        for name in sorted(rows.keys() - {IN_FORCE}):
            yield _policy(f"A policy is in the table as {name!r}, and only one is active.")
        row = rows.get(IN_FORCE)
        if self.loaded is None:
            if row is not None:
                yield _policy("A policy is active, and no item says who activated it.")
        elif row is not None:
            yield from _shared_differences(row, *self.loaded)
        elif self.loaded[1].number and not after.get(IN_FORCE, {"version": 0})["version"]:
            yield _policy("The active policy is not in the table.")


def _shared_differences(row: Row, item: AgentTaskItem, fact: PolicyLoaded) -> Iterator[Fault]:
    expected: dict[str, object] = {"sha256": fact.sha256, "source": fact.source, "loaded_by": item.actor.id}
    if fact.number:
        expected |= {"version": fact.number, "loaded_at": to_us(item.at)}
    for name, said in expected.items():
        if row[name] != said:
            yield _policy(f"The active policy has {name} {row[name]!r}, and its item says {said!r}.")
    if not isinstance(row["judged"], int) or not 0 <= row["judged"] <= _number(row["version"]):
        yield _policy(
            f"Open requests were judged by policy {row['judged']!r}, and number {row['version']!r} is active."
        )


def _policy(detail: str) -> Fault:
    return beside("", "policy", detail)


def _number(value: object) -> int:
    return value if isinstance(value, int) else -1


# -- groups and owners -------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class DirectoryBook:
    """The groups and owners as the system stream tells them."""

    said: dict[str, tuple[int, DirectoryChanged]] = field(default_factory=dict)
    """The last item about each entry, with its version."""

    def take(self, item: AgentTaskItem) -> None:
        """The next item of any stream."""
        if isinstance(item.fact, DirectoryChanged):
            self.said[item.fact.entry] = item.version, item.fact

    def faults(self, before: Rows, after: Rows) -> Iterator[Fault]:
        """As those of :class:`PolicyBook`."""
        for entry, row in after.items():
            if before.get(entry) != row:
                continue
            version, fact = self.said.get(entry, (0, None))
            if fact is None or fact.value is None:
                yield _entry(f"{entry!r} is in the table, and no item set it.")
            elif (row["number"], row["data"]) != (version, fact.model_dump_json()):
                yield _entry(f"{entry!r} is {row['data']} in the table, and its item says {fact.model_dump_json()}.")
        standing = {entry for entry, (_, fact) in self.said.items() if fact.value is not None}
        for entry in sorted(standing - after.keys()):
            yield _entry(f"{entry!r} was set, and is not in the table.")

    def secret_faults(self, before: Rows, after: Rows) -> Iterator[Fault]:
        """Where the addresses of rules are not those that the items name; a fault does not tell the address."""
        needed = {
            one.value.target: entry for entry, (_, one) in self.said.items() if isinstance(one.value, NotifyValue)
        }
        for sha256, row in after.items():
            if before.get(sha256) != row:
                continue
            if sha256 not in needed:
                yield _entry(f"An address is in the table as {sha256[:16]}, and no rule names it.")
            elif sha256_hex(str(row["value"]).encode()) != sha256:
                yield _entry(f"The address of {needed[sha256]!r} is not the one that was set.")
        for sha256 in sorted(needed.keys() - after.keys()):
            yield _entry(f"The address of {needed[sha256]!r} is not in the table.")


def _entry(detail: str) -> Fault:
    return beside("", "directory", detail)


# -- what was agreed ---------------------------------------------------------------------


def told_of(name: str, value: str) -> str:
    """What an item says of a value."""
    return sha256_hex(value.encode()) if name in SECRETS else value


@dataclass(eq=False, repr=False)
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
    """Singleton jobs that no node can have taken in this way."""
    for name, row in after.items():
        if not isinstance(row["until"], int) or row["until"] > now + DUTY_US:
            yield _agreed(f"The singleton job {name} is taken until {row['until']!r}, longer than any node takes it.")


# -- what people are still to be told ----------------------------------------------------

MOST_WAIT_US: Final = 172_800_000_000
"""No delivery waits longer for its next attempt: the longest pause, and quiet hours after it."""
_KINDS: Final = frozenset(get_args(Notable))
_STATES: Final = frozenset(get_args(NoticeState))
_OPEN: Final = frozenset({"new", "waiting"})
MOST_ATTEMPTS: Final = len(PAUSES_S) + 1


def odd_notice(row: Row, now: int) -> str:
    """Why no version wrote this row of the outbox, as the end of a sentence; empty: one may have."""
    named = f"{row['stream']}.{row['version']}" + (f" {row['rule']}" if row["rule"] else "")
    due = row["due"]
    if not isinstance(row["rule"], str) or not isinstance(row["version"], int) or not isinstance(due, int | None):
        return "has a value of another type"
    if row["notice"] != named or row["kind"] not in _KINDS or row["state"] not in _STATES:
        return "has a name, a kind or a state that does not fit"
    if (row["state"] == "new") == bool(row["rule"]) or (due is not None) != (row["state"] in _OPEN):
        return "is in a state that its rule and its due time do not fit"
    if not 0 <= _number(row["attempts"]) <= MOST_ATTEMPTS:
        return f"has {row['attempts']!r} attempts"
    if not 0 <= _number(row["made_at"]) <= now + MADE_US or not 0 <= (due or 0) <= now + MOST_WAIT_US:
        return "has a time that is no time, or too late"
    return ""


def outbox_faults(after: Rows, now: int) -> Iterator[Fault]:
    """Rows of the outbox that no version writes."""
    for name, row in after.items():
        if why := odd_notice(row, now):
            yield beside("", "outbox", f"The row {name!r} of the outbox {why}.")


def _agreed(detail: str) -> Fault:
    return beside("", "agreed", detail)
