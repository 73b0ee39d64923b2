"""Each node in turn is told to stop, ends, and is started again, while tasks run: nobody notices but by the clock."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from orchestrator.core.task import facts
from tests.nats_servers import NatsServer
from tests.servers import PostgresServer
from tests.story.harness import facts_of, last_words
from tests.story.school import Node, School
from tests.story.test_several_nodes import NODES, Size, school

pytestmark = pytest.mark.deep

GRACE_S: Final = 1.0
"""Four times what the balancer takes to look."""
DRAIN_S: Final = 4.0
ENDS_WITHIN_S: Final = GRACE_S + DRAIN_S + 6.0
"""For the rest: rehearsals, sockets, what listens, the last checkpoint."""
BACK_WITHIN_S: Final = 8.0
"""A computer dials again after a second at first, with jitter, and doubles that where it met a node that stops."""
WAITS_AT_MOST_S: Final = 8.0
"""A task, for the next thing that happens to it: its computer may just be on its way to another node."""

SMALL: Final = Size(stubs=3, real=1, tasks=6, at_once=3, kills=0)
LARGE: Final = Size(stubs=120, real=10, tasks=150, at_once=40, kills=0)


async def _all_connected(one: School, but: Node) -> float:
    """How long it takes until every computer is connected, as the nodes ``but`` that one see it."""
    api, began = one.person(), asyncio.get_running_loop().time()
    while True:
        rows = (await api.ok("GET", "/v1/computers"))["computers"]
        nodes = (await api.ok("GET", "/v1/nodes"))["nodes"]
        # A node that is gone must not be taken for one that still has them.
        if all(row["online"] for row in rows) and all(row["url"] != but.url for row in nodes):
            await api.http.aclose()
            return asyncio.get_running_loop().time() - began
        await asyncio.sleep(0.1)


async def _restart_each(one: School, rounds: int, *, timed: bool) -> None:
    """Stop and start one node after the other, each once all is well again; ``timed``: in the promised time."""
    loop = asyncio.get_running_loop()
    for node in one.nodes * rounds:
        await asyncio.sleep(0.3)
        began = loop.time()
        assert await node.stop() == 0, "the node did not end well"
        assert loop.time() - began < ENDS_WITHIN_S or not timed
        assert await _all_connected(one, node) < BACK_WITHIN_S or not timed
        await node.start()
        while node.port not in one.balancer.well:  # noqa: ASYNC110 - it looks by itself
            await asyncio.sleep(0.05)


def _check_smooth(one: School, *, timed: bool) -> None:
    """No call's outcome is unknown, no request was missed, and (``timed``) no task stood still for long."""
    assert not one.missed
    for task_id, items in one.seen.items():
        unknown = [fact for fact in facts_of(items, facts.ToolSettled) if fact.state == "unknown"]
        assert not unknown, f"{task_id}: {unknown}"
        waits = [(after.at - before.at).total_seconds() for before, after in pairwise(items)]
        assert max(waits) < WAITS_AT_MOST_S or not timed, f"{task_id} waited for {max(waits)} s"


async def _roll(tmp: Path, size: Size, rounds: int, postgres: PostgresServer, bus: Callable[[str], str]) -> None:
    url = postgres.url(await postgres.new_database())
    more: dict[str, Any] = {"grace_s": GRACE_S, "drain_s": DRAIN_S, "lease_s": 30.0}
    async with school(tmp, size, 1, url, bus(url), **more) as one:
        # Before the balancer has looked for the first time it has no node.
        one.missed.clear()
        rolling = asyncio.create_task(_restart_each(one, rounds, timed=size is LARGE))
        try:
            await one.give(size.tasks, size.at_once, rolling)
        finally:
            rolling.cancel()
            await asyncio.gather(rolling, return_exceptions=True)
        await one.check()
        _check_smooth(one, timed=size is LARGE)


@pytest.mark.parametrize(
    ("size", "rounds", "bus"),
    [
        pytest.param(SMALL, 1, "nats", id="small"),
        pytest.param(SMALL, 1, "postgresql", id="small on PostgreSQL alone", marks=pytest.mark.deep),
        pytest.param(LARGE, 3, "nats", id="large", marks=[pytest.mark.deep, pytest.mark.timeout(900)]),
        pytest.param(
            LARGE, 3, "postgresql", id="large on PostgreSQL alone", marks=[pytest.mark.deep, pytest.mark.timeout(900)]
        ),
    ],
)
async def test_nobody_notices(tmp_path: Path, size: Size, rounds: int, bus: str) -> None:
    """Nothing is lost or done twice or unknown, and each request of a person is answered."""
    try:
        with PostgresServer() as postgres, NatsServer() as nats:
            await _roll(tmp_path, size, rounds, postgres, lambda url: nats.url if bus == "nats" else url)
    except BaseException as error:
        error.add_note(last_words(*(tmp_path / f"node-{place}" / "server.log" for place in range(NODES))))
        raise
