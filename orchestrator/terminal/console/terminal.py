"""Lines that a person types, read so that nothing typed too early counts and nothing is waited for in vain."""

import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_LOOK_S: Final = 0.25
"""How soon a prompt notices that it is no longer needed."""


class InputEnded(KeyboardInterrupt):
    """The end of the input (Ctrl-D): leaves as Ctrl-C does."""


class Overtaken(Exception):
    """What was being asked no longer needs an answer."""


def read_line(say: Callable[[], object], overtaken: Callable[[], bool] = lambda: False) -> str:
    """The line that is typed once ``say`` has shown the prompt. Raises Overtaken once ``overtaken()``, InputEnded.

    What was typed before is thrown away: nobody decides about what they have not seen. It never waits inside
    of a read, so that Ctrl-C ends the program although a thread of it asks.
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
