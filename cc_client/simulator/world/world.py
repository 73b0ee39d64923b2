"""The world of one computer: what is at its sides, on its network, in its redstone and around its turtle."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cc_client.simulator.world.blocks import Blocks, beyond
from cc_client.simulator.world.drive import Drive
from cc_client.simulator.world.items import WorldError
from cc_client.simulator.world.monitor import Monitor
from cc_client.simulator.world.peripherals import Modem, Peripheral, text
from cc_client.simulator.world.turtle import Turtle

SIDES: Final = ("bottom", "top", "back", "front", "right", "left")
FULL: Final = 15


@dataclass
class World:
    """What outlives a boot, but not the process.

    Attributes:
        queue_event: Queues an event of the computer; does nothing while that is off.
    """

    blocks: Blocks = field(default_factory=Blocks)
    turtle: Turtle | None = None
    sides: dict[str, Peripheral] = field(default_factory=dict)
    inputs: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    queue_event: Callable[..., None] = lambda *event: None

    # -- peripherals ---------------------------------------------------------------------

    def attach(self, name: str, peripheral: Peripheral) -> None:
        """Put a peripheral at a side, or on the wired network under another name."""
        if name in SIDES:
            self.sides[name] = peripheral
        else:
            self._hub().remote[name] = peripheral
        self.queue_event(b"peripheral", name.encode())
        if isinstance(peripheral, Drive) and peripheral.directory is not None:
            self.queue_event(b"disk", name.encode())

    def detach(self, name: str) -> None:
        """Take a peripheral away. Raises ValueError when it is not there."""
        if self.sides.pop(name, None) is None and self._hub().remote.pop(name, None) is None:
            raise ValueError(f"nothing is attached as {name}")
        self.queue_event(b"peripheral_detach", name.encode())

    def find(self, name: str) -> Peripheral | None:
        """What has a name, at a side or on the network."""
        found = self.at(name)
        if found is not None:
            return found
        hubs = [each for each in self.sides.values() if isinstance(each, Modem)]
        return next((hub.remote[name] for hub in hubs if name in hub.remote), None)

    def at(self, side: str) -> Peripheral | None:
        """What is at a side; a turtle's are the blocks around it."""
        if side in self.sides or self.turtle is None or side not in SIDES:
            return self.sides.get(side)
        step = {"front": "", "top": "Up", "bottom": "Down"}.get(side)
        if step is None:
            return None
        block = self.blocks.blocks.get(beyond(self.turtle.place, self.turtle.directions()[step]))
        return None if block is None else block.inventory

    def monitor(self, name: str) -> Monitor:
        """The monitor of a name. Raises ValueError when there is none."""
        found = self.find(name)
        if isinstance(found, Monitor):
            return found
        raise ValueError(f"{name} is no monitor")

    def touch(self, name: str, x: int, y: int) -> None:
        """A player touches a monitor. Raises ValueError when it is none."""
        self.monitor(name)
        self.queue_event(b"monitor_touch", name.encode(), x, y)

    def _hub(self) -> Modem:
        hubs = [each for each in self.sides.values() if isinstance(each, Modem) and each.wired]
        if hubs:
            return hubs[0]
        free = next((side for side in ("back", "left", "right") if side not in self.sides), None)
        if free is None:
            raise ValueError("there is no side left for a wired modem")
        hub = self.sides[free] = Modem("modem")
        return hub

    def mounts(self) -> dict[bytes, Path]:
        """Where the floppy disks in drives are mounted, and their host directories."""
        drives = [each for side in SIDES if isinstance(each := self.sides.get(side), Drive)]
        inside = [each for each in drives if each.directory is not None]
        for number, drive in enumerate(inside, 1):
            drive.mounted = "disk" if number == 1 else f"disk{number}"
        return {drive.mounted.encode(): drive.directory for drive in inside if drive.directory is not None}

    # -- redstone ------------------------------------------------------------------------

    def power(self, side: str, level: int) -> None:
        """Let a signal come in. Raises ValueError."""
        if side not in SIDES or not 0 <= level <= FULL:
            raise ValueError(f"say a side, one of {', '.join(SIDES)}, and a level from 0 to {FULL}")
        if self.inputs.get(side, 0) != level:
            self.inputs[side] = level
            self.queue_event(b"redstone")

    def get_input(self, side: object) -> int:
        """The signal that comes in. Raises WorldError."""
        return self.inputs.get(_side(side), 0)

    def get_output(self, side: object) -> int:
        """The signal that goes out. Raises WorldError."""
        return self.outputs.get(_side(side), 0)

    def set_output(self, side: object, level: object) -> None:
        """Let a signal go out. Raises WorldError."""
        if not isinstance(level, int | float) or not 0 <= level <= FULL:
            raise WorldError("Expected number in range 0-15")
        self.outputs[_side(side)] = int(level)

    # -- turtle --------------------------------------------------------------------------

    def turtle_fact(self, name: bytes, *arguments: object) -> Any:
        """What a turtle knows of itself without taking a turn. Raises WorldError."""
        turtle = self._turtle()
        facts: dict[bytes, Callable[..., Any]] = {
            b"getItemCount": turtle.item_count,
            b"getItemSpace": lambda slot=None: 64 - turtle.item_count(slot),
            b"getItemDetail": turtle.item_detail,
            b"getSelectedSlot": lambda: turtle.selected,
            b"getPlace": lambda axis: turtle.place[int(axis) - 1],
            b"getFuelLevel": lambda: "unlimited" if turtle.fuel is None else turtle.fuel,
            b"getFuelLimit": lambda: "unlimited" if turtle.fuel is None else turtle.fuel_limit,
        }
        return facts[name](*arguments)

    def _turtle(self) -> Turtle:
        if self.turtle is None:
            raise WorldError("This computer is no turtle")
        return self.turtle


def _side(value: object) -> str:
    side = text(value).lower()
    if side not in SIDES:
        raise WorldError(f"bad argument #1 (unknown option {side})")
    return side
