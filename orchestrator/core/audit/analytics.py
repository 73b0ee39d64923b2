"""How requests are decided, as figures: after how long, how often rejected or expired, by rule, tool and person.

Theory. A call that people were asked about is settled once: decided, expired, or over without either. The time runs
from the request that showed it last. A person who approved first counts as much as the one who approved last; what a
grant or the policy let run later is nobody's decision.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from orchestrator.core.approval.workflow import told_person
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId
from orchestrator.core.task.items import AgentTaskItem

How = Literal["approved", "rejected", "answered", "expired", "dropped"]
"""``answered``: a person gave a result in place of the tool; ``dropped``: canceled, withdrawn or made void."""
_HOW: Final[dict[str, How]] = {
    "approve": "approved",
    "edit": "approved",
    "reject": "rejected",
    "respond": "answered",
}


@dataclass(frozen=True)
class Settled:
    """One call of a request, and how that ended."""

    at: datetime
    how: How
    seconds: float
    """From the request to its end."""
    tool: str
    rules: tuple[str, ...]
    people: tuple[str, ...]
    """Who decided; nobody of what expired or was dropped."""


@dataclass
class _Asked:
    """A call that waits for people."""

    at: datetime
    tool: str
    rules: tuple[str, ...]
    people: tuple[str, ...] = ()


def settled(items: Iterable[AgentTaskItem]) -> list[Settled]:
    """The calls of one task that people were asked about and that are settled, in the order of their ends."""
    ledger = _Ledger()
    for item in items:
        ledger.take(item)
    return ledger.found


class _Ledger:
    """Goes once through a task's items."""

    def __init__(self) -> None:
        self.found: list[Settled] = []
        self._tools: dict[CallId, str] = {}
        self._waiting: dict[CallId, _Asked] = {}

    def take(self, item: AgentTaskItem) -> None:
        """One more item."""
        match item.fact:
            case facts.CallsProposed() as fact:
                self._tools.update((one.call_id, one.tool) for one in fact.calls)
            case facts.ReviewRequested(reason="approval") as fact:
                for shown in fact.calls:
                    tool = self._tools.get(shown.call_id, "")
                    self._waiting[shown.call_id] = _Asked(item.at, tool, shown.evaluation.matched_rules)
            case facts.ReviewNoted() as fact:
                self._noted(item, fact)
            case facts.DecisionRecorded() as fact:
                self._decided(item, fact)
            case facts.RequestEnded() as fact:
                for call_id in fact.call_ids:
                    self._over(call_id, item.at, "expired" if fact.end == "expired" else "dropped")
            case _:
                pass

    def _noted(self, item: AgentTaskItem, fact: facts.ReviewNoted) -> None:
        for shown in fact.calls:
            self._over(shown.call_id, item.at, "dropped")
        for one in fact.decisions:
            if (asked := self._waiting.get(one.call_id)) is not None:
                earlier = () if one.action == "edit" else asked.people
                asked.people = (*earlier, told_person(item.actor.id, fact.behalf))

    def _decided(self, item: AgentTaskItem, fact: facts.DecisionRecorded) -> None:
        for one in fact.decisions:
            asked, how = self._waiting.get(one.call_id), _HOW.get(one.action)
            if asked is not None and how is not None:
                earlier = asked.people if one.action == "approve" else ()
                self._over(one.call_id, item.at, how, (*earlier, told_person(item.actor.id, fact.behalf)))

    def _over(self, call_id: CallId, at: datetime, how: How, people: tuple[str, ...] = ()) -> None:
        asked = self._waiting.pop(call_id, None)
        if asked is not None:
            seconds = (at - asked.at).total_seconds()
            self.found.append(Settled(at, how, seconds, asked.tool, asked.rules, people))


@dataclass(frozen=True)
class Figures:
    """Several settled calls, as figures."""

    calls: int
    approved: int
    rejected: int
    answered: int
    expired: int
    dropped: int
    median_s: float | None
    """Seconds to the decision of what people decided; None: they decided nothing."""
    p95_s: float | None


def figures(found: Iterable[Settled]) -> Figures:
    """The figures of these calls."""
    all_of = list(found)
    counts = {how: sum(one.how == how for one in all_of) for how in ("approved", "rejected", "answered", "expired")}
    seconds = sorted(one.seconds for one in all_of if one.people)
    last = len(seconds) - 1
    return Figures(
        calls=len(all_of),
        **counts,
        dropped=len(all_of) - sum(counts.values()),
        median_s=round((seconds[last // 2] + seconds[-(-last // 2)]) / 2, 3) if seconds else None,
        p95_s=round(seconds[-(-95 * len(seconds) // 100) - 1], 3) if seconds else None,
    )


def grouped(found: Iterable[Settled], by: Literal["rules", "tool", "people"]) -> dict[str, Figures]:
    """The figures of each rule, tool or person, by name; the one with the most calls first."""
    groups: dict[str, list[Settled]] = {}
    for one in found:
        value = getattr(one, by)
        for name in dict.fromkeys((value,) if isinstance(value, str) else value):
            groups.setdefault(name, []).append(one)
    return {name: figures(group) for name, group in sorted(groups.items(), key=lambda one: (-len(one[1]), one[0]))}
