"""Approve and remember: how far a standing approval reaches is said before it is given."""

from typing import Any, Final

from textual.app import ComposeResult
from textual.binding import Binding
from textual.widget import Widget
from textual.widgets import Input, Static

from orchestrator.core.approval.approval import HitlResponse, RequestedCallView
from orchestrator.core.approval.grants import MAX_SESSION_S, SESSION_S, GrantScope, GrantSpec
from orchestrator.core.policy import BUILT_IN_CATALOG, RiskLevel
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.console.grant import pattern_lines, spec_of, texts_of
from orchestrator.terminal.console.lines import Line
from orchestrator.terminal.tui.dialogs import Choose, Dialog, line_field
from orchestrator.terminal.tui.ticks import Ticks

_SCOPES: Final[dict[str, GrantScope]] = {"1": "call", "2": "task", "3": "session"}
_HOUR_S: Final = 3600


class Reach(Dialog[GrantSpec]):
    """Asks how far a pattern reaches; nothing is wider than the call unless somebody makes it so."""

    BINDINGS = [Binding("ctrl+s,f2,enter", "take", show=False, priority=True)]  # noqa: RUF012 - as the library has it
    keys = "Enter goes on   Tab the next field   Space ticks   Esc nothing"

    def __init__(self, request: HitlResponse, call: RequestedCallView, scope: GrantScope) -> None:
        super().__init__("How far does it reach?", about=request.request_id)
        self._call, self._scope = call, scope

    def inside(self) -> ComposeResult:
        if self._call.grant_paths:
            of_call = ", ".join(one_line(path) for path in self._call.grant_paths)
            yield from line_field("globs", f"Other paths, as globs (empty: exactly {of_call})")
        if texts := texts_of(self._call):
            what = f"any text ({', '.join(texts)}), not only this one"
            yield Ticks(("WITH?",), [("any", (what,))], id="content")
        usual = f"{SESSION_S // _HOUR_S}" if self._scope == "session" else "until the task ends"
        yield from line_field("hours", f"For how many hours (empty: {usual}; at most {MAX_SESSION_S // _HOUR_S})")
        yield from line_field("uses", "At most how many times (empty: as often as it fits)")

    def written(self) -> bool:
        return any(one.value for one in self.query(Input))

    def action_take(self) -> None:
        """It is written; what cannot be is said."""
        typed = {one.id: one.value for one in self.query(Input) if one.id is not None}
        any_content = any(ticks.ticked for ticks in self.query(Ticks))
        try:
            spec = spec_of(self._scope, any_content=any_content, **typed)
        except ValueError as error:
            said = one_line(f"That cannot be granted: {error}.", limit=300)
            self.query_one(".dialog-keys", Static).update(f"{said}   Esc nothing")
            return
        self.dismiss(spec)


async def ask_grant(widget: Widget, request: HitlResponse, call: RequestedCallView) -> GrantSpec | None:
    """The standing approval that the person wants, shown and agreed to; None: none."""
    app, about = widget.app, request.request_id
    if call.evaluation.risk is RiskLevel.CRITICAL or call.tool not in BUILT_IN_CATALOG:
        title = "What is critical is decided each time: approve it this once."
        await app.push_screen_wait(Choose(title, (), [], about=about))
        return None
    pattern = "these paths" if call.grant_paths else "calls like it"
    lines = [
        Line("  1  this very call, again in this task"),
        Line(f"  2  {pattern}, in this task"),
        Line(f"  3  {pattern}, in this session for some hours"),
        Line("  w  as 2, and W as 3, but wider: other paths, any text, for how long, how often", prose=True),
    ]
    choices = [("1", "call"), ("2", "task"), ("3", "session"), ("w", "task, wider"), ("W", "session, wider")]
    picked = await app.push_screen_wait(
        Choose("Approve it, and from now on without asking:", lines, choices, about=about)
    )
    if picked is None:
        return None
    spec: Any = spec_of(_SCOPES[{"w": "2", "W": "3"}.get(picked, picked)])
    if picked in "wW":
        spec = await app.push_screen_wait(Reach(request, call, spec.scope))
        if spec is None:
            return None
    title = "Approve this call and grant that?"
    agreed = await app.push_screen_wait(Choose(title, pattern_lines(request, call, spec), [("y", "yes")], about=about))
    return spec if agreed else None
