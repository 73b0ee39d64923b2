"""Approve and remember: how far a standing approval reaches is said before it is given."""

from typing import Final

from textual.widget import Widget

from orchestrator.console.lines import Line
from orchestrator.console.remembering import pattern_lines
from orchestrator.core.approval import HitlResponse, RequestedCallView
from orchestrator.core.grants import GrantScope, GrantSpec
from orchestrator.core.policy import BUILT_IN_CATALOG, RiskLevel
from orchestrator.tui.dialogs import Choose

_SCOPES: Final[dict[str, GrantScope]] = {"1": "call", "2": "task", "3": "session"}


async def ask_grant(widget: Widget, request: HitlResponse, call: RequestedCallView) -> GrantSpec | None:
    """The standing approval that the person wants, shown and agreed to; None: none.

    What is wider, such as other paths or any text, is given in `cc-orchestrator review`.
    """
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
    ]
    choices = [("1", "call"), ("2", "task"), ("3", "session")]
    scope = await app.push_screen_wait(
        Choose("Approve it, and from now on without asking:", lines, choices, about=about)
    )
    if scope is None:
        return None
    spec = GrantSpec(scope=_SCOPES[scope])
    title = "Approve this call and grant that?"
    agreed = await app.push_screen_wait(Choose(title, pattern_lines(request, call, spec), [("y", "yes")], about=about))
    return spec if agreed else None
