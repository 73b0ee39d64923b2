"""The commands about computers, people and their tokens."""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from orchestrator.cli.common import AsJson, DataDir, Url, as_segment, client_of, print_json, quoted
from orchestrator.core.errors import InvalidRequest
from orchestrator.settings import LOOPBACK

if TYPE_CHECKING:
    from orchestrator.client import Client

people_app = typer.Typer(no_args_is_help=True, help="People: list them, add one, revoke one.")
token_app = typer.Typer(no_args_is_help=True, help="Tokens, for computers that are not paired and for scripts.")
_POLL_S = 0.5

Roles = Annotated[
    list[str] | None,
    typer.Option("--role", help="submitter, reviewer or admin; may be repeated. Default: submitter."),
]
Person = Annotated[str, typer.Argument(metavar="NAME", help="The person, up to 64 letters, digits, - _ and .")]


def computers(as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """List the computers."""
    from orchestrator.core.visible import one_line
    from orchestrator.rendering import Screen, table

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
            "online" if one["online"] else "away",
            one_line(one.get("family") or "-"),
            one_line(one.get("label") or "-"),
            one_line(one.get("host") or "-"),
        )
        for one in found
    ]
    for line in table(("COMPUTER", "STATE", "KIND", "LABEL", "RUNS"), rows, columns=Screen.of().columns):
        typer.echo(line)


def pair(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="What to call the computer here. Default: its own number.")
    ] = "",
    label: Annotated[str, typer.Option(help="The label that it gets in the game, if it has none.")] = "",
    wait: Annotated[
        bool | None, typer.Option("--wait/--no-wait", help="Wait until it connects. Default: on a terminal.")
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Connect a computer of the game.

    It prints the one line to type there, which is good for 15 minutes, and waits until the computer connects.
    """
    from orchestrator.rendering import Screen

    beside = Screen.of(sys.stderr)
    with client_of(url, data_dir) as client:
        known = _known(client)
        before = {one for one, online in known.items() if online}
        if name in known:
            beside.say(_taken(name, online=known[name]))
        pairing = client.request("POST", "/v1/pairings", {"computer": name, "label": label})
        if as_json:
            print_json(pairing)
        else:
            until = datetime.fromisoformat(pairing["expires_at"]).astimezone().strftime("%H:%M")
            typer.echo(f"Type this on the computer, before {until}:", err=True)
            typer.echo(pairing["line"])
            if urlsplit(pairing["url"]).hostname in LOOPBACK:
                beside.say("It works where Minecraft runs on this machine; else see `serve --public-url`.")
        waits = Screen.of().grows and not as_json if wait is None else wait
        if waits:
            beside.say("Waiting until it connects. Ctrl-C leaves; the line stays good.")
            _await_computer(client, name, before, datetime.fromisoformat(pairing["expires_at"]))


def _await_computer(client: "Client", name: str, before: set[str], expires: datetime) -> None:
    """Wait until the computer (empty: any) comes online. Exits with 1 when the code expires before."""
    while datetime.now(UTC) < expires:
        online = {one for one, is_online in _known(client).items() if is_online}
        # One that is online already has to go first: its place is taken by the one that is paired.
        before &= online
        new = online - before
        if name in new or (new and not name):
            typer.echo(f"Connected: computer {name or min(new)}.", err=True)
            return
        time.sleep(_POLL_S)
    typer.echo("The line is no longer good: nobody typed it in time. Make a new one.", err=True)
    raise typer.Exit(1)


def _taken(name: str, *, online: bool) -> str:
    """What pairing does to the computer that has the name already."""
    now = "is connected now" if online else "is known already"
    loses = "is disconnected and " if online else ""
    return (
        f"Computer {name} {now}. The computer on which the line is typed takes that name; "
        f"if it is another one, the present one {loses}needs a new line of its own."
    )


def _known(client: "Client") -> dict[str, bool]:
    """The computers that have a token, and whether each is connected."""
    return {one["computer"]: one["online"] for one in client.request("GET", "/v1/computers")["computers"]}


@people_app.command("list")
def people_list(as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """List the people and their roles."""
    from orchestrator.core.visible import one_line
    from orchestrator.rendering import Screen, table

    with client_of(url, data_dir) as client:
        found = [one for one in client.request("GET", "/v1/tokens")["tokens"] if one["kind"] == "person"]
    if as_json:
        print_json(found)
        return
    rows = [
        (one_line(one["name"]), one_line(", ".join(one["roles"])) or "-", "revoked" if one["revoked"] else "good")
        for one in found
    ]
    for line in table(("NAME", "ROLES", "TOKEN"), rows, columns=Screen.of().columns):
        typer.echo(line)


@people_app.command("add")
def people_add(
    name: Person, role: Roles = None, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None
) -> None:
    """Add a person; prints their token, once."""
    _add_token({"kind": "person", "name": name, "roles": role or ["submitter"]}, as_json, url, data_dir)


@people_app.command("revoke")
def people_revoke(name: Person, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Revoke all tokens of a person, at once."""
    _revoke("person", name, as_json, url, data_dir)


@token_app.command("computer")
def token_computer(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the computer is called here.")],
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Make a token for a computer; it is shown once."""
    _add_token({"kind": "computer", "name": name}, as_json, url, data_dir)


@token_app.command("person")
def token_person(
    name: Person, role: Roles = None, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None
) -> None:
    """Make a token for a person, as `people add`."""
    people_add(name, role, as_json, url, data_dir)


@token_app.command("revoke")
def token_revoke(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="person or computer.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose tokens, as `people list` or `computers` shows.")],
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Revoke all tokens of a person or a computer."""
    _revoke(kind, name, as_json, url, data_dir)


def _add_token(body: dict[str, Any], as_json: bool, url: str | None, data_dir: Path | None) -> None:
    with client_of(url, data_dir) as client:
        made = client.request("POST", "/v1/tokens", body)
    if as_json:
        print_json(made)
    else:
        typer.echo(made["token"])


def _revoke(kind: str, name: str, as_json: bool, url: str | None, data_dir: Path | None) -> None:
    with client_of(url, data_dir) as client:
        answer = client.request("DELETE", f"/v1/tokens/{as_segment(kind)}/{as_segment(name)}")
    if not answer["revoked"]:
        raise InvalidRequest(
            f"There is no token of {kind} {quoted(name)} to revoke.", remedy="The kinds are person and computer."
        )
    if as_json:
        print_json(answer)
    else:
        typer.echo(f"revoked {answer['revoked']}")
