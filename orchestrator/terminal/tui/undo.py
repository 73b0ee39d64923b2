"""Putting back what a task changed, after a look at what that would do."""

import uuid

from textual.widget import Widget

from orchestrator.core.text.visible import visible
from orchestrator.terminal.console.lines import Line
from orchestrator.terminal.console.undo_lines import told
from orchestrator.terminal.tui.dialogs import Choose
from orchestrator.terminal.tui.shared import Desk


async def undo(widget: Widget, desk: Desk, task_id: str) -> str | None:
    """Show it, and begin it if the person says so; the task that puts it back, or None."""
    door = f"/v1/tasks/{task_id}/undo"
    on_conflict = "keep"
    while True:
        preview = await desk.ask("POST", door, {"on_conflict": on_conflict, "dry_run": True})
        if preview is None:
            return None
        lines = [Line(f"  {visible(one)}") for one in told(preview)]
        if not lines:
            desk.tell("It changed no files.")
            return None
        choices = [("y", "put it back")]
        if any(one["verdict"] == "conflict" for one in preview["places"]):
            choices += [("o", "restore what somebody changed since, too"), ("b", "put the old beside it")]
        title = "Put back what the task changed? It is a task of its own, and waits for approval."
        said = await widget.app.push_screen_wait(Choose(title, lines, choices, enter="y"))
        if said in ("o", "b"):
            on_conflict = "restore" if said == "o" else "beside"
            continue
        break
    if said is None:
        return None
    body = {"on_conflict": on_conflict, "idempotency_key": uuid.uuid4().hex}
    answer = await desk.ask("POST", door, body)
    if answer is None:
        return None
    desk.tell(f"Task {answer['task_id']} puts it back.")
    return str(answer["task_id"])
