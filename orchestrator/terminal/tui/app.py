"""The app: its parts under one line of tabs, and below them messages, the connection, and the keys."""

import asyncio
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.events import Event, Resize
from textual.filter import LineFilter, NoColor
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from orchestrator.client import Back, Client, Lost, ServerRefused
from orchestrator.client.live import Live, as_object
from orchestrator.core.text.visible import one_line
from orchestrator.core.wire import review
from orchestrator.terminal.output import counted, width
from orchestrator.terminal.review.channel import OPEN_ENDED, OddRequests, closed_meanwhile, left_behind
from orchestrator.terminal.review.request_view import Line
from orchestrator.terminal.tui.approvals import Approvals
from orchestrator.terminal.tui.audit import Audit
from orchestrator.terminal.tui.batch import Questions, Together
from orchestrator.terminal.tui.computers import Computers
from orchestrator.terminal.tui.dialogs import Dialog, Listing, Show
from orchestrator.terminal.tui.header import Header
from orchestrator.terminal.tui.lines_view import Desk, begin, fitted, now
from orchestrator.terminal.tui.people import People
from orchestrator.terminal.tui.policy import Policy
from orchestrator.terminal.tui.reviews import Reviews
from orchestrator.terminal.tui.row_list import Pane, RowList
from orchestrator.terminal.tui.screen import Beside
from orchestrator.terminal.tui.tasks import Tasks
from orchestrator.terminal.tui.typing import Typing

# -- The help: every key and what it does, those of the part that is on the screen first

_EVERYWHERE: Final[Sequence[tuple[str, str]]] = (
    ("1 … 7", "the parts"),
    ("Tab", "the list, or its page"),
    ("↑ ↓ j k", "move; PgUp PgDn Home End by pages"),
    ("Enter", "the page alone; Esc both again"),
    ("m", "what was said lately"),
    ("Ctrl+T", "light or dark"),
    ("Ctrl+Z", "set it aside; `fg` in the shell brings it back"),
    ("q Ctrl+C", "leave; undecided requests stay open"),
)


def help_lines(parts: Iterable[Pane], present: Pane) -> list[Line]:
    """All keys."""
    first = sorted(parts, key=lambda part: part is not present)
    lines = [Line("Everywhere", "title"), *_named(_EVERYWHERE)]
    for part in first:
        if part.keys:
            lines += [Line(""), Line(part.title, "title"), *_named(part.offered())]
    return lines


def said_lines(said: Sequence[str]) -> list[Line]:
    """The messages so far, the last first."""
    return [Line(one, prose=True) for one in reversed(said)] or [Line("Nothing yet.")]


def _named(keys: Sequence[tuple[str, str]]) -> Iterator[Line]:
    return (Line(f"  {key:<10} {what}", prose=True) for key, what in keys)


# -- The app: its parts under one line of tabs, and below them what was said, the connection, and the keys

_PARTS: Final[Sequence[type[Pane]]] = (Tasks, Approvals, Questions, Computers, Policy, Audit, People)
_SAID_CHARS: Final = 2000
_KEPT: Final = 200
"""Sentences that m shows again."""
_LARGE: Final = (160, 40)
"""Columns and rows from which on there is room for the screen of a computer beside a list and its page."""
_OLD_NEWS_S: Final = 2.0
"""Seconds after a snapshot in which news may be of something that was over before."""
_POLL_S: Final = 3.0
"""How often is looked where the server does not say by itself that something changed."""
_AGES_S: Final = 10.0
"""How often ages and times left are drawn again."""


_SIGNALED: Final = 128
"""An exit code above it: a signal ended the program, or its terminal vanished."""


def _driver() -> Any:
    """The driver of terminals that vanish; None: the library's own, for a system where windows are closed."""
    if sys.platform == "win32":
        return None
    from orchestrator.terminal.tui.driver import VanishingDriver

    return VanishingDriver


class ConsoleApp(App[int]):
    """The terminal UI of one person at one server."""

    CSS_PATH = "console.tcss"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - as the library has it
        (0, "-narrow"),
        (120, "-wide"),
    ]
    BINDINGS = [  # noqa: RUF012 - as the library has it
        *(Binding(str(number), f"part('{part.name_of}')", show=False) for number, part in enumerate(_PARTS, start=1)),
        Binding("question_mark", "help", show=False),
        Binding("m", "said", show=False),
        Binding("ctrl+t", "look", show=False),
        Binding("q,ctrl+q", "leave", show=False),
        Binding("ctrl+c", "leave", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False),
    ]

    def __init__(self, client: Client) -> None:
        super().__init__(driver_class=_driver())
        # Over ssh each step of an animation is a screen, and a row that flew by was not read.
        self.animation_level = "none"
        self.typing = Typing(self, super().on_event)
        self.live = Live(client)
        self.reviews = Reviews(self.live, self.tell, self._heard, now)
        self.desk = Desk(self.live, self.reviews, self.tell, self.go, self._computer_of, self.typing.too_early)
        self._said: list[str] = []
        self._panes = {part.name_of: part(self.desk) for part in _PARTS}
        self._parts = ContentSwitcher(initial=_PARTS[0].name_of, id="parts")
        self._header = Header(self.reviews)
        self._beside = Beside(self.live)
        names = ("tabs", "said", "status", "keys")
        self._tabs, self._said_line, self._status, self._keys = (Static(markup=False, id=name) for name in names)
        self._fault = ""
        self._began_at = 0.0
        """When the connection began."""
        self._up = False
        """Whether the screen is there."""

    def run_whole(self) -> int:
        """Run it until the person leaves, and say what they have to know then; the exit code."""
        code = self.run(mouse=False)
        said = f"cc-orchestrator: {self._fault}" if self._fault else OPEN_ENDED if self.reviews.unheard else ""
        with suppress(OSError):
            # The terminal may be gone.
            sys.stderr.write(f"{said}\n" if said else "")
            sys.stderr.flush()
        if code is not None and code > _SIGNALED:
            # The interpreter writes the rest at its end; on a terminal that is gone it would fail, with another code.
            nothing = os.open(os.devnull, os.O_WRONLY)
            for stream in (sys.stdout, sys.stderr):
                os.dup2(nothing, stream.fileno())
        return 1 if self._fault else code or 0

    def get_line_filters(self) -> Sequence[LineFilter]:
        """With NO_COLOR none at all; the library's own would leave shades of grey."""
        filters = super().get_line_filters()
        return [*filters, NoColor()] if self.no_color else filters

    # -- the screen ----------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield self._header
        yield self._tabs
        with Horizontal(id="middle"):
            with self._parts:
                yield from self._panes.values()
            yield self._beside
        with Vertical(id="foot"):
            yield self._said_line
            yield self._status
            yield self._keys

    def on_mount(self) -> None:
        if _driver() is not None and not self.is_headless:
            driver: Any = self._driver
            driver.when_over(self.exit)
        self.app_resume_signal.subscribe(self, self._resumed)
        self._up = True
        self._draw()
        self.pane.entered()
        self.pane.take_focus()
        begin(self, self.typing.run)
        begin(self, self.reviews.run)
        begin(self, self._hear_changes)
        self.set_interval(_AGES_S, self._ages)

    def _resumed(self, app: App[int]) -> None:
        """The terminal is ours again, and empty: the library draws only what has changed since."""
        del app
        for screen in self.screen_stack:
            for widget in (screen, *screen.walk_children(Widget)):
                widget.refresh()

    async def on_unmount(self) -> None:
        await self.live.__aexit__()

    @property
    def pane(self) -> Pane:
        """The part that is on the screen."""
        return self._panes[self._parts.current or _PARTS[0].name_of]

    def on_resize(self, event: Resize) -> None:
        del event
        self.call_after_refresh(self._draw)

    async def on_event(self, event: Event) -> None:
        """Keys and pasted texts wait for their turn."""
        if not self._up or not self.typing.take(event):
            await super().on_event(event)

    def on_descendant_focus(self) -> None:
        self._draw()

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        del event
        self._look_beside()

    def _computer_of(self, task_id: str | None) -> str | None:
        tasks = self._panes[Tasks.name_of]
        return tasks.computer_of(task_id) if isinstance(tasks, Tasks) else None

    def _look_beside(self) -> None:
        """Show the computer of the chosen row where there is room, and watch it nowhere else."""
        columns, rows = self.size
        pane = self.pane
        here = pane.computer is not None and not pane.has_class("-screen")
        here = here and columns >= _LARGE[0] and rows >= _LARGE[1]
        if not here and self._beside.display and self._beside.has_focus_within:
            self.pane.take_focus()
        self._beside.display = here
        self._parts.set_class(here, "-beside")
        self._parts.set_class(columns >= _LARGE[0], "-wider")
        self._parts.set_class(columns < _LARGE[0], "-middle")
        self._beside.show(pane.computer if here else None, facts=not isinstance(pane, Computers))

    def _draw(self) -> None:
        """The lines that are not of a part."""
        if not self._up:
            return
        columns = self.size.width
        self._tabs.update(self._tab_line(columns))
        self._keys.update(_keys_of(self.pane, columns - 1))
        self._look_beside()
        away = self.reviews.why_away
        requests = len(self.reviews.requests) + len(self.reviews.odd)
        waits = f"{counted(requests, 'request')}, {counted(len(self.reviews.questions), 'question')}"
        others = f", {self.reviews.others} for others" if self.reviews.others else ""
        url = one_line(self.live.client.shown)
        lost = f"{'NOT CONNECTED' if self.reviews.was_there else 'connecting'} to {url}: it is looked for"
        self._header.draw(self.reviews.shut_out or (lost if away else f"connected to {url}"))
        said = self.reviews.shut_out or (lost if away else f"waiting: {waits}{others}; connected to {url}")
        self._status.set_class(bool(away) and self.reviews.was_there, "-away")
        self._status.update(fitted(said, columns - 1))

    def _tab_line(self, columns: int) -> Text:
        """The parts: their names as far as there is room, of the present one whole."""
        tabs = Text()
        for short in (99, 6, 4, 0):
            tabs = self._tabs_of(short)
            if tabs.cell_len <= columns:
                break
        return tabs

    def _tabs_of(self, short: int) -> Text:
        current, tabs = self.pane, Text()
        for number, part in enumerate(self._panes.values(), start=1):
            title = part.title if part is current else part.title[:short]
            name = f"{number} {title}".rstrip() + (f"({part.count})" if part.count else "")
            tabs.append(" " if number > 1 else "")
            tabs.append(f"[{name}]" if part is current else name, "bold reverse" if part is current else "")
        return tabs

    def _ages(self) -> None:
        self.pane.changed()
        self._draw()

    # -- what is heard and said ----------------------------------------------------------

    def tell(self, sentence: str, *, quietly: bool = False) -> None:
        """Say a sentence below everything; m shows the last of them again. ``quietly``: only m does."""
        shown = one_line(sentence, limit=_SAID_CHARS)
        self._said = [*self._said[-_KEPT:], f"{now().astimezone():%H:%M:%S}  {shown}"]
        if self._up and not quietly:
            self._said_line.update(shown)

    def _heard(self, message: Any) -> None:
        if not self._up:
            return
        match message:
            case review.RequestClosed():
                self._overtaken(message.request_id, closed_meanwhile(message.how))
            case review.QuestionClosed():
                self._overtaken(message.question_id, "The question needs no answer any more.")
            case review.RequestOpened() | review.QuestionOpened() | OddRequests(anew=False):
                # Heard where nobody looks at the screen; a terminal may be told to be silent.
                self.bell()
            case review.Snapshot():
                self._began_at = time.monotonic()
            case review.TaskOver():
                # Tasks that were over before come right after the snapshot, each time.
                self.tell(left_behind(message), quietly=time.monotonic() - self._began_at < _OLD_NEWS_S)
        for part in self._panes.values():
            if isinstance(part, Approvals | Questions):
                part.heard(message)
        for screen in self.screen_stack:
            if isinstance(screen, Together):
                screen.heard(message)
        self._draw()

    def _overtaken(self, about: str, why: str) -> None:
        """Take back the question on the screen about a request that is closed now."""
        screen = self.screen
        if isinstance(screen, Dialog) and screen.about == about:
            screen.take_back()
            approvals = self._panes[Approvals.name_of]
            if not (isinstance(approvals, Approvals) and approvals.is_mine(about)):
                self.tell(why)

    async def _hear_changes(self) -> None:
        """Read again what changed, as the server tells; one that refuses to is asked again and again."""
        try:
            told = self.live.hear("/v1/watch")
            async with aclosing(told):
                async for one in told:
                    if isinstance(one, Lost):
                        continue
                    kind = "everything" if isinstance(one, Back) else one[0]
                    if not isinstance(one, Back) and kind == "hello":
                        self._header.greeted(as_object(one[1]))
                        begin(self, self._learn_me, in_place_of="me")
                    self._changed(kind)
        except ServerRefused:
            while True:
                self._changed("everything")
                await asyncio.sleep(_POLL_S)

    async def _learn_me(self) -> None:
        """Some keys are for people with a right."""
        await self.desk.learn_me()
        self._draw()

    def _changed(self, kind: str) -> None:
        self._header.changed()
        concerned = {"tasks": {"tasks", "computers", "audit"}, "computers": {"computers"}}.get(kind)
        # A part that is not on the screen is read when it is.
        if concerned is None or self.pane.name_of in concerned:
            self.pane.changed()
        for screen in self.screen_stack:
            if concerned is None and isinstance(screen, Listing):
                screen.read()

    # -- keys ----------------------------------------------------------------------------

    def action_part(self, name: str) -> None:
        """Show a part."""
        self.go(name, None)

    def go(self, name: str, key: str | None) -> None:
        """Show a part, and there what has this key."""
        part = self._panes[name]
        self._said_line.update("")
        self._parts.current = name
        part.entered()
        if isinstance(part, Tasks) and key is not None:
            part.choose(key)
        elif key is not None:
            part.rows.choose(key)
        part.take_focus()
        self._draw()

    def action_help(self) -> None:
        """All keys."""
        self.push_screen(Show("Keys", help_lines(self._panes.values(), self.pane)))

    def action_said(self) -> None:
        """The latest messages."""
        self.push_screen(Show("What was said, the last first", said_lines(self._said)))

    def action_look(self) -> None:
        """Light or dark."""
        self.theme = "textual-light" if self.theme == "textual-dark" else "textual-dark"

    def action_leave(self) -> None:
        """Leave; requests that were not decided stay open."""
        self.exit(0)

    # -- defects -------------------------------------------------------------------------

    def _fatal_error(self) -> None:
        """The library would print every local variable, a token perhaps among them."""
        error = self._exception
        trace = error.__traceback__ if error is not None else None
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f" at {trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}" if trace is not None else ""
        self._fault = f"The terminal UI met a defect: {type(error).__name__}{where}. `cc-orchestrator review` decides."
        self._close_messages_no_wait()


def _keys_of(pane: Pane, columns: int) -> str:
    """The keys of what has the focus, the most needed first."""
    said = "? keys  q leave"
    reading: Sequence[tuple[str, str]] = (("Esc", "list"), ("↑ ↓ Space b", "scroll")) if pane.page.has_focus else ()
    for key, what in (*reading, *(pane.hinted or pane.offered())):
        if reading and key == "Enter":
            continue
        if width(f"{said}  {key} {what}") < columns:
            said = f"{said}  {key} {what}"
    return said
