"""Whether somebody had the right to do what an item says, by the tokens that the items tell of.

Theory. A right is read from the row of a token. Who can write the database can change that row, use it, and put it
back, so that no row tells of it. The items do: they say which roles somebody was given, and when the token was revoked.
A holder may have several tokens, and an item does not say which one was used, so the roles of all of them count.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from orchestrator.core.audit.chain import SYSTEM_STREAM
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.system_facts import (
    ComputerReleased,
    NodeStarted,
    PolicyLoaded,
    TaskPruned,
    TokenIssued,
    TokenRevoked,
)

GRACE: Final = timedelta(seconds=1)
"""Between the look at the clock that a rule is checked by and the time of the item lie milliseconds."""
_BY_TOKEN: Final = frozenset({"token", "session"})
"""How somebody proved who they are, if a token was read for it; so does who types at a computer."""
_ADMIN: Final = frozenset({"admin"})
_SUBMITS: Final = frozenset({"submitter", "admin"})


@dataclass
class _Held:
    """A token as the item that issued it has it."""

    roles: frozenset[str]
    since: datetime
    until: datetime | None = None
    """When it was revoked; None: it was not."""

    def at(self, moment: datetime) -> bool:
        """Whether it counted then."""
        return self.since - GRACE <= moment and (self.until is None or moment <= self.until + GRACE)


class RightsBook:
    """Who had which roles, and when, as the items tell it."""

    def __init__(self) -> None:
        self._held: defaultdict[tuple[str, str], list[_Held]] = defaultdict(list)
        self._deciding = {"reviewer", "admin"}
        self._begun: datetime | None = None
        """When the system stream began; None: it has no item."""
        self._oldest: datetime | None = None
        """When the first task came in."""

    def take(self, item: AgentTaskItem) -> None:
        """One more item of any stream; those of one stream come in their order."""
        if item.task_id == SYSTEM_STREAM and self._begun is None:
            self._begun = item.at
        match item.fact:
            case facts.TaskSubmitted():
                self._came(item.at)
            case TaskPruned() as fact:
                self._came(fact.created_at)
            case NodeStarted() as fact:
                # What the setting ever was: the role that it names decides too.
                kind, _, role = fact.settings.get("approvers", "").partition(":")
                if kind == "role":
                    self._deciding.add(role)
            case TokenIssued() as fact:
                self._held[fact.holder_kind, fact.name].append(_Held(frozenset(fact.roles), item.at))
            case TokenRevoked() as fact:
                for one in self._held.get((fact.holder_kind, fact.name), ()):
                    one.until = one.until or item.at
            case _:
                pass

    def _came(self, at: datetime) -> None:
        self._oldest = at if self._oldest is None else min(at, self._oldest)

    def why_not(self, item: AgentTaskItem, own: Collection[str]) -> str:
        """Why the author of the item had no right to it, as a sentence; empty: no fault is known.

        ``own``: the people whose task it is.
        """
        by = item.actor
        needed = self._needed(item, own)
        if not needed or not (by.auth in _BY_TOKEN or by.at_computer):
            return ""
        tokens = self._held.get((by.kind, by.id), ())
        if not tokens and self._may_lack():
            return ""
        if _one_had(tokens, needed, item.at):
            return ""
        roles = " or ".join(sorted(needed))
        return f"{by.id} caused {item.fact.kind}, and no item says that {by.id} had the role {roles} at that time."

    def decided_no_more(self, name: str, at: datetime) -> bool:
        """Whether a person who had tokens had none then with a role that decides; a grant of theirs did not count."""
        tokens = self._held.get(("person", name), ())
        return bool(tokens) and not _one_had(tokens, self._deciding, at)

    def _may_lack(self) -> bool:
        """Whether tokens may have no item: of a release that had no system stream, or where no server ever was."""
        return self._begun is None or not self._held or (self._oldest is not None and self._oldest < self._begun)

    def _needed(self, item: AgentTaskItem, own: Collection[str]) -> Set[str]:
        """The roles of which one is needed; empty: none is, or it depends on more than roles."""
        match item.fact:
            case facts.DecisionRecorded() as fact:
                # A requester may always reject what their own task asks.
                rejects = all(one.action == "reject" for one in fact.decisions)
                return frozenset() if rejects and item.actor.id in own else self._deciding
            case facts.ReviewNoted(what="extended"):
                return self._deciding
            case PolicyLoaded() | TokenIssued() | TokenRevoked() | ComputerReleased() | TaskPruned():
                return _ADMIN
            case facts.TaskSubmitted(restores=None):
                return _SUBMITS
            case _:
                return frozenset()


def _one_had(tokens: Iterable[_Held], needed: Set[str], at: datetime) -> bool:
    """Whether one of the tokens counted then and had one of these roles."""
    return any(one.roles & needed and one.at(at) for one in tokens)
