"""A form: lines to write and rows to tick, one below the other; what does not fit is scrolled to by Tab."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import Input, Static

from orchestrator.terminal.tui.dialogs import Dialog, line_field
from orchestrator.terminal.tui.ticks import Ticks


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
    """Each key and what stands beside its box."""
    ticked: Sequence[str] = ()


class Filled(NamedTuple):
    """What was written and ticked, by the names of the fields."""

    lines: Mapping[str, str]
    """Without blanks around."""
    ticked: Mapping[str, Sequence[str]]


class Form(Dialog[Filled]):
    """Asks for several things at once; what cannot be is said, and nothing is lost by it."""

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
