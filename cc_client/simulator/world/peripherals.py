"""Peripherals: their types, their methods, and what each does."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from cc_client.simulator.world.items import Slots, WorldError, move

Finder = Callable[[str], "Peripheral | None"]
"""Finds what else the same side or network has, by name."""
ALL: Final = 1_000_000


def text(value: object) -> str:
    """A text out of Lua. Raises WorldError for anything else."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    raise WorldError("bad argument (string expected)")


def number(value: object, default: int | None = None) -> int:
    """A whole number out of Lua. Raises WorldError for anything else."""
    if value is None and default is not None:
        return default
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value)
    raise WorldError("bad argument (number expected)")


@dataclass
class Peripheral:
    """Something that ``peripheral.wrap`` makes a table of.

    Attributes:
        TYPES: What it is besides the name of its kind.
        METHODS: Its methods and the functions of this class behind them.
        SLOW: The methods that answer only with the next tick.
    """

    kind: str
    TYPES: ClassVar[tuple[str, ...]] = ()
    METHODS: ClassVar[Mapping[str, str]] = {}
    SLOW: ClassVar[frozenset[str]] = frozenset()

    def types(self) -> list[str]:
        """All its types, its own first."""
        return [self.kind, *self.TYPES]

    def methods(self) -> list[str]:
        """The names of its methods."""
        return sorted(self.METHODS)

    def call(self, method: str, arguments: tuple[Any, ...], finder: Finder) -> tuple[Any, ...]:
        """What a method answers. Raises WorldError."""
        if method not in self.METHODS:
            raise WorldError(f"No such method {method}")
        try:
            result = getattr(self, self.METHODS[method])(finder, *arguments)
        except TypeError:
            raise WorldError(f"bad arguments of {method}") from None
        if isinstance(result, tuple):
            return result
        return () if result is None else (result,)


@dataclass
class Inventory(Peripheral):
    """A chest, a barrel, or anything else with slots."""

    slots: Slots = field(default_factory=lambda: Slots(27))
    TYPES = ("inventory",)
    METHODS: ClassVar[Mapping[str, str]] = {
        "size": "size",
        "list": "listed",
        "getItemDetail": "detail",
        "getItemLimit": "limit",
        "pushItems": "push",
        "pullItems": "pull",
    }
    SLOW = frozenset(METHODS)

    def size(self, _: Finder) -> int:
        """How many slots there are."""
        return self.slots.size

    def listed(self, _: Finder) -> dict[int, Any]:
        """The slots that are not empty."""
        return {slot: stack.basic() for slot, stack in self.slots.items()}

    def detail(self, _: Finder, slot: object) -> dict[str, Any] | None:
        """What is in a slot."""
        stack = self.slots.get(self.slots.check(slot))
        return None if stack is None else stack.detail()

    def limit(self, _: Finder, slot: object) -> int:
        """How many items fit into a slot."""
        self.slots.check(slot)
        return 64

    def push(self, finder: Finder, to: object, slot: object, limit: object = None, to_slot: object = None) -> int:
        """Move items to another inventory."""
        target = _inventory(finder, "Target", text(to))
        return _moved(self.slots, slot, target.slots, to_slot, number(limit, ALL))

    def pull(self, finder: Finder, come: object, slot: object, limit: object = None, to_slot: object = None) -> int:
        """Move items from another inventory."""
        source = _inventory(finder, "Source", text(come))
        return _moved(source.slots, slot, self.slots, to_slot, number(limit, ALL))


def _inventory(finder: Finder, role: str, name: str) -> Inventory:
    found = finder(name)
    if found is None:
        raise WorldError(f"{role} '{name}' does not exist")
    if not isinstance(found, Inventory):
        raise WorldError(f"{role} '{name}' is not an inventory")
    return found


def _moved(source: Slots, slot: object, target: Slots, to_slot: object, limit: int) -> int:
    origin = source.check(slot, "From slot out of range (%s)")
    goal = None if to_slot is None else target.check(to_slot, "To slot out of range (%s)")
    return move(source, origin, target, goal, limit)


@dataclass
class Speaker(Peripheral):
    """A speaker; what it plays is only counted."""

    played: int = 0
    METHODS: ClassVar[Mapping[str, str]] = {
        "playNote": "play",
        "playSound": "play",
        "playAudio": "play",
        "stop": "stop",
    }

    def play(self, _: Finder, *what: object) -> bool:
        """Play something; one of each in a tick is not modelled."""
        if not what:
            raise WorldError("bad argument #1 (string expected, got no value)")
        self.played += 1
        return True

    def stop(self, _: Finder) -> None:
        """Be silent."""


@dataclass
class Modem(Peripheral):
    """A modem. Nobody answers on its channels; a wired one leads to the peripherals of its network."""

    wired: bool = True
    remote: dict[str, Peripheral] = field(default_factory=dict)
    channels: set[int] = field(default_factory=set)
    METHODS: ClassVar[Mapping[str, str]] = {
        "open": "open_channel",
        "isOpen": "is_open",
        "close": "close_channel",
        "closeAll": "close_all",
        "transmit": "transmit",
        "isWireless": "is_wireless",
    }
    HUB: ClassVar[Mapping[str, str]] = {
        "getNamesRemote": "remote_names",
        "isPresentRemote": "is_present",
        "getTypeRemote": "remote_types",
        "hasTypeRemote": "has_type",
        "getMethodsRemote": "remote_methods",
        "callRemote": "call_remote",
        "getNameLocal": "local_name",
    }

    def types(self) -> list[str]:
        """A wired modem is a hub too."""
        return ["modem", "peripheral_hub"] if self.wired else ["modem"]

    def methods(self) -> list[str]:
        """Those of the network only where there is one."""
        return sorted({**self.METHODS, **self.HUB} if self.wired else self.METHODS)

    def call(self, method: str, arguments: tuple[Any, ...], finder: Finder) -> tuple[Any, ...]:
        """What a method answers; a remote call sees only what is on the network."""
        if self.wired and method in self.HUB:
            result = getattr(self, self.HUB[method])(*arguments)
            if isinstance(result, tuple):
                return result
            return () if result is None else (result,)
        return super().call(method, arguments, finder)

    def open_channel(self, _: Finder, channel: object) -> None:
        """Listen on a channel."""
        self.channels.add(number(channel))

    def is_open(self, _: Finder, channel: object) -> bool:
        """Whether it listens there."""
        return number(channel) in self.channels

    def close_channel(self, _: Finder, channel: object) -> None:
        """Listen no more."""
        self.channels.discard(number(channel))

    def close_all(self, _: Finder) -> None:
        """Listen nowhere."""
        self.channels.clear()

    def transmit(self, _: Finder, channel: object, *rest: object) -> None:
        """Send a message that nobody hears."""
        number(channel)
        del rest

    def is_wireless(self, _: Finder) -> bool:
        """Whether it needs no cable."""
        return not self.wired

    def remote_names(self) -> list[str]:
        """The names on the network."""
        return sorted(self.remote)

    def is_present(self, name: object) -> bool:
        """Whether a name is on the network."""
        return text(name) in self.remote

    def remote_types(self, name: object) -> tuple[str, ...]:
        """The types of what has a name; nothing when there is none."""
        found = self.remote.get(text(name))
        return () if found is None else tuple(found.types())

    def has_type(self, name: object, kind: object) -> bool | None:
        """Whether what has a name is of a type; None when there is none."""
        found = self.remote.get(text(name))
        return None if found is None else text(kind) in found.types()

    def remote_methods(self, name: object) -> list[str] | None:
        """The methods of what has a name."""
        found = self.remote.get(text(name))
        return None if found is None else found.methods()

    def call_remote(self, name: object, method: object, *arguments: object) -> tuple[Any, ...]:
        """Call a method of what has a name."""
        found = self.remote.get(text(name))
        if found is None:
            raise WorldError(f"No peripheral: {text(name)}")
        return found.call(text(method), arguments, self.remote.get)

    def local_name(self) -> None:
        """The computer's own name on the network: it is not attached."""
