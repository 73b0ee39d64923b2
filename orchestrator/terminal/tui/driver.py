"""The terminal itself: it may vanish at any moment, and then the program has to end, not to wait or to spin.

Theory. The library writes in a thread behind a queue. Where an error ended that thread, the queue fills. The event loop
then waits for it for ever, deaf to signals. So a write that fails is dropped here, and the kernel tells the end of the
terminal. A signal is taken by a handler of Python, which runs even while the loop waits.
"""

import os
import select
import signal
import sys
import termios
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, Final

from textual.drivers.linux_driver import LinuxDriver

HUNG_UP: Final = 129
"""The exit code of a program whose terminal vanished."""
_PATIENCE_S: Final = 3.0
"""After a signal, for an orderly end: a terminal that takes no bytes any more would keep it for ever."""


class _Sink:
    """A file to which writes never fail: a terminal that is gone takes nothing."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write it, or drop it."""
        with suppress(OSError, ValueError):
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        """Write what is left, or drop it."""
        with suppress(OSError, ValueError):
            self._file.flush()

    def fileno(self) -> int:
        """The number of the true file."""
        return self._file.fileno()

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._file.isatty()


class VanishingDriver(LinuxDriver):
    """The library's driver, which also notices that its terminal is gone."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        file: Any = _Sink(sys.__stderr__) if sys.__stderr__ is not None else self._file
        self._file = file
        self._end: Callable[[int], None] = lambda code: None

    def when_over(self, end: Callable[[int], None]) -> None:
        """Call this with an exit code, in the event loop, once the terminal is gone or a signal ends the program."""
        self._end = end
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._signaled)
        threading.Thread(target=self._wait_for_its_end, name="terminal", daemon=True).start()

    def run_input_thread(self) -> None:
        """Read keys; a terminal that is gone gives none."""
        with suppress(OSError):
            super().run_input_thread()

    def _signaled(self, number: int, frame: Any) -> None:
        del frame
        self._over(128 + number)

    def _wait_for_its_end(self) -> None:
        """Wait until the kernel says that nobody is at the other end."""
        poll = select.poll()
        # Nothing is asked for: a hang-up and an error are told in any case.
        poll.register(self.fileno, 0)
        with suppress(OSError):
            poll.poll()
            self._over(HUNG_UP)

    def _over(self, code: int) -> None:
        """Begin the end, and see to it that it comes."""
        last = threading.Timer(_PATIENCE_S, self._leave_now, (code,))
        last.daemon = True
        last.start()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end, code)

    def _leave_now(self, code: int) -> None:
        if self.attrs_before is not None:
            with suppress(termios.error, OSError):
                termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
        os._exit(code)
