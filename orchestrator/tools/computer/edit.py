"""An edit that replaces one place: exact on the file's bytes, and a refusal that tells what to do instead."""

from difflib import get_close_matches
from typing import Final, NoReturn

from orchestrator.core.errors import ToolFailed
from orchestrator.core.model_view.cuts import is_numbered
from orchestrator.tools.deps import Encoding, decode_text, encoding_of, fits_latin1

_MAX_COMPARED_LINES: Final = 2_000
"""Comparing so many with one line takes 0.1 s."""
_MAX_COMPARED_CHARS: Final = 200
_COPY: Final = "Read the file again and copy the text exactly, with its blanks."


def edited(data: bytes, old: str, new: str, shown: str) -> tuple[bytes, Encoding]:
    """The bytes after the edit, and how ``old`` and ``new`` are encoded: as the file is.

    ``shown`` is the path as the model wrote it. Raises ToolFailed unless ``old`` occurs exactly once:
    line ends and blanks count, nothing is adapted.
    """
    encoding = encoding_of(data)
    if not old:
        _refuse("The text to replace is empty.", "Name the text to replace; use cc_write for a whole new file.")
    if old == new:
        _refuse("The old and the new text are the same.", "Nothing has to be changed.")
    if encoding == "latin-1" and not fits_latin1(old + new):
        _refuse(f"{shown} is encoded as latin-1, which lacks some of these characters.", "Use others, or cc_write.")
    if _only_crlf(data) and _lone_line_feed(old + new):
        _refuse(f"The lines of {shown} end with \\r\\n.", "Write \\r\\n for each line end in old and in new.")
    before, after = old.encode(encoding), new.encode(encoding)
    places = _places(data, before)
    if not places:
        _must_have_no_numbers(old, "old", shown)
        _refuse(f"The text to replace is not in {shown}.{_closest(decode_text(data), old)}", _COPY)
    if len(places) > 1:
        numbers = list(dict.fromkeys(data.count(b"\n", 0, place) + 1 for place in places[:5]))
        more = " and more" if len(places) > 5 else ""
        lines = f"{'line' if len(numbers) == 1 else 'lines'} {', '.join(map(str, numbers))}{more}"
        _refuse(
            f"The text to replace occurs {len(places)} times in {shown}, at {lines}.",
            "Give more of the lines around the place that you mean, in old and in new.",
        )
    if not is_numbered(old) and _begins_with(new, data.count(b"\n", 0, places[0]) + 1):
        _must_have_no_numbers(new, "new", shown)
    return data[: places[0]] + after + data[places[0] + len(before) :], encoding


def _must_have_no_numbers(text: str, which: str, shown: str) -> None:
    """Raises ToolFailed where a text was copied from ``cc_read`` with its line numbers."""
    if is_numbered(text):
        prefix = text.lstrip().partition("|")[0]
        _refuse(
            f"Each line of {which} begins with a line number as cc_read shows it, such as '{prefix}| '. "
            f"These numbers are not in {shown}.",
            "Send old and new without them.",
        )


def _begins_with(text: str, number: int) -> bool:
    """Whether the first line has this very number before it: else it is a text that only looks like it."""
    return text.lstrip().startswith(f"{number}|")


def _places(data: bytes, wanted: bytes) -> list[int]:
    """Where the bytes occur; places may overlap, so that no edit can mean two of them."""
    places: list[int] = []
    at = data.find(wanted)
    while at >= 0:
        places.append(at)
        at = data.find(wanted, at + 1)
    return places


def _only_crlf(data: bytes) -> bool:
    return b"\n" in data and data.count(b"\n") == data.count(b"\r\n")


def _lone_line_feed(text: str) -> bool:
    return text.count("\n") > text.count("\r\n")


def _closest(text: str, old: str) -> str:
    """The line of the file that is most like the first line of ``old``, as a sentence; or nothing."""
    wanted = next((line.strip() for line in old.splitlines() if line.strip()), "")[:_MAX_COMPARED_CHARS]
    lines = [line.strip()[:_MAX_COMPARED_CHARS] for line in text.split("\n", _MAX_COMPARED_LINES)[:_MAX_COMPARED_LINES]]
    close = get_close_matches(wanted, lines, n=1, cutoff=0.6) if wanted else []
    return f" The closest line is {lines.index(close[0]) + 1}: {close[0]!r}." if close else ""


def _refuse(message: str, remedy: str) -> NoReturn:
    raise ToolFailed(message, remedy=remedy)
