"""One line that says how far a run is."""

import sys
import time
from typing import Final

EVERY_S: Final = 30.0
"""Between two lines where the output is no terminal."""


class Progress:
    """Tests done, tests in all, minutes left; written over itself on a terminal, anew each half minute elsewhere."""

    def __init__(self, tests: int, cpu_s: float) -> None:
        self._tests, self._cpu_s = tests, max(cpu_s, 1.0)
        self._began = self._told = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self.done = self.red = 0
        self.done_s = 0.0
        """Recorded CPU seconds of the files that are through."""

    def tell(self) -> None:
        """Say how far it is, if it is time."""
        now = time.monotonic()
        if not self._terminal and now - self._told < EVERY_S:
            return
        self._told = now
        line = f"tests: {self.done:,} of {self._tests:,} done, {self._left(now - self._began)}"
        self._write(f"{line}, {self.red} red" if self.red else line)

    def tell_red(self, nodeid: str) -> None:
        """Say at once that a test failed."""
        self.red += 1
        self._clear()
        _say(f"red: {nodeid}\n")

    def end(self) -> None:
        """Leave the line empty."""
        self._clear()

    def _left(self, elapsed: float) -> str:
        if self.done_s < self._cpu_s / 50:
            return "some minutes left"
        left = elapsed * (self._cpu_s / self.done_s - 1)
        return f"about {left / 60:.0f} min left" if left > 90 else "about a minute left"

    def _write(self, line: str) -> None:
        self._clear()
        _say(line if self._terminal else f"{line}\n")

    def _clear(self) -> None:
        if self._terminal:
            _say("\r\x1b[2K")


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
