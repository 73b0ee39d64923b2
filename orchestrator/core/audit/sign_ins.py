"""Who is signed in, held against what the system stream says: a row that somebody put there lets them in."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from orchestrator.core.audit.chain import Fault, beside
from orchestrator.core.audit.tables import MADE_US, Row, Rows, token_fingerprint
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.system_facts import SignedIn, SignedOut
from orchestrator.core.timestamps import to_us


@dataclass
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
