"""The commands about people, programs and their tokens."""

import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import typer

from orchestrator.core.connection_problems import PLACE, is_loopback, is_private, told
from orchestrator.core.errors import InvalidRequest, NotFound
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.program import ENV_PREFIX
from orchestrator.terminal.cli.common import (
    AsJson,
    DataDir,
    Url,
    as_segment,
    client_of,
    moment,
    print_json,
    quoted,
    seconds,
)

if TYPE_CHECKING:
    from orchestrator.client import Client

# -- The commands about people, programs and their tokens --------------------------------

people_app = typer.Typer(no_args_is_help=True, help="People, and agents: list them, add one, revoke one.")
token_app = typer.Typer(no_args_is_help=True, help="Tokens, for computers that are not paired and for scripts.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Up to 64 letters, digits, - _ and .")]
Yes = Annotated[bool, typer.Option("--yes", help="Also the last admin, or yourself, without asking.")]
Agent = Annotated[bool, typer.Option("--agent", help="A program, which may submit tasks and never decides.")]


@people_app.command("list", epilog="Example: cc-orchestrator people list --json")
def people_list(as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """List the people and the agents.

    Their roles, since when, and whether their tokens are good; never the tokens. Under AWAY stands who decides for
    somebody who is away, and until when.
    """
    from orchestrator.terminal.output import Screen, table

    with client_of(url, data_dir) as client:
        found = [one for one in _tokens(client) if one["kind"] in ("person", "agent")]
    if as_json:
        print_json(found)
        return
    rows = [
        (
            one["kind"],
            one_line(one["name"]),
            one_line(", ".join(one["roles"])) or "-",
            moment(one["created_at"]) or "-",
            "revoked" if one["revoked"] else "good",
            _away(one.get("away")),
        )
        for one in found
    ]
    for line in table(("KIND", "NAME", "ROLES", "SINCE", "TOKEN", "AWAY"), rows, columns=Screen.of().columns):
        typer.echo(line)


@people_app.command("add", epilog="Example: cc-orchestrator people add bob --role submitter --role reviewer")
def people_add(
    name: Name,
    role: Annotated[
        list[str] | None,
        typer.Option(
            "--role",
            help="viewer, submitter, reviewer, admin, or one of the policy; may be repeated. "
            "Default: submitter and reviewer; of an agent submitter.",
        ),
    ] = None,
    agent: Agent = False,
    owner: Annotated[
        str | None,
        typer.Option(
            "--owner", metavar="NAME", help="For an agent: the person whose tasks its tasks count as. Default: you."
        ),
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Add a person, or a program; prints the token, once.

    One more token of the same person needs the same roles. To change roles, revoke first.
    """
    kind = "agent" if agent else "person"
    roles = role or (["submitter"] if agent else ["submitter", "reviewer"])
    with client_of(url, data_dir) as client:
        owned = {} if owner is None else {"owner": owner}
        _add(client, {"kind": kind, "name": name, "roles": roles, **owned}, as_json)
        if not as_json:
            typer.echo(f"It is shown this once. {name} uses it so:", err=True)
            typer.echo(f"  export {ENV_PREFIX}URL={client.url} {ENV_PREFIX}TOKEN=…", err=True)


@people_app.command("revoke", epilog="Example: cc-orchestrator people revoke bob")
def people_revoke(
    name: Name,
    agent: Agent = False,
    yes: Yes = False,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Revoke all tokens of a person or an agent, at once.

    What they have open is closed. Before the last admin goes, or you yourself, it asks.
    """
    with client_of(url, data_dir) as client:
        _revoke(client, "agent" if agent else "person", name, as_json, yes)
    if not as_json:
        typer.echo("It holds from now on; connections that were open are closed.", err=True)


@people_app.command("away", epilog="Example: cc-orchestrator people away bob --to ann --for 72h")
def people_away(
    name: Name,
    to: Annotated[str, typer.Option("--to", metavar="NAME", help="Who decides meanwhile what they may decide.")],
    span: Annotated[str, typer.Option("--for", metavar="TIME", help="From now on, such as 8h or 72h; a week at most.")],
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Let another person decide while somebody is away.

    Everybody says it of themselves, an admin also of others. `people back NAME` ends it.
    """
    body = {"person": name, "to": to, "seconds": seconds(span)}
    with client_of(url, data_dir) as client:
        answer = client.request("POST", "/v1/away", body)
    if as_json:
        print_json(answer)
    else:
        typer.echo(f"{to} decides for {name} until {moment(answer['until'])}")


@people_app.command("back", epilog="Example: cc-orchestrator people back bob")
def people_back(name: Name, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Say that somebody is back: nobody decides for them."""
    with client_of(url, data_dir) as client:
        answer = client.request("POST", "/v1/away", {"person": name})
    if as_json:
        print_json(answer)
    else:
        typer.echo(f"nobody decides for {name}")


@token_app.command("computer")
def token_computer(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the computer here.")],
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Make a token for a computer; it is shown once."""
    with client_of(url, data_dir) as client:
        _add(client, {"kind": "computer", "name": name}, as_json)


@token_app.command("person")
def token_person(
    name: Name,
    role: Annotated[
        list[str] | None,
        typer.Option("--role", help="viewer, submitter, reviewer, admin, or one of the policy. Default: submitter."),
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Make a token for a person; it is shown once."""
    with client_of(url, data_dir) as client:
        _add(client, {"kind": "person", "name": name, "roles": role or ["submitter"]}, as_json)


@token_app.command("revoke")
def token_revoke(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="person, computer or agent.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose tokens, as `people list` or `computers` shows.")],
    yes: Yes = False,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Revoke all tokens of a person, a computer or an agent.

    Before the last admin's go, or your own, it asks.
    """
    with client_of(url, data_dir) as client:
        _revoke(client, kind, name, as_json, yes)


_AFTER = "The next start of `serve` writes a new admin.token into its data directory."
_AFTER_OWN = "The token that you use ends with it; another admin has to make you a new one."


def _away(away: Mapping[str, Any] | None) -> str:
    return f"{one_line(away['to'])} decides until {moment(away['until'])}" if away else "-"


def _tokens(client: "Client") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.request("GET", "/v1/tokens")["tokens"]
    return found


def _add(client: "Client", body: dict[str, Any], as_json: bool) -> None:
    made = client.request("POST", "/v1/tokens", body)
    print_json(made) if as_json else typer.echo(made["token"])
    if made.get("may") and not as_json:
        typer.echo(made["may"], err=True)


def _revoke(client: "Client", kind: str, name: str, as_json: bool, yes: bool) -> None:
    """Revoke; ``yes``: also where that shuts the way in, without asking. Raises InvalidRequest, typer.Exit."""
    found = _tokens(client) if kind == "person" else []
    last = _is_last_admin(found, name)
    own = any(one.get("yours") and one["name"] == name for one in found)
    if (last or own) and not yes and not _sure(name, last):
        typer.echo("Nothing was revoked.", err=True)
        raise typer.Exit(1)
    answer = client.request("DELETE", f"/v1/tokens/{as_segment(kind)}/{as_segment(name)}")
    if not answer["revoked"]:
        why = f"There is no token of {kind} {quoted(name)} to revoke."
        lists = {"person": "people list", "agent": "people list", "computer": "computers"}.get(kind)
        remedy = f"`cc-orchestrator {lists}` lists them." if lists else "The kinds are person, computer and agent."
        raise NotFound(why, remedy=remedy)
    print_json(answer) if as_json else typer.echo(f"revoked {answer['revoked']}")
    if programs := [one["name"] for one in found if one["owner"] == name and not one["revoked"]]:
        typer.echo(f"Programs of {quoted(name)} were revoked as well: {', '.join(map(quoted, programs))}.", err=True)
    if last:
        typer.echo(f"There is no admin now. {_AFTER}", err=True)


def _is_last_admin(tokens: list[dict[str, Any]], name: str) -> bool:
    admins = {
        one["name"] for one in tokens if one["kind"] == "person" and not one["revoked"] and "admin" in one["roles"]
    }
    return admins == {name}


def _sure(name: str, last: bool) -> bool:
    """Whether somebody at the terminal wants the way in shut. Raises InvalidRequest without a terminal."""
    what = f"{quoted(name)} is the only admin." if last else f"{quoted(name)} is who you are here."
    after = _AFTER if last else _AFTER_OWN
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidRequest(what, remedy=f"Say --yes to revoke it all the same. {after}")
    typer.echo(f"{what} {after}\nRevoke it? [y/N] ", nl=False, err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


# -- The command that connects a computer ------------------------------------------------

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
    owner: Annotated[str, typer.Option("--owner", metavar="PERSON", help="The person who owns it.")] = "",
    group: Annotated[str, typer.Option("--group", metavar="GROUP", help="A group that it belongs to.")] = "",
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
        pairing = client.request("POST", "/v1/pairings", {"computer": name, "label": label, **_owned(owner, group)})
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


def _owned(owner: str, group: str) -> dict[str, dict[str, str]]:
    """The owner as a body has it. Raises InvalidRequest."""
    if owner and group:
        raise InvalidRequest("A computer has one owner.", remedy="Name one of --owner and --group.")
    return {"owner": {"person": owner} if owner else {"group": group}} if owner or group else {}


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
    """The settings that the Minecraft server needs for the line to work: only its own file can say them."""
    host = urlsplit(url).hostname or ""
    if is_loopback(host):
        yield "It works where Minecraft runs on this machine; else see `serve --public-url`."
    if is_private(host):
        yield 'Minecraft refuses this address ("Domain not permitted") until this stands before the rule for "$private"'
        yield f"in {PLACE}:"
        yield from told("not_permitted", url).remedy[1:-1]
    yield f"If there is no program `wget` there, or it says that it requires the http API, set in {PLACE}:"
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
    """The effect of pairing on the computer that has the name already."""
    now = "is connected now" if online else "is known already"
    loses = "is disconnected and " if online else ""
    return (
        f"Computer {name} {now}. The computer on which the line is typed takes that name; "
        f"if it is another one, the present one {loses}needs a new line of its own."
    )


def _known(client: "Client") -> dict[str, bool]:
    """The computers that have a token, and whether each is connected."""
    return {one["computer"]: one["online"] for one in client.request("GET", "/v1/computers")["computers"]}
