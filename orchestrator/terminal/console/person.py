"""The person at the console: where they read, what they type, and whom they ask for more."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

from orchestrator.core.approval.approval import HitlResponse
from orchestrator.core.task.facts import CallId, RequestId
from orchestrator.terminal.console.lines import Line, on_screen

_AT_ONCE = partial(print, flush=True)


class Desk(Protocol):
    """What a prompt asks the server for. Raises OrchestratorError with what to tell."""

    def whole(self, request_id: RequestId) -> HitlResponse:
        """The request with nothing of it cut."""

    def extend(self, request_id: RequestId, seconds: float) -> None:
        """So much time for it from now on."""


@dataclass
class Person:
    """Where a person reads and types. ``ask`` None: nobody is there."""

    say: Callable[[str], None] = _AT_ONCE
    """At once, also into a pipe: whoever reads there waits for it."""
    ask: Callable[[str], str] | None = None
    color: bool = False
    told: set[str] = field(default_factory=set)
    """The tasks whose goal was shown."""
    columns: int | None = None
    """Prose is wrapped at these; None: it is not, as on a pipe."""
    desk: Desk | None = None
    """None: a request is decided as it was given."""
    kept: dict[tuple[RequestId, CallId], dict[str, Any]] = field(default_factory=dict)
    """Edited arguments that were not taken yet: the next edit begins with them."""
    leave: str = "[l]eave"
    """What leaving a request is called: where there are several it is going on to the next."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def write(self, lines: Iterable[Line]) -> None:
        """Lines, wrapped and colored as this person's terminal has it."""
        for line in lines:
            for part in on_screen(line, color=self.color, columns=self.columns):
                self.say(part)

    def tell(self, text: str) -> None:
        """One sentence."""
        self.write([Line(text, prose=True)])

    def typed(self, prompt: str) -> str:
        """What is typed, without blanks around it. Raises Overtaken, InputEnded."""
        assert self.ask is not None, "somebody is there"
        return self.ask(prompt).strip()

    def agrees(self, question: str) -> bool:
        """Whether the person says yes; anything else is no."""
        return self.typed(f"{question} [y/N] ").lower() in ("y", "yes")
