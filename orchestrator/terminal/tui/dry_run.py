"""A dry run: what the policy would say of a call, which rules matched, and why the others did not. Nothing runs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static, TextArea

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.policy.catalog import ALL_TOOL_ARGS
from orchestrator.core.reply.scanner import doubled_key
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.console.lines import Line
from orchestrator.terminal.tui.dialogs import Dialog, line_field, text_field
from orchestrator.terminal.tui.lines_view import LinesView
from orchestrator.terminal.tui.policy_words import verdict_lines
from orchestrator.terminal.tui.shared import Desk, begin

_FIRST: Final = "cc_write"
_VALUES: Final[Mapping[str, Any]] = {"path": "startup.lua", "content": "print('hello')\n", "command": "ls"}
"""What arguments of these names are to begin with; others are empty."""


class DryRun(Dialog[None]):
    """Asks for a call, and shows the verdict below; as often as one likes."""

    BINDINGS = [Binding("ctrl+s,f2", "take", show=False, priority=True)]  # noqa: RUF012 - as the library has it
    keys = "Ctrl+S (or F2) asks   Tab the next field, the answer   Esc leaves"

    def __init__(self, desk: Desk, rules: Sequence[Mapping[str, Any]]) -> None:
        super().__init__("Try a call: what would the policy say? Nothing runs, and nobody is asked.")
        self._desk, self._rules = desk, rules
        self._template = template_of(_FIRST)

    def inside(self) -> ComposeResult:
        with Horizontal(classes="beside"):
            with Vertical():
                yield from line_field("tool", "Tool", _FIRST, most=100)
            with Vertical():
                yield from line_field("on", "On which computer (may be empty)", most=64)
        yield Static("Arguments, as JSON", markup=False, classes="label")
        yield text_field(self._template)
        yield LinesView(id="verdict")

    def on_mount(self) -> None:
        self.query_one("#tool", Input).focus()

    def written(self) -> bool:
        return self.query_one(TextArea).text != self._template

    def on_input_changed(self, event: Input.Changed) -> None:
        """Another tool has other arguments; what somebody wrote is not thrown away."""
        if event.input.id != "tool" or event.value.strip() not in ALL_TOOL_ARGS:
            return
        area, template = self.query_one(TextArea), template_of(event.value.strip())
        if area.text == self._template:
            area.text = template
        self._template = template

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_take()

    def action_take(self) -> None:
        """Ask for the verdict."""
        begin(self, self._ask, in_place_of="verdict")

    async def _ask(self) -> None:
        view = self.query_one("#verdict", LinesView)
        try:
            args = arguments(self.query_one(TextArea).text)
        except ValueError as error:
            view.show([Line(one_line(str(error), limit=500), "alarm", prose=True)])
            return
        tool, computer = (self.query_one(f"#{name}", Input).value.strip() for name in ("tool", "on"))
        body = {"tool": tool, "args": args, **({"computer": computer} if computer else {})}
        try:
            told = await self._desk.live.ask("POST", "/v1/policy/dry-run", body)
        except OrchestratorError as error:
            view.show([Line(one_line(str(error), limit=2000), "alarm", prose=True)])
            return
        view.show(verdict_lines(told, self._rules))


def template_of(tool: str) -> str:
    """The arguments that a call of this tool has to have, as JSON."""
    fields = ALL_TOOL_ARGS[tool].model_fields
    given = {
        name: _VALUES.get(name, "" if field.annotation is str else None)
        for name, field in fields.items()
        if field.is_required()
    }
    return json.dumps(given, indent=1)


def arguments(text: str) -> dict[str, Any]:
    """Arguments as they were typed. Raises ValueError with a sentence."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("That is JSON that nobody can read.") from None
    except ValueError as error:
        raise ValueError(f"That is no JSON: {error}.") from None
    if (key := doubled_key(text)) is not None:
        raise ValueError(f"It has the key {key!r} twice.")
    if not isinstance(found, dict):
        raise ValueError("Arguments are an object: { … }.")  # noqa: TRY004 - a sentence for who typed it
    return found
