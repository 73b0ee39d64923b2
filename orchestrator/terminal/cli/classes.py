"""The commands for a class: begin one from a file, end it, and export what it did.

Theory. A class is nothing of its own on the server: people, a group, owners of computers, and a part of the policy
between two marks. So each step can be made again, and finds what is there already.
"""

import csv
import io
import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

import typer

from orchestrator.core.errors import Forbidden, InvalidRequest, NotFound, PolicyInvalid
from orchestrator.core.policy import parse_policy
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.cli.common import AsJson, DataDir, Url, as_segment, client_of, must_be_there, print_json

if TYPE_CHECKING:
    from orchestrator.client import Client

class_app = typer.Typer(no_args_is_help=True, help="A class: begin it from a file, end it, export what it did.")

TEACHER: Final = "teacher"
_TEACHER_MAY: Final = ("view", "submit", "decide", "freeze", "pair", "audit")
_KEYS: Final = frozenset({"group", "teachers", "students", "computers", "shared", "model", "hints", "limits", "rules"})
_LIMITS: Final = frozenset({"tasks", "tokens", "minutes", "running", "weight"})
_OVER: Final = "The class is over."

File = Annotated[Path, typer.Argument(metavar="FILE", help="A TOML file: docs/class.md says what it has.")]
OfGroup = Annotated[str, typer.Argument(metavar="GROUP", help="The group of the class, as its file names it.")]


@class_app.command("start", epilog="Example: cc-orchestrator class start class-7b.toml --tokens tokens.csv")
def start(
    file: File,
    tokens: Annotated[
        Path | None,
        typer.Option("--tokens", metavar="CSV", help="Write tokens and lines to this new file, not to the screen."),
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Make the people, the group, the computers and the part of the policy that a class needs. For admins.

    It prints a row for each person and computer: new tokens, which are shown this once, and lines to type on computers
    that are not paired yet, which are good for 15 minutes. Say it again at any time: it makes what is missing.
    """
    wanted, done = read_class(file), _Done()
    rows: list[dict[str, str]] = []
    with client_of(url, data_dir) as client:
        _must_be_admin(client, "class start")
        # Before anything is made: tokens are shown this once.
        into = None if tokens is None else _new_file(tokens)
        try:
            _begin(client, wanted, done, rows)
        finally:
            if as_json:
                print_json({"done": done.said, "rows": rows if into is None else []})
            for line in () if as_json else done.said:
                typer.echo(line, err=True)
            _hand_out(rows, into, shown=not as_json)


@class_app.command("stop", epilog="Example: cc-orchestrator class stop class-7b")
def stop(
    group: OfGroup,
    revoke: Annotated[
        bool, typer.Option("--revoke", help="Revoke the tokens of those in the group who only submit, as well.")
    ] = False,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """End a class: its people are frozen, and its part of the policy is taken out. For admins.

    Tasks, group and computers stay, for the export and for the next `class start`, which ends the freeze.
    """
    done = _Done()
    with client_of(url, data_dir) as client:
        _must_be_admin(client, "class stop")
        people = _people_of(client, group)
        client.request("POST", "/v1/freeze", {"group": group, "reason": _OVER})
        done.say(f"{len(people)} people of {group} are frozen; `cc-orchestrator unfreeze --group {group}` ends it.")
        _set_policy(client, group, "", done)
        for name in sorted(people) if revoke else ():
            held = [one for one in _persons(client) if one["name"] == name and not one["revoked"]]
            if held and all(set(one["roles"]) <= {"submitter", "viewer"} for one in held):
                client.request("DELETE", f"/v1/tokens/person/{as_segment(name)}")
                done.say(f"The tokens of {name} are revoked.")
    if as_json:
        print_json({"done": done.said})
    for line in () if as_json else done.said:
        typer.echo(line, err=True)


@class_app.command("export", epilog="Example: cc-orchestrator class export class-7b --out class-7b.zip")
def export(
    group: OfGroup,
    out: Annotated[Path, typer.Option("--out", metavar="ZIP", help="A file that is not there yet.")],
    since: Annotated[str, typer.Option(help="Only tasks from then on, such as 2026-11-20.")] = "",
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Write what each person of a group did into one archive: tasks, diffs, questions, time; as HTML and JSON.

    Secrets are masked. It takes the right `audit`, for a group of your own.
    """
    if out.exists():
        raise InvalidRequest(f"{one_line(str(out))} is there already.", remedy="Name a file that is not there yet.")
    with client_of(url, data_dir) as client:
        query = {"since": since} if since else {}
        content = client.download(f"/v1/groups/{as_segment(group)}/export", **query)
    out.write_bytes(content)
    typer.echo(f"{one_line(str(out))} has {len(content):,} bytes.", err=True)


class _Done:
    """What was done, as sentences."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, line: str) -> None:
        """One more."""
        self.said.append(one_line(line, limit=500))


# -- the file ----------------------------------------------------------------------------


def read_class(file: Path) -> dict[str, Any]:
    """The class that a file describes, with what it leaves out. Raises InvalidRequest, NotFound."""
    must_be_there(file)
    try:
        said: dict[str, Any] = tomllib.loads(file.read_text("utf-8"))
    except (ValueError, OSError) as error:
        raise InvalidRequest(f"{one_line(str(file))} cannot be read as TOML: {error}.", remedy="Fix it.") from None
    odd = sorted(said.keys() - _KEYS)
    limits = said.get("limits", {})
    odd += [f"limits.{name}" for name in sorted(limits.keys() - _LIMITS)] if isinstance(limits, dict) else ["limits"]
    if odd:
        raise InvalidRequest(f"{one_line(str(file))}: {odd[0]} is not known.", remedy="See docs/class.md.")
    whole = {"teachers": [], "students": [], "computers": "none", "shared": [], "model": "", "hints": False}
    wanted = {**whole, "limits": {}, "rules": [], **said}
    for name in ("teachers", "students", "shared", "rules"):
        if not isinstance(wanted[name], list):
            raise InvalidRequest(f"{one_line(str(file))}: {name} is a list.", remedy=f'Such as {name} = ["ann"].')
    if not isinstance(wanted.get("group"), str) or not wanted["group"] or not wanted["students"]:
        raise InvalidRequest(f"{one_line(str(file))} names no group or no students.", remedy="See docs/class.md.")
    if wanted["computers"] not in ("none", "each"):
        raise InvalidRequest(
            f'{one_line(str(file))}: computers is neither "each" nor "none".',
            remedy='"each": one for each student, of the same name. Shared ones are named in `shared`.',
        )
    _check_part(wanted, one_line(str(file)))
    return wanted


def _check_part(wanted: Mapping[str, Any], file: str) -> None:
    """Raises InvalidRequest for a wrong limit or rule: the server would name its own policy file."""
    try:
        part = policy_part(wanted)
    except TypeError:
        raise InvalidRequest(f"{file}: a limit or a rule has an odd value.", remedy="See docs/policy.md.") from None
    try:
        parse_policy(part if "[[rules]]" in part else f"rules = []\n{part}", source=file)
    except PolicyInvalid as error:
        raise InvalidRequest(error.message, remedy=error.remedy) from None


def policy_part(wanted: Mapping[str, Any]) -> str:
    """The part of the policy that a class adds, without its marks."""
    group = str(wanted["group"])
    quota = {**wanted["limits"], **({"model": wanted["model"]} if wanted["model"] else {})}
    lines = [f"[quotas.groups.{_toml(group)}]", *(f"{name} = {_toml(value)}" for name, value in quota.items())]
    rules = [{"groups": [group], **one} for one in wanted["rules"]]
    if wanted["hints"]:
        reason = "A class learns by trying."
        tools = ["cc_write", "cc_edit"]
        rules.append({"id": f"{group}-hints", "effect": "hint", "tools": tools, "groups": [group], "reason": reason})
    for one in rules:
        lines += ["", "[[rules]]", *(f"{name} = {_toml(value)}" for name, value in one.items())]
    return "\n".join(lines)


def with_part(policy: str, name: str, part: str) -> str:
    """A policy's text with the part between the marks of a name replaced; empty: taken out."""
    begin, end = f"# class {name}: begin, by `class start`\n", f"# class {name}: end\n"
    block = f"{begin}{part}\n{end}"
    before, found, rest = policy.partition(begin)
    after = rest.partition(end)[2]
    if not part:
        return f"{before.rstrip()}\n{after}" if found else policy
    return f"{before}{block}{after}" if found else f"{policy.rstrip()}\n\n{block}"


def _toml(value: Any) -> str:
    """A value as TOML writes it, in one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml(str(name))} = {_toml(one)}" for name, one in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


# -- what is made ------------------------------------------------------------------------


def _begin(client: "Client", wanted: Mapping[str, Any], done: _Done, rows: list[dict[str, str]]) -> None:
    """Make what is missing. ``rows``: gets one for each person and shared computer, each as soon as there is one."""
    group = str(wanted["group"])
    _set_policy(client, group, policy_part(wanted), done)
    people = [*wanted["teachers"], *wanted["students"]]
    for name, token in _people(client, wanted, done):
        role = TEACHER if name in wanted["teachers"] else "student"
        own = name if wanted["computers"] == "each" and role == "student" else ""
        rows.append({"name": name, "role": role, "token": token, "computer": own, "line": ""})
    client.request("POST", f"/v1/groups/{as_segment(group)}", {"add_people": people})
    done.say(f"The group {group} has {len(people)} people: {', '.join(people)}.")
    if any(one["name"] == f"group:{group}" and one["reason"] == _OVER for one in _freezes(client)):
        client.request("POST", "/v1/unfreeze", {"group": group})
        done.say(f"The group {group} is not frozen any more.")
    known = {one["computer"]: one for one in client.request("GET", "/v1/computers")["computers"]}
    for row in [one for one in rows if one["computer"]]:
        row["line"] = _computer(client, known, row["computer"], {"person": row["name"]}, done)
    for name in wanted["shared"]:
        line = _computer(client, known, name, {"group": group}, done)
        rows.append({"name": "", "role": "shared", "token": "", "computer": name, "line": line})


def _set_policy(client: "Client", group: str, part: str, done: _Done) -> None:
    shown = client.request("GET", "/v1/policy")
    text = shown.get("text")
    if text is None:
        raise InvalidRequest("The server does not show you its policy.", remedy="This takes the role admin.")
    after = with_part(text, group, part)
    if part and TEACHER not in shown["policy"]["roles"]:
        after = with_part(after, "roles", f"[roles.{TEACHER}]\nmay = {_toml(list(_TEACHER_MAY))}")
    if after == text:
        return
    client.request("POST", "/v1/policy", {"policy": after})
    done.say(f"The policy {'has' if part else 'lacks'} the part of class {group} now.")


def _people(client: "Client", wanted: Mapping[str, Any], done: _Done) -> Iterator[tuple[str, str]]:
    """Each person; with a token where the person is new, else with an empty one."""
    held = {one["name"]: one for one in _persons(client) if not one["revoked"]}
    for name in (*wanted["teachers"], *wanted["students"]):
        role = TEACHER if name in wanted["teachers"] else "submitter"
        if name not in held:
            yield name, client.request("POST", "/v1/tokens", {"kind": "person", "name": name, "roles": [role]})["token"]
            done.say(f"{name} is new, with the role {role}.")
            continue
        yield name, ""
        if role == TEACHER and not {TEACHER, "admin"} & set(held[name]["roles"]):
            roles = ", ".join(held[name]["roles"])
            done.say(f"{name} has a token with the roles {roles}, and so is no teacher: revoke it, and say it again.")


def _computer(client: "Client", known: Mapping[str, Any], name: str, owner: Mapping[str, str], done: _Done) -> str:
    """Give a computer its owner; the line to type there, empty: it is paired already."""
    if name not in known:
        line = client.request("POST", "/v1/pairings", {"computer": name, "owner": owner})["line"]
        done.say(f"The computer {name} is not paired yet: type its line there.")
        return str(line)
    belongs = owner.get("person") or f"group {owner['group']}"
    if known[name]["belongs_to"] != belongs:
        client.request("POST", f"/v1/computers/{as_segment(name)}/owner", dict(owner))
        done.say(f"The computer {name} belongs to {belongs} now.")
    return ""


def _persons(client: "Client") -> list[dict[str, Any]]:
    return [one for one in client.request("GET", "/v1/tokens")["tokens"] if one["kind"] == "person"]


def _freezes(client: "Client") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.request("GET", "/v1/freezes")["freezes"]
    return found


def _people_of(client: "Client", group: str) -> list[str]:
    """The people of a group. Raises NotFound."""
    for one in client.request("GET", "/v1/groups")["groups"]:
        if one["name"] == group:
            return list(one["people"])
    raise NotFound(f"There is no group {one_line(group)}.", remedy="`cc-orchestrator groups` lists them.")


def _must_be_admin(client: "Client", command: str) -> None:
    """Raises Forbidden before half of it is done."""
    if "everything" not in client.request("GET", "/v1/whoami")["rights"]:
        raise Forbidden(f"`{command}` changes the policy.", remedy="This takes the role admin.")


def _new_file(file: Path) -> TextIO:
    """A new file that only its owner reads. Raises InvalidRequest."""
    try:
        return open(file, "x", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600))
    except FileExistsError:
        raise InvalidRequest(
            f"{one_line(str(file))} is there already.", remedy="Name a file that is not there yet."
        ) from None
    except OSError as error:
        raise InvalidRequest(
            f"{one_line(str(file))} cannot be written: {error.strerror}.", remedy="Name a file that you may write."
        ) from None


def _hand_out(rows: Sequence[Mapping[str, str]], into: TextIO | None, *, shown: bool) -> None:
    """The rows as CSV: into a file, else on standard output where they are to be ``shown``."""
    text = io.StringIO()
    table = csv.DictWriter(text, ("name", "role", "token", "computer", "line"), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    if into is not None:
        with into:
            into.write(text.getvalue())
        typer.echo(f"Tokens and lines are in {one_line(into.name)}, and nowhere else.", err=True)
    elif shown:
        typer.echo(text.getvalue(), nl=False)
