"""The commands around a store itself: looking at it, and moving it. They open it themselves, without the server."""

import asyncio
import gzip
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Annotated, Any, Final, cast

import typer

from orchestrator.core.errors import InvalidRequest, NotFound
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.program import ENV_PREFIX
from orchestrator.terminal.cli.common import AsJson, DataDir, print_json, settings_of

StoreUrl = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="The store. Default: the one that `serve` would take.")
]
Telling = Callable[[int, int], None]

_EVERY_S: Final = 0.1
_SELDOM_S: Final = 5.0
_STANDARD: Final = "-"
_GZIP: Final = b"\x1f\x8b"
"""The beginning of every packed file."""

store_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Look at a store, and move it to another place or engine.",
)


@store_app.command("check", epilog="Example: cc-orchestrator store check --json")
def store_check(store: StoreUrl = None, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Tell what is in a store, and whether all of it is whole.

    And who works on it. A server may have it open meanwhile. Exits with 1 when something is not as it was written.
    """
    from orchestrator.history.store_move.inspection import check_store_at

    found = asyncio.run(check_store_at(_url(store, data_dir)))
    if as_json:
        print_json({**vars(found), "held": [vars(one) for one in found.held], "ok": not found.faults})
    else:
        for line in _told(found):
            typer.echo(one_line(line, limit=600))
    if found.faults:
        raise typer.Exit(1)


@store_app.command("export", epilog="Example: cc-orchestrator store export store.dump.gz")
def store_export(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A new file, packed if its name ends in .gz; `-`: standard output.")
    ],
    store: StoreUrl = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Write a whole store, as it is at this moment, into one file.

    A server may have it open meanwhile. The file holds everything, secrets too; only its owner can read it.
    """
    from orchestrator.history.store_move.copy import export_store

    url = _url(store, data_dir)
    with _metered("export", as_json=as_json) as told, _new(file) as out:
        moved = asyncio.run(export_store(url, out, told))
    _tell(moved, as_json, f"were written to {file}", on_stderr=file == _STANDARD)


@store_app.command("import", epilog="Example: cc-orchestrator store import store.dump.gz --store postgresql://db/cc")
def store_import(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What `store export` wrote; `-`: standard input.")],
    store: StoreUrl = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Fill an empty store from such a file: whole, or not at all."""
    from orchestrator.history.store_move.copy import import_store

    url = _url(store, data_dir)
    with _metered("import", as_json=as_json) as told, _there(file) as found:
        moved = asyncio.run(import_store(url, found, "The dump" if file == _STANDARD else file, told))
    _tell(moved, as_json, f"were imported into {_shown(url)}")


@store_app.command("migrate", epilog="Example: cc-orchestrator store migrate --to postgresql://db/cc")
def store_migrate(
    to: Annotated[
        str | None, typer.Option("--to", metavar="URL", help="An empty store, to which everything is copied.")
    ] = None,
    store: StoreUrl = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Copy a store to another one, or bring its tables up to date.

    With --to everything is copied to an empty store, such as from SQLite to PostgreSQL; without it the tables become
    those of this version.
    """
    from orchestrator.history.store_move.copy import bring_forward, copy_store

    url = _url(store, data_dir)
    if to is None:
        before, after = asyncio.run(bring_forward(url))
        if as_json:
            print_json({"store": _shown(url), "from_schema": before, "schema": after})
        else:
            now = f"has schema {after} already" if before == after else f"was brought from schema {before} to {after}"
            typer.echo(f"{_shown(url)} {now}.")
        return
    with _metered("migrate", as_json=as_json) as told:
        moved = asyncio.run(copy_store(url, to, told))
    _tell(moved, as_json, f"were copied to {_shown(to)} and read back")
    if moved.served_by:
        typer.echo(
            f"{_shown(url)} is still in use, by {moved.served_by}: what is written there from now on is not in the "
            "copy. Stop what uses it, and migrate once more to another, empty store.",
            err=True,
        )
    elif not as_json:
        from orchestrator.runtime.settings import CONFIG_NAME

        typer.echo(
            f"{_shown(url)} stays as it is: keep it aside, and start no server on it again.\n"
            f"Next: cc-orchestrator serve --store URL, with the URL of {_shown(to)}.\n"
            "Commands that open the store, such as a backup by `store export`, need it too: as `store` in "
            f"{CONFIG_NAME} of the data directory, or as {ENV_PREFIX}STORE."
        )


@store_app.command("admin", epilog="Example: cc-orchestrator store admin")
def store_admin(store: StoreUrl = None, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Make one more admin's token, where the last one is lost.

    A person who can open the store may do this: a server on SQLite has to be stopped for it, nodes on PostgreSQL go on.
    The token is shown once; the making of it is in the audit.
    """
    from orchestrator.app.admin import one_more_admin

    token = asyncio.run(one_more_admin(settings_of(data_dir=data_dir, store=store)))
    if as_json:
        print_json({"name": "admin", "token": token})
    else:
        typer.echo("One more token of admin; it is not shown again:", err=True)
        typer.echo(token)


def _url(store: str | None, data_dir: Path | None) -> str:
    """The store that is meant, as ``serve`` finds it."""
    return settings_of(data_dir=data_dir, store=store).store_url


def _shown(url: str) -> str:
    """A URL as it may be shown."""
    from orchestrator.history.store_move.sides import shown

    return one_line(shown(url))


def _tell(moved: Any, as_json: bool, what: str, *, on_stderr: bool = False) -> None:
    if as_json:
        said = {"rows": moved.rows, "counts": dict(moved.counts), "schema": moved.schema, "sha256": moved.sha256}
        typer.echo(json.dumps({**said, "served_by": moved.served_by}), err=on_stderr)
        return
    many = f"{moved.rows} rows of {len(moved.counts)} tables (schema {moved.schema})"
    typer.echo(one_line(f"{many} {what}.", limit=600), err=on_stderr)
    typer.echo(f"rows sha256 {moved.sha256}", err=on_stderr)


def _told(found: Any) -> Iterator[str]:
    """What a check found, line by line."""
    from orchestrator.terminal.output import sized

    yield f"{found.store}: schema {found.schema}, {sized(found.bytes)}"
    yield ", ".join(f"{count} {table}" for table, count in found.counts.items())
    if found.served_by:
        yield f"It is served by {found.served_by}."
    for one in found.held:
        ends = "ended" if one.over else "ends unless it is renewed"
        yield f"{one.task_id} is held by {one.holder}; its lease {ends} at {one.until}."
    yield from found.faults
    if found.heads_sha256:
        yield f"{found.items} items in {found.streams} streams were compared with their chains, rows and blobs."
    elif found.schema < found.known:
        yield (
            f"This version has schema {found.known}: `cc-orchestrator store migrate`, or the next `serve`, brings it "
            "there. Before that only the database itself was looked at."
        )
    many = len(found.faults)
    yield f"{many} {'thing is' if many == 1 else 'things are'} not as written." if many else "All is as it was written."
    if found.heads_sha256:
        yield f"heads sha256 {found.heads_sha256}"


@contextmanager
def _metered(name: str, *, as_json: bool) -> Iterator[Telling]:
    """Shows how far it has come on standard error: a bar on a terminal, else a line now and then."""
    from orchestrator.terminal.meter import Meter, hint_line
    from orchestrator.terminal.output import Screen

    screen = Screen.of(sys.stderr)
    meter = Meter(name, screen, say=lambda line: typer.echo(line, err=True))
    lines = as_json and not screen.moves
    seen = time.monotonic()

    def told(done: int, total: int) -> None:
        nonlocal seen
        now = time.monotonic()
        if now - seen < (_SELDOM_S if lines else _EVERY_S):
            return
        seen = now
        if lines:
            typer.echo(hint_line(name, {"rows": done, "of_rows": total or None}), err=True)
        elif total:
            meter.tell(done, total, f"{done} of {total} rows", 0)
        else:
            meter.waiting(f"{done} rows")

    try:
        yield told
    finally:
        meter.close()


@contextmanager
def _new(name: str) -> Iterator[IO[bytes]]:
    """A new file that only its owner can read; it is taken away where the block fails. Raises InvalidRequest."""
    if name == _STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(name)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be written: {error.strerror}.", remedy="Name a new file.") from None
    try:
        with ExitStack() as stack:
            file: IO[bytes] = stack.enter_context(os.fdopen(descriptor, "wb"))
            if path.suffix == ".gz":
                # Neither time nor name: the same store packs to the same bytes.
                packed = gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0)
                yield cast("IO[bytes]", stack.enter_context(packed))
                packed.close()
            else:
                yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@contextmanager
def _there(name: str) -> Iterator[IO[bytes]]:
    """A file to read, unpacked if it is packed, whatever its name. Raises NotFound."""
    try:
        with ExitStack() as stack:
            raw = sys.stdin.buffer if name == _STANDARD else stack.enter_context(Path(name).open("rb"))
            file = cast("io.BufferedReader", raw)
            packed = file.peek(len(_GZIP))[: len(_GZIP)] == _GZIP
            yield cast("IO[bytes]", stack.enter_context(gzip.GzipFile(fileobj=file))) if packed else file
    except OSError as error:
        raise NotFound(f"{name} cannot be read: {error.strerror or error}.", remedy="Name another file.") from None
