"""The commands about groups, freezes, owners of computers, and oneself."""

from collections.abc import Sequence
from typing import Annotated

import typer

from orchestrator.core.errors import InvalidRequest
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

groups_app = typer.Typer(invoke_without_command=True, help="Groups of people and computers: list, fill, remove them.")

Name = Annotated[str, typer.Argument(metavar="GROUP", help="Up to 64 letters, digits, - _ and .")]
People = Annotated[list[str] | None, typer.Argument(metavar="PERSON…", help="As `people list` shows them.")]
Computers = Annotated[list[str] | None, typer.Option("--computer", help="A computer; may be repeated.")]


@groups_app.callback()
def groups(context: typer.Context, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """List your groups; as an admin, all of them."""
    if not is_alone(context):
        return
    from orchestrator.terminal.output import Screen, table

    with client_of(url, data_dir) as client:
        found = client.request("GET", "/v1/groups")["groups"]
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo("There are no groups. `cc-orchestrator groups add NAME PERSON…` makes one.", err=True)
        return
    rows = [(one_line(one["name"]), _listed(one["people"]), _listed(one["computers"])) for one in found]
    for line in table(("GROUP", "PEOPLE", "COMPUTERS"), rows, columns=Screen.of().columns):
        typer.echo(line)


@groups_app.command("add", epilog="Example: cc-orchestrator groups add class-7b ann bob --computer farm")
def add(
    name: Name,
    people: People = None,
    computer: Computers = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Put people and computers into a group; the first ones make it. For admins.

    Reviewers and viewers of a group see what its other people do. All of its people may use its computers.
    """
    _change(name, {"add_people": people or [], "add_computers": computer or []}, as_json, url, data_dir)


@groups_app.command("remove", epilog="Example: cc-orchestrator groups remove class-7b bob")
def remove(
    name: Name,
    people: People = None,
    computer: Computers = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Take people and computers out of a group. For admins."""
    _change(name, {"remove_people": people or [], "remove_computers": computer or []}, as_json, url, data_dir)


@groups_app.command("delete", epilog="Example: cc-orchestrator groups delete class-7b")
def delete(name: Name, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Remove a group: nobody is in it any more. For admins."""
    with client_of(url, data_dir) as client:
        done = client.request("DELETE", f"/v1/groups/{as_segment(name)}")
    print_json(done) if as_json else typer.echo(f"The group {quoted(name)} is gone.", err=True)


def _change(name: str, body: dict[str, list[str]], as_json: bool, url: str | None, data_dir: DataDir) -> None:
    if not any(body.values()):
        raise InvalidRequest("Nobody and nothing was named.", remedy="Name people, or a computer with --computer NAME.")
    with client_of(url, data_dir) as client:
        done = client.request("POST", f"/v1/groups/{as_segment(name)}", body)
    if as_json:
        print_json(done)
        return
    typer.echo(
        f"The group {quoted(name)} has the people {_listed(done['people'])} and the computers "
        f"{_listed(done['computers'])}.",
        err=True,
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(one_line, names)) or "-"


def owner(
    name: Annotated[str, typer.Argument(metavar="COMPUTER", help="As `computers` lists it.")],
    person: Annotated[str, typer.Argument(metavar="PERSON", help="The person who owns it from now on.")] = "",
    group: Annotated[str, typer.Option(help="A group that it belongs to, in place of a person.")] = "",
    nobody: Annotated[bool, typer.Option("--nobody", help="It belongs to nobody.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Give a computer to a person or a group. For admins.

    They see and use it, with the reviewers of their groups and the admins. A computer that belongs to nobody is for all
    people who are in no group.
    """
    if sum(map(bool, (person, group, nobody))) != 1:
        raise InvalidRequest("A computer has one owner.", remedy="Name a PERSON, or --group NAME, or --nobody.")
    body = {"person": person or None, "group": group or None}
    with client_of(url, data_dir) as client:
        done = client.request("POST", f"/v1/computers/{as_segment(name)}/owner", body)
    whose = f"the group {quoted(group)}" if group else quoted(person) if person else "nobody"
    print_json(done) if as_json else typer.echo(f"Computer {quoted(name)} belongs to {whose}.", err=True)


Frozen = Annotated[str, typer.Argument(metavar="PERSON", help="As `people list` shows them.")]
OfGroup = Annotated[str, typer.Option("--group", metavar="GROUP", help="All people of a group.")]
All = Annotated[bool, typer.Option("--all", help="Everybody. For admins.")]


def freeze(
    person: Frozen = "",
    group: OfGroup = "",
    everybody: All = False,
    reason: Annotated[str, typer.Option(help="Why: they read it with each of their tasks.")] = "",
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Freeze a person, a group or everybody; without a name, list the freezes.

    Nothing of theirs starts, nobody decides what their tasks ask, and their programs stop. The tasks are not canceled:
    they go on after `unfreeze`. It takes the right `freeze`, for people of your own groups.
    """
    if not (person or group or everybody):
        _list_freezes(as_json, url, data_dir)
        return
    with client_of(url, data_dir) as client:
        done = client.request("POST", "/v1/freeze", _named(person, group, everybody) | {"reason": reason})
    many = f"{done['tasks']} open task{'s wait' if done['tasks'] != 1 else ' waits'}"
    told = f"{one_line(done['whom'])} is frozen; {many}. `cc-orchestrator unfreeze` ends it."
    print_json(done) if as_json else typer.echo(told, err=True)


def unfreeze(
    person: Frozen = "",
    group: OfGroup = "",
    everybody: All = False,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """End a freeze: the tasks go on where they were."""
    with client_of(url, data_dir) as client:
        done = client.request("POST", "/v1/unfreeze", _named(person, group, everybody))
    state = "is not frozen any more" if done["ended"] else "was not frozen by this name; `cc-orchestrator freeze` lists"
    if as_json:
        print_json(done)
        return
    typer.echo(f"{one_line(done['whom'])} {state}.", err=True)
    if still := done.get("still"):
        typer.echo(f"A freeze of {one_line(still['whom'])} by {one_line(still['by'])} still holds.", err=True)


def _named(person: str, group: str, everybody: bool) -> dict[str, object]:
    if sum(map(bool, (person, group, everybody))) != 1:
        raise InvalidRequest("One person, group or all was to be named.", remedy="Name PERSON, --group NAME or --all.")
    return {"everybody": True} if everybody else {"group": group} if group else {"person": person}


def _list_freezes(as_json: bool, url: str | None, data_dir: DataDir) -> None:
    from orchestrator.terminal.output import Screen, table

    with client_of(url, data_dir) as client:
        found = client.request("GET", "/v1/freezes")["freezes"]
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo("Nobody is frozen.", err=True)
        return
    rows = [(one_line(one["whom"]), one_line(one["by"]), one["at"][:16], one_line(one["reason"])) for one in found]
    for line in table(("WHO", "BY", "SINCE", "REASON"), rows, columns=Screen.of().columns):
        typer.echo(line)


def whoami(as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Show who you are here, what you may do, and whether you are frozen or away."""
    with client_of(url, data_dir) as client:
        found = client.request("GET", "/v1/whoami")
    if as_json:
        print_json(found)
        return
    kind = "a program" if found["kind"] == "agent" else "a person"
    typer.echo(f"{quoted(found['name'])}, {kind} with the roles {_listed(found['roles'])}")
    typer.echo(f"groups: {_listed(found['groups'])}")
    typer.echo(one_line(found["may"], limit=1000))
    if freeze := found.get("freeze"):
        why = f": {one_line(freeze['reason'])}" if freeze["reason"] else ""
        whole = "" if freeze["whom"] == found["name"] else f", with {one_line(freeze['whom'])}"
        typer.echo(f"frozen: by {one_line(freeze['by'])}{whole} since {moment(freeze['at'])}{why}")
    if away := found.get("away"):
        typer.echo(f"away: {one_line(away['to'])} decides for you until {moment(away['until'])}")
    if others := found.get("decides_for"):
        typer.echo(f"decides for: {_listed(others)}, who {'is' if len(others) == 1 else 'are'} away")
