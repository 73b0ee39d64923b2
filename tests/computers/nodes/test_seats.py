"""Where computers are is in the store: a node keeps its own and what it needs, and wrong rows are put right."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchestrator.core.errors import StoreAway
from orchestrator.core.ports import SeatRow
from orchestrator.core.wire.wire import ComputerId
from tests.computers.nodes.several import Several, several, until
from tests.harness.support import dialed

FARM = ComputerId("3")
MANY = 500


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Several]:
    async with several(tmp_path, "alpha", "beta") as nodes:
        yield nodes


async def row(two: Several, computer: ComputerId = FARM) -> SeatRow:
    (found,) = await two.store.seats([computer])
    return found


async def test_of_hundreds_at_one_node_another_keeps_none_and_finds_each(two: Several) -> None:
    """A pinned one is there while it is pinned, and follows it when it leaves; the list is read from the store."""
    fleet = two["alpha"].orchestrator.node.fleet
    table = two["alpha"].orchestrator.node.presence.table
    names = [ComputerId(f"c{number:03}") for number in range(MANY)]
    async with AsyncExitStack() as stack:
        for name in names:
            client = await stack.enter_async_context(dialed(two["beta"].url, await two["beta"].computer(name)))
            await client.greet()
        assert (table._places, table._pins, two["alpha"].orchestrator.hub.list_computers()) == ({}, {}, [])
        assert two["alpha"].orchestrator.node.fleet.screens._lines == {}
        found = await fleet.look(names)
        assert {(one.info.online, one.node) for one in found.values()} == {(True, "beta")}
        assert [one["computers"] for one in two["alpha"].orchestrator.node.nodes()] == [0, MANY]
        async with fleet.pinned([names[-1]]):
            assert list(table._places) == [names[-1]]
            await client.socket.close()
            await until(lambda: table.connected(names[-1]) is None)
        assert table._places == {}


async def test_a_farewell_that_the_store_did_not_take_is_written_later(
    two: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then the node says itself that the computer is not there."""
    refused = asyncio.Event()

    async def away(rows: Sequence[SeatRow]) -> None:
        refused.set()
        raise StoreAway("The store cannot be reached.")

    async with dialed(two["beta"].url, await two["beta"].computer("3")) as client:
        await client.greet()
        assert (await row(two)).left_at is None
        with monkeypatch.context() as broken:
            broken.setattr(two["beta"].orchestrator.node.fleet.seats._store, "keep_seats", away)
            await client.socket.close()
            await until(refused.is_set)
            assert (await row(two)).left_at is None
        await until(lambda: two.offline("alpha"))
        assert (await row(two)).left_at is not None


async def test_a_row_that_says_too_long_that_a_computer_is_here_is_put_right(two: Several) -> None:
    """Its farewell was lost: whoever is asked for it in vain looks, and pages are told."""
    told = list[str]()
    two.lines["alpha"].subscribe("computers", lambda hint: told.append(hint["computer"]))
    async with dialed(two["beta"].url, await two["beta"].computer("3")) as client:
        await client.greet()
        there = await row(two)
        await client.socket.close()
        await until(lambda: two.offline("alpha"))
    await two.store.keep_seats([there])
    assert await two.online("alpha")
    told.clear()
    seats = two["beta"].orchestrator.node.fleet.seats
    seats.suspect(FARM)
    await until(lambda: told == ["3"])
    assert await two.offline("alpha")


async def test_a_late_farewell_changes_nothing_of_a_later_welcome(two: Several) -> None:
    """The computer moved, and the farewell of its first node comes when it is long at the other."""
    token = await two["beta"].computer("3")
    async with dialed(two["beta"].url, token) as old:
        await old.greet()
        first = await row(two)
        async with dialed(two["alpha"].url, token) as new:
            await new.greet()
            later = await row(two)
            assert (later.node, later.number > first.number) == (two["alpha"].orchestrator.node.presence.node, True)
            await old.closed()
            await two.store.keep_seats([replace(first, left_at=datetime.now(UTC))])
            assert await two.node_of("beta") == "alpha"
            assert (await row(two)).left_at is None


async def test_of_the_nodes_that_are_left_one_tells_of_the_computers_that_went(two: Several) -> None:
    """A node was killed: its computers are away, and pages that show them read them again."""
    told = list[str]()
    two.lines["alpha"].subscribe("computers", lambda hint: told.append(hint["computer"]))
    async with dialed(two["beta"].url, await two["beta"].computer("3")) as client:
        await client.greet()
        await until(lambda: told == ["3"])
        two.lines["beta"].cut = True
        await until(lambda: told == ["3", "3"])
        assert await two.offline("alpha")
        assert (await row(two)).left_at is None
