"""Small questions above the screen: yes or no, one of several, a line, a text. Escape takes each of them back."""

from collections.abc import Sequence
from typing import ClassVar, Generic, Literal, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Input, Static, TextArea

from orchestrator.terminal.console.lines import Line
from orchestrator.terminal.tui.lines_view import LinesView

Answer = TypeVar("Answer")


class Dialog(ModalScreen[Answer | None], Generic[Answer]):
    """One question; None: it was taken back."""

    BINDINGS = [Binding("escape", "dismiss_none", show=False, priority=True)]  # noqa: RUF012 - as the library has it
    keys: ClassVar[str] = ""
    """What can be pressed."""

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
        """What stands between the title and the keys."""
        yield from ()

    def hint(self) -> str:
        """What can be pressed, as a line."""
        return self.keys

    def written(self) -> bool:
        """Whether somebody wrote something that would be lost."""
        return False

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
        """Whoever writes on drops nothing: the next Escape is the first again."""
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
