"""Waiting for a server that reads a whole computer, and showing how far it has come."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import typer

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.text.visible import one_line

if TYPE_CHECKING:
    from orchestrator.client import Client

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

    from orchestrator.terminal.output import Screen
    from orchestrator.terminal.progress_bar import Meter, hint_line

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
                # Whoever waits is told what is wrong with the server; one that is older has no such door.
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
