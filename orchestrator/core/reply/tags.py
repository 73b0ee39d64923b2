"""Calls in the markup of a chat template: ``<function=NAME>`` with an object or with one tag per argument."""

import re
from typing import Any, Final, NamedTuple

from orchestrator.core.reply.values import refuse

_BLANK: Final = re.compile(r"\s*")
_PARAMETER: Final = re.compile(r"<parameter(?:=\s*|\s+name\s*=\s*)[\"']?\s*([\w.-]{1,100})\s*[\"']?\s*>", re.IGNORECASE)
_END: Final = re.compile(r"</(?:function|invoke)\s*>", re.IGNORECASE)
_NEXT: Final = re.compile(r"<(?:(?P<begins>function=|invoke\s)|/(?:parameter|function|invoke)\b)", re.IGNORECASE)
"""What of the markup comes next: another call, or an end."""
_DOUBTFUL: Final = re.compile(
    r"&(?:[a-z]{2,6}|#x?[0-9a-f]{1,6});|</?(?:parameter|function|invoke|tool_call)\b", re.IGNORECASE
)


class TagCall(NamedTuple):
    """The arguments that stand behind the tag of a call."""

    args: dict[str, Any] | None
    """None: an object follows that has yet to be read."""
    end: int


def call_in_tags(text: str, at: int) -> TagCall:
    """What follows ``<function=NAME>``: the arguments in tags of their own, none, or an object.

    Values are text. One that stands on lines of its own loses the line breaks next to its tags: so the
    template of Qwen3-Coder writes and reads them. With other blanks at its ends, or with what may be
    escapes of the markup, it is refused. Raises ReplyRefused when the call is anything else.
    """
    args: dict[str, Any] = {}
    while True:
        at = _past(_BLANK, text, at)
        if text[at : at + 1] == "{" and not args:
            return TagCall(None, at)
        end = _END.match(text, at)
        if end is not None:
            return TagCall(args, end.end())
        tag = _PARAMETER.match(text, at)
        close = text.find("</parameter>", tag.end()) if tag is not None else -1
        if tag is None or close < 0:
            refuse("Your reply has a call in tags that is incomplete. Send the call as one JSON object, without tags.")
        value = text[tag.end() : close]
        framed = len(value) > 1 and value[0] == value[-1] == "\n"
        value = value[1:-1] if framed else value
        if (value != value.strip() and not framed) or _DOUBTFUL.search(value) or tag.group(1) in args:
            refuse(
                f"The argument {tag.group(1)!r} of the call in tags cannot be read without doubt. Send the call as one "
                "JSON object, without tags."
            )
        args[tag.group(1)] = value
        at = close + len("</parameter>")


def past_end(text: str, at: int) -> int:
    """The place behind the tag that ends a call, or ``at`` when there is none."""
    end = _END.match(text, _past(_BLANK, text, at))
    return end.end() if end is not None else at


def no_other_end(text: str, at: int) -> None:
    """Refuse a call behind whose end, at ``at``, another stands: the first may be a part of its last value."""
    after = _NEXT.search(text, at)
    if after is not None and not after.group("begins"):
        refuse(
            "Behind the end of the call in tags stands another end, so that a value may have been cut short. Send the "
            "call as one JSON object, without tags."
        )


def _past(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at
