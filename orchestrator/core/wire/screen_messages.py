"""The messages about watched screens and about keys that a person sends to them.

All are notifications: never acknowledged, never in a journal, never sent again.
"""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.text.visible import as_byte, is_typed

# -- What the messages of the computer channel are made of: their base, byte strings, counters and bodies

MAX_CALL_ID_CHARS: Final = 24
MAX_COUNTER: Final = 10**13

WireString = Annotated[str, Field(pattern="^[\u0000-\u00ff]*$")]
"""A byte string: every character is one byte."""
ShortString = Annotated[WireString, Field(max_length=256)]
CallIdString = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=MAX_CALL_ID_CHARS)]
Counter = Annotated[int, Field(ge=0, le=MAX_COUNTER)]
"""A number that survives Lua's ``%.14g``."""


class WireMessage(BaseModel):
    """A message, or a part of one: strict, frozen, and nothing in it that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class Body(WireMessage):
    """Where the body of this frame belongs: ``offset`` in a whole of ``total`` bytes."""

    offset: Counter = 0
    total: Counter
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """The sha256 of the whole, not of this frame's part (except for ``output``)."""


# -- What a person types from outside, as the key events that a computer takes: keys, characters, pasted texts

Stroke = dict[str, str | bool]
"""One of ``key``, ``char``, ``paste`` and ``terminate``; texts are byte strings, one character for each byte."""

TERMINATE: Final = "terminate"
"""The effect of Ctrl and T in the game, held for a second: it ends the program in front."""
KEY_NAMES: Final = (
    *("enter", "tab", "backspace", "delete", "insert", "up", "down", "left", "right", "home", "end", "pageUp"),
    *("pageDown", *(f"f{number}" for number in range(1, 13)), "leftCtrl", "leftAlt", "leftShift", TERMINATE),
)
"""The keys that have a name, as the game calls them.

Restart and shutdown are not among them: a computer that is off stays off.
"""
MAX_STROKES: Final = 40
"""Each is up to three events of the computer's 256."""
MAX_TEXT_CHARS: Final = 512
"""The most characters that the game pastes at once."""


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
            f"The game has no key for {char!r}.", remedy="Type ASCII and the letters of western Europe."
        )
    return chr(byte)


def _bounded(strokes: list[Stroke]) -> list[Stroke]:
    if not 1 <= len(strokes) <= MAX_STROKES:
        raise InvalidRequest(
            f"That is {len(strokes)} keys and lines; 1 to {MAX_STROKES} go at once.", remedy="Send it in parts."
        )
    return strokes


# -- The messages about screens that somebody watches from outside, and about keys that are typed from there

MIRROR: Final = "mirror"
"""The capability of a computer that sends pictures of its screens while somebody watches."""
KEYS: Final = "keys"
"""The capability of a computer that takes keys from outside."""
MAX_PICTURE_BYTES: Final = 4096
"""The rows of one frame: a computer sends no more of them in a second."""
MAX_COLUMNS: Final = 162
MAX_ROWS: Final = 81
"""The largest monitor at its smallest text; of a larger one the upper left part is seen."""
MAX_SCREENS: Final = 64
"""Screens that a computer names."""


class Watch(WireMessage):
    """Somebody watches a screen for ``lease_s`` seconds more; with 0, nobody does any longer.

    A ``watch`` that the computer does not know begins: a whole picture is sent.
    """

    type: Literal["watch"] = "watch"
    watch: Counter
    """Drawn by the server; rises within a session."""
    of: ShortString | None = None
    """The name of a monitor; None: the computer's own terminal."""
    lease_s: Counter
    heard: Counter | None = None
    """The ``n`` of the last picture that has come; None: none has."""


class Look(WireMessage):
    """Asks which screens there are."""

    type: Literal["look"] = "look"
    look: Counter


class Keys(WireMessage):
    """Types at the computer what the body says: a JSON list of :data:`Stroke`; once, or not at all."""

    type: Literal["keys"] = "keys"
    keys: Counter
    """Drawn by the server; rises within a session."""
    body: Body


class Picture(WireMessage):
    """What a watched screen shows now: the rows in the body, and the others as they were."""

    type: Literal["picture"] = "picture"
    journal_seq: Counter
    watch: Counter
    n: Counter
    """Counts the pictures of a watch from 1, without gaps."""
    whole: bool
    """Whether what was sent before counts no more; every row comes in this frame and the ones after it."""
    width: Annotated[int, Field(ge=1, le=MAX_COLUMNS)]
    height: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    x: Counter
    """The cursor's column from 1; 0, or more than the width: it is beside the screen."""
    y: Counter
    blink: bool
    palette: Annotated[str, Field(pattern="^[0-9a-f]{96}$")] | None = None
    """Red, green and blue of the 16 colours; None: as before, and of a whole picture as the game has them."""
    body: Body | None = None
    """Rows as :func:`orchestrator.core.wire.picture.read_rows` takes them; None: none changed."""


class Unseen(WireMessage):
    """A watched screen cannot be read, until a picture says otherwise."""

    type: Literal["unseen"] = "unseen"
    journal_seq: Counter
    watch: Counter
    message: Annotated[WireString, Field(max_length=512)]


class Screens(WireMessage):
    """Answers a :class:`Look`; the body is a JSON list of :class:`ScreenSize`."""

    type: Literal["screens"] = "screens"
    journal_seq: Counter
    look: Counter
    body: Body


class Keyed(WireMessage):
    """What became of :class:`Keys`: they were typed, or nothing of them was."""

    type: Literal["keyed"] = "keyed"
    journal_seq: Counter
    keys: Counter
    ok: bool
    code: ShortString | None = None
    """None when ok."""
    message: Annotated[WireString, Field(max_length=512)] | None = None
    """None when ok; else why nothing was typed."""


class ScreenSize(WireMessage):
    """One screen of a computer."""

    of: ShortString | None = None
    """The name of a monitor; None: the computer's own terminal."""
    width: Counter
    height: Counter
