"""What stands beside a stub computer: peripherals whose methods are Python callables, and monitors to look at."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.testing.stub_disk import Answer, Params, StubFailure, checked

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
