"""A hint that the bus lost is made up for: reviewers of every node hear of what waits, and of what waits no more."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from orchestrator.adapters.bus import LocalBus
from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.task import AgentTask
from orchestrator.engine.tasks import TaskService, service
from orchestrator.engine.tasks.news import TaskNews
from orchestrator.engine.tasks.service import MissedHints
from orchestrator.runtime.clock import SystemClock
from tests.engine.test_actor import ALICE, Anyone
from tests.harness.endpoints import Writing
from tests.harness.support import Disk
from tests.harness.whole_server import connected, running


class Shared(InMemoryPersistenceManager):
    """A store that several orchestrators have open; it ends with the test."""

    shared = True

    async def close(self) -> None:
        """Others have it open still."""


class Apart:
    """Two nodes on one store whose hints never reach each other."""

    def __init__(self) -> None:
        self.store = Shared(clock=SystemClock())
        self.there, self.here = (
            TaskService(store=self.store, bus=LocalBus(), clock=SystemClock(), authorizer=Anyone()) for _ in range(2)
        )
        self.missed = MissedHints(self.here)
        self.told: list[tuple[str, int]] = []
        self.here.bus.subscribe("tasks", self.missed.hear)
        self.here.bus.subscribe("tasks", self._tell)

    def _tell(self, hint: Mapping[str, Any]) -> None:
        self.told.append((hint["task_id"], hint["version"]))

    async def submit(self) -> AgentTask:
        return await self.there.submit("try", user=ALICE, model="m")


async def test_what_no_hint_named_is_told_once() -> None:
    """What was there before is not, and what was heard of is not told again."""
    two = Apart()
    await two.submit()
    await two.missed.look()
    unheard = await two.submit()
    await two.here.submit("heard", user=ALICE, model="m")
    two.told.clear()
    for _ in range(4):
        await two.missed.look()
    assert two.told == [(unheard.task_id, unheard.version)]


async def test_what_is_in_no_list_any_more_is_told_of_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that was decided elsewhere would else stand open for as long as the reviewer is connected."""
    monkeypatch.setattr(service, "_NEWEST", 1)
    two = Apart()
    await two.missed.look()
    first = await two.submit()
    for _ in range(2):
        await two.missed.look()
    canceled = await two.there.cancel(first.task_id, ALICE)
    last = await two.submit()
    for _ in range(4):
        await two.missed.look()
    assert two.told == [(one.task_id, one.version) for one in (first, last, canceled)]


async def test_a_task_is_heard_of_by_those_who_wait_for_it() -> None:
    """Each until it ends that; without anybody the bus is not listened to."""
    bus = LocalBus()
    news, heard = TaskNews(bus), list[tuple[str, int]]()

    def hear(task: str, name: str) -> Callable[[], None]:
        return news.hear(TaskId(task), lambda hint: heard.append((name, hint["version"])))

    ends = [hear("a", "first"), hear("a", "second"), hear("b", "third")]
    for version in range(4):
        for task in ("a", "b", "c"):
            bus.publish("tasks", {"task_id": task, "version": version})
        for end in ends[version : version + 1] * 2:
            end()
    assert heard == [("first", 0), ("second", 0), ("third", 0), ("second", 1), ("third", 1), ("third", 2)]
    assert not bus._handlers
    hear("a", "again")
    bus.publish("tasks", {"task_id": "a", "version": 4})
    assert heard[6:] == [("again", 4)]


async def test_a_reviewer_hears_of_a_request_whose_hint_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And, once it is decided elsewhere, that it is closed: both within seconds, without connecting anew."""
    monkeypatch.setattr(service, "LOOK_EVERY_S", 0.2)
    store = Shared(clock=SystemClock())
    async with AsyncExitStack() as stack:
        first, second = [
            await stack.enter_async_context(
                # Each has a bus of its own, so that nothing of what is said at one is heard at the other.
                running(
                    tmp_path, model=Writing(), parts={"wrap_bus": lambda _: LocalBus(), "wrap_store": lambda _: store}
                )
            )
            for _ in range(2)
        ]
        await stack.enter_async_context(connected(first, "3", Disk()))
        reviewer = await stack.enter_async_context(second.reviewing())
        await reviewer.hear("snapshot")
        request = await first.paused(await first.submit())
        opened = await reviewer.hear("request_opened")
        assert opened["request"]["request_id"] == request["request_id"]
        assert (await first.ask("POST", f"/v1/reject/{request['request_id']}", {})).status_code == 200
        assert (await reviewer.hear("request_closed"))["request_id"] == request["request_id"]
