"""An approval is visible on every channel within two seconds of the call, and whoever decides hears what came of it.

Nothing here hangs on how fast the machine is: time is counted in turns of the loop that the server runs in, 50 ms
each. Where the machine is busy the turns are longer, for the channels and for the count alike.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.adapters.bus.local import LocalBus
from orchestrator.core.ports import ModelReply
from orchestrator.core.task.facts import DecisionRecorded, ReviewRequested
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.wire.review import REVIEWER_SUBPROTOCOL, REVIEWER_SUBPROTOCOL_1_1
from tests.harness.commands import on_a_terminal
from tests.harness.endpoints import stream
from tests.harness.support import Disk, Listening, call, final, says
from tests.harness.whole_server import Server, connected, running
from tests.waiting import HANG_S, within
from tests.web.test_in_game import player
from tests.web.test_watch import watching

PROMISED_S = 2.0
TURN_S = 0.05
WRITE = says(call("cc_write", path="farm.lua", content="print(1)\n"))


@dataclass
class Turns:
    """Counts turns of the loop from the moment in which an item of a kind was appended."""

    kind: type
    appended: asyncio.Event = field(default_factory=asyncio.Event)
    item: AgentTaskItem | None = None
    turns: int = 0
    seen: dict[str, int] = field(default_factory=dict)

    def observe(self, items: Sequence[AgentTaskItem]) -> None:
        """Look whether it is among those."""
        for item in items:
            if isinstance(item.fact, self.kind) and self.item is None:
                self.item = item
                self.appended.set()

    async def count(self) -> None:
        """Count until canceled."""
        await self.appended.wait()
        while True:
            await asyncio.sleep(TURN_S)
            self.turns += 1

    async def sees(self, channel: str, sight: Awaitable[object]) -> None:
        """Note after how many turns a channel shows it."""
        await within(sight)
        assert self.appended.is_set(), f"{channel} shows what is not in the journal"
        self.seen[channel] = self.turns

    def must_have_been_soon(self, *channels: str) -> None:
        """Every channel showed it in time."""
        assert set(self.seen) == set(channels)
        late = {channel: turns * TURN_S for channel, turns in self.seen.items() if turns * TURN_S >= PROMISED_S}
        assert not late


class Holding(Listening):
    """A model that answers when it may."""

    def __init__(self, *script: Any) -> None:
        super().__init__(*script)
        self.may = asyncio.Event()

    async def reply(self, *args: Any, **kwargs: Any) -> ModelReply:
        """The next reply, once it may."""
        await self.may.wait()
        return await super().reply(*args, **kwargs)


def counting(server: Server, kind: type) -> Turns:
    """Turns from the item of this kind on."""
    turns, service = Turns(kind), server.orchestrator.service
    before = service._observer
    assert before is not None

    def observe(items: Sequence[AgentTaskItem]) -> None:
        turns.observe(items)
        before(items)

    service._observer = observe
    return turns


async def all_listen(server: Server) -> None:
    """Until the channels stand: three reviewers, two followers of the task, a page, and the desk with its news."""
    bus, endpoints = server.orchestrator.service.bus, server.orchestrator.endpoints
    assert isinstance(bus, LocalBus)
    async with asyncio.timeout(HANG_S):
        while (  # noqa: ASYNC110 - no event tells
            len(endpoints.reviews._watchers) < 3
            or endpoints.followers._count < 2
            or len(bus._handlers.get("tasks", ())) < 3
        ):
            await asyncio.sleep(0.01)


async def listed(server: Server) -> None:
    """The list of requests, asked for again and again as a page without a stream would."""
    while not (await server.ask("GET", "/v1/requests")).json()["requests"]:  # noqa: ASYNC110 - that is how it is looked at
        await asyncio.sleep(TURN_S)


async def in_the_stream(server: Server, task_id: str) -> None:
    """The task's own events."""
    async with stream(server, task_id) as blocks:
        async for block in blocks:
            if "event: review_requested\n" in block:
                return


async def hinted(server: Server, task_id: str) -> None:
    """A page that is told what changed and then reads it."""
    async with watching(server) as hints:
        async for kind, data in hints:
            if kind == "tasks" and data["task_id"] == task_id:
                task = (await server.ask("GET", f"/v1/tasks/{task_id}")).json()
                if task["request"] is not None:
                    return


async def on_a_screen(server: Server, home: Path, wanted: str, *arguments: str) -> None:
    """A command on a terminal, until it shows something."""

    def look() -> None:
        where = {"CC_ORCHESTRATOR_URL": server.url, "CC_ORCHESTRATOR_TOKEN": server.admin}
        with on_a_terminal(home, *arguments, **where) as terminal:
            terminal.expect(wanted)

    await asyncio.to_thread(look)


async def test_an_approval_is_visible_everywhere_within_two_seconds(tmp_path: Path) -> None:
    """From the item in the journal to the list, both sockets, both streams, the game, the console and a follower."""
    model = Holding(WRITE, final("written"))
    async with AsyncExitStack() as opened, asyncio.TaskGroup() as group:
        server = await opened.enter_async_context(running(tmp_path / "data", model=model))
        turns = counting(server, ReviewRequested)
        sockets = {
            speaks: await opened.enter_async_context(server.reviewing(speaks=speaks))
            for speaks in (REVIEWER_SUBPROTOCOL, REVIEWER_SUBPROTOCOL_1_1)
        }
        for one in sockets.values():
            await one.hear("snapshot")
        here = await opened.enter_async_context(player(server, await server.computer("3")))
        desk = await here.send("ask", "fix my farm")
        await here.hear(desk)
        (row,) = (await server.ask("GET", "/v1/tasks")).json()["tasks"]
        task_id = row["task_id"]
        counted = group.create_task(turns.count())
        channels = {
            "review": on_a_screen(server, tmp_path, "farm.lua", "review"),
            "tasks watch": on_a_screen(server, tmp_path, "[REVIEW]", "tasks", "watch", task_id),
            "/v1/watch": hinted(server, task_id),
            "the task's events": in_the_stream(server, task_id),
            "GET /v1/requests": listed(server),
            "the game": here.until(desk, "wait"),
            **{speaks: one.hear("request_opened") for speaks, one in sockets.items()},
        }
        looking = [group.create_task(turns.sees(name, channel)) for name, channel in channels.items()]
        await all_listen(server)
        model.may.set()
        for sight in looking:
            await sight
        counted.cancel()
    turns.must_have_been_soon(*channels)


async def test_whoever_decides_is_told_what_came_of_it_within_two_seconds(tmp_path: Path) -> None:
    """The one of two who was first hears that it is done, the other that it was too late; both see it closed."""
    async with AsyncExitStack() as opened, asyncio.TaskGroup() as group:
        serving = running(tmp_path, model=Listening(WRITE, final("written")), approvers="role:reviewer")
        server = await opened.enter_async_context(serving)
        turns = counting(server, DecisionRecorded)
        one = await opened.enter_async_context(server.reviewing())
        other = await opened.enter_async_context(server.reviewing(await server.person("rita", "reviewer")))
        for each in (one, other):
            await each.hear("snapshot")
        await opened.enter_async_context(connected(server, "3", Disk({"farm.lua": b"old"})))
        await server.submit()
        request = (await one.hear("request_opened"))["request"]
        await other.hear("request_opened")
        counted = group.create_task(turns.count())
        await one.send_decision(request, "first")
        looking = group.create_task(turns.sees("first", one.either("done", "request_closed")))
        await turns.sees("second", other.hear("request_closed"))
        await other.send_decision(request, "second")
        failed = await other.hear("failed")
        await looking
        counted.cancel()
    assert (failed["ref"], failed["code"]) == ("second", "not_pending")
    turns.must_have_been_soon("first", "second")
