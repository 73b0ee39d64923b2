"""What the model may answer: one tool request, a batch of 2 to 4, or the final result.

The reader is strict: a reply has exactly one reading or it is refused with one sentence that
tells the model what to change. Nothing is repaired that would alter the content of a string,
and nothing that is incomplete is taken. A reply that is not plainly what was asked for is looked at
by ``core.reply``.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from orchestrator.core.errors import ReplyRefused, said_of
from orchestrator.core.model_view.prompt import CUT_OFF
from orchestrator.core.policy.catalog import BUILT_IN_CATALOG
from orchestrator.core.policy.tool_args import ALL_TOOL_ARGS, shown_args
from orchestrator.core.reply.fences import behind_thoughts
from orchestrator.core.reply.objects import reply_in
from orchestrator.core.reply.scanner import LONG_CHARS, MAX_CALLS, name, quoted, refuse, strict
from orchestrator.core.reply.surroundings import BLANKS, fitted, no_echo
from orchestrator.core.text.redact import redact_text
from orchestrator.core.text.visible import one_line

# -- What the model may answer: one tool request, a batch of 2 to 4, or the final result

MAX_REPLY_CHARS: Final = 400_000
"""Above any sane token limit; bounds what the reader looks at."""
_AROUND: Final = f"{BLANKS}\u00a0\u200b\ufeff"
"""What may stand around a reply and says nothing: blanks and byte order marks."""

TOOL_ARGS: Final[Mapping[str, type[BaseModel]]] = {
    name: model for name, model in ALL_TOOL_ARGS.items() if not BUILT_IN_CATALOG[name].planned
}
"""The built-in tools that models call, and their arguments."""

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
    one_computer: bool = False,
) -> ToolRequest | FinalResult:
    """The one reading of a reply, with each call's arguments validated and canonical.

    ``finish_reason`` is stop, length (cut at the limit) or aborted (the stream broke off). What did not
    stop by itself is refused even if it reads as a whole object: a second one that changes or contradicts
    it may have been cut. ``tools`` None: the built-in tools. ``unknown_tools``: a call of any other is
    refused, or kept as it was written, for a gate that denies it. ``one_computer``: the task has one or none, so a
    refusal names no argument ``computer``. What is recovered, and what is not, stands in ``core.reply``. Raises
    ReplyRefused with the sentence for the model.
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
    if isinstance(reply, FinalResult):
        return reply
    return _checked(reply, known, keep=unknown_tools == "keep", one_computer=one_computer)


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
    tool: str,
    args: Mapping[str, Any],
    tools: Mapping[str, type[BaseModel]] = ALL_TOOL_ARGS,
    *,
    one_computer: bool = False,
) -> dict[str, Any]:
    """The arguments validated by the tool's model, defaults left out; ``one_computer``: as for :func:`read_reply`.

    Raises ReplyRefused for an unknown tool, an unknown or missing argument and a wrong type.
    """
    model = tools.get(tool)
    if model is None:
        refuse(f"No such tool: {quoted(tool)}. The tools are: {', '.join(sorted(tools))}.")
    try:
        return model.model_validate(dict(args)).model_dump(mode="json", exclude_defaults=True)
    except ValidationError as error:
        takes = ", ".join(shown_args(model, one_computer=one_computer))
        refuse(f"The arguments of {tool} do not fit: {_first(error)}. It takes: {takes}.")


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


def _checked(
    request: ToolRequest, tools: Mapping[str, type[BaseModel]], *, keep: bool, one_computer: bool
) -> ToolRequest:
    calls = tuple(
        call
        if keep and call.tool not in tools
        else RequestedTool(tool=call.tool, args=_fitting(call, tools, one_computer=one_computer))
        for call in request.calls
    )
    if request.tool_call is not None:
        return request.model_copy(update={"tool_call": calls[0]})
    return request.model_copy(update={"tool_calls": calls})


def _fitting(call: RequestedTool, tools: Mapping[str, type[BaseModel]], *, one_computer: bool) -> dict[str, Any]:
    """The canonical arguments, repaired where the tool does not take them as they are and nothing is lost."""
    try:
        return canonical_args(call.tool, call.args, tools)
    except ReplyRefused:
        if call.tool not in tools:
            raise
        return canonical_args(call.tool, fitted(call.args, tools[call.tool]), tools, one_computer=one_computer)


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(name(part) for part in first["loc"])
    return said_of(first, where)


# -- What can be shown of a reply that is still coming: its explanation and its message, nothing else
#
# Theory. The text is taken in as it comes and looked at once. Before the reply's object everything is passed
# over, prose and ``<think>`` blocks alike. Inside it, brackets are counted outside of strings, so that only
# strings directly below the object are told; an escape is held back until it is whole. The scanner is not a reader:
# it takes what is not JSON for what it looks most like, and nothing that it tells is ever run.

Shown = Literal["explanation", "message"]

_SHOWN: Final = frozenset({"explanation", "message"})
_KEY_CHARS: Final = 16
"""Of a key this much is kept: enough to know the two from every other."""

_START: Final = re.compile(r"\{|<think>")
_TAIL: Final = len("</think>") - 1
"""So much of what was passed over may be the beginning of a mark."""
_MARK: Final = re.compile(r'"(?:[^"\\]*")?|[{}\[\],]')
"""A sign of the structure, or a whole string without an escape, as most are."""
_PLAIN: Final = re.compile(r'[^"\\]+')
_LOW: Final = "[dD][c-fC-F][0-9a-fA-F]{2}"
_HIGH: Final = "[dD][89abAB][0-9a-fA-F]{2}"
_ESCAPE: Final = re.compile(rf"\\u({_HIGH})\\u({_LOW})|\\u([0-9a-fA-F]{{4}})|\\(.)", re.DOTALL)
_UNFINISHED: Final = re.compile(
    rf"\\(?:u(?:[0-9a-fA-F]{{0,3}}|{_HIGH}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?)?)?"
)
"""An escape that the next part may go on with; a high surrogate waits for its other half."""
_CONTROLS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class PartialReply:
    """The scanner of one reply. Time is linear in the text, memory is a few characters."""

    def __init__(self) -> None:
        self._held = ""
        self._place: Literal["before", "thought", "object", "string", "after"] = "before"
        self._depth = 0
        self._key: str | None = None
        """The key at the top whose value is due; None: a key is."""
        self._reads_key = False
        self._told = False
        self._parts: list[tuple[Shown, list[str]]] = []

    def feed(self, text: str) -> list[tuple[Shown, str]]:
        """What the next part of the reply adds to either string, decoded and in order.

        Never raises; half of a surrogate pair is told as U+FFFD.
        """
        self._parts = []
        text, self._held = self._held + text, ""
        at = 0
        while at < len(text) and self._place != "after":
            if self._place == "object":
                at = self._structure(text, at)
            elif self._place == "string":
                at = self._string(text, at)
            else:
                at = self._pass_over(text, at)
        return [(key, "".join(parts)) for key, parts in self._parts]

    def _pass_over(self, text: str, at: int) -> int:
        if self._place == "thought":
            end = text.find("</think>", at)
            if end >= 0:
                self._place = "before"
                return end + len("</think>")
        else:
            found = _START.search(text, at)
            if found is not None:
                self._place, self._depth = ("object", 1) if found.group() == "{" else ("thought", 0)
                self._key = None
                return found.end()
        self._held = text[max(at, len(text) - _TAIL) :]
        return len(text)

    def _structure(self, text: str, at: int) -> int:
        for found in _MARK.finditer(text, at):
            mark = found.group()
            if mark == ",":
                self._key = None if self._depth == 1 else self._key
            elif mark in "{[}]":
                self._depth += 1 if mark in "{[" else -1
                if self._depth == 0:
                    self._place = "after" if self._told else "before"
                    return found.end()
            else:
                self._reads_key = self._depth == 1 and self._key is None
                if self._reads_key:
                    self._key = ""
                if mark == '"':
                    self._place = "string"
                    return found.end()
                if mark != '""':
                    self._take(mark[1:-1])
        return len(text)

    def _string(self, text: str, at: int) -> int:
        plain = _PLAIN.match(text, at)
        if plain is not None:
            self._take(plain.group())
            return plain.end()
        if text[at] == '"':
            self._place = "object"
            return at + 1
        if _UNFINISHED.fullmatch(text, at):
            self._held = text[at:]
            return len(text)
        escape = cast("re.Match[str]", _ESCAPE.match(text, at))
        self._take(_decoded(escape))
        return escape.end()

    def _take(self, piece: str) -> None:
        if self._reads_key:
            self._key = ((self._key or "") + piece)[:_KEY_CHARS]
        elif self._depth == 1 and self._key in _SHOWN:
            self._tell(cast("Shown", self._key), _SURROGATE.sub("\ufffd", piece))

    def _tell(self, key: Shown, piece: str) -> None:
        self._told = True
        if not self._parts or self._parts[-1][0] != key:
            self._parts.append((key, []))
        self._parts[-1][1].append(piece)


def _decoded(escape: re.Match[str]) -> str:
    high, low, unit, other = escape.groups()
    if high:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + (int(low, 16) - 0xDC00))
    return chr(int(unit, 16)) if unit else _CONTROLS.get(other, other)


# -- A tool outside the catalog that a model asked for: it is denied, and its name is the model's to choose

VERSION: Final = 0
"""The version of a tool that does not exist, for the digest of its calls; those of the catalog begin at 1."""
_NAME_CHARS: Final = 60
"""Of a made-up name this much is recorded and said; the reply is kept whole."""


def stranger_name(tool: str, *, salt: str) -> str:
    """The name as it is recorded and said: on one line, capped, without secrets, with nothing hidden in it.

    It is never that of another tool: what is changed in it leaves a sign that no tool has in its name.
    """
    return one_line(redact_text(tool, salt=salt), limit=_NAME_CHARS)


__all__ = [
    "CUT_OFF",
    "MAX_CALLS",
    "MAX_REPLY_CHARS",
    "TOOL_ARGS",
    "VERSION",
    "AgentResponse",
    "FinalResult",
    "PartialReply",
    "ReplyRefused",
    "RequestedTool",
    "Shown",
    "StatedRisk",
    "TaskResult",
    "ToolRequest",
    "canonical_args",
    "read_reply",
    "stranger_name",
]
