"""The command that connects a computer."""

import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import typer

from orchestrator.core.connection_problems import PLACE, is_loopback, is_private, told
from orchestrator.core.errors import InvalidRequest
from orchestrator.terminal.cli.common import AsJson, DataDir, Url, client_of, print_json

if TYPE_CHECKING:
    from orchestrator.client import Client

_POLL_S = 0.5
PASTE_CHARS: Final = 512
"""The game cuts what is pasted at once."""


def pair(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="What to call the computer here. Default: its own number.")
    ] = "",
    label: Annotated[str, typer.Option(help="The label that it gets in the game, if it has none.")] = "",
    pin: Annotated[
        bool, typer.Option("--pin", help="A line that checks the sha256 of the installer before it runs it.")
    ] = False,
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
    from orchestrator.terminal.output import Screen

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
            _show(pairing, until, pin=pin)
            for note in _notes(pairing["url"]):
                beside.say(note)
        waits = Screen.of().grows and not as_json if wait is None else wait
        if waits:
            beside.say("Waiting until it connects. Ctrl-C leaves; the line stays good.")
            _await_computer(client, name, before, datetime.fromisoformat(pairing["expires_at"]))


def _show(pairing: Mapping[str, Any], until: str, *, pin: bool) -> None:
    """The line, what to do with it, and what to know before."""
    if not pin:
        typer.echo(f"Type this on the computer, before {until}:", err=True)
        typer.echo(pairing["line"])
    elif "pinned" not in pairing:
        raise InvalidRequest("The server is of an older version and makes no such line.", remedy="Update the server.")
    else:
        typer.echo(f"Type `lua` on the computer, and at its prompt this, as one line, before {until}:", err=True)
        typer.echo(pairing["pinned"])
        typer.echo(
            "Copy it from a place that nobody else can change. It runs the installer only if its sha256 is "
            f"{pairing['sha256']}; else it says so and runs nothing.",
            err=True,
        )
        if len(pairing["pinned"]) > PASTE_CHARS:
            typer.echo(f"The game pastes {PASTE_CHARS} characters at once: paste the rest after them.", err=True)
    if pairing.get("warning"):
        typer.echo(pairing["warning"], err=True)


def _notes(url: str) -> Iterator[str]:
    """What the Minecraft server has to permit for the line to work: only its own file can say it."""
    host = urlsplit(url).hostname or ""
    if is_loopback(host):
        yield "It works where Minecraft runs on this machine; else see `serve --public-url`."
    if is_private(host):
        yield 'Minecraft refuses this address ("Domain not permitted") until this stands before the rule for "$private"'
        yield f"in {PLACE}:"
        yield from told("not_permitted", url).remedy[1:-1]
    yield f"If `wget` is no program there, or says that it requires the http API, set in {PLACE}:"
    yield from told("http_off", url).remedy[1:-1]
    yield "websocket_enabled = true"
    yield "In singleplayer that is below saves/, in new versions below config/. Restart Minecraft after a change."
    yield "If it still does not connect: cc-orchestrator doctor"


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
