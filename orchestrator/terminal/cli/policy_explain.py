"""A call as it is typed, and what the policy says of it: the two ends of `policy explain`."""

import json
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, get_args

import typer

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.reply.strict_json import doubled_key
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.cli.common import quoted

if TYPE_CHECKING:
    from pydantic import BaseModel

FAMILIES: Final = "computer, advanced, turtle, pocket or command"


def arguments_of(tool: str, values: Sequence[str], text: str) -> dict[str, Any]:
    """The call's arguments as they were typed. Raises InvalidRequest."""
    from orchestrator.core.reply.tool_args import ALL_TOOL_ARGS

    model = ALL_TOOL_ARGS.get(tool)
    given = _object(text) if text else {}
    said = set[str]()
    for one in values:
        name, equals, value = one.partition("=")
        if not (name and equals):
            raise InvalidRequest(f"{quoted(one)} is no KEY=VALUE.", remedy="Say it like path=startup.lua.")
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
        raise InvalidRequest("--args is no JSON object.", remedy=_AS_JSON)
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
            f"{name} is no text, and {quoted(text)} is not JSON.", remedy="""Say it like max_lines=5 or 'args=["a"]'."""
        ) from None


def family_of(name: str | None) -> str | None:
    """What kind of computer was named. Raises InvalidRequest where there is none of it."""
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
