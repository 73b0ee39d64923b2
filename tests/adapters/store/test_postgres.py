"""What only the PostgreSQL store has: a server that may go away, and other nodes on the same rows."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest

from orchestrator.adapters.store import open_store, postgres, postgres_links
from orchestrator.adapters.store.postgres import PostgresPersistenceManager
from orchestrator.adapters.store.postgres_dialect import explained, numbered
from orchestrator.adapters.store.schema import NEEDS_KEY, OLDEST, SCHEMA, SCHEMA_KEY, statements
from orchestrator.core.errors import Conflict, InvalidRequest, LeaseLost, NewerSchema, OrchestratorError, StoreAway
from orchestrator.core.ports import SYSTEM_STREAM, Coming, Lease, Schedule, Store
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem, verify_chain
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import ComputerSide, ComputerWelcomed, GrantId, GrantRevoked
from orchestrator.core.wire.wire import ComputerId
from orchestrator.runtime.clock import SystemClock
from orchestrator.testing import ManualClock
from orchestrator.testing.drafts import Author, append, refused
from tests import ROOT
from tests.adapters.store.cutting import Cable
from tests.servers import PASSWORD, PAST, PostgresServer
from tests.waiting import HANG_S, within

T1: Final = TaskId("t1")


@asynccontextmanager
async def opened(url: str, *, patience_s: float = HANG_S) -> AsyncIterator[PostgresPersistenceManager]:
    store = PostgresPersistenceManager(url, patience_s=patience_s)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process of ``tests.adapters.store.process``, killed at the end by SIGKILL."""
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.adapters.store.process", *arguments, cwd=ROOT, stdout=pipe
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


def name_in(url: str) -> str:
    """The database's name."""
    return url.partition("?")[0].rpartition("/")[2]


async def line_of(child: asyncio.subprocess.Process) -> str:
    assert child.stdout is not None
    return (await child.stdout.readline()).decode().strip()


class Load:
    """Tasks that append to a store as fast as it goes, each waiting for its answers, until told to end."""

    def __init__(self, store: Store, name: str, tasks: int = 12) -> None:
        self._store = store
        self._author = Author(ManualClock())
        self._ids = [TaskId(f"{name}-{number}") for number in range(tasks)]
        self._over = False
        self.acknowledged: list[AgentTaskItem] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            for task_id in self._ids:
                group.create_task(self._work(task_id))
            yield
            self._over = True

    async def _work(self, task_id: TaskId) -> None:
        self.acknowledged += await self._store.create(task_id, [self._author.submitted()])
        for version in count(1):
            if self._over:
                return
            # What puts a task to sleep is no plain append: both ways of writing are under way.
            schedule: Schedule = "keep" if version % 3 else "sleep"
            self.acknowledged += await append(self._store, task_id, version, self._author.note(), schedule=schedule)

    async def more(self, items: int) -> None:
        """Wait until so many more were acknowledged."""
        goal = len(self.acknowledged) + items
        await until(lambda: len(self.acknowledged) >= goal)

    async def assert_kept(self, store: Store) -> None:
        """Exactly what was acknowledged is there: nothing lost, nothing twice, no gap."""
        for task_id in self._ids:
            items = await store.read(task_id)
            assert items == [item for item in self.acknowledged if item.task_id == task_id]
            assert [item.version for item in items] == list(range(1, len(items) + 1))
            assert verify_chain(items) is None


async def test_a_server_killed_under_load_loses_nothing_acknowledged_and_fails_no_append() -> None:
    with PostgresServer() as server:
        async with opened(server.url()) as store:
            load = Load(store, "killed")
            async with load.running():
                for end in (server.kill, server.stop):
                    await load.more(300)
                    await asyncio.to_thread(end)
                    await asyncio.to_thread(server.start)
                await load.more(300)
        async with opened(server.url()) as store:
            await load.assert_kept(store)


async def test_connections_terminated_under_load_fail_no_append(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    database = name_in(postgres_url)
    terminate = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'"
    async with opened(postgres_url) as store:
        load = Load(store, "cut")
        async with load.running():
            for _ in range(12):
                await load.more(40)
                await postgres_server.execute(terminate)
        await load.assert_kept(store)


async def test_a_commit_whose_answer_was_lost_is_not_done_twice(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    """An append finds its items; a revocation, whose answer would be another now, is said to be in doubt."""
    database = name_in(postgres_url)
    author = Author(ManualClock())
    async with Cable(postgres_server.port) as cable:
        url = f"postgresql://postgres:{PASSWORD}@127.0.0.1:{cable.port}/{database}?sslmode=disable"
        async with opened(url) as store:
            await store.create(T1, [author.submitted(), *author.proposed(), author.decided(author.grant("g1"))])
            lease = await store.lease("node", 60)
            assert lease is not None
            cable.cuts = 1
            (plain,) = await append(store, T1, 5, author.note(), token=lease.token)
            cable.cuts = 1
            # It gives the lease back: run again it would only hear that the lease is lost.
            (last,) = await append(store, T1, 6, author.note(), token=lease.token, schedule="sleep")
            assert (await store.read(T1))[5:] == [plain, last]
            cable.cuts = 1
            note = author.draft(GrantRevoked(grant_id=GrantId("g1")))
            refusal = await refused(StoreAway, store.revoke_grant(GrantId("g1"), note=note))
            assert "may have been" in refusal.message
            assert not await store.revoke_grant(GrantId("g1"), note=note)
            assert len(await store.read(TaskId(SYSTEM_STREAM))) == 1
            assert cable.cuts == 0


async def test_one_refused_append_takes_nothing_from_those_it_came_with(postgres_url: str) -> None:
    author = Author(ManualClock())
    async with opened(postgres_url) as store:
        ids = [TaskId(f"t{number}") for number in range(30)]
        await asyncio.gather(*(store.create(task_id, [author.submitted()]) for task_id in ids))
        first = [author.note() for _ in ids]
        await asyncio.gather(*(append(store, *pair) for pair in zip(ids, [1] * 30, first, strict=True)))
        second = [author.note() for _ in ids]
        second[7] = first[7]  # there already: the whole statement breaks
        versions = [2] * 30
        versions[4] = 9
        attempts = (append(store, *each) for each in zip(ids, versions, second, strict=True))
        answers = await asyncio.gather(*attempts, return_exceptions=True)
        assert isinstance(answers[4], Conflict)
        lengths = [len(await store.read(task_id)) for task_id in ids]
        assert lengths == [2 if number in {4, 7} else 3 for number in range(30)]


async def test_many_computers_that_come_at_once_share_a_transaction(postgres_url: str) -> None:
    """Each by itself would wait for the row of the system stream until the one before it is on the disk."""
    async with opened(postgres_url) as store:
        author = Author(store.clock)
        side = ComputerSide(computer_id=1, boot="b", at=store.clock.now())

        async def welcomed(name: str) -> None:
            note = author.draft(ComputerWelcomed(computer=ComputerId(name), side=side))
            await store.welcome_computer(ComputerId(name), Coming(side), note=note)

        await asyncio.gather(*(welcomed(f"c{number}") for number in range(90)))
        connection = await asyncpg.connect(postgres_url)
        rows = await connection.fetch("SELECT COUNT(*), COUNT(DISTINCT xmin::text) FROM items")
        await connection.close()
        assert tuple(rows[0]) == (90, 3)


async def test_who_is_woken_while_it_gives_a_computer_back_keeps_its_lease(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    """Its append locks rows that another node just changes, and must find its own among them, as it is by then."""
    async with opened(postgres_url) as store, opened(postgres_url) as other:
        author = Author(store.clock)
        task_ids = [TaskId(f"t-{number}") for number in range(30)]
        for task_id in task_ids:
            await store.create(task_id, [author.submitted()])
        leases = [await store.lease("n", 300) for _ in task_ids]
        await postgres_server.fill(name_in(postgres_url))

        async def work(lease: Lease | None, computer: ComputerId) -> None:
            assert lease is not None
            for version in range(1, 40):
                await store.claim(lease, [computer])
                await append(store, lease.task_id, version, author.note(), token=lease.token, release=True)

        async def wake() -> None:
            for number in count():
                await other.wake_waiting([ComputerId(f"c{number % 7}")], claimants=True)

        waking = [asyncio.create_task(wake()) for _ in range(3)]
        try:
            every = [work(lease, ComputerId(f"c{number % 7}")) for number, lease in enumerate(leases)]
            await within(asyncio.gather(*every))
        finally:
            for one in waking:
                one.cancel()
            await asyncio.gather(*waking, return_exceptions=True)


PEOPLE: Final = ("u1", "u2", "u3")
OFTEN: Final[dict[str, Callable[[Store], Awaitable[object]]]] = {
    "newest of people": lambda store: store.list_tasks(users=PEOPLE),
    "changed last of people": lambda store: store.last_changed(users=PEOPLE),
    "heads of people": lambda store: store.heads_from("past-5", users=PEOPLE),
    "heads": lambda store: store.heads_from("past-5"),
    "heads since": lambda store: store.heads_since(store.clock.now()),
    "what waits": lambda store: store.list_tasks(status=TaskStatus.PAUSED, limit=1_000),
    "when": lambda store: store.next_due(frozen=PEOPLE),
    "which computers": lambda store: store.waited_for(),
    "a computer that comes": lambda store: store.wake_waiting([ComputerId("c")], claimants=True),
    "a lease": lambda store: store.lease("n", 30),
    "a lease of a node": lambda store: store.lease("n", 30, here=lambda _: True),
}


@pytest.mark.parametrize("ask", OFTEN.values(), ids=OFTEN)
async def test_what_is_asked_often_does_not_read_all_tasks(
    ask: Callable[[Store], Awaitable[object]], postgres_url: str, postgres_server: PostgresServer
) -> None:
    """It is asked so often that PostgreSQL settles on one way, for any values or for these."""
    name = name_in(postgres_url)
    async with opened(postgres_url) as store:
        await store.next_due()
    await postgres_server.fill(name)
    before = await postgres_server.rows_read(name)
    async with opened(postgres_url) as store:
        for _ in range(8):
            await ask(store)
    await postgres_server.end_connections(name)
    assert await postgres_server.rows_read(name) - before < PAST


async def test_two_nodes_on_the_same_tasks_and_computers(postgres_url: str) -> None:
    """Versions without gaps, one holder at a time, claims that exclude each other, numbers that only rise."""
    async with opened(postgres_url) as one, opened(postgres_url) as two:
        ids = [TaskId(f"t{number}") for number in range(6)]
        hammer = Hammer(ids)
        await hammer.create(one)
        async with asyncio.TaskGroup() as group:
            for number, store in enumerate([one, two] * 4):
                group.create_task(hammer.hold(store, f"node-{number}"))
            for store in (one, two):
                group.create_task(hammer.intrude(store))
                group.create_task(hammer.wake(store))
        assert len(hammer.leases) == len(set(hammer.leases))
        assert sum(map(len, hammer.numbers.values())) == sum(len(set(seen)) for seen in hammer.numbers.values())
        for task_id in ids:
            items = await two.read(task_id)
            assert verify_chain(items) is None
            assert [item.version for item in items] == list(range(1, len(items) + 1))
            assert {item.item_id for item in hammer.appended if item.task_id == task_id} == {
                item.item_id for item in items[1:]
            }


class Hammer:
    """What several nodes do at once, and what each of them was told."""

    ROUNDS: Final = 25
    COMPUTERS: Final = tuple(ComputerId(str(number)) for number in range(3))

    def __init__(self, ids: list[TaskId]) -> None:
        self._ids = ids
        self._author = Author(ManualClock())
        self._claimed: dict[ComputerId, TaskId] = {}
        self.leases: list[Lease] = []
        self.numbers: dict[ComputerId, list[int]] = {computer: [] for computer in self.COMPUTERS}
        self.appended: list[AgentTaskItem] = []

    async def create(self, store: Store) -> None:
        for task_id in self._ids:
            await store.create(task_id, [self._author.submitted()])

    async def hold(self, store: Store, node: str) -> None:
        for _ in range(self.ROUNDS):
            lease = await store.lease(node, 60)
            if lease is None:
                await store.wake(self._ids[len(self.leases) % len(self._ids)])
                continue
            self.leases.append(lease)
            await self._work(store, lease)

    async def _work(self, store: Store, lease: Lease) -> None:
        wanted = self.COMPUTERS[len(self.leases) % 3 :]
        if await store.claim(lease, wanted) is None:
            for computer in wanted:
                assert computer not in self._claimed
                self._claimed[computer] = lease.task_id
            self.numbers[wanted[0]].append(await store.allot_number(wanted[0], lease=lease))
            await self._append(store, lease.task_id, lease)
            for computer in wanted:
                del self._claimed[computer]
        await self._append(store, lease.task_id, lease)
        await store.renew(lease, 60)
        while True:
            try:
                version = len(await store.read(lease.task_id))
                await store.park(lease, version, due=None, waiting_for=wanted[0], keep=())
            except Conflict:
                continue
            return

    async def intrude(self, store: Store) -> None:
        for number in range(self.ROUNDS):
            await self._append(store, self._ids[number % len(self._ids)], None)

    async def wake(self, store: Store) -> None:
        for number in range(self.ROUNDS):
            await store.wake_waiting(self.COMPUTERS[: number % 3 + 1], claimants=number % 2 == 0)

    async def _append(self, store: Store, task_id: TaskId, lease: Lease | None) -> None:
        draft = self._author.note()
        while True:
            version = len(await store.read(task_id))
            try:
                self.appended += await append(
                    store, task_id, version, draft, token=lease.token if lease else None, schedule="wake"
                )
            except Conflict:
                continue
            return


async def test_a_node_that_stops_in_a_transaction_blocks_nobody_for_long(postgres_url: str, timed: bool) -> None:
    """Its rows are free after the server's patience, its task is taken over, and woken it is refused."""
    author = Author(ManualClock())
    async with opened(postgres_url) as store:
        await store.create(T1, [author.submitted()])
        async with process("stop", postgres_url, T1) as child:
            assert await line_of(child) == "leased"
            await until(lambda: is_stopped(child.pid))
            began = time.monotonic()
            await append(store, T1, 1, author.note())
            assert time.monotonic() - began < 4 or not timed
            lease = await soon(lambda: store.lease("other", 60))
            await append(store, T1, 2, author.note(), token=lease.token)
            os.kill(child.pid, signal.SIGCONT)
            assert await line_of(child) == LeaseLost.code
        assert len(await store.read(T1)) == 3


async def test_the_task_of_a_node_that_was_killed_is_taken_over(postgres_url: str, timed: bool) -> None:
    async with opened(postgres_url) as store:
        await store.create(T1, [Author(ManualClock()).submitted()])
        async with process("leave", postgres_url, T1) as child:
            assert await line_of(child) == "leased"
            assert await store.lease("other", 60) is None
            child.kill()
            began = time.monotonic()
            assert (await soon(lambda: store.lease("other", 60))).token == 2
            assert time.monotonic() - began < 1.5 or not timed


@pytest.mark.parametrize("damaged", ["[", "[" * 100_000], ids=["cut off", "deep"])
async def test_a_near_task_that_another_node_takes_is_passed_over(postgres_url: str, damaged: str) -> None:
    """Its row is locked and no longer had; the next is taken without waiting, and a damaged row holds up nobody."""
    author = Author(ManualClock())
    async with opened(postgres_url) as store:
        for name in ("a", "b", "c"):
            await store.create(TaskId(name), [author.submitted()])
        connection = await asyncpg.connect(postgres_url)
        try:
            await connection.execute("UPDATE tasks SET computers = $1 WHERE task_id = 'c'", damaged)
            async with connection.transaction():
                await connection.execute("SELECT 1 FROM tasks WHERE task_id = 'a' FOR UPDATE")
                leases = [await store.lease("one", 60, here=lambda _: True) for _ in range(3)]
            assert [lease and lease.task_id for lease in leases] == ["b", "c", None]
        finally:
            await connection.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANG_S):
        while not holds():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


async def soon(asked: Callable[[], Awaitable[Lease | None]]) -> Lease:
    async with asyncio.timeout(HANG_S):
        while (answer := await asked()) is None:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        return answer


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


async def test_nodes_that_start_at_once_on_an_empty_database(postgres_url: str) -> None:
    stores = [PostgresPersistenceManager(postgres_url) for _ in range(3)]
    await asyncio.gather(*(store.open() for store in stores))
    await stores[0].create(T1, [Author(ManualClock()).submitted()])
    assert [len(await store.list_tasks()) for store in stores] == [1, 1, 1]
    await asyncio.gather(*(store.close() for store in stores))


@pytest.mark.parametrize("schema", range(OLDEST, SCHEMA))
async def test_a_store_of_an_older_version_is_brought_forward(
    schema: int, postgres_url: str, postgres_server: PostgresServer
) -> None:
    database = name_in(postgres_url)
    made = map(numbered, statements(schema))
    known = f"INSERT INTO meta VALUES ('{SCHEMA_KEY}', '{schema}')"
    await postgres_server.execute(*made, known, database=database)
    async with opened(postgres_url) as store:
        await store.create(T1, [Author(ManualClock()).submitted()])
        await store.put_blob(b"content")
        assert len(await store.list_blobs()) == 1
    columns = "SELECT table_name, column_name, collation_name FROM information_schema.columns"
    mine = f"{columns} WHERE table_schema = 'public' ORDER BY 1, 2"
    fresh = await postgres_server.new_database()
    async with opened(postgres_server.url(fresh)) as store:
        await store.open()
    assert await postgres_server.execute(mine, database=database) == await postgres_server.execute(mine, database=fresh)
    await postgres_server.execute(f"DROP DATABASE {fresh} WITH (FORCE)")


@pytest.mark.thinned(3)
@pytest.mark.parametrize("needs", [None, 99, SCHEMA])
async def test_a_store_of_a_newer_version_is_used_where_its_steps_allow_it(
    needs: int | None, postgres_url: str, postgres_server: PostgresServer
) -> None:
    """During an upgrade older nodes go on with tables that newer ones brought forward by additions only."""
    database = name_in(postgres_url)
    async with opened(postgres_url) as store:
        await store.open()
    told = "UPDATE meta SET value = '{}' WHERE name = '{}'"
    statements = [told.format(99, SCHEMA_KEY), told.format(needs, NEEDS_KEY)]
    if needs is None:
        statements[1] = f"DELETE FROM meta WHERE name = '{NEEDS_KEY}'"
    await postgres_server.execute(*statements, database=database)
    async with opened(postgres_url) as store:
        if needs == SCHEMA:
            assert await store.list_tasks() == []
        else:
            await refused(NewerSchema, store.list_tasks())
    kept = await postgres_server.execute(f"SELECT value FROM meta WHERE name = '{SCHEMA_KEY}'", database=database)
    assert kept == [("99",)], "the mark of the newer one stays"


async def test_a_database_of_another_program_is_refused(postgres_url: str, postgres_server: PostgresServer) -> None:
    database = name_in(postgres_url)
    for statement in ("CREATE TABLE photos (name TEXT)", "CREATE TABLE meta (name TEXT, value TEXT)"):
        await postgres_server.execute(statement, database=database)
        async with opened(postgres_url) as store:
            assert "another program" in (await refused(InvalidRequest, store.list_tasks())).message


async def test_what_cannot_be_connected_is_told_without_the_password(postgres_server: PostgresServer) -> None:
    wrong = {
        postgres_server.tcp_url(password="secret-1"): (InvalidRequest, "let this user in"),
        postgres_server.tcp_url("nowhere"): (InvalidRequest, "no such database"),
        f"postgresql://postgres:{PASSWORD}@127.0.0.1:1/db": (StoreAway, "127.0.0.1:1/db"),
        f"postgresql://postgres:{PASSWORD}/x@127.0.0.1:1/db": (InvalidRequest, "cannot be used"),
        f"postgresql://postgres:{PASSWORD}@127.0.0.1:port/db": (InvalidRequest, "cannot be used"),
    }
    for url, (kind, sentence) in wrong.items():
        async with opened(url, patience_s=0.1) as store:
            reading = await refused(kind, store.list_tasks())
            writing = await refused(kind, store.wake(T1))
        for refusal in (reading, writing):
            assert sentence in refusal.message
            assert refusal.remedy
            assert not {PASSWORD, "secret-1"} & set(str(refusal).replace("/", " ").split())
            assert PASSWORD not in str(refusal)


async def test_the_first_wait_for_a_server_is_said_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """The place, how long it takes at most, and no password."""
    links = postgres_links.Links("postgresql://u:geheim@127.0.0.1:1/db", postgres_links.READING, most=1, patience_s=0.3)

    async def use() -> None:
        async with links.one():
            pass

    await refused(StoreAway, use())
    await links.close()
    (said,) = [one.getMessage() for one in caplog.records if "waiting for it" in one.getMessage()]
    assert said.startswith("the database at 127.0.0.1:1/db does not answer")
    assert "geheim" not in caplog.text


async def test_once_a_server_is_known_to_be_away_one_attempt_answers_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a cut cable each takes seconds; who comes when the last is a while ago tries again."""
    monkeypatch.setattr(postgres_links, "_CONNECT_S", 0.2)
    came: list[asyncio.StreamWriter] = []
    mute = await asyncio.start_server(lambda _, writer: came.append(writer), "127.0.0.1", 0)
    host, port = mute.sockets[0].getsockname()
    links = postgres_links.Links(f"postgresql://u:p@{host}:{port}/db", postgres_links.READING, most=1, patience_s=0.1)

    async def use() -> None:
        async with links.one():
            pass

    await asyncio.gather(*(refused(StoreAway, use()) for _ in range(20)))
    tries = len(came)
    assert tries <= 2
    monkeypatch.setattr(postgres_links, "_KNOWN_S", 0)
    await refused(StoreAway, use())
    assert len(came) == tries + 1
    await links.close()
    for writer in came:
        writer.close()
    mute.close()


async def test_a_server_that_takes_no_writes_or_nobody_more_says_so(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    """Who reads that it cannot be reached looks for a firewall."""
    name = name_in(postgres_url)
    async with opened(postgres_url, patience_s=0.2) as store:
        await store.agree("a", "x")
        cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        await postgres_server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on", cut)
        with pytest.raises(StoreAway, match="takes no writes now") as refused_write:
            await store.agree("b", "x")
        assert "standby" in refused_write.value.remedy
        assert [one.stream for one in await store.heads()] == ["system"], "it can be read"
        await postgres_server.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only", cut)
        assert await store.agree("b", "x") == "x"
    told = explained(asyncpg.TooManyConnectionsError("sorry, too many clients already"), "db/cc")
    assert isinstance(told, StoreAway)
    assert "takes no more connections" in told.message
    assert "max_connections" in told.remedy


async def test_a_server_that_falls_silent_is_away_as_soon_as_one_that_refuses(
    postgres_url: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hangs, or a line is dead and does not say so: nobody waits for as long as the longest statement may take."""
    monkeypatch.setattr(postgres_links, "_DOUBT_S", 0.2)
    monkeypatch.setattr(postgres_links, "_CONNECT_S", 0.3)
    monkeypatch.setattr(postgres_links, "_KNOWN_S", 0)
    monkeypatch.setattr(postgres_links, "_BEYOND_S", 2 * HANG_S)
    author = Author(ManualClock())
    async with Cable(postgres_server.port) as cable:
        url = f"postgresql://postgres:{PASSWORD}@127.0.0.1:{cable.port}/{name_in(postgres_url)}?sslmode=disable"
        async with opened(url, patience_s=0.5) as store:
            await store.create(T1, [author.submitted()])
            await store.read(T1)
            cable.carries.clear()
            asked = (store.read(T1), *(store.list_tasks() for _ in range(12)), append(store, T1, 1, author.note()))
            for refusal in await within(asyncio.gather(*(refused(StoreAway, one) for one in asked))):
                assert "cannot be reached" in refusal.message
            cable.carries.set()
            assert [row.task_id for row in await store.list_tasks()] == [T1]
            assert await store.agree("a", "x") == "x"


async def test_what_takes_long_at_a_server_that_answers_is_let_be(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of everything there is may take its time."""
    monkeypatch.setattr(postgres_links, "_DOUBT_S", 0.05)
    links = postgres_links.Links(postgres_url, postgres_links.READING, most=1)
    async with links.one() as connection:
        assert await connection.fetchval("SELECT 7 FROM pg_sleep(0.5)") == 7
    await links.close()


async def test_while_a_server_takes_no_writes_all_wait_at_once(
    postgres_url: str, postgres_server: PostgresServer, timed: bool
) -> None:
    """Not four at a time, each for as long as it is worth waiting for a server; a full disk is told like this too."""
    name = name_in(postgres_url)
    async with opened(postgres_url, patience_s=1.0) as store:
        await store.agree("a", "x")
        full = "RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full'"
        await postgres_server.execute(
            f"CREATE FUNCTION full_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {full}; END $$",
            "CREATE TRIGGER full_up BEFORE INSERT ON agreed FOR EACH ROW EXECUTE FUNCTION full_up()",
            database=name,
        )
        assert "Make room" in (await refused(StoreAway, store.agree("b", "x"))).remedy
        cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        await postgres_server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on", cut)
        began = time.monotonic()
        await asyncio.gather(*(refused(StoreAway, store.agree(f"c{number}", "x")) for number in range(20)))
        assert time.monotonic() - began < 3 or not timed


async def test_where_a_server_gives_no_more_connections_those_that_it_gave_do(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    """Each is used by one after the other, and nobody waits for more to be given."""
    name = name_in(postgres_url)
    async with opened(postgres_url) as store:
        await store.agree("first", "x")
    for statement in (
        f"CREATE ROLE one_of_{name} LOGIN PASSWORD '{PASSWORD}' CONNECTION LIMIT 1",
        f"ALTER DATABASE {name} OWNER TO one_of_{name}",
    ):
        await postgres_server.execute(statement)
    url = f"postgresql://one_of_{name}:{PASSWORD}@127.0.0.1:{postgres_server.port}/{name}"
    links = postgres_links.Links(url, postgres_links.READING, most=4, patience_s=2 * HANG_S)

    async def use() -> None:
        async with links.one() as connection:
            assert await connection.fetchval("SELECT 7 FROM pg_sleep(0.01)") == 7

    await within(asyncio.gather(*(use() for _ in range(40))))
    await links.close()
    await postgres_server.execute(f"ALTER DATABASE {name} OWNER TO postgres", f"DROP ROLE one_of_{name}")


async def test_a_database_that_is_taken_from_under_a_store_is_away(postgres_server: PostgresServer) -> None:
    """That nobody gets in any more, or that nothing is there, is no fault of who asks for something then."""
    name = await postgres_server.new_database()
    async with opened(postgres_server.url(name), patience_s=0.2) as store:
        await store.agree("a", "x")
        await store.list_tasks()
        await postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")
        for asked in (lambda: store.agree("b", "x"), store.list_tasks):
            assert "no such database" in (await refused(StoreAway, asked())).message
        await postgres_server.execute(f"CREATE DATABASE {name}")
        for asked in (lambda: store.agree("b", "x"), store.list_tasks):
            refusal = await refused(StoreAway, asked())
            assert "tables are gone" in refusal.message
            assert "backup" in refusal.remedy
    await postgres_server.execute(f"DROP DATABASE {name}")


async def test_a_standby_is_not_asked_without_a_pause(
    postgres_url: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says within a millisecond that it takes no writes; a node that starts on it has patience."""
    tries = []

    async def counted(connection: Any, where: str) -> None:
        tries.append(connection)
        await migrate(connection, where)

    migrate = postgres._migrate
    monkeypatch.setattr(postgres, "_migrate", counted)
    await postgres_server.execute(f"ALTER DATABASE {name_in(postgres_url)} SET default_transaction_read_only = on")
    store = PostgresPersistenceManager(postgres_url, patience_s=0.5)
    with pytest.raises(StoreAway, match="takes no writes now"):
        await store.open()
    await store.close()
    assert 1 < len(tries) < 10


async def test_what_was_acknowledged_was_flushed_whatever_the_database_defaults_to(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    await postgres_server.execute(f"ALTER DATABASE {name_in(postgres_url)} SET synchronous_commit = off")
    async with opened(postgres_url) as store:
        await store.open()
        async with store._writing.one() as connection:
            assert await connection.fetchval("SHOW synchronous_commit") == "on"


async def test_a_database_that_cannot_hold_every_character_is_refused(postgres_server: PostgresServer) -> None:
    name = postgres_server.new_name()
    await postgres_server.execute(f"CREATE DATABASE {name} ENCODING LATIN1 LOCALE 'C' TEMPLATE template0")
    async with opened(postgres_server.url(name)) as store:
        assert "encoding is LATIN1" in (await refused(InvalidRequest, store.list_tasks())).message
    await postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def test_without_asyncpg_it_is_told_what_to_install() -> None:
    program = (
        "import sys; sys.modules['asyncpg'] = None\n"
        "from orchestrator.runtime.clock import SystemClock\nfrom orchestrator.core.errors import InvalidRequest\n"
        "from orchestrator.adapters.store import open_store\n"
        "try: open_store('postgresql://bob:secret@host/db', clock=SystemClock())\n"
        "except InvalidRequest as refusal: print(refusal)"
    )
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", program, cwd=ROOT, stdout=pipe)
    said, _ = await child.communicate()
    assert "pip install 'cc-orchestrator[postgresql]'" in said.decode()
    assert "secret" not in said.decode()


async def test_any_text_comes_back_as_it_was(postgres_url: str) -> None:
    """PostgreSQL takes no NUL; neither that nor what stands for it is lost."""
    prompt = "nul \0 mark \uf8ff both \uf8ff0\0"
    author = Author(ManualClock())
    async with opened(postgres_url) as store:
        draft = author.submitted()
        fact = draft.fact.model_copy(update={"prompt": prompt})
        await store.create(T1, [draft._replace(fact=fact)])
        assert [row.prompt for row in await store.list_tasks()] == [prompt]
        (row,) = await store.kept_rows("tasks")
        assert row["prompt"] == prompt


async def test_leases_go_by_the_clock_of_the_server(postgres_url: str, postgres_server: PostgresServer) -> None:
    """With the system's clock the server's is asked, and the two agree to some milliseconds."""
    store = open_store(postgres_url, clock=SystemClock())
    await store.create(T1, [Author(ManualClock()).submitted()])
    due = await store.next_due()
    assert due is not None
    ((asked,),) = await postgres_server.execute("SELECT clock_timestamp()")
    assert abs((asked - due).total_seconds()) < 2
    await store.close()


async def test_a_closed_store_refuses_everything(postgres_url: str) -> None:
    store = PostgresPersistenceManager(postgres_url)
    await store.close()
    await store.close()
    for asked in (store.list_tasks, lambda: store.wake(T1)):
        assert "closed" in (await refused(OrchestratorError, asked())).message


async def test_a_store_that_is_left_while_it_connects_is_left_at_once() -> None:
    """Who presses Ctrl-C at a start that waits for a server that says nothing does not wait, too."""
    came: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    mute = await asyncio.start_server(lambda _, writer: came.put_nowait(writer), "127.0.0.1", 0)
    host, port = mute.sockets[0].getsockname()
    store = PostgresPersistenceManager(f"postgresql://u:p@{host}:{port}/db")
    reading = asyncio.create_task(refused(OrchestratorError, store.list_tasks()))
    writer = await came.get()
    async with asyncio.timeout(HANG_S):
        await store.close()
        assert "closed" in (await reading).message
    writer.close()
    mute.close()


@pytest.mark.deep
async def test_killed_again_and_again() -> None:
    """Twenty ends of a server under load, by SIGKILL and in order."""
    with PostgresServer() as server:
        async with opened(server.url()) as store:
            load = Load(store, "deep", tasks=40)
            async with load.running():
                for number in range(20):
                    await load.more(200)
                    await asyncio.to_thread(server.kill if number % 2 else server.stop)
                    await asyncio.to_thread(server.start)
                await load.more(200)
            await load.assert_kept(store)
            assert (await store.list_tasks(status=TaskStatus.QUEUED))[0].version > 1
