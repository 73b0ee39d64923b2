"""A new task: what to do, and on which computers."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import Static, TextArea

from orchestrator.core.visible import one_line
from orchestrator.tui.dialogs import Dialog, text_field
from orchestrator.tui.ticks import Ticks

_OPTIONS: Final = (
    ("read_only", ("it may only look",)),
    ("rehearse", ("it works on a copy first, and asks once for all of it",)),
)


class Submit(Dialog[dict[str, Any]]):
    """Asks for a task; the body that submits it."""

    BINDINGS = [Binding("ctrl+s,f2", "take", show=False, priority=True)]  # noqa: RUF012 - as the library has it
    keys = "Ctrl+S (or F2) submits   Tab goes on   Space picks   Esc nothing"

    def __init__(self, computers: Sequence[Mapping[str, Any]]) -> None:
        super().__init__("A new task: what shall be done?")
        self._computers = sorted(computers, key=lambda one: not one["online"])

    def inside(self) -> ComposeResult:
        yield text_field()
        online = [one["computer"] for one in self._computers if one["online"]]
        yield Ticks(
            ("ON WHICH COMPUTERS?", "STATE", "KIND", "LABEL"),
            [(one["computer"], _cells(one)) for one in self._computers],
            ticked=online if len(online) == 1 else (),
            empty="There are none yet: connect one with `cc-orchestrator pair`.",
            id="computers-to-pick",
        )
        yield Ticks(("AND?",), _OPTIONS, id="options")

    def on_mount(self) -> None:
        self.query_one(TextArea).focus()

    def written(self) -> bool:
        return bool(self.query_one(TextArea).text)

    def action_take(self) -> None:
        """Submit it, if there is something to do."""
        prompt = self.query_one(TextArea).text
        if not prompt.strip():
            self.query_one(".dialog-keys", Static).update("Say what to do, above.   Esc nothing")
            return
        options = self.query_one("#options", Ticks).ticked
        computers = self.query_one("#computers-to-pick", Ticks).ticked
        self.dismiss({"prompt": prompt, "computers": computers, **dict.fromkeys(options, True)})


def _cells(computer: Mapping[str, Any]) -> tuple[str, ...]:
    named = (computer["computer"], computer["state"], computer.get("family") or "-", computer.get("label") or "-")
    return tuple(one_line(one, limit=60) for one in named)
