"""Starts the commands of this project for tests, a thousand times and at once: each is forked, not imported anew.

A real process all the same: own pid, pipes, session and files, SIGKILL is SIGKILL, and it ends as an interpreter
ends. What is proved of the start itself (what it imports, what it costs) is proved with ``subprocess``.
"""

import asyncio
import atexit
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from asyncio.base_subprocess import BaseSubprocessTransport
from asyncio.subprocess import Process, SubprocessStreamProtocol
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
_OF_INTERPRETERS: Final = ("PYTHON", "LC_", "LANG", "MALLOC", "LD_", "TYPER_")
"""What an interpreter, or a library, reads when it starts: the server was started with its own."""
PACKAGES: Final = ("orchestrator", "cc_client")
"""The packages whose commands are forked; they are never in one process."""
_SHARED: Final = "CC_TEST_FORK_SERVER_"
"""With the name of a package: the socket of a fork server that several processes use."""


class _Listening:
    """The fork server of a package, which ends with the process that started it."""

    def __init__(self, package: str) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="cc-fork-"))
        self.path = str(self._directory / "socket")
        alive, self._held = os.pipe()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.path)
            listener.listen(64)
            numbers = (listener.fileno(), alive)
            command = [sys.executable, "-m", "tests.fork_server", *map(str, numbers), package]
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=_environment(), stdin=subprocess.DEVNULL, pass_fds=numbers
            )
        os.close(alive)
        atexit.register(self.end)

    def end(self) -> None:
        """End it."""
        atexit.unregister(self.end)
        os.close(self._held)
        self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)


@cache
def _listening(package: str) -> _Listening:
    return _Listening(package)


def share() -> None:
    """Start all fork servers, for this process and for those that it forks from now on."""
    for package in PACKAGES:
        os.environ[_SHARED + package] = _listening(package).path
    # What it imports is chosen in tests.harness.processes.
    forkserver.ensure_running()


def use_shared() -> None:
    """In a process that was forked: use the servers that :func:`share` started."""
    # It would ask whether its server runs, which only the parent of that can.
    forkserver._forkserver.ensure_running = lambda: None  # type: ignore[method-assign]


def unshare() -> None:
    """End what :func:`share` started."""
    for package in PACKAGES:
        if os.environ.pop(_SHARED + package, None):
            _listening(package).end()
    _listening.cache_clear()
    # Not asked to stop: a process that a test left would keep them waiting.
    for pid in (forkserver._forkserver._forkserver_pid, resource_tracker._resource_tracker._pid):  # type: ignore[attr-defined]
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


class _Server:
    """A connection to the fork server of a package; its commands end with this process."""

    def __init__(self, package: str) -> None:
        self.environment = _environment()
        self.cpu_ms = 0
        """What the commands needed that have ended."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(os.environ.get(_SHARED + package) or _listening(package).path)
        self._lock = threading.Lock()
        _SERVERS.append(self)

    def start(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        """Start a command; its process is told on the last descriptor."""
        body = json.dumps(request).encode()
        with self._lock:
            socket.send_fds(self._socket, [len(body).to_bytes(4)], descriptors)
            self._socket.sendall(body)


_SERVERS: Final[list[_Server]] = []
"""The connections of this process."""


@cache
def _server(package: str) -> _Server:
    return _Server(package)


def _server_of(module: str) -> _Server:
    return _server("cc_client" if module.startswith("cc_client.") else "orchestrator")


_ELSEWHERE_S: Final[list[float]] = []


def count(cpu_s: float) -> None:
    """Count the CPU seconds of a process that something else forked."""
    _ELSEWHERE_S.append(cpu_s)


def cpu_s() -> float:
    """CPU seconds of the commands that were forked for this process and have ended."""
    return sum(server.cpu_ms for server in _SERVERS) / 1000 + sum(_ELSEWHERE_S)


class Forked(subprocess.Popen[Any]):
    """A process of the server; what is overridden is how it starts, and how its end is noticed."""

    def _execute_child(
        self,
        args: Sequence[str],
        _executable: None,
        _preexec: None,
        _close_fds: bool,
        _pass_fds: Sequence[int],
        cwd: "Path | str | None",
        env: Mapping[str, str] | None,
        _startupinfo: None,
        _flags: int,
        _shell: bool,
        p2cread: int,
        p2cwrite: int,
        c2pread: int,
        c2pwrite: int,
        errread: int,
        errwrite: int,
        _restore_signals: bool,
        _gid: None,
        _gids: None,
        _uid: None,
        _umask: int,
        start_new_session: bool,
        *_rest: Any,
    ) -> None:
        request = {
            "command": list(args[2:]),
            "cwd": os.fspath(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
            "session": start_new_session,
        }
        streams = [own if given == -1 else given for own, given in enumerate((p2cread, c2pwrite, errwrite))]
        self._told, its = os.pipe()
        self._server = _server_of(args[2])
        try:
            self._server.start(request, [*streams, its])
        finally:
            os.close(its)
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]
        self.pid = self._number()
        self._child_created = True

    def _number(self) -> int:
        """The next number that the server tells of this process."""
        line = b""
        while not line.endswith(b"\n"):
            part = os.read(self._told, 1)
            if not part:
                raise RuntimeError("The fork server of the tests ended.")
            line += part
        return int(line)

    @property
    def told(self) -> int:
        """The descriptor that is readable once it has ended."""
        return self._told

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        return self._ended(0)

    def _wait(self, timeout: float | None) -> int:
        code = self._ended(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def _ended(self, timeout: float | None) -> int | None:
        """The exit code, which is waited for so many seconds; None: it still runs."""
        until = None if timeout is None else time.monotonic() + timeout
        lock: threading.Lock = self._waitpid_lock  # type: ignore[attr-defined]
        if not lock.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            return None
        try:
            left = None if until is None else max(until - time.monotonic(), 0)
            if self.returncode is None and select.select([self._told], [], [], left)[0]:
                self.returncode = os.waitstatus_to_exitcode(self._number())
                self._server.cpu_ms += self._number()
                os.close(self._told)
        finally:
            lock.release()
        return self.returncode


def start(command: Sequence[str], env: Mapping[str, str], **options: Any) -> "subprocess.Popen[Any]":
    """``subprocess.Popen``, forked where the command is a module of this project and nothing speaks against it."""
    if list(command[:2]) == [sys.executable, "-m"]:
        server = _server_of(command[2])
        if _of_interpreter(env) == _of_interpreter(server.environment):
            return Forked(command, env=env, **options)
    return subprocess.Popen(command, env=env, **options)


def run(
    command: Sequence[str], env: Mapping[str, str], *, timeout: float, typed: str | None = None, **options: Any
) -> "subprocess.CompletedProcess[str]":
    """``subprocess.run`` of text, as :func:`start` starts it."""
    if typed is not None:
        options["stdin"] = subprocess.PIPE
    with start(command, env, text=True, **options) as process:
        try:
            out, errors = process.communicate(typed, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


def _of_interpreter(environment: Mapping[str, str]) -> dict[str, str]:
    """What an interpreter looks at when it starts; whether it buffers its streams is asked of each process anew."""
    found = {name: value for name, value in environment.items() if name.startswith(_OF_INTERPRETERS) or name == "TZ"}
    found.pop("PYTHONUNBUFFERED", None)
    return found


class _Transport(BaseSubprocessTransport):
    """A forked process as a loop has it."""

    def _start(self, args: Any, shell: bool, stdin: Any, stdout: Any, stderr: Any, bufsize: int, **kwargs: Any) -> None:
        del shell
        self._proc = process = Forked(args, bufsize=bufsize, stdin=stdin, stdout=stdout, stderr=stderr, **kwargs)
        # Its own, as whoever asks the process how it is may hear of the end first.
        told = os.dup(process.told)
        self._loop.add_reader(told, self._end, told)

    def _end(self, told: int) -> None:
        self._loop.remove_reader(told)
        os.close(told)
        assert self._proc is not None
        self._process_exited(self._proc.wait())


async def start_simulator(*options: str, **pipes: Any) -> Process:
    """``python -m cc_client.simulator`` as ``asyncio.create_subprocess_exec`` starts it; in the checkout."""
    server = await asyncio.to_thread(_server, "cc_client")
    loop = asyncio.get_running_loop()
    protocol = SubprocessStreamProtocol(limit=2**16, loop=loop)
    begun = loop.create_future()
    streams = {"stdin": None, "stdout": None, "stderr": None, **pipes}
    command = [sys.executable, "-m", "cc_client.simulator", *options]
    transport = _Transport(
        loop, protocol, command, False, bufsize=0, waiter=begun, cwd=ROOT, env=server.environment, **streams
    )
    await begun
    return Process(transport, protocol, loop)
