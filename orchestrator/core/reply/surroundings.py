"""What stands right before and right behind an object, on which it depends whether that is the reply."""

import re
from typing import Any, Final, NoReturn

from orchestrator.core.reply.fillers import BLANKS
from orchestrator.core.reply.values import place, refuse

_FOLLOWS: Final = re.compile(r"\s*([,:\])}])|[ \t]*([\"'=])")
_ASIDE: Final = re.compile(r",[ \t]+[a-z](?:[^\"'`{}\[\]<>:=\\]|(?<=\w)'(?=\w))*\Z", re.IGNORECASE)
"""A comma and prose up to the end of the text: without a quote or a bracket nothing that was begun can end in it."""
_LEADS: Final = re.compile(r"[\"']\s*:\s*\Z")
_PROSE_LEADS: Final = re.compile(r"[^\s{,\[\\\"'`>]\s*([\"'])[^\"'\\\n]{1,60}\1\s*:\s*\Z")
"""A quoted word of a sentence, such as the name of a file; a key would stand behind a brace or a comma,
or where the reply begins: behind a fence or the tag that ends thoughts."""
_EXAMPLE: Final = re.compile(
    r"(?:\bexample\s*[0-9]?|\bfor instance|\be\.g\.)\s*[:,]?\**\s*(?:[`~]{3,}\w*\s*)?\Z", re.IGNORECASE
)
_LOOK_BACK: Final = 80
"""So much of the text before an object tells whether it stands there as a value or as an example."""
_CLOSERS: Final = r"(?:\s*[}\]])+"
_FRAME: Final = r"(?:\s|[`~]{3,}|</?s>|<\|?/?[a-z_]{1,30}\|?>)*"
_SURPLUS: Final = re.compile(
    rf"{_CLOSERS}(?=\s*<[|/]{{1,2}}(?:tool_call|function|invoke)\b"
    rf"|{_FRAME}(?:(?<=\n)[^\W\d_](?:[^\"'`{{}}\[\]<>:=\\()]|(?<=\w)'(?=\w))*)?\Z)",
    re.IGNORECASE,
)
"""Closing brackets too many, then the tag that ends a call, or only a frame and prose on lines of its own up to the end
of the text. A quote that ended a string too early would leave another quote behind them."""
SURPLUS_ONLY: Final = re.compile(rf"{_CLOSERS}\s*\Z")
_FRAMED: Final = re.compile(r"(?:^|\n)[ \t>]*(?:`{3,}|~{3,})\w*\Z|(?:>|\[TOOL_CALLS\])\Z")
_LETTER: Final = re.compile(r"[^\W\d_]")
_STRINGS: Final = re.compile(r'\{[ \t]*"[^"\\\n]*"(?:[ \t]*,[ \t]*"[^"\\\n]*")*[ \t]*,?[ \t]*\}')


def led(text: str, at: int) -> bool:
    """Whether a quoted word and a colon lead to the object at ``at``, as in a sentence.

    Raises ReplyRefused when the object stands as a text, as the value of a key, or as an example.
    """
    before = text[max(0, at - _LOOK_BACK) : at]
    if before.endswith(('"', "'")):
        refuse("Your reply is JSON inside quotes. Send the JSON object itself, without quotes around it.")
    leads = _LEADS.search(before) is not None
    if leads and _PROSE_LEADS.search(before) is None:
        _no_beginning()
    if _EXAMPLE.search(before):
        refuse("The JSON object of your reply is called an example. Send one JSON object with your real next step.")
    if text[at + 1 : at + _LOOK_BACK].lstrip().startswith(("\\", "\u201c", "\u201d")):
        refuse('Your reply is JSON with its quotes escaped or curly. Send the JSON object with plain " quotes.')
    return leads


def whole(value: Any) -> None:
    """Refuse a value behind a quoted word and a colon that does not say by its kind that it is all of the reply."""
    if not (isinstance(value, dict) and "kind" in value):
        _no_beginning()


def _no_beginning() -> NoReturn:
    refuse(
        "The JSON object of your reply stands behind a key, as if the beginning were missing. Send the whole object "
        "again, from its {."
    )


def followed(text: str, end: int) -> None:
    """Refuse an object behind which something stands that would go on with it."""
    follows = _FOLLOWS.match(text, end)
    if follows is not None and _ASIDE.match(text, end) is None:
        refuse(
            f"Behind the JSON object of your reply stands {follows.group().strip()!r}, at {place(text, end)}. "
            r"Send one JSON object and nothing behind it; inside a string write \" for a quote."
        )


def past_surplus(text: str, begin: int, end: int, value: Any, *, tagged: bool) -> int:
    """The place behind closing brackets that are too many behind an object, or its ``end`` when they are doubtful.

    They are doubtful where the object may be the inside of a larger one whose beginning is missing. It is none of
    that where its kind says that it is a whole reply, or where a tag (``tagged``) or a fence stands before it.
    """
    found = _SURPLUS.match(text, end)
    if found is None or not isinstance(value, dict):
        return end
    keys = {key.strip(BLANKS) for key in value}
    before = text[max(0, begin - _LOOK_BACK) : begin].strip(BLANKS)
    if "kind" in keys:
        sure = not before or _LETTER.search(before) is not None
    else:
        framed = tagged or _FRAMED.search(before) is not None or (not before and "name" in keys)
        sure = framed and "]" not in found.group()
    return found.end() if sure else end


def past_strings(text: str, at: int) -> int:
    """The place behind a Lua table of plain strings on one line, which is no JSON; ``at`` when there is none."""
    found = _STRINGS.match(text, at)
    return found.end() if found is not None else at


def begins_line(text: str, at: int) -> bool:
    """Whether only blanks stand before a place on its line; on the first line it is not asked."""
    return text[max(0, at - _LOOK_BACK) : at].rstrip(" \t").endswith("\n")


def in_ticks(text: str, begin: int, end: int) -> bool:
    """Whether these braces stand alone between backticks, as prose names them."""
    return text[max(0, begin - 1) : begin] == text[end : end + 1] == "`"
