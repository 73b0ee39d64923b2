"""The commands about people, programs and their tokens."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.settings import ENV_PREFIX
from orchestrator.terminal.cli.common import AsJson, DataDir, Url, as_segment, client_of, moment, print_json, quoted

if TYPE_CHECKING:
    from orchestrator.client import Client

people_app = typer.Typer(no_args_is_help=True, help="People, and agents: list them, add one, revoke one.")
token_app = typer.Typer(no_args_is_help=True, help="Tokens, for computers that are not paired and for scripts.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Up to 64 letters, digits, - _ and .")]
Yes = Annotated[bool, typer.Option("--yes", help="Also the last admin, or yourself, without asking.")]
Agent = Annotated[bool, typer.Option("--agent", help="A program, which may submit tasks and never decides.")]


@people_app.command("list", epilog="Example: cc-orchestrator people list --json")
def people_list(as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """List the people and the agents.

    Their roles, since when, and whether their tokens are good; never the tokens.
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
        )
        for one in found
    ]
    for line in table(("KIND", "NAME", "ROLES", "SINCE", "TOKEN"), rows, columns=Screen.of().columns):
        typer.echo(line)


@people_app.command("add", epilog="Example: cc-orchestrator people add bob --role submitter --role reviewer")
def people_add(
    name: Name,
    role: Annotated[
        list[str] | None,
        typer.Option(
            "--role",
            help="submitter, reviewer or admin; may be repeated. "
            "Default: submitter and reviewer; of an agent submitter.",
        ),
    ] = None,
    agent: Agent = False,
    owner: Annotated[
        str | None,
        typer.Option("--owner", metavar="NAME", help="Of an agent: whose tasks its tasks count as. Default: you."),
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


@token_app.command("computer")
def token_computer(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the computer is called here.")],
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
        typer.Option("--role", help="submitter, reviewer or admin; may be repeated. Default: submitter."),
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
    from orchestrator.client import ServerRefused

    answer = client.request("DELETE", f"/v1/tokens/{as_segment(kind)}/{as_segment(name)}")
    if not answer["revoked"]:
        why = f"There is no token of {kind} {quoted(name)} to revoke."
        raise ServerRefused(404, {"message": why, "remedy": "The kinds are person, computer and agent."})
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
