"""The terminal of a stub computer: what a test draws there is sent to whoever watches, and what they type is kept."""

import json
from typing import Any, Final, Protocol

from orchestrator.core.wire import wire
from orchestrator.core.wire.picture import Row, bodies_of

WHITE_ON_BLACK: Final = ("0", "f")
_NO_MONITOR: Final = "A stub computer has no monitor that can be watched."


class Line(Protocol):
    """The way to the server."""

    def send(self, message: Any, body: bytes = b"") -> None:
        """Send a message; without a connection it is lost."""


class StubScreen:
    """A terminal of so many columns and rows."""

    def __init__(self, width: int = 51, height: int = 19) -> None:
        self.width, self.height = width, height
        self.rows = {number: Row(b" " * width, "0" * width, "f" * width) for number in range(1, height + 1)}
        self.typed: list[dict[str, Any]] = []
        """The key events that were typed, in order."""
        self.refuses = ""
        """Why nothing can be typed; empty: it can."""
        self._watches: dict[int, int] = {}
        """Each watch and the ``n`` of its last picture."""
        self._line: Line | None = None
        self._seq = 0

    @property
    def is_watched(self) -> bool:
        """Whether anybody looks."""
        return bool(self._watches)

    def draw(self, number: int, text: bytes, fg: str = WHITE_ON_BLACK[0], bg: str = WHITE_ON_BLACK[1]) -> None:
        """Put a text into a row, in one colour; whoever watches sees it."""
        text = text[: self.width].ljust(self.width)
        self.rows[number] = Row(text, fg * self.width, bg * self.width)
        for watch in self._watches:
            self._show(watch, {number: self.rows[number]}, whole=False)

    def disconnected(self) -> None:
        """The session is over, and every watch with it."""
        self._watches.clear()

    def take(self, line: Line, message: wire.Watch | wire.Look | wire.Keys, body: bytes, journal_seq: int) -> None:
        """What the server wants of the screen."""
        self._line, self._seq = line, journal_seq
        match message:
            case wire.Watch():
                self._watch(message)
            case wire.Look():
                found = json.dumps([{"width": self.width, "height": self.height}]).encode()
                line.send(wire.Screens(journal_seq=journal_seq, look=message.look, body=wire.whole(found)), found)
            case wire.Keys():
                self._type(message, body)

    def _watch(self, message: wire.Watch) -> None:
        if message.lease_s == 0:
            self._watches.pop(message.watch, None)
        elif message.of is not None:
            self._send(wire.Unseen(journal_seq=self._seq, watch=message.watch, message=_NO_MONITOR))
        elif message.watch not in self._watches:
            self._watches[message.watch] = 0
            self._show(message.watch, self.rows, whole=True)

    def _type(self, message: wire.Keys, body: bytes) -> None:
        if self.refuses:
            code, why = "unseen", self.refuses
            self._send(wire.Keyed(journal_seq=self._seq, keys=message.keys, ok=False, code=code, message=why))
            return
        self.typed += json.loads(body)
        self._send(wire.Keyed(journal_seq=self._seq, keys=message.keys, ok=True))

    def _show(self, watch: int, rows: dict[int, Row], *, whole: bool) -> None:
        """Send rows, in as many frames as they take."""
        for place, body in enumerate(bodies_of(rows)):
            self._watches[watch] += 1
            picture = wire.Picture(
                journal_seq=self._seq,
                watch=watch,
                n=self._watches[watch],
                whole=whole and place == 0,
                width=self.width,
                height=self.height,
                x=1,
                y=1,
                blink=False,
                body=wire.whole(body),
            )
            self._send(picture, body)

    def _send(self, message: Any, body: bytes = b"") -> None:
        if self._line is not None:
            self._line.send(message, body)
