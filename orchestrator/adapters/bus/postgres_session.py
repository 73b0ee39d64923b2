"""One time of being connected to the database of the bus: from entering the list of nodes to losing a connection."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import asyncpg

from orchestrator.adapters.bus import postgres_sql as sql
from orchestrator.adapters.bus.postgres_clock import DatabaseClock
from orchestrator.adapters.bus.postgres_errors import ANSWERS_WITHIN_S
from orchestrator.adapters.bus.postgres_frames import Frame, fetched, large, spilled
from orchestrator.adapters.bus.postgres_outbox import Outbox, Outgoing
from orchestrator.runtime.clock import steady_s
from orchestrator.runtime.postgresql import sessions
from orchestrator.runtime.postgresql.sessions import SharedSession

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
        self._channel = await sql.make_tables(self._sender)
        # Listening comes first: who is on the list hears.
        for channel in (self._channel, self.channel_of(self._me.key)):
            await self._ear.add_listener(channel, self._notified)
        await self._ear.execute(sql.ENTER, self._me.key, self._me.name)
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
            await self._sender.execute(sql.DECLARE, self._me.key, sorted(self._declared))

    async def leave(self) -> None:
        """Take this node off the list."""
        async with self._ear_turn:
            await self._ear.execute(sql.LEAVE, self._me.key)

    def close(self) -> None:
        """Let go of the connections at once."""
        for connection in self._connections:
            connection.terminate()

    async def beat(self) -> None:
        """Say that this node lives, hear what time it is, and be sure that the listening connection is alive."""
        async with self._ear_turn:
            asked = steady_s()
            said = await self._ear.fetchval(sql.BEAT, self._me.key)
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
                await connection.execute(sql.SPILL, frame.place, part, whole[start : start + PART_BYTES])
        return len(starts)

    async def fetch(self, frame: Frame) -> Frame | None:
        """The whole of a frame that was spilled, or None where it is not there any more."""
        # What was said to this node alone, nobody else wants.
        statement = sql.READ if frame.kind == "hint" else sql.TAKE
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
            await connection.execute(sql.DROP, frame.place)

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
                sql.SEND,
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
            await asyncio.sleep(sql.BEAT_S)
            await self.beat()
            await self._must_be_sessions()
            each_beat()
            if now() >= sweep_at:
                sweep_at = now() + _SWEEP_EVERY_S
                # What cannot be swept by this node's user stays; a connection that is lost says so by itself.
                with contextlib.suppress(asyncpg.PostgresError):
                    async with self._ear_turn:
                        await sql.sweep(self._ear)
