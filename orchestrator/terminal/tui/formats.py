"""How times, names and paths of the server are written, in the terminal UI."""

from datetime import datetime
from urllib.parse import quote

from orchestrator.core.text.visible import one_line


def moment(text: str | None) -> str:
    """A time of the server as a clock on the wall here shows it, to the minute; empty where there is none."""
    return f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M}" if text else ""


def name_of(text: str) -> str:
    """A name on one line, short enough for a title."""
    return one_line(text, limit=64)


def segment(text: str) -> str:
    """A name as one part of a path: a slash in it is no slash of the address."""
    return quote(text, safe="")
