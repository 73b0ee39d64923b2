"""What a task did when: whether it thought, waited for a person or ran something, and what its model took.

Theory. It is read off the items one by one, by the same fold that everything else goes by, so a task that goes on
costs only its new items. A task that waits for nobody and runs nothing is *queued*: it waits for its turn, for its
computer, for its model server, or until its person is unfrozen.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from orchestrator.core.task import facts
from orchestrator.core.task.fold import evolve
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.states import Phase
from orchestrator.core.task.task import AgentTask

Doing = Literal["queued", "thinking", "waiting", "running"]
"""``thinking``: its model works on a reply; ``waiting``: a person has to decide or to answer; ``running``: a call is
under way, on a computer or on this host."""
MOST_SEGMENTS: Final = 400
"""Segments that are kept of one task; of a task with more the older half is forgotten."""
_DOES: Final[dict[Phase, Doing]] = {
    Phase.THINKING: "thinking",
    Phase.ASKED: "thinking",
    Phase.REPLIED: "thinking",
    Phase.REVIEWING: "waiting",
    Phase.ANSWERING: "waiting",
}


@dataclass(frozen=True)
class Segment:
    """A time in which a task did one thing."""

    doing: Doing
    since: datetime
    until: datetime | None = None
    """None: it goes on."""


@dataclass(frozen=True)
class Reply:
    """One reply of the model."""

    at: datetime
    seconds: float
    """From the request until the whole reply was there."""
    tokens: int
    """In and out, as the model's server counted them; 0: it did not."""


@dataclass(frozen=True)
class Decided:
    """A request that a person decided."""

    at: datetime
    seconds: float
    """From the request until the decision."""


@dataclass
class Timeline:
    """The times of one task, as far as its items were read."""

    task: AgentTask
    """Before the first item: one of version 0."""
    segments: list[Segment] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    decisions: list[Decided] = field(default_factory=list)
    ended_at: datetime | None = None
    """None: it is not over."""
    _asked_at: datetime | None = None
    """When the model was asked last."""

    @property
    def doing(self) -> Doing | None:
        """What it does now; None: nothing, as it is over or has not begun."""
        return self.segments[-1].doing if self.segments and self.ended_at is None else None

    @property
    def tool(self) -> str:
        """The tool of the first call that is under way; empty: none is."""
        return next((one.call.tool for one in self.task.open_runs), "")

    def take(self, items: Iterable[AgentTaskItem]) -> None:
        """Read the next items of the task, in their order. Raises what the fold raises."""
        for item in items:
            before, self.task = self.task, evolve(self.task, item)
            if self.ended_at is None:
                self._read(before, item.fact, item.at)
                self._mark(item.at)

    def _read(self, before: AgentTask, fact: facts.Fact, at: datetime) -> None:
        match fact:
            case facts.ModelAsked():
                self._asked_at = at
            case facts.ModelReplied(usage=usage):
                tokens = usage.input_tokens + usage.output_tokens
                self.replies.append(Reply(at, _seconds(self._asked_at or at, at), tokens))
            case facts.DecisionRecorded():
                since = before.request.created_at if before.request is not None else at
                self.decisions.append(Decided(at, _seconds(since, at)))
            case facts.TaskEnded():
                self.ended_at = at
            case _:
                pass

    def _mark(self, at: datetime) -> None:
        """Close the present segment where the task does something else, or is over."""
        doing: Doing = "running" if self.task.open_runs else _DOES.get(self.task.phase, "queued")
        if self.task.frozen:
            doing = "queued"
        if self.segments:
            present = self.segments[-1]
            if present.doing == doing and self.ended_at is None:
                return
            self.segments[-1] = Segment(present.doing, present.since, at)
        if self.ended_at is None:
            self.segments.append(Segment(doing, at))
        if len(self.segments) > MOST_SEGMENTS:
            del self.segments[: MOST_SEGMENTS // 2]


def _seconds(since: datetime, until: datetime) -> float:
    return max(0.0, (until - since).total_seconds())
