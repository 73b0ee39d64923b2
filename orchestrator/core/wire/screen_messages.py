"""The messages about screens that somebody watches from outside, and about keys that are typed from there.

All are hints: never acknowledged, never in a journal, never sent again.
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from orchestrator.core.wire.message_parts import Body, Counter, ShortString, WireMessage, WireString

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
