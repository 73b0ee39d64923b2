"""Unified diffs: made for reviewers, and applied exactly or not at all.

A line is what ends with a line feed; nothing else ends one, so that every text survives
``apply_patch(before, unified_diff(before, after, path)) == after`` byte for byte. Lines keep
their line feed while they are compared: a missing final newline is a difference like any other.

There is no fuzz and no offset. A hunk that does not fit where it says is refused with what was
expected, what is there, and where its lines are instead: guessing is the model's business,
and the person approved the diff and not a guess.

One thing is not told by a patch that a model types: carriage returns. If every line of the
file ends with CRLF and no line of the patch does, the patch is read as one in CRLF.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Final, NamedTuple, NoReturn

from orchestrator.core.errors import ToolFailed

MAX_COMPARED_LINES: Final = 2_000
"""The most lines between the common start and end that are compared.

Where every second one differs, matching so many takes 0.2 s, and the time grows with the square. With more, all of them
are shown as replaced.
"""
CONTEXT_LINES: Final = 3
"""Lines around a change, as everywhere.

With none, a line put into a file in CRLF would not show which line ends it means.
"""
NO_NEWLINE: Final = "\\ No newline at end of file"
NULL: Final = "/dev/null"
_HUNK: Final = re.compile(r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@.*", re.DOTALL)
_GIT: Final = ("diff --git ", "index ", "new file mode ", "deleted file mode ", "old mode ", "new mode ")
_READ_AGAIN: Final = "Read the file again and make the patch from what it says now."


# -- making one ---------------------------------------------------------------------------


def unified_diff(before: str | None, after: str | None, path: str) -> str:
    """What changes between two texts; ``""`` when nothing does.

    Args:
        before: None: there is no such file yet (``/dev/null``), which is not the same as an empty one.
        after: None: the file goes away.
        path: How the file is called in the header.
    """
    if before == after:
        return ""
    old, new = _lines(before or ""), _lines(after or "")
    out = [f"--- {_header_name('a', path, before)}\n", f"+++ {_header_name('b', path, after)}\n"]
    for group in _grouped(_changes(old, new)):
        out.append(f"@@ -{_span(group[0].i1, group[-1].i2)} +{_span(group[0].j1, group[-1].j2)} @@\n")
        for part in group:
            if part.same:
                out += [_shown(" ", line) for line in old[part.i1 : part.i2]]
            else:
                out += [_shown("-", line) for line in old[part.i1 : part.i2]]
                out += [_shown("+", line) for line in new[part.j1 : part.j2]]
    return "".join(out)


def line_counts(diff: str | None) -> tuple[int, int] | None:
    """How many lines a unified diff of one file adds and removes; None: there is no diff."""
    if diff is None:
        return None
    body = diff.splitlines()[2:]
    return sum(line.startswith("+") for line in body), sum(line.startswith("-") for line in body)


_COMMENT: Final = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|--.*|[ \t]+""")


def only_comments(diff: str | None) -> bool:
    """Whether a unified diff of a Lua file changes only comments and blank space.

    False also where that is not sure: next to long brackets, which go on over lines that a diff does not show.
    """
    body = (diff or "").splitlines()[2:]
    if not body or any("[[" in line or "]]" in line or "[=" in line for line in body):
        return False
    return _code(body, "-") == _code(body, "+")


def _code(body: Sequence[str], mark: str) -> list[str]:
    lines = (_COMMENT.sub(lambda found: found[1] or "", line[1:]) for line in body if line.startswith(mark))
    return [line for line in lines if line]


class _Part(NamedTuple):
    """``old[i1:i2]`` became ``new[j1:j2]``, or is the same."""

    same: bool
    i1: int
    i2: int
    j1: int
    j2: int


def _changes(old: Sequence[str], new: Sequence[str]) -> list[_Part]:
    """The parts in order, unchanged ones first and last; none at all when nothing changes."""
    if old == new:
        return []
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    tail = next((i for i in range(shorter - head) if old[-1 - i] != new[-1 - i]), shorter - head)
    old_end, new_end = len(old) - tail, len(new) - tail
    parts = [_Part(True, 0, head, 0, head)]
    if max(old_end, new_end) - head > MAX_COMPARED_LINES:
        parts.append(_Part(False, head, old_end, head, new_end))
    else:
        matcher = SequenceMatcher(None, old[head:old_end], new[head:new_end])
        for tag, i1, i2, j1, j2 in matcher.get_opcodes():
            parts.append(_Part(tag == "equal", head + i1, head + i2, head + j1, head + j2))
    return [*parts, _Part(True, old_end, len(old), new_end, len(new))]


def _grouped(parts: Sequence[_Part]) -> Iterator[list[_Part]]:
    """The hunks: changes with the lines around them, joined where those would touch.

    The first and the last part are unchanged lines, if only none of them.
    """
    group: list[_Part] = []
    for number, part in enumerate(parts):
        if not part.same:
            group.append(part)
            continue
        length = part.i2 - part.i1
        kept = min(CONTEXT_LINES, length)
        if number and (number == len(parts) - 1 or length > 2 * CONTEXT_LINES):
            yield [*group, part._replace(i2=part.i1 + kept, j2=part.j1 + kept)]
            group = []
        if group:
            group.append(part)
        else:
            group.append(part._replace(i1=part.i2 - kept, j1=part.j2 - kept))


def _span(start: int, end: int) -> str:
    if end - start == 1:
        return str(start + 1)
    return f"{start + 1 if end > start else start},{end - start}"


def _shown(mark: str, line: str) -> str:
    return f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n{NO_NEWLINE}\n"


def _header_name(side: str, path: str, text: str | None) -> str:
    if text is None:
        return NULL
    name = f"{side}/{path}"
    return name if name.isprintable() and '"' not in name else json.dumps(name)


# -- reading one --------------------------------------------------------------------------


@dataclass(frozen=True)
class Hunk:
    """One place that changes: at index ``at``, ``old`` becomes ``new``; lines have their line feeds."""

    number: int
    header: str
    at: int
    old: tuple[str, ...]
    new: tuple[str, ...]

    def __str__(self) -> str:
        return f"Hunk {self.number} ({self.header})"


@dataclass(frozen=True)
class Patch:
    """A patch of one file."""

    hunks: tuple[Hunk, ...]
    creates: bool = False
    deletes: bool = False


def parse_patch(text: str) -> Patch:
    """The patch that the text is. Raises ToolFailed with the line that cannot be read."""
    lines = [line.removesuffix("\n") for line in _lines(text)]
    if any(line.startswith("@@ ") and line.endswith("\r") for line in lines):
        lines = [line.removesuffix("\r") for line in lines]  # the whole patch was sent in CRLF
    at = 0
    while at < len(lines) and lines[at].startswith(_GIT):
        at += 1
    creates = deletes = False
    if _is_file_header(lines, at):
        creates, deletes = _names_null(lines[at]), _names_null(lines[at + 1])
        at += 2
    hunks: list[Hunk] = []
    while at < len(lines):
        if lines[at]:
            hunk, at = _read_hunk(lines, at, len(hunks) + 1)
            hunks.append(hunk)
        else:
            at += 1
    if not hunks and not creates and not deletes:
        _refuse("The patch has no hunk.", "Send a unified diff: '--- a/file', '+++ b/file', then '@@ -1,3 +1,4 @@'.")
    return Patch(tuple(hunks), creates, deletes)


def _line(lines: Sequence[str], at: int) -> str:
    return lines[at] if at < len(lines) else ""


def _is_file_header(lines: Sequence[str], at: int) -> bool:
    return _line(lines, at).startswith("--- ") and _line(lines, at + 1).startswith("+++ ")


def _names_null(line: str) -> bool:
    return line[4:].split("\t", maxsplit=1)[0].strip() == NULL


_SIDES: Final = {" ": (0, 1), "": (0, 1), "-": (0,), "+": (1,)}
"""Where a line belongs, old or new; an empty one is a context line that lost its blank on the way."""


def _read_hunk(lines: Sequence[str], at: int, number: int) -> tuple[Hunk, int]:
    header = lines[at]
    found = _HUNK.fullmatch(header)
    if found is None:
        _refuse_line(lines, at)
    start, old_count, _, new_count = (1 if group is None else int(group) for group in found.groups())
    old: list[str] = []
    new: list[str] = []
    end = at + 1
    sides: tuple[list[str], ...] = ()
    while end < len(lines):
        mark, line = lines[end][:1], lines[end][1:]
        if mark == "\\":
            for side in sides:
                side[-1] = side[-1].removesuffix("\n")
            sides = ()
        elif (len(old) >= old_count and len(new) >= new_count) or mark not in _SIDES:
            break
        else:
            sides = tuple((old, new)[side] for side in _SIDES[mark])
            for side in sides:
                side.append(line + "\n")
        end += 1
    if (len(old), len(new)) != (old_count, new_count) or _goes_on(lines, end):
        _refuse_counts(lines, at, number)
    first = start - 1 if old_count else start
    return Hunk(number, header, max(first, 0), tuple(old), tuple(new)), end


def _goes_on(lines: Sequence[str], at: int) -> bool:
    return _line(lines, at).startswith(("+", "-", " ")) and not _is_file_header(lines, at)


def _refuse_counts(lines: Sequence[str], at: int, number: int) -> NoReturn:
    end = at + 1
    while end < len(lines) and not lines[end].startswith("@@ ") and not _is_file_header(lines, end):
        end += 1
    while end > at + 1 and not lines[end - 1]:
        end -= 1
    marks = [line[:1] for line in lines[at + 1 : end]]
    old, new = (sum(side in _SIDES.get(mark, ()) for mark in marks) for side in (0, 1))
    _refuse(
        f"Hunk {number} ({lines[at]}) says another number of lines than it has: they are {old} old and {new} new.",
        "Count context and '-' lines for the old number, context and '+' lines for the new one.",
    )


def _refuse_line(lines: Sequence[str], at: int) -> NoReturn:
    if _is_file_header(lines, at) or lines[at].startswith("diff --git "):
        _refuse("The patch changes more than one file.", "Send one patch for each file.")
    _refuse(
        f"Line {at + 1} of the patch belongs to no hunk: {_quoted(lines[at])}.",
        "Send the unified diff alone; each hunk starts like '@@ -1,3 +1,4 @@', its lines with ' ', '-' or '+'.",
    )


# -- applying one -------------------------------------------------------------------------


def apply_patch(before: str | None, patch: str) -> str | None:
    """The text after the patch; None: the patch deletes the file.

    Args:
        before: The text of the file, None when there is none: then the patch must come from ``/dev/null``.
        patch: A unified diff of one file; its names do not matter, beyond ``/dev/null``.

    Raises ToolFailed, saying which hunk and line do not fit, what was expected and what is there.
    """
    read = parse_patch(patch)
    if read.creates and before is not None:
        _refuse("The patch creates the file, which is already there.", _READ_AGAIN)
    if before is None and not read.creates:
        _refuse("There is no such file to patch.", "To create it, start the patch with '--- /dev/null'.")
    lines = _lines(before or "")
    out = _with_hunks(lines, _in_the_files_line_ends(read.hunks, lines))
    if read.deletes:
        if out:
            _refuse(f"The patch deletes the file, but leaves {_counted(len(out))}.", _READ_AGAIN)
        return None
    unended = next((number for number, line in enumerate(out[:-1], 1) if not line.endswith("\n")), None)
    if unended is not None:
        _refuse(f"Line {unended} would have no newline and yet not be the last one.", f"See to '{NO_NEWLINE}'.")
    return "".join(out)


def taken_off(after: str, patch: str) -> str | None:
    """The text before a patch that :func:`unified_diff` made; None: there was no file.

    Raises ToolFailed where the patch does not make this text.
    """
    read = parse_patch(patch)
    moved = 0
    turned: list[Hunk] = []
    for hunk in read.hunks:
        turned.append(replace(hunk, at=hunk.at + moved, old=hunk.new, new=hunk.old))
        moved += len(hunk.new) - len(hunk.old)
    before = "".join(_with_hunks(_lines(after), turned))
    return None if read.creates and not before else before


def _with_hunks(lines: Sequence[str], hunks: Iterable[Hunk]) -> list[str]:
    """The lines after the hunks. Raises ToolFailed where one does not fit."""
    out: list[str] = []
    done = 0
    for hunk in hunks:
        if hunk.at < done:
            _refuse(f"{hunk} starts before the end of the hunk above it.", "Order the hunks; let none overlap.")
        _check(hunk, lines)
        out += lines[done : hunk.at]
        out += hunk.new
        done = hunk.at + len(hunk.old)
    return [*out, *lines[done:]]


def _in_the_files_line_ends(hunks: Sequence[Hunk], lines: Sequence[str]) -> Sequence[Hunk]:
    ended = [line for line in lines if line.endswith("\n")]
    told = [line for hunk in hunks for line in (*hunk.old, *hunk.new)]
    if not ended or not all(line.endswith("\r\n") for line in ended) or any(line.endswith("\r\n") for line in told):
        return hunks
    return [replace(hunk, old=_in_crlf(hunk.old), new=_in_crlf(hunk.new)) for hunk in hunks]


def _in_crlf(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{line[:-1]}\r\n" if line.endswith("\n") else line for line in lines)


def _check(hunk: Hunk, lines: Sequence[str]) -> None:
    """Raises ToolFailed unless the file has the hunk's old lines in the place that it names."""
    if hunk.at > len(lines):
        _refuse(f"{hunk} starts after line {hunk.at}, but the file has {_counted(len(lines))}.", _READ_AGAIN)
    for offset, expected in enumerate(hunk.old):
        at = hunk.at + offset
        if at >= len(lines):
            problem = f"line {at + 1} should be {_quoted(expected)}, but the file has {_counted(len(lines))}"
        elif lines[at] == expected:
            continue
        elif lines[at].removesuffix("\n") == expected.removesuffix("\n"):
            ended = lines[at].endswith("\n")
            problem = f"line {at + 1} is as expected, but it {'ends' if ended else 'does not end'} with a newline"
        else:
            problem = f"line {at + 1} should be {_quoted(expected)} and is {_quoted(lines[at])}"
        _refuse(f"{hunk} does not fit: {problem}.", _found_instead(hunk, lines))


def _found_instead(hunk: Hunk, lines: Sequence[str]) -> str:
    size = len(hunk.old)
    places = [i + 1 for i in range(len(lines) - size + 1) if tuple(lines[i : i + size]) == hunk.old]
    if not places:
        return f"Its old lines are nowhere in the file. {_READ_AGAIN}"
    listed = ", ".join(map(str, places[:5])) + (" and more" if len(places) > 5 else "")
    return f"Its old lines are at line {listed}: name the place that you mean in its header."


# -- lines --------------------------------------------------------------------------------


def _lines(text: str) -> list[str]:
    """The lines with their line feeds; only the last one may have none."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, last] if last else lines


def _quoted(line: str) -> str:
    shown = line.removesuffix("\n")
    return repr(shown if len(shown) <= 120 else f"{shown[:117]}...")


def _counted(lines: int) -> str:
    return f"{lines} line" if lines == 1 else f"{lines} lines"


def _refuse(message: str, remedy: str) -> NoReturn:
    raise ToolFailed(message, remedy=remedy)
