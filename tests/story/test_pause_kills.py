"""Pause, kill -9, restart, decide: the task goes on, wherever in its pause the server died."""

import asyncio
import contextlib
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection

from orchestrator.core.audit.check import check
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from tests.harness.processes import Kill
from tests.story.harness import (
    Api,
    Computer,
    Server,
    check_laws,
    computer,
    decoded,
    each,
    ended,
    facts_of,
    final,
    last_words,
    tool,
    tools,
)

CONTENT = "-- written once\n" * 50
APPENDS_ONE_LINE = b"local log = fs.open('ran.log', 'a') log.write('ran\\n') log.close() sleep(0.3)\n"
"""And takes so long afterwards that the server dies while it runs."""
SCRIPT = (tools(tool("cc_write", path="farm.lua", content=CONTENT), tool("cc_run_program", path="count.lua")), final())
THE_PAUSE = 4
"""The place of ``review_requested`` among the task's appends: submitted, asked, replied and proposed, requested."""
AT_MOST_S = 0.04
"""A kill falls at a random moment within this after what it waits for: as long as what comes next takes."""
MOMENTS = ("before the write", "after the write", "about the write", "paused", "deciding", "executing", "executing")


@dataclass
class Told:
    """What a reviewer heard on the socket after the restart."""

    snapshot: tuple[str, ...] = ()
    announced: Counter[str] = field(default_factory=Counter)
    """Request id to how often it was put before them."""
    decided: set[str] = field(default_factory=set)
    """Whose decision was accepted here."""
    closed: set[str] = field(default_factory=set)
    all_closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Decided and closed: after that nothing of what was announced can be announced once more."""


async def _survive(tmp: Path, number: int) -> None:
    """One pause, one kill at a moment that the number draws, one restart, one decision.

    A start is waited for in a thread: it would hold up the kills of the others, which then come too late.
    """
    draw = random.Random(number)
    moment = MOMENTS[number % len(MOMENTS)]
    server = Server(tmp / "home")
    await asyncio.to_thread(server.start)
    try:
        async with computer(server, tmp) as pc:
            pc.write("count.lua", APPENDS_ONE_LINE)
            if moment in ("before the write", "after the write"):
                await server.close()
                server.kill()
                await asyncio.to_thread(server.start, Kill(THE_PAUSE, moment.split()[0]))
            pc.boot()
            task_id = await server.api().submit(*SCRIPT, computers=(pc.name,))
            seen = await _killed(server, task_id, moment, draw)
            await server.close()
            await asyncio.to_thread(server.start)
            told, listed, items = await _decided(server.api(), task_id)
            _check(items, pc, told)
            if seen and seen in told.decided:
                assert told.snapshot == (seen,), "the request that a person had seen has to be there at once"
                assert listed == [seen], "and be listed once, under its own id"
    finally:
        await server.close()
        server.kill()


async def _killed(server: Server, task_id: str, moment: str, draw: random.Random) -> str:
    """The request id that a person had seen before the server died; empty: nobody had."""
    assert server.process is not None
    api, seen = server.api(), ""
    deciding: asyncio.Task[Any] | None = None
    if moment in ("before the write", "after the write"):
        await server.process.gone()
        return seen
    if moment == "about the write":
        await api.first(task_id, "calls_proposed")
    else:
        seen = str((await api.first(task_id, "review_requested")).request_id)
    if moment == "deciding":
        deciding = asyncio.create_task(api.call("POST", f"/v1/approve/{seen}", {}))
    if moment == "executing":
        await api.resume(seen, "approve")
        await api.first(task_id, "tool_started", draw.choice((1, 2, 2)))
    await asyncio.sleep(draw.uniform(0, AT_MOST_S))
    server.kill()
    if deciding is not None:
        with contextlib.suppress(httpx2.TransportError):
            await deciding
    return seen


async def _decided(api: Api, task_id: str) -> tuple[Told, list[str], list[AgentTaskItem]]:
    """Approve what waits after the restart; what was told and listed, and the journal of the ended task."""
    told = Told()
    async with api.reviewer() as socket:
        snapshot = decoded(await socket.recv())
        assert snapshot["type"] == "snapshot", snapshot
        told.snapshot = tuple(one["request_id"] for one in snapshot["requests"])
        listed = [str(one["request_id"]) for one in (await api.ok("GET", "/v1/requests"))["requests"]]
        reviewing = asyncio.create_task(_review(socket, told, snapshot["requests"]))
        try:
            items = await api.journal(task_id)
            if told.announced:
                await told.all_closed.wait()
        finally:
            reviewing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reviewing
    return told, listed, items


async def _review(socket: ClientConnection, told: Told, opened: list[dict[str, Any]]) -> None:
    """Approve each request as it is announced, and keep count."""
    while True:
        for request in opened:
            told.announced[request["request_id"]] += 1
            await socket.send(_approval(request["request_id"], request["action_digest"]))
        message = decoded(await socket.recv())
        opened = [message["request"]] if message["type"] == "request_opened" else []
        match message["type"]:
            case "request_opened":
                pass
            case "request_closed":
                told.closed.add(message["request_id"])
            case "done":
                told.decided.add(message["ref"])
            case _:
                raise AssertionError(message)
        if told.announced and told.closed & told.decided >= set(told.announced):
            told.all_closed.set()


def _approval(request_id: str, digest: str) -> str:
    resume = {"action": "approve", "expected_digest": digest}
    return json.dumps({"type": "decide", "ref": request_id, "request_id": request_id, "resume": resume})


def _check(items: list[AgentTaskItem], pc: Computer, told: Told) -> None:
    check_laws(items)
    assert [one for one in check(items) if one.level == "violation"] == []
    assert ended(items).status == "Completed"
    assert pc.read("farm.lua") == CONTENT.encode()
    assert pc.read("ran.log") == b"ran\n", "what was approved once has to run once"
    requested = [one.request_id for one in facts_of(items, facts.ReviewRequested)]
    recorded = [one.request_id for one in facts_of(items, facts.DecisionRecorded)]
    assert len(requested) == 1, "nobody is asked twice"
    assert recorded == requested
    # What had been decided before the kill is put before nobody again.
    assert told.announced == Counter(told.decided)


def _cases(tmp: Path, numbers: range) -> dict[str, Any]:
    return {f"{number}: {MOMENTS[number % len(MOMENTS)]}": _survive(tmp / str(number), number) for number in numbers}


async def _all_survive(tmp: Path, numbers: range) -> None:
    def logs(name: str) -> str:
        home = tmp / name.partition(":")[0]
        return last_words(home / "home" / "server.log", home / "c0.log")

    await each(_cases(tmp, numbers), logs)


async def test_a_pause_survives_a_kill(tmp_path: Path) -> None:
    """A kill at each moment of a pause: asked once under the same id, announced once, decided once, done once."""
    await _all_survive(tmp_path, range(len(MOMENTS)))


@pytest.mark.deep
@pytest.mark.timeout(900)
async def test_a_pause_survives_a_hundred_kills(tmp_path: Path) -> None:
    """A hundred of a hundred."""
    await _all_survive(tmp_path, range(100, 200))
