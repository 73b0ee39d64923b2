"""What a rehearsal changed in its copy, as diffs, and asking for all of it."""

from collections.abc import Iterator, Mapping
from typing import Any

from textual.widget import Widget

from orchestrator.core.text.visible import one_line
from orchestrator.terminal.console.lines import Line, diff_lines
from orchestrator.terminal.output import counted
from orchestrator.terminal.tui.dialogs import Choose
from orchestrator.terminal.tui.shared import Desk


async def look_at_rehearsal(widget: Widget, desk: Desk, task_id: str) -> str | None:
    """Show it, and ask for it if the person says so; the task to look at then, or None."""
    door = f"/v1/tasks/{task_id}/rehearsal"
    shown = await desk.ask("GET", door)
    if shown is None:
        return None
    outcome, choices = shown["outcome"], []
    if shown["changed"] and shown["state"] in ("asked", "not_applied") and not (outcome and outcome["open"]):
        choices.append(("y", "ask for all of it"))
    if shown["applied_by"]:
        choices.append(("o", "the task that asks for it"))
    said = await widget.app.push_screen_wait(Choose("The rehearsal", list(rehearsal_lines(shown)), choices))
    if said == "o":
        return str(shown["applied_by"])
    if said is None:
        return None
    answer = await desk.ask("POST", door, {})
    if answer is None:
        return None
    desk.tell(f"Task {answer['task_id']} asks for all of it at once, and waits for approval.")
    return str(answer["task_id"])


def rehearsal_lines(shown: Mapping[str, Any]) -> Iterator[Line]:
    """What a rehearsal came to: a sentence, and each place with its diff."""
    message = one_line(shown["message"] or "It is not over yet.", limit=1000)
    yield Line(message, "title", prose=True)
    outcome = shown["outcome"]
    if outcome and outcome["open"]:
        yield Line(f"{one_line(outcome['told'], limit=600)}.", prose=True)
    for path, why in shown["left_out"].items():
        yield Line(f"not in the copy: {one_line(path)} ({one_line(why)})", "warning", prose=True)
    if shown["changed"]:
        yield Line(f"{counted(shown['changed'], 'place')} in the copy of computer {one_line(shown['computer'])}:")
    for one in shown["changes"]:
        yield Line("")
        yield Line(f"{_word(one)} {one_line(one['place'], limit=500)}", "call")
        if one["binary"]:
            yield Line(f"  {one_line(one['binary'])}", prose=True)
        yield from diff_lines(one["diff"] or "")
        if one["cut"]:
            yield Line("  … and more: its request has all of it", prose=True)
    more = shown["changed"] - len(shown["changes"])
    if more > 0:
        yield Line(f"and {more} more")


def _word(one: Mapping[str, Any]) -> str:
    if one["before"] == "absent":
        return "new"
    return "removed" if one["after"] == "absent" else "changed"
