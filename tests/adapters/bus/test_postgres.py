"""The bus over PostgreSQL: the contracts of every bus, and what is this one's own to get wrong."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count

import pytest

from orchestrator.adapters.bus import open_bus, postgres_session
from orchestrator.adapters.bus.postgres import PostgresBus
from orchestrator.adapters.bus.postgres_notes import Note
from orchestrator.adapters.bus.postgres_session import Session
from orchestrator.core.errors import NobodyServes, RequestLost
from orchestrator.core.ports.bus import Bus
from orchestrator.testing import BUS_CONTRACTS, BUS_OUTAGE_CONTRACTS, BusNetwork, run_bus_conformance
from orchestrator.testing.bus_hints import LONG_S, Heard, Server
from orchestrator.testing.drafts import refused
from tests.adapters.bus.serving_node import serving_node
from tests.servers import PostgresServer
from tests.waiting import HANG_S, within

SPACES = count(1)


def _network(server: PostgresServer, url: str) -> BusNetwork:
    nodes = count(1)

    @asynccontextmanager
    async def outage() -> AsyncIterator[None]:
        await asyncio.to_thread(server.kill)
        try:
            yield
        finally:
            await asyncio.to_thread(server.start)

    return BusNetwork(lambda: open_bus(url, node=f"node-{next(nodes)}"), outage=outage)


@pytest.fixture(scope="module")
def mortal_server() -> Iterator[PostgresServer]:
    """Fixture: a server that tests kill and start again."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="module")
def database() -> dict[PostgresServer, str]:
    """Fixture: the database of this module on each server."""
    return {}


async def _space(server: PostgresServer, database: dict[PostgresServer, str]) -> str:
    """The URL of a new schema: as good as a database, and made in a hundredth of its time."""
    if server not in database:
        database[server] = await server.new_database()
    space = f"space_{next(SPACES)}"
    await server.execute(f"CREATE SCHEMA {space}", database=database[server])
    return f"{server.url(database[server])}&search_path={space}"


@pytest.fixture
async def url(postgres_server: PostgresServer, database: dict[PostgresServer, str]) -> str:
    """Fixture: the URL of a bus that nobody is on."""
    return await _space(postgres_server, database)


@pytest.fixture
async def network(postgres_server: PostgresServer, url: str) -> AsyncIterator[BusNetwork]:
    """Fixture: a network that nobody is on."""
    async with _network(postgres_server, url) as network:
        yield network


async def test_notifications_gather_and_go_with_what_somebody_waits_for(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first goes at once; of those that follow soon none has a transaction of its own, and none is lost."""
    sends: list[list[str]] = []
    send = Session._send

    async def counted(session: Session, batch: list[Note]) -> None:
        sends.append([note.kind for note in batch if note.kind == "hint"])
        await send(session, batch)

    monkeypatch.setattr(Session, "_send", counted)
    monkeypatch.setattr(postgres_session, "HINTS_APART_S", HANG_S)
    one, two, heard = PostgresBus(url, node="one"), PostgresBus(url, node="two"), Heard()
    await one.open()
    await two.open()
    two.subscribe("a", heard)
    try:
        one.publish("a", {"n": 0})
        await heard.until({"n": 0})
        for number in range(1, 30):
            one.publish("a", {"n": number})
            await asyncio.sleep(0)
        await within(one.flush())
        assert await heard.until({"n": 29}) == [{"n": number} for number in range(30)]
        assert [len(batch) for batch in sends if batch] == [1, 29]
    finally:
        await one.close()
        await two.close()


@pytest.mark.parametrize("contract", BUS_CONTRACTS)
async def test_contract(contract: str, network: BusNetwork) -> None:
    await BUS_CONTRACTS[contract](network)


@pytest.mark.parametrize("contract", BUS_OUTAGE_CONTRACTS)
async def test_outage(contract: str, mortal_server: PostgresServer, database: dict[PostgresServer, str]) -> None:
    async with _network(mortal_server, await _space(mortal_server, database)) as network:
        await BUS_OUTAGE_CONTRACTS[contract](network)


@pytest.mark.deep
@pytest.mark.parametrize("time", range(20))
async def test_twenty_times(time: int) -> None:
    """No contract holds by luck."""
    with PostgresServer() as server:
        url = server.url(await server.new_database())
        await run_bus_conformance(lambda: _network(server, url))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("which", ["hears", "says"])
async def test_a_connection_that_is_ended_is_made_again(
    which: str, postgres_server: PostgresServer, database: dict[PostgresServer, str], network: BusNetwork
) -> None:
    """Be it the one that listens or the one that sends; what waits on it is lost, and the bus says that it is away."""
    one, two = await network.nodes(2)
    ear, server = Heard(), Server("two", free=False)
    two.subscribe("a", ear)
    two.serve("a", server)
    await two.flush()
    asked = asyncio.ensure_future(one.request("a", {}, within_s=LONG_S))
    await server.until_begun()
    ended = await postgres_server.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        f"WHERE datname = '{database[postgres_server]}' "
        f"AND application_name LIKE 'cc-orchestrator bus {which} node-1-%'"
    )
    assert ended == [(True,)]
    await within(refused(RequestLost, asked))
    server.gate.set()
    async with asyncio.timeout(HANG_S):
        while {"again": True} not in ear.all:
            one.publish("a", {"again": True})
            await asyncio.sleep(0.02)
    assert one.connected
    assert (await one.request("a", {"n": 2}, within_s=LONG_S)).payload["to"] == {"n": 2}


async def test_a_defect_as_it_connects_again_is_not_the_end(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A bus that gave up would be missed by nobody until the next start of its node."""

    class Defective(PostgresBus):
        defects = 0

        async def _connect(self) -> None:
            if self.defects:
                self.defects -= 1
                raise KeyError("a subject")
            await super()._connect()

    bus = Defective(url, node="n")
    await bus.open()
    try:
        # Once as it sends, once as it connects again.
        bus.defects = 1
        bus._outbox.put(Note("hint", "a", "n", "no bytes"))  # type: ignore[arg-type]
        async with asyncio.timeout(LONG_S):
            while bus.defects or not bus.connected:  # noqa: ASYNC110 - what it looks at tells nobody
                await asyncio.sleep(0.01)
        await bus.flush()
    finally:
        await bus.close()
    assert "a mistake of its own" in caplog.text
    assert "connecting to the database of the bus failed" in caplog.text


async def test_a_killed_server_and_a_stopped_one(network: BusNetwork, url: str) -> None:
    """Who works for one that dies or is stopped is lost in seconds; then nobody serves; what is over is never begun."""
    one = await network.node()
    async with serving_node(url, "killed") as killed, serving_node(url, "stopped") as stopped:
        asked = []
        for node, subject in ((killed, "killed"), (stopped, "stopped")):
            asked.append(asyncio.ensure_future(one.request(subject, {"n": 1, "stay": True}, within_s=LONG_S)))
            await node.until("begun 1")
        killed.signal(signal.SIGKILL)
        stopped.signal(signal.SIGSTOP)
        await within(_until_nobody_serves(one, "killed"))
        await refused(RequestLost, one.request("stopped", {"n": 2}, within_s=0.5))
        asked.append(asyncio.ensure_future(one.request("stopped", {"n": 3}, within_s=LONG_S)))
        async with asyncio.timeout(HANG_S):
            for each in asked:
                await refused(RequestLost, each)
        await within(_until_nobody_serves(one, "stopped"))
        stopped.signal(signal.SIGCONT)
        async with asyncio.timeout(HANG_S):
            while True:
                try:
                    await one.request("stopped", {"n": 4}, within_s=5)
                    break
                except NobodyServes:
                    await asyncio.sleep(0.05)
        await stopped.until("begun 4")
        assert stopped.said == ["serving", "begun 1", "begun 4"]


async def test_long_notifications_on_both_sides_of_a_reconnect(
    mortal_server: PostgresServer, database: dict[PostgresServer, str]
) -> None:
    """The bytes of the first are still in the table, which a clean stop of the server keeps; the second goes, too."""
    async with _network(mortal_server, await _space(mortal_server, database)) as network:
        one, two = await network.nodes(2)
        ear = Heard()
        two.subscribe("a", ear)
        await two.flush()
        for number in (1, 2):
            said = {"n": number, "long": "x" * 20_000}
            one.publish("a", said)
            await ear.until(said)
            if number == 1:
                await asyncio.to_thread(mortal_server.stop)
                await within(_until_connected(one, False))
                await within(_until_connected(two, False))
                await asyncio.to_thread(mortal_server.start)
                await within(_until_connected(one, True))
                await within(_until_connected(two, True))
        assert [payload["n"] for payload in ear.all if "n" in payload] == [1, 2]


async def test_it_says_whether_it_is_connected(
    mortal_server: PostgresServer, database: dict[PostgresServer, str]
) -> None:
    """While the database is away a request is refused at once, and nobody is told that all was sent."""
    async with _network(mortal_server, await _space(mortal_server, database)) as network:
        one, two = await network.nodes(2)
        two.serve("a", Server("two"))
        await two.flush()
        async with network.outage():
            await within(_until_connected(one, False))
            await within(refused(NobodyServes, one.request("a", {}, within_s=LONG_S)))
            await within(refused(RequestLost, one.flush()))
        await within(_until_connected(one, True))
        await one.flush()


@pytest.mark.thinned(2)
@pytest.mark.parametrize("end", [PostgresServer.stop, PostgresServer.kill])
async def test_a_restart_under_load(
    end: Callable[[PostgresServer], None], mortal_server: PostgresServer, database: dict[PostgresServer, str]
) -> None:
    """Each request ends, what nobody served was not begun, nothing is begun twice, and hints stay in their order."""
    async with _network(mortal_server, await _space(mortal_server, database)) as network:
        one, two = await network.nodes(2)
        ear, server, numbers = Heard(), Server(), count()
        outcomes: dict[int, str] = {}
        answered = asyncio.Semaphore(0)
        two.subscribe("a", ear)
        two.serve("a", server)
        await two.flush()

        async def ask(until: asyncio.Event) -> None:
            while not until.is_set():
                number = next(numbers)
                one.publish("a", {"n": number})
                try:
                    await one.request("a", {"n": number}, b"x" * (number % 3 * 5_000), within_s=LONG_S)
                    outcomes[number] = "answered"
                    answered.release()
                except (NobodyServes, RequestLost) as not_answered:
                    outcomes[number] = type(not_answered).__name__
                    await asyncio.sleep(0.01)

        async def hundred() -> None:
            async with asyncio.timeout(HANG_S):
                for _ in range(100):
                    await answered.acquire()

        done = asyncio.Event()
        asking = [asyncio.ensure_future(ask(done)) for _ in range(20)]
        await hundred()
        await asyncio.to_thread(end, mortal_server)
        while not answered.locked():
            await answered.acquire()
        await asyncio.to_thread(mortal_server.start)
        await hundred()
        done.set()
        await within(asyncio.gather(*asking))
        begun = [payload["n"] for payload in server.begun]
        assert len(begun) == len(set(begun))
        assert not {number for number in begun if outcomes[number] == "NobodyServes"}
        assert {number for number, outcome in outcomes.items() if outcome == "answered"} <= set(begun)
        assert "NobodyServes" in outcomes.values()
        heard = [payload["n"] for payload in ear.all]
        assert heard == sorted(set(heard))


async def _until_nobody_serves(bus: Bus, subject: str) -> None:
    while True:
        try:
            await bus.request(subject, {"n": 0}, within_s=0.2)
        except NobodyServes:
            return
        except RequestLost:
            continue


async def _until_connected(bus: Bus, wanted: bool) -> None:
    while bus.connected is not wanted:  # noqa: ASYNC110 - the port tells it to those who ask, and nobody else
        await asyncio.sleep(0.01)
