"""One time of being connected to the database of the bus: from entering the list of nodes to losing a connection."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import asyncpg
from asyncpg import Connection

from orchestrator.adapters.bus.postgres_messages import Frame, Outbox, Outgoing, fetched, large, spilled
from orchestrator.core.errors import BusAway, InvalidRequest
from orchestrator.runtime.clock import steady_s
from orchestrator.runtime.postgresql import sessions
from orchestrator.runtime.postgresql.problems import Kind, trouble
from orchestrator.runtime.postgresql.sessions import SharedSession, place

# -- What can go wrong with the database of the bus, and what it is called: never with the URL, which holds a
# password

ANSWERS_WITHIN_S: Final = 5.0
"""A database that says nothing for so long is gone."""

LOSSES: Final = (
    OSError,
    EOFError,
    TimeoutError,
    SharedSession,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""How a connection that cannot be had, or is lost, shows itself."""


def away(url: str, error: BaseException, *, connecting: bool = True) -> BusAway | InvalidRequest:
    """The sentence for a bus that cannot be opened, or was lost."""
    where = place(url)
    if isinstance(error, asyncpg.UndefinedTableError):
        return BusAway(f"The tables of the bus are gone from {where}.", remedy="They are made again at once.")
    found = trouble(error, where, "--bus", connecting=connecting)
    if found is None:
        return BusAway(f"The bus met a defect at {where}.", remedy="Report it with the log.")
    kind = InvalidRequest if found.kind is Kind.SETUP else BusAway
    return kind(found.message, remedy=found.remedy)


# -- The database's clock, as a node knows it without asking each time -------------------

_FRESH_S: Final = 3.0
"""What was heard longer ago says nothing any more: this process, or its machine, may have stood still."""


class DatabaseClock:
    """Bounds of the database's clock, in seconds since its epoch, by this machine's steady one.

    The database read its clock between the moment it was asked and the moment the answer was here; each answer
    narrows the bounds. Where an answer lies outside of them (somebody set a clock), it makes new ones.
    """

    def __init__(self) -> None:
        self._low = self._high = 0.0
        self._heard: float | None = None

    def heard(self, asked: float, said: float, answered: float) -> None:
        """The database said ``said`` to what was asked and answered at these moments."""
        low, high = said - answered, said - asked
        if self._heard is not None and max(low, self._low) <= min(high, self._high):
            low, high = max(low, self._low), min(high, self._high)
        self._low, self._high, self._heard = low, high, answered

    def fresh(self, now: float) -> bool:
        """Whether it was heard lately."""
        return self._heard is not None and now - self._heard < _FRESH_S

    def earliest(self, now: float) -> float:
        """It is not earlier than this by the database's clock."""
        return now + self._low

    def latest(self, now: float) -> float:
        """It is not later than this by the database's clock."""
        return now + self._high


# -- The tables of the PostgreSQL bus and its statements: who is there, who serves what, and what is too large to
# say
#
# All of it is of the moment: the tables are UNLOGGED, a server that crashed empties them, and every node says
# anew who it is when it connects again. Whoever is in the same schema of the same database is on the same bus.

BEAT_S: Final = 1.0
"""A node says this often that it lives, and that it still works on what it was asked."""
SILENT_S: Final = 5.0
"""Who said nothing for so long does not count as living: a busy machine misses a beat or two."""
_FORGOTTEN_S: Final = 60
"""Who said nothing for so long is taken off the list, and its connections ended: a process that was stopped keeps the
server from letting go of old notifications."""
_SPILLED_S: Final = 120
"""What nobody fetched within this time is taken away: by then no request is waited for."""

_TABLES: Final = """
CREATE UNLOGGED TABLE IF NOT EXISTS bus_nodes (
    node text PRIMARY KEY,
    name text NOT NULL,
    pid integer NOT NULL,
    began timestamptz,
    heard timestamptz NOT NULL
);
CREATE UNLOGGED TABLE IF NOT EXISTS bus_served (
    subject text NOT NULL,
    node text NOT NULL REFERENCES bus_nodes ON DELETE CASCADE,
    PRIMARY KEY (subject, node)
);
CREATE INDEX IF NOT EXISTS bus_served_node ON bus_served (node);
CREATE UNLOGGED TABLE IF NOT EXISTS bus_parts (
    message text NOT NULL,
    part integer NOT NULL,
    bytes bytea NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (message, part)
);
ALTER TABLE bus_parts ALTER bytes SET STORAGE EXTERNAL;
"""
_LOCK: Final = 7_103_561_224
"""The advisory lock of who makes the tables, or sweeps: ``IF NOT EXISTS`` alone fails when two do so at once."""

ENTER: Final = """
INSERT INTO bus_nodes (node, name, pid, began, heard)
SELECT $1, $2, pg_backend_pid(),
    (SELECT backend_start FROM pg_stat_get_activity(pg_backend_pid())), clock_timestamp()
ON CONFLICT (node) DO UPDATE SET pid = excluded.pid, began = excluded.began, heard = excluded.heard
"""
LEAVE: Final = "DELETE FROM bus_nodes WHERE node = $1"
BEAT: Final = """
UPDATE bus_nodes SET heard = clock_timestamp() WHERE node = $1
RETURNING extract(epoch FROM clock_timestamp())::float8
"""
DECLARE: Final = """
WITH ended AS (DELETE FROM bus_served WHERE node = $1 AND NOT subject = ANY ($2::text[]))
INSERT INTO bus_served (node, subject) SELECT $1, s FROM unnest($2::text[]) AS s ON CONFLICT DO NOTHING
"""
SEND: Final = f"""
WITH m AS MATERIALIZED (
    SELECT u.*, CASE WHEN u.subject IS NOT NULL THEN (
        SELECT s.node FROM bus_served s JOIN bus_nodes b USING (node)
        WHERE s.subject = u.subject AND b.heard > clock_timestamp() - interval '{SILENT_S} s'
            AND EXISTS (SELECT FROM pg_stat_get_activity(b.pid))
        ORDER BY random() LIMIT 1
    ) END AS node
    FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS u (channel, subject, payload, nr)
)
SELECT node, CASE
    WHEN channel IS NOT NULL THEN pg_notify(channel, payload)
    WHEN node IS NOT NULL THEN pg_notify($1 || node, payload)
END FROM m ORDER BY nr
"""
"""Sends what has a channel, and what has a subject to one who serves it and lives (and is connected); says to whom."""

SPILL: Final = "INSERT INTO bus_parts (message, part, bytes) VALUES ($1, $2, $3)"
READ: Final = "SELECT bytes FROM bus_parts WHERE message = $1 AND part = $2"
TAKE: Final = "DELETE FROM bus_parts WHERE message = $1 AND part = $2 RETURNING bytes"
DROP: Final = "DELETE FROM bus_parts WHERE message = $1"

SWEEP_PARTS: Final = f"DELETE FROM bus_parts WHERE at < clock_timestamp() - interval '{_SPILLED_S} s'"
SWEEP_NODES: Final = f"""
WITH gone AS (
    DELETE FROM bus_nodes WHERE heard < clock_timestamp() - interval '{_FORGOTTEN_S} s' RETURNING pid, began
)
SELECT pg_terminate_backend(a.pid) FROM gone
JOIN pg_stat_activity a ON a.pid = gone.pid AND a.backend_start = gone.began
"""


async def make_tables(connection: "Connection[Any]") -> str:
    """Make the tables where they are missing; answers the word that tells this schema's channels from others'.

    Raises asyncpg.InvalidSchemaNameError where no schema of the search path exists.
    """
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        # Asked first: CREATE … IF NOT EXISTS wants the right to create also where there is nothing to do.
        # In the first schema of the search path: another installation's may lie further down.
        if await connection.fetchval("SELECT to_regclass(quote_ident(current_schema()) || '.bus_parts') IS NULL"):
            await connection.execute(_TABLES)
        space = await connection.fetchval("SELECT relnamespace::bigint FROM pg_class WHERE oid = 'bus_parts'::regclass")
    return f"cc_bus_{space}"


async def sweep(connection: "Connection[Any]") -> None:
    """Take away what nobody fetched and who is gone for long, where no other node is at it."""
    async with connection.transaction():
        if await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", _LOCK):
            await connection.execute(SWEEP_PARTS)
            await connection.execute(SWEEP_NODES)


# -- One time of being connected to the database of the bus: from entering the list of nodes to losing a
# connection

PART_BYTES: Final = 1 << 20
"""What is spilled goes in parts of this size, so that nothing else waits long for the connection."""
_SWEEP_EVERY_S: Final = 15.0
_SETTINGS: Final = {
    # Nothing here has to outlive a crash, and no statement is worth compiling.
    "synchronous_commit": "off",
    "jit": "off",
    # Planning anew would take four times as long as the statement that sends.
    "plan_cache_mode": "force_generic_plan",
    # A process that was stopped holds nothing for long, and a host that is gone is noticed.
    "idle_in_transaction_session_timeout": "5000",
    "idle_session_timeout": "0",
    "lock_timeout": "5000",
    "statement_timeout": "10000",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
}


@dataclass(frozen=True)
class Identity:
    """Who is on the bus: a key of this very bus object, and the node's name for people who look into the tables."""

    key: str
    name: str


class Session:
    """Represents one time of being connected, and is used once: `open`, then `run` until that ends, then `close`."""

    def __init__(self, url: str, identity: Identity, hear: Callable[[str], None]) -> None:
        self._url = url
        self._me = identity
        self._hear = hear
        self._connections: list[sessions.Session] = []
        self._ear_turn = asyncio.Lock()
        self._sender_turn = asyncio.Lock()
        self._spill_turn = asyncio.Lock()
        self._spiller: Any = None
        self._declared: frozenset[str] | None = None
        self._lost = asyncio.Event()
        self._channel = ""
        self.clock = DatabaseClock()

    def channel_of(self, node: str) -> str:
        """The channel of one node."""
        return f"{self._channel}_{node}"

    async def open(self) -> None:
        """Connect, make the tables where they are missing, listen, and enter the list.

        Raises what asyncpg does, and SharedSession.
        """
        self._sender = await self._connect()
        self._ear = await self._connect()
        await sessions.must_be_sessions(self._ear, self._sender)
        await self._sender.adopt(self._settings("says"))
        await self._ear.adopt(self._settings("hears"))
        self._channel = await make_tables(self._sender)
        # Listening comes first: who is on the list hears.
        for channel in (self._channel, self.channel_of(self._me.key)):
            await self._ear.add_listener(channel, self._notified)
        await self._ear.execute(ENTER, self._me.key, self._me.name)
        await self.beat()

    async def run(self, outbox: Outbox, served: Callable[[], Collection[str]], each_beat: Callable[[], None]) -> None:
        """Send and say that this node lives, until a connection is lost, which is raised as what it was."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send_for_ever(outbox, served))
            group.create_task(self._beat_for_ever(each_beat))
            await self._lost.wait()
            raise ConnectionResetError("a connection to the database was lost")

    async def declare(self, served: Collection[str]) -> None:
        """Say what is served; requests may come before this returns."""
        self._declared = frozenset(served)
        async with self._sender_turn:
            await self._sender.execute(DECLARE, self._me.key, sorted(self._declared))

    async def leave(self) -> None:
        """Take this node off the list."""
        async with self._ear_turn:
            await self._ear.execute(LEAVE, self._me.key)

    def close(self) -> None:
        """Let go of the connections at once."""
        for connection in self._connections:
            connection.terminate()

    async def beat(self) -> None:
        """Say that this node lives, hear what time it is, and be sure that the listening connection is alive."""
        async with self._ear_turn:
            asked = steady_s()
            said = await self._ear.fetchval(BEAT, self._me.key)
        if said is None:
            # Whoever was silent for long is taken off the list.
            raise ConnectionResetError("this node was taken off the list")
        self.clock.heard(asked, said, steady_s())

    async def spill(self, frame: Frame) -> int:
        """Lay what is too large to be said into the database; answers the number of parts."""
        whole = large(frame)
        starts = range(0, len(whole), PART_BYTES)
        for part, start in enumerate(starts):
            async with self._spilling() as connection:
                await connection.execute(SPILL, frame.place, part, whole[start : start + PART_BYTES])
        return len(starts)

    async def fetch(self, frame: Frame) -> Frame | None:
        """The whole of a frame that was spilled, or None where it is not there any more."""
        # What was said to this node alone, nobody else wants.
        statement = READ if frame.kind == "hint" else TAKE
        parts: list[bytes] = []
        for part in range(frame.parts):
            async with self._spilling() as connection:
                one = await connection.fetchval(statement, frame.place, part)
            if one is None:
                return None
            parts.append(one)
        return fetched(frame, b"".join(parts))

    async def drop(self, frame: Frame) -> None:
        """Take away what was spilled for nobody."""
        async with self._spilling() as connection:
            await connection.execute(DROP, frame.place)

    async def _connect(self, settings: Mapping[str, str] | None = None) -> sessions.Session:
        connection = await sessions.connect(
            self._url, settings or {}, timeout_s=ANSWERS_WITHIN_S, command_timeout=ANSWERS_WITHIN_S
        )
        self._connections.append(connection)
        connection.add_termination_listener(lambda _: self._lost.set())
        return connection

    def _settings(self, does: str) -> Mapping[str, str]:
        # So that an administrator sees in pg_stat_activity which connection is what.
        return {**_SETTINGS, "application_name": f"cc-orchestrator bus {does} {self._me.name}"[:63]}

    @contextlib.asynccontextmanager
    async def _spilling(self) -> AsyncIterator[Any]:
        """The connection for what is large, made when it is first needed: for many nodes that is never."""
        async with self._spill_turn:
            if self._spiller is None:
                self._spiller = await self._connect(self._settings("carries"))
            yield self._spiller

    def _notified(self, connection: object, pid: int, channel: str, text: str) -> None:
        del connection, pid, channel
        self._hear(text)

    async def _must_be_sessions(self) -> None:
        """Raises SharedSession where a pooler was changed to another mode: nothing would be heard any more.

        The ear has just had its session. A pooler that takes sessions away gives it, most often, to the sender next.
        """
        # A beat waits for no long statement. While much is sent, the ear meets the sessions of the sender.
        if not self._sender_turn.locked():
            async with self._sender_turn:
                if not await self._sender.is_own():
                    raise SharedSession
        async with self._ear_turn:
            if not await self._ear.is_own():
                raise SharedSession

    async def _send_for_ever(self, outbox: Outbox, served: Callable[[], Collection[str]]) -> None:
        while True:
            outbox.news.clear()
            if (serving := frozenset(served())) != self._declared:
                await self.declare(serving)
            if batch := outbox.batch():
                try:
                    await self._send(batch)
                except BaseException:
                    outbox.lost(batch)
                    raise
            else:
                await outbox.news.wait()

    async def _send(self, batch: list[Outgoing]) -> None:
        texts = [await self._text(message) for message in batch]
        async with self._sender_turn:
            rows = await self._sender.fetch(
                SEND,
                self.channel_of(""),
                [self._channel_for(message) for message in batch],
                [message.subject for message in batch],
                texts,
            )
        for message, row in zip(batch, rows, strict=True):
            if message.sent is not None and message.wanted:
                message.sent.set_result(row["node"])

    async def _text(self, message: Outgoing) -> str:
        if message.large is None:
            return message.text
        return spilled(message.large, await self.spill(message.large))

    def _channel_for(self, message: Outgoing) -> str | None:
        if message.hint:
            return self._channel
        return self.channel_of(message.node) if message.node else None

    async def _beat_for_ever(self, each_beat: Callable[[], None]) -> None:
        now = asyncio.get_running_loop().time
        sweep_at = now()
        while True:
            await asyncio.sleep(BEAT_S)
            await self.beat()
            await self._must_be_sessions()
            each_beat()
            if now() >= sweep_at:
                sweep_at = now() + _SWEEP_EVERY_S
                # What cannot be swept by this node's user stays; a connection that is lost says so by itself.
                with contextlib.suppress(asyncpg.PostgresError):
                    async with self._ear_turn:
                        await sweep(self._ear)
