"""One task as it happens, on a page: what `tasks watch` shows, with the diff of each request."""

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from orchestrator.client import Back, Event, Hint, Lost
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.terminal.output import Screen
from orchestrator.terminal.progress import Progress
from orchestrator.terminal.review.request_view import Line, Style, diff_lines
from orchestrator.terminal.tui.lines_view import LinesView

_STYLES: Final[dict[str, Style]] = {
    "[STEP": "title",
    "[TOOL]": "hunk",
    "[REVIEW]": "warning",
    "[QUESTION]": "warning",
    "[REPORT]": "hunk",
    "[FINAL]": "title",
}
_PROSE: Final = (
    *("[EXPLANATION]", "[FINAL]", "[REVIEW]", "[QUESTION]", "[ANSWER]", "[STATUS]"),
    *("[REFUSED]", "[SETTLED]", "[REPORT]", "[LIMIT]", "[UNDO]", "[REHEARSAL]", "[DECISION]"),
)
"""Lines that are broken at blanks; what runs, and what it gave, is not."""


@dataclass
class LogScreen(Screen):
    """A page that takes the lines, and the text that grows; it is drawn when :meth:`flush` is called."""

    out: io.StringIO = field(default_factory=io.StringIO)
    grows: bool = True
    moves: bool = True
    told: str = ""
    """The status."""
    _new: list[Line] = field(default_factory=list)
    _replaces: bool = False
    """Whether the first of what is new stands in place of the last that was drawn."""
    _growing: str | None = None
    _prose: bool = False
    """Whether what grows is broken at blanks."""

    @property
    def columns(self) -> int | None:
        """It wraps by itself."""
        return None

    def line(self, text: str) -> None:
        """See Screen."""
        self.end_part()
        first, *more = text.split("\n")
        style: Style = next((style for start, style in _STYLES.items() if first.startswith(start)), "")
        prose = first.startswith(_PROSE)
        self._new.extend([Line(first, style, prose), *(Line(one, prose=prose) for one in more)])

    def say(self, text: str) -> None:
        """See Screen."""
        self.end_part()
        self._new.append(Line(text, prose=True))

    def lines(self, lines: list[Line]) -> None:
        """Lines that are drawn as they are."""
        self.end_part()
        self._new.extend(lines)

    def part(self, text: str) -> None:
        """See Screen."""
        if not text:
            return
        if self._growing is None:
            self._growing = ""
            self._new.append(Line("", prose=text.startswith(_PROSE)))
        elif not self._new:
            self._new, self._replaces = [Line(self._growing, prose=self._prose)], True
        self._prose = self._new[-1].prose
        first, *more = text.split("\n")
        self._new[-1] = Line(self._growing + first, prose=self._prose)
        self._new.extend(Line(one, prose=self._prose) for one in more)
        self._growing = self._new[-1].text
        if text.endswith("\n"):
            self._new.pop()
            self._growing = None

    def end_part(self) -> None:
        """See Screen."""
        self._growing = None

    def at_start(self) -> None:
        """See Screen."""
        self._growing = None

    def status(self, text: str) -> None:
        """See Screen."""
        self.told = text

    def flush(self, page: LinesView) -> bool:
        """Draw what is new; whether there was something."""
        new, self._new = self._new, []
        replaces, self._replaces = self._replaces, False
        if replaces and new:
            page.replace_last(new[0])
        if len(new) > replaces:
            page.add(new[replaces:])
        return bool(new)


@dataclass
class TaskLog:
    """Turns the events of one task into lines."""

    tell_status: Callable[[str], None]
    now: Callable[[], datetime]
    """The time at the server."""
    screen: LogScreen = field(default_factory=LogScreen)
    ended: bool = False
    _progress: Progress = field(init=False)

    def __post_init__(self) -> None:
        self._progress = Progress(self.screen, self.now)

    def take(self, event: Event) -> None:
        """Show what came."""
        match event:
            case Hint():
                self._progress.hint(event)
            case Lost():
                self._progress.note("The server went away; it is looked for.")
            case Back():
                self._progress.note("The connection stands again.")
            case AgentTaskItem():
                self._progress.item(event)
                if isinstance(event.fact, facts.ReviewRequested):
                    for call in event.fact.calls:
                        self.screen.lines(list(diff_lines(call.observed.diff or "")))
                self.ended = self.ended or isinstance(event.fact, facts.TaskEnded)

    def tick(self) -> None:
        """The clock goes on."""
        if not self.ended:
            self._progress.tick()
            self.tell_status(self.screen.told)
