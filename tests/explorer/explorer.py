"""One schedule: moves chosen by a seed until the plan is through, then quiet, then the verdict."""

import logging
import random
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.explorer.ending import Ending, Violation
from tests.explorer.ledger import Ledger
from tests.explorer.moves import Moves
from tests.explorer.node import PATIENCE_S, Trouble
from tests.explorer.setting import Setting

LENGTHS = (100, 250, 500)
"""Moves before the quiet end; fewer when both tasks are over."""
UNDOING = 0.4
"""Of the schedules: they come to rest after a short walk, and a second one begins with undos."""
SHORT = (20, 60, 120)
"""Moves of each of these walks."""
SEVERAL = 0.5
"""Of the schedules: they have several nodes."""
ROUTED = 0.6
"""Of these: the walk begins as a call that changes something is on its way to another node, if one ever is."""
UNDOS = (1, 1, 2, 3)
"""How often somebody asks for an undo there."""


@dataclass
class Report:
    """What schedules did."""

    moves: Counter[str] = field(default_factory=Counter)
    """Kind of move to how often it was made."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """Outcome of a run to how often it happened, and how many were started before the quiet end."""

    trace: list[str] = field(default_factory=list)
    """The moves of one schedule, in order."""

    def add(self, other: "Report") -> None:
        """Add up."""
        self.moves.update(other.moves)
        self.outcomes.update(other.outcomes)


class Schedule:
    """Two tasks, two computers, and a server that may be several generations at once, or several nodes."""

    def __init__(self, seed: int, broken: list[str]) -> None:
        self._rng = random.Random(seed)
        self._ledger = Ledger(broken)
        # Of a dice of its own, so that what is added among nodes leaves the schedules of one alone.
        several = random.Random(f"nodes of {seed}").random() < SEVERAL
        self.setting = Setting(self._rng, self._ledger, several=several)
        self._moves = Moves(self.setting)
        self._ending = Ending(self.setting)
        self._report = Report()
        self.trace = self._report.trace

    def run(self) -> Report:
        """Make moves, then end quietly. Raises Violation."""
        self.setting.start_all()
        for _ in range(self._rng.choice((0, 3))):
            # With the computers connected the walk goes farther; without, it tries how they connect.
            self._ending.round(decide=False)
        routed = self.setting.net is not None and self._rng.random() < ROUTED
        self.setting.submit(self.setting.afar() if routed else None)
        if routed:
            self.trace.append("(onward)")
            self._ending.onward(lambda letter: letter.tells)
        undoing = self._rng.random() < UNDOING
        self._walk(SHORT if undoing else LENGTHS)
        if undoing:
            self.trace.append("(rest)")
            self._ending.rest(stalled=self._report.moves["stall"] > 0)
            self.setting.undos_left = self._rng.choice(UNDOS)
            self._walk(SHORT)
        self._report.outcomes["started in the walk"] += len(self._ledger.runs)
        self.trace.append("(quiet)")
        self._ending.quiet(stalled=self._report.moves["stall"] > 0)
        self._report.outcomes["put back"] += self._ending.verdict()
        self._report.outcomes.update(str(run.outcome) for run in self._ledger.runs.values())
        return self._report

    def _walk(self, lengths: Sequence[int]) -> None:
        for _ in range(self._rng.choice(lengths)):
            self._make(*self._moves.choose())
            if self.setting.all_over() and not self.setting.undos_left:
                break

    def bury(self) -> None:
        """End what is left of every generation."""
        self._ledger.broken = []
        for node in self.setting.nodes:
            node.bury()

    def _make(self, name: str, act: Callable[[], None]) -> None:
        self.trace.append(name)
        self._report.moves[name.partition(" ")[0]] += 1
        act()
        self._ending.check()


def explore(seed: int) -> Report:
    """Run the schedule of a seed. Raises Violation with the seed and all its moves."""
    with _repeatable(seed), errors_logged() as errors:
        schedule = Schedule(seed, errors)
        try:
            return schedule.run()
        except Violation as violation:
            moves = "\n".join(f"  {number:3} {move}" for number, move in enumerate(schedule.trace, 1))
            again = f"again: python -m tests.explorer --seed {seed}"
            raise Violation(f"seed {seed}: {violation}\nmoves:\n{moves}\n{again}") from None
        finally:
            schedule.bury()


@contextmanager
def _repeatable(seed: int) -> Iterator[None]:
    """The ids that the server draws come from the seed: they decide which of two equals goes first."""
    rng, stock = random.Random(f"ids of {seed}"), (secrets.token_hex, secrets.token_urlsafe)

    def draw(nbytes: int | None = None) -> str:
        return rng.randbytes(nbytes or 32).hex()

    secrets.token_hex = secrets.token_urlsafe = draw
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)
        secrets.token_hex, secrets.token_urlsafe = stock


class _Errors(logging.Handler):
    def __init__(self, into: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._into = into

    def emit(self, record: logging.LogRecord) -> None:
        if _gave_up(record):
            return
        why = f": {record.exc_info[1]!r}" if record.exc_info else ""
        self._into.append(f"the log says: {record.getMessage()}{why}")


def _gave_up(record: logging.LogRecord) -> bool:
    """Whether a worker says that a task stops for now, as it should where moves kept the store away for so long."""
    match record.msg, record.args:
        case "task %s stops for now: %s", (_, Trouble(for_s=for_s)):
            return for_s >= PATIENCE_S
    return False


@contextmanager
def errors_logged() -> Iterator[list[str]]:
    """What the server logs as errors: in these schedules there is nothing else that it may not expect."""
    logger, errors = logging.getLogger("orchestrator"), list[str]()
    handler, level, propagate = _Errors(errors), logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    try:
        yield errors
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
