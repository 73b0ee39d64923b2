"""The simulated computer: its event queue, timers and power, boot after boot."""

import asyncio
import os
import signal
import sys
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from cc_client.simulator.clock import TICK_S, Clock
from cc_client.simulator.disk import Disk
from cc_client.simulator.handles import Handles
from cc_client.simulator.host import Answer, file_functions, socket_functions
from cc_client.simulator.machine import LuaMachine
from cc_client.simulator.sockets import Sockets

QUEUE_LIMIT: Final = 256
"""Events that wait; more are dropped in silence (ComputerExecutor.QUEUE_LIMIT)."""
VERSION: Final = b"ComputerCraft 1.116.1 (CC-Simulator)"

Power = Literal["on", "reboot", "shutdown"]


def log(text: str) -> None:
    """One line on stderr, without control characters."""
    sys.stderr.write("".join(char if char.isprintable() else "?" for char in text) + "\n")
    sys.stderr.flush()


@dataclass
class Faults:
    """Where the process ends itself, as if the power went.

    Attributes:
        die_at_change: Right before this change of the file system, counted from 1 over all boots.
        die_after_frame: Right after this message was sent, counted from 1 over all boots.
    """

    die_at_change: int | None = None
    die_after_frame: int | None = None
    changes: int = 0
    frames: int = 0

    def before_change(self) -> None:
        """Counts a change that is about to happen."""
        self.changes += 1
        if self.changes == self.die_at_change:
            os.kill(os.getpid(), signal.SIGKILL)

    def after_frame(self) -> None:
        """Counts a frame that was sent."""
        self.frames += 1
        if self.frames == self.die_after_frame:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class Identity:
    """Who the computer is; the label may be changed by a program."""

    computer_id: int
    label: bytes | None = None

    def set_label(self, label: bytes | None = None) -> None:
        """Give the computer a label, or take it away."""
        self.label = label


@dataclass
class Boot:
    """From power on to power off or reboot; used once."""

    identity: Identity
    disk: Disk
    clock: Clock
    faults: Faults
    power: Power = "on"
    dropped_events: int = 0
    _events: deque[tuple[Any, ...]] = field(default_factory=deque)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _timers: dict[int, asyncio.TimerHandle] = field(default_factory=dict)
    _last_timer: int = 0

    async def run(self) -> Power:
        """Run until the power goes; answers whether it is to come back."""
        started_s = self.clock.now_s()
        handles = Handles(self.disk)
        sockets = Sockets(self.queue_event, self._say_connected, self.faults.after_frame)
        functions = self._functions(started_s) | file_functions(self.disk, handles) | socket_functions(sockets)
        machine = LuaMachine(functions)
        try:
            await self._pump(machine)
        finally:
            for timer in self._timers.values():
                timer.cancel()
            handles.close_all()
            await sockets.close_all()
        if self.dropped_events:
            log(f"{self.dropped_events} events were dropped in this boot")
        return self.power

    def queue_event(self, *event: Any) -> None:
        """Queue an event; the 257th is dropped in silence, only counted."""
        if len(self._events) >= QUEUE_LIMIT:
            self.dropped_events += 1
            return
        self._events.append(event)
        self._wake.set()

    async def _pump(self, machine: LuaMachine) -> None:
        reason = machine.resume()
        while self.power == "on" and reason is None:
            if not self._events:
                self._wake.clear()
                await self._wake.wait()
            reason = machine.resume(*self._events.popleft())
            # Sockets and timers get their turn after each event.
            await asyncio.sleep(0)
        if reason is not None:
            log(f"computer {self.identity.computer_id} stopped: {reason}")
            self.power = "shutdown"

    def _functions(self, started_s: float) -> dict[str, Answer]:
        """The functions behind ``os``; these answer plain values, as they cannot fail."""
        return {
            "version": lambda: VERSION,
            "now": self.clock.now_s,
            "clock": lambda: int((self.clock.now_s() - started_s) / TICK_S) * TICK_S,
            "epoch_ms": self.clock.epoch_ms,
            "computer_id": lambda: self.identity.computer_id,
            "get_label": lambda: self.identity.label,
            "set_label": self.identity.set_label,
            "queue_event": self.queue_event,
            "start_timer": self._start_timer,
            "cancel_timer": self._cancel_timer,
            "power": self._set_power,
            "abort": self._abort,
            "log": lambda text: log(text.decode("latin-1")),
        }

    def _start_timer(self, seconds: float) -> int:
        self._last_timer += 1
        number = self._last_timer
        self._timers[number] = self.clock.call_later(seconds, lambda: self._timer_due(number))
        return number

    def _timer_due(self, number: int) -> None:
        del self._timers[number]
        self.queue_event(b"timer", number)

    def _cancel_timer(self, number: int) -> None:
        timer = self._timers.pop(int(number), None)
        if timer is not None:
            timer.cancel()

    def _set_power(self, how: bytes) -> None:
        self.power = "reboot" if how == b"reboot" else "shutdown"

    def _abort(self, reason: bytes) -> None:
        """Lua hangs and cannot be resumed: the computer is off and stays off, as in the mod."""
        log(f"computer {self.identity.computer_id} was shut down: {reason.decode()}")
        os._exit(3)

    def _say_connected(self, url: str) -> None:
        sys.stdout.write(f"computer {self.identity.computer_id} connected to {url}\n")
        sys.stdout.flush()


async def run_computer(identity: Identity, disk: Disk, clock: Clock, faults: Faults) -> None:
    """Boot, and boot again for as long as the computer asks for it."""
    while await Boot(identity, disk, clock, faults).run() == "reboot":
        log(f"computer {identity.computer_id} reboots")
