"""A new task: what to do, on which computers, how carefully, and within which limits."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import Static, TextArea

from orchestrator.core.visible import one_line
from orchestrator.tui.dialogs import Dialog, text_field
from orchestrator.tui.submit_more import body_of, more_form
from orchestrator.tui.ticks import Ticks
from orchestrator.tui.working import begin

_OPTIONS: Final = (
    ("read_only", ("it may only look",)),
    ("rehearse", ("it works on a copy first, and asks once for all of it",)),
)


class Submit(Dialog[dict[str, Any]]):
    """Asks for a task; the body that submits it."""

    BINDINGS = [  # noqa: RUF012 - as the library has it
        Binding("ctrl+s,f2", "take", show=False, priority=True),
        Binding("ctrl+o,f3", "more", show=False, priority=True),
    ]
    keys = "Ctrl+S (or F2) submits   Tab goes on   Space picks   Ctrl+O model, session, limits   Esc nothing"

    def __init__(self, computers: Sequence[Mapping[str, Any]]) -> None:
        super().__init__("A new task: what shall be done?")
        self._computers = sorted(computers, key=lambda one: not one["online"])
        self._more: Mapping[str, str] = {}

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

    def action_more(self) -> None:
        """Its model, its session and its limits."""
        begin(self, self._ask_more, in_place_of="more")

    async def _ask_more(self) -> None:
        filled = await self.app.push_screen_wait(more_form(self._more))
        if filled is not None:
            self._more = filled.lines
            said = ", ".join(f"{name} {value}" for name, value in body_of(filled.lines).items())
            self.query_one(".dialog-keys", Static).update(f"{one_line(said) or 'As the server has it.'}\n{self.keys}")

    def written(self) -> bool:
        return bool(self.query_one(TextArea).text)

    def action_take(self) -> None:
        """Submit it, if there is something to do."""
        prompt = self.query_one(TextArea).text
        options = self.query_one("#options", Ticks).ticked
        computers = self.query_one("#computers-to-pick", Ticks).ticked
        wrong = "" if prompt.strip() else "Say what to do, above."
        if "rehearse" in options and len(computers) != 1:
            wrong = wrong or "A rehearsal works on a copy of one computer: pick one."
        if wrong:
            self.query_one(".dialog-keys", Static).update(f"{wrong}   Esc nothing")
            return
        more = body_of(self._more)
        self.dismiss({"prompt": prompt, "computers": computers, **dict.fromkeys(options, True), **more})


def _cells(computer: Mapping[str, Any]) -> tuple[str, ...]:
    named = (computer["computer"], computer["state"], computer.get("family") or "-", computer.get("label") or "-")
    return tuple(one_line(one, limit=60) for one in named)
