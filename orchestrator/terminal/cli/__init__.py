"""The command line ``cc-orchestrator``: a client of the port, and the server's start.

Exit codes: 0 success, 1 failed, canceled or unverified, 2 usage, 3 server unreachable or refusing,
4 no such thing, 130 left by Ctrl-C, 141 the reader of the output went away (``| head``).
"""

import os
import sys

__all__ = ["main"]


def main() -> None:
    """The entry point: errors are sentences, never tracebacks, from the first import on."""
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
