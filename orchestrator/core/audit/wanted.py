"""Which items of the audit are meant.

It stands apart from how they are shown: who shows them has plain JSON, and needs no model of a fact.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId
from orchestrator.core.task.items import AgentTaskItem


@dataclass(frozen=True)
class Wanted:
    """Which items are meant; empty or None: any."""

    request_id: str = ""
    by: str = ""
    """The id of an actor."""
    kind: str = ""
    since: datetime | None = None

    def of(self, items: Iterable[AgentTaskItem]) -> list[AgentTaskItem]:
        """The wanted items of one stream."""
        items = list(items)
        if self.request_id:
            calls = {call_id for item in items for call_id in self._calls_of(item.fact)}
            items = [item for item in items if self._concerns(item.fact, calls)]
        return [item for item in items if self._fits(item)]

    def _fits(self, item: AgentTaskItem) -> bool:
        late_enough = self.since is None or item.at >= self.since
        return late_enough and self.by in ("", item.actor.id) and self.kind in ("", item.fact.kind)

    def _calls_of(self, fact: facts.Fact) -> Iterator[CallId]:
        if isinstance(fact, facts.ReviewRequested) and fact.request_id == self.request_id:
            yield from (shown.call_id for shown in fact.calls)

    def _concerns(self, fact: facts.Fact, calls: set[CallId]) -> bool:
        """Whether a fact is of the request, or of one of its calls."""
        if getattr(fact, "request_id", None) == self.request_id:
            return True
        named = {getattr(fact, "call_id", None), *(one.call_id for one in getattr(fact, "calls", ()))}
        return bool(named & calls)
