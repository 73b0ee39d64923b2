"""The JSON schema of a reply: it says exactly what the reader takes, in words that the engine keeps."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.reply.response import TOOL_ARGS, FinalResult, ToolRequest, read_reply
from orchestrator.core.reply.schema import built_in_schema, reply_schema
from tests import ROOT

SCHEMA = reply_schema()
PRINTABLE = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), max_size=12)
ALONE = {"anyOf", "$ref"}
KNOWN = {
    "anyOf",
    "type",
    "const",
    "enum",
    "minLength",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "maxItems",
    "maxLength",
    "minimum",
    "maximum",
}
"""What survives the way to a grammar (models.md, section 1)."""


def schemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema and all inside it."""
    yield schema
    for inner in (*schema.get("anyOf", ()), *schema.get("properties", {}).values()):
        yield from schemas(inner)
    if "items" in schema:
        yield from schemas(schema["items"])


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a schema allows."""
    if "anyOf" in schema:
        return st.one_of([values(one) for one in schema["anyOf"]])
    if "const" in schema or "enum" in schema:
        return st.sampled_from(schema.get("enum", [schema.get("const")]))
    match schema["type"]:
        case "object" if "properties" in schema:
            required = {key: values(one) for key, one in schema["properties"].items() if key in schema["required"]}
            rest = {key: values(one) for key, one in schema["properties"].items() if key not in schema["required"]}
            return st.fixed_dictionaries(required, optional=rest)
        case "object":
            return st.dictionaries(PRINTABLE, PRINTABLE | st.integers(-9, 9) | st.none(), max_size=2)
        case "array":
            low, high = schema.get("minItems", 0), schema.get("maxItems", 3)
            return st.lists(values(schema["items"]), min_size=low, max_size=high)
        case "boolean":
            return st.booleans()
        case "integer" | "number" as kind:
            whole = st.integers(schema.get("minimum", 1), schema.get("maximum", 1000))
            return whole if kind == "integer" else whole | st.floats(allow_nan=False, allow_infinity=False)
        case kind:
            assert kind == "string"
            least = schema.get("minLength", 0)
            return PRINTABLE.filter(lambda text: len(text) >= least)


@given(values(SCHEMA))
def test_whatever_the_schema_allows_can_be_read(reply: dict[str, Any]) -> None:
    """A model bound to the grammar never meets a refusal of form: each such reply has a reading."""
    read = read_reply(json.dumps(reply))
    assert read.kind == reply["kind"]
    assert read.explanation == reply["explanation"]
    if isinstance(read, ToolRequest):
        wanted = reply.get("tool_calls") or [reply["tool_call"]]
        assert [call.tool for call in read.calls] == [one["tool"] for one in wanted]
        assert read.risk == reply.get("risk")


def test_the_engine_keeps_every_word_of_it() -> None:
    """Nothing stands beside an anyOf, every object is closed, and no keyword is one that is dropped."""
    for schema in schemas(SCHEMA):
        assert set(schema) <= KNOWN
        assert not (ALONE & set(schema)) or len(schema) == 1
        if "properties" in schema:
            assert schema["additionalProperties"] is False
            assert set(schema["required"]) <= set(schema["properties"])


def test_the_branches_and_the_order_of_their_keys() -> None:
    """One call, a batch of 2 to 4, a final; kind and reason come before what is done, the risk may be left out."""
    one, batch, final = SCHEMA["anyOf"]
    assert list(one["properties"]) == [*one["required"], "risk"] == ["kind", "explanation", "tool_call", "risk"]
    assert list(batch["properties"]) == [*batch["required"], "risk"] == ["kind", "explanation", "tool_calls", "risk"]
    assert one["properties"]["risk"]["enum"] == ["low", "medium", "high", "critical"]
    assert list(final["properties"]) == ["kind", "explanation", "success", "message", "details"]
    assert final["required"] == ["kind", "explanation", "success", "message"]
    assert [branch["properties"]["kind"] for branch in (one, batch, final)] == [
        {"const": "tool"},
        {"const": "tool"},
        {"const": "final"},
    ]
    calls = batch["properties"]["tool_calls"]
    assert (calls["minItems"], calls["maxItems"]) == (2, 4)
    assert calls["items"] == one["properties"]["tool_call"]
    assert set(final["properties"]) == set(FinalResult.model_fields)


def test_every_tool_has_its_branch_with_its_own_arguments() -> None:
    """Tool by tool: the name as a constant, the arguments of its model, what has a default may be left out."""
    calls = SCHEMA["anyOf"][0]["properties"]["tool_call"]["anyOf"]
    assert [call["properties"]["tool"]["const"] for call in calls] == list(TOOL_ARGS)
    for call, model in zip(calls, TOOL_ARGS.values(), strict=True):
        assert list(call["properties"]) == call["required"] == ["tool", "args"]
        args = call["properties"]["args"]
        assert set(args["properties"]) == set(model.model_fields)
        assert args["required"] == [name for name, field in model.model_fields.items() if field.is_required()]


def test_text_for_people_is_bounded_and_content_is_not() -> None:
    """An explanation cannot eat the reply's tokens; a file may be as long as they last."""
    one, _, final = SCHEMA["anyOf"]
    assert one["properties"]["explanation"] == {"type": "string", "maxLength": 400}
    assert final["properties"]["message"] == {"type": "string", "maxLength": 1000}
    write = next(
        call for call in one["properties"]["tool_call"]["anyOf"] if call["properties"]["tool"]["const"] == "cc_write"
    )
    args = write["properties"]["args"]["properties"]
    assert args["content"] == args["computer"] == {"type": "string"}


def test_the_same_tools_give_the_same_bytes() -> None:
    """Another process, with another seed for its hashes, makes the very same schema: the engine may cache it."""
    program = "import json; from orchestrator.core.reply.schema import reply_schema; print(json.dumps(reply_schema()))"
    made = {
        subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert made == {json.dumps(SCHEMA).encode() + b"\n"}


def test_a_task_with_one_computer_has_no_argument_that_names_it() -> None:
    """All else of the schema stays, each shape is made once, and the reader takes what either of them allows."""
    one, several = built_in_schema(one_computer=True), built_in_schema(one_computer=False)
    assert several == SCHEMA
    assert '"computer"' in json.dumps(several)
    assert '"computer"' not in json.dumps(one)
    calls = {
        shape: schema["anyOf"][0]["properties"]["tool_call"]["anyOf"] for shape, schema in (("1", one), ("n", several))
    }
    for less, more in zip(calls["1"], calls["n"], strict=True):
        less_args, more_args = (dict(call["properties"]["args"]["properties"]) for call in (less, more))
        more_args.pop("computer", None)
        assert less_args == more_args
        assert less["properties"]["args"]["required"] == more["properties"]["args"]["required"]
    assert built_in_schema(one_computer=True) is one
    assert built_in_schema(one_computer=False) is several


def test_an_argument_of_another_tool_that_is_called_computer_stays() -> None:
    """Only the built-in tools know what it means."""

    class Own(BaseModel):
        """Names a computer of its own."""

        computer: str = ""

    assert reply_schema({"own": Own}, one_computer=True) == reply_schema({"own": Own})


# -- tools of other people -----------------------------------------------------------------


class Place(BaseModel):
    """A point."""

    x: int = Field(ge=-10, le=10)
    y: float = Field(ge=0)


class Digging(BaseModel):
    """Arguments with everything in them."""

    model_config = ConfigDict(extra="forbid")

    place: Place
    until: Place | Literal["bedrock", "air"]
    names: list[str] = Field(default=[], max_length=3)
    note: str | None = Field(default=None, max_length=80, pattern="^.+$")
    story: str = Field(default="", max_length=9000)
    more: dict[str, str] = {}
    any: Any = None


class Nothing(BaseModel):
    """No arguments."""


class Endless(BaseModel):
    """Arguments that contain themselves."""

    next: "Endless | None" = None


def args_of(tools: Mapping[str, type[BaseModel]], tool: str) -> dict[str, Any]:
    """The schema of one tool's arguments."""
    calls = reply_schema(tools)["anyOf"][0]["properties"]["tool_call"]["anyOf"]
    found: dict[str, Any] = next(
        call["properties"]["args"] for call in calls if call["properties"]["tool"]["const"] == tool
    )
    return found


def test_arguments_of_any_shape_keep_what_the_engine_honors() -> None:
    """Definitions are written out, null means left out, and what would be dropped or break JSON is gone."""
    place = {
        "type": "object",
        "properties": {"x": {"type": "integer", "minimum": -10, "maximum": 10}, "y": {"type": "number", "minimum": 0}},
        "required": ["x", "y"],
        "additionalProperties": False,
    }
    assert args_of({"dig": Digging, "rest": Nothing}, "dig")["properties"] == {
        "place": place,
        "until": {"anyOf": [place, {"type": "string", "enum": ["bedrock", "air"]}]},
        "names": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        "note": {"type": "string", "maxLength": 80},
        "story": {"type": "string"},
        "more": {"type": "object"},
        "any": {"type": "object"},
    }
    assert args_of({"dig": Digging, "rest": Nothing}, "rest") == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


def test_arguments_that_contain_themselves_are_refused() -> None:
    """A grammar of endless arguments would let a model run to its limit: the tool is named."""
    with pytest.raises(InvalidRequest, match="The arguments of dig contain themselves"):
        reply_schema({"dig": Endless})
