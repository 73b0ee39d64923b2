"""The help: every key and what it does, those of the part that is on the screen first."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from orchestrator.terminal.console.lines import Line
from orchestrator.terminal.tui.pane import Pane

_EVERYWHERE: Final[Sequence[tuple[str, str]]] = (
    ("1 … 7", "the parts"),
    ("Tab", "the list, or its page"),
    ("↑ ↓ j k", "move; PgUp PgDn Home End by pages"),
    ("Enter", "the page alone; Esc both again"),
    ("m", "what was said lately"),
    ("Ctrl+T", "light or dark"),
    ("Ctrl+Z", "set it aside; `fg` in the shell brings it back"),
    ("q Ctrl+C", "leave; what was not decided stays open"),
)


def help_lines(parts: Iterable[Pane], present: Pane) -> list[Line]:
    """All keys."""
    first = sorted(parts, key=lambda part: part is not present)
    lines = [Line("Everywhere", "title"), *_named(_EVERYWHERE)]
    for part in first:
        if part.keys:
            lines += [Line(""), Line(part.title, "title"), *_named(part.keys)]
    return lines


def said_lines(said: Sequence[str]) -> list[Line]:
    """What was said, the last first."""
    return [Line(one, prose=True) for one in reversed(said)] or [Line("Nothing yet.")]


def _named(keys: Sequence[tuple[str, str]]) -> Iterator[Line]:
    return (Line(f"  {key:<10} {what}", prose=True) for key, what in keys)
