"""An editor in the foreground of the terminal, so that its keys are its own: Ctrl-C in it does not end the review."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


def run_editor(command: list[str]) -> int:
    """Run it to its end; its exit code, negative for a signal. Raises OSError where it cannot be started."""
    if os.name == "nt" or not _owns_terminal():
        return subprocess.run(command, check=False).returncode
    terminal = sys.stdin.fileno()
    own = os.getpgrp()
    with _unstopped():
        process = os.posix_spawnp(
            command[0], command, os.environ, setpgroup=0, setsigmask=(), setsigdef=(signal.SIGPIPE,)
        )
        try:
            os.tcsetpgrp(terminal, process)
            _go_on(process)
            return _ended(process)
        finally:
            with suppress(OSError):
                os.tcsetpgrp(terminal, own)


def _owns_terminal() -> bool:
    """Whether this program is in the foreground of the terminal that it reads from."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False


def _ended(process: int) -> int:
    while True:
        _, status = os.waitpid(process, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            return os.waitstatus_to_exitcode(status)
        # Nobody could bring it back to the foreground: Ctrl-Z does nothing here.
        _go_on(process)


def _go_on(process: int) -> None:
    """It may have touched the terminal before that was its own, and was stopped for it."""
    with suppress(OSError):
        os.killpg(process, signal.SIGCONT)


@contextmanager
def _unstopped() -> Iterator[None]:
    """The thread may set the foreground while it is in the background itself."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
