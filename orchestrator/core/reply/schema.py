"""The JSON schema of a reply: what a server that can bind a model to a grammar is sent.

Written for the engine below Ollama, which turns a schema into a grammar and silently drops what it
cannot say (models.md, section 1): no ``oneOf``, nothing beside an ``anyOf``, closed objects, and of
what bounds a value only what survives. The keys stand in the order in which the model writes them:
kind, then why, then the call, then what may be left out. One branch of a call per tool, so that an
unknown tool, a misspelt argument and a request without a call cannot be said at all.

It is a help for the model and never a proof: what came is judged by ``core.reply.response`` alone.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, get_args

from pydantic import BaseModel

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.policy.tool_args import shown_args
from orchestrator.core.reply.response import MAX_CALLS, TOOL_ARGS, StatedRisk

MAX_EXPLANATION_CHARS: Final = 400
"""Room for the reason of a step, not for an essay that eats the reply's tokens."""
MAX_MESSAGE_CHARS: Final = 1000
"""Room for the word to the user at the end."""

Schema = dict[str, Any]

_KEPT: Final[tuple[str, ...]] = ("type", "const", "enum", "minItems", "maxItems", "minimum", "maximum", "minLength")
"""What the engine honors of a value, strings aside; bounds of numbers that are not integers it drops."""
_MAX_LENGTH: Final = 2000
"""A longer ``maxLength`` is taken for none."""


def reply_schema(tools: Mapping[str, type[BaseModel]] | None = None, *, one_computer: bool = False) -> Schema:
    """The schema of one reply: one call, a batch of 2 to 4, or the final result.

    ``tools`` None: the built-in tools. ``one_computer``: the task has one computer or none, so no tool has the
    argument that names one. The same tools give the same bytes. Raises InvalidRequest when the arguments of a tool
    contain themselves: a grammar of them need not end.
    """
    known = TOOL_ARGS if tools is None else tools
    calls = [_call(name, model, one_computer=one_computer) for name, model in known.items()]
    batch = {"type": "array", "items": {"anyOf": calls}, "minItems": 2, "maxItems": MAX_CALLS}
    risk = {"type": "string", "enum": list(get_args(StatedRisk))}
    final = {
        "success": {"type": "boolean"},
        "message": {"type": "string", "maxLength": MAX_MESSAGE_CHARS},
        "details": {"type": "object"},
    }
    return {
        "anyOf": [
            _branch("tool", {"tool_call": {"anyOf": calls}, "risk": risk}, optional="risk"),
            _branch("tool", {"tool_calls": batch, "risk": risk}, optional="risk"),
            _branch("final", final, optional="details"),
        ]
    }


@cache
def built_in_schema(*, one_computer: bool) -> Schema:
    """The schema of a reply with the built-in tools, made once for each of its two shapes; it must not be changed."""
    return reply_schema(one_computer=one_computer)


def _branch(kind: str, more: Schema, *, optional: str = "") -> Schema:
    why = {"type": "string", "maxLength": MAX_EXPLANATION_CHARS}
    return _object({"kind": {"const": kind}, "explanation": why, **more}, without=optional)


def _call(name: str, model: type[BaseModel], *, one_computer: bool) -> Schema:
    whole = model.model_json_schema()
    args = _Converter(name, whole.get("$defs", {})).convert(whole, ())
    shown = shown_args(model, one_computer=one_computer)
    args["properties"] = {key: value for key, value in args["properties"].items() if key in shown}
    return _object({"tool": {"const": name}, "args": args})


def _object(properties: Schema, *, without: str = "") -> Schema:
    required = [key for key in properties if key != without]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


class _Converter:
    """From the schema that pydantic makes of a tool's arguments to one that the engine keeps whole."""

    def __init__(self, tool: str, definitions: Mapping[str, Schema]) -> None:
        self._tool = tool
        self._definitions = definitions

    def convert(self, schema: Schema, inside: tuple[str, ...]) -> Schema:
        """One value; ``inside`` names the definitions that are open around it."""
        if "$ref" in schema:
            return self._definition(schema["$ref"].rpartition("/")[2], inside)
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices:
            # An argument that may be null may be left out, which is one way less to say the same.
            left = [self.convert(one, inside) for one in choices if one.get("type") != "null"]
            return left[0] if len(left) == 1 else {"anyOf": left}
        if "properties" in schema:
            properties = {key: self.convert(value, inside) for key, value in schema["properties"].items()}
            required = [key for key in properties if key in schema.get("required", ())]
            return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        kept = {key: schema[key] for key in _KEPT if key in schema}
        if schema.get("maxLength", _MAX_LENGTH + 1) <= _MAX_LENGTH:
            kept["maxLength"] = schema["maxLength"]
        if "items" in schema:
            kept["items"] = self.convert(schema["items"], inside)
        return kept or {"type": "object"}

    def _definition(self, name: str, inside: tuple[str, ...]) -> Schema:
        if name in inside:
            raise InvalidRequest(
                f"The arguments of {self._tool} contain themselves (at {name}).",
                remedy="Give the tool flat arguments: a model cannot be bound to endless ones.",
            )
        return self.convert(self._definitions[name], (*inside, name))
