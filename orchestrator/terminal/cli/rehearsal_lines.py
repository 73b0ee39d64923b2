"""What the command line shows of a rehearsal once its task is over."""

import time
from typing import TYPE_CHECKING, Any, Final

import typer

from orchestrator.terminal.cli.common import print_json

if TYPE_CHECKING:
    from orchestrator.client import Client

_POLL_S: Final = 0.2
"""Between two looks whether the copy was compared: it takes about a second."""
_LINE_CHARS: Final = 2000
"""Of one line of a diff."""
_OVER: Final = frozenset({"nothing", "asked", "not_applied"})


def show_rehearsal(client: "Client", task_id: str, *, as_json: bool, diffs: bool, patience_s: float) -> str | None:
    """Print what a rehearsal that is over came to; the task that asks for all of it, or None.

    ``diffs``: each whole; where a person is asked next they see them there. Raises ServerUnreachable.
    """
    shown = _came_to(client, task_id, patience_s)
    if as_json:
        print_json({"rehearsal": shown})
    else:
        for line in lines_of(shown, diffs=diffs):
            typer.echo(line)
    applied_by: str | None = shown["applied_by"]
    return applied_by


def _came_to(client: "Client", task_id: str, patience_s: float) -> dict[str, Any]:
    from orchestrator.client import ServerUnreachable

    until = time.monotonic() + patience_s
    while True:
        try:
            shown: dict[str, Any] = client.request("GET", f"/v1/tasks/{task_id}/rehearsal")
        except ServerUnreachable:
            if time.monotonic() > until:
                raise
        else:
            if shown["state"] in _OVER:
                return shown
            until = time.monotonic() + patience_s
        time.sleep(_POLL_S)


def lines_of(shown: dict[str, Any], *, diffs: bool) -> list[str]:
    """What a rehearsal came to, as lines for a person."""
    from orchestrator.core.text.visible import one_line, visible

    told = shown["message"] or "It is not over yet."
    lines = [f"[REHEARSAL] {one_line(told, limit=1000)}"]
    lines += [f"not in the copy: {one_line(path)}  ({one_line(why)})" for path, why in shown["left_out"].items()]
    for one in shown["changes"]:
        lines.append(f"{_word(one):8} {one_line(one['place'])}")
        if diffs and one["binary"]:
            lines.append(f"  {one['binary']}")
        if diffs and one["diff"]:
            lines += [f"  {visible(line, limit=_LINE_CHARS)}" for line in one["diff"].rstrip("\n").split("\n")]
            lines += ["  … and more"] if one["cut"] else []
    more = shown["changed"] - len(shown["changes"])
    return lines + ([f"and {more} more"] if more > 0 else [])


def _word(one: dict[str, Any]) -> str:
    if one["before"] == "absent":
        return "new"
    return "removed" if one["after"] == "absent" else "changed"
