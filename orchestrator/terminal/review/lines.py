"""Lines of safe text: what every page of the console is made of, and how a terminal shows them."""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from orchestrator.core.text.patch import unified_diff
from orchestrator.core.text.visible import one_line, visible

# -- Lines of safe text: what every page of the console is made of, and how a terminal shows them

Style = Literal["", "title", "alarm", "call", "file", "hunk", "added", "removed", "warning"]

BAR: Final = "  │ "
"""Begins every line of a text that the world wrote, so that none of its lines looks like one of ours."""
WHOLE: Final = 100_000_000
"""Longer than any text: what a decision is about is never cut here."""

_PLAIN: Final = "\x1b[0m"
_COLORS: Final[Mapping[Style, str]] = {
    "title": "\x1b[1m",
    "alarm": "\x1b[1;31m",
    "call": "\x1b[1m",
    "file": "\x1b[1m",
    "hunk": "\x1b[36m",
    "added": "\x1b[32m",
    "removed": "\x1b[31m",
    "warning": "\x1b[33m",
}
_HANGING: Final = 6
"""Blanks before the second and further lines of what was wrapped."""
_LEAST_COLUMNS: Final = 20
_PIECE: Final = re.compile(r"\S+\s*|\s+")
_JSON_ESCAPE: Final = re.compile(r"\\(?:u00([01][0-9a-f])|(.))")
_JSON_LETTERS: Final = {"b": "8", "f": "c", "r": "d"}
"""Escapes of JSON that have a letter of their own, and their code; a line break and a tab are \\n and \\t here too."""


class Line(NamedTuple):
    """One line; nothing in it moves the cursor."""

    text: str
    style: Style = ""
    prose: bool = False
    """Whether a terminal may break it at blanks; what runs is never broken."""


def bar(text: str, style: Style = "") -> Line:
    """One line of a text of the world."""
    return Line(BAR + text, style)


def block(text: str) -> list[Line]:
    """A whole text of the world, line by line."""
    return [bar(line) for line in visible(text).splitlines()]


def field(name: str, text: str, *, prose: bool = False) -> list[Line]:
    """A name and its text: on one line, or below each other."""
    shown = visible(text).splitlines() or [""]
    if len(shown) == 1:
        return [Line(f"  {one_line(name)}: {shown[0]}", prose=prose)]
    return [Line(f"  {one_line(name)}:"), *(bar(line) for line in shown)]


def diff_lines(diff: str) -> Iterator[Line]:
    """A unified diff, its lines styled by what they say."""
    for number, line in enumerate(visible(diff).splitlines()):
        yield bar(line, "file" if number < 2 and line.startswith(("--- ", "+++ ")) else _style_of(line))


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Line]:
    """What differs between two sets of arguments, each argument as a diff of its own."""
    lines: list[Line] = []
    for name in dict.fromkeys((*before, *after)):
        given = [some[name] for some in (before, after) if name in some]
        # A number and its digits differ, though they look alike.
        shown: Callable[[Any], str] = str if all(isinstance(value, str) for value in given) else as_json
        old, new = (shown(some[name]) if name in some else None for some in (before, after))
        if old != new:
            lines.extend([Line(f"  {one_line(name)}:"), *_change(old, new)])
    return lines


def _change(old: str | None, new: str | None) -> Iterator[Line]:
    if "\n" in f"{old}{new}":
        # Its first two lines name files, and there is none.
        yield from list(diff_lines(unified_diff(old or "", new or "", "")))[2:]
        return
    if old is not None:
        yield bar(f"-{visible(old)}", "removed")
    if new is not None:
        yield bar(f"+{visible(new)}", "added")


def text_of(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else as_json(value)


def as_json(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON, its control characters in the one form in which all are shown."""

    def shown(found: re.Match[str]) -> str:
        code = found[1] or _JSON_LETTERS.get(found[2])
        return found[0] if code is None else f"\\u{{{int(code, 16):x}}}"

    return _JSON_ESCAPE.sub(shown, json.dumps(value, ensure_ascii=False, indent=indent))


def on_screen(line: Line, *, color: bool, columns: int | None) -> list[str]:
    """A line as a terminal shows it: wrapped where it may be, and in color where there is any.

    Whatever made the line, no control character gets past here but those of our colors.
    """
    safe = visible(line.text).replace("\n", "\\n")
    parts = _wrapped(safe, columns) if line.prose and columns is not None else [safe]
    paint = _COLORS.get(line.style) if color else None
    return [f"{paint}{part}{_PLAIN}" for part in parts] if paint else parts


def _style_of(line: str) -> Style:
    styles: dict[str, Style] = {"+": "added", "-": "removed", "@": "hunk"}
    return styles.get(line[:1], "")


def _wrapped(text: str, columns: int) -> list[str]:
    """A line in parts of so many columns, broken after blanks; every character of it stays."""
    if columns < _LEAST_COLUMNS:
        return [text]
    lead = text[: len(text) - len(text.lstrip(" "))]
    parts, taken = [lead], len(lead)
    for piece in _PIECE.findall(text[len(lead) :]):
        if taken + _width(piece) > columns and parts[-1].strip():
            parts.append(" " * _HANGING)
            taken = _HANGING
        parts[-1] += piece
        taken += _width(piece)
    return parts


def _width(text: str) -> int:
    """Columns that a text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
        for char in text
    )


# -- What an undo, or putting a backup back, would do, as lines for a person -------------

_DOES: Final = {
    "restore": "put back",
    "remove": "remove",
    "conflict": "KEEP",
    "nothing": "as it was",
    "away": "wait for",
}
_WHY: Final = frozenset({"conflict", "away"})


def told(preview: Mapping[str, Any]) -> list[str]:
    """A preview as lines for a person."""
    lines = []
    for one in preview["places"]:
        why = f"  ({one['why']})" if one["why"] and one["verdict"] in _WHY else ""
        lines.append(f"{_DOES[one['verdict']]:<10}{one_line(one['place'])}{why}")
    limits = preview["cannot_be_undone"]
    lines += [f"cannot be undone: step {one['step']}, {one['tool']}: {one['what']}" for one in limits]
    waited = preview.get("not_heard", [])
    lines += [f"wait for  step {one['step']}, {one['tool']}{_on(one)}: {one['what']}" for one in waited]
    return lines


def restore_told(preview: Mapping[str, Any]) -> Iterator[str]:
    """What putting a backup back would do, as lines for a person."""
    yield f"from {preview['backup_id']}:"
    changing = [one for one in preview["places"] if one["verdict"] != "nothing"]
    if changing:
        yield from told({"places": changing, "cannot_be_undone": []})
    same = len(preview["places"]) - len(changing)
    if same:
        yield "1 is as it was." if same == 1 else f"{same} are as they were."
    since = preview["came_since"]
    if since is None:
        yield "The computer is not connected: what is there now is not known."
    elif since and not preview["exact"]:
        yield f"{since} came since and stay."


def _on(one: Mapping[str, Any]) -> str:
    return f" on {one_line(one['computer'])}" if one["computer"] else ""


# -- Grants in words: what one allows without asking -------------------------

_TEXTS: Final = ("content", "old", "new", "patch")
"""Arguments that are the text of a change: too long to be shown, so only said to be fixed."""


def allows(grant: Mapping[str, Any]) -> str:
    """What it covers, in one line that is not safe to look at yet; a call has to fit all of it."""
    parts = [", ".join(grant["paths"])] if grant["paths"] else []
    args = grant["args"]
    parts += [f"{name} {json.dumps(args[name])}" for name in sorted(args) if name not in _TEXTS]
    if grant["scope"] == "call":
        parts.append("only this very call")
    elif grant["any_content"]:
        parts.append("any text")
    elif any(name in args for name in _TEXTS):
        parts.append("the very same text")
    if grant["files"]:
        parts.append(f"while {' and '.join(sorted(grant['files']))} stays as it was")
    where = f" on {grant['computer']}" if grant["computer"] else ""
    return f"{grant['tool']}{where}{': ' if parts else ''}{'; '.join(parts)}"
