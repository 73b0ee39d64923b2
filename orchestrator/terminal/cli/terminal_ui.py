"""The command that opens the terminal UI."""

import sys

import typer

from orchestrator.core.errors import InvalidRequest
from orchestrator.terminal.cli.common import DataDir, Url, client_of


def tui(url: Url = None, data_dir: DataDir = None) -> None:
    """Do everything on one screen in the terminal.

    Tasks, approvals, questions, computers: by keyboard alone; ? shows the keys. It needs the extra
    `tui`. On a pipe use `review` and `tasks watch`.
    """
    if not all(one.isatty() for one in (sys.stdin, sys.stdout, sys.stderr)):
        raise InvalidRequest("There is no terminal to draw on.", remedy="Use `review` and `tasks watch` on a pipe.")
    try:
        import textual  # noqa: F401 - only whether it is there
    except ImportError:
        raise InvalidRequest(
            "The terminal UI needs textual, which is not installed.",
            remedy="Install it: pip install 'cc-orchestrator[tui]'. `cc-orchestrator review` works without it.",
        ) from None
    from orchestrator.terminal.tui import run_tui

    with client_of(url, data_dir) as client:
        # A wrong address or token is a sentence here, not on a screen that looks for the server for ever.
        client.request("GET", "/v1/tasks", limit=1)
        code = run_tui(client)
    if code:
        raise typer.Exit(code)
