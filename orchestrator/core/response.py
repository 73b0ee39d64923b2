"""What the model may answer: one tool request, a batch of 2 to 4, or the final result.

The reader is strict: a reply has exactly one reading or it is refused with one sentence that
tells the model what to change. Nothing is repaired that would alter the content of a string,
and nothing that is incomplete is taken.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from orchestrator.core.errors import ReplyRefused
from orchestrator.core.tool_args import TOOL_ARGS
from orchestrator.core.wording import said_of

__all__ = [
    "MAX_CALLS",
    "MAX_REPLY_CHARS",
    "TOOL_ARGS",
    "AgentResponse",
    "FinalResult",
    "ReplyRefused",
    "RequestedTool",
    "StatedRisk",
    "ToolRequest",
    "canonical_args",
    "read_reply",
]

MAX_CALLS: Final = 4
MAX_REPLY_CHARS: Final = 400_000
"""Above any sane token limit; bounds what the reader looks at."""
_MAX_DEPTH: Final = 40
_SHOWN_CHARS: Final = 60
"""Of what the model made up, such as a key, this much comes back in the sentence that refuses it."""
_FENCE: Final = re.compile(r"\A```[A-Za-z0-9_-]*[ \t]*\r?\n(.*?)\r?\n?```\Z", re.DOTALL)
_STRUCTURE: Final = re.compile(r'\\.|["\[\]{}]', re.DOTALL)

StatedRisk = Literal["low", "medium", "high", "critical"]

_T = TypeVar("_T", bound=BaseModel)


class _Reply(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class RequestedTool(_Reply):
    """One call in a reply."""

    tool: str
    args: dict[str, Any] = {}


class ToolRequest(_Reply):
    """The model wants one call, or 2 to 4 at once."""

    kind: Literal["tool"]
    explanation: str = ""
    tool_call: RequestedTool | None = None
    tool_calls: tuple[RequestedTool, ...] | None = Field(default=None, min_length=2, max_length=MAX_CALLS, strict=False)
    risk: StatedRisk | None = None
    """What the model says of the risk of its calls; None: nothing. It can raise theirs, never lower it."""

    @model_validator(mode="after")
    def _one_form(self) -> "ToolRequest":
        if (self.tool_call is None) == (self.tool_calls is None):
            raise ValueError("give either tool_call or tool_calls")
        return self

    @property
    def calls(self) -> tuple[RequestedTool, ...]:
        """The calls, whichever form they came in."""
        return self.tool_calls or ((self.tool_call,) if self.tool_call else ())


class FinalResult(_Reply):
    """The model is done, well or not."""

    kind: Literal["final"] = "final"
    explanation: str = ""
    success: bool
    message: str
    details: dict[str, Any] = {}


AgentResponse = Annotated[ToolRequest | FinalResult, Field(discriminator="kind")]


def read_reply(
    text: str,
    *,
    finish_reason: str = "stop",
    tools: Mapping[str, type[BaseModel]] | None = None,
    unknown_tools: Literal["refuse", "keep"] = "refuse",
) -> ToolRequest | FinalResult:
    """The one reading of a reply, with each call's arguments validated and canonical.

    ``finish_reason`` is stop, length (cut at the limit) or aborted (the stream broke off).
    ``tools`` None: the built-in tools. ``unknown_tools``: a call of any other is refused, or kept as
    it was written, for a gate that denies it. Raises ReplyRefused with the sentence for the model.
    """
    if finish_reason == "length":
        _refuse("Your reply was cut off at the length limit. Send a shorter one, for example a smaller file or step.")
    if finish_reason != "stop":
        _refuse("Your reply broke off before its end. Send it again, whole.")
    value = _load(_unfenced(text))
    if not isinstance(value, dict):
        _refuse(f"Your reply is a JSON {_kind_of(value)}, not an object. Send one JSON object with a kind.")
    kind = value.get("kind")
    if kind == "final":
        return _validated(FinalResult, value)
    if kind == "tool":
        known = TOOL_ARGS if tools is None else tools
        return _checked(_validated(ToolRequest, value), known, keep=unknown_tools == "keep")
    _refuse(f'Your reply has kind {json.dumps(kind)[:_SHOWN_CHARS]}. The kind is "tool" or "final".')


def canonical_args(
    tool: str, args: Mapping[str, Any], tools: Mapping[str, type[BaseModel]] = TOOL_ARGS
) -> dict[str, Any]:
    """The arguments validated by the tool's model, defaults left out.

    Raises ReplyRefused for an unknown tool, an unknown or missing argument and a wrong type.
    """
    model = tools.get(tool)
    if model is None:
        _refuse(f"There is no tool {tool[:_SHOWN_CHARS]!r}. The tools are: {', '.join(sorted(tools))}.")
    try:
        return model.model_validate(dict(args)).model_dump(mode="json", exclude_defaults=True)
    except ValidationError as error:
        _refuse(f"The arguments of {tool} do not fit: {_first(error)}. It takes: {', '.join(model.model_fields)}.")


def _unfenced(text: str) -> str:
    if len(text) > MAX_REPLY_CHARS:
        _refuse(f"Your reply has more than {MAX_REPLY_CHARS} characters. Send a smaller one.")
    stripped = text.strip().removeprefix("\ufeff")
    if not stripped:
        _refuse("Your reply was empty. Send one JSON object.")
    fenced = _FENCE.match(stripped)
    return fenced.group(1) if fenced else stripped


def _load(text: str) -> Any:
    # Most replies have too few brackets to nest too deep, so that nobody needs to look where they stand.
    if text.count("{") + text.count("[") > _MAX_DEPTH and _depth(text) > _MAX_DEPTH:
        _refuse(f"Your reply nests deeper than {_MAX_DEPTH} levels. Send a flat JSON object.")
    try:
        value = _STRICT.decode(text)
    except json.JSONDecodeError as error:
        _refuse(
            f"Your reply is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}. "
            "Send only one JSON object, with quotes and line breaks inside strings escaped."
        )
    _no_surrogates(text, value)
    return value


def _depth(text: str) -> int:
    """How deep brackets nest outside strings, in one pass: json.loads would recurse into a bomb."""
    depth = deepest = 0
    in_string = False
    for token in _STRUCTURE.finditer(text):
        mark = token.group()
        if mark == '"':
            in_string = not in_string
        elif in_string or mark[0] == "\\":
            continue
        elif mark in "[{":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    return deepest


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            _refuse(f"Your reply has the key {key[:_SHOWN_CHARS]!r} twice. Send it once.")
        found[key] = value
    return found


def _no_constant(name: str) -> NoReturn:
    _refuse(f"Your reply has the value {name}, which is not JSON.")


def _bounded_int(digits: str) -> int:
    if len(digits) > 18:
        _refuse("Your reply has a number with more than 18 digits.")
    return int(digits)


def _finite_float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        _refuse(f"Your reply has the number {digits[:_SHOWN_CHARS]}, which is too large.")
    return value


_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_bounded_int, parse_float=_finite_float
)
"""Made once: ``json.loads`` with hooks makes a decoder for each text, which takes as long as reading a reply."""


def _no_surrogates(text: str, value: Any) -> None:
    if "\\u" not in text.lower() and text.isascii():
        return
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        _refuse("Your reply has half of a surrogate pair in a string. Send the character itself.")


def _validated(model: type[_T], value: dict[str, Any]) -> _T:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        _refuse(f"Your reply does not fit: {_first(error)}.")


def _checked(request: ToolRequest, tools: Mapping[str, type[BaseModel]], *, keep: bool) -> ToolRequest:
    calls = tuple(
        call
        if keep and call.tool not in tools
        else RequestedTool(tool=call.tool, args=canonical_args(call.tool, call.args, tools))
        for call in request.calls
    )
    if request.tool_call is not None:
        return request.model_copy(update={"tool_call": calls[0]})
    return request.model_copy(update={"tool_calls": calls})


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part)[:_SHOWN_CHARS] for part in first["loc"])
    return said_of(first, where)


def _kind_of(value: Any) -> str:
    return {list: "list", str: "string", bool: "boolean", type(None): "null"}.get(type(value), "number")


def _refuse(sentence: str) -> NoReturn:
    raise ReplyRefused(sentence)
