"""What the model may answer: one tool request, a batch of 2 to 4, or the final result.

The reader is strict: a reply has exactly one reading or it is refused with one sentence that
tells the model what to change. Nothing is repaired that would alter the content of a string,
and nothing that is incomplete is taken. A reply that is not plainly what was asked for is looked at
by ``core.reply``.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from orchestrator.core.errors import ReplyRefused
from orchestrator.core.model_view.messages import CUT_OFF, said_of
from orchestrator.core.reply.choice import reply_in
from orchestrator.core.reply.echoes import no_echo
from orchestrator.core.reply.fences import behind_thoughts
from orchestrator.core.reply.fillers import BLANKS, fitted
from orchestrator.core.reply.tool_args import ALL_TOOL_ARGS, TOOL_ARGS
from orchestrator.core.reply.values import LONG_CHARS, MAX_CALLS, name, quoted, refuse, strict

__all__ = [
    "CUT_OFF",
    "MAX_CALLS",
    "MAX_REPLY_CHARS",
    "TOOL_ARGS",
    "AgentResponse",
    "FinalResult",
    "ReplyRefused",
    "RequestedTool",
    "StatedRisk",
    "TaskResult",
    "ToolRequest",
    "canonical_args",
    "read_reply",
]

MAX_REPLY_CHARS: Final = 400_000
"""Above any sane token limit; bounds what the reader looks at."""
_AROUND: Final = f"{BLANKS}\u00a0\u200b\ufeff"
"""What may stand around a reply and says nothing: blanks and byte order marks."""

StatedRisk = Literal["low", "medium", "high", "critical"]


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
    tool_calls: tuple[RequestedTool, ...] | None = Field(
        default=None, min_length=2, max_length=MAX_CALLS, strict=False, fail_fast=True
    )
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


class TaskResult(FinalResult):
    """How a task ended: the final of its model, and what the journal shows, whatever the model says."""

    report: tuple[str, ...] = ()
    """Changed files, programs with how they ended, and what was not run since it was changed; a line each."""
    verified: bool | None = None
    """Whether the journal supports the success; None: nobody judged it."""


AgentResponse = Annotated[ToolRequest | FinalResult, Field(discriminator="kind")]


def read_reply(
    text: str,
    *,
    finish_reason: str = "stop",
    tools: Mapping[str, type[BaseModel]] | None = None,
    unknown_tools: Literal["refuse", "keep"] = "refuse",
) -> ToolRequest | FinalResult:
    """The one reading of a reply, with each call's arguments validated and canonical.

    ``finish_reason`` is stop, length (cut at the limit) or aborted (the stream broke off). What did not
    stop by itself is refused even if it reads as a whole object: a second one that changes or contradicts
    it may have been cut. ``tools`` None: the built-in tools. ``unknown_tools``: a call of any other is
    refused, or kept as it was written, for a gate that denies it. What is recovered, and what is not,
    stands in ``core.reply``. Raises ReplyRefused with the sentence for the model.
    """
    if len(text) > MAX_REPLY_CHARS:
        refuse(f"Your reply has more than {MAX_REPLY_CHARS} characters. Send a smaller one.")
    if finish_reason == "length":
        refuse(f"{CUT_OFF} {_after_cut(text)}")
    if finish_reason != "stop":
        refuse("Your reply broke off before its end. Send it again, whole.")
    stripped = text.strip(_AROUND)
    if not stripped:
        refuse("Your reply was empty. Send one JSON object.")
    known = TOOL_ARGS if tools is None else tools
    reply = _plain(stripped, known) or _validated(reply_in(stripped, known))
    return reply if isinstance(reply, FinalResult) else _checked(reply, known, keep=unknown_tools == "keep")


def _after_cut(text: str) -> str:
    """What to do after a reply that was cut: a short one was not too long, so it is not asked to be shorter."""
    if not text.strip(_AROUND):
        return "Thoughts or blanks used up all of it. Send the JSON object at once, without thoughts."
    answer = behind_thoughts(text)
    if answer is None:
        return "It did not come to the end of its thoughts. Send the JSON object at once, without thoughts."
    if len(answer := answer.strip(_AROUND)) < LONG_CHARS:
        return (
            f"Only {len(answer)} characters of it are an answer: the limit is small, or thoughts or blanks used it up. "
            "Send only the JSON object."
        )
    return "Send a shorter one, for example a smaller file or step."


def canonical_args(
    tool: str, args: Mapping[str, Any], tools: Mapping[str, type[BaseModel]] = ALL_TOOL_ARGS
) -> dict[str, Any]:
    """The arguments validated by the tool's model, defaults left out.

    Raises ReplyRefused for an unknown tool, an unknown or missing argument and a wrong type.
    """
    model = tools.get(tool)
    if model is None:
        refuse(f"There is no tool {quoted(tool)}. The tools are: {', '.join(sorted(tools))}.")
    try:
        return model.model_validate(dict(args)).model_dump(mode="json", exclude_defaults=True)
    except ValidationError as error:
        refuse(f"The arguments of {tool} do not fit: {_first(error)}. It takes: {', '.join(model.model_fields)}.")


def _plain(text: str, tools: Mapping[str, type[BaseModel]]) -> ToolRequest | FinalResult | None:
    """A reply that is just what was asked for, as most are; None: it takes a closer look."""
    if text[0] != "{":
        return None
    try:
        value = strict(text)
        reply = _validated(value)
    except (ValueError, ReplyRefused):
        return None
    if isinstance(reply, ToolRequest) and any(call.tool not in tools for call in reply.calls):
        return None
    no_echo(value)
    return reply


def _validated(value: dict[str, Any]) -> ToolRequest | FinalResult:
    try:
        return (FinalResult if value.get("kind") == "final" else ToolRequest).model_validate(value)
    except ValidationError as error:
        refuse(f"Your reply does not fit: {_first(error)}.")


def _checked(request: ToolRequest, tools: Mapping[str, type[BaseModel]], *, keep: bool) -> ToolRequest:
    calls = tuple(
        call if keep and call.tool not in tools else RequestedTool(tool=call.tool, args=_fitting(call, tools))
        for call in request.calls
    )
    if request.tool_call is not None:
        return request.model_copy(update={"tool_call": calls[0]})
    return request.model_copy(update={"tool_calls": calls})


def _fitting(call: RequestedTool, tools: Mapping[str, type[BaseModel]]) -> dict[str, Any]:
    """The canonical arguments, repaired where the tool does not take them as they are and nothing is lost."""
    try:
        return canonical_args(call.tool, call.args, tools)
    except ReplyRefused:
        if call.tool not in tools:
            raise
        return canonical_args(call.tool, fitted(call.args, tools[call.tool]), tools)


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(name(part) for part in first["loc"])
    return said_of(first, where)
