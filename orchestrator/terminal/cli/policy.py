"""The policy on the command line: check a file, ask what it says of a call, look at what is in force."""

import json
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import typer

from orchestrator.core.errors import InvalidRequest, NotFound, OrchestratorError, PolicyInvalid
from orchestrator.core.reply.scanner import doubled_key
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.program import ENV_PREFIX
from orchestrator.terminal.cli.common import (
    AsJson,
    DataDir,
    Url,
    client_of,
    complain,
    must_be_there,
    print_json,
    quoted,
    settings_of,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

    from orchestrator.runtime.policy_file import LoadedPolicy

# -- A call as it is typed, and what the policy says of it: the two ends of `policy explain`

FAMILIES: Final = "computer, advanced, turtle, pocket or command"


def arguments_of(tool: str, values: Sequence[str], text: str) -> dict[str, Any]:
    """The call's arguments as they were typed. Raises InvalidRequest."""
    from orchestrator.core.policy.tool_args import ALL_TOOL_ARGS

    model = ALL_TOOL_ARGS.get(tool)
    given = _object(text) if text else {}
    said = set[str]()
    for one in values:
        name, equals, value = one.partition("=")
        if not (name and equals):
            raise InvalidRequest(f"{quoted(one)} is not a KEY=VALUE.", remedy="Say it like path=startup.lua.")
        if name in said:
            raise InvalidRequest(f"{quoted(name)} is said twice.", remedy="Say it once.")
        said.add(name)
        given[name] = _value(model, name, value)
    if model is None:
        return given
    odd = next((name for name in given if name not in model.model_fields), None)
    if odd is not None:
        remedy = f"It has: {', '.join(model.model_fields)}."
        raise InvalidRequest(f"{tool} has no argument {quoted(odd)}.", remedy=remedy)
    missing = [name for name, field in model.model_fields.items() if field.is_required() and name not in given]
    if missing:
        typer.echo(f"A call of {tool} also has {' and '.join(missing)}: rules may say more then.", err=True)
    return given


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except RecursionError:
        raise InvalidRequest("--args is JSON that nobody can read.", remedy=_AS_JSON) from None
    except ValueError as error:
        raise InvalidRequest(f"--args is not JSON: {error}.", remedy=_AS_JSON) from None
    if (key := doubled_key(text)) is not None:
        raise InvalidRequest(f"--args has the key {quoted(key)} twice.", remedy="Say it once.")
    if not isinstance(found, dict):
        raise InvalidRequest("--args is not a JSON object.", remedy=_AS_JSON)
    return found


_AS_JSON = """Say it like --args '{"path": "startup.lua"}'."""


def _value(model: "type[BaseModel] | None", name: str, text: str) -> Any:
    """A value as the tool takes it: as typed where that is text, else as JSON."""
    field = model.model_fields.get(name) if model is not None else None
    kind: Any = field.annotation if field is not None else str
    if kind is str or (isinstance(kind, UnionType) and str in get_args(kind)):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidRequest(
            f"{name} is not text, and {quoted(text)} is not JSON.",
            remedy="""Say it like max_lines=5 or 'args=["a"]'.""",
        ) from None


def family_of(name: str | None) -> str | None:
    """The kind of computer that was named. Raises InvalidRequest where there is none of it."""
    from orchestrator.core.policy import Family

    if name is not None and name not in get_args(Family):
        raise InvalidRequest(f"There is no kind of computer {quoted(name)}.", remedy=f"Say {FAMILIES}.")
    return name


def print_explanation(found: Mapping[str, Any]) -> None:
    """The verdict, and what each rule had to do with it."""
    from orchestrator.terminal.output import Screen, table

    typer.echo(f"verdict  {found['effect']}")
    typer.echo(f"risk     {found['risk']}")
    typer.echo(f"reason   {one_line(found['reason'], limit=2000)}")
    if (approval := found.get("approval")) is not None:
        typer.echo(f"approval {one_line(approval['told'], limit=2000)}")
    typer.echo(f"policy   {one_line(found['policy_version'])}{', in plan mode' if found['plan'] else ''}")
    rows = [
        (str(rule["number"]), one_line(rule["id"]), rule["effect"], rule["outcome"], _missed(rule))
        for rule in found["rules"]
    ]
    rows += [
        ("-", one_line(one["id"]), one["verdict"]["effect"] or "-", "said", one_line(one["verdict"]["reason"]) or "-")
        for one in found["custom"]
    ]
    for line in table(("#", "RULE", "EFFECT", "OUTCOME", "MISSED"), rows, columns=Screen.of().columns):
        typer.echo(line)


def _missed(rule: Mapping[str, Any]) -> str:
    missed = str(rule["missed"] or "-")
    return f"{missed}, not known yet" if rule["outcome"] == "possible" else missed


# -- The policy on the command line: check a file, ask what it says of a call, look at what is in force

policy_app = typer.Typer(no_args_is_help=True, help="The policy: check a file, ask what it says of a call.")


@policy_app.command("check", epilog="Example: cc-orchestrator policy check new-policy.toml")
def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Default: the file that `serve` would load.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Check a policy file; it needs no server.

    Its plugins and its examples are checked, too. Exits with 1 where `serve` would refuse it, and says why.
    """
    from orchestrator.core.policy import tools_without_a_rule
    from orchestrator.terminal.output import counted

    if file is not None:
        must_be_there(file, "The policy")
    loaded = _load(file or _path_of(data_dir))
    policy = loaded.policy
    unnamed = tools_without_a_rule(rule.tools for rule in policy.rules)
    if as_json:
        print_json(
            {
                "file": loaded.source,
                "tools_without_a_rule": list(unnamed),
                "policy_version": policy.version,
                "mode": policy.mode,
                "undo": policy.undo,
                "rules": len(policy.rules),
                "examples": len(policy.examples),
                "custom": list(policy.custom),
            }
        )
        return
    parts = [f"version {policy.version}", counted(len(policy.rules), "rule"), counted(len(policy.examples), "example")]
    if policy.custom:
        parts.append(f"{'plugin' if len(policy.custom) == 1 else 'plugins'} {one_line(' and '.join(policy.custom))}")
    if policy.mode == "plan":
        parts.append("plan mode, in which nothing may be changed")
    if policy.undo == "auto":
        parts.append("changes of failed tasks are put back by themselves")
    typer.echo(f"{one_line(loaded.source, limit=1000)} is in order: {', '.join(parts)}.")
    _print_gaps(unnamed)
    _print_roles(((rule.id, rule.roles or ()) for rule in policy.rules), policy.roles)


@policy_app.command(
    "explain", epilog="Example: cc-orchestrator policy explain cc_write path=startup.lua content=hi --computer farm"
)
def explain(  # noqa: PLR0913, PLR0917 - one parameter for each flag
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="Such as cc_write.")],
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Its arguments; a value that is not text is written as JSON."),
    ] = None,
    args: Annotated[str, typer.Option("--args", metavar="JSON", help="Its arguments as one JSON object.")] = "",
    computer: Annotated[str | None, typer.Option(help="The computer that it is for.")] = None,
    family: Annotated[str | None, typer.Option(help=f"The kind of the computer: {FAMILIES}.")] = None,
    label: Annotated[str | None, typer.Option(help="The computer's label.")] = None,
    program: Annotated[str | None, typer.Option(help="The path of the program that it resolves to.")] = None,
    role: Annotated[list[str] | None, typer.Option(help="A role of the requester; may be repeated.")] = None,
    person: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="PERSON",
            help="The requester, with the roles and groups that they have now.",
        ),
    ] = None,
    group: Annotated[list[str] | None, typer.Option(help="A group of the requester; may be repeated.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="The task is read-only.")] = False,
    policy: Annotated[
        Path | None, typer.Option(help="Ask this file, without a server. Default: the active policy.")
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Say what the policy says of a call, and why; nothing runs.

    A rule is `matched`, `no`, or `possible` while something is not known yet; beside it stands the first
    predicate that missed. The server knows its computers; where none answers, the data directory's file is asked.
    """
    given = arguments_of(tool, values or (), args)
    if (named := given.pop("computer", None)) is not None and computer is None:
        # The gate takes it out of a call's arguments, too.
        computer = str(named)
    known = {
        "computer": computer,
        "family": family_of(family),
        "label": label,
        "program": program,
        "roles": role,
        "user": person,
        "groups": group,
        "plan": plan or None,
    }
    known = {name: value for name, value in known.items() if value is not None}
    if policy is not None:
        must_be_there(policy, "The policy")
    found = (
        _of_file(policy, tool, given, known)
        if policy is not None
        else _of_server(tool, given, known, url=url, data_dir=data_dir)
    )
    if as_json:
        print_json(found)
    elif found["reason"].startswith("No such tool: "):
        what, _, tools = found["reason"].partition(". ")
        raise NotFound(f"{what}.", remedy=tools)
    else:
        print_explanation(found)


@policy_app.command("show", epilog="Example: cc-orchestrator policy show --json")
def show(as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Show the active policy.

    Where a node's own file is not what is in force, or a node cannot use what is, an alert says why.
    """
    from orchestrator.core.policy import RoleRights, tools_without_a_rule
    from orchestrator.terminal.output import Screen, table

    with client_of(url, data_dir) as client:
        found = client.request("GET", "/v1/policy")
    if as_json:
        print_json(found)
        return
    typer.echo(f"version  {one_line(found['policy_version'])}")
    typer.echo(f"from     {one_line(found['source'], limit=1000)}")
    typer.echo(f"mode     {one_line(found['mode'])}")
    typer.echo(f"undo     {one_line(found['policy'].get('undo', 'offer'))}")
    secrets = found["policy"].get("secrets_to_model") or "mask for hosted models, allow for local ones"
    typer.echo(f"secrets  {secrets} (secrets_to_model)")
    if found["alert"]:
        typer.echo(f"alert    {one_line(found['alert'], limit=2000)}")
    rows = [
        (
            str(number),
            one_line(rule["id"]),
            rule["effect"],
            ", ".join(name for name in _NARROWING if rule.get(name)) or "-",
            one_line(", ".join(rule["tools"]), limit=1000),
        )
        for number, rule in enumerate(found["policy"]["rules"], start=1)
    ]
    for line in table(("#", "RULE", "EFFECT", "LOOKS AT", "TOOLS"), rows, columns=Screen.of().columns):
        typer.echo(line)
    _print_gaps(tools_without_a_rule(rule["tools"] for rule in found["policy"]["rules"]))
    for number, one in enumerate(found["policy"].get("approvals") or (), start=1):
        typer.echo(f"approval {number}: {_approval(one)}")
    for name, one in (found["policy"].get("roles") or {}).items():
        typer.echo(f"role {one_line(name)} may {', '.join(one['may'])}{one_line(str(RoleRights.model_validate(one)))}")
    rules = ((rule["id"], rule.get("roles") or ()) for rule in found["policy"]["rules"])
    _print_roles(rules, found["policy"].get("roles") or ())
    _print_warnings(found)


def _approval(table: Mapping[str, Any]) -> str:
    """A table `[[approvals]]`: its people, and the calls that it is about."""
    from orchestrator.core.approval.workflow import Workflow, told_workflow

    parts = {name: table[name] for name in ("steps", "escalate_after_s", "escalate_to") if table.get(name)}
    calls = "; ".join(f"{name} {', '.join(values)}" for name, values in table.get("when", {}).items() if values)
    return one_line(f"{told_workflow(Workflow(**parts))} For calls of {calls}.", limit=1000)


def _print_gaps(tools: Sequence[str]) -> None:
    """The effects on tools that the file does not name, such as tools that are newer than it."""
    from orchestrator.core.policy import told_of_gaps

    for line in told_of_gaps(tools):
        typer.echo(line)


def _print_roles(rules: Iterable[tuple[str, Sequence[str]]], own: Iterable[str]) -> None:
    """Rules that look at the requester and match nobody."""
    from orchestrator.core.policy import told_of_roles

    for line in told_of_roles(rules, own):
        typer.echo(one_line(line, limit=1000))


def _print_warnings(found: Mapping[str, Any]) -> None:
    """What the policy asks of more people than there are."""
    for line in found.get("warnings") or ():
        typer.echo(f"Too few people: {one_line(line, limit=1000)}")


@policy_app.command("reload", epilog="Example: cc-orchestrator policy reload")
def reload(as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Load the policy's file now; for admins.

    A changed file is noticed within seconds anyway. Exits with 1 when the file cannot be loaded: the policy
    before it stays in force.
    """
    with client_of(url, data_dir) as client:
        found = client.request("POST", "/v1/policy/reload", {})
    if as_json:
        print_json(found)
    elif not found["alert"]:
        typer.echo(f"Policy {one_line(found['policy_version'])} is in force.")
        _print_warnings(found)
    if found["alert"]:
        version = one_line(found["policy_version"])
        complain(InvalidRequest(found["alert"], remedy=f"Policy {version} stays in force meanwhile."))
        raise typer.Exit(1)


@policy_app.command("apply", epilog="Example: cc-orchestrator policy apply new-policy.toml")
def apply(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="`policy check FILE` says whether it can be used.")],
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Put a policy into force, on all nodes.

    It is checked as at a start, and one that cannot be loaded changes nothing. A server alone on its store writes it
    into its own policy file; where several share one, their files stay as they are, and `policy show` of a node says
    which differ.
    """
    must_be_there(file, "The policy")
    try:
        text = file.read_text("utf-8")
        # The server names its own file, which is not the one that is wrong.
        tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise InvalidRequest(f"{quoted(str(file))} cannot be read: {why}.", remedy="Name a policy file.") from None
    except tomllib.TOMLDecodeError as error:
        why = one_line(str(error))
        raise InvalidRequest(f"{quoted(str(file))} is not TOML: {why}.", remedy="Fix it, and apply it again.") from None
    with client_of(url, data_dir) as client:
        found = client.request("POST", "/v1/policy", {"policy": text})
    if as_json:
        print_json(found)
        return
    typer.echo(f"Policy {one_line(found['policy_version'])} is in force.")
    _print_warnings(found)
    if found["alert"]:
        typer.echo(one_line(found["alert"], limit=2000), err=True)


_NARROWING = (
    *("paths", "programs", "computers", "families", "labels", "args"),
    *("roles", "users", "groups", "owners", "risks"),
)
"""The conditions of a rule beside the tool."""


# -- a file, without a server ------------------------------------------------------------


def _path_of(data_dir: Path | None) -> Path:
    """The file that `serve` would load."""
    return settings_of(data_dir=data_dir).policy_path


def _load(path: Path) -> "LoadedPolicy":
    """A policy file as `serve` loads it; exits with 1 where it refuses it."""
    from orchestrator.runtime.policy_file import load_file

    try:
        return load_file(path)
    except PolicyInvalid as error:
        complain(error)
        raise typer.Exit(1) from None


def _of_file(path: Path, tool: str, given: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says of a call, in the form of the server's answer."""
    from orchestrator.core.policy import FunctionCall, PolicyContext, explain

    loaded = _load(path)
    explained = explain(
        FunctionCall(tool=tool, args=dict(given)),
        policy=loaded.policy,
        context=PolicyContext(**known),
        custom=loaded.custom,
    )
    return {
        **explained.decision.model_dump(mode="json"),
        **explained.model_dump(mode="json", exclude={"decision"}),
    }


def _of_server(
    tool: str, given: Mapping[str, Any], known: Mapping[str, Any], *, url: str | None, data_dir: Path | None
) -> Any:
    """What the active policy says; where no server is named and none answers, the data directory's file."""
    try:
        with client_of(url, data_dir) as client:
            return client.request("POST", "/v1/policy/dry-run", {"tool": tool, "args": given, **known})
    except OrchestratorError as error:
        if error.code == "server_refused" or url or os.environ.get(f"{ENV_PREFIX}URL"):
            raise
        path = _path_of(data_dir)
        if not path.exists():
            raise
        typer.echo(one_line(f"{error.message} So {path} is asked.", limit=1000), err=True)
        return _of_file(path, tool, given, known)
