"""Several nodes on real PostgreSQL and NATS behind one balancer, with everything killed again and again."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.nats_servers import NatsServer
from tests.servers import PostgresServer
from tests.story.balancer import balanced
from tests.story.harness import Computer, last_words
from tests.story.school import POLICY, PROGRAM, Node, Real, School, Stub, running, stub_at

LEASE_S: Final = 2.0
"""Short, so that much is taken over in the time of a test."""


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    stubs: int
    real: int
    tasks: int
    at_once: int
    """Tasks that are under way at any time."""
    kills: int
    """Of nodes. Between two of them pass ``KILL_EVERY_S`` and as many new items as tasks are under way."""


NODES: Final = 3
KILL_EVERY_S: Final = 2.0
SMALL: Final = Size(stubs=3, real=1, tasks=5, at_once=5, kills=2)
LARGE: Final = Size(stubs=280, real=20, tasks=200, at_once=60, kills=40)


@contextlib.asynccontextmanager
async def school(tmp: Path, size: Size, seed: int, store: str, bus: str, **more: Any) -> AsyncIterator[School]:
    """Nodes that listen, and computers that are connected."""
    options: Mapping[str, Any] = {
        "store": store, "bus": bus, "lease_s": LEASE_S, "workers": 8, "drain_s": 5.0, "grace_s": 1.0, **more,
    }  # fmt: skip
    nodes = [Node(tmp / f"node-{place}", {**options, "node": f"node-{place}"}) for place in range(NODES)]
    try:
        nodes[0].home.mkdir()
        (nodes[0].home / "policy.toml").write_text(POLICY, "utf-8")
        await nodes[0].start()
        await asyncio.gather(*(one.start() for one in nodes[1:]))
        token = (nodes[0].home / "admin.token").read_text("utf-8").strip()
        async with balanced([one.port for one in nodes]) as balancer:
            one = School(nodes, balancer, token, {}, random.Random(seed))
            stubs, reals = await _computers(tmp, size, one)
            async with running(stubs):
                try:
                    for real in reals:
                        real.computer.boot()
                    yield one
                finally:
                    for real in reals:
                        real.computer.kill()
    finally:
        for node in nodes:
            node.kill()


async def _computers(tmp: Path, size: Size, one: School) -> tuple[list[Stub], list[Real]]:
    api = one.person()
    stubs: list[Stub] = []
    reals: list[Real] = []
    for number in range(size.stubs + size.real):
        name = f"c{number}"
        answer = await api.ok("POST", "/v1/tokens", {"kind": "computer", "name": name})
        if number < size.stubs:
            stubs.append(stub_at(one.balancer.url, name, answer["token"], number))
            one.computers[name] = stubs[-1]
        else:
            url = f"ws{one.balancer.url.removeprefix('http')}/computer"
            reals.append(Real(name, Computer(name, tmp / name, answer["token"], url)))
            reals[-1].computer.write("append.lua", PROGRAM)
            one.computers[name] = reals[-1]
    await api.http.aclose()
    return stubs, reals


async def _stop_and_wake(one: School) -> None:
    """A node stands still until others have all that it had, then goes on as if nothing had been."""
    node = one.nodes[0]
    assert node.process is not None
    with node.process.still():
        await asyncio.sleep(2.5 * LEASE_S)


async def _restart(server: PostgresServer | NatsServer, after_s: float) -> None:
    await asyncio.sleep(after_s)
    await asyncio.to_thread(server.kill)
    await asyncio.sleep(1.0)
    await asyncio.to_thread(server.start)


async def _chaos(one: School, size: Size, postgres: PostgresServer, nats: NatsServer) -> None:
    """First a node that is stopped and woken, then kills, with the servers' own in between.

    A kill waits for work, so that a slow machine gets as much done between two kills as a fast one.
    """
    servers: Mapping[int, PostgresServer | NatsServer] = {int(0.4 * size.kills): postgres, int(0.8 * size.kills): nats}
    await asyncio.sleep(1.0)
    await one.happens(size.at_once)
    await _stop_and_wake(one)
    async with asyncio.TaskGroup() as group:
        for number in range(size.kills):
            await asyncio.sleep(KILL_EVERY_S)
            await one.happens(size.at_once)
            if number in servers:
                group.create_task(_restart(servers[number], one.rng.uniform(0.0, KILL_EVERY_S)))
            await _kill_one(one)


async def _kill_one(one: School) -> None:
    """Kill a node, and start it again soon."""
    node = one.rng.choice(one.nodes)
    await asyncio.to_thread(node.kill)
    await asyncio.sleep(one.rng.uniform(0.2, 1.5))
    await node.start()


async def _survive(tmp: Path, size: Size, seed: int) -> None:
    with PostgresServer() as postgres, NatsServer() as nats:
        database = await postgres.new_database()
        async with school(tmp, size, seed, postgres.url(database), nats.url) as one:
            chaos = asyncio.create_task(_chaos(one, size, postgres, nats))
            try:
                await one.give(size.tasks, size.at_once, chaos)
            finally:
                chaos.cancel()
                await asyncio.gather(chaos, return_exceptions=True)
            for node in one.nodes:
                node.kill()
            await asyncio.gather(*(node.start() for node in one.nodes))
            await one.check()


@pytest.mark.parametrize(
    ("size", "seed"),
    [
        pytest.param(SMALL, 1, id="small"),
        pytest.param(LARGE, 2, id="large", marks=[pytest.mark.deep, pytest.mark.timeout(1500)]),
    ],
)
async def test_nothing_lost_and_nothing_twice(tmp_path: Path, size: Size, seed: int) -> None:
    """Nodes killed and stopped, PostgreSQL and NATS killed: every task ends, each word is where it belongs, once."""
    try:
        await _survive(tmp_path, size, seed)
    except BaseException as error:
        error.add_note(last_words(*(tmp_path / f"node-{place}" / "server.log" for place in range(NODES))))
        raise
