"""A real pgbouncer for tests, before the PostgreSQL server of the run: Debian's package ``pgbouncer``."""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

import asyncpg

from tests.servers import UNPRIVILEGED, PostgresServer, free_port
from tests.waiting import HANG_S

MODES: Final = ("session", "transaction", "statement")
Mode = Literal["session", "transaction", "statement"]
PROGRAM: Final = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
"""Debian keeps it where only root looks; None: it is not installed."""


# The end of the pipe is the end of the test, or of a run that was killed. It has nothing to write before it ends.
_WATCH: Final = """directory=$1; shift; "$@" </dev/null & read -r _; kill -KILL $!; wait $!; rm -rf "$directory\""""


class PgBouncer:
    """A pgbouncer on a port of its own, to be used as a context; ``size``: server connections of one pool."""

    def __init__(self, server: PostgresServer, mode: Mode, *, size: int = 20, settings: str = "") -> None:
        self._server = server
        self._size = size
        self._settings = settings
        self._directory = Path(tempfile.mkdtemp(prefix="cc-pb-"))
        self._watch: subprocess.Popen[bytes] | None = None
        self.mode: Mode = mode
        self.port = 0

    def __enter__(self) -> Self:
        try:
            self._begin()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, _kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        if self._watch is not None:
            self._watch.communicate(timeout=HANG_S)
        shutil.rmtree(self._directory, ignore_errors=True)

    def url(self, database: str, *, user: str = "postgres", options: str = "") -> str:
        """A database of the server, through the pooler; nobody is asked for a password."""
        return f"postgresql://{user}:secret@127.0.0.1:{self.port}/{database}?sslmode=disable{options}"

    async def change(self, mode: Mode) -> None:
        """Change the pool mode while connections go on, as an administrator does."""
        self.mode = mode
        self._write()
        await self.tell("RELOAD")

    async def tell(self, command: str) -> None:
        """A command of its console."""
        console = await asyncpg.connect(self.url("pgbouncer"), timeout=HANG_S)
        await console.execute(command)
        await console.close()

    def log(self) -> str:
        """What it has said so far."""
        return (self._directory / "log").read_text("utf-8", "replace")

    def _begin(self) -> None:
        assert PROGRAM is not None
        user = UNPRIVILEGED if hasattr(os, "geteuid") and os.geteuid() == 0 else None
        if user is not None:
            shutil.chown(self._directory, user)
        self.port = free_port()
        self._write()
        (self._directory / "users").write_text('"postgres" "secret"\n')
        with (self._directory / "log").open("wb") as log:
            command = ["/bin/sh", "-c", _WATCH, "sh", str(self._directory), PROGRAM, str(self._ini)]
            pipe = subprocess.PIPE
            self._watch = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=log, user=user, cwd=self._directory, start_new_session=True
            )
        until = time.monotonic() + HANG_S
        while "process up" not in self.log():
            if self._watch.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"pgbouncer did not start: {self.log()[-2000:]}")
            time.sleep(0.01)

    @property
    def _ini(self) -> Path:
        return self._directory / "pgbouncer.ini"

    def _write(self) -> None:
        self._ini.write_text(
            f"""[databases]
* = host={self._server.directory} port={self._server.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = trust
auth_file = {self._directory}/users
admin_users = postgres
pool_mode = {self.mode}
default_pool_size = {self._size}
server_login_retry = 1
{self._settings}
"""
        )
