"""Three nodes are one orchestrator: what waits at one is seen, decided and stopped at every other."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from orchestrator.core.task import facts
from orchestrator.core.wire.wire import sha256_hex
from tests.nats_servers import NatsServer
from tests.story.harness import Api, check_laws, decoded, ended, facts_of, final, tool
from tests.story.school import School, Stub, running, stub_at
from tests.story.test_several_nodes import Size, school
from tests.waiting import HANG_S, within

NOBODY = Size(stubs=0, real=0, tasks=0, at_once=0, kills=0)


@pytest.fixture(params=["nats", pytest.param("postgresql", marks=pytest.mark.deep)])
async def three(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str) -> AsyncIterator[School]:
    """Three nodes, on either bus; what a bus promises is proved of each in tests/adapters/bus."""
    with contextlib.ExitStack() as stack:
        bus = postgres_url if request.param == "postgresql" else stack.enter_context(NatsServer()).url
        async with school(tmp_path, NOBODY, 1, postgres_url, bus) as one:
            yield one


@contextlib.asynccontextmanager
async def at(three: School, place: int) -> AsyncIterator[Api]:
    """A node's own endpoints."""
    api = Api(three.nodes[place].url, three.token)
    try:
        yield api
    finally:
        await api.http.aclose()


@contextlib.asynccontextmanager
async def stub_of_first(three: School) -> AsyncIterator[Stub]:
    """A computer that is connected to the first node."""
    async with at(three, 0) as api:
        token = (await api.ok("POST", "/v1/tokens", {"kind": "computer", "name": "farm"}))["token"]
        stub = stub_at(three.nodes[0].url, "farm", token, 1)
        async with running([stub]):
            await within(stub.stub.welcomed.wait())
            yield stub


async def told(socket: ClientConnection, kind: str) -> dict[str, Any]:
    """The next frame of a kind."""
    async with asyncio.timeout(HANG_S):
        while (frame := decoded(await socket.recv()))["type"] != kind:
            pass
    return frame


async def test_what_waits_is_seen_and_decided_at_every_node(three: School) -> None:
    """A request and a question reach the reviewers of all nodes; who decides at one closes it at the others."""
    async with contextlib.AsyncExitStack() as stack:
        stub = await stack.enter_async_context(stub_of_first(three))
        endpoints = [await stack.enter_async_context(at(three, place)) for place in range(3)]
        sockets = [await stack.enter_async_context(one.reviewer()) for one in endpoints]
        for socket in sockets:
            assert not (await told(socket, "snapshot"))["requests"]
        write = tool("cc_write", path="a.txt", content="all of it")
        task_id = await endpoints[1].submit(write, tool("ask_user", question="Which?"), final(), computers=("farm",))
        opened = [(await told(socket, "request_opened"))["request"] for socket in sockets]
        assert len({one["request_id"] for one in opened}) == 1
        await endpoints[2].resume(opened[2]["request_id"], "approve", expected_digest=opened[2]["action_digest"])
        for socket in sockets:
            assert (await told(socket, "request_closed"))["how"].startswith("approved")
        asked = [(await told(socket, "question_opened"))["question"] for socket in sockets]
        body = {"question_id": asked[0]["question_id"], "answer": "this one"}
        await endpoints[0].ok("POST", f"/v1/tasks/{task_id}/answer", body)
        items = await within(endpoints[2].journal(task_id))
        check_laws(items)
        assert ended(items).status == "Completed"
        assert stub.text("a.txt") == "all of it"


async def test_a_cancel_at_another_node_stops_the_program(three: School) -> None:
    """Whichever node runs the task and whichever has the computer: the program is stopped, and runs once."""
    async with stub_of_first(three) as stub, at(three, 1) as one, at(three, 2) as other:
        write = tool("cc_write", path="long.lua", content="sleep(60)\n")
        task_id = await one.submit(write, tool("cc_run_program", path="long.lua"), final(), computers=("farm",))
        request = await within(other.first(task_id, "review_requested"))
        await other.resume(request.request_id, "approve")
        await within(one.first(task_id, "tool_started", 2))
        await other.ok("POST", f"/v1/tasks/{task_id}/cancel", {})
        items = await within(one.journal(task_id))
        check_laws(items)
        assert ended(items).status == "Canceled"
        run = facts_of(items, facts.ToolFinished)[-1]
        assert (run.ok, "terminated" in run.text) == (False, True), run
        assert run.ran is not None
        assert (run.ran.path, run.ran.sha256, run.ran.ended) == ("long.lua", sha256_hex(b"sleep(60)\n"), "stopped")
        assert not stub.lines()


async def test_every_node_knows_the_others(three: School) -> None:
    """Each lists all three, and where the computer is."""
    async with stub_of_first(three):
        for place in range(3):
            async with at(three, place) as api, asyncio.timeout(HANG_S):
                while True:
                    nodes = (await api.ok("GET", "/v1/nodes"))["nodes"]
                    (farm,) = (await api.ok("GET", "/v1/computers"))["computers"]
                    if len(nodes) == 3 and farm["online"] and sum(one["computers"] for one in nodes) == 1:
                        break
                    await asyncio.sleep(0.05)
                assert {one["name"] for one in nodes} == {"node-0", "node-1", "node-2"}
                assert farm["node"] == (None if place == 0 else "node-0")
