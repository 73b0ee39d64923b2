"""Names that the game lists and cannot reach: put on the disk from the host, they become others, or lead to nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from orchestrator.tools.text import shown_name

_SHOWN: Final = 5
_UNNAMED: Final = "?"
"""Stands for a name that is not told: no name that the game reaches has it."""


@dataclass(frozen=True)
class Unreachable:
    """What a computer says of such names below a path; what it says is anybody's word."""

    count: int = 0
    names: tuple[str, ...] = ()
    """The first of them, as byte strings, relative to the path; what is no text for one line has marks instead."""

    @property
    def why(self) -> str:
        """Why nothing is known of them, as a sentence that each of the names gets."""
        more = self.count - len(self.names)
        return f"The game cannot reach this name{f', nor {more} more there' if more else ''}."

    @property
    def told(self) -> str:
        """How many they are and the first ones, for the model; empty: there are none."""
        if not self.count:
            return ""
        names = ", ".join(map(shown_name, self.names[:_SHOWN]))
        more = self.count - min(len(self.names), _SHOWN)
        which = f"{names} and {more} more" if more else names
        return f"(and {self.count} {'name' if self.count == 1 else 'names'} that the game cannot reach: {which})"


def unreachable_in(data: Mapping[str, Any]) -> Unreachable:
    """What the answer to a look says of them; an older client says nothing."""
    count, lines = data.get("unreachable", 0), data.get("unreachable_names", "")
    if not isinstance(count, int) or not isinstance(lines, str) or count < 1:
        return Unreachable()
    names = tuple(line for line in lines.split("\n") if _is_path(line))[:count]
    return Unreachable(count, names or (_UNNAMED,))


def _is_path(line: str) -> bool:
    parts = line.split("/")
    return not {"", ".", ".."} & set(parts) and not any(one == "\0" or one > "\xff" for one in line)
