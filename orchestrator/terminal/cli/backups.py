"""The commands that keep what is on a computer and put it back."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import typer

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.text.paths import spelled
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.program import program, reaching
from orchestrator.terminal.cli.common import (
    RECONNECT_S,
    AsJson,
    DataDir,
    Detach,
    Reconnect,
    Url,
    as_segment,
    client_of,
    moment,
    print_json,
    quoted,
)
from orchestrator.terminal.cli.follow import follow, leave
from orchestrator.terminal.cli.transfer import watched

backups_app = typer.Typer(no_args_is_help=True, help="Backups of computers: list them, look at one, remove one.")

Computer = Annotated[str, typer.Argument(metavar="COMPUTER", help="As `computers` lists it.")]
Backup = Annotated[str, typer.Argument(metavar="BACKUP", help="Its id, or how that or its listing begins.")]
_LISTING_CHARS: Final = 12


def backup(
    computer: Computer,
    note: Annotated[str, typer.Option(help="What it is to be remembered by.")] = "",
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Keep all that is on a computer now.

    Only what is not kept already is read. What is left out is said, such as other disks and files that are too large.
    """
    with client_of(url, data_dir) as client, watched(client, "backup", computer, as_json=as_json):
        made = client.request_long("POST", f"/v1/computers/{as_segment(computer)}/backups", {"note": note})
    if as_json:
        print_json(made)
        return
    for line in _summary(made):
        typer.echo(line)


@backups_app.command("list", epilog="Example: cc-orchestrator backups list farm")
def backups_list(
    computer: Annotated[
        str | None, typer.Argument(metavar="COMPUTER", help="Only those of this computer.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """List the backups, the newest first."""
    from orchestrator.terminal.output import Screen, sized, table

    door = "/v1/backups" if computer is None else f"/v1/computers/{as_segment(computer)}/backups"
    with client_of(url, data_dir) as client:
        found = client.request("GET", door)["backups"]
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo("There are no backups yet. Make one with `cc-orchestrator backup COMPUTER`.", err=True)
        return
    rows = [
        (
            one_line(one["backup_id"]),
            one_line(one["computer"]),
            moment(one["at"]),
            str(one["files"]),
            sized(one["bytes"]),
            one["listing"][:_LISTING_CHARS],
            one_line(one["by"]),
            one_line(one["note"]) or "-",
        )
        for one in found
    ]
    head = ("BACKUP", "COMPUTER", "MADE", "FILES", "SIZE", "LISTING", "BY", "NOTE")
    for line in table(head, rows, columns=Screen.of().columns):
        typer.echo(line)


@backups_app.command("show", epilog="Example: cc-orchestrator backups show b-3f")
def backups_show(backup: Backup, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Show a backup: every path with its size and the sha256 of its bytes."""
    with client_of(url, data_dir) as client:
        found = client.request("GET", _door(client.request("GET", "/v1/backups")["backups"], backup))
    if as_json:
        print_json(found)
        return
    for line in _summary(found):
        typer.echo(line)
    for one in found["paths"]:
        directory = one["state"] == "directory"
        size = "-" if directory else str(one["size"])
        state = "directory" if directory else one["state"]
        typer.echo(f"{state:64}  {size:>8}  {one_line(one['path'], limit=1000)}")


@backups_app.command("remove", epilog="Example: cc-orchestrator backups remove b-3f")
def backups_remove(backup: Backup, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Forget a backup; its bytes go with the next prune, unless something else needs them."""
    with client_of(url, data_dir) as client:
        done = client.request("DELETE", _door(client.request("GET", "/v1/backups")["backups"], backup))
    if as_json:
        print_json(done)
    else:
        typer.echo(f"removed {done['backup_id']}" if done["removed"] else f"{done['backup_id']} was removed before")


def restore(
    computer: Computer,
    backup: Annotated[
        str,
        typer.Argument(metavar="[BACKUP]", help="As `backups list` has it. Default: the newest.", show_default=False),
    ] = "",
    path: Annotated[
        list[str] | None, typer.Option("--path", help="Only this path and what is below it; may be repeated.")
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Also remove what the backup does not have.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    detach: Detach = False,
    as_json: AsJson = False,
    reconnect: Reconnect = RECONNECT_S,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Put files back as a backup has them.

    What came since stays, unless you say --exact. It is a task of its own: it waits for approval, and for the
    computer if that is away, and can be undone.
    """
    from orchestrator.terminal.console.undo_lines import restore_told

    body: dict[str, Any] = {"backup": backup, "paths": [spelled(one) for one in path or []], "exact": exact}
    with client_of(url, data_dir) as client:
        door = f"/v1/computers/{as_segment(computer)}/restore"
        with watched(client, None, computer, as_json=as_json):
            preview = client.request_long("POST", door, {**body, "dry_run": True})
        if dry_run and as_json:
            print_json(preview)
            return
        if not as_json:
            for line in restore_told(preview):
                typer.echo(line)
        if not dry_run:
            # The very one that was shown, also where a newer one was made meanwhile.
            submitted = client.request("POST", door, {**body, "backup": preview["backup_id"]})
            if not submitted["online"]:
                leaving = "" if detach else " Leave with Ctrl-C; it goes on by itself."
                typer.echo(f"Computer {quoted(computer)} is not connected: the task waits for it.{leaving}", err=True)
            if detach:
                leave(submitted, as_json, reaching(url, data_dir))
                return
            follow(client, submitted["task_id"], as_json, reconnect, reaching(url, data_dir))


def _door(backups: list[dict[str, Any]], name: str) -> str:
    """Where the one backup is that is meant. Raises InvalidRequest."""
    found = [one for one in backups if one["backup_id"].startswith(name) or one["listing"].startswith(name)]
    if not name or len(found) != 1:
        ids = ", ".join(one["backup_id"] for one in found[:5])
        what = f"Several backups begin with {quoted(name)}: {ids}." if found else f"There is no backup {quoted(name)}."
        raise InvalidRequest(what, remedy=f"`{program()} backups list` lists them.")
    (one,) = found
    return f"/v1/computers/{as_segment(one['computer'])}/backups/{as_segment(one['backup_id'])}"


def _summary(made: Mapping[str, Any]) -> Iterator[str]:
    yield f"backup    {made['backup_id']}"
    yield f"computer  {one_line(made['computer'])}"
    yield f"made      {moment(made['at'])} by {one_line(made['by'])}"
    if made["note"]:
        yield f"note      {one_line(made['note'])}"
    yield f"files     {made['files']} with {made['bytes']} bytes; {made['new_bytes']} bytes are new in the store"
    yield f"listing   {made['listing']}"
    for one in made["skipped"]:
        yield f"left out  {one_line(one['path'])}  ({one_line(one['why'], limit=300)})"
    if made["skipped_more"]:
        yield f"left out  {made['skipped_more']} more"
