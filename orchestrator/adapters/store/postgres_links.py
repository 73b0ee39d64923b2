"""Connections to a PostgreSQL server: how each is made, and a small pool of them.

Not asyncpg.Pool: it refuses a connection at once while the server restarts, where this one waits for the server; and it
resets a connection each time it comes back, which costs a round trip and more than doubles the time of a short
statement.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import asyncpg

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store.postgres_dialect import is_lasting, not_connected
from orchestrator.core.errors import InvalidRequest, OrchestratorError, StoreAway
from orchestrator.runtime.postgresql import sessions
from orchestrator.runtime.postgresql.sessions import SharedSession, is_pooled, place

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 15.0
"""How long an operation waits for a server that is away: a restart, or a standby that takes over, lasts less."""
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
_CONNECT_S: Final = 5.0
"""One attempt: a server that is there answers sooner, one behind a cut cable never."""
_KNOWN_S: Final = 1.0
"""For so long a failed attempt answers for all, once the server has been away for too long.

Behind a cut cable each attempt takes whole seconds, and a waiting task would wait for all attempts before it.
"""
_CLOSE_S: Final = 2.0
_DOUBT_S: Final = 3.0
"""A statement that takes so long may go on if the server answers another connection.

If it answers none, it is given up.
"""

AT_WORK: Final = "cc-orchestrator node"
"""The name of the connections of nodes in the server's list."""
_COMMON: Final = {
    "application_name": AT_WORK,
    # Statements are small; to compile them takes longer than they do.
    "jit": "off",
    # Sums to what TCP alone would take a quarter of an hour to notice: a peer that vanished without a word.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "15000",
}
WRITING: Final = {
    **_COMMON,
    # A node that was stopped in the middle of a transaction must not keep its rows from the others. Here a
    # transaction idles for milliseconds; one that was cut off by mistake is run again.
    "idle_in_transaction_session_timeout": "2000",
    # Longer than that, so that a task that waits for a stopped node's rows gets them and is not refused.
    "lock_timeout": "5000",
    "statement_timeout": "10000",
}
READING: Final = {
    **_COMMON,
    "default_transaction_read_only": "on",
    "idle_in_transaction_session_timeout": "10000",
    # A list of everything there is may take its time.
    "statement_timeout": "60000",
}
PREPARING: Final = {
    **_COMMON,
    "application_name": "cc-orchestrator begins",
    # To make an index of a large table may take minutes, and nodes that start beside it wait for that.
    "statement_timeout": "3600000",
}
_BEYOND_S: Final = 5.0
"""The client's own end to waiting, beyond the server's: a server that is gone without a word ends nothing."""
_STATEMENTS: Final = 256
"""All texts there are, prepared once for each connection."""


class Links:
    """At most ``most`` connections, made when they are needed, each lent to one at a time.

    ``doubted``: see before the first one that connections of this URL are sessions.
    """

    def __init__(
        self,
        url: str,
        settings: Mapping[str, str],
        *,
        most: int,
        patience_s: float = PATIENCE_S,
        doubted: bool = False,
    ) -> None:
        self._url = url
        self.place = place(url)
        self._settings = dict(settings)
        self._patience_s = patience_s
        self._free = asyncio.Semaphore(most)
        self._idle: list[Any] = []
        self._back = asyncio.Event()
        """Set when one has become idle."""
        self._closed = False
        self._away_since: float | None = None
        self._failed: tuple[float, Exception] | None = None
        """When the last attempt failed, and how."""
        self._reached = False
        """Whether there was a connection ever."""
        self._doubted = doubted
        self._lent: dict[Any, float] = {}
        """Since when it is lent."""
        self._watching: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Any]:
        """A connection; one that was left in the middle of something is not used again.

        Raises StoreAway after ``patience_s`` in vain, InvalidRequest, and SharedSession for what failed by a pooler.
        """
        async with self._free:
            connection = await self._taken()
            self._lent[connection] = time.monotonic()
            self._watch()
            try:
                yield connection
            except TimeoutError:
                # Nothing was heard of it, and nothing would be the next time.
                connection.terminate()
                raise
            except Exception as error:
                if not await _is_shared(connection, error):
                    raise
                # No connection is trusted any more, and the next ones are tried before they are used.
                self._doubted = True
                raise SharedSession from None
            except BaseException:
                # Given up in the middle of a statement.
                connection.terminate()
                raise
            finally:
                del self._lent[connection]
                if connection.is_closed() or connection.is_in_transaction() or self._closed or self._doubted:
                    connection.terminate()
                else:
                    self._idle.append(connection)
                    self._back.set()

    async def close(self) -> None:
        """Close those that are idle now; the others go when they come back."""
        self._closed = True
        if self._watching is not None:
            self._watching.cancel()
        idle, self._idle = self._idle, []
        await asyncio.gather(*(_closed(connection) for connection in idle))

    def set(self, name: str, value: str) -> None:
        """A setting of all connections from now on; of none that is there already."""
        self._settings[name] = value

    async def _taken(self) -> Any:
        began, pause = time.monotonic(), _FIRST_PAUSE_S
        if (connection := self._at_hand()) is not None:
            return connection
        self._must_not_be_known_away()
        while not self._closed:
            try:
                connection = await self._connected()
            except Exception as error:  # noqa: BLE001 - told as one that teaches
                if self._gives_no_more(error):
                    if time.monotonic() + pause > began + self._patience_s:
                        raise self._told(error) from None
                else:
                    self._failed = time.monotonic(), error
                    if is_lasting(error, self.place) or self._is_hopeless(pause):
                        raise self._told(error) from None
            else:
                self._away_since = self._failed = None
                self._reached = True
                return connection
            if (connection := await self._come_back(pause)) is not None:
                return connection
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        raise sealing.store_closed()

    async def _connected(self) -> sessions.Session:
        if self._doubted:
            await sessions.must_give_sessions(self._url, timeout_s=_CONNECT_S)
            self._doubted = False
        return await connect(self._url, self._settings)

    def _at_hand(self) -> Any:
        """An idle connection; None: there is none."""
        while self._idle:
            connection = self._idle.pop()
            if self._doubted:
                connection.terminate()
            elif not connection.is_closed():
                return connection
        return None

    def _gives_no_more(self, error: Exception) -> bool:
        """Whether the server is there, and those that it gave have to do."""
        return isinstance(error, asyncpg.TooManyConnectionsError) and bool(self._lent)

    async def _come_back(self, within_s: float) -> Any:
        """A connection that another user has given back by then; None: there is none."""
        if (connection := self._at_hand()) is not None:
            return connection
        self._back.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._back.wait()
        return self._at_hand()

    def _watch(self) -> None:
        """Have an eye on what is lent, until nothing is."""
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._look_after_lent())

    async def _look_after_lent(self) -> None:
        """Give up what has taken long whenever the server is silent: it may hang, or a line be dead and not say so."""
        try:
            while self._lent:
                await asyncio.sleep(_DOUBT_S)
                long_ago = time.monotonic() - _DOUBT_S
                since = min(self._lent.values(), default=long_ago)
                if since < long_ago and (silence := await self._silence()) is not None:
                    self._give_up(since, silence)
        finally:
            self._watching = None

    async def _silence(self) -> Exception | None:
        """Why the server says nothing at all on a new connection; None: it says something."""
        try:
            (await connect(self._url, self._settings)).terminate()
        except OSError as error:
            return error
        except Exception:  # noqa: BLE001 - a refusal is an answer
            return None
        return None

    def _give_up(self, since: float, silence: Exception) -> None:
        """End all connections: each caller that waits on one hears that the server is away, and since when."""
        self._failed = time.monotonic(), silence
        if self._away_since is None:
            self._away_since = since
        for connection in (*self._lent, *self._idle):
            connection.terminate()
        self._idle.clear()

    def _must_not_be_known_away(self) -> None:
        """Raises what the last attempt failed with, where the server is away for too long and that was just now."""
        if self._failed is None or self._away_since is None or self._closed:
            return
        now = time.monotonic()
        if now > self._away_since + self._patience_s and now < self._failed[0] + _KNOWN_S:
            raise self._told(self._failed[1]) from None

    def _told(self, error: Exception) -> Exception:
        """Why there is no connection; to a store that there was, such as where its password was changed: it is away."""
        told = not_connected(error, self.place)
        if self._reached and isinstance(told, InvalidRequest):
            return StoreAway(told.message, remedy=told.remedy)
        return told

    def _is_hopeless(self, pause: float) -> bool:
        """Whether the server has been away for too long: then one attempt each is enough for all who wait."""
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
            if not self._reached:
                logger.warning(
                    "the database at %s does not answer; waiting for it, %.0f s at most", self.place, self._patience_s
                )
        return now + pause > self._away_since + self._patience_s


async def connect(url: str, settings: Mapping[str, str]) -> sessions.Session:
    """A new connection with these settings. Raises what asyncpg raises."""
    most_ms = int(settings["statement_timeout"])
    return await sessions.connect(
        url,
        settings,
        timeout_s=_CONNECT_S,
        # As for the server, 0 means without an end.
        command_timeout=most_ms / 1000 + _BEYOND_S if most_ms else None,
        statement_cache_size=_STATEMENTS,
        # They stay for as long as the connection does.
        max_cached_statement_lifetime=0,
    )


async def _is_shared(connection: Any, error: Exception) -> bool:
    """Whether a pooler, changed to another mode meanwhile, has given this connection another session."""
    if is_pooled(error):
        return True
    if not isinstance(error, asyncpg.PostgresError) or connection.is_closed() or connection.is_in_transaction():
        return False
    with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return not await connection.is_own()
    return False


async def _closed(connection: Any) -> None:
    try:
        await connection.close(timeout=_CLOSE_S)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, OrchestratorError):
        connection.terminate()
