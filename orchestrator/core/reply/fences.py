"""Thoughts and code blocks of other languages: the parts of a reply in which nothing counts."""

import re
from typing import Any, Final, NamedTuple, NoReturn

from orchestrator.core.errors import ReplyRefused
from orchestrator.core.reply.scanner import refuse

# -- Calls in the markup of a chat template: ``<function=NAME>`` with an object or with one tag per argument

_BLANK: Final = re.compile(r"\s*")
_PARAMETER: Final = re.compile(r"<parameter(?:=\s*|\s+name\s*=\s*)[\"']?\s*([\w.-]{1,100})\s*[\"']?\s*>", re.IGNORECASE)
_END: Final = re.compile(r"</(?:function|invoke)\s*>", re.IGNORECASE)
_NEXT: Final = re.compile(r"<(?:(?P<begins>function=|invoke\s)|/(?:parameter|function|invoke)\b)", re.IGNORECASE)
"""The markup that comes next: another call, or an end."""
_DOUBTFUL: Final = re.compile(
    r"&(?:[a-z]{2,6}|#x?[0-9a-f]{1,6});|</?(?:parameter|function|invoke|tool_call)\b", re.IGNORECASE
)


class TagCall(NamedTuple):
    """The arguments that are behind the tag of a call."""

    args: dict[str, Any] | None
    """None: an object follows that has yet to be read."""
    end: int


def call_in_tags(text: str, at: int) -> TagCall:
    """What follows ``<function=NAME>``: the arguments in tags of their own, none, or an object.

    Values are text. One that is on lines of its own loses the line breaks next to its tags: so the
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


# -- Thoughts and code blocks of other languages: the parts of a reply in which nothing counts

_THOUGHTS: Final = (
    r"(?!(?:begin|start|end)[_-])(?:(?:[a-z0-9]{1,20}[_:.-]){0,3}|ant|inner|internal)"
    r"(?:think(?:ing)?|thoughts?|reason(?:ing)?|scratch[_-]?pad|monologue|cot)(?:[_:.-][a-z0-9]{1,20}){0,2}"
    r"|analysis|reflection|plan(?:ning)?|draft|brainstorm(?:ing)?|deliberation"
)
"""The names of the tags in which models of several families think, by their stem."""
TAG: Final = (
    rf"<\|?(?P<over>/?)\|?(?P<name>{_THOUGHTS})(?:\s[^<>]{{0,200}})?(?P<empty>/?)\|?>"
    r"|\[(?P<past>/?)(?P<mistral>THINK)\]"
)
"""Such a tag: ``over`` and ``past`` when it ends thoughts, ``empty`` when it does both."""

_BAR: Final = "[|\uff5c]?"
_OF: Final = "(?:[_\u2581]of)?[_\u2581]"
_FAMILIES: Final = {
    r"<\|channel\|>\s{0,9}analysis": (
        r"<\|channel\|>\s{0,9}final\s{0,9}(?:<\|constrain\|>\s{0,9}\w{0,20}\s{0,9})?<\|message\|>"
    ),
    r"<\|channel>\s?thought": r"<channel\|>",
    rf"<{_BAR}(?:begin|start){_OF}(?:thought|think(?:ing)?|reasoning){_BAR}>": (
        rf"<{_BAR}end{_OF}(?:thought|think(?:ing)?|reasoning){_BAR}>"
    ),
    "\u25c1think\u25b7": "\u25c1/think\u25b7",
}
"""How thoughts begin and end in families that have no tags for them; those of the first end where the reply begins."""
MARKS: Final = "|".join(_FAMILIES)
ENDS: Final = "|".join(list(_FAMILIES.values())[1:])
"""How those end that can be told without their beginning."""
_MARKS: Final = [(re.compile(begin, re.IGNORECASE), re.compile(end, re.IGNORECASE)) for begin, end in _FAMILIES.items()]
_LINE_CHARS: Final = 40
"""Characters of a line that are looked at: all of it, for each tag on it, would take a square of its length."""

_TAG: Final = re.compile(TAG, re.IGNORECASE)
_THINKS: Final = re.compile(_THOUGHTS, re.IGNORECASE)
_STOP: Final = re.compile(
    r"^[ \t>]*(?P<ticks>`{3,}|~{3,})[ \t]*\r?$|[\"'](?:kind|tool_calls?|arguments)[\"']\s*:", re.MULTILINE
)
"""What ends a block, or shows that it is not a program: a reply in it."""
_FENCE: Final = re.compile(r"^[ \t>]*(?:`{3,}|~{3,})(?P<tag>[^\n]*)", re.MULTILINE)
_REST: Final = re.compile(r"[\"'][\s)]*[}\]][\s)}\]]*\Z")
_REST_CHARS: Final = 200
"""Where a program that was written into a string ends, with its quote and the brackets of the reply."""
_FENCE_PARAMETER: Final = re.compile(r"<parameter\b", re.IGNORECASE)
_TOKEN: Final = re.compile(r"\\.|[\"{}]|(?<!\w)'", re.DOTALL)
_DRAFT: Final = re.compile(rf"\{{\s*[\"'\w$\\]|{_PARAMETER.pattern}", re.IGNORECASE)
"""How a reply begins, or a part of a call in tags, that was drafted in thoughts."""
_FENCE_BLANK: Final = re.compile(r"\s*")
_OURS: Final = frozenset(
    ["", "json", "json5", "jsonc", "jsonl", "js", "javascript", "text", "txt", "plaintext", "markdown", "md", "xml"]
)
"""Languages whose blocks are read like the text around them; a block of any other only if it begins like a reply."""


class End(NamedTuple):
    """A tag that ends thoughts."""

    begin: int
    end: int


def end_of_thoughts(text: str, at: int) -> End:
    """The tag that ends the thoughts that begin with the tag at ``at``.

    Thoughts inside thoughts end before them. Raises ReplyRefused when they never end: all the text after the tag may be
    thoughts.
    """
    for begins, ends in _MARKS:
        if begins.match(text, at):
            end = ends.search(text, at)
            return End(end.start(), end.end()) if end is not None else _never_ends()
    open_ones: list[str] = []
    for tag in _TAG.finditer(text, at):
        name = (tag.group("name") or tag.group("mistral")).lower()
        if tag.group("empty"):
            pass  # it is closed as it stands
        elif not (tag.group("over") or tag.group("past")):
            open_ones.append(name)
        elif open_ones[-1] == name:
            open_ones.pop()
        else:
            break
        if not open_ones:
            return End(tag.start(), tag.end())
    _never_ends()


def behind_thoughts(text: str) -> str | None:
    """The text behind the thoughts that it begins with; None: they never end."""
    text = text.lstrip()
    tag = _TAG.match(text)
    opens = tag is not None and not (tag.group("over") or tag.group("past") or tag.group("empty"))
    if not opens and not any(begins.match(text) for begins, _ in _MARKS):
        return text
    try:
        return text[end_of_thoughts(text, 0).end :]
    except ReplyRefused:
        return None


def _never_ends() -> NoReturn:
    refuse(
        "Your reply never ends its thoughts: the tag that opens them is not closed. Send only the JSON object, "
        "without thoughts."
    )


def stray_end(text: str, at: int) -> End | None:
    """The last tag that ends thoughts, if from ``at`` on none begins; None: there is no such tag alone on its line."""
    tags = list(_TAG.finditer(text, at))
    if not tags or not all(tag.group("over") or tag.group("past") for tag in tags):
        return None
    last = tags[-1]
    return End(last.start(), last.end()) if alone(text, last.start(), last.end()) else None


def alone(text: str, begin: int, end: int) -> bool:
    """Whether the tag is alone on its line."""
    before = text[max(0, begin - _LINE_CHARS) : begin].rpartition("\n")[2]
    return not (before + text[end : end + _LINE_CHARS].partition("\n")[0]).strip()


def odd_quotes(text: str, quote: str = "") -> bool:
    """Whether a text has an odd number of quotes, those behind a backslash left out: a string may be open.

    Double quotes count, and those that are named.
    """
    return any((text.count(mark) - text.count(f"\\{mark}")) % 2 == 1 for mark in {'"', quote or '"'})


def may_hold_draft(thought: str) -> bool:
    """Whether a tag behind the thought may be in a string of a reply that was drafted there."""
    return odd_quotes(thought) or _DRAFT.search(thought) is not None


def drafts_are_closed(thought: str) -> bool:
    """Whether no string can be open behind a thought: its quotes are even, and every brace in it is closed.

    Drafts with single quotes are not believed: an apostrophe in one says nothing, and neither does its absence.
    """
    if odd_quotes(thought) or _FENCE_PARAMETER.search(thought):
        return False
    level, in_string = 0, False
    for token in _TOKEN.finditer(thought):
        mark = token.group()
        if mark == '"':
            in_string = level > 0 and not in_string
        elif in_string or mark[0] == "\\":
            continue
        elif mark == "{":
            level += 1
        elif not level:
            continue
        elif mark == "'":
            return False
        else:
            level -= 1
    return not level


def ends_early(text: str, at: int, end: int) -> bool:
    """Whether the fence that closes the block at ``at`` comes before ``end``: the block ends there."""
    fence = _FENCE.search(text, at, end)
    return fence is not None and not fence.group("tag").strip()


def hides_rest(block: str) -> bool:
    """Whether a block behind a reply may be the rest of a string that ended too early."""
    return odd_quotes(block) or _REST.search(block.rstrip("`~ \t\r\n")[-_REST_CHARS:]) is not None


class Block(NamedTuple):
    """Where to read on behind the line that opens a code block, and up to where all blocks are read."""

    end: int
    read_to: int
    whole: bool = True
    """False: the block never ends."""


def past_code(text: str, ticks: str, tag: str, at: int) -> Block:
    """Where to read on: in the block, or behind it if it holds thoughts or a program of another language.

    ``at`` is the place behind the language. A block that never ends reaches to the end of the text. One with
    a reply in it is read, and with it all up to there: so each part of the text is looked at once. Raises
    ReplyRefused when thoughts never end.
    """
    read = Block(at, at)
    if tag.lower() in _OURS:
        return read
    line = text.find("\n", at) + 1 or len(text)
    begin = _FENCE_BLANK.match(text, line)
    content = begin.end() if begin else line
    thinks = _THINKS.fullmatch(tag) is not None
    if not thinks and ("{" in text[at:line] or text[content : content + 1] in ("{", "[", "<", "`", "~")):
        return read
    for stop in _STOP.finditer(text, content):
        if stop.group("ticks") is None:
            if not thinks:
                return Block(at, stop.end())
        elif stop.group("ticks").startswith(ticks):
            return Block(stop.end(), at)
    if thinks:
        _never_ends()
    return Block(len(text), at, whole=False)
