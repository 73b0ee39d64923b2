"""A new token, shown this once: it closes only when somebody says that they have it."""

from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import Static

from orchestrator.core.text.visible import one_line
from orchestrator.runtime.settings import ENV_PREFIX
from orchestrator.terminal.console.lines import Line
from orchestrator.terminal.tui.dialogs import Dialog
from orchestrator.terminal.tui.formats import name_of
from orchestrator.terminal.tui.lines_view import LinesView


class TokenShown(Dialog[str]):
    """Shows a token until it was taken down."""

    keys = "y I have it: close"
    BINDINGS = [Binding("y", "have", show=False)]  # noqa: RUF012 - as the library has it

    def __init__(self, name: str, token: str, *, may: str, agent: bool, url: str) -> None:
        super().__init__(f"The token of {name_of(name)}. It is shown this once: only its hash is kept.")
        self._token, self._may, self._agent, self._url = token, may, agent, url

    def inside(self) -> ComposeResult:
        yield LinesView(id="dialog-lines")

    def on_mount(self) -> None:
        view = self.query_one(LinesView)
        view.show(
            [
                Line(""),
                Line(one_line(self._token), "call"),
                Line(""),
                Line(
                    "A program has it in the variable below."
                    if self._agent
                    else "Give it to them over a way that others do not read. It signs in on the page, and here:",
                    prose=True,
                ),
                Line(f"  export {ENV_PREFIX}URL={one_line(self._url)} {ENV_PREFIX}TOKEN=…", prose=True),
                Line(one_line(self._may, limit=300), prose=True),
                Line("Lost? Revoke it and make another.", prose=True),
            ]
        )
        view.focus()

    def action_have(self) -> None:
        """It was taken down."""
        self.dismiss("y")

    def action_dismiss_none(self) -> None:
        """Escape alone would lose it."""
        self.query_one(".dialog-keys", Static).update("It cannot be shown again: press y once you have it.")
