"""Thoughts and code blocks of other languages: the parts of a reply in which nothing counts."""

import re
from typing import Final, NamedTuple

from orchestrator.core.reading.values import refuse

THOUGHTS: Final = "|".join([
    "think", "thinking", "thoughts?", "thought_process", "reasoning", "reason", "analysis", "reflection", "scratchpad",
    "inner_monologue", "seed:think",
])  # fmt: skip
"""The names of the tags in which models of several families think."""

_TAG: Final = re.compile(rf"<(/?)({THOUGHTS})(?:\s[^<>]{{0,200}})?(/?)>|\[(/?)(THINK)\]", re.IGNORECASE)
_STOP: Final = re.compile(
    r"^[ \t>]*(?P<ticks>`{3,}|~{3,})[ \t]*\r?$|[\"'](?:kind|tool_calls?|arguments)[\"']\s*:", re.MULTILINE
)
"""What ends a block, or shows that it is no program: a reply in it."""
_BLANK: Final = re.compile(r"\s*")
_OURS: Final = frozenset(
    ["", "json", "json5", "jsonc", "jsonl", "js", "javascript", "text", "txt", "plaintext", "markdown", "md", "xml"]
)
"""Languages whose blocks are read like the text around them; a block of any other only if it begins like a reply."""


def past_thoughts(text: str, at: int) -> int:
    """The place behind the thoughts that begin with the tag at ``at``.

    Thoughts inside thoughts end before them. Raises ReplyRefused when they never end: what follows the
    tag may all be thought.
    """
    open_ones: list[str] = []
    for tag in _TAG.finditer(text, at):
        name = (tag.group(2) or tag.group(5)).lower()
        if tag.group(3):
            pass  # it is closed as it stands
        elif not (tag.group(1) or tag.group(4)):
            open_ones.append(name)
        elif open_ones[-1] == name:
            open_ones.pop()
        else:
            break
        if not open_ones:
            return tag.end()
    refuse(
        "Your reply never ends its thoughts: the tag that opens them is not closed. Send only the JSON object, "
        "without thoughts."
    )


def past_stray_end(text: str, at: int) -> int | None:
    """The place behind the last tag that ends thoughts, if from ``at`` on none begins; None: there is no such tag."""
    tags = list(_TAG.finditer(text, at))
    if not tags or not all(tag.group(1) or tag.group(4) for tag in tags):
        return None
    return tags[-1].end()


class Block(NamedTuple):
    """Where to read on behind the line that opens a code block, and up to where all blocks are read."""

    end: int
    read_to: int


def past_code(text: str, ticks: str, tag: str, at: int) -> Block:
    """Where to read on: in the block, or behind it if it shows a program of another language.

    ``at`` is the place behind the language. A block that never ends reaches to the end of the text. One with
    a reply in it is read, and with it all up to there: so each part of the text is looked at once.
    """
    read = Block(at, at)
    if tag.lower() in _OURS:
        return read
    line = text.find("\n", at) + 1 or len(text)
    begin = _BLANK.match(text, line)
    content = begin.end() if begin else line
    if "{" in text[at:line] or text[content : content + 1] in ("{", "[", "<", "`", "~"):
        return read
    for stop in _STOP.finditer(text, content):
        if stop.group("ticks") is None:
            return Block(at, stop.end())
        if stop.group("ticks").startswith(ticks):
            return Block(stop.end(), at)
    return Block(len(text), at)
