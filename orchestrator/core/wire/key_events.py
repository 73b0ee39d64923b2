"""What a person types from outside, as the strokes that a computer takes: keys, characters, pasted texts."""

from collections.abc import Sequence
from typing import Final

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.text.charset import as_byte, is_typed

Stroke = dict[str, str | bool]
"""One of ``key``, ``char``, ``paste`` and ``terminate``; texts are byte strings, one character for each byte."""

TERMINATE: Final = "terminate"
"""What the game makes of Ctrl and T, held for a second: it ends the program in front."""
KEY_NAMES: Final = (
    *("enter", "tab", "backspace", "delete", "insert", "up", "down", "left", "right", "home", "end", "pageUp"),
    *("pageDown", *(f"f{number}" for number in range(1, 13)), "leftCtrl", "leftAlt", "leftShift", TERMINATE),
)
"""The keys that have a name, as the game calls them. Restart and shutdown are none: what is off stays off."""
MAX_STROKES: Final = 40
"""Each is up to three events of the computer's 256."""
MAX_TEXT_CHARS: Final = 512
"""What the game pastes at once."""


def of_text(text: str) -> list[Stroke]:
    """A text: a single character is typed, more of them are pasted, line by line. Raises InvalidRequest."""
    strokes: list[Stroke] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n")):
        if number:
            strokes.append({"key": "enter"})
        if line:
            typed = "".join(map(_typed, line))
            strokes.append({"char": typed} if len(typed) == 1 else {"paste": typed})
    return _bounded(strokes)


def of_keys(names: Sequence[str]) -> list[Stroke]:
    """Keys by their names, or by the characters that they make. Raises InvalidRequest."""
    return _bounded([_stroke(name) for name in names])


def _stroke(name: str) -> Stroke:
    if name == TERMINATE:
        return {TERMINATE: True}
    if name in KEY_NAMES:
        return {"key": name}
    if len(name) == 1:
        return {"char": _typed(name)}
    raise InvalidRequest(
        f"There is no key {name[:40]!r}.", remedy=f"Name a character, or one of {', '.join(KEY_NAMES)}."
    )


def _typed(char: str) -> str:
    """The byte of a character, as a character."""
    byte = as_byte(char)
    if byte is None or not is_typed(byte):
        raise InvalidRequest(
            f"The game has no key for {char!r}.", remedy="It takes ASCII and the letters of western Europe."
        )
    return chr(byte)


def _bounded(strokes: list[Stroke]) -> list[Stroke]:
    if not 1 <= len(strokes) <= MAX_STROKES:
        raise InvalidRequest(
            f"That is {len(strokes)} keys and lines; 1 to {MAX_STROKES} go at once.", remedy="Send it in parts."
        )
    return strokes
