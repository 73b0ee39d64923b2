"""A new task: prompt, computers, carefulness, checks and limits; and the log of a task as it happens."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import Static, TextArea

from orchestrator.client import Back, Event, Hint, Lost
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.output import Screen
from orchestrator.terminal.progress import Progress
from orchestrator.terminal.review.request_view import Line, Style, diff_lines
from orchestrator.terminal.tui.dialogs import Dialog, Field, Filled, Form, Ticks, text_field
from orchestrator.terminal.tui.lines_view import Desk, LinesView, begin, why_not

# -- What more can be said about a new task: its model, its session and its limits -------

_FIELDS: Final = (
    Field("model", "Model (empty: the server's)", most=200),
    Field("session_id", "Session (joins earlier tasks of yours)", most=100),
    Field("max_steps", "At most so many steps (1 to 1000; empty: as the server has it)", most=4),
    Field("max_minutes", "At most so many minutes of work (0: no limit; empty: as the server has it)", most=5),
    Field("max_tokens", "At most so many tokens (0: no limit; empty: as the server has it)", most=9),
)
_MOST: Final = {"max_steps": (1, 1000), "max_minutes": (0, 10_080), "max_tokens": (0, 100_000_000)}


def more_form(present: Mapping[str, str]) -> Form:
    """Asks for it; ``present``: what was said before."""
    return Form("More about the task", [one._replace(value=present.get(one.name, "")) for one in _FIELDS], wrong=_wrong)


def body_of(lines: Mapping[str, str]) -> dict[str, Any]:
    """The typed values, as the endpoint takes them."""
    body: dict[str, Any] = {name: lines[name] for name in ("model", "session_id") if lines.get(name)}
    for name in ("max_steps", "max_tokens"):
        if lines.get(name):
            body[name] = int(lines[name])
    if lines.get("max_minutes"):
        body["max_wall_s"] = int(lines["max_minutes"]) * 60.0
    return body


def _wrong(filled: Filled) -> str:
    for name, (least, most) in _MOST.items():
        value = filled.lines[name]
        if value and not (value.isascii() and value.isdigit() and least <= int(value) <= most):
            return f"{value!r} is not a number from {least} to {most}."
    return ""


# -- A new task: what to do, on which computers, how carefully, what has to hold at the end, and within which
# limits

_OPTIONS: Final = (
    ("read_only", ("it may only look",)),
    ("rehearse", ("it works on a copy first, and asks once for all of it",)),
    ("wait_for_model", ("it waits for the model server as long as it takes",)),
)
_CHECKS: Final = "What has to hold at the end? One check per line, such as: runs farm.lua"


class Submit(Dialog[Mapping[str, Any]]):
    """Asks for a task and submits it; the answer of the server.

    A task that the server refuses stays here to be changed.
    """

    BINDINGS = [  # noqa: RUF012 - as the library has it
        Binding("ctrl+s,f2", "take", show=False, priority=True),
        Binding("ctrl+o,f3", "more", show=False, priority=True),
    ]
    keys = "Ctrl+S (or F2) submits   Tab goes on   Space picks   Ctrl+O model, session, limits   Esc nothing"

    def __init__(self, desk: Desk, computers: Sequence[Mapping[str, Any]]) -> None:
        super().__init__("A new task: what shall be done?")
        self._desk = desk
        self._computers = sorted(computers, key=lambda one: not one["online"])
        self._more: Mapping[str, str] = {}
        self._sent: tuple[Mapping[str, Any], str] = ({}, "")
        """The task that was sent last, and its key: the same task sent again does not begin a second one."""

    def inside(self) -> ComposeResult:
        yield text_field(id="prompt")
        with VerticalScroll(classes="form", can_focus=False):
            online = [one["computer"] for one in self._computers if one["online"]]
            yield Ticks(
                ("ON WHICH COMPUTERS?", "STATE", "KIND", "LABEL"),
                [(one["computer"], _cells(one)) for one in self._computers],
                ticked=online if len(online) == 1 else (),
                empty="There are none yet: connect one with `cc-orchestrator pair`.",
                id="computers-to-pick",
            )
            yield Ticks(("AND?",), _OPTIONS, id="options")
            yield Static(_CHECKS, markup=False, classes="label", id="checks-label")
            yield text_field(id="checks")

    def on_mount(self) -> None:
        self.query_one("#prompt", TextArea).focus()

    def action_more(self) -> None:
        """Its model, its session and its limits."""
        begin(self, self._ask_more, in_place_of="more")

    async def _ask_more(self) -> None:
        filled = await self.app.push_screen_wait(more_form(self._more))
        if filled is not None:
            self._more = filled.lines
            said = ", ".join(f"{name} {value}" for name, value in body_of(filled.lines).items())
            self._say(one_line(said) or "As the server has it.")

    def written(self) -> bool:
        return any(area.text for area in self.query(TextArea))

    def action_take(self) -> None:
        """Submit it, if there is something to do."""
        body = self._body()
        wrong = "" if body["prompt"].strip() else "Say what to do, above."
        if "rehearse" in body and len(body["computers"]) != 1:
            wrong = wrong or "A rehearsal works on a copy of one computer: pick one."
        if wrong:
            self._say(wrong)
            return
        begin(self, self._send, body, in_place_of="send")

    def _body(self) -> dict[str, Any]:
        lines = (line.strip() for line in self.query_one("#checks", TextArea).text.splitlines())
        checks = [line for line in lines if line]
        return {
            "prompt": self.query_one("#prompt", TextArea).text,
            "computers": self.query_one("#computers-to-pick", Ticks).ticked,
            **dict.fromkeys(self.query_one("#options", Ticks).ticked, True),
            **({"checks": checks} if checks else {}),
            **body_of(self._more),
        }

    async def _send(self, body: Mapping[str, Any]) -> None:
        said, key = self._sent
        self._sent = (body, key if body == said else uuid4().hex)
        self._say("Submitting…")
        try:
            answer = await self._desk.live.ask("POST", "/v1/tasks", {**body, "idempotency_key": self._sent[1]})
        except OrchestratorError as error:
            if error.details.get("field") == "checks":
                self._say("")
                self._say_of_checks(str(error))
                self.query_one("#checks", TextArea).focus()
            else:
                self._say(why_not("POST", error))
            return
        self.dismiss(answer)

    def _say(self, sentence: str) -> None:
        """Say it above the keys, and nothing beside the checks."""
        shown = one_line(sentence, limit=2000)
        self.query_one(".dialog-keys", Static).update(f"{shown}\n{self.keys}" if shown else self.keys)
        self._say_of_checks("")

    def _say_of_checks(self, sentence: str) -> None:
        """Say what is wrong beside the checks; empty: nothing is."""
        label = self.query_one("#checks-label", Static)
        label.update(one_line(sentence, limit=2000) or _CHECKS)
        label.set_class(bool(sentence), "-wrong")


def _cells(computer: Mapping[str, Any]) -> tuple[str, ...]:
    named = (computer["computer"], computer["state"], computer.get("family") or "-", computer.get("label") or "-")
    return tuple(one_line(one, limit=60) for one in named)


# -- One task as it happens, on a page: what `tasks watch` shows, with the diff of each request

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
    """Whether the first new line replaces the last one that was drawn."""
    _growing: str | None = None
    _prose: bool = False
    """Whether a growing text is broken at blanks."""

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

    def say(self, text: str, indent: int = 0) -> None:
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
                self._progress.note("The connection is back.")
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
