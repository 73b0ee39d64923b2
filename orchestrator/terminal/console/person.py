"""The person at the console: input, output, and the questions to the server."""

import select
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Final, Protocol

from orchestrator.core.approval.approval import HitlResponse
from orchestrator.core.task.facts import RequestId
from orchestrator.terminal.review.edit import Drafts
from orchestrator.terminal.review.request_view import Line, on_screen

_AT_ONCE = partial(print, flush=True)


class Desk(Protocol):
    """What a prompt asks the server for. Raises OrchestratorError with what to tell."""

    def whole(self, request_id: RequestId) -> HitlResponse:
        """The request with nothing of it cut."""

    def extend(self, request_id: RequestId, seconds: float) -> None:
        """Seconds that are added from now on."""


@dataclass(eq=False, repr=False)
class Person:
    """Where a person reads and types. ``ask`` None: nobody is there."""

    say: Callable[[str], None] = _AT_ONCE
    """Print at once, also into a pipe: its reader waits for it."""
    ask: Callable[[str], str] | None = None
    color: bool = False
    told: set[str] = field(default_factory=set)
    """The tasks whose goal was shown."""
    columns: int | None = None
    """Prose is wrapped at these; None: it is not, as on a pipe."""
    desk: Desk | None = None
    """None: a request is decided as it was given."""
    kept: Drafts = field(default_factory=Drafts)
    leave: str = "[l]eave"
    """The word for leaving a request: where there are several it is going on to the next."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def write(self, lines: Iterable[Line]) -> None:
        """Lines, wrapped and colored as this person's terminal has it."""
        for line in lines:
            for part in on_screen(line, color=self.color, columns=self.columns):
                self.say(part)

    def tell(self, text: str) -> None:
        """One sentence."""
        self.write([Line(text, prose=True)])

    def typed(self, prompt: str) -> str:
        """The typed text, without blanks around it. Raises Overtaken, InputEnded."""
        assert self.ask is not None, "somebody is there"
        return self.ask(prompt).strip()

    def agrees(self, question: str) -> bool:
        """Whether the person says yes; anything else is no."""
        return self.typed(f"{question} [y/N] ").lower() in ("y", "yes")


# -- Lines that a person types, read so that nothing typed too early counts and nothing is waited for in vain

_LOOK_S: Final = 0.25
"""How soon a prompt notices that it is no longer needed."""


class InputEnded(KeyboardInterrupt):
    """The end of the input (Ctrl-D): leaves as Ctrl-C does."""


class Overtaken(Exception):
    """The question no longer needs an answer."""


def read_line(say: Callable[[], object], overtaken: Callable[[], bool] = lambda: False) -> str:
    """The line that is typed once ``say`` has shown the prompt. Raises Overtaken once ``overtaken()``, InputEnded.

    Earlier typed keys are thrown away: nobody decides about a request that they have not seen. It never waits inside of
    a read, so that Ctrl-C ends the program although a thread of it asks.
    """
    _forget_typed()
    say()
    while not _readable():
        if overtaken() or not threading.main_thread().is_alive():
            raise Overtaken
    line = sys.stdin.readline()
    if not line.endswith("\n"):
        raise InputEnded
    return line


def prompted(prompt: str, overtaken: Callable[[], bool] = lambda: False) -> str:
    """What the person types at a prompt. Raises Overtaken, InputEnded at Ctrl-D."""

    def show() -> None:
        sys.stdout.write(prompt)
        sys.stdout.flush()

    try:
        return read_line(show, overtaken)
    except Overtaken:
        sys.stdout.write("\n")
        raise


def _readable() -> bool:
    try:
        return bool(select.select([sys.stdin], [], [], _LOOK_S)[0])
    except (OSError, ValueError):
        # Windows selects sockets only: there a prompt waits until something is typed.
        return True


def _forget_typed() -> None:
    with suppress(ImportError, OSError, ValueError):
        import termios

        with suppress(termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
