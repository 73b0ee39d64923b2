"""Connections to PostgreSQL, each of which is a session of its own.

Settings, LISTEN, advisory locks and prepared statements belong to a session. A pooler in transaction or statement mode
gives a connection another session at each transaction or statement. Each connection here has a mark: a setting that no
other connection has. A connection that has lost its mark, or has another's, is not a session of its own.
"""

import os
import secrets
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote_plus, urlsplit

import asyncpg

CONNECT_S: Final = 5.0
"""One attempt: a server that is there answers sooner, one behind a cut cable never."""
_MARK: Final = "cc_orchestrator.session"
_ROUNDS: Final = 3
"""Another client of the pooler may take the server connection that would have shown it."""
_SEARCH_PATH: Final = "search_path"
_TLS_FILES: Final = frozenset({"sslrootcert", "sslcert", "sslkey", "sslcrl"})


class SharedSession(Exception):
    """A pooler changes the session behind a connection."""


class UnreadableFile(ValueError):
    """A file that an option of the URL names cannot be read; it says which option."""


class Session(asyncpg.Connection):  # type: ignore[misc] # asyncpg has no types here
    """A connection that knows its mark."""

    __slots__ = ("_mark",)

    async def adopt(self, settings: Mapping[str, str]) -> None:
        """Set these settings and a new mark, for as long as the session lasts.

        Not with the connection's first packet: a pooler refuses settings there.
        """
        self._mark = secrets.token_hex(8)
        wanted = {**settings, _MARK: self._mark}
        calls = (f"set_config({_quoted(name)}, {_quoted(value)}, false)" for name, value in wanted.items())
        await self.execute(f"SELECT {', '.join(calls)}", timeout=CONNECT_S)

    async def is_own(self) -> bool:
        """Whether the session is the one that adopted the mark."""
        return await self._sees(self._mark)

    async def shares_with(self, other: "Session") -> bool:
        """Whether the session is the one of another connection."""
        return await self._sees(other._mark)

    async def _sees(self, mark: str) -> bool:
        # Without parameters it needs no prepared statement, which a pooler may lose.
        said = await self.execute(f"SELECT 1 WHERE current_setting('{_MARK}', true) = '{mark}'", timeout=CONNECT_S)
        return bool(said == "SELECT 1")


async def connect(url: str, settings: Mapping[str, str], *, timeout_s: float | None = None, **options: Any) -> Session:
    """A new connection with these settings; ``options`` are asyncpg's. Raises what asyncpg raises, and UnreadableFile.

    ``timeout_s`` None: CONNECT_S.
    """
    bare, path = _without_search_path(url)
    timeout_s = CONNECT_S if timeout_s is None else timeout_s
    try:
        connection: Session = await asyncpg.connect(bare, timeout=timeout_s, connection_class=Session, **options)
    except (FileNotFoundError, PermissionError):
        # The error has no name: it may as well be the server's socket.
        for name, value in _options(url):
            if name in _TLS_FILES and not os.access(unquote_plus(value), os.R_OK):
                raise UnreadableFile(name) from None
        raise
    try:
        await connection.adopt({**path, **settings})
    except BaseException:
        connection.terminate()
        raise
    return connection


async def must_give_sessions(url: str, *, timeout_s: float | None = None) -> None:
    """Raises SharedSession where connections of this URL are not sessions, and what asyncpg raises."""
    first = await connect(url, {}, timeout_s=timeout_s)
    try:
        try:
            second = await connect(url, {}, timeout_s=timeout_s)
        except asyncpg.TooManyConnectionsError:
            # The server has room for one only, which may be enough.
            return
        try:
            await must_be_sessions(first, second)
        finally:
            second.terminate()
    finally:
        first.terminate()


async def must_be_sessions(first: Session, second: Session) -> None:
    """Raises SharedSession where they are not; then, and after what asyncpg raises, both are of no more use."""
    for _ in range(_ROUNDS):
        await first.adopt({})
        # It holds the server connection that it gets: most often the one that the first has just used.
        try:
            await second.execute("BEGIN", timeout=CONNECT_S)
        except asyncpg.PostgresError as error:
            if is_pooled(error):
                raise SharedSession from None
            raise
        if await second.shares_with(first) or not await first.is_own():
            raise SharedSession
        await second.execute("ROLLBACK", timeout=CONNECT_S)


def is_pooled(error: BaseException) -> bool:
    """Whether an error can only come from a pooler that changes sessions."""
    lost = (SharedSession, asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)
    # pgbouncer says this to a BEGIN in statement mode, and closes the connection.
    return isinstance(error, lost) or (isinstance(error, asyncpg.PostgresError) and "pooling mode" in str(error))


def place(url: str) -> str:
    """Server and database of the URL, without user, password and options."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "this URL"
    if "@" not in parts.netloc and "@" in url:
        # A password with a slash in it: nobody knows where it ends.
        return "this URL"
    return f"{parts.netloc.rpartition('@')[2] or 'a local socket'}{parts.path}"


def _without_search_path(url: str) -> tuple[str, dict[str, str]]:
    """The URL without its search path, which a pooler would refuse there, and the search path."""
    options = _options(url)
    path = {name: unquote_plus(value) for name, value in options if name == _SEARCH_PATH}
    rest = "&".join(f"{name}={value}" for name, value in options if name != _SEARCH_PATH)
    base = url.partition("?")[0]
    return (f"{base}?{rest}" if rest else base), path


def _options(url: str) -> list[tuple[str, str]]:
    """What the URL says behind its question mark, as it is written."""
    parts = (option.partition("=") for option in url.partition("?")[2].split("&") if option)
    return [(name, value) for name, _, value in parts]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
