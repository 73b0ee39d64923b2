"""The work of one step of a task, counted without a clock, so that no change makes a step dearer unseen.

A whole server takes the steps: a model over HTTP, the gate, the journal on SQLite, a call to a computer over a
WebSocket. Model and computer live in another thread, whose work is not counted. The difference between a long task and
a short one is that of their steps: what the begin and the end of a task cost is in neither figure. On PostgreSQL the
transactions are counted, the rows that they read, and the messages of three nodes. Of a step that a person approves it
is counted what the endpoints ask of the store.
"""

import asyncio
import inspect
import json
import math
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Self

import pytest

import orchestrator
from orchestrator.adapters.bus.postgres_notes import Note
from orchestrator.adapters.bus.postgres_session import Session
from orchestrator.adapters.store import sql
from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager, SqlitePersistenceManager
from orchestrator.core.policy import Quotas
from orchestrator.core.ports import Store, TokenRow
from orchestrator.core.task.facts import TaskId
from orchestrator.engine.directory import DirectoryKeeper
from orchestrator.engine.quotas import QuotaBook
from orchestrator.runtime.clock import SystemClock
from orchestrator.testing.stub_computer import StubComputer
from tests.harness.endpoints import stream
from tests.harness.ollama_server import OllamaServer, Wire, listening
from tests.harness.support import call, final, says
from tests.harness.whole_server import Server, running
from tests.servers import PostgresServer
from tests.waiting import within

SHORT, LONG = 10, 40
MOST = {"COMMIT": 3, "statements": 20, "frames": 2, "JSON encodings": 12, "Python calls": 1475, "connections": 0}
"""The most of each in one step. Whoever makes a step cheaper lowers them."""
MOST_OF_A_TASK = {"reads": 5, "COMMIT": 11, "statements": 59, "calls of ours": 3240}
"""The most of each in a task of one step that only looks, from its submission until somebody was told how it ended.

"reads" are the transactions that write nothing; "COMMIT" are all.
"""
MOST_TRANSACTIONS = 5
"""On PostgreSQL: two appends, and a node's looks of each second."""
MOST_READ = 60
"""Rows of tasks and items, and entries of their indexes, in one step."""
MOST_OF_NODES = {"sends": 4, "heard by the third node": 4, "changes of what is heard": 0}
"""Of three nodes on PostgreSQL, with the computer at another node: a request and an answer, news of two appends, and
what each node says every second. Only a program's output is listened to by itself."""
QUERIES = ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "/*")
ENCODING = {"JSONEncoder.encode", "canonical_text", "ChatMessage.as_json", "View._add"}
"""Functions that write JSON."""
MOST_OF_ENDPOINTS = {"append": 2, "find_token": 1, "load_by_request_id": 1}
"""What a step that one reviewer approves and another person follows asks of the store: it is noted that the request was
told, and decided by somebody whose token holds."""
QUOTAS = Quotas(running=1)
TRIES = 3
"""A machine with other work brings what is sent in more pieces, which only adds calls: the least of them counts."""
OURS = str(Path(orchestrator.__file__).parent)
LOOP = ("asyncio/base_events.py", "asyncio/events.py", "asyncio/selector_events.py", "selectors.py")
"""The calls within the loop itself, which is another one in a server."""


class Elsewhere:
    """A model that reads or ``writes`` again and again, and the computer with the file, in a thread of their own."""

    def __init__(self, replies: int, *, writes: bool = False) -> None:
        self._writes = writes
        self.model = OllamaServer(keeps=True, listed={"models": [{"name": "tiny"}]})
        self.model.personas.append(self._calls)
        self.left = replies
        self.over = asyncio.Event()
        """The model has said that it is done, and was told that the journal does not support it."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._served = listening(self.model)

    async def _calls(self, wire: Wire) -> None:
        self.left -= 1
        if self.left < -1:
            self.over.set()
        write = call("cc_write", path=f"b{self.left}.lua", content="print('x')\n")
        one = write if self._writes else call("cc_read", path="a.lua", max_lines=self.left + 1)
        await wire.head()
        await wire.text(json.dumps(says(one) if self.left >= 0 else final("All is done.")))
        await wire.done(prompt_eval_count=len(json.dumps(wire.asked["messages"])) // 3)

    async def does(self, what: Coroutine[Any, Any, Any]) -> None:
        """Have the thread do something, and wait until it is done."""
        await within(asyncio.wrap_future(asyncio.run_coroutine_threadsafe(what, self._loop)))

    async def connect(self, server: Server) -> None:
        """The computer dials."""
        stub = StubComputer(server.url, await server.computer("3"), files={"a.lua": b"print('x')\n" * LONG})
        asyncio.run_coroutine_threadsafe(stub.run(), self._loop)
        await self.does(stub.welcomed.wait())

    async def __aenter__(self) -> Self:
        self._thread.start()
        await self.does(self._served.__aenter__())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.does(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await self._served.__aexit__(None, None, None)
        for one in others:
            one.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class Counting(Counter[str]):
    """What this thread calls."""

    def __call__(self, frame: FrameType, event: str, called: Any) -> None:
        """As ``sys.setprofile`` tells it."""
        if event == "call" and not frame.f_code.co_filename.endswith(LOOP):
            self["Python calls"] += 1
            name = frame.f_code.co_qualname
            self["calls of ours"] += frame.f_code.co_filename.startswith(OURS)
            self["frames"] += name == "FrameProtocol.write"
            self["JSON encodings"] += name in ENCODING
        elif event == "c_call":
            self["JSON encodings"] += called.__name__ in {"to_json", "dump_json"}


async def task_of(steps: int, directory: Path) -> dict[str, int]:
    """The counts of a whole task of so many steps, and one more that ends it."""
    told: list[str] = []
    store = SqlitePersistenceManager(directory.with_suffix(".db"), clock=SystemClock(), trace=told.append)
    async with Elsewhere(steps) as there:
        parts = {"wrap_store": lambda _: store}
        async with running(directory, parts=parts, ollama_url=there.model.url) as server:
            await there.connect(server)
            connections, begun = there.model.connections, len(told)
            counting = Counting()
            sys.setprofile(counting)
            try:
                task_id = await server.submit(model="ollama:tiny", max_steps=steps + 5)
                await there.does(there.over.wait())
            finally:
                sys.setprofile(None)
            ended = await server.until(task_id, "task_ended")
            assert ended["status"] == "Completed", ended["result"]
            statements = told[begun:]
            return {
                **counting,
                "COMMIT": statements.count("COMMIT"),
                "statements": len(statements),
                "connections": there.model.connections - connections,
            }


async def test_the_work_of_a_step_does_not_grow(tmp_path: Path) -> None:
    """Transactions, statements, frames, JSON, calls of Python and connections to the model, of one step each."""
    # The first task of a process imports and builds what all later ones have.
    await task_of(SHORT, tmp_path / "first")
    found = dict.fromkeys(MOST, math.inf)
    for again in range(TRIES):
        short, long = [await task_of(steps, tmp_path / f"{again}-{steps}") for steps in (SHORT, LONG)]
        found = {what: min(least, (long[what] - short[what]) / (LONG - SHORT)) for what, least in found.items()}
        if all(count <= MOST[what] for what, count in found.items()):
            return
    raise AssertionError(found)


async def told_of(server: Server, counting: Counting) -> dict[str, Any]:
    """A new task as it is shown once it has ended and its lease was given back; what this thread calls is counted."""
    service, ended = server.orchestrator.service, asyncio.Event()
    sys.setprofile(counting)
    try:
        task_id = TaskId(await server.submit(model="ollama:tiny", prompt="Read a.lua.", max_steps=5))

        def heard(_: object) -> None:
            task = service.news.last(task_id)
            if task is not None and task.ended is not None:
                ended.set()

        end = service.news.hear(task_id, heard)
        await within(ended.wait())
        end()
        while server.orchestrator.workers.at_work:  # noqa: ASYNC110 - for a few milliseconds
            await asyncio.sleep(0.001)
        answer = await server.ask("GET", f"/v1/tasks/{task_id}")
    finally:
        sys.setprofile(None)
    told: dict[str, Any] = answer.json()
    return told


async def test_the_work_of_a_task_does_not_grow(tmp_path: Path) -> None:
    """What it costs beside its steps: reads and transactions of the store, statements, and calls of Python."""
    made: list[str] = []
    store = SqlitePersistenceManager(tmp_path / "a.db", clock=SystemClock(), trace=made.append)
    parts = {"wrap_store": lambda _: store}
    found = dict.fromkeys(MOST_OF_A_TASK, math.inf)
    async with Elsewhere(1) as there, running(tmp_path, parts=parts, ollama_url=there.model.url) as server:
        await there.connect(server)
        # The first one finds what all later ones have at hand.
        for again in range(1 + 2 * TRIES):
            begun, counting, there.left = len(made), Counting(), 1
            assert (await told_of(server, counting))["status"] == "Completed"
            statements = made[begun:]
            counts = {
                **counting,
                "reads": statements.count("BEGIN"),
                "COMMIT": statements.count("COMMIT"),
                "statements": len(statements),
            }
            if again:
                found = {what: min(least, counts[what]) for what, least in found.items()}
            if all(count <= MOST_OF_A_TASK[what] for what, count in found.items()):
                return
    raise AssertionError(found)


def scans(database: Path, statements: Iterable[str]) -> set[str]:
    """How SQLite would read tasks or items from the first to the last for one of these statements."""
    with closing(sqlite3.connect(database)) as connection:
        plans = [connection.execute(f"EXPLAIN QUERY PLAN {one}") for one in statements if one.startswith(QUERIES)]
        lines = [row[-1] for plan in plans for row in plan]
    return {line for line in lines if line.startswith(("SCAN tasks", "SCAN items"))}


async def test_no_statement_reads_all_tasks(tmp_path: Path) -> None:
    """From the start of a server to its end, with a computer that comes and a task: SQLite reads those at work."""
    made: list[str] = []
    store = SqlitePersistenceManager(tmp_path / "a.db", clock=SystemClock(), trace=made.append)
    parts = {"wrap_store": lambda _: store}
    async with Elsewhere(2) as there, running(tmp_path, parts=parts, ollama_url=there.model.url) as server:
        await there.connect(server)
        await takes(2, there, server)
    assert scans(tmp_path / "a.db", made) == {"SCAN tasks USING INDEX tasks_held"}


@asynccontextmanager
async def nodes_at(there: Elsewhere, directory: Path, url: str, count: int) -> AsyncIterator[list[Server]]:
    """Nodes on one PostgreSQL: the first has the tasks, the last but one the computer, the others nothing to do."""
    bus: dict[str, Any] = {"bus": url} if count > 1 else {}
    async with AsyncExitStack() as stack:
        opened = [
            running(directory, node=f"n{number}", store=url, ollama_url=there.model.url, **bus)
            for number in range(count)
        ]
        servers = [await stack.enter_async_context(one) for one in opened]
        for server in servers[1:]:
            await server.orchestrator.workers.drain(0)
        await there.connect(servers[max(0, count - 2)])
        yield servers


async def takes(steps: int, there: Elsewhere, server: Server) -> None:
    """A whole task of so many steps, and one more that ends it."""
    task_id = await server.submit(model="ollama:tiny", max_steps=steps + 5)
    await there.does(there.over.wait())
    ended = await server.until(task_id, "task_ended")
    assert ended["status"] == "Completed", ended["result"]


async def on_postgres(steps: int, directory: Path, postgres: PostgresServer) -> Counter[str]:
    """All transactions in a database of its own while a task of so many steps runs, and the rows that they read.

    There are other tasks in the store. It counts the start, too, but not the end: then a checkpoint reads all tasks,
    in a way that PostgreSQL chooses each time.
    """
    name = await postgres.new_database()
    async with Elsewhere(steps) as there, nodes_at(there, directory / str(steps), postgres.url(name), 1) as servers:
        await postgres.fill(name)
        await takes(steps, there, servers[0])
        await postgres.end_connections(name)
        ((count,),) = await postgres.execute(f"SELECT xact_commit FROM pg_stat_database WHERE datname = '{name}'")
        return Counter(transactions=int(count), rows=await postgres.rows_read(name))


async def test_the_transactions_of_a_step(tmp_path: Path) -> None:
    """On PostgreSQL each that writes waits for the disk, and each row is found by an index."""
    # A transaction of another test on the same server would keep the versions of a row that are no more.
    with PostgresServer() as postgres:
        short, long = [await on_postgres(steps, tmp_path, postgres) for steps in (SHORT, LONG)]
    found = {what: (long[what] - short[what]) / (LONG - SHORT) for what in short}
    assert found["transactions"] <= MOST_TRANSACTIONS, found
    assert found["rows"] <= MOST_READ, found


async def on_bus_of(
    steps: int, directory: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> Counter[str]:
    """The sends of three nodes, each of which is a transaction here and at each node, and what the third node hears."""
    counts: Counter[str] = Counter()
    send, hear, listen = Session._send, Session._notified, Session._listen

    async def sent(session: Session, batch: list[Note]) -> None:
        counts["sends"] += 1
        await send(session, batch)

    def heard(session: Session, connection: object, pid: int, channel: str, text: str) -> None:
        counts["heard by the third node"] += session._node.startswith("n2")
        hear(session, connection, pid, channel, text)

    async def listens(session: Session, wanted: Collection[str]) -> None:
        counts["changes of what is heard"] += 1
        await listen(session, wanted)

    monkeypatch.setattr(Session, "_listen", listens)
    monkeypatch.setattr(Session, "_send", sent)
    monkeypatch.setattr(Session, "_notified", heard)
    url = postgres.url(await postgres.new_database())
    async with Elsewhere(steps) as there, nodes_at(there, directory / str(steps), url, 3) as servers:
        counts.clear()
        await takes(steps, there, servers[0])
        found = counts.copy()
    monkeypatch.undo()
    return found


async def test_what_a_step_sends_between_nodes(
    tmp_path: Path, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that neither works on a task nor has its computer hears of new items, and of nothing else."""
    short, long = [await on_bus_of(steps, tmp_path, postgres_server, monkeypatch) for steps in (SHORT, LONG)]
    found = {what: (long[what] - short[what]) / (LONG - SHORT) for what in MOST_OF_NODES}
    assert not {what: count for what, count in found.items() if count > MOST_OF_NODES[what]}, found
    assert min(found["sends"], found["heard by the third node"]) > 1, found


@contextmanager
def asked_by_endpoints(server: Server) -> Iterator[Counter[str]]:
    """Counts what the modules of the endpoints ask of the store while it is open; not the looks of each second."""
    found: Counter[str] = Counter()
    store = server.orchestrator.service.store

    def counted(name: str, ask: Callable[..., Any]) -> Callable[..., Any]:
        def asking(*args: Any, **more: Any) -> Any:
            frame: FrameType | None = sys._getframe()
            while frame is not None and "/orchestrator/web/" not in frame.f_code.co_filename:
                frame = frame.f_back
            found[name] += frame is not None
            return ask(*args, **more)

        return asking

    with pytest.MonkeyPatch.context() as patched:
        for name, _ in inspect.getmembers(Store, inspect.iscoroutinefunction):
            if name != "count_revoked":
                patched.setattr(store, name, counted(name, getattr(store, name)))
        yield found


async def approved(
    steps: int, directory: Path, decided: Callable[[], object] = bool, **parts: Callable[[Store], Store]
) -> Counter[str]:
    """What the endpoints ask of the store for a task of so many writes, each of them approved once it is noted.

    ``decided`` is called after each approval.
    """
    async with (
        Elsewhere(steps, writes=True) as there,
        running(directory, parts=parts, ollama_url=there.model.url) as server,
    ):
        await there.connect(server)
        with asked_by_endpoints(server) as found:
            async with server.reviewing() as reviewer:
                await reviewer.hear("snapshot")
                task_id = await server.submit(model="ollama:tiny", max_steps=steps + 5)
                async with stream(server, task_id) as blocks:
                    for _ in range(steps):
                        while "event: review_noted" not in (block := await anext(blocks)):
                            pass
                        fact = json.loads(block.partition("data: ")[2])["fact"]
                        await reviewer.decide(fact["request_id"], action="approve")
                        decided()
                    while "event: task_ended" not in await anext(blocks):
                        pass
                    return found.copy()


async def test_what_a_step_that_is_approved_asks_of_the_store(tmp_path: Path) -> None:
    """The one who approves and all who follow are told what this node wrote, and read nothing again."""
    short, long = [await approved(steps, tmp_path / str(steps)) for steps in (SHORT, LONG)]
    # What is asked at any time, such as for the list of people, counts less than once a step.
    found = {what: round((count - short[what]) / (LONG - SHORT)) for what, count in long.items()}
    assert {what: count for what, count in found.items() if count} == MOST_OF_ENDPOINTS


async def test_a_late_approval_costs_the_store_as_much_as_an_early_one(tmp_path: Path) -> None:
    """The items of the steps before it are neither read nor hashed again, for the decision and for what follows."""
    calls: Counter[bool] = Counter()
    marks: list[int] = []

    def called(frame: FrameType, event: str, _: Any) -> None:
        calls[event in ("call", "c_call") and frame.f_code.co_filename == sql.__file__] += 1

    threading.setprofile(called)  # for the threads of the store, which begin from now on
    try:
        store = SqlitePersistenceManager(tmp_path / "a.db", clock=SystemClock())
        await approved(LONG, tmp_path / "a", lambda: marks.append(calls[True]), wrap_store=lambda _: store)
    finally:
        threading.setprofile(None)
    early, late = marks[2 * SHORT] - marks[SHORT], marks[-1] - marks[-1 - SHORT]
    assert 0 < late <= 1.05 * early, (early, late)


async def test_the_rule_of_turns_is_made_again_only_for_other_people() -> None:
    """A worker asks for it before each lease, and what is due to be told has the directory read again and again."""
    store = InMemoryPersistenceManager()
    keeper = DirectoryKeeper(store)
    book = QuotaBook(store, SystemClock(), lambda: QUOTAS, lambda: keeper.present)
    made = []
    for name in ("ann", "bob"):
        await store.add_token(TokenRow(name, "person", name))
        for _ in range(2):
            await keeper.load()
            made.append(book.turns(frozenset()))
    assert made[0] is made[1] is not made[2] is made[3]
