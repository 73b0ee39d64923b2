"""A new task: what to do, and on which computers."""

from collections.abc import Mapping, Sequence
from typing import Any

from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.widgets import Checkbox, SelectionList, Static, TextArea
from textual.widgets.selection_list import Selection

from orchestrator.core.visible import one_line
from orchestrator.tui.dialogs import Dialog


class Submit(Dialog[dict[str, Any]]):
    """Asks for a task; the body that submits it."""

    BINDINGS = [Binding("ctrl+s,f2", "take", show=False, priority=True)]  # noqa: RUF012 - as the library has it
    keys = "Ctrl+S (or F2) submits   Tab next   Space picks   Esc nothing"

    def __init__(self, computers: Sequence[Mapping[str, Any]]) -> None:
        super().__init__("A new task: what shall be done?")
        self._computers = computers

    def inside(self) -> ComposeResult:
        yield TextArea(soft_wrap=True, compact=True, id="prompt")
        yield Static("On which computers?", markup=False, classes="dialog-title")
        if self._computers:
            yield SelectionList[str](*(Selection(_named(one), one["computer"]) for one in self._computers))
        else:
            yield Static("There are none yet: connect one with `cc-orchestrator pair`.", markup=False)
        yield Checkbox("It may only look", id="read-only", compact=True)
        yield Checkbox("Rehearse it on a copy first", id="rehearse", compact=True)

    def on_mount(self) -> None:
        self.query_one("#prompt", TextArea).focus()
        only = [one for one in self._computers if one["online"]]
        if len(only) == 1:
            self.query_one(SelectionList).select(only[0]["computer"])

    def action_take(self) -> None:
        """Submit it, if there is something to do."""
        prompt = self.query_one("#prompt", TextArea).text
        if not prompt.strip():
            self.query_one(".dialog-keys", Static).update("Say what to do, above.   Esc nothing")
            return
        body: dict[str, Any] = {"prompt": prompt}
        for chosen in self.query(SelectionList):
            body["computers"] = list(chosen.selected)
        for name in ("read-only", "rehearse"):
            if self.query_one(f"#{name}", Checkbox).value:
                body[name.replace("-", "_")] = True
        self.dismiss(body)


def _named(computer: Mapping[str, Any]) -> Content:
    label = f" {one_line(computer['label'], limit=40)!r}" if computer.get("label") else ""
    family = f" {one_line(computer['family'], limit=20)}" if computer.get("family") else ""
    return Content(f"{one_line(computer['computer'], limit=40)}  {computer['state']}{family}{label}")
