"""Screens and keys of a computer that hangs on another node than the one that is asked."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cc_client.simulator.install import install
from orchestrator.computers.hub import Gone, Hidden, Seen, Typed, Watcher
from orchestrator.computers.hub import mirror as hub_mirror
from orchestrator.computers.nodes import table
from orchestrator.computers.nodes.messages import watches_to
from orchestrator.core.wire import wire
from orchestrator.core.wire.picture import Row, row_bytes
from orchestrator.core.wire.screen_messages import of_text
from orchestrator.core.wire.wire import ComputerId
from orchestrator.testing.stub_computer import StubComputer
from tests.computers.nodes.several import Several, several, until
from tests.harness.screening import KEYS, SCREEN, events, stub, told
from tests.harness.simulating import playing
from tests.harness.support import StubClient, dialed
from tests.nats_servers import NatsServer
from tests.waiting import HANG_S, within

FARM = ComputerId("farm")


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Several]:
    async with several(tmp_path, "alpha", "beta") as nodes, needed(nodes):
        yield nodes


@asynccontextmanager
async def needed(nodes: Several) -> AsyncIterator[None]:
    """Every node knows where the computers are, as the endpoints see to it that use its mirror."""
    async with AsyncExitStack() as stack:
        for one in nodes.nodes.values():
            await stack.enter_async_context(one.orchestrator.node.fleet.pinned([FARM, ComputerId("old")]))
        yield


@pytest.fixture(scope="module")
def nats_server() -> Iterator[NatsServer]:
    """A real bus, for the tests that want one."""
    with NatsServer() as server:
        yield server


@asynccontextmanager
async def farm(nodes: Several, name: str, token: str) -> AsyncIterator[StubComputer]:
    """A computer at a node, of which every node knows."""
    async with stub(nodes[name], token) as computer:
        await until(lambda: nodes.everywhere("farm"))
        yield computer


def mirror(nodes: Several, name: str) -> hub_mirror.Mirror:
    return nodes[name].orchestrator.node.fleet.mirror


def watched(nodes: Several, name: str) -> int:
    """How many screens other nodes watch at this one."""
    return nodes[name].orchestrator.node.showing.watched


async def seen(watcher: Watcher) -> Any:
    """The next sight, which has to come."""
    sight = await within(watcher.next(HANG_S))
    assert sight is not None
    return sight


def text(sight: Any, number: int) -> str:
    """A row of what is seen."""
    assert isinstance(sight, Seen), sight
    row = sight.shown.rows[number - 1]
    assert row is not None
    return row.text.decode("latin-1").rstrip()


async def test_a_screen_at_another_node_is_shown_typed_at_and_written_down(two: Several) -> None:
    """Whole, what changes, which screens there are; the note is made by the node that was asked."""
    token = await two["beta"].computer("farm")
    async with events(two["alpha"]) as stream:
        assert await told(stream) == ("away", {"of": "terminal"})
        async with farm(two, "beta", token) as computer:
            kind, data = await told(stream)
            assert (kind, data["whole"], data["width"], len(data["rows"])) == ("picture", True, 51, 19)
            computer.screen.draw(2, b"h\xe9llo \x03", "e", "1")
            kind, data = await told(stream)
            assert (kind, data["whole"], [row["y"] for row in data["rows"]]) == ("picture", False, [2])
            assert "".join(data["rows"][0]["text"]).rstrip() == "h\u00e9llo \u2665"
            listed = (await two["alpha"].ask("GET", f"{SCREEN}s")).json()
            assert listed == {"screens": [{"of": "terminal", "width": 51, "height": 19}]}
            async with events(two["alpha"], path=f"{SCREEN}?of=left") as other:
                assert (await told(other))[0] == "unreadable"
            answer = await two["alpha"].ask("POST", KEYS, {"text": "hi\n"})
            assert answer.json() == {"delivered": True, "message": ""}
            assert computer.screen.typed == [{"paste": "hi"}, {"key": "enter"}]
            computer.screen.refuses = "Its window is gone."
            answer = await two["alpha"].ask("POST", KEYS, {"text": "y"})
            assert answer.json() == {"delivered": False, "message": "Its window is gone."}
            found = (await two["beta"].ask("GET", "/v1/audit?system=1&kind=keys_sent&whole=1")).json()["items"]
            assert [one["fact"]["text"] for one in found] == ["hi\n", "y"]
        assert await told(stream) == ("away", {"of": "terminal"})
    away = await two["alpha"].ask("POST", KEYS, {"text": "x"})
    assert (away.status_code, away.json()["error"]["code"]) == (409, "computer_away")


async def test_all_who_look_at_one_node_share_one_watch_which_ends_with_the_last(two: Several) -> None:
    """Nothing is sent while nobody looks; of several nodes the computer has one watch."""
    async with farm(two, "beta", await two["beta"].computer("farm")) as computer:
        assert not computer.screen.is_watched
        with mirror(two, "alpha").watching(FARM) as first, mirror(two, "alpha").watching(FARM) as second:
            for watcher in (first, second):
                assert text(await seen(watcher), 1) == ""
            assert watched(two, "beta") == 1
            computer.screen.draw(1, b"one")
            assert [text(await seen(watcher), 1) for watcher in (first, second)] == ["one", "one"]
            with mirror(two, "beta").watching(FARM) as here:
                assert text(await seen(here), 1) == "one"
        await until(lambda: watched(two, "beta") == 0 and not computer.screen.is_watched)


async def test_a_picture_that_is_lost_on_the_way_is_noticed(two: Several, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the count of the next, or at the latest when the watch is renewed; the whole is told again."""
    monkeypatch.setattr(hub_mirror, "RENEW_S", 0.1)
    subject = f"pictures.{two['alpha'].orchestrator.node.presence.node}"
    lost = two.lines["beta"].lost
    async with farm(two, "beta", await two["beta"].computer("farm")) as computer:
        with mirror(two, "alpha").watching(FARM) as watcher:
            await seen(watcher)
            monkeypatch.setattr(hub_mirror, "RENEW_S", 10 * HANG_S)
            await _lose(two, computer, lost, subject, b"lost")
            computer.screen.draw(2, b"next")
            sight = await seen(watcher)
            assert (sight.rows, text(sight, 1), text(sight, 2)) == (None, "lost", "next")
            await _lose(two, computer, lost, subject, b"last")
            monkeypatch.setattr(hub_mirror, "RENEW_S", 0.1)
            mirror(two, "alpha")._renew()
            sight = await seen(watcher)
            assert (sight.rows, text(sight, 1)) == (None, "last")


async def _lose(nodes: Several, computer: StubComputer, lost: list[str], subject: str, row: bytes) -> None:
    """Draw a row whose picture is lost between the nodes."""
    with mirror(nodes, "beta").watching(FARM) as here:
        await seen(here)
        lost.append(subject)
        computer.screen.draw(1, row)
        assert text(await seen(here), 1) == row.decode()
        # The other node's watcher rests no longer than this one.
        await seen_again(here, computer)
    lost.remove(subject)


async def seen_again(here: Watcher, computer: StubComputer) -> None:
    """Once more something was told here, by when every other watcher has been told what came before."""
    computer.screen.draw(19, b"")
    await seen(here)


async def test_a_watch_ends_with_the_node_that_watches_and_where_it_is_not_renewed(
    two: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is not heard any more, and one whose renewals are lost."""
    monkeypatch.setattr(hub_mirror, "LEASE_S", 1)
    monkeypatch.setattr(table, "GONE_AFTER_S", 2.0)
    beta = two["beta"].orchestrator.node.presence.node
    async with farm(two, "beta", await two["beta"].computer("farm")) as computer:
        with mirror(two, "alpha").watching(FARM) as watcher:
            await seen(watcher)
            two.lines["alpha"].lost.append(watches_to(beta))
            await until(lambda: watched(two, "beta") == 0 and not computer.screen.is_watched)
            two.lines["alpha"].lost.clear()
        monkeypatch.setattr(hub_mirror, "LEASE_S", 60)
        with mirror(two, "alpha").watching(FARM) as watcher:
            await seen(watcher)
            assert watched(two, "beta") == 1
            two.lines["alpha"].cut = True
            await until(lambda: watched(two, "beta") == 0 and not computer.screen.is_watched)


async def test_who_moves_to_another_node_while_watched_is_gone_and_then_seen_whole(two: Several) -> None:
    """From here to there, and back."""
    token = await two["alpha"].computer("farm")
    with mirror(two, "alpha").watching(FARM) as watcher:
        assert await seen(watcher) == Gone()
        for name in ("alpha", "beta", "alpha"):
            async with dialed(two[name].url, token) as client:
                await client.greet(capabilities=("mirror", "keys"))
                asked, _ = await client.hear("watch")
                await _show(client, asked.watch, name.encode())
                sight = await seen(watcher)
                assert (sight.rows, text(sight, 1)) == (None, name)
            assert await seen(watcher) == Gone()
            await until(lambda: watched(two, "beta") == 0)


async def _show(client: StubClient, watch: int, row: bytes) -> None:
    """Send a screen of one row."""
    body = row_bytes(1, Row(row.ljust(5), "0" * 5, "f" * 5))
    values: dict[str, Any] = {"width": 5, "height": 1, "x": 1, "y": 1, "blink": False, "body": wire.whole(body)}
    await client.send(wire.Picture(journal_seq=0, watch=watch, n=1, whole=True, **values), body)


async def test_the_watch_goes_with_a_computer_whose_connections_overlap(two: Several) -> None:
    """The newer one counts: the watch begins there, at whichever node, and what the older says is nothing."""
    token = await two["alpha"].computer("farm")
    values = {"capabilities": ("mirror", "keys")}
    with mirror(two, "alpha").watching(FARM):
        async with dialed(two["alpha"].url, token) as first, dialed(two["beta"].url, token) as second:
            await first.greet(**values)
            await first.hear("watch")
            await second.greet(**values)
            await second.hear("watch")
            async with dialed(two["alpha"].url, token) as third:
                await third.greet(**values)
                await third.hear("watch")
                await until(lambda: watched(two, "beta") == 0)


async def test_what_cannot_be_watched_at_the_other_node_is_said(two: Several, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many look there as may, or the client is too old."""
    token = await two["beta"].computer("farm")
    async with farm(two, "beta", token):
        monkeypatch.setattr(hub_mirror, "MAX_WATCHERS", 1)
        with mirror(two, "beta").watching(FARM), mirror(two, "alpha").watching(FARM) as watcher:
            sight = await seen(watcher)
            assert isinstance(sight, Hidden)
            assert "Too many watch" in sight.message
    async with dialed(two["beta"].url, await two["beta"].computer("old")) as client:
        await client.greet()
        await until(lambda: two.online("alpha", "old"))
        with mirror(two, "alpha").watching(ComputerId("old")) as watcher:
            sight = await seen(watcher)
            assert isinstance(sight, Hidden)
            assert "too old" in sight.message


@asynccontextmanager
async def silent(nodes: Several) -> AsyncIterator[StubClient]:
    """A computer at beta that answers nothing by itself."""
    async with dialed(nodes["beta"].url, await nodes["beta"].computer("farm")) as client:
        await client.greet(capabilities=("mirror", "keys"))
        await until(lambda: nodes.online("alpha", "farm"))
        yield client


async def test_keys_whose_node_dies_are_unknown_and_typed_once(two: Several) -> None:
    """They arrived, and nobody says so: they are not sent again."""
    async with silent(two) as client:
        typing = asyncio.create_task(mirror(two, "alpha").type(FARM, of_text("x")))
        asked, body = await client.hear("keys")
        assert body == b'[{"char":"x"}]'
        two.lines["beta"].cut = True
        await client.send(wire.Keyed(journal_seq=2, keys=asked.keys, ok=True))
        typed = await within(typing)
        assert typed.delivered is None
        assert "not known" in typed.message


async def test_keys_for_a_computer_that_has_left_unnoticed_are_not_typed(two: Several) -> None:
    """The node that is asked asks no other, and says that nothing went out."""
    async with silent(two) as client:
        two.lines["beta"].lost += ["nodes.computers", "nodes.beat"]
        await client.socket.close()
        await until(lambda: two.offline("beta", "farm"))
        typed = await within(mirror(two, "alpha").type(FARM, of_text("x")))
        assert typed == Typed(delivered=False, message="Computer farm is away. Nothing was typed.")


async def test_the_game_s_own_screen_is_seen_through_a_real_bus(tmp_path: Path, nats_server: NatsServer) -> None:
    """The real client in the simulator at one node, seen and typed at through the other."""
    async with several(tmp_path, "alpha", "beta", url=nats_server.url) as nodes, needed(nodes):
        token, disk = await nodes["beta"].computer("farm"), tmp_path / "disk"
        disk.mkdir()
        install(disk, f"ws{nodes['beta'].url.removeprefix('http')}/computer", token)
        (disk / "startup.lua").write_text('shell.run("/.cc-orchestrator/boot.lua --startup /startup.lua")\n', "utf-8")
        async with playing(disk, "--family", "advanced"):
            await until(lambda: nodes.online("alpha", "farm"))
            with mirror(nodes, "alpha").watching(FARM) as watcher:
                # The row of the computer may be there before the message that the mirror waits for.
                await _until_rows_have(watcher, b"> ")
                answer = await nodes["alpha"].ask("POST", KEYS, {"text": "far away"})
                assert answer.json()["delivered"] is True
                await _until_rows_have(watcher, b"far away")


async def _until_rows_have(watcher: Watcher, wanted: bytes) -> None:
    async with asyncio.timeout(HANG_S):
        while wanted not in _rows(await seen(watcher)):
            pass


def _rows(sight: Any) -> bytes:
    """What is on the screen; empty where nothing is seen."""
    return b"\n".join(row.text for row in sight.shown.rows if row is not None) if isinstance(sight, Seen) else b""


async def test_a_token_that_is_revoked_at_one_node_ends_the_computer_s_connection_at_another(two: Several) -> None:
    """Within a second or so, as at the node itself."""
    async with dialed(two["beta"].url, await two["beta"].computer("farm")) as client:
        await client.greet()
        await two["alpha"].ask("DELETE", "/v1/tokens/computer/farm")
        async with asyncio.timeout(HANG_S):
            assert await client.closed() == (1008, "the token was revoked")
