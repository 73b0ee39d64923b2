"""The commands about notifications: the rules, and what became of messages."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final, get_args

import typer

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.task.system_facts import Notable
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.cli.common import AsJson, DataDir, Url, as_segment, client_of, is_alone, print_json, quoted

notifications_app = typer.Typer(
    invoke_without_command=True, help="Messages elsewhere: what became of them, and the rules that send them."
)

KINDS: Final[tuple[str, ...]] = get_args(Notable)
Name = Annotated[str, typer.Argument(metavar="RULE", help="Up to 64 letters, digits, - _ and .")]
Person = Annotated[str, typer.Option("--person", help="A rule of this person in place of yours; for admins.")]
Installation = Annotated[bool, typer.Option("--installation", help="A rule of the installation; for admins.")]


@notifications_app.callback()
def notifications(context: typer.Context, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Show what became of messages by your rules; as an admin, by all."""
    if not is_alone(context):
        return
    with client_of(url, data_dir) as client:
        found = client.request("GET", "/v1/notifications")["notifications"]
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo("There are no messages. `cc-orchestrator notifications add` adds a rule that sends some.", err=True)
        return
    rows = [
        (
            one["at"][:19].replace("T", " "),
            one["kind"],
            _whose(one, one["rule"]),
            one["state"],
            str(one["attempts"]),
            one_line(one["why"]),
        )
        for one in found
    ]
    _print(("AT (UTC)", "WHAT", "RULE", "STATE", "TRIED", "WHY"), rows)


@notifications_app.command("list")
def list_rules(as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """List your notification rules; as an admin, all of them. Addresses are never shown whole."""
    with client_of(url, data_dir) as client:
        found = client.request("GET", "/v1/notifications/rules")["rules"]
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo("There are no rules. `cc-orchestrator notifications add` adds one.", err=True)
        return
    rows = [
        (_whose(one, one["name"]), ", ".join(one["kinds"]), one_line(one["to"]), _quiet(one["quiet"]), _details(one))
        for one in found
    ]
    _print(("RULE", "TELLS", "TO", "QUIET", "DETAILS"), rows)


@notifications_app.command(
    "add", epilog="Example: cc-orchestrator notifications add phone --on waits_for_you --on failed --quiet 22:00-07:00"
)
def add(
    name: Name,
    on: Annotated[list[str], typer.Option("--on", help="waits_for_you, question, failed, frozen, finished; repeat.")],
    to: Annotated[str, typer.Option("--to", help="The address; you are asked for it. `-`: a line of input.")] = "",
    quiet: Annotated[str, typer.Option(help="Hours without messages, such as `22:00-07:00 Europe/Berlin`.")] = "",
    details: Annotated[bool, typer.Option("--details", help="With texts and diffs, secrets masked.")] = False,
    person: Person = "",
    installation: Installation = False,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Add a rule that sends messages elsewhere.

    The address is that of a webhook (https://…) or a URL of apprise (discord://…, mailtos://…). It is a secret: type it
    where it is asked for, so that it is in no history of your shell.
    """
    if odd := sorted(set(on) - set(KINDS)):
        raise InvalidRequest(f"No message is about {quoted(odd[0])}.", remedy=f"Use --on with {', '.join(KINDS)}.")
    hours, _, zone = quiet.strip().partition(" ")
    begin, _, end = hours.partition("-")
    body = {
        **_named(name, person, installation),
        "kinds": on,
        "url": _address(to),
        "quiet": {"begin": begin, "end": end, "zone": zone.strip() or "UTC"} if quiet else None,
        "details": details,
    }
    with client_of(url, data_dir) as client:
        made = client.request("POST", "/v1/notifications/rules", body)
    if as_json:
        print_json(made)
        return
    typer.echo(f"The rule {quoted(name)} tells {', '.join(made['kinds'])} to {one_line(made['to'])}.", err=True)
    if made["signing_key"]:
        typer.echo("Its webhooks are signed with this key, which is shown only now:", err=True)
        typer.echo(made["signing_key"])
    typer.echo(f"`cc-orchestrator notifications test {name}` sends a test.", err=True)


@notifications_app.command("remove", epilog="Example: cc-orchestrator notifications remove phone")
def remove(
    name: Name,
    person: Person = "",
    installation: Installation = False,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Remove a rule; its address is forgotten, and nothing more is sent by it."""
    said = f"?person={as_segment(person)}" if person else "?installation=true" if installation else ""
    with client_of(url, data_dir) as client:
        done = client.request(
            "DELETE", f"/v1/notifications/rules/{as_segment(name)}{'?' if said else ''}{''.join(said)}"
        )
    print_json(done) if as_json else typer.echo(f"The rule {quoted(name)} is gone.", err=True)


@notifications_app.command("test", epilog="Example: cc-orchestrator notifications test phone")
def send_test(
    name: Name,
    person: Person = "",
    installation: Installation = False,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Send a test message by a rule, at once; it ends with 1 where it was not taken."""
    with client_of(url, data_dir) as client:
        done = client.request("POST", "/v1/notifications/test", _named(name, person, installation))
    if as_json:
        print_json(done)
    else:
        typer.echo(
            "The test message was taken." if done["delivered"] else one_line(done["message"], limit=500), err=True
        )
    if not done["delivered"]:
        raise typer.Exit(1)


def _named(name: str, person: str, installation: bool) -> dict[str, Any]:
    return {"name": name, "person": person or None, "installation": installation}


def _address(to: str) -> str:
    """The address of a rule: as it was given, as a line of the input, or as somebody types it unseen."""
    if to not in ("", "-"):
        return to
    found = sys.stdin.readline() if to == "-" or not sys.stdin.isatty() else typer.prompt("Address", hide_input=True)
    if not found.strip():
        raise InvalidRequest("No address came.", remedy="Type it, or write it to the input of this command.")
    return str(found).strip()


def _whose(row: dict[str, Any], name: str) -> str:
    return f"{one_line(row['person'] or 'installation')}: {one_line(name)}"


def _quiet(quiet: dict[str, str] | None) -> str:
    return f"{quiet['begin']}-{quiet['end']} {one_line(quiet['zone'])}" if quiet else "-"


def _details(rule: dict[str, Any]) -> str:
    return "yes" if rule["details"] else "no"


def _print(head: tuple[str, ...], rows: Sequence[Sequence[str]]) -> None:
    from orchestrator.terminal.output import Screen, table

    for line in table(head, rows, columns=Screen.of().columns):
        typer.echo(line)
