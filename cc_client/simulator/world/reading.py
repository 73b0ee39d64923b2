"""Reads a world out of a JSON file and out of options of the command line."""

import json
from pathlib import Path
from typing import Any, Final

from cc_client.simulator.world.blocks import HEADINGS, Block, Blocks, Place
from cc_client.simulator.world.drive import Drive
from cc_client.simulator.world.hold import SLOTS
from cc_client.simulator.world.items import Slots, Stack
from cc_client.simulator.world.monitor import Monitor
from cc_client.simulator.world.peripherals import Inventory, Modem, Peripheral, Speaker
from cc_client.simulator.world.turtle import Turtle
from cc_client.simulator.world.world import SIDES, World

CHEST_SLOTS: Final = 27
_PARTS: Final = ("blocks", "turtle", "peripherals", "redstone")


class NoWorld(ValueError):
    """A world cannot be read; the text says where and why."""


def read_world(path: Path | None, options: list[str], *, turtle: bool) -> World:
    """The world of a file with the peripherals of options added. Raises NoWorld."""
    told: dict[str, Any] = {}
    if path is not None:
        try:
            told = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise NoWorld(f"The world {path} cannot be read: {error}.") from None
    try:
        world = _world(told, turtle=turtle)
        for option in options:
            add_option(world, option)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NoWorld(f"The world is not understood: {error}.") from None
    return world


def add_option(world: World, option: str) -> None:
    """Attach what ``NAME=TYPE[,key=value…]`` says; what is no side is on the wired network. Raises ValueError."""
    name, _, rest = option.partition("=")
    kind, *words = rest.split(",")
    if not name or not kind:
        raise ValueError(f"{option!r} is no peripheral; say it like left=minecraft:chest,size=27,1=minecraft:coal*5")
    told: dict[str, Any] = {"type": kind}
    for word in words:
        key, _, value = word.partition("=")
        if key.isdigit():
            told.setdefault("items", {})[key] = value
        else:
            told[key] = int(value) if value.isdigit() else value
    world.attach(name, read_peripheral(told))


def _world(told: dict[str, Any], *, turtle: bool) -> World:
    unknown = next((key for key in told if key not in _PARTS), None)
    if unknown is not None:
        raise ValueError(f"{unknown!r} is no part of a world; its parts are {', '.join(_PARTS)}")
    blocks = Blocks({read_place(place): read_block(block) for place, block in told.get("blocks", {}).items()})
    world = World(blocks=blocks, turtle=read_turtle(told.get("turtle", {}), blocks) if turtle else None)
    for name, peripheral in told.get("peripherals", {}).items():
        world.attach(name, read_peripheral(peripheral))
    for side, level in told.get("redstone", {}).items():
        if side not in SIDES:
            raise ValueError(f"{side!r} is no side")
        world.inputs[side] = int(level)
    return world


def read_place(text: str) -> Place:
    """The three numbers of a place such as ``0,64,-1``. Raises ValueError."""
    x, y, z = (int(part) for part in text.split(","))
    return (x, y, z)


def read_stack(told: Any) -> Stack:
    """Items such as ``minecraft:coal*5`` or ``{"name", "count"}``."""
    if isinstance(told, str):
        name, _, count = told.partition("*")
        return Stack(name, int(count or 1))
    return Stack(told["name"], int(told.get("count", 1)))


def read_slots(told: dict[str, Any], size: int) -> Slots:
    """Slots and what is in them."""
    slots = Slots(size)
    for slot, stack in told.items():
        slots.put(slots.check(int(slot)), read_stack(stack))
    return slots


def read_peripheral(told: dict[str, Any]) -> Peripheral:
    """A peripheral; a type that is not known here is an inventory, as most blocks are."""
    kind = str(told["type"])
    if kind == "monitor":
        return Monitor(kind, int(told.get("width", 18)), int(told.get("height", 12)), bool(told.get("colour", True)))
    if kind == "drive":
        return read_drive(told)
    if kind == "speaker":
        return Speaker(kind)
    if kind == "modem":
        modem = Modem(kind, wired=not told.get("wireless", False))
        modem.remote = {name: read_peripheral(each) for name, each in told.get("remote", {}).items()}
        return modem
    return Inventory(kind, read_slots(told.get("items", {}), int(told.get("size", CHEST_SLOTS))))


def read_drive(told: dict[str, Any]) -> Drive:
    """A drive with a floppy disk, whose files are a host directory. Raises ValueError when that is none."""
    where = told.get("path")
    if where is not None and not Path(where).is_dir():
        raise ValueError(f"there is no directory {where} for the disk")
    directory = None if where is None else Path(where).absolute()
    return Drive("drive", directory, told.get("label"), int(told.get("id", 0)))


def read_block(told: Any) -> Block:
    """A block: its name, or a table with ``name`` and, for a chest, ``items`` and ``size``."""
    if isinstance(told, str):
        return Block(told)
    block = Block(told["name"], told.get("state", {}), told.get("drops"))
    if "items" in told or "size" in told:
        found = read_peripheral({**told, "type": told["name"]})
        block.inventory = found if isinstance(found, Inventory) else None
    return block


def read_turtle(told: dict[str, Any], blocks: Blocks) -> Turtle:
    """The turtle. Raises ValueError."""
    heading = told.get("facing", "north")
    if heading not in HEADINGS:
        raise ValueError(f"{heading!r} is no heading; say one of {', '.join(HEADINGS)}")
    x, y, z = told.get("position", (0, 64, 0))
    fuel = told.get("fuel", 1000)
    return Turtle(
        blocks=blocks,
        place=(int(x), int(y), int(z)),
        heading=heading,
        fuel=None if fuel == "unlimited" else int(fuel),
        fuel_limit=int(told.get("fuel_limit", 20_000)),
        tool=bool(told.get("tool", True)),
        slots=read_slots(told.get("items", {}), SLOTS),
    )
