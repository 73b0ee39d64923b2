"""A line protocol on standard input: what the world and its players do, while the computer runs.

Each line is a command; each is answered by one line on standard output, ``= ok``, ``= `` and a JSON
value, or ``= error: `` and a sentence. The next command is read when the one before is answered.
"""

import asyncio
import json
import shlex
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from cc_client.simulator.computer import Computer
from cc_client.simulator.screen import Say
from cc_client.simulator.world.reading import add_option, read_block, read_place

HELP: Final = """\
unload · load · on · off · reboot      the chunk, the power
pause · go-on · skip SECONDS           the game stands still, goes on; the clock on the wall goes ahead
type TEXT · key NAME · terminate       the player at the keyboard
event NAME [JSON…]                     any event
screen · wait TEXT                     what the player sees, as JSON; wait until TEXT is on it
monitor NAME · touch NAME X Y          a monitor
set redstone SIDE LEVEL                a signal comes in
set block X,Y,Z NAME|air               a block
get redstone SIDE · get block X,Y,Z · get turtle
attach NAME=TYPE[,KEY=VALUE…] · detach NAME
fill BYTES                             take so much of the disk away, or all that is free (0 gives it back)
latency MS [JITTER_MS] · mute · unmute · cut    the network
state · help"""


@dataclass
class Control:
    """Does what the lines say."""

    computer: Computer
    say: Say

    async def run(self) -> None:
        """Answer lines until there are no more."""
        answered = threading.Event()
        lines = _lines(answered, self.computer.case.watchdog.end_soon)
        while (line := await lines.get()) is not None:
            if line.strip():
                self.say("= " + await self._answer(line.strip()))
            answered.set()

    async def _answer(self, line: str) -> str:
        verb, _, rest = line.partition(" ")
        command = self._commands().get(verb)
        if command is None:
            return f"error: there is no command {verb}; say help"
        try:
            told = command(rest.strip())
            result = await told if isinstance(told, Awaitable) else told
        except (ValueError, IndexError, KeyError, TypeError) as error:
            return f"error: {error}"
        return "ok" if result is None else json.dumps(result)

    def _commands(self) -> dict[str, Callable[[str], Any]]:
        computer, case = self.computer, self.computer.case
        return {
            "unload": lambda _: computer.unload(),
            "load": lambda _: computer.load(),
            "on": lambda _: computer.turn_on(),
            "off": lambda _: computer.turn_off(),
            "reboot": lambda _: computer.reboot(),
            "terminate": lambda _: computer.terminate(),
            "cut": lambda _: computer.cut(),
            "state": lambda _: computer.state,
            "pause": lambda _: case.clock.pause(),
            "go-on": lambda _: case.clock.go_on(),
            "skip": lambda rest: case.clock.skip(float(rest)),
            "type": case.keyboard.type_line,
            "key": case.keyboard.press,
            "event": self._event,
            "screen": lambda _: case.screen.told(),
            "wait": case.screen.wait_for,
            "monitor": lambda name: case.world.monitor(name).lines(),
            "touch": lambda rest: case.world.touch(*_typed(rest, str, int, int)),
            "set": self._set,
            "get": self._get,
            "attach": lambda rest: add_option(case.world, rest),
            "detach": case.world.detach,
            "fill": lambda rest: case.disk.fill(int(rest)),
            "latency": self._latency,
            "mute": lambda _: case.wire.mute(muted=True),
            "unmute": lambda _: case.wire.mute(muted=False),
            "help": lambda _: HELP.splitlines(),
        }

    def _event(self, rest: str) -> None:
        name, *values = shlex.split(rest)
        told = (value.encode() if isinstance(value, str) else value for value in map(json.loads, values))
        self.computer.case.world.queue_event(name.encode(), *told)

    def _set(self, rest: str) -> None:
        world, (what, where, value) = self.computer.case.world, rest.split(" ", 2)
        if what == "redstone":
            world.power(where, int(value))
        elif what == "block" and value == "air":
            world.blocks.blocks.pop(read_place(where), None)
        elif what == "block":
            world.blocks.blocks[read_place(where)] = read_block(value)
        else:
            raise ValueError(f"{what} cannot be set; redstone and block can")

    def _get(self, rest: str) -> Any:
        world, (what, _, where) = self.computer.case.world, rest.partition(" ")
        if what == "redstone":
            return world.get_output(where.encode())
        if what == "block":
            block = world.blocks.blocks.get(read_place(where))
            return "air" if block is None else block.name
        if what == "turtle" and world.turtle is not None:
            return world.turtle.told()
        raise ValueError(f"{what} cannot be got; redstone, block and turtle can, the last on a turtle only")

    def _latency(self, rest: str) -> None:
        latency_ms, jitter_ms = (*map(float, rest.split()), 0.0)[:2]
        self.computer.case.wire.latency_s = latency_ms / 1000
        self.computer.case.wire.jitter_s = jitter_ms / 1000


def _typed(rest: str, *types: Callable[[str], Any]) -> tuple[Any, ...]:
    words = rest.split()
    if len(words) != len(types):
        raise ValueError(f"{len(types)} words are needed")
    return tuple(read(word) for read, word in zip(types, words, strict=True))


def _lines(answered: threading.Event, at_end: Callable[[], None]) -> "asyncio.Queue[str | None]":
    """The lines of standard input, then None; a thread reads them, as not every input can be waited for.

    Args:
        answered: Set by who has answered a line; the next is read then.
        at_end: Called when the input is over, in that thread.
    """
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[str | None]()

    def read() -> None:
        try:
            for line in sys.stdin:
                loop.call_soon_threadsafe(queue.put_nowait, line)
                answered.wait()
                answered.clear()
            at_end()
            loop.call_soon_threadsafe(queue.put_nowait, None)
        except (RuntimeError, ValueError):
            # The loop or the input is closed: the computer has ended.
            return

    threading.Thread(target=read, daemon=True).start()
    return queue
