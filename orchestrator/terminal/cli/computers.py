"""The commands about computers: list them, look at one, release a frozen one, confirm a label."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from orchestrator.core.text.visible import one_line
from orchestrator.terminal.cli.common import (
    AsJson,
    DataDir,
    Url,
    as_segment,
    client_of,
    is_alone,
    moment,
    print_json,
    quoted,
)

computers_app = typer.Typer(invoke_without_command=True, help="List the computers, look at one, or release one.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="As `computers` lists it.")]


@computers_app.callback()
def computers(context: typer.Context, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """List the computers; `computers show` says why one is frozen, `computers release` lets it come back."""
    if not is_alone(context):
        return
    from orchestrator.terminal.output import Screen, table

    with client_of(url, data_dir) as client:
        found = client.request("GET", "/v1/computers")["computers"]
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo("There are no computers yet. Connect one with `cc-orchestrator pair`.", err=True)
        return
    rows = [
        (
            one_line(one["computer"]),
            one["state"],
            one_line(one.get("family") or "-"),
            one_line(one.get("label") or "-"),
            one_line(one.get("host") or "-"),
        )
        for one in found
    ]
    for line in table(("COMPUTER", "STATE", "KIND", "LABEL", "RUNS"), rows, columns=Screen.of().columns):
        typer.echo(line)
    for one in found:
        if one["frozen"]:
            typer.echo(one_line(f"{one['frozen']['message']} {one['frozen']['remedy']}", limit=1000), err=True)


@computers_app.command(epilog="Example: cc-orchestrator computers show farm")
def show(name: Name, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Show a computer, and why it is frozen.

    When it came last and, if it is frozen, who was known and who came instead.
    """
    with client_of(url, data_dir) as client:
        found = client.request("GET", f"/v1/computers/{as_segment(name)}")
    if as_json:
        print_json(found)
        return
    for line in _lines(found):
        typer.echo(one_line(line, limit=1000))


@computers_app.command(epilog="Example: cc-orchestrator computers release farm")
def release(name: Name, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Let a frozen computer come back.

    The one that dials next is it. What was under way there when it was frozen is shown as unknown, for a person
    to look at. Where two computers came with one token, switch off the other first, or pair it anew under another
    name.
    """
    with client_of(url, data_dir) as client:
        done = client.request("POST", f"/v1/computers/{as_segment(name)}/release")
    if as_json:
        print_json(done)
    elif done["released"]:
        typer.echo(f"Computer {quoted(name)} is released: the one that dials next is it.", err=True)
    else:
        typer.echo(f"Computer {quoted(name)} was not frozen.", err=True)


@computers_app.command(epilog="Example: cc-orchestrator computers confirm-label farm")
def confirm_label(name: Name, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Confirm the label that a computer has now.

    A rule that denies or asks by label holds for each label that the computer had. From here on it holds for the
    label of now and for later ones only.
    """
    path = f"/v1/computers/{as_segment(name)}"
    with client_of(url, data_dir) as client:
        label = client.request("GET", path).get("label") or ""
        done = client.request("POST", f"{path}/confirm-label", {"label": label})
    if as_json:
        print_json(done)
    else:
        rest = "its former labels count no more" if done["confirmed"] else "it had no other"
        typer.echo(f"Computer {quoted(name)} has the label {quoted(done['label'])}; {rest}.", err=True)


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"computer  {found['computer']}"
    released = ", released and not back yet" if found["released"] else ""
    yield f"state     {found['state']}{released}"
    for name in ("family", "label", "host"):
        if found.get(name):
            yield f"{'kind' if name == 'family' else name:8}  {found[name]}"
    if found.get("former_labels"):
        yield f"had       {', '.join(quoted(one) if one else 'no label' for one in found['former_labels'])}"
    if found["last"]:
        yield f"came last {_side(found['last'])}"
    frozen = found["frozen"]
    if not frozen:
        return
    yield f"frozen    since {moment(frozen['since'])}: {frozen['message']}"
    yield f"to do     {frozen['remedy']}"
    for place, side in enumerate(frozen["sides"]):
        came = "who comes" if place == len(frozen["sides"]) - 1 else "known"
        yield f"{came:9} {_side(side)}"
    compared = ", ".join(f"{name} {number}" for name, number in sorted(frozen["facts"].items()))
    if compared:
        yield f"compared  {compared}"


def _side(side: Mapping[str, Any]) -> str:
    label = f" {quoted(side['label'])}" if side["label"] else ""
    peer = f" from {side['peer']}" if side["peer"] else ""
    return f"id {side['computer_id']}{label}{peer}, boot {side['boot']}, {side['host']}, {moment(side['at'])}"
