"""One time of being connected to the database of the bus: from entering the list of nodes to losing a connection."""

import asyncio
import logging
import math
import secrets
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import chain, count
from typing import Any, Final, Protocol

import asyncpg
from asyncpg import Connection

from orchestrator.adapters.bus.postgres_notes import Hearing, Note, said, spilled
from orchestrator.adapters.bus.remote import HINTS_APART_S
from orchestrator.core.errors import BusAway, InvalidRequest
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


# -- The tables of the PostgreSQL bus and its statements: who is there, who serves what, and what is too large to
# say
#
# All of it is of the moment: the tables are UNLOGGED, a server that crashed empties them, and every node says
# anew who it is when it connects again. Nodes in the same schema of the same database are on the same bus.

BEAT_S: Final = 1.0
"""A node says this often that it lives."""
SILENT_S: Final = 5.0
"""A node that said nothing for so long does not count as alive: a busy machine misses a beat or two."""
_FORGOTTEN_S: Final = 60
"""A node that was silent for so long is off the list, and its connections end: notifications wait for it."""
_SPILLED_S: Final = 120
"""A letter that nobody fetched within this time is removed: by then nobody waits for the answer."""

logger = logging.getLogger(__name__)

_TABLES: Final = """
CREATE UNLOGGED TABLE IF NOT EXISTS bus_members (
    node text PRIMARY KEY,
    pid integer NOT NULL,
    began timestamptz,
    heard timestamptz NOT NULL
);
CREATE UNLOGGED TABLE IF NOT EXISTS bus_offers (
    subject text NOT NULL,
    node text NOT NULL REFERENCES bus_members ON DELETE CASCADE,
    PRIMARY KEY (subject, node)
);
CREATE INDEX IF NOT EXISTS bus_offers_node ON bus_offers (node);
CREATE UNLOGGED TABLE IF NOT EXISTS bus_letters (
    letter text PRIMARY KEY,
    bytes bytea NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
ALTER TABLE bus_letters ALTER bytes SET STORAGE EXTERNAL;
"""
_LOCK: Final = 7_103_561_224
"""The advisory lock for making the tables, or sweeping: ``IF NOT EXISTS`` alone fails when two nodes do it at once."""

ENTER: Final = """
INSERT INTO bus_members (node, pid, began, heard)
SELECT $1, pg_backend_pid(),
    (SELECT backend_start FROM pg_stat_get_activity(pg_backend_pid())), clock_timestamp()
ON CONFLICT (node) DO UPDATE SET pid = excluded.pid, began = excluded.began, heard = excluded.heard
"""
LEAVE: Final = "DELETE FROM bus_members WHERE node = $1"
BEAT: Final = """
UPDATE bus_members SET heard = clock_timestamp() WHERE node = $1 RETURNING true
"""
DECLARE: Final = """
WITH ended AS (DELETE FROM bus_offers WHERE node = $1 AND NOT subject = ANY ($2::text[]))
INSERT INTO bus_offers (node, subject) SELECT $1, s FROM unnest($2::text[]) AS s ON CONFLICT DO NOTHING
"""
_KEY: Final = 12
"""Characters at the end of a node's name that make it unique: the name of a channel is short."""
_SUBJECT_KEY: Final = 16
"""Characters for a subject: of two that have the same ones, nodes that listen to one hear both, and pass one over."""
SEND: Final = f"""
WITH m AS MATERIALIZED (
    SELECT u.nr, CASE WHEN u.channel IS NOT NULL THEN u.channel ELSE $1 || (
        SELECT right(s.node, {_KEY}) FROM bus_offers s JOIN bus_members b USING (node)
        WHERE s.subject = u.subject AND b.heard > clock_timestamp() - interval '{SILENT_S} s'
            AND EXISTS (SELECT FROM pg_stat_get_activity(b.pid))
        ORDER BY random() LIMIT 1
    ) END AS channel
    FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS u (channel, subject, nr)
)
SELECT nr, channel IS NULL AS returned, CASE WHEN channel IS NOT NULL THEN pg_notify(channel, text) END
FROM unnest($4::bigint[], $5::text[]) WITH ORDINALITY AS t (nr, text, at) JOIN m USING (nr) ORDER BY at
"""
"""Sends what has a channel, and what has a subject to one who serves it and lives (and is connected); says what came
back. All parts of a letter, which have its number, go to the same node."""

SPILL: Final = "INSERT INTO bus_letters (letter, bytes) VALUES ($1, $2)"
READ: Final = "SELECT bytes FROM bus_letters WHERE letter = $1"
TAKE: Final = "DELETE FROM bus_letters WHERE letter = $1 RETURNING bytes"

SWEEP_LETTERS: Final = f"DELETE FROM bus_letters WHERE at < clock_timestamp() - interval '{_SPILLED_S} s'"
SWEEP_MEMBERS: Final = f"""
WITH gone AS (
    DELETE FROM bus_members WHERE heard < clock_timestamp() - interval '{_FORGOTTEN_S} s' RETURNING pid, began
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
        if await connection.fetchval("SELECT to_regclass(quote_ident(current_schema()) || '.bus_letters') IS NULL"):
            await connection.execute(_TABLES)
        space = await connection.fetchval(
            "SELECT relnamespace::bigint FROM pg_class WHERE oid = 'bus_letters'::regclass"
        )
    return f"cc_letters_{space}"


async def sweep(connection: "Connection[Any]") -> None:
    """Remove letters that nobody fetched and nodes that are gone for long, where no other node does it now."""
    async with connection.transaction():
        if await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", _LOCK):
            await connection.execute(SWEEP_LETTERS)
            await connection.execute(SWEEP_MEMBERS)


# -- One time of being connected to the database of the bus: from entering the list of nodes to losing a
# connection

_SWEEP_EVERY_S: Final = 15.0
_CLOSE_S: Final = 2.0
_SETTINGS: Final = {
    # Nothing here has to outlive a crash, and no statement is worth compiling.
    "synchronous_commit": "off",
    "jit": "off",
    # Planning again would take four times as long as the statement that sends.
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


class Sending(Protocol):
    """The messages to send."""

    news: asyncio.Event

    @property
    def urgent(self) -> bool:
        """Whether somebody waits for some of it: it is more than notifications."""

    def batch(self) -> list[Note]:
        """The next messages."""

    def again(self, batch: list[Note]) -> None:
        """This letter may not have gone."""


class Session:
    """Represents one time of being connected, and is used once: `open`, until it is ``lost``, then `close`.

    ``take`` gets what comes, in the order in which each node said it; ``returned`` gets a request that nobody serves.
    """

    def __init__(self, url: str, node: str, *, take: Callable[[Note], None], returned: Callable[[Note], None]) -> None:
        self._url = url
        self._node = node
        self._take = take
        self._returned = returned
        self._connections: list[sessions.Session] = []
        self._ear_turn = asyncio.Lock()
        self._sender_turn = asyncio.Lock()
        self._declared: frozenset[str] | None = None
        self._ended = asyncio.Event()
        """One of the connections has ended."""
        self._channel = ""
        self._listening: frozenset[str] = frozenset()
        """The subjects whose notifications come."""
        self._hearing, self._letters = Hearing(node), count(1)
        self._coming: deque[tuple[Note, str]] = deque()
        self._come = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self.lost = asyncio.Event()

    def channel_of(self, node: str) -> str:
        """The channel of one node."""
        return f"{self._channel}_{node[-_KEY:]}"

    def channel_about(self, subject: str) -> str:
        """The channel of a subject's notifications: only nodes that listen to it hear them."""
        return f"{self._channel}_{sha256(subject.encode()).hexdigest()[:_SUBJECT_KEY]}"

    async def open(self, outbox: Sending, offered: Collection[str], wanted: Collection[str]) -> None:
        """Connect, make the tables where they are missing, listen, enter the list, and send from then on.

        Raises what asyncpg does, and SharedSession.
        """
        self._sender = await self._connect()
        self._ear = await self._connect()
        await sessions.must_be_sessions(self._ear, self._sender)
        await self._sender.adopt(self._settings("says"))
        await self._ear.adopt(self._settings("hears"))
        self._channel = await make_tables(self._sender)
        # Listening comes first: a node that is on the list hears.
        await self._ear.add_listener(self.channel_of(self._node), self._notified)
        await self._listen(wanted)
        await self._ear.execute(ENTER, self._node)
        await self._declare(offered)
        self._running = asyncio.create_task(self._run(outbox, offered, wanted))

    async def close(self) -> None:
        """Take this node off the list, if the database answers, and close the connections."""
        if self._running is not None:
            if not self.lost.is_set():
                with suppress(*LOSSES):
                    async with asyncio.timeout(_CLOSE_S), self._ear_turn:
                        await self._ear.execute(LEAVE, self._node)
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        self._let_go()

    def _let_go(self) -> None:
        self.lost.set()
        for connection in self._connections:
            connection.terminate()

    async def _run(self, outbox: Sending, offered: Collection[str], wanted: Collection[str]) -> None:
        """Send, hear, and say that this node lives, until a connection is lost."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._send_for_ever(outbox, offered, wanted))
                group.create_task(self._beat_for_ever())
                group.create_task(self._fetch_for_ever())
                await self._ended.wait()
                raise ConnectionResetError("a connection to the database was lost")
        except* LOSSES as lost:
            logger.warning(
                "the bus lost its database and connects again: %s",
                away(self._url, lost.exceptions[0], connecting=False),
            )
        except* Exception:
            logger.exception("the bus made a mistake of its own")
        finally:
            self._let_go()

    async def _connect(self) -> sessions.Session:
        connection = await sessions.connect(self._url, {}, timeout_s=ANSWERS_WITHIN_S, command_timeout=ANSWERS_WITHIN_S)
        self._connections.append(connection)
        connection.add_termination_listener(lambda _: self._ended.set())
        return connection

    def _settings(self, does: str) -> Mapping[str, str]:
        # So that an administrator sees in pg_stat_activity which connection is what.
        return {**_SETTINGS, "application_name": f"cc-orchestrator bus {does} {self._node}"[:63]}

    # -- what it hears --------------------------------------------------------------------

    def _notified(self, connection: object, pid: int, channel: str, text: str) -> None:
        del connection, pid, channel
        try:
            heard = self._hearing.heard(text)
        except ValueError:
            logger.warning("something else than this bus speaks on its channel")
            return
        if heard is None:
            return
        note, key = heard
        # A letter that comes after one that has to be fetched waits for it: letters keep their order.
        if key or self._coming:
            self._coming.append((note, key))
            self._come.set()
        else:
            self._hand_on(note)

    async def _fetch_for_ever(self) -> None:
        while True:
            self._come.clear()
            while self._coming:
                note, key = self._coming[0]
                if key:
                    # What was said to this node alone, nobody else wants.
                    async with self._ear_turn:
                        letter = await self._ear.fetchval(READ if note.kind == "hint" else TAKE, key)
                    note = note._replace(letter=letter or b"")
                self._hand_on(note)
                self._coming.popleft()
            await self._come.wait()

    def _hand_on(self, note: Note) -> None:
        try:
            self._take(note)
        except ValueError:
            logger.warning("a %s could not be read", note.kind)

    # -- what it says ---------------------------------------------------------------------

    async def _send_for_ever(self, outbox: Sending, offered: Collection[str], wanted: Collection[str]) -> None:
        now, hints_at = asyncio.get_running_loop().time, -math.inf
        while True:
            outbox.news.clear()
            if frozenset(wanted) != self._listening:
                # Before anything is sent: what another node says of a request, this one hears.
                await self._listen(wanted)
            if frozenset(offered) != self._declared:
                await self._declare(offered)
            wait_s = 0.0 if outbox.urgent else hints_at - now()
            if wait_s <= 0 and (batch := outbox.batch()):
                try:
                    await self._send(batch)
                except BaseException:
                    outbox.again(batch)
                    raise
                if any(note.kind == "hint" for note in batch):
                    hints_at = now() + HINTS_APART_S
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s if wait_s > 0 else None):
                        await outbox.news.wait()

    async def _listen(self, wanted: Collection[str]) -> None:
        """Hear the notifications of these subjects, and of no others."""
        before, self._listening = self._listening, frozenset(wanted)
        async with self._ear_turn:
            for subject in self._listening - before:
                await self._ear.add_listener(self.channel_about(subject), self._notified)
            for subject in before - self._listening:
                await self._ear.remove_listener(self.channel_about(subject), self._notified)

    async def _declare(self, offered: Collection[str]) -> None:
        """Say what is served; requests may come before this returns."""
        self._declared = frozenset(offered)
        async with self._sender_turn:
            await self._sender.execute(DECLARE, self._node, sorted(self._declared))

    async def _send(self, batch: list[Note]) -> None:
        async with self._sender_turn:
            texts = [said(note, next(self._letters)) or [await self._spill(note)] for note in batch]
            channels = [self._channel_for(note) for note in batch]
            subjects = [note.to if note.kind == "request" else None for note in batch]
            numbers = [number for number, parts in enumerate(texts, 1) for _ in parts]
            rows = await self._sender.fetch(SEND, self.channel_of(""), channels, subjects, numbers, [*chain(*texts)])
        for number in {row["nr"] for row in rows if row["returned"]}:
            self._returned(batch[number - 1])

    async def _spill(self, note: Note) -> str:
        """Put a letter that is too large for a notification into the database.

        If nobody takes it from there, it is removed.
        """
        # Drawn and not counted: letters of an earlier connection may still be there, also after the server restarted.
        key = secrets.token_hex(16)
        await self._sender.execute(SPILL, key, note.letter)
        return spilled(note, key)

    def _channel_for(self, note: Note) -> str | None:
        if note.kind == "hint":
            return self.channel_about(note.to)
        return self.channel_of(note.to) if note.kind == "letter" else None

    # -- that it lives --------------------------------------------------------------------

    async def _beat_for_ever(self) -> None:
        now = asyncio.get_running_loop().time
        sweep_at = now()
        while True:
            await asyncio.sleep(BEAT_S)
            await self._beat()
            await self._must_be_sessions()
            if now() >= sweep_at:
                sweep_at = now() + _SWEEP_EVERY_S
                # What cannot be swept by this node's user stays; a connection that is lost says so by itself.
                with suppress(asyncpg.PostgresError):
                    async with self._ear_turn:
                        await sweep(self._ear)

    async def _beat(self) -> None:
        """Say that this node lives, and be sure that the listening connection is alive."""
        async with self._ear_turn:
            listed = await self._ear.fetchval(BEAT, self._node)
        if not listed:
            # A node that was silent for long is taken off the list.
            raise ConnectionResetError("this node was taken off the list")

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
