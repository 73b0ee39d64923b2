"""What Lua may ask of the world: peripherals, redstone and the turtle; slow things answer with a later tick."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cc_client.simulator.clock import TICK_S, Clock
from cc_client.simulator.host import Answer, answering
from cc_client.simulator.world.items import WorldError
from cc_client.simulator.world.peripherals import Finder, Peripheral
from cc_client.simulator.world.world import World


@dataclass
class Surroundings:
    """The world as one boot sees it."""

    world: World
    clock: Clock
    queue_event: Callable[..., None]
    _last: int = 0

    def functions(self) -> dict[str, Answer]:
        """The functions behind ``peripheral``, ``redstone`` and ``turtle``."""
        world = self.world
        return {
            "peripheral_types": lambda side: _found(world, side, lambda found: found.types()),
            "peripheral_methods": lambda side: _found(world, side, lambda found: found.methods()),
            "peripheral_call": self.call,
            "redstone_input": answering(world.get_input),
            "redstone_output": answering(world.get_output),
            "redstone_set": answering(world.set_output),
            "turtle_fact": answering(world.turtle_fact),
            "turtle_command": answering(self.command),
        }

    def call(self, side: bytes, method: bytes, *arguments: Any) -> tuple[Any, ...]:
        """Call a method: ``True, ...``, or ``False, sentence``, or None and the id of a task that will end."""
        found = self.world.at(side.decode("latin-1"))
        if found is None:
            return (False, b"No peripheral attached")
        name, finder = method.decode("latin-1"), self.world.at
        if not _is_slow(found, name, arguments):
            return _outcome(found, name, arguments, finder)
        self._last += 1
        task = self._last
        self.clock.call_later(
            TICK_S, lambda: self.queue_event(b"task_complete", task, *_outcome(found, name, arguments, finder))
        )
        return (None, task)

    def command(self, name: bytes, *arguments: Any) -> int:
        """Begin a command of the turtle; the event ``turtle_response`` has this id. Raises WorldError."""
        turtle = self.world.turtle
        if turtle is None:
            raise WorldError("This computer is no turtle")
        act, ticks = turtle.command(name.decode("latin-1"))
        turtle.check(name.decode("latin-1"), arguments)
        self._last += 1
        task = self._last

        def perform() -> None:
            result = _plain(lambda: act(*arguments))
            self.clock.call_later((ticks - 1) * TICK_S, lambda: self.queue_event(b"turtle_response", task, *result))

        self.clock.call_later(TICK_S, perform)
        return task


def _found(world: World, side: bytes, ask: Callable[[Peripheral], list[str]]) -> list[str] | None:
    found = world.at(side.decode("latin-1"))
    return None if found is None else ask(found)


def _is_slow(found: Peripheral, method: str, arguments: tuple[Any, ...]) -> bool:
    """Whether a method answers only with the next tick; a call through a modem is as slow as what it calls."""
    if method == "callRemote" and len(arguments) >= 2 and isinstance(arguments[1], bytes):
        remote = getattr(found, "remote", {}).get(arguments[0].decode("latin-1"))
        return remote is not None and arguments[1].decode("latin-1") in remote.SLOW
    return method in found.SLOW


def _outcome(found: Peripheral, method: str, arguments: tuple[Any, ...], finder: Finder) -> tuple[Any, ...]:
    try:
        return (True, *found.call(method, arguments, finder))
    except WorldError as error:
        return (False, str(error).encode())


def _plain(act: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
    try:
        return act()
    except WorldError as error:
        return (False, str(error).encode())
    except TypeError:
        return (False, b"bad arguments")
