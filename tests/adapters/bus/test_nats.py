"""What only the NATS bus does: its servers and their secrets, nodes and servers that stop, and strange messages."""

import asyncio
import json
import logging
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from orchestrator.adapters.bus import nats as nats_servers
from orchestrator.adapters.bus import nats_link, nats_protocol, open_bus
from orchestrator.adapters.bus.nats_protocol import nats_address
from orchestrator.core.errors import BusAway, InvalidRequest, NobodyServes, RequestLost
from orchestrator.core.ports import Bus
from orchestrator.core.ports.bus import Answer
from orchestrator.testing.bus_hints import LONG_S, Heard, Server
from orchestrator.testing.drafts import refused
from tests.nats_servers import NatsServer
from tests.servers import free_port
from tests.waiting import HANG_S, within

SECRET = "xyzzy-plugh"


@asynccontextmanager
async def opened(*urls: str) -> AsyncIterator[list[Bus]]:
    """A node by each URL, open."""
    buses = [open_bus(url, node=f"node-{number}") for number, url in enumerate(urls)]
    try:
        for bus in buses:
            await bus.open()
        yield buses
    finally:
        for bus in buses:
            await bus.close()


@asynccontextmanager
async def node_process(url: str, name: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, Callable[[str], Any]]]:
    """A node in a process of its own, and what waits for a line of its."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.adapters.bus.nats_node", url, name, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    lines = process.stdout

    async def said(line: str) -> None:
        assert await within(lines.readline()) == f"{line}\n".encode()

    try:
        await said("ready")
        yield process, said
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


# -- servers and secrets ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "who"),
    [
        (("--user", "ann", "--pass", f"{SECRET}@,/"), f"ann:{SECRET}%40%2C%2F@"),
        (("--auth", SECRET), f"{SECRET}@"),
    ],
    ids=["password", "token"],
)
async def test_what_opens_the_server_stands_in_the_url_and_nowhere_else(
    options: tuple[str, ...], who: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with NatsServer(*options) as server:
        address = server.url.removeprefix("nats://")
        async with opened(f"nats://{who}{address}") as (bus,):
            assert bus.connected
        wrong = who.replace(SECRET, f"wrong-{SECRET}")
        refusal = await refused(BusAway, open_bus(f"nats://{wrong}{address}").open())
        assert "Authorization Violation" in refusal.message
        nobody = await refused(BusAway, open_bus(f"nats://{address}").open())
    for said in (str(refusal), repr(refusal), str(nobody), caplog.text, repr(refusal.__context__)):
        assert SECRET not in said


async def test_the_next_server_is_taken_where_one_is_away(nats_server: NatsServer) -> None:
    """Also where the second is written without its scheme."""
    with NatsServer() as dead:
        pass
    away = await refused(BusAway, open_bus(dead.url).open())
    assert f"127.0.0.1:{dead.port}" in away.message
    assert "--bus" in (away.remedy or "")
    for _ in range(5):  # the order is drawn by lot
        async with opened(f"{dead.url},127.0.0.1:{nats_server.port}") as (bus,):
            assert bus.connected


async def test_two_installations_share_a_server(nats_server: NatsServer) -> None:
    async with opened(*(f"{nats_server.url}{path}" for path in ("/one", "/one", "/two", ""))) as buses:
        ears = [Heard() for _ in buses]
        for bus, ear in zip(buses, ears, strict=True):
            bus.subscribe("a", ear)
            await bus.flush()
        buses[2].serve("asked", Server("two"))
        await buses[2].flush()
        for number, bus in enumerate(buses):
            bus.publish("a", {"by": number})
        await ears[0].until({"by": 1})
        await ears[1].until({"by": 0})
        with pytest.raises(NobodyServes):
            await buses[0].request("asked", {}, within_s=LONG_S)
        for bus in buses:
            await bus.flush()
        assert [sorted(hint["by"] for hint in ear.all) for ear in ears] == [[0, 1], [0, 1], [2], [3]]


@pytest.mark.parametrize(
    "url",
    [
        "nats://",
        "nats:",
        f"nats://ann:{SECRET}@",
        f"nats://ann:{SECRET}@h:port",
        f"nats://ann:{SECRET}@h/a/b",
        f"nats://ann:{SECRET}@h/a?{SECRET}",
        f"nats://ann:{SECRET}@h?{SECRET}",
        f"nats://ann:{SECRET}@h,/a",
        f"tls://ann:{SECRET}@[::1/a",
        f"redis://ann:{SECRET}@h",
    ],
)
def test_a_url_that_means_nothing_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        open_bus(url)
    assert SECRET not in str(refusal.value)
    assert SECRET not in str(refusal.value.remedy)
    assert "nats://" in str(refusal.value.remedy)


def test_what_a_url_means() -> None:
    one, two = nats_address("nats://ann:%40@h:1,nats://[::1]/base").servers
    assert (one.url, one.user, one.password) == ("nats://h:1", "ann", "@")
    assert (two.url, two.user, two.password) == ("nats://[::1]:4222", "ann", "@")
    assert nats_address("nats://h/base").prefix == "cco.base"
    assert nats_address("tls://h/").prefix == "cco"
    assert nats_address("tls://h").servers[0].tls


@asynccontextmanager
async def foreign_server(*, hangs_up: bool = False, **info: Any) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that says of itself what it is told to, and what it was sent; ``hangs_up``: at the first message."""
    sent: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = {"server_id": "x", "version": "2.12.0", "max_payload": 1_000_000, "headers": True, **info}
        writer.write(f"INFO {json.dumps(said)}\r\n".encode())
        while line := await reader.readline():
            sent.append(line)
            if line == b"PING\r\n":
                writer.write(b"PONG\r\n")
            if hangs_up and line.startswith(b"PUB"):
                break
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"ann:{SECRET}@127.0.0.1:{server.sockets[0].getsockname()[1]}", sent
    finally:
        server.close()


@pytest.mark.parametrize("version", ["2.9.10", "1.4.1", "none of yours"])
async def test_an_old_server_is_refused(version: str) -> None:
    async with foreign_server(version=version) as (address, _):
        refusal = await refused(BusAway, open_bus(f"nats://{address}").open())
    assert version in refusal.message
    assert "2.10" in str(refusal.remedy)
    assert SECRET not in refusal.message


async def test_a_server_that_hangs_up_at_once_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """As any that cannot be reached: a start tries it again."""
    monkeypatch.setattr("orchestrator.adapters.bus.remote.FLUSH_S", 1.0)
    async with foreign_server(hangs_up=True) as (address, _):
        refusal = await refused(BusAway, open_bus(f"nats://{address}").open())
    assert "was there" in refusal.message
    assert SECRET not in refusal.message


async def test_a_password_meant_for_tls_is_not_told_in_the_clear() -> None:
    async with foreign_server() as (address, sent):
        refusal = await refused(BusAway, open_bus(f"tls://{address}").open())
        without = await refused(BusAway, open_bus(f"tls://{address.partition('@')[2]}").open())
    assert "TLS" in refusal.message
    assert "TLS" in without.message
    assert SECRET.encode() not in b"".join(sent)


async def test_a_user_who_may_not_do_what_the_bus_does_is_told_which_right_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the part that the operator gave, all is well."""
    monkeypatch.setattr("orchestrator.adapters.bus.remote.FLUSH_S", 1.0)
    rules = tmp_path / "nats.conf"
    rights = 'publish: ["cco.school.>"], subscribe: ["cco.school.>"]'
    rules.write_text(f"authorization {{ users = [ {{ user: cc, password: word, permissions: {{ {rights} }} }} ] }}\n")
    with NatsServer("-c", str(rules)) as server:
        url = f"nats://cc:word@127.0.0.1:{server.port}"
        refusal = await refused(BusAway, open_bus(url).open())
        assert "passes nothing on" in refusal.message
        assert "cco.>" in refusal.remedy
        async with opened(f"{url}/school", f"{url}/school") as (one, two):
            two.serve("a", Server("two"))
            await two.flush()
            assert (await one.request("a", {}, within_s=LONG_S)).payload


async def test_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate that the machine trusts is taken, another is not."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2", "-nodes"]
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", *subject]
    made += ["-keyout", str(key), "-out", str(certificate)]
    process = await asyncio.create_subprocess_exec(*made, stderr=subprocess.DEVNULL)
    assert await process.wait() == 0
    with NatsServer("--tls", "--tlscert", str(certificate), "--tlskey", str(key), "--auth", SECRET) as server:
        url = f"tls://{SECRET}@127.0.0.1:{server.port}"
        refusal = await refused(BusAway, open_bus(url).open())
        assert SECRET not in refusal.message
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        async with opened(url, url) as (one, two):
            two.serve("a", Server("two"))
            await two.flush()
            assert (await one.request("a", {}, b"x" * 2_000_000, within_s=LONG_S)).payload["by"] == "two"


# -- who stops ---------------------------------------------------------------------------------


async def test_a_node_that_dies_or_stops_is_noticed_and_does_nothing_late(nats_server: NatsServer) -> None:
    """Its requests are lost after five seconds of silence; when it wakes it begins none that nobody waits for.

    A node that lives and works for longer than that is waited for.
    """
    url = f"{nats_server.url}/stopping"
    async with (
        opened(url, url) as (bus, other),
        node_process(url, "dies") as (dies, dies_said),
        node_process(url, "stops") as (stops, stops_said),
    ):
        working = Server("works", free=False)
        other.serve("works", working)
        await other.flush()
        answered = asyncio.ensure_future(bus.request("works", {}, within_s=LONG_S))
        await working.until_begun()
        await bus.request("stops.mark", {}, within_s=LONG_S)
        asked = [asyncio.ensure_future(bus.request(f"{name}.stuck", {}, within_s=LONG_S)) for name in ("dies", "stops")]
        await dies_said("begun")
        await stops_said("begun")
        dies.kill()
        stops.send_signal(signal.SIGSTOP)
        asked += [
            asyncio.ensure_future(bus.request("stops.mark", {}, body, within_s=LONG_S)) for body in (b"", b"x" * 10)
        ]
        for request in asked:
            lost = await within(refused(RequestLost, request))
            assert "went away" in lost.message
        working.gate.set()
        assert (await answered).payload["by"] == "works"
        stops.send_signal(signal.SIGCONT)
        assert (await bus.request("stops.count", {}, within_s=LONG_S)).payload == {"marked": 1}
        with pytest.raises(NobodyServes):
            await bus.request("dies.mark", {}, within_s=LONG_S)


@pytest.mark.deep
async def test_a_request_that_takes_long_is_waited_for(nats_server: NatsServer) -> None:
    """For more than twice the silence that would be taken for its end."""
    async with opened(f"{nats_server.url}/long", f"{nats_server.url}/long") as (one, two):
        serving = Server("two", free=False)
        two.serve("a", serving)
        await two.flush()
        asked = asyncio.ensure_future(one.request("a", {}, within_s=LONG_S))
        done, _ = await asyncio.wait((asked,), timeout=12)
        assert not done
        serving.gate.set()
        assert (await asked).payload["by"] == "two"


async def test_a_request_that_lay_in_a_stopped_server_is_not_begun_late() -> None:
    """Its asker gave up; what is asked after is answered."""
    with NatsServer() as server:
        async with opened(server.url, server.url) as (one, two):
            serving = Server("two")
            two.serve("a", serving)
            await two.flush()
            server.stop()
            try:
                await refused(RequestLost, one.request("a", {"n": 1}, within_s=0.3))
                one.publish("a", {})
            finally:
                server.go_on()
            await one.request("a", {"n": 2}, within_s=LONG_S)
            assert serving.begun == [{"n": 2}]


async def test_a_server_away_for_longer_is_found_again(caplog: pytest.LogCaptureFixture) -> None:
    """Through tries that fail; a request in between is refused at once, and the bus says that it is not connected."""
    with NatsServer() as server:
        async with opened(server.url, server.url) as (one, two):
            two.serve("a", Server("two"))
            await two.flush()
            server.kill()
            await _until(lambda: not one.connected and not two.connected)
            # Far less than either would wait for an answer.
            await within(refused(NobodyServes, one.request("a", {}, within_s=LONG_S)))
            await within(refused(RequestLost, one.flush()))
            caplog.set_level(logging.INFO)
            await _until(lambda: "could not be reached" in caplog.text)
            server.start()
            await _until(lambda: one.connected and two.connected)
            assert (await one.request("a", {}, within_s=LONG_S)).payload["by"] == "two"


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANG_S):
        while not holds():  # noqa: ASYNC110 - what it looks at tells nobody
            await asyncio.sleep(0.01)


@pytest.mark.deep
async def test_requests_while_the_server_is_killed_again_and_again() -> None:
    """Each ends in its time, is begun once at the most, once where it was answered, and never where nobody got it."""
    begun: Counter[int] = Counter()
    ends: dict[str, list[int]] = {"answered": [], "lost": [], "nobody": []}
    numbers, over = count(), asyncio.Event()

    async def serve(payload: Mapping[str, Any], body: bytes) -> Answer:
        begun[payload["n"]] += 1
        await asyncio.sleep(0.02)
        return Answer({}, body)

    async def ask(bus: Bus) -> None:
        while not over.is_set():
            number = next(numbers)
            try:
                async with asyncio.timeout(HANG_S):
                    await bus.request("a", {"n": number}, bytes(number % 50 * 40_000), within_s=2)
            except RequestLost:
                ends["lost"].append(number)
            except NobodyServes:
                ends["nobody"].append(number)
                await asyncio.sleep(0.01)
            else:
                ends["answered"].append(number)

    with NatsServer() as server:
        async with opened(*[server.url] * 4) as buses:
            for bus in buses[2:]:
                bus.serve("a", serve)
                await bus.flush()
            askers = [asyncio.ensure_future(ask(bus)) for bus in buses[:2] * 10]
            for round_ in range(8):
                had = len(ends["answered"])
                await _until(lambda had=had: len(ends["answered"]) > had + 20)  # type: ignore[misc]
                server.kill()
                await asyncio.sleep(0.1 * round_)
                server.start()
            over.set()
            await asyncio.gather(*askers)
    assert max(begun.values()) == 1
    assert all(begun[number] for number in ends["answered"])
    assert not any(begun[number] for number in ends["nobody"])
    assert min(map(len, ends.values())) > 0
    assert sum(map(len, ends.values())) == next(numbers)


# -- strange messages, and long ones ----------------------------------------------------------


async def test_messages_of_others_harm_nobody(nats_server: NatsServer) -> None:
    """Whatever comes on the subjects of a bus, its hints and requests go on; room that was promised is free again."""
    async with opened(f"{nats_server.url}/odd", f"{nats_server.url}/odd") as (one, two):
        ear = Heard()
        two.subscribe("a", ear)
        two.serve("a", Server("two"))
        await two.flush()
        _, other = await asyncio.open_connection("127.0.0.1", nats_server.port)
        other.write(b"CONNECT {}\r\n")
        node = getattr(two, "id")  # noqa: B009 - of this adapter only
        long = {"from": "nobody", "until": 1e12, "left_s": 5, "key": "1", "size": 60 * 1024 * 1024}
        says: list[Mapping[str, Any]] = [{}, {"op": "get"}, {"op": "time"}, {"op": "answer"}, {"from": 1}, long, long]
        letters = [len(said := json.dumps(each).encode()).to_bytes(4, "big") + said for each in says]
        for data in (b"", b"xyz", b"\0\0\0\xffab", b"\0\0\0\2[]", b"\0\0\0\2{}", *letters):
            for subject in ("h.a", "r.a", f"i.{node}.1", f"i.{node}.none"):
                line = f"PUB cco.odd.{subject} cco.odd.i.{node}.2 {len(data)}\r\n"
                other.write(line.encode() + data + b"\r\n")
        await other.drain()
        other.close()
        one.publish("a", {"n": 1})
        assert await ear.until({"n": 1}) == [{"n": 1}]
        body = b"x" * 10_000_000
        assert (await one.request("a", {}, body, within_s=LONG_S)).body == body


async def test_what_is_too_long_is_refused(nats_server: NatsServer) -> None:
    async def long(_payload: Mapping[str, Any], _body: bytes) -> Answer:
        return Answer({}, bytes(65 * 1024 * 1024))

    async with opened(f"{nats_server.url}/long", f"{nats_server.url}/long") as (one, two):
        two.serve("a", long)
        await two.flush()
        refusal = await refused(InvalidRequest, one.request("a", {}, bytes(65 * 1024 * 1024), within_s=LONG_S))
        assert "64 MiB" in refusal.message
        lost = await within(refused(RequestLost, one.request("a", {}, within_s=LONG_S)))
        assert "more than an answer takes" in lost.message


async def test_a_hint_that_is_too_long_is_dropped_and_the_next_is_heard(
    nats_server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(f"{nats_server.url}/hint", f"{nats_server.url}/hint") as (one, two):
        ear = Heard()
        two.subscribe("a", ear)
        await two.flush()
        one.publish("a", {"long": "x" * 2_000_000})
        one.publish("a", {"long": "x" * 2_000_000})
        one.publish("a", {"n": 1})
        assert await ear.until({"n": 1}) == [{"n": 1}]
    assert caplog.text.count("hints are dropped") == 1


async def test_hints_of_several_subjects_are_heard_in_one_order(nats_server: NatsServer) -> None:
    async with opened(f"{nats_server.url}/order", f"{nats_server.url}/order") as (one, two):
        ear = Heard()
        for subject in ("a", "b", "c"):
            two.subscribe(subject, ear)
        await two.flush()
        sent = [{"n": number} for number in range(999)]
        for number, payload in enumerate(sent):
            one.publish("abc"[number % 3], payload)
        assert await ear.until(sent[-1]) == sent


# -- a cluster -----------------------------------------------------------------------------------


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bytes]]:
    """What links write from now on: how many notifications that waited, and what goes out with them."""
    found: list[tuple[int, bytes]] = []
    write = nats_link.Link._write

    def noted(link: nats_link.Link, data: bytes) -> None:
        found.append((bytes(link._hints).count(b"PUB "), data))
        write(link, data)

    monkeypatch.setattr(nats_link.Link, "_write", noted)
    return found


async def test_notifications_gather_and_go_with_what_somebody_waits_for(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch, writes: list[tuple[int, bytes]]
) -> None:
    """The first goes at once; of those that follow soon none is sent by itself, none is lost, and all come first."""
    heard = Heard()

    async def count(payload: Mapping[str, Any], body: bytes) -> Answer:
        del payload, body
        return Answer({"heard": len(heard.all)})

    async with opened(nats_server.url, nats_server.url) as (one, two):
        two.subscribe("a", heard)
        two.serve("b", count)
        await two.flush()
        # Now two knows the clock of one, and begins the next request in the turn in which it comes.
        await one.request("b", {}, within_s=HANG_S)
        monkeypatch.setattr(nats_link, "HINTS_APART_S", HANG_S)
        one.publish("a", {"n": 0})
        await heard.until({"n": 0})
        for number in range(1, 30):
            one.publish("a", {"n": number})
            await asyncio.sleep(0)
        assert (await one.request("b", {}, within_s=HANG_S)).payload == {"heard": 30}
        assert heard.all == [{"n": number} for number in range(30)]
        assert [hints for hints, _ in writes if hints] == [1, 29]


async def test_notifications_that_follow_one_another_go_soon(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch, writes: list[tuple[int, bytes]]
) -> None:
    """Those that wait go by themselves, where nothing else is sent; when a node ends, the last ones go."""
    monkeypatch.setattr(nats_link, "PING_S", HANG_S)
    async with opened(nats_server.url) as (two,):
        heard = Heard()
        two.subscribe("a", heard)
        await two.flush()
        async with opened(nats_server.url) as (one,):
            writes.clear()
            for number in range(3):
                one.publish("a", {"n": number})
            await heard.until({"n": 2})
            assert writes == [(1, b""), (2, b"")]
            for number in range(3, 6):
                one.publish("a", {"n": number})
        assert await heard.until({"n": 5}) == [{"n": number} for number in range(6)]


async def test_a_link_that_is_closed_sends_what_waits(nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told to it later is dropped, and no timer goes on for it."""
    monkeypatch.setattr(nats_link, "HINTS_APART_S", HANG_S)
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    address = nats_address(nats_server.url)
    one, two = (nats_link.Link(address.servers[0], lambda came: heard.put_nowait(came.data), address) for _ in "12")
    await two.connect("two")
    two.subscribe("closed")
    two.publish("closed", b"subscribed")
    assert await within(heard.get()) == b"subscribed"
    await one.connect("one")
    for number in range(3):
        one.tell("closed", b"%d" % number)
    await one.close()
    assert [await within(heard.get()) for _ in range(3)] == [b"0", b"1", b"2"]
    await two.close()
    two.tell("closed", b"3")
    assert two._sending is None


@contextmanager
def cluster(*options: str, size: int = 3) -> Iterator[list[NatsServer]]:
    """Servers that know each other, and clients of one hear of all."""
    ports = [free_port() for _ in range(size)]
    routes = ["--routes", ",".join(f"nats://127.0.0.1:{port}" for port in ports), "--cluster_name", "base", *options]
    with ExitStack() as stack:
        yield [
            stack.enter_context(NatsServer("--cluster", f"nats://127.0.0.1:{port}", *routes, *options))
            for port in ports
        ]


def at(bus: Bus) -> str:
    """The server on which a bus is."""
    link = bus._line  # type: ignore[attr-defined]
    return link.shown if link is not None and bus.connected else ""


async def knows(bus: Bus, servers: Sequence[NatsServer]) -> None:
    """Wait until all of the cluster were named to it."""
    link = bus._line  # type: ignore[attr-defined]
    await _until(lambda: set(link.places) == {f"127.0.0.1:{server.port}" for server in servers})


@pytest.mark.parametrize("dies", [False, True], ids=["says nothing", "is killed"])
async def test_a_server_that_is_gone_is_left_for_another_of_its_cluster_which_no_url_names(dies: bool) -> None:
    """One that only stands still is left too; and from the one that is found then, the next."""
    with cluster() as servers:
        (first, *others) = servers
        async with opened(first.url) as (bus,):
            await knows(bus, servers)
            first.kill() if dies else first.stop()
            try:
                second = f"127.0.0.1:{first.port}"
                await _until(lambda: at(bus) not in {"", second})
                left = next(server for server in others if at(bus).endswith(f":{server.port}"))
                await knows(bus, servers) if not dies else None
                left.kill()
                third = next(server for server in others if server is not left)
                await _until(lambda: at(bus) == f"127.0.0.1:{third.port}")
                await bus.flush()
            finally:
                first.start() if dies else first.go_on()


def test_a_dead_server_is_left_within_five_seconds() -> None:
    """The longest silence, and the moment that a server has which is tried before the next."""
    assert nats_link.PING_S * (nats_link.PINGS + 1) + nats_servers.BESIDE_S <= 5


async def test_servers_that_say_nothing_are_not_waited_for_one_by_one(nats_server: NatsServer) -> None:
    """Each alone would take three seconds, and be tried before: it was named first."""
    with ExitStack() as stack:
        dead = [stack.enter_context(NatsServer()) for _ in range(3)]
        for server in dead:
            server.stop()
            stack.callback(server.go_on)
        urls = [nats_address(server.url).servers[0] for server in (*dead, nats_server)]
        tried: list[str] = []

        async def connect(server: nats_protocol.NatsServer) -> nats_link.Link:
            tried.append(server.shown)
            link = nats_link.Link(server, lambda _: None, nats_address(server.url))
            await link.connect("a")
            return link

        async with asyncio.timeout(HANG_S):
            link = await nats_servers.first_that_answers(urls, connect)
        assert link.shown == tried[-1] == f"127.0.0.1:{nats_server.port}"
        assert len(tried) == 4
        await link.close()


async def test_a_network_that_takes_long_for_what_goes_out_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pings wait behind what goes out before them; while that goes, somebody is there."""
    monkeypatch.setattr(nats_link, "PING_S", 0.2)
    seen, ended = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"version":"2.12.0"}\r\n')
        while b"PING" not in await reader.readline():
            pass
        writer.write(b"PONG\r\n")
        while await reader.read(20_000):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.002):
                    await seen.wait()
        writer.close()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=20_000)
    url = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    link = nats_link.Link(nats_address(url).servers[0], lambda _: None, nats_address(url))
    try:
        await link.connect("a")
        link.publish("a", bytes(16_000_000))
        await _until(lambda: link.waiting_bytes < 4_000_000 or link.lost.is_set())
        assert not link.lost.is_set()
    finally:
        seen.set()
        # What waits is sent before the connection is closed.
        await link.close()
        await within(ended.wait())
        server.close()
