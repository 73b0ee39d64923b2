"""The commands around cells: the router before them, their list, and moves between them."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from orchestrator.core.errors import InvalidRequest, said_of
from orchestrator.runtime.cells import load_cells
from orchestrator.terminal.cli.common import AsJson, print_json

_NO_STORE = "A move opens both stores itself: write `store` into the tables of both cells."

CellsPath = Annotated[
    Path, typer.Option("--cells", metavar="FILE", help="The file that lists the cells. Default cells.toml.")
]
_CELLS = Path("cells.toml")

cells_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List the cells, and move a computer from one to another.",
)


def route(
    cells: CellsPath = _CELLS,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0: any free port.")] = 8700,
    proxies: Annotated[
        str, typer.Option(help="The addresses of proxies in front, with commas between, that are believed.")
    ] = "",
    insecure_bind: Annotated[
        bool, typer.Option("--insecure-bind", help="Listen beyond loopback without TLS in front.")
    ] = False,
) -> None:
    """Send computers to their cells.

    It reads the cell in the token of a computer, and tells the computer where that cell is; it keeps nothing, so any
    number of routers may run. It prints `listening on URL` when it is ready, and takes a changed file by itself.
    """
    from orchestrator.app.router import route as route_until_stopped
    from orchestrator.runtime.logs import set_up
    from orchestrator.runtime.settings import Settings

    try:
        settings = Settings(data_dir=Path(), host=host, port=port, proxies=proxies, insecure_bind=insecure_bind)
    except ValidationError as error:
        raise InvalidRequest("--proxies does not fit.", remedy=said_of(error.errors()[0], "It")) from None
    set_up(settings.log_level, settings.log_format)

    def ready(url: str) -> None:
        typer.echo(f"listening on {url}")
        sys.stdout.flush()

    asyncio.run(route_until_stopped(cells, settings, ready))


@cells_app.command("list", epilog="Example: cc-orchestrator cells list --cells cells.toml")
def cells_list(cells: CellsPath = _CELLS, as_json: AsJson = False) -> None:
    """List the cells of the file, and say whether it fits."""
    found = load_cells(cells)
    rows = [found.rows[name] for name in sorted(found.rows)]
    if as_json:
        print_json([{"cell": one.name, "url": one.url, "default": one.name == found.default} for one in rows])
        return
    for one in rows:
        typer.echo(f"{one.name:16}  {one.url}{'  default' if one.name == found.default else ''}")


@cells_app.command("move", epilog="Example: cc-orchestrator cells move farm --from east --to west")
def cells_move(
    computers: Annotated[list[str], typer.Argument(metavar="COMPUTER...", help="The computers that move together.")],
    source: Annotated[str, typer.Option("--from", metavar="CELL", help="The cell where they are.")],
    target: Annotated[str, typer.Option("--to", metavar="CELL", help="The cell where they go.")],
    cells: CellsPath = _CELLS,
    as_json: AsJson = False,
) -> None:
    """Move computers to another cell, with all that is theirs.

    Their tasks, backups and tokens go with them.

    A task goes on in the other cell where it was, also in the middle of a call. Servers on PostgreSQL go on meanwhile,
    and a server on SQLite has to be stopped. If a move is interrupted, give the same command again.
    """
    from orchestrator.history.moves import move

    found = load_cells(cells)
    here, there = found.must(source), found.must(target)
    if here == there or not here.store or not there.store:
        raise InvalidRequest(
            f"{source} and {target} are one cell." if here == there else "The file does not say where both stores are.",
            remedy="Name two cells." if here == there else _NO_STORE,
        )
    moved = asyncio.run(move(here, there, computers))
    if as_json:
        print_json({"from": source, "to": target, **moved._asdict()})
        return
    if moved.before:
        typer.echo(f"An earlier move brought {', '.join(moved.computers)} to {target}. Nothing was moved now.")
        return
    typer.echo(f"{', '.join(moved.computers)} moved from {source} to {target}, with {len(moved.tasks)} tasks.")
    if moved.staying:
        typer.echo(f"Ended tasks that are of other computers too stay in {source}: {', '.join(moved.staying)}.")
