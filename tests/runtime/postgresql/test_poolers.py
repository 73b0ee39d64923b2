"""A real pgbouncer before PostgreSQL: session mode works, and the other modes are refused with what to set."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from orchestrator.adapters.bus import open_bus
from orchestrator.adapters.store import postgres_links
from orchestrator.adapters.store.postgres import PostgresPersistenceManager
from orchestrator.core.errors import InvalidRequest, OrchestratorError, StoreAway
from orchestrator.core.task.facts import TaskId
from orchestrator.history.store_move.inspection import check_store_at
from orchestrator.runtime.postgresql import sessions
from orchestrator.runtime.postgresql.sessions import SharedSession, must_give_sessions
from orchestrator.testing import ManualClock
from orchestrator.testing.drafts import Author, append, refused
from tests.bouncers import MODES, PROGRAM, Mode, PgBouncer
from tests.harness.commands import SCRIPTED, cli, serving
from tests.harness.commands import refused as refused_command
from tests.servers import PostgresServer
from tests.waiting import HANG_S, within

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="pgbouncer is not here; scripts/test.py installs it")

POOLING: tuple[Mode, ...] = ("transaction", "statement")
T1 = TaskId("t1")


@pytest.fixture
def database(postgres_url: str) -> str:
    """Fixture: the name of a new, empty database."""
    return postgres_url.partition("?")[0].rpartition("/")[2]


@pytest.fixture(params=MODES)
def pooler(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> Iterator[PgBouncer]:
    """Fixture: a pgbouncer in each mode."""
    with PgBouncer(postgres_server, request.param) as pooler:
        yield pooler


@asynccontextmanager
async def opened(url: str, patience_s: float = HANG_S) -> AsyncIterator[PostgresPersistenceManager]:
    store = PostgresPersistenceManager(url, patience_s=patience_s)
    try:
        yield store
    finally:
        await store.close()


def teaches(error: OrchestratorError, *, option: str) -> None:
    """It says what happened, why, and what to set; nothing of asyncpg, and no password."""
    assert "pooler in transaction or statement mode" in error.message
    assert "LISTEN/NOTIFY, advisory locks and prepared statements need a session" in error.message
    assert "pool_mode = session" in error.remedy
    assert f"in the URL of {option}" in error.remedy
    for word in ("asyncpg", "Error", "secret"):
        assert word not in str(error)


async def test_a_store(pooler: PgBouncer, database: str, postgres_server: PostgresServer) -> None:
    """In session mode it works; in another it is refused at once, and nothing was made."""
    async with opened(pooler.url(database)) as store:
        if pooler.mode == "session":
            await store.create(T1, [Author(ManualClock()).submitted()])
            assert [row.task_id for row in await store.list_tasks()] == [T1]
            return
        teaches(await refused(InvalidRequest, within(store.open())), option="--store")
    tables = await postgres_server.execute("SELECT FROM pg_tables WHERE schemaname = 'public'", database=database)
    assert tables == []


async def test_the_commands_of_a_store(pooler: PgBouncer, database: str, postgres_server: PostgresServer) -> None:
    """They connect by themselves, and refuse the same."""
    async with opened(postgres_server.url(database)) as store:
        await store.create(T1, [Author(ManualClock()).submitted()])
    if pooler.mode == "session":
        assert (await check_store_at(pooler.url(database))).counts["tasks"] == 1
    else:
        teaches(await refused(InvalidRequest, within(check_store_at(pooler.url(database)))), option="--store")


async def test_a_bus(pooler: PgBouncer, database: str, postgres_server: PostgresServer) -> None:
    """In session mode it works, in the schema that its URL names; in another it is refused."""
    await postgres_server.execute("CREATE SCHEMA apart", database=database)
    url = pooler.url(database, options="&search_path=apart")
    if pooler.mode != "session":
        teaches(await refused(InvalidRequest, within(open_bus(url).open())), option="--bus")
        return
    one, two = open_bus(url, node="one"), open_bus(url, node="two")
    heard: asyncio.Queue[Any] = asyncio.Queue()
    two.subscribe("a", heard.put_nowait)
    await one.open()
    await two.open()
    one.publish("a", {"n": 1})
    assert await within(heard.get()) == {"n": 1}
    found = await postgres_server.execute("SELECT node FROM apart.bus_members ORDER BY node", database=database)
    assert [name.partition("-")[0] for (name,) in found] == ["one", "two"]
    await one.close()
    await two.close()


@pytest.mark.thinned(3)
@pytest.mark.parametrize("part", ["store", "bus"])
async def test_serve(
    part: str, pooler: PgBouncer, database: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """`serve` listens, or ends with one line that says what to set."""
    direct, pooled = postgres_server.url(database), pooler.url(database)
    where = ["--store", pooled] if part == "store" else ["--store", direct, "--bus", pooled]
    if pooler.mode == "session":
        with serving(tmp_path, tmp_path / "data", *where):
            return
    command = ("serve", *SCRIPTED, "--port", "0", "--data-dir", str(tmp_path / "data"), *where)
    done = await asyncio.to_thread(cli, tmp_path, *command)
    refused_command(done, "pooler in transaction or statement mode", "Set `pool_mode = session`", f"--{part}", code=2)
    assert "secret" not in done.stderr
    assert "asyncpg" not in done.stderr


@pytest.mark.thinned(2)
@pytest.mark.parametrize("mode", POOLING)
@pytest.mark.parametrize(("size", "settings"), [(1, ""), (3, "server_round_robin = 1")])
async def test_pools_of_any_size(mode: Mode, size: int, settings: str, postgres_server: PostgresServer) -> None:
    """Nobody waits for the only server connection, and one that is given in turn is noticed."""
    with PgBouncer(postgres_server, mode, size=size, settings=settings) as pooler:
        url = pooler.url("postgres")
        warm = await asyncio.gather(*(asyncpg.connect(url, timeout=HANG_S) for _ in range(size)))
        if mode == "transaction":
            # As long as all have begun, each has a server connection: only then there are so many.
            for statement in ("BEGIN", "ROLLBACK"):
                for each in warm:
                    await each.execute(statement)
        with pytest.raises(SharedSession):
            await within(must_give_sessions(url))
        for each in warm:
            each.terminate()


async def test_a_pool_that_is_too_small_is_not_called_another_mode(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In session mode one server connection is not enough for a node, and the sentence names the setting."""
    monkeypatch.setattr(sessions, "CONNECT_S", 0.3)
    monkeypatch.setattr(postgres_links, "_CONNECT_S", 0.3)
    with PgBouncer(postgres_server, "session", size=1) as pooler:
        async with opened(pooler.url("postgres"), patience_s=0.1) as store:
            refusal = await refused(StoreAway, store.open())
    assert "no answer in time" in refusal.message
    assert "default_pool_size" in refusal.remedy


async def test_a_server_that_gives_one_connection_only_is_not_refused(postgres_server: PostgresServer) -> None:
    """There is no second connection to compare with: it is used as it is."""
    name = postgres_server.new_name()
    await postgres_server.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret' CONNECTION LIMIT 1")
    await must_give_sessions(f"postgresql://{name}:secret@127.0.0.1:{postgres_server.port}/postgres")
    await postgres_server.execute(f"DROP ROLE {name}")


async def test_connections_beside_each_other_are_sessions(postgres_server: PostgresServer) -> None:
    """Many that look at once do not take each other for one."""
    await asyncio.gather(*(must_give_sessions(postgres_server.url()) for _ in range(20)))


@pytest.mark.parametrize("mode", POOLING)
async def test_a_store_whose_pooler_is_changed(mode: Mode, postgres_server: PostgresServer, database: str) -> None:
    """It says the same sentence and waits, as for a server that is away, until the mode is right again."""
    author = Author(ManualClock())
    with PgBouncer(postgres_server, "session") as pooler:
        async with opened(pooler.url(database), patience_s=0.5) as store:
            await store.create(T1, [author.submitted()])
            await store.read(T1)
            await pooler.change(mode)
            refusal = await within(_refusal(store, author))
            teaches(refusal, option="--store")
            await pooler.change("session")
            assert (await within(store.read(T1)))[0].task_id == T1
            assert await store.agree("b", "x") == "x"


async def _refusal(store: PostgresPersistenceManager, author: Author) -> StoreAway:
    """The first refusal of who reads and writes in turn, each of which has connections of its own."""
    version = 1
    while True:
        for asked in (partial(store.read, T1), partial(append, store, T1, version, author.note())):
            try:
                await asked()
            except StoreAway as refusal:
                return refusal
        version += 1


class Warned(logging.Handler):
    """Keeps warnings, and tells when one has these words."""

    def __init__(self, words: str) -> None:
        super().__init__(logging.WARNING)
        self.heard = asyncio.Event()
        self.lines: list[str] = []
        self._words = words

    def emit(self, record: logging.LogRecord) -> None:
        """Look at it."""
        self.lines.append(record.getMessage())
        if self._words in self.lines[-1]:
            self.heard.set()


@pytest.mark.parametrize("mode", POOLING)
async def test_a_bus_whose_pooler_is_changed(mode: Mode, postgres_server: PostgresServer, database: str) -> None:
    """It would hear nothing any more: it notices, says what to set, and is back when the mode is right again."""
    warned = Warned("pool_mode = session")
    logging.getLogger("orchestrator.adapters.bus").addHandler(warned)
    heard: asyncio.Queue[Any] = asyncio.Queue()
    try:
        with PgBouncer(postgres_server, "session") as pooler:
            one, two = open_bus(pooler.url(database), node="one"), open_bus(postgres_server.url(database), node="two")
            one.subscribe("a", heard.put_nowait)
            await one.open()
            await two.open()
            await pooler.change(mode)
            await within(warned.heard.wait())
            await pooler.change("session")
            async with asyncio.timeout(HANG_S):
                while heard.empty():
                    two.publish("a", {"n": 1})
                    await asyncio.sleep(0.05)
            assert one.connected
            await one.close()
            await two.close()
    finally:
        logging.getLogger("orchestrator.adapters.bus").removeHandler(warned)
    said = "\n".join(warned.lines)
    assert "pooler in transaction or statement mode" in said
    for word in ("asyncpg", "Error(", "secret"):
        assert word not in said
