"""The command about nodes: which servers work together, and how each stands."""

from typing import Any

import typer

from orchestrator.core.text.visible import one_line
from orchestrator.core.timestamps import told_apart
from orchestrator.terminal.cli.common import AsJson, DataDir, Url, client_of, moment, print_json


def nodes(as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """List the servers that work together.

    Those that share this one's store and bus and are heard now, the one that answers first.
    """
    from orchestrator.terminal.output import Screen, table

    with client_of(url, data_dir) as client:
        found = client.request("GET", "/v1/nodes")
    if as_json:
        print_json(found)
        return
    head = ("NODE", "ID", "STATE", "VERSION", "SINCE", "COMPUTERS", "TASKS", "AT")
    for line in table(head, [_row(one) for one in found["nodes"]], columns=Screen.of().columns):
        typer.echo(line)
    for one in found["nodes"]:
        # Of an older server nothing is known.
        if said := told_apart(one_line(one["name"]), one.get("clock_ahead_s", 0.0)):
            typer.echo(said, err=True)
    for alert in found.get("alerts", ()):
        typer.echo(alert, err=True)
    if found.get("apart"):
        apart = ", ".join(map(one_line, found["apart"]))
        typer.echo(f"On the same bus with another store, and so none of these: {apart}.", err=True)


def _row(node: dict[str, Any]) -> tuple[str, ...]:
    state = "draining" if node["draining"] else "here" if node["here"] else "there"
    return (
        one_line(node["name"]),
        one_line(node["node"]),
        state,
        one_line(node["version"] or "-"),
        moment(node["started_at"]),
        str(node["computers"]),
        str(node["tasks"]),
        one_line(node["url"] or "-"),
    )
