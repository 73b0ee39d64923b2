"""What a computer costs that does nothing: frames over minutes of virtual time on a real socket."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from orchestrator.core.wire import wire
from tests.harness.hub_server import hub_server
from tests.harness.support import StubClient, dialed
from tests.story.virtual import VirtualLoop

MINUTES = 6
BUDGET_S = 45.0
"""At most one frame in this time, in each direction."""


@pytest.mark.parametrize("direct", [False, True], ids=["any-socket", "direct"])
def test_an_idle_computer_costs_one_frame_in_45_seconds_and_stays(direct: bool) -> None:
    """Both sides hear of each other well within `silence_s`, and neither says more than that takes."""
    loop = VirtualLoop(patience_s=0.02)
    try:
        down, up, gap = loop.run_until_complete(_idle(direct))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
    assert set(down) == {"ping"}
    assert 0 < down.total() <= MINUTES * 60 / BUDGET_S
    assert up == down.total()
    assert BUDGET_S <= gap < wire.SILENCE_S / 2


async def _idle(direct: bool) -> tuple[Counter[str], int, float]:
    """What came down, how many frames went up, and the longest time without one."""
    clock = asyncio.get_running_loop().time
    down, up, gap = Counter[str](), 0, 0.0
    async with hub_server(direct=direct) as server, dialed(server.url) as client:
        await client.greet()
        await server.journal.arrivals.get()
        began = last = clock()
        while clock() < began + MINUTES * 60:
            message, _ = await _heard(client)
            down[message.type] += 1
            gap, last = max(gap, clock() - last), clock()
            await client.send(wire.Pong(journal_seq=1, n=message.n))
            up += 1
        assert server.online()
    return down, up, gap


async def _heard(client: StubClient) -> tuple[Any, bytes]:
    data = await client.socket.recv()
    assert isinstance(data, bytes)
    return wire.decode_any(data)
