"""What stands beside a stub computer: peripherals whose methods are Python callables, and monitors to look at."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from orchestrator.core.wire import wire
from orchestrator.core.wire.picture import Row, bodies_of
from orchestrator.testing.stub_disk import Answer, Params, StubFailure, checked

# -- What stands beside a stub computer: peripherals whose methods are Python callables, and monitors to look at

MAX_VALUE_BYTES: Final = 32 * 1024
"""What a computer answers at most of what a peripheral returned."""


@dataclass
class StubPeripheral:
    """One of them, by the name under which it hangs on the computer."""

    types: Sequence[str]
    methods: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """What a method answers is what it returned (a tuple: several values); what it raises is its error."""
    screen: Sequence[str] | None = None
    """Of a monitor: the rows that a program drew on it."""


class StubPeripherals:
    """All that stands beside one stub computer."""

    def __init__(self, devices: Mapping[str, StubPeripheral]) -> None:
        self._devices = devices

    def entries(self) -> list[dict[str, Any]]:
        """What ``info`` says of them, sorted by name."""
        return [
            {"name": name, "types": list(one.types), "methods": sorted(one.methods)}
            for name, one in sorted(self._devices.items())
        ]

    def call(self, params: Params, body: bytes | None) -> Answer:
        """``peripheral_call``. Raises StubFailure."""
        name, method, _ = checked(params, "name", "method", "timeout_s")
        values = _values(body)
        device = self._devices.get(name)
        if device is None:
            raise StubFailure("no_such_peripheral", "There is no peripheral of this name.")
        if method not in device.methods:
            raise StubFailure("no_such_method", "The peripheral has no method of this name.")
        try:
            returned = device.methods[method](*values)
        except Exception as error:  # noqa: BLE001 - whatever a method raises is the peripheral's error
            raise StubFailure("peripheral_error", str(error) or type(error).__name__) from None
        several = list(returned) if isinstance(returned, tuple) else [] if returned is None else [returned]
        told = json.dumps(several, separators=(",", ":")).encode("ascii")
        if len(told) > MAX_VALUE_BYTES:
            told = json.dumps([f"[{len(told)} bytes]"]).encode("ascii")
            return Answer({"count": len(several), "cut": True}, told)
        return Answer({"count": len(several), "cut": False}, told)

    def screen(self, name: str) -> Answer:
        """``screen`` of a monitor. Raises StubFailure."""
        device = self._devices.get(name)
        if device is None or device.screen is None:
            sentence = "A monitor cannot be read, and no program that was run from here has drawn on this one."
            raise StubFailure("not_running", sentence)
        width = max(map(len, device.screen), default=0)
        return rows_of(device.screen, width, len(device.screen))


def rows_of(lines: Sequence[str], width: int, height: int) -> Answer:
    """A screen of white text on black."""
    rows = [{"text": line[:width].ljust(width), "fg": "0" * width, "bg": "f" * width} for line in lines]
    data = {"width": width, "height": height, "x": 1, "y": len(rows) + 1, "blink": False}
    return Answer(data, json.dumps(rows, separators=(",", ":")).encode("ascii"))


def _values(body: bytes | None) -> list[Any]:
    try:
        values: Any = json.loads(body or b"[]")
    except ValueError:
        values = None
    if not isinstance(values, list):
        raise StubFailure("bad_params", "The body must be a JSON list.")
    return values


# -- The terminal of a stub computer: what a test draws there is sent to the watchers, and what they type is
# kept

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
        """Put a text into a row, in one colour; the watchers see it."""
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
