"""What is too large for a notification, who hears whom in one database, and what is swept away."""

import asyncio
from collections.abc import Mapping
from itertools import count

import pytest

from orchestrator.adapters.bus import open_bus
from orchestrator.adapters.bus import postgres_session as sql
from orchestrator.adapters.bus.postgres import MAX_HINT_BYTES, MAX_HINTS, Outbox
from orchestrator.adapters.bus.postgres_notes import LONGEST, SAID_BYTES, Hearing, Note, NoteKind, said, spilled
from orchestrator.core.errors import InvalidRequest, NobodyServes, RequestLost
from orchestrator.core.ports.bus import Answer
from orchestrator.testing import BusNetwork
from orchestrator.testing.bus_hints import LONG_S, Heard, Server
from orchestrator.testing.drafts import refused
from tests.servers import PostgresServer
from tests.waiting import HANG_S

NODES = count(1)


@pytest.fixture
def network(postgres_url: str) -> BusNetwork:
    """Fixture: a network of a database that holds nothing yet."""
    return BusNetwork(lambda: open_bus(postgres_url, node=f"node {next(NODES)}"))


@pytest.mark.parametrize("kind", ["hint", "request", "letter"])
def test_a_notification_is_as_long_as_it_may_be(kind: NoteKind) -> None:
    """A letter that is longer than one goes in as few as it takes, up to a bound; what is heard is the same."""
    hearing = Hearing("three")
    for length in (*range(LONGEST // 2, LONGEST + 2), SAID_BYTES, SAID_BYTES + 1):
        note = Note(kind, "to.it", "1", bytes(range(256)) * (length // 256) + b"\xff" * (length % 256))
        parts = said(note, 10**9)
        assert bool(parts) == (length <= SAID_BYTES)
        # Four characters say three bytes, and each part has a head.
        assert len(parts) <= 1 + 4 * length / 3 / (LONGEST - 50)
        assert all(len(text.encode()) <= LONGEST for text in parts)
        assert len(set(parts)) == len(parts)
        told = [hearing.heard(text) for text in parts]
        assert told == [None] * (len(parts) - 1) + [(note, "")] * bool(parts)
    assert hearing.heard(spilled(note, "key.1")) == (note._replace(letter=b""), "key.1")
    # The tag of a notification is the node that sent it.
    assert [*map(Hearing("1").heard, said(note, 1))] == [None if kind == "hint" else (note, "")] * len(said(note, 1))


def test_a_letter_of_which_a_part_is_missing_is_not_heard() -> None:
    """Nor does it spoil the next one, of the same length."""
    hearing, notes = Hearing("three"), [Note("letter", "two", "1", bytes([byte]) * 20_000) for byte in (1, 2)]
    first, second = (said(note, number) for number, note in enumerate(notes))
    for lost in range(len(first)):
        for text in [*first[:lost], *first[lost + 1 :]]:
            assert hearing.heard(text) is None
        assert [hearing.heard(text) for text in second][-1] == (notes[1], "")


async def test_around_the_limit(network: BusNetwork, postgres_server: PostgresServer, postgres_url: str) -> None:
    """Hints and requests of every length around the limit come through in their order; what was fetched is gone."""
    async with network:
        one, two = await network.nodes(2)
        ear = Heard()
        two.subscribe("a", ear)
        two.serve("a", Server())
        await two.flush()
        # A letter travels in base64.
        texts = [
            character * (length // weight) + "x" * (length % weight)
            for character, weight in (("x", 1), ("ä", 2), ("🐢", 4))
            for length in (5_700, 5_800, 5_900, 5_950, 5_999, 6_000, 7_999, 8_000)
        ]
        texts += ["x" * length for length in (SAID_BYTES - 100, SAID_BYTES, SAID_BYTES + 1)]
        for text in texts:
            one.publish("a", {"text": text})
        one.publish("a", {"last": True})
        assert await ear.until({"last": True}) == [*({"text": text} for text in texts), {"last": True}]
        for text in texts:
            assert (await one.request("a", {"text": text}, within_s=LONG_S)).payload["to"] == {"text": text}
        left = await _rows(postgres_server, postgres_url, "SELECT DISTINCT split_part(letter, '-', 2) FROM bus_letters")
        # What was said to all stays a while: of it nobody knows whether all have it.
        assert len(left) == 1


async def test_what_nobody_takes_is_swept(
    network: BusNetwork, postgres_server: PostgresServer, postgres_url: str
) -> None:
    """A large hint and a large request for nobody do not stay; nor does a node that is silent for a minute."""
    async with network:
        one, two = await network.nodes(2)
        one.publish("a", {"large": "x" * SAID_BYTES})
        two.serve("a", Server("two"))
        await one.flush()
        await two.flush()
        assert await _rows(postgres_server, postgres_url, "SELECT count(*) FROM bus_letters") == [(1,)]
        # The database is told that this was long ago, and two nodes' worth of silence.
        await _rows(postgres_server, postgres_url, "UPDATE bus_letters SET at = at - interval '121 s'")
        await _rows(
            postgres_server,
            postgres_url,
            "INSERT INTO bus_members SELECT 'gone', 0, NULL, clock_timestamp() - interval '61 s'",
            "INSERT INTO bus_offers VALUES ('b', 'gone')",
        )
        await refused(NobodyServes, one.request("b", {}, within_s=LONG_S))
        await _rows(postgres_server, postgres_url, sql.SWEEP_LETTERS, sql.SWEEP_MEMBERS)
        assert await _rows(postgres_server, postgres_url, "SELECT count(*) FROM bus_letters") == [(0,)]
        assert await _rows(postgres_server, postgres_url, "SELECT count(*) FROM bus_members") == [(2,)]
        assert (await one.request("a", {}, within_s=LONG_S)).payload["by"] == "two"


async def test_a_silent_node_is_disconnected_and_comes_again(
    network: BusNetwork, postgres_server: PostgresServer, postgres_url: str
) -> None:
    """A node that is taken off the list, as one is that was stopped for long, enters it again when it wakes."""
    async with network:
        one, two = await network.nodes(2)
        two.serve("a", Server("two"))
        await two.flush()
        ended = await _rows(
            postgres_server,
            postgres_url,
            "UPDATE bus_members SET heard = heard - interval '2 min' WHERE node LIKE 'node-%'",
            sql.SWEEP_MEMBERS,
        )
        assert ended == [(True,), (True,)]
        async with asyncio.timeout(HANG_S):
            while True:
                try:
                    assert (await one.request("a", {}, within_s=5)).payload["by"] == "two"
                    break
                except (NobodyServes, RequestLost):
                    await asyncio.sleep(0.02)


async def test_two_installations_in_one_database(postgres_server: PostgresServer) -> None:
    """Those of one schema hear each other and nobody else, though another has its tables further down the path."""
    name = await postgres_server.new_database()
    await postgres_server.execute("CREATE SCHEMA mine", "CREATE SCHEMA theirs", database=name)
    url = postgres_server.url(name)
    spaces = {"": Heard(), "&search_path=theirs,public": Heard(), "&search_path=mine,theirs,public": Heard()}
    buses = [open_bus(url + space, node="node") for space in (*spaces, *spaces)]
    try:
        for bus in buses:
            await bus.open()
        for bus, ear in zip(buses[:3], spaces.values(), strict=True):
            bus.subscribe("a", ear)
        for number, bus in enumerate(buses[3:]):
            bus.publish("a", {"from": number})
            bus.publish("a", {"last": True})
        for number, ear in enumerate(spaces.values()):
            assert await ear.until({"last": True}) == [{"from": number}, {"last": True}]
        buses[0].serve("a", Server("public"))
        await buses[0].flush()
        assert (await buses[3].request("a", {}, within_s=LONG_S)).payload["by"] == "public"
        await refused(NobodyServes, buses[4].request("a", {}, within_s=LONG_S))
    finally:
        for bus in buses:
            await bus.close()


async def test_a_body_that_is_too_large(network: BusNetwork) -> None:
    """64 MiB go, a byte more is refused with a sentence, and an answer of that size is lost."""
    whole = bytes(64 << 20)

    async def answer(payload: object, body: bytes) -> Answer:
        return Answer({"got": len(body)}, b"" if body else whole + b"x")

    async with network:
        one, two = await network.nodes(2)
        two.serve("a", answer)
        await two.flush()
        assert (await one.request("a", {}, whole, within_s=LONG_S)).payload == {"got": 64 << 20}
        too_large = await refused(InvalidRequest, one.request("a", {}, whole + b"x", within_s=LONG_S))
        assert "64 MiB" in too_large.message
        await refused(RequestLost, one.request("a", {}, within_s=LONG_S))


async def test_who_gives_up_harms_nobody(network: BusNetwork) -> None:
    """A request that is given up while its body is on its way is not begun, and the next one comes through."""
    server = Server("two")
    async with network:
        one, two = await network.nodes(2)
        two.serve("a", server)
        await two.flush()
        for number in range(10):
            with pytest.raises((NobodyServes, RequestLost)):
                await one.request("a", {"n": number}, bytes(16 << 20), within_s=0.002 * number)
            assert (await one.request("a", {"n": -1}, b"x" * 10_000, within_s=LONG_S)).body == b"x" * 10_000
        assert [payload for payload in server.begun if payload["n"] >= 0] == []


async def test_another_voice_on_the_channel(
    network: BusNetwork, postgres_server: PostgresServer, postgres_url: str
) -> None:
    """What somebody else says on a channel of the bus is not heard, and does no harm."""
    async with network:
        one, two = await network.nodes(2)
        ear = Heard()
        two.subscribe("a", ear)
        await two.flush()
        space = "SELECT 'cc_letters_' || relnamespace::bigint FROM pg_class WHERE relname = 'bus_letters'"
        channel = f"({space}) || '_' || left(encode(sha256('a'), 'hex'), 16)"
        for voice in ("", "hello", "[]", "{}", "7", "hint a me .0.1", "hint a me .x.x.x.x"):
            await _rows(postgres_server, postgres_url, f"SELECT pg_notify({channel}, '{voice}')")
        one.publish("a", {"last": True})
        assert await ear.until({"last": True}) == [{"last": True}]


async def test_an_answer_that_is_no_json(network: BusNetwork) -> None:
    """It is lost at once, and the node goes on."""

    async def answer(payload: Mapping[str, object], body: bytes) -> Answer:
        return Answer({"what": object() if "bad" in payload else 1})

    async with network:
        one, two = await network.nodes(2)
        two.serve("a", answer)
        await two.flush()
        async with asyncio.timeout(HANG_S):
            await refused(RequestLost, one.request("a", {"bad": 1}, within_s=LONG_S))
        assert (await one.request("a", {}, within_s=LONG_S)).payload == {"what": 1}


async def test_hints_wait_in_bounded_room() -> None:
    """The oldest hints are dropped, by number and by bytes; what somebody waits for, and answers, are not."""
    outbox = Outbox()
    outbox.put(Note("letter", "one", "1", b"answer"))
    for number in range(MAX_HINTS + 2):
        outbox.put(Note("hint", "a", "me", b"%d" % number))
    kept = [note.letter for _ in range(MAX_HINTS) for note in outbox.batch()]
    assert kept == [b"answer", *(b"%d" % number for number in range(2, MAX_HINTS + 2))]
    for number in range(3):
        outbox.put(Note("hint", str(number), "me", bytes(MAX_HINT_BYTES // 2)))
    assert [note.to for _ in range(3) for note in outbox.batch()] == ["1", "2"]


async def _rows(server: PostgresServer, url: str, *statements: str) -> list[tuple[object, ...]]:
    return await server.execute(*statements, database=url.partition("@/")[2].partition("?")[0])
