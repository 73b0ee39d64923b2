"""The command that shows what a rehearsal came to, and asks for it where that was left open."""

from typing import Annotated

import typer

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.program import program, reaching
from orchestrator.terminal.cli.common import (
    RECONNECT_S,
    AsJson,
    DataDir,
    Detach,
    Reconnect,
    TaskId,
    Url,
    client_of,
    print_json,
)
from orchestrator.terminal.cli.follow import follow, join, leave
from orchestrator.terminal.cli.rehearsal_lines import lines_of


def rehearsal(
    task_id: TaskId,
    apply: Annotated[
        bool, typer.Option("--apply", help="Ask for all of it, also where the rehearsal failed or was canceled.")
    ] = False,
    detach: Detach = False,
    as_json: AsJson = False,
    reconnect: Reconnect = RECONNECT_S,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Show what a rehearsal changed in its copy.

    With --apply a task asks for all of it at once, and is followed.
    """
    if detach and not apply:
        raise InvalidRequest("--detach is for the task that applies a rehearsal.", remedy="Say --apply too.")
    with client_of(url, data_dir) as client:
        door = f"/v1/tasks/{task_id}/rehearsal"
        if apply:
            where = reaching(url, data_dir)
            before = client.request("GET", f"/v1/tasks/{task_id}").get("applied") or {}
            applied = client.request("POST", door, {})
            if before.get("open") and before["task_id"] == applied["task_id"]:
                told = f"{task_id} is already {before['told']}."
                join(client, applied["task_id"], told, as_json, reconnect, where, detach=detach)
                return
            if detach:
                leave(applied, as_json, where)
                return
            follow(client, applied["task_id"], as_json, reconnect, where)
        shown = client.request("GET", door)
    if as_json:
        print_json(shown)
        return
    for line in lines_of(shown, diffs=True):
        typer.echo(line)
    outcome = shown.get("outcome")
    if outcome and outcome["open"]:
        watch = f"{program()} tasks watch {outcome['task_id']}{reaching(url, data_dir)}"
        typer.echo(f"{one_line(outcome['told'], limit=600)}:  {watch}")
