"""A command follows its task to the end, or leaves it."""

import sys
from typing import TYPE_CHECKING, Any

import typer

from orchestrator.terminal.cli.common import print_json

if TYPE_CHECKING:
    from orchestrator.client import Client

_TOLD_CHARS = 600
"""The longest sentence about another task that is shown."""


def follow(
    client: "Client", task_id: str, as_json: bool, patience_s: float, where: str, *, rehearses: bool = False
) -> None:
    """Follow a task and exit as it ended; after a rehearsal, follow the task that asks for all of it."""
    from orchestrator.runtime.program import program
    from orchestrator.terminal.follow import Follower
    from orchestrator.terminal.output import Screen
    from orchestrator.terminal.progress import JsonLines, Progress, View

    screen = Screen.of()
    view: View = Progress(screen, client.clock.now)
    if as_json:
        view = JsonLines(sys.stdout, lambda text: typer.echo(text, err=True))
    else:
        screen.line(f"task {task_id}")
    asked = screen if screen.grows and not as_json and sys.stdin.isatty() else None
    try:
        ended = Follower(client, view, screen=asked, patience_s=patience_s).follow(task_id)
    except KeyboardInterrupt:
        screen.close()
        name = program()
        for line in (
            "\nYou left; the task goes on.",
            f"  watch it:  {name} tasks watch {task_id}{where}",
            f"  stop it:   {name} cancel {task_id}{where}",
        ):
            typer.echo(line, err=True)
        raise typer.Exit(130) from None
    finally:
        screen.close()
    succeeded = ended.status == "Completed" and ended.verified is not False
    if rehearses:
        from orchestrator.terminal.cli.tasks import show_rehearsal

        applied_by = show_rehearsal(client, task_id, as_json=as_json, diffs=asked is None, patience_s=patience_s)
        if applied_by is not None:
            follow(client, applied_by, as_json, patience_s, where)
    if not as_json and not rehearses:
        tell_leftovers(client, task_id, where, succeeded=succeeded)
    raise typer.Exit(0 if succeeded else 1)


def join(
    client: "Client", task_id: str, told: str, as_json: bool, patience_s: float, where: str, *, detach: bool
) -> None:
    """Say that a task which does what is wanted goes on already, and follow that one, or leave it."""
    from orchestrator.core.text.visible import one_line

    typer.echo(one_line(told, limit=_TOLD_CHARS), err=True)
    if not detach:
        follow(client, task_id, as_json, patience_s, where)
        return
    task = client.request("GET", f"/v1/tasks/{task_id}")
    short = {"task_id": task["task_id"], "status": task["status"]}
    leave(short, as_json, where, asks=task["request"] is not None)


def leave(task: dict[str, Any], as_json: bool, where: str, *, asks: bool = True) -> None:
    """Print a task that is not followed, and how it is watched and, where it ``asks`` or will, decided."""
    from orchestrator.runtime.program import program

    if as_json:
        print_json(task)
        return
    name = program()
    typer.echo(f"task {task['task_id']}")
    typer.echo(f"  watch it:     {name} tasks watch {task['task_id']}{where}", err=True)
    if asks:
        typer.echo(f"  approve it:   {name} review{where}", err=True)


def tell_leftovers(client: "Client", task_id: str, where: str, *, succeeded: bool = False) -> None:
    from orchestrator.terminal.changes_left import left_behind

    for line in left_behind(client, task_id, where, succeeded=succeeded):
        typer.echo(line, err=True)
