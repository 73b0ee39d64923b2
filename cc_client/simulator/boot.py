"""One boot of the simulated computer: its event queue, its timers, and Lua."""

import asyncio
import os
import sys
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from cc_client.simulator.case import Case
from cc_client.simulator.clock import TICK_S, Timer
from cc_client.simulator.handles import Handles
from cc_client.simulator.hardware import from_text, to_text
from cc_client.simulator.host import Answer, file_functions, request_functions, socket_functions
from cc_client.simulator.machine import LuaMachine
from cc_client.simulator.requests import Requests
from cc_client.simulator.saying import log
from cc_client.simulator.sockets import Sockets
from cc_client.simulator.surroundings import Surroundings

QUEUE_LIMIT: Final = 256
"""Events that wait; more are dropped in silence (ComputerExecutor.QUEUE_LIMIT)."""

Power = Literal["on", "reboot", "shutdown", "unloaded", "broken"]
"""``broken``: off, as its system cannot go on."""


@dataclass
class Boot:
    """From power on to power off or reboot; used once."""

    case: Case
    power: Power = "on"
    sockets: Sockets | None = None
    dropped_events: int = 0
    _events: deque[tuple[Any, ...]] = field(default_factory=deque)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _timers: dict[int, Timer] = field(default_factory=dict)
    _last_timer: int = 0

    async def run(self) -> Power:
        """Run until the power goes; answers whether it is to come back."""
        case, started_s = self.case, self.case.clock.game_s()
        handles = Handles(case.disk)
        self.sockets = Sockets(self.queue_event, self._say_connected, case.faults.after_frame, case.hardware, case.wire)
        requests = Requests(self.queue_event, case.hardware.rules, case.hardware.user_agent)
        around = Surroundings(case.world, case.clock, self.queue_event)
        case.screen.blink = False
        case.keyboard.begin(self._wake.set)
        case.world.queue_event = self.queue_event
        functions = self._functions(started_s) | file_functions(case.disk, handles)
        functions |= socket_functions(self.sockets) | request_functions(requests)
        machine = LuaMachine(functions, around.functions(), case.hardware.memory_bytes)
        try:
            await self._pump(machine)
        finally:
            for timer in self._timers.values():
                timer.cancel()
            case.world.queue_event = lambda *event: None
            case.screen.settle()
            handles.close_all()
            await requests.close_all()
            await self.sockets.close_all()
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

    def _queue_from_lua(self, *event: Any) -> bool:
        """Queue an event; whether there was room."""
        dropped = self.dropped_events
        self.queue_event(*event)
        return self.dropped_events == dropped

    def stop(self, power: Power) -> None:
        """Take the power away, or the chunk; Lua is not asked."""
        self.power = power
        self._wake.set()

    async def _pump(self, machine: LuaMachine) -> None:
        reason = self._resume(machine)
        while self.power == "on" and reason is None:
            event = await self._next_event()
            if event is None:
                return
            reason = self._resume(machine, *event)
            # Sockets and timers get their turn after each event.
            await asyncio.sleep(0)
        if reason is not None and self.power == "on":
            log(f"computer {self.case.identity.computer_id} stopped: {reason}")
            self.power = "broken"

    def _resume(self, machine: LuaMachine, *event: Any) -> str | None:
        with self.case.watchdog.busy():
            return machine.resume(*event)

    async def _next_event(self) -> tuple[Any, ...] | None:
        """The next event, None when the power is gone; the player's keys come when nothing else waits."""
        while self.power == "on":
            if self._events:
                return self._events.popleft()
            pressed = self.case.keyboard.next_event(asked=self.case.screen.blink)
            if pressed is not None:
                return pressed
            self.case.screen.settle()
            self._wake.clear()
            await self._wake.wait()
        return None

    def _functions(self, started_s: float) -> dict[str, Answer]:
        """The functions behind ``os``; these answer plain values, as they cannot fail."""
        hardware = self.case.hardware
        return {
            "version": hardware.host_line.encode,
            "start_program": lambda: hardware.start and os.fsencode(hardware.start),
            "is_family": lambda kind: hardware.is_a(kind.decode()),
            "at_least": lambda *version: hardware.at_least(*map(int, version)),
            "from_text": lambda text: from_text(text.decode("utf-8", "replace")),
            "to_text": lambda text: to_text(text).encode(),
            "is_colour": lambda: hardware.is_colour,
            "screen_size": lambda: hardware.size,
            "show": self.case.screen.show,
            "now": self.case.clock.now_s,
            "clock": lambda: int((self.case.clock.game_s() - started_s) / TICK_S) * TICK_S,
            "epoch_ms": self.case.clock.epoch_ms,
            "computer_id": lambda: self.case.identity.computer_id,
            "get_label": lambda: self.case.identity.label,
            "set_label": self.case.identity.set_label,
            "queue_event": self._queue_from_lua,
            "start_timer": self._start_timer,
            "cancel_timer": self._cancel_timer,
            "power": self._set_power,
            "log": lambda text: log(text.decode("latin-1")),
        }

    def _start_timer(self, seconds: float) -> int:
        self._last_timer += 1
        number = self._last_timer
        self._timers[number] = self.case.clock.call_later(seconds, lambda: self._timer_due(number))
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

    def _say_connected(self, url: str) -> None:
        sys.stdout.write(f"computer {self.case.identity.computer_id} connected to {url}\n")
        sys.stdout.flush()
