"""The audit on the command line: show, verify, check and export."""

import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlencode

import typer

from orchestrator.core.errors import InvalidRequest, NotFound, StoreBusy
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.program import ENV_PREFIX, program
from orchestrator.terminal.cli.common import (
    AsJson,
    DataDir,
    Url,
    client_of,
    moment,
    must_be_there,
    print_json,
    quoted,
    settings_of,
)

if TYPE_CHECKING:
    from orchestrator.client import Client

# -- The audit on the command line: show, verify, check and export -----------------------

audit_app = typer.Typer(no_args_is_help=True, help="What happened: show it, verify it, check it, export it.")
_PAGE = 500
_ASK_EVERY_S = 2
_TELL_EVERY_S = 0.2
"""How soon the server says how far a verification is."""

Task = Annotated[str | None, typer.Argument(metavar="TASK", help="A task's id. Default: all that you may read.")]


@audit_app.command("show")
def show(  # noqa: PLR0913, PLR0917 - one parameter for each flag
    task: Task = None,
    request: Annotated[str | None, typer.Option(help="Only what concerns this request.")] = None,
    sha256: Annotated[
        str | None, typer.Option(help="The person who approved exactly these bytes, and the result.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="As --sha256, of the bytes of this file.")] = None,
    by: Annotated[str | None, typer.Option(help="Only what this person, computer or program did.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only this kind, such as decision_recorded.")] = None,
    since: Annotated[str | None, typer.Option(help="Only since then: 2026-11-20 or 2026-11-20T18:00:00Z.")] = None,
    system: Annotated[bool, typer.Option("--system", help="What belongs to no task.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Show what happened, in order, without secrets."""
    from orchestrator.core.audit.presentation import audit_line, story_lines

    if file is not None:
        sha256 = _sha256_of(file)
    given = {"task": task, "request": request, "by": by, "kind": kind, "since": since, "sha256": sha256}
    query = {name: value for name, value in given.items() if value} | ({"system": "1"} if system else {})
    with client_of(url, data_dir) as client:
        if sha256:
            stories = client.request("GET", "/v1/audit", **query)["stories"]
            lines = [line for story in stories for line in story_lines(story)]
            found = stories
        else:
            found = sorted(_items(client, query), key=lambda item: (item["at"], item["task_id"], item["version"]))
            lines = [audit_line(item) for item in found]
    if as_json:
        print_json(found)
        return
    for line in lines:
        typer.echo(line)
    if not lines:
        typer.echo(f"No call has to do with the bytes {sha256}." if sha256 else "There is nothing.", err=True)


@audit_app.command("verify")
def verify(
    expect: Annotated[str | None, typer.Option(help="The digest that an earlier `audit verify` printed.")] = None,
    full: Annotated[
        bool | None,
        typer.Option(
            "--full/--since-last",
            help="Read every item and all bytes, or only what changed since. Default: full if quick, else all rows.",
            show_default=False,
        ),
    ] = None,
    heads: Annotated[
        Path | None, typer.Option(help="The heads that left this host, as `heads_to` sent them: a file of lines.")
    ] = None,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="End the verification that a server is making, for all who wait for it.")
    ] = False,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Verify that nothing was changed since it was written. Exits with 1 when something was.

    Where no server holds the store of --data-dir it is read directly; else the server is asked. With --heads it is
    always read directly: a server that was put back may say what it likes.

    Up to some 100,000 items all are read. In a larger store all rows are compared, and tasks that are as they were
    verified last are not read again; the answer says how many. --full reads all of them. --since-last reads what
    changed since the last one that found nothing, and the next 1000 tasks. Ctrl-C ends it: what it has read is noted,
    and the next one without options goes on from there.
    """
    if expect is not None and full is False:
        raise InvalidRequest(
            "--expect compares the heads of all streams, and --since-last does not read all.",
            remedy="Leave --since-last out.",
        )
    if cancel:
        with client_of(url, data_dir) as client:
            ended = client.request("DELETE", "/v1/audit/verify")
        typer.echo(f"Canceled after {ended['done']} of {ended['of']} streams.")
        return
    found = _verified(url, data_dir, heads, full)
    differs = expect is not None and expect.strip().lower() != found["heads_sha256"]
    if as_json:
        print_json({**found, "expected": expect})
    else:
        _print_verification(found, expect if differs else None)
    if found["faults"] or differs:
        raise typer.Exit(1)


def _verified(url: str | None, data_dir: Path | None, heads: Path | None, full: bool | None) -> dict[str, Any]:
    """The verification of the store that is meant, read here or by its server."""
    if heads is not None:
        if url is not None:
            raise InvalidRequest(
                "--heads reads the store itself, and --url names a server.",
                remedy="Say it on the server's host, with --data-dir, without --url.",
            )
        must_be_there(heads)
        return verify_against(heads, data_dir)
    # A directory that is named is meant, whatever server the environment speaks of.
    elsewhere = url is not None or (data_dir is None and os.environ.get(f"{ENV_PREFIX}URL"))
    found = None if elsewhere else offline_verify(data_dir, full=full)
    if found is not None:
        return found
    with client_of(url, data_dir) as client, _interruptible() as told:
        return _verified_there(client, full, told)


@audit_app.command("check")
def check(task: Task = None, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Report what ran unapproved, or was approved and never ran.

    Exits with 1 at a violation.
    """
    from orchestrator.core.text.visible import one_line

    with client_of(url, data_dir) as client:
        query = f"?{urlencode({'task': task})}" if task else ""
        found = client.request_long("GET", f"/v1/audit/check{query}")["findings"]
    if as_json:
        print_json(found)
    else:
        for one in found:
            typer.echo(
                one_line(f"{one['level']}  {one['stream']}#{one['version']}  {one['what']}: {one['detail']}", limit=600)
            )
        if not found:
            typer.echo("Everything is in order.")
    if any(one["level"] == "violation" for one in found):
        raise typer.Exit(1)


@audit_app.command("background")
def background(
    now: Annotated[bool, typer.Option("--now", help="Have it look now.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="End the present look.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Show what a server verifies in the background.

    Exits with 1 when something was changed.

    Every five minutes it reads the tasks that changed since the last look, and the next 1000 of all others.
    """
    method = "DELETE" if cancel else "POST" if now else "GET"
    with client_of(url, data_dir) as client:
        found = client.request(method, "/v1/audit/background", **({"body": {}} if now else {}))
    if as_json:
        print_json(found)
    else:
        _print_background(found, is_asked=now)
    if found["faults"]:
        raise typer.Exit(1)


def _print_background(found: dict[str, Any], *, is_asked: bool) -> None:
    from orchestrator.core.text.visible import one_line

    for fault in found["faults"]:
        typer.echo(one_line(f"{fault['what']}: {fault['detail']}", limit=600))
    if not found["here"]:
        typer.echo(
            f"Another node does it, {one_line(found['node'])}: ask that one, with --url, how far it is. What is wanted "
            "with --now or --cancel was told to it."
            if found["node"]
            else f"No node has looked yet: one begins {'at once' if is_asked else 'within minutes'}."
        )
        return
    doing = "It is reading" if found["working"] else "The last look read"
    typer.echo(f"{doing} {found['done']} of {found['of']} tasks. A look ended last at {found['looked_at'] or '-'}.")
    typer.echo(
        f"In turn it has read {found['round_read']} tasks since {found['round_began'] or '-'}, and all of them "
        f"{found['rounds']} times before."
    )
    typer.echo(
        "It reads no bytes of blobs and no rows of other tables than tasks and requests: `audit verify --full` does."
    )


@audit_app.command("export")
def export(
    task: Task = None,
    whole: Annotated[
        bool, typer.Option("--whole/--redacted", help="With secrets, so that it can be verified; for admins only.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="The file to write, which must not exist. Default: the screen.")
    ] = None,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Write the audit as JSON lines. The first says what it is and whether secrets were taken out."""
    query = ({"task": task} if task else {}) | ({"whole": "1"} if whole else {})
    with client_of(url, data_dir) as client:
        head = {
            "export": "cc-orchestrator audit",
            "schema": 1,
            "redacted": not whole,
            "task": task,
            "note": _NOTES[whole],
        }
        lines = (json.dumps(one) for one in (head, *_items(client, query)))
        if out is None:
            for line in lines:
                typer.echo(line)
            return
        count = _write(out, lines)
    typer.echo(f"{count - 1} items were written to {out}.", err=True)


_NOTES = {
    True: "Every item as it was written: each hash can be verified.",
    False: "Secrets were taken out. The hash of an item with redacted: true is over the item with its secrets.",
}


def offline_verify(data_dir: Path | None, *, full: bool | None = None) -> dict[str, Any] | None:
    """What a verification of the data directory's own store finds; None: a server has it, or there is none here.

    ``full`` as of ``verify_store``.
    """
    import asyncio

    from orchestrator.adapters.store.file_lock import FileLock
    from orchestrator.history.audit import Checkpoints
    from orchestrator.history.store_move.inspection import verify_store_at

    settings = settings_of(data_dir=data_dir)
    if settings.store or not (settings.data_dir / "orchestrator.db").exists():
        return None

    checkpoints = Checkpoints(settings.data_dir)
    try:
        lock = FileLock((settings.data_dir / "orchestrator.db").resolve())
    except StoreBusy:
        return None
    # Only the lock keeps a server from starting meanwhile: the store itself is only read.
    try:
        with _interruptible() as told:
            verified = asyncio.run(verify_store_at(settings.store_url, checkpoints, told=told, full=full))
    finally:
        lock.release()
    found: dict[str, Any] = verified.model_dump(mode="json")
    return found


def _verified_there(client: "Client", full: bool | None, told: Callable[[int, int], None]) -> dict[str, Any]:
    """What the server finds, however long it takes; meanwhile how far it is is told."""
    query = urlencode({"wait_s": _ASK_EVERY_S} | ({} if full is None else {"full": int(full)}))
    while True:
        # However busy the server is: a slow answer is one.
        found: dict[str, Any] = client.request_long("GET", f"/v1/audit/verify?{query}")
        if "faults" in found:
            told(1, 0)
            return found
        told(found["done"], found["of"])


@contextmanager
def _interruptible() -> Iterator[Callable[[int, int], None]]:
    """Tell how far it is, and after Ctrl-C how to go on. Exits with 130 then."""
    show, so_far = _progress(), (0, 0)

    def told(done: int, of: int) -> None:
        nonlocal so_far
        so_far = (done, of) if of else so_far
        show(done, of)

    try:
        yield told
    except KeyboardInterrupt:
        typer.echo(
            f"\nCanceled after {so_far[0]} of {so_far[1]} streams. What was read is noted where a checkpoint was made "
            f"before: in a large store `{program()} audit verify` goes on from there.",
            err=True,
        )
        raise typer.Exit(130) from None


def _progress() -> Callable[[int, int], None]:
    """Tells on a terminal how many streams of how many are done, now and then; of 0: all is over."""
    shown = 0.0

    def told(done: int, of: int) -> None:
        nonlocal shown
        if not sys.stderr.isatty() or (of and time.monotonic() < shown + _TELL_EVERY_S):
            return
        if of:
            typer.echo(f"\r{done} of {of} streams", nl=False, err=True)
            shown = time.monotonic()
        elif shown:
            typer.echo("", err=True)

    return told


def verify_against(heads: Path, data_dir: Path | None) -> dict[str, Any]:
    """What a verification finds against heads that left the host; a server that holds the store goes on meanwhile."""
    import asyncio

    from orchestrator.history.audit import Checkpoints, read_heads
    from orchestrator.history.store_move.inspection import verify_store_at

    settings = settings_of(data_dir=data_dir)
    verified = asyncio.run(verify_store_at(settings.store_url, Checkpoints(settings.data_dir), read_heads(heads)))
    found: dict[str, Any] = verified.model_dump(mode="json")
    return found


def _print_verification(found: dict[str, Any], expected: str | None) -> None:
    from orchestrator.core.text.visible import one_line

    for fault in found["faults"]:
        typer.echo(one_line(f"{fault['what']}: {fault['detail']}", limit=600))
    against = (
        f"and with the checkpoint of {found['checkpoint_at']}"
        if found["checkpoint_at"]
        else "and there is no checkpoint"
    )
    typer.echo(f"{found['items']} items in {found['streams']} streams were compared with their chains, {against}.")
    if not found["rows"]:
        typer.echo(
            f"{found['read']} of the streams changed since {found['noted_at']}, or had their turn, and were read. "
            f"{found['noted']} were not looked at, nor the rows of other tables: `audit verify` compares all rows, and "
            "`audit verify --full` reads everything."
        )
    elif not found["full"]:
        typer.echo(
            f"{found['read']} of the streams were read anew. {found['noted']} are as they were verified until "
            f"{found['noted_at'] or 'now'}, and were not: whether somebody edited their items, or bytes, behind that "
            "is found by `audit verify --full`."
        )
    count = len(found["faults"])
    typer.echo(
        "Nothing was changed." if not count else f"{count} {'thing is' if count == 1 else 'things are'} not as written."
    )
    if expected is not None:
        typer.echo(f"The heads are not those of {one_line(expected)}: items were added, or changed, since.")
    if found["heads_sha256"]:
        typer.echo(f"heads sha256 {found['heads_sha256']}")


def _items(client: "Client", query: dict[str, str]) -> Iterator[dict[str, Any]]:
    """All items of a query, page by page."""
    after: dict[str, str] = {}
    while True:
        page = client.request("GET", "/v1/audit", limit=_PAGE, **query, **after)
        yield from page["items"]
        if page["next"] is None:
            return
        after = {"after": page["next"]}


def _sha256_of(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise NotFound(f"{file} cannot be read: {error.strerror}.", remedy="Name a file, or give --sha256.") from None


def _write(path: Path, lines: Iterator[str]) -> int:
    """Write the lines to a new file that only its owner can read; how many there were. Raises InvalidRequest."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            return sum(file.write(line + "\n") > 0 for line in lines)
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be written: {error.strerror}.", remedy="Name a new file.") from None


# -- The commands that keep tasks and let them go ----------------------------------------

_SIZE: Final = re.compile(r"(\d{1,15})\s*([kmg]?)i?b?", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def prune(
    older_than: Annotated[
        float | None,
        typer.Option("--older-than", metavar="DAYS", min=0, max=36_500, help="Ended tasks without an event since."),
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
    what = f"{many} would go for good: their changes could not be undone any more."
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidRequest(what, remedy="Say --yes to remove them, or --dry-run to see which.")
    for one in going:
        typer.echo(_told(one, "would go"), err=True)
    typer.echo(f"{what}\nRemove them? [y/N] ", nl=False, err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _bytes(text: str) -> int:
    """A size such as ``500M``, ``2G`` or ``1000000`` in bytes. Raises InvalidRequest."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise InvalidRequest(f"{quoted(text)} is not a size.", remedy="Say it like 500M, 2G or 1000000.")
    return int(found[1]) * _UNITS[found[2].lower()]
