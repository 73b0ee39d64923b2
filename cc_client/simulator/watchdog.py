"""Ends the process where a program does not let it end.

While Lua is inside of one long call of C nothing else of the process gets its turn: no hook of Lua, no
event of the loop, no handler of a signal. A thread of its own does, as lupa frees the interpreter then.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NoReturn

from cc_client.simulator.clock import Clock
from cc_client.simulator.saying import log

OFF_AFTER_S: Final = 8.5
"""The mod's 7 s, at which ``guarding.lua`` throws, and 1.5 s more."""
END_WITHIN_S: Final = 1.0
"""What a busy program gets when the process was told to end."""
SAY_WITHIN_S: Final = 0.5
OFF_CODE: Final = 3
"""The exit code of a computer that is off because it could not go on."""


@dataclass
class Watchdog:
    """Knows how long Lua has been busy with one event.

    Args:
        computer_id: Of whom it speaks.
        clock: Tells the time.
    """

    computer_id: int
    clock: Clock = field(default_factory=Clock)
    _busy_since_s: float | None = None
    _told_to_end: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Watch from now on, until the process ends."""
        threading.Thread(target=self._watch, daemon=True).start()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Lua has an event, until the block ends."""
        self._busy_since_s = self.clock.now_s()
        try:
            yield
        finally:
            self._busy_since_s = None

    def end_soon(self) -> None:
        """The process was told to end, and does it by itself unless Lua is busy. For any thread."""
        self._told_to_end.set()

    def _watch(self) -> None:
        while not self._told_to_end.wait(self._left_s(OFF_AFTER_S)):
            if self._left_s(OFF_AFTER_S) <= 0:
                self._end("was shut down: too long without yielding", OFF_CODE)
        told_s = self.clock.now_s()
        while (left_s := self._left_s(END_WITHIN_S, told_s)) > 0:
            time.sleep(left_s)
        self._end("was ended while a program was busy", 0)

    def _left_s(self, limit_s: float, from_s: float = 0.0) -> float:
        """When Lua would have been busy for too long, at the soonest; counted from ``from_s`` if it was before."""
        since_s = self._busy_since_s
        return limit_s if since_s is None else max(since_s, from_s) + limit_s - self.clock.now_s()

    def _end(self, why: str, code: int) -> NoReturn:
        # Nobody may read there: the end does not wait for that.
        saying = threading.Thread(target=log, args=(f"computer {self.computer_id} {why}",), daemon=True)
        saying.start()
        saying.join(SAY_WITHIN_S)
        os._exit(code)
