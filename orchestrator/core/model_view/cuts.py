"""The cut of a long text: its head, its tail, and between them which lines are left out and how to ask for them.

Theory. A text may be cut twice, by the tool that read it and again for the window of a model. So a cut reads the text
back: it finds the gap of an earlier cut, and the new gap tells the lines of both. A gap is between whole lines;
a line that is too long by itself is shortened inside, and tells its characters. In the text of a file each line has
its number before it, so that no file can imitate a gap.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from orchestrator.core.values import immutable

_LEAST_LINE: Final = 200
"""A line of up to so many characters is never shortened."""
_MARK: Final = 130
"""Characters of the mark inside a line that was shortened."""
_HEAD_EDGE: Final = re.compile(r"(?<![^\s;,&|])[^\s;,&|]{1,1000}\Z")
_TAIL_EDGE: Final = re.compile(r"\A(?:[^;,&|]{0,200}[;,&|]|[^\s;,&|]{1,1000}(?=\s))")
"""The rest of a word after a cut inside of a line, and a value without its name: a secret is whole or gone."""
_PREFIX: Final = re.compile(r"\s*[0-9]{1,9}\|")
_GAP: Final = re.compile(r"\[lines ([0-9]{1,9})-([0-9]{1,9}) left out(?:; .*)?\]", re.DOTALL)
_ROW: Final = re.compile(r"^(?:([0-9]{1,9})\|(?: ([^\n]*))?|([^\n]*))$", re.MULTILINE)
"""A numbered line, or any other row; all rows are found at once, since a search for each costs more."""
_INNER_MARK: Final = "[… "
_INNER: Final = re.compile(
    r"\[… [0-9]{1,9} characters left out, ([0-9]{1,9})-([0-9]{1,9}) of this line(?:; [^\]]*)? …\]"
)
_LEFT_OUT: Final = re.compile(
    r"^\[(?:lines [0-9-]+ left out(?:; .*)?|\.\.\. [0-9]+ bytes left out \.\.\.)\]$"
    r"|\[… [0-9]+ characters left out, .*? …\]",
    re.MULTILINE,
)


@immutable
class Rest:
    """How what a cut leaves out can be asked for."""

    how: str = ""
    """Such as ``cc_read path=farm.lua``; empty: it cannot."""
    numbered: bool = False
    """Whether it is the text of a file with numbered lines: ``how`` then takes a ``start_line``."""
    paged: bool = False
    """Whether the head alone is shown, since somebody reads on from line to line."""


NO_REST: Final = Rest()
"""Nobody can ask for the part that a cut leaves out."""


class Line(NamedTuple):
    """One line, or its two ends where it was shortened."""

    number: int
    head: str
    tail: str = ""
    left_out: tuple[int, int] | None = None
    """The first and the last character that is left out; None: none is."""


def numbered(lines: Sequence[str], first: int, chars: int, rest: Rest, *, header: str = "") -> str:
    """The text of a file with a number before each line, in at most about so many characters.

    ``lines`` are at least one, without their line ends; ``first`` is the number of the first. ``header`` is a line
    before them; empty: none.
    """
    # A line takes at least three characters, so those between are never shown.
    most = chars // 3 + 1
    if len(lines) <= most and (whole := _whole(lines, first, chars, header)) is not None:
        return whole
    ends = range(len(lines)) if len(lines) <= 2 * most else (*range(most), *range(len(lines) - most, len(lines)))
    shown = [Line(first + at, lines[at]) for at in ends]
    return _told(header, shown, first + len(lines) - 1, chars, rest)


def _whole(lines: Sequence[str], first: int, chars: int, header: str) -> str | None:
    """The same where it has all of every line, as it mostly has; None: it does not, or only just."""
    rows = [f"{number}| {line}" if line else f"{number}|" for number, line in enumerate(lines, first)]
    room = chars - len(header)
    longest = max(map(len, rows)) + 2
    if longest > max(_LEAST_LINE * (len(rows) > 1), room // 3) or sum(map(len, rows)) + 2 * len(rows) > room:
        return None
    return "\n".join([header, *rows] if header else rows)


def cut(text: str, chars: int, rest: Rest = NO_REST) -> str:
    """A text in at most about so many characters; parts that an earlier cut left out count as left out."""
    if len(text) <= chars:
        return text
    header, lines, end = (_read_numbered(text) if rest.numbered else None) or _read_plain(text)
    return _told(header, lines, end, chars, rest if header is not None else Rest(rest.how))


def head_of(text: str) -> str:
    """A text that was cut at its end, without the piece of a word there."""
    return _HEAD_EDGE.sub("", text)


def tail_of(text: str) -> str:
    """A text that was cut at its beginning, without what may be a value there."""
    return _TAIL_EDGE.sub("", text)


def parts(text: str) -> list[str]:
    """The pieces of a text between the notes about parts that were left out, here or by its computer."""
    return _LEFT_OUT.split(text)


def lines_in(text: str) -> tuple[int, int] | None:
    """How many lines a text of numbered lines is about, and how many of them it shows.

    None: the text does not have numbered lines.
    """
    read = _rows(text)
    if read is None:
        return None
    _, rows = read
    return _end(rows) - int(rows[0][0]) + 1, len([number for number, _, _ in rows if number])


def is_numbered(text: str) -> bool:
    """Whether every line begins as the lines of a file are shown, with its number and ``|``; blank ones may not."""
    lines = [line for line in text.split("\n") if line.strip()]
    return bool(lines) and all(_PREFIX.match(line) for line in lines)


def counts_up(text: str) -> bool:
    """Whether a text has several lines, and each begins with its own number and ``|``: it is likely a copy."""
    lines = text.removesuffix("\n").split("\n")
    return len(lines) > 1 and all(line.startswith(f"{number}|") for number, line in enumerate(lines, 1))


# -- inside ------------------------------------------------------------------------------


def _rows(text: str) -> tuple[int, list[tuple[str, str, str]]] | None:
    """The place of the first numbered line, and from it on the number and the text of each, or any other row.

    None: the text has no such line, or others than gaps after it.
    """
    rows = _ROW.findall(text)
    start = next((at for at, (number, _, _) in enumerate(rows) if number), None)
    if start is None:
        return None
    rows = rows[start:]
    is_read = all(_GAP.fullmatch(other) for number, _, other in rows if not number)
    return (start, rows) if is_read else None


def _end(rows: Sequence[tuple[str, str, str]]) -> int:
    """The number of the last line that rows are about."""
    number, _, gap = rows[-1]
    return int(number or gap.partition("-")[2].partition(" ")[0])


def _read_numbered(text: str) -> tuple[str, list[Line], int] | None:
    """The text before the numbered lines, the lines, and the number of the last; None: they have no numbers."""
    read = _rows(text)
    if read is None:
        return None
    start, rows = read
    lines = [
        Line(int(number), said) if _INNER_MARK not in said else _line(int(number), said)
        for number, said, _ in rows
        if number
    ]
    return "\n".join(text.split("\n", start)[:start]), lines, _end(rows)


def _read_plain(text: str) -> tuple[None, list[Line], int]:
    """The same of any other text, counted from the gap that it has, or from its beginning."""
    rows = text.split("\n")
    gaps = ((at, gap) for at, row in enumerate(rows) if at and (gap := _GAP.fullmatch(row)) is not None)
    at, gap = next(gaps, (len(rows), None))
    first, last = (len(rows) + 1, len(rows)) if gap is None else (int(gap[1]), int(gap[2]))
    lines = [_line(first - at + place, row) for place, row in enumerate(rows[:at])]
    lines += [_line(last + place, row) for place, row in enumerate(rows[at + 1 :], 1)]
    return None, lines, max(last, lines[-1].number)


def _line(number: int, row: str) -> Line:
    """A line as it is shown, read back."""
    inner = _INNER.search(row)
    if inner is None or int(inner[1]) != inner.start() + 1:
        return Line(number, row)
    return Line(number, row[: inner.start()], row[inner.end() :], (int(inner[1]), int(inner[2])))


def _told(header: str | None, lines: Sequence[Line], end: int, chars: int, rest: Rest) -> str:
    room = max(1, chars - len(header or ""))
    most = room if len(lines) == 1 else max(_LEAST_LINE, room // 3)
    sizes = [_size(line) for line in lines]
    if max(sizes) > most:
        lines = [_shortened(line, most) for line in lines]
        sizes = [_size(line) for line in lines]
    rows, before = [header] if header else [], lines[0].number - 1
    for line in _kept(lines, sizes, room, rest):
        if line.number > before + 1:
            rows.append(_gap(before + 1, line.number - 1, rest))
        rows.append(_shown(line, rest))
        before = line.number
    if before < end:
        rows.append(_gap(before + 1, end, rest))
    return "\n".join(rows)


def _kept(lines: Sequence[Line], sizes: Sequence[int], room: int, rest: Rest) -> Sequence[Line]:
    """The lines that are shown: all, or the head and the tail as far as they reach without a gap."""
    if sum(sizes) <= room:
        return lines
    head = _run(lines, sizes, room if rest.paged else room * 2 // 3)
    if rest.paged:
        return lines[:head]
    tail = _run(lines[: head - 1 : -1], sizes[: head - 1 : -1], room // 3)
    return [*lines[:head], *lines[len(lines) - tail :]]


def _run(lines: Sequence[Line], sizes: Sequence[int], room: int) -> int:
    """How many of the lines fit, up to where one is missing between them; at least one."""
    for at, (line, size) in enumerate(zip(lines, sizes, strict=True)):
        room -= size
        if at and (room < 0 or abs(line.number - lines[at - 1].number) > 1):
            return at
    return len(lines)


def _size(line: Line) -> int:
    return len(line.head) + len(line.tail) + len(str(line.number)) + 3 + (_MARK if line.left_out else 0)


def _shortened(line: Line, most: int) -> Line:
    if _size(line) <= most:
        return line
    room = max(_LEAST_LINE // 2, most - _MARK - 10)
    head, tail = line.head[: room * 2 // 3], (line.tail if line.left_out else line.head)[-(room // 3) :]
    head, tail = head_of(head) or head, tail_of(tail) or tail
    last = line.left_out[1] + len(line.tail) if line.left_out else len(line.head)
    return Line(line.number, head, tail, (len(head) + 1, last - len(tail)))


def _shown(line: Line, rest: Rest) -> str:
    text = line.head
    if line.left_out is not None:
        first, last = line.left_out
        how = "; cc_find with contains shows the part around a text" if rest.numbered else ""
        left_out = f"{last - first + 1} characters left out, {first}-{last} of this line"
        text = f"{line.head}[… {left_out}{how} …]{line.tail}"
    if not rest.numbered:
        return text
    return f"{line.number}| {text}" if text else f"{line.number}|"


def _gap(first: int, last: int, rest: Rest) -> str:
    how = f"{rest.how} start_line={first}" if rest.numbered else rest.how
    return f"[lines {first}-{last} left out{f'; {how}' if how else ''}]"
