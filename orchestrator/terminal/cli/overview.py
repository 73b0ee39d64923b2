"""What ``cc-orchestrator`` alone shows: the server, what waits for a person, and the next sensible step."""

from pathlib import Path
from typing import Any

import typer

from orchestrator.core.text.visible import one_line
from orchestrator.runtime.program import program, reaching
from orchestrator.terminal.cli.common import client_of

_OPEN = ("Queued", "Running", "Paused")
_ASKS = "waiting for an answer"
"""The reason in the list for a task whose model asked a person."""
_LATELY = 100
"""Tasks that are looked at, the newest."""


def show(url: str | None, data_dir: Path | None) -> None:
    """Print what there is. Raises ServerUnreachable, ServerRefused, InvalidRequest without a token."""
    with client_of(url, data_dir) as client:
        found = client.request("GET", "/v1/computers")["computers"]
        waiting = client.request("GET", "/v1/requests")["requests"]
        tasks = client.request("GET", "/v1/tasks", limit=_LATELY)["tasks"]
        lines = [f"server     {one_line(client.shown)}", *_lines(found, waiting, tasks)]
    for line in lines:
        typer.echo(line)
    typer.echo(f"\nNext: {program()} {_next(found, waiting, tasks)}{reaching(url, data_dir)}")
    typer.echo(f"All commands: {program()} --help")


def _lines(computers: list[dict[str, Any]], waiting: list[dict[str, Any]], tasks: list[dict[str, Any]]) -> list[str]:
    online = sum(one["state"] == "online" for one in computers)
    frozen = [one_line(one["computer"]) for one in computers if one["frozen"]]
    running = sum(one["status"] in _OPEN for one in tasks)
    asks = sum(one["status_reason"] == _ASKS for one in tasks)
    is_frozen = f", frozen: {', '.join(frozen)}" if frozen else ""
    return [
        f"computers  {online} of {len(computers)} online{is_frozen}",
        f"waiting    {len(waiting)} to approve, {asks} to answer",
        f"tasks      {running} under way, {len(tasks) - running} ended{' of the newest' * (len(tasks) == _LATELY)}",
    ]


def _next(computers: list[dict[str, Any]], waiting: list[dict[str, Any]], tasks: list[dict[str, Any]]) -> str:
    if not computers:
        return "pair"
    if waiting or any(one["status_reason"] == _ASKS for one in tasks):
        return "review"
    if all(one["state"] == "away" for one in computers):
        return "doctor"
    return f'run "…" --computer {one_line(computers[0]["computer"])}' if not tasks else "tasks"
