"""Small questions above the screen: yes or no, one of several, a line, a text. Escape takes each of them back."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Input, Static, TextArea

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.review.request_view import Line
from orchestrator.terminal.tui.lines_view import Desk, LinesView, why_not
from orchestrator.terminal.tui.row_list import Entry, RowList

# -- Small questions above the screen: yes or no, one of several, a line, a text. Escape takes each of them back

Answer = TypeVar("Answer")


class Dialog(ModalScreen[Answer | None], Generic[Answer]):
    """One question; None: it was taken back."""

    BINDINGS = [Binding("escape", "dismiss_none", show=False, priority=True)]  # noqa: RUF012 - as the library has it
    keys: ClassVar[str] = ""
    """The keys that can be pressed."""

    def __init__(self, title: str, *, about: str = "") -> None:
        super().__init__()
        self._title = title
        self._warned = False
        self.about = about
        """The request or question that it is about: once that is closed, so is this."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._title, markup=False, classes="dialog-title")
            yield from self.inside()
            yield Static(self.hint(), markup=False, classes="dialog-keys")

    def inside(self) -> ComposeResult:
        """The text between the title and the keys."""
        yield from ()

    def hint(self) -> str:
        """The keys that can be pressed, as a line."""
        return self.keys

    def written(self) -> bool:
        """Whether somebody wrote something that would be lost."""
        return False

    def take_back(self) -> None:
        """Close it, as its subject is closed: one that is just opening has its parts first, which it looks for."""
        if self.is_mounted:
            self.dismiss(None)
        else:
            self.call_after_refresh(self.take_back)

    def action_dismiss_none(self) -> None:
        """Take it back; what was written only at the second time: over a slow line an arrow key begins like Escape."""
        if self.written() and not self._warned:
            self._warned = True
            self.query_one(".dialog-keys", Static).update(f"Esc once more drops what you wrote.   {self.hint()}")
        else:
            self.dismiss(None)

    @on(Input.Changed)
    @on(TextArea.Changed)
    def _wrote_on(self) -> None:
        """Typing on drops nothing: the next Escape is the first again."""
        if self._warned:
            self._warned = False
            self.query_one(".dialog-keys", Static).update(self.hint())


class Choose(Dialog[str]):
    """One of several answers, each by its key."""

    def __init__(
        self, title: str, lines: Sequence[Line], choices: Sequence[tuple[str, str]], *, about: str = "", enter: str = ""
    ) -> None:
        super().__init__(title, about=about)
        self._lines = lines
        self._choices = dict(choices)
        self._enter = enter
        """The choice that Enter takes; empty: none."""

    def inside(self) -> ComposeResult:
        yield LinesView(id="dialog-lines")

    def on_mount(self) -> None:
        self.query_one(LinesView).show(self._lines)
        self.query_one(LinesView).focus()

    def hint(self) -> str:
        named = [f"{key}{'/Enter' if key == self._enter else ''} {what}" for key, what in self._choices.items()]
        return "   ".join([*named, "Esc nothing"])

    def on_key(self, event: Key) -> None:
        key = self._enter if event.key == "enter" else event.key
        if key in self._choices:
            event.stop()
            self.dismiss(key)


class Ask(Dialog[str]):
    """One line of text."""

    keys = "Enter takes it   Esc nothing"

    def __init__(self, title: str, *, value: str = "", most: int = 0, about: str = "") -> None:
        super().__init__(title, about=about)
        self._value, self._most = value, most

    def inside(self) -> ComposeResult:
        line = Input(self._value, max_length=self._most)
        # Over a slow line, a cursor that blinks is all that is sent.
        line.cursor_blink = False
        yield line

    def written(self) -> bool:
        return self.query_one(Input).value != self._value

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())


class Write(Dialog[str]):
    """A text of several lines."""

    BINDINGS = [Binding("ctrl+s,f2", "take", show=False, priority=True)]  # noqa: RUF012 - as the library has it
    keys = "Ctrl+S (or F2) takes it   Esc nothing"

    def __init__(self, title: str, *, text: str = "", lines: Sequence[Line] = (), about: str = "") -> None:
        super().__init__(title, about=about)
        self._text, self._lines = text, lines

    def inside(self) -> ComposeResult:
        if self._lines:
            yield LinesView(id="dialog-lines")
        yield text_field(self._text, tab_behavior="indent")

    def on_mount(self) -> None:
        for view in self.query(LinesView):
            view.show(self._lines)
        self.query_one(TextArea).focus()

    def written(self) -> bool:
        return self.query_one(TextArea).text != self._text

    def action_take(self) -> None:
        """It is written."""
        self.dismiss(self.query_one(TextArea).text)


def line_field(name: str, label: str, value: str = "", *, most: int = 500) -> ComposeResult:
    """A field for one line of text, below what it is for."""
    yield Static(label, markup=False, classes="label")
    line = Input(value, max_length=most, id=name, compact=True, placeholder="(empty)")
    line.cursor_blink = False
    yield line


def text_field(
    text: str = "", *, tab_behavior: Literal["focus", "indent"] = "focus", id: str | None = None
) -> TextArea:
    """A field for a text of several lines."""
    area = TextArea(text, soft_wrap=True, compact=True, tab_behavior=tab_behavior, id=id)
    area.cursor_blink = False
    return area


class Show(Dialog[None]):
    """Lines to read."""

    keys = "Esc closes it"
    BINDINGS = [Binding("q,enter,question_mark,m", "dismiss_none", show=False)]  # noqa: RUF012

    def __init__(self, title: str, lines: Sequence[Line]) -> None:
        super().__init__(title)
        self._lines = lines

    def inside(self) -> ComposeResult:
        yield LinesView(id="dialog-lines")

    def on_mount(self) -> None:
        self.query_one(LinesView).show(self._lines)
        self.query_one(LinesView).focus()


# -- A list of which any number of rows can be ticked, as ``[x]`` ------------------------


class Ticks(RowList):
    """Rows to tick with the space bar."""

    BINDINGS = [Binding("space,x", "tick", show=False)]  # noqa: RUF012 - as the library has it

    def __init__(
        self,
        head: Sequence[str],
        rows: Sequence[tuple[str, tuple[str, ...]]],
        *,
        ticked: Iterable[str] = (),
        empty: str = "",
        id: str | None = None,
    ) -> None:
        super().__init__((f"    {head[0]}", *head[1:]), empty=empty, id=id)
        self._choices = rows
        self._ticked = set(ticked)

    @property
    def ticked(self) -> list[str]:
        """The keys of what is ticked, in the order of the rows."""
        return [key for key, _ in self._choices if key in self._ticked]

    def offer(self, rows: Sequence[tuple[str, tuple[str, ...]]]) -> None:
        """Other rows in place of these; none of them is ticked."""
        self._choices, self._ticked = rows, set()
        self._mark()

    def on_mount(self) -> None:
        self._mark()

    def action_tick(self) -> None:
        """Tick the row, or take its tick away."""
        if self.chosen is not None:
            self._ticked ^= {self.chosen}
            self._mark()

    def _mark(self) -> None:
        self.show(
            [
                Entry(key, (f"[{'x' if key in self._ticked else ' '}] {cells[0]}", *cells[1:]))
                for key, cells in self._choices
            ]
        )


# -- A form: lines to write and rows to tick, one below the other; what does not fit is scrolled to by Tab


class Field(NamedTuple):
    """One line of text."""

    name: str
    label: str
    value: str = ""
    most: int = 500
    """Characters."""


class Boxes(NamedTuple):
    """Rows to tick."""

    name: str
    head: str
    rows: Sequence[tuple[str, str]]
    """Each key and the text beside its box."""
    ticked: Sequence[str] = ()


class Filled(NamedTuple):
    """The values of the fields, by their names."""

    lines: Mapping[str, str]
    """The lines without blanks around."""
    ticked: Mapping[str, Sequence[str]]


class Form(Dialog[Filled]):
    """Asks for several things at once; a value that cannot be is named, and nothing is lost by it."""

    BINDINGS = [Binding("ctrl+s,f2,enter", "take", show=False, priority=True)]  # noqa: RUF012 - as the library has it

    def __init__(
        self, title: str, fields: Sequence[Field | Boxes], *, wrong: Callable[[Filled], str] = lambda _: ""
    ) -> None:
        super().__init__(title)
        self._fields = fields
        self._wrong = wrong
        """Says why what is written cannot be; empty: it can."""

    def hint(self) -> str:
        ticks = "Space ticks   " if any(isinstance(one, Boxes) for one in self._fields) else ""
        return f"Enter goes on   Tab the next field   {ticks}Esc nothing"

    def inside(self) -> ComposeResult:
        with VerticalScroll(classes="form", can_focus=False):
            for one in self._fields:
                if isinstance(one, Boxes):
                    rows = [(key, (says,)) for key, says in one.rows]
                    yield Ticks((one.head,), rows, ticked=one.ticked, id=one.name)
                else:
                    yield from line_field(one.name, one.label, one.value, most=one.most)

    def written(self) -> bool:
        given = {one.name: one.value for one in self._fields if isinstance(one, Field)}
        return any(one.value != given[one.id] for one in self.query(Input) if one.id is not None)

    def action_take(self) -> None:
        """It is written; what cannot be is said."""
        lines = {one.id: one.value.strip() for one in self.query(Input) if one.id is not None}
        filled = Filled(lines, {one.id: one.ticked for one in self.query(Ticks) if one.id is not None})
        wrong = self._wrong(filled)
        if wrong:
            self.query_one(".dialog-keys", Static).update(f"{wrong}   Esc nothing")
            return
        self.dismiss(filled)


# -- A list and its page over the whole screen, for what is looked at from a part and left again with Escape

_BAR_CHARS = 1000


class Listing(Dialog[str]):
    """Rows, and below them a page about the one that is chosen; the answer is a task to look at, or None."""

    head: ClassVar[Sequence[str]]
    empty: ClassVar[str] = "Nothing."

    def __init__(self, title: str, desk: Desk) -> None:
        super().__init__(title)
        self.desk = desk

    def inside(self) -> ComposeResult:
        yield RowList(self.head, empty=self.empty, known=False, id="rows")
        yield Static("", markup=False, classes="bar")
        yield from self.below()
        yield Static("", markup=False, classes="told")

    def below(self) -> ComposeResult:
        """The text below the list."""
        yield LinesView()

    @property
    def rows(self) -> RowList:
        """The list."""
        return self.query_one("#rows", RowList)

    @property
    def page(self) -> LinesView:
        """The page."""
        return self.query_one(LinesView)

    def label(self, text: str) -> None:
        """Say something on the line above the page."""
        self.query_one(".bar", Static).update(one_line(text, limit=_BAR_CHARS))

    async def ask(self, method: str, path: str, body: Any = None, *, long: bool = False) -> Any:
        """One call; None, and said here: there is no answer. ``long``: it may take minutes."""
        if method != "GET" and not long:
            self.show_news("Sent, and not confirmed yet.")
        try:
            return await (self.desk.live.ask_long if long else self.desk.live.ask)(method, path, body)
        except OrchestratorError as error:
            self.say(why_not(method, error))
            return None

    def say(self, sentence: str) -> None:
        """Say what became of something, here if this is still looked at."""
        self.desk.tell(sentence)
        self.show_news(sentence)

    def show_news(self, sentence: str) -> None:
        """Say how it goes, here if this is still looked at."""
        if self.is_attached:
            self.query_one(".told", Static).update(one_line(sentence, limit=_BAR_CHARS))

    def on_mount(self) -> None:
        self.rows.focus()
        self.read()

    def read(self) -> None:
        """Read the list again."""
        raise NotImplementedError

    def read_again(self) -> None:
        """Read it again if this is still looked at."""
        if self.is_attached:
            self.read()

    def chosen(self, key: str | None) -> None:
        """Show the page of what is chosen."""
        raise NotImplementedError

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        if event.rows is self.rows:
            self.chosen(event.key)
