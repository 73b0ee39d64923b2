"""The commands that back up the files of a computer and put them back."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from orchestrator.core.errors import BeingUndone, InvalidRequest, NotFound, OrchestratorError
from orchestrator.core.text.paths import spelled, unspelled
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
    as_segment,
    client_of,
    moment,
    print_json,
    quoted,
)
from orchestrator.terminal.cli.follow import follow, join, leave

if TYPE_CHECKING:
    from orchestrator.client import Client

# -- Waiting for a server that reads a whole computer, and showing how far it has come

_LOOK_S: Final = 0.25
"""Between two looks on a terminal."""
_LOOKING: Final = "looking at what is there"
_SELDOM_S: Final = 1.0
"""Elsewhere: as often as a line may come."""


@contextmanager
def watched(client: "Client", what: str | None, computer: str, *, as_json: bool) -> Iterator[None]:
    """Show what the server reads from a computer, as long as the block waits for it; ``what`` None: it only looks.

    A bar on a terminal; else lines beside the output, with ``as_json`` lines of JSON: the output is the answer's.
    """
    import sys

    from orchestrator.terminal.meter import Meter, hint_line
    from orchestrator.terminal.output import Screen

    over, writing = threading.Event(), threading.Lock()
    screen = Screen.of(sys.stderr)
    meter = Meter(one_line(computer), screen, say=lambda line: typer.echo(line, err=True))
    every_s = _LOOK_S if screen.moves else _SELDOM_S

    def look() -> None:
        while not over.wait(every_s):
            row = None
            try:
                if what is not None:
                    row = _transfer(client, what, computer)
            except OrchestratorError:
                # The waiting person is told what is wrong with the server.
                return
            with writing:
                if over.is_set():
                    return
                if row is not None and as_json and not screen.moves:
                    typer.echo(hint_line("transfer", row), err=True)
                elif row is not None:
                    _show(meter, row)
                elif screen.moves:
                    meter.waiting(_LOOKING)

    threading.Thread(target=look, name=f"transfer of {computer}", daemon=True).start()
    try:
        yield
    finally:
        # Nothing is written once the answer is, also by a look that comes back late.
        with writing:
            over.set()
            meter.close()


def _transfer(client: "Client", what: str, computer: str) -> dict[str, Any] | None:
    """The newest of these that goes on; None: there is none. Raises ServerRefused, ServerUnreachable."""
    rows: list[dict[str, Any]] = client.request("GET", "/v1/transfers")["transfers"]
    return next((one for one in reversed(rows) if (one["what"], one["computer"]) == (what, computer)), None)


def _show(meter: Any, row: dict[str, Any]) -> None:
    from orchestrator.terminal.output import sized

    if row["of_files"] is None:
        meter.waiting(_LOOKING)
    else:
        amount = f"{row['files']} of {row['of_files']} files, {sized(row['bytes'])}"
        meter.tell(row["files"], row["of_files"], amount, row["bytes"])


# -- The commands that keep what is on a computer and put it back ------------------------

backups_app = typer.Typer(no_args_is_help=True, help="Backups of computers: list them, look at one, remove one.")

Computer = Annotated[str, typer.Argument(metavar="COMPUTER", help="As `computers` lists it.")]
Backup = Annotated[str, typer.Argument(metavar="BACKUP", help="Its id, or how that or its listing begins.")]
_LISTING_CHARS: Final = 12


def backup(
    computer: Computer,
    note: Annotated[str, typer.Option(help="A note to remember it by.")] = "",
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

    endpoint = "/v1/backups" if computer is None else f"/v1/computers/{as_segment(computer)}/backups"
    with client_of(url, data_dir) as client:
        found = client.request("GET", endpoint)["backups"]
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
        found = client.request("GET", _endpoint(client.request("GET", "/v1/backups")["backups"], backup))
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
        done = client.request("DELETE", _endpoint(client.request("GET", "/v1/backups")["backups"], backup))
    if as_json:
        print_json(done)
    else:
        typer.echo(f"removed {done['backup_id']}" if done["removed"] else f"{done['backup_id']} was removed before")


def restore(
    computer: Computer,
    backup: Annotated[
        str,
        typer.Argument(metavar="BACKUP", help="As `backups list` has it. Default: the newest.", show_default=False),
    ] = "",
    path: Annotated[
        list[str] | None, typer.Option("--path", help="Only this path and what is below it; may be repeated.")
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Also remove files that the backup does not have.")] = False,
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
    from orchestrator.terminal.review.request_view import restore_told

    body: dict[str, Any] = {"backup": backup, "paths": [spelled(one) for one in path or []], "exact": exact}
    with client_of(url, data_dir) as client:
        endpoint = f"/v1/computers/{as_segment(computer)}/restore"
        with watched(client, None, computer, as_json=as_json):
            preview = client.request_long("POST", endpoint, {**body, "dry_run": True})
        if dry_run and as_json:
            print_json(preview)
            return
        if not as_json:
            for line in restore_told(preview):
                typer.echo(line)
        if not dry_run:
            # The very one that was shown, also where a newer one was made meanwhile.
            submitted = client.request("POST", endpoint, {**body, "backup": preview["backup_id"]})
            if not submitted["online"]:
                leaving = "" if detach else " Leave with Ctrl-C; it goes on by itself."
                typer.echo(f"Computer {quoted(computer)} is away: the task waits for it.{leaving}", err=True)
            if detach:
                leave(submitted, as_json, reaching(url, data_dir))
                return
            follow(client, submitted["task_id"], as_json, reconnect, reaching(url, data_dir))


def _endpoint(backups: list[dict[str, Any]], name: str) -> str:
    """Where the one backup is that is meant. Raises NotFound, InvalidRequest where it could be several."""
    found = [one for one in backups if one["backup_id"].startswith(name) or one["listing"].startswith(name)]
    if not name or len(found) != 1:
        ids = ", ".join(one["backup_id"] for one in found[:5])
        what = f"Several backups begin with {quoted(name)}: {ids}." if found else f"There is no backup {quoted(name)}."
        raise (InvalidRequest if found else NotFound)(what, remedy="`cc-orchestrator backups list` lists them.")
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


# -- The command that takes back what a task changed -------------------------------------

_CHOICES: Final = ("keep", "restore", "beside")


def undo(  # noqa: PLR0913, PLR0917 - one parameter for each flag
    task_id: TaskId,
    step: Annotated[int | None, typer.Option(min=1, help="Only what this step of the task changed.")] = None,
    path: Annotated[
        list[str] | None, typer.Option("--path", help="Only this path and what is below it; may be repeated.")
    ] = None,
    on_conflict: Annotated[
        Literal["keep", "restore", "beside"],
        typer.Option(help="What somebody changed since: keep it, restore the old, or put the old file beside it."),
    ] = "keep",
    choose: Annotated[
        list[str] | None,
        typer.Option("--choose", metavar="PLACE=CHOICE", help="The same of one place, such as farm:a.lua=restore."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    detach: Detach = False,
    as_json: AsJson = False,
    reconnect: Reconnect = RECONNECT_S,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Put back what a task changed.

    Shows what would be done; the undo is then a task of its own: it waits for approval, and for computers that are
    away, and can be undone itself. What somebody changed since stays, unless you say otherwise.
    """
    from orchestrator.terminal.review.request_view import told

    paths = [spelled(one) for one in path or []]
    body: dict[str, Any] = {"paths": paths, "on_conflict": on_conflict, "choices": _choices(choose or [])}
    if step is not None:
        body["step"] = step
    with client_of(url, data_dir) as client:
        endpoint = f"/v1/tasks/{task_id}/undo"
        with watched(client, None, task_id, as_json=as_json):
            preview = client.request_long("POST", endpoint, {**body, "dry_run": True})
        _must_be_there(body["choices"], preview)
        if dry_run and as_json:
            print_json(preview)
            return
        if not as_json:
            for line in told(preview) or ([_nothing(task_id, narrowed=step is not None)] if dry_run else []):
                typer.echo(line)
        if not dry_run and not _is_taken_back(client, task_id, preview, reaching(url, data_dir), as_json=as_json):
            _begin(client, endpoint, body, as_json, reconnect, reaching(url, data_dir), detach=detach)


def _is_taken_back(client: "Client", task_id: str, preview: dict[str, Any], where: str, *, as_json: bool) -> bool:
    """Whether an earlier undo left nothing to put back; then that is said, with the way to the changes."""
    if preview.get("not_heard") or any(one["verdict"] != "nothing" for one in preview["places"]):
        return False
    outcome = (client.request("GET", f"/v1/tasks/{task_id}").get("undo") or {}).get("outcome")
    if not outcome or outcome["open"] or not outcome["did"] or outcome["undone_by"]:
        return False
    if as_json:
        print_json({"task_id": outcome["task_id"], "status": outcome["status"]})
    again = f"{program()} undo {outcome['task_id']}{where}"
    typer.echo(f"{task_id} is {one_line(outcome['told'], limit=600)} already; nothing is left to put back.", err=True)
    typer.echo(f"To have its changes again:  {again}", err=True)
    return True


def _begin(
    client: "Client", endpoint: str, body: dict[str, Any], as_json: bool, patience_s: float, where: str, *, detach: bool
) -> None:
    """Submit the undo and follow it; where one of the same task goes on already, that one."""
    from orchestrator.client import ServerRefused

    try:
        submitted = client.request("POST", endpoint, body)
    except ServerRefused as refused:
        going = refused.details.get("task_id")
        if refused.reason != BeingUndone.code or not going:
            raise
        join(client, str(going), refused.message, as_json, patience_s, where, detach=detach)
        return
    if detach:
        leave(submitted, as_json, where)
        return
    follow(client, submitted["task_id"], as_json, patience_s, where)


def _nothing(task_id: str, *, narrowed: bool) -> str:
    changed = f"{task_id} changed no files{' in that step' if narrowed else ''}."
    return f"{changed} `cc-orchestrator tasks show {task_id}` shows what it did."


def _must_be_there(choices: dict[str, str], preview: dict[str, Any]) -> None:
    """Raises InvalidRequest for a choice about a place that the undo does not touch."""
    places = {one["place"] for one in preview["places"]}
    odd = next((place for place in choices if place not in places), None)
    # Changes that are not heard yet may bring more places.
    if odd is not None and not preview.get("not_heard"):
        from orchestrator.core.undo.telling import near

        remedy = f"Name a place as --dry-run does: farm:startup.lua. {near(odd, sorted(places))}".rstrip()
        raise InvalidRequest(f"The undo touches no {quoted(odd)}.", remedy=remedy)


def _choices(chosen: list[str]) -> dict[str, str]:
    """Raises InvalidRequest for what is not PLACE=CHOICE."""
    choices = {}
    for one in chosen:
        place, _, choice = one.rpartition("=")
        if not place or choice not in _CHOICES:
            raise InvalidRequest(f"{one!r} chooses nothing.", remedy=f"Say PLACE={'|'.join(_CHOICES)}.")
        choices[spelled(unspelled(place))] = choice
    return choices
