"""What nodes say to each other about screens and keys: the messages of the wire, with who says it and of whom."""

import base64
import binascii
from typing import Final

from orchestrator.computers.nodes.messages import Said
from orchestrator.core.errors import InvalidRequest
from orchestrator.core.wire import wire
from orchestrator.core.wire.wire import ComputerId

ANSWER_WITHIN_S: Final = 5.0
"""What another node gets for a look or keys: its computer waits for its own queue for 3 s."""


def watches_to(node: str) -> str:
    """The subject of watches of one node's computers."""
    return f"watches.{node}"


def pictures_to(node: str) -> str:
    """The subject of pictures that one node watches."""
    return f"pictures.{node}"


class WatchTold(Said):
    """A node watches a screen of the other's computer for as long as the watch says."""

    node: str
    """Who watches."""
    computer: ComputerId
    watch: int
    """Drawn by who watches: of another number it is another watch, and begins with the whole picture."""
    of: str = ""
    """The name of a monitor; empty: the computer's own terminal."""
    lease_s: int
    heard: int = 0
    """The ``n`` of the last picture that has come."""


class PictureTold(Said):
    """A part of what a watched screen shows."""

    node: str
    """Who has the computer."""
    computer: ComputerId
    watch: int
    n: int
    """Counts the pictures of a watch from 1, without gaps."""
    whole: bool
    width: int
    height: int
    x: int
    y: int
    blink: bool
    palette: str | None = None
    rows: str = ""
    """As in the body of a picture, in base 64."""

    @property
    def message(self) -> wire.Picture:
        """As a computer of this node would have sent it. Raises ValueError where none could."""
        fields = ("watch", "n", "whole", "width", "height", "x", "y", "blink", "palette")
        return wire.Picture(journal_seq=0, **{name: getattr(self, name) for name in fields})

    @property
    def body(self) -> bytes:
        """The rows. Raises InvalidRequest."""
        try:
            return base64.b64decode(self.rows, validate=True)
        except binascii.Error:
            raise InvalidRequest("Another node's rows are no base 64.") from None


class UnseenTold(Said):
    """A watched screen cannot be read, until a picture says otherwise."""

    node: str
    computer: ComputerId
    watch: int
    unseen: str


class ScreensAsked(Said):
    """Asks which screens a computer of the other node has."""

    computer: ComputerId


class ScreensTold(Said):
    """The answer."""

    screens: tuple[wire.ScreenSize, ...] = ()


class KeysAsked(Said):
    """Types at a computer of the other node, once; the strokes go beside it as JSON."""

    computer: ComputerId


class KeysTold(Said):
    """What became of keys."""

    delivered: bool | None
    message: str = ""
