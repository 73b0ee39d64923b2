"""A process that imports a package once, and forks a command of it for each request.

``python -m tests.fork_server SOCKET PIPE PACKAGE``: :mod:`tests.forked` starts it once for a run of the tests. It
listens on the socket until the other end of the pipe is closed. It forks a server for each connection, which ends with
the connection. Each command is a process of its own, with its own arguments, environment, place, pipes and session, and
ends as an interpreter ends.
"""

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from io import FileIO, TextIOWrapper
from typing import Any, Final, NamedTuple, NoReturn

IMPORTED: Final[Mapping[str, Sequence[str]]] = {
    "orchestrator": (
        "anyio._backends._asyncio",
        "encodings.idna",
        "httpcore2",
        "ollama",
        "orchestrator.app.serving",
        "orchestrator.core.evidence.verdict",
        "orchestrator.terminal.cli.commands",
        "orchestrator.terminal.cli.review",
        "orchestrator.core.audit.presentation",
        "orchestrator.core.task.transcript",
        "orchestrator.terminal.evaluation",
        "orchestrator.terminal.follow",
        "orchestrator.terminal.interactive",
        "orchestrator.adapters.models.kept_models",
        "orchestrator.adapters.models.ollama_server",
        "prompt_toolkit",
        "truststore",
        "typer._adapters",
        "uvicorn.lifespan.off",
        "uvicorn.protocols.http.auto",
        "uvloop",
    ),
    "cc_client": (
        "cc_client.simulator.computer",
        "cc_client.simulator.control",
        "cc_client.simulator.install",
        "cc_client.simulator.options",
        "cc_client.simulator.world.reading",
    ),
}
"""What the processes of a package import; none of it starts a thread, opens anything or asks who it is."""
STREAMS: Final = 3
"""Standard input, output and error: the descriptors that come with a request, and before the pipe of its process."""


class Told(NamedTuple):
    """A command to start, and the descriptors that came with it."""

    request: dict[str, Any]
    descriptors: list[int]


@dataclass
class Server:
    """The processes of one connection, and the pipe on which the end of each is told."""

    asked: socket.socket
    ended: int
    """Readable when a process may have ended."""
    pipes: dict[int, int] = field(default_factory=dict)

    def until_forked(self) -> Told:
        """Start what is asked for; returns in the new process only. Ends with whoever asks."""
        asked = self.asked.fileno()
        while True:
            ready, _, _ = select.select([asked, self.ended], [], [])
            if self.ended in ready:
                os.read(self.ended, 4096)
                self._tell()
            if asked in ready:
                told = received(self.asked)
                if told is None:
                    self._end()
                pid = os.fork()
                if pid == 0:
                    return told
                for one in told.descriptors[:STREAMS]:
                    os.close(one)
                self.pipes[pid] = told.descriptors[STREAMS]

    def forget(self) -> None:
        """Close everything of the server, in a process that is none."""
        self.asked.close()
        os.close(self.ended)
        for pipe in self.pipes.values():
            os.close(pipe)

    def _tell(self) -> None:
        while self.pipes:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return
            pipe = self.pipes.pop(pid)
            _write(pipe, status, round((usage.ru_utime + usage.ru_stime) * 1000))
            os.close(pipe)

    def _end(self) -> NoReturn:
        for pid in self.pipes:
            os.kill(pid, signal.SIGKILL)
        for pid in self.pipes:
            os.waitpid(pid, 0)
        sys.exit()


def received(asked: socket.socket) -> Told | None:
    """The next request; None: whoever asked is gone."""
    head, descriptors, _, _ = socket.recv_fds(asked, 4, STREAMS + 1)
    if not head:
        return None
    wanted = int.from_bytes(head + _whole(asked, 4 - len(head)))
    return Told(json.loads(_whole(asked, wanted)), descriptors)


def _whole(asked: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size and (part := asked.recv(size - len(found))):
        found += part
    return found


def _write(pipe: int, *values: int) -> None:
    with suppress(BrokenPipeError):
        os.write(pipe, b"".join(b"%d\n" % value for value in values))


def become(told: Told) -> str:
    """Take the place of a process that was just started; the module to run."""
    request, descriptors = told
    if request["session"]:
        os.setsid()
    for number, one in enumerate(descriptors[:STREAMS]):
        os.dup2(one, number)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.path[0] = request["cwd"]
    module, *arguments = request["command"]
    sys.argv[:] = ["-m", *arguments]
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        stream = _stream(getattr(sys, name), number, mode)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    # Only now, so that no signal comes to a process that is not yet itself.
    _write(descriptors[STREAMS], os.getpid())
    for one in descriptors:
        os.close(one)
    return str(module)


def _stream(like: TextIOWrapper, number: int, mode: str) -> TextIOWrapper:
    """A standard stream as an interpreter makes it: whether it is a terminal is asked anew."""
    if os.environ.get("PYTHONUNBUFFERED") and mode == "w":
        raw = FileIO(number, mode, closefd=False)
        return TextIOWrapper(raw, like.encoding, like.errors, write_through=True)
    made = open(number, mode, encoding=like.encoding, errors=like.errors, closefd=False)  # noqa: SIM115
    assert isinstance(made, TextIOWrapper)
    if number == 2:
        made.reconfigure(line_buffering=True)
    return made


def settle_garbage() -> None:
    """What is there now is never looked at again by the collector, and what comes later seldom.

    Otherwise each of a thousand forked processes copies every page that it looks at, which is 6 % of its time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


def main() -> None:
    """Serve until the process that started this is gone; in each new process: run its command."""
    for name in IMPORTED[sys.argv[3]]:
        # uvloop is not everywhere.
        with suppress(ModuleNotFoundError):
            import_module(name)
    assert threading.active_count() == 1, "only a process of one thread can be forked"
    settle_garbage()
    # Ctrl-C at the terminal of the tests is for the tests, which end this.
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = connected(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
    ended, woken = os.pipe()
    for one in (ended, woken):
        os.set_blocking(one, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    server = Server(connection, ended)
    told = server.until_forked()
    # From here on this is a new process, which knows nothing of the server.
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, interrupted)
    server.forget()
    os.close(woken)
    _run(become(told))


def _run(module: str) -> None:
    """Run a module to its end as an interpreter does, which takes apart nothing that was imported."""
    code = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        code = end.code or 0
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        # Nobody reads: the interpreter says so in its own way.
        sys.exit(code)
    os._exit(code & 0xFF)


def connected(listener: socket.socket, alive: int) -> socket.socket:
    """Fork a process for each connection, and return in these only; ends when the other end of ``alive`` is closed."""
    # Nobody waits for the processes of connections.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listener.fileno(), alive], [], [])
        if alive in ready:
            sys.exit()
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            os.close(alive)
            return connection
        connection.close()


if __name__ == "__main__":
    main()
