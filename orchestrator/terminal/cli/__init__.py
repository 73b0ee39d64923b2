"""The command line ``cc-orchestrator``: a client of the port, and the server's start.

Exit codes: 0 success, 1 failed, canceled or unverified, 2 usage, 3 server unreachable or refusing,
4 no such thing, 130 left by Ctrl-C, 141 the reader of the output went away (``| head``).
"""

import atexit
import gc
import os
import sys

__all__ = ["main"]

_NEW_OBJECTS = 100_000
"""Objects that are made before the collector looks for garbage."""


def main() -> None:
    """The entry point: errors are sentences, never tracebacks, from the first import on."""
    _open_standard_streams()
    # What a command imports stays: to look through it for garbage again and again is a tenth of a short command.
    gc.set_threshold(_NEW_OBJECTS)
    # At its end the interpreter looks through all of it once more, which frees nothing that the process would keep.
    atexit.register(gc.freeze)
    try:
        from orchestrator.terminal.cli.commands import run_command_line

        run_command_line()
        code = 0
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        # Buffered output has no reader now, and nothing may complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    sys.exit(code)


def _open_standard_streams() -> None:
    """Put the null device in the place of each standard stream that the shell closed, as `<&-` does.

    It comes first: the next file or socket would get the free number, and what is printed would go there.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is this one: those before it are in use by now.
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            stream = open(number, "w" if number else "r", encoding="utf-8", closefd=False)  # noqa: SIM115 - it stays
            setattr(sys, name, stream)
