"""The commands that keep tasks and let them go."""

import re
import sys
from typing import Annotated, Any, Final

import typer

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.cli.common import AsJson, DataDir, TaskId, Url, client_of, moment, print_json, quoted
from orchestrator.terminal.cli.tasks import tasks_app

_SIZE: Final = re.compile(r"(\d{1,15})\s*([kmg]?)i?b?", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def prune(
    older_than: Annotated[
        float | None,
        typer.Option(
            "--older-than", metavar="DAYS", min=0, max=36_500, help="Ended tasks that nothing happened to since."
        ),
    ] = None,
    down_to: Annotated[
        str, typer.Option("--down-to", metavar="SIZE", help="The oldest ended tasks, until the rest has 500M or 2G.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Remove them without asking.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Remove ended tasks, the oldest first.

    And whatever bytes nobody needs any more. Without limits it goes by the server's settings. A task that is not over
    never goes, nor one that is pinned, nor one that such a task builds on; of each that goes the audit keeps a note.
    """
    body: dict[str, Any] = {"dry_run": dry_run}
    if older_than is not None:
        body["older_than_days"] = older_than
    if down_to:
        body["down_to_bytes"] = _bytes(down_to)
    with client_of(url, data_dir) as client:
        going = {"tasks": []} if dry_run or yes else client.request_long("POST", "/v1/prune", {**body, "dry_run": True})
        if going["tasks"] and not _sure(going["tasks"]):
            typer.echo("Nothing was removed.", err=True)
            return
        done = client.request_long("POST", "/v1/prune", body)
    if as_json:
        print_json(done)
        return
    verb = "would go" if dry_run else "is gone"
    for one in done["tasks"]:
        typer.echo(_told(one, verb))
    went = "would be removed" if dry_run else "were removed"
    what = f"{len(done['tasks'])} tasks and {done['blobs']} blobs {went}"
    typer.echo(f"{what}, {done['bytes']} bytes; {done['left']} bytes stay.")


def _told(one: dict[str, Any], verb: str) -> str:
    return f"{one['task_id']} {verb}: {one_line(one['why'])}, last changed {moment(one['updated_at'])}"


def _sure(going: list[dict[str, Any]]) -> bool:
    """Whether somebody at the terminal wants these tasks removed. Raises InvalidRequest without a terminal."""
    many = f"{len(going)} tasks" if len(going) > 1 else "1 task"
    what = f"{many} would go for good: what they did could not be undone any more."
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidRequest(what, remedy="Say --yes to remove them, or --dry-run to see which.")
    for one in going:
        typer.echo(_told(one, "would go"), err=True)
    typer.echo(f"{what}\nRemove them? [y/N] ", nl=False, err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@tasks_app.command()
def pin(task_id: TaskId, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Keep a task: no retention removes it, nor what it builds on."""
    _pinned(task_id, "pin", as_json, url, data_dir)


@tasks_app.command()
def unpin(task_id: TaskId, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Keep a task no longer than others."""
    _pinned(task_id, "unpin", as_json, url, data_dir)


def _pinned(task_id: str, verb: str, as_json: bool, url: str | None, data_dir: Any) -> None:
    with client_of(url, data_dir) as client:
        done = client.request("POST", f"/v1/tasks/{task_id}/{verb}")
    if as_json:
        print_json(done)
    else:
        typer.echo(f"task {done['task_id']} is {'pinned' if done['pinned'] else 'not pinned'}")


def _bytes(text: str) -> int:
    """A size such as ``500M``, ``2G`` or ``1000000`` in bytes. Raises InvalidRequest."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise InvalidRequest(f"{quoted(text)} is no size.", remedy="Say it like 500M, 2G or 1000000.")
    return int(found[1]) * _UNITS[found[2].lower()]
