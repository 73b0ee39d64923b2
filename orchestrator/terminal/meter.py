"""How far something long has come: a bar that moves on a terminal, lines now and then elsewhere."""

import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.terminal.output import Screen, elapsed, sized

_BAR: Final = 24
_TENTHS: Final = 10
_PACE_S: Final = 10.0
"""Over so long the pace is taken: long enough to stand still, short enough to follow a line that gets slow."""
_SURE_S: Final = 1.0
"""Seconds before which a pace is a guess."""
APART_S: Final = 5.0
"""Between two lines where no bar can move."""


@dataclass(eq=False, repr=False)
class Pace:
    """How fast something goes, by what was done of it when."""

    _seen: "deque[tuple[float, float]]" = field(default_factory=deque)

    def told(self, done: float, now: float) -> None:
        """The amount that was done at this moment."""
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[1][0] >= _PACE_S:
            self._seen.popleft()

    def a_second(self) -> float | None:
        """The work of a second; None: nobody can say yet."""
        if not self._seen:
            return None
        (first, before), (last, done) = self._seen[0], self._seen[-1]
        return (done - before) / (last - first) if last - first >= _SURE_S and done > before else None


def bar(share: float) -> str:
    """A bar, filled so far."""
    filled = int(min(1.0, max(0.0, share)) * _BAR)
    return f"[{'#' * filled}{'-' * (_BAR - filled)}]"


@dataclass(eq=False, repr=False)
class Meter:
    """Shows one thing that takes long; ``name`` is safe to look at."""

    name: str
    screen: Screen
    say: Callable[[str], None]
    """One line, where no bar can move."""
    apart_s: float = APART_S
    clock: Callable[[], float] = time.monotonic
    _bytes: Pace = field(default_factory=Pace)
    _parts: Pace = field(default_factory=Pace)
    _began: float | None = None
    _said_at: float | None = None
    _tenths: int = 0

    def waiting(self, what: str) -> None:
        """It has begun, and how much there is to do is not known."""
        now = self._now()
        self.screen.status(f"{self.name}  {what}  {elapsed(now - (self._began or now))}")
        if not self.screen.moves:
            self._line(f"{self.name}: {what}", now)

    def tell(self, done: int, total: int, amount: str, size: int, *, busy: str = "") -> None:
        """``done`` of ``total`` parts, ``size`` bytes by now; ``amount``: both in words, ``busy``: what goes on."""
        now = self._now()
        self._bytes.told(size, now)
        self._parts.told(done, now)
        share = done / total if total else 1.0
        self.screen.status(f"{self.name}  {bar(share)} {share:4.0%}  {amount}{self._pace(done, total)}{busy}")
        tenths = int(share * _TENTHS)
        if not self.screen.moves and tenths > self._tenths:
            # The total may grow when more becomes known: earlier progress is not taken back.
            self._line(f"{self.name}: {tenths * 10} %, {amount}{self._pace(done, total)}", now, tenths)

    def close(self) -> None:
        """Leave the cursor at the start of an empty line."""
        self.screen.close()

    def _now(self) -> float:
        now = self.clock()
        if self._began is None:
            self._began = self._said_at = now
        return now

    def _pace(self, done: int, total: int) -> str:
        size, parts = self._bytes.a_second(), self._parts.a_second()
        rate = f"  {sized(int(size))}/s" if size is not None else ""
        return rate + (f"  {elapsed((total - done) / parts)} left" if parts is not None and done < total else "")

    def _line(self, line: str, now: float, tenths: int | None = None) -> None:
        if self._said_at is not None and now - self._said_at >= self.apart_s:
            self._said_at = now
            self._tenths = self._tenths if tenths is None else tenths
            self.say(line)


def hint_line(kind: str, data: Mapping[str, Any]) -> str:
    """A notification as a line of JSON, in ASCII."""
    return json.dumps({"hint": kind, **data})
