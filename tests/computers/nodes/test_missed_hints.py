"""A hint that the bus lost is made up for: reviewers of every node hear of what waits, and of what waits no more."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.adapters.bus import LocalBus
from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager
from orchestrator.core.task.commands import Pin
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.task import AgentTask
from orchestrator.core.values import changed
from orchestrator.engine.tasks import TaskService, person, service
from orchestrator.engine.tasks.news import MOST_ENDED, TaskNews, Written
from orchestrator.engine.tasks.service import MissedHints
from orchestrator.runtime.clock import SystemClock
from tests.engine.test_actor import ALICE, Anyone
from tests.harness.endpoints import Writing
from tests.harness.support import Disk
from tests.harness.whole_server import connected, running
from tests.waiting import within


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


async def test_a_task_is_at_hand_as_this_node_wrote_it_last_until_it_ends() -> None:
    """Never an older one than was asked for, also where two writers tell in the other order."""
    two = Apart()
    first = await two.submit()
    later = changed(first, version=first.version + 1)
    news = TaskNews(LocalBus())
    for task in (later, first):
        news.tell(Written(task, ()))
    assert [news.kept(first.task_id, version) for version in (1, later.version, later.version + 1)] == [
        later,
        later,
        None,
    ]
    ended = await two.there.cancel(first.task_id, ALICE)
    for task in (ended, later):
        assert news.last(first.task_id) == (later if task is ended else ended)
        news.tell(Written(task, ()))
    assert (news.kept(first.task_id, 1), news.last(first.task_id)) == (None, ended)


async def test_tasks_that_have_ended_are_at_hand_up_to_so_many_items() -> None:
    """The oldest of them go first; one that is longer than all that are kept is not kept."""
    two, news = Apart(), TaskNews(LocalBus())
    ended = await two.there.cancel((await two.submit()).task_id, ALICE)

    def told(name: str, items: int) -> None:
        news.tell(Written(changed(ended, task_id=TaskId(name), version=items), ()))

    for name in ("a", "b", "c"):
        told(name, MOST_ENDED // 2)
    assert [news.last(TaskId(name)) is not None for name in ("a", "b", "c")] == [False, True, True]
    told("d", MOST_ENDED + 1)
    assert [news.last(TaskId(name)) for name in ("b", "c", "d")] == [None] * 3


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


async def test_a_follower_hears_what_two_nodes_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """In order and once. It is read where another node wrote in between, or where more was written than is kept."""
    two, reads = Apart(), list[int]()
    read = two.store.read

    async def noted(task_id: TaskId, after_version: int = 0) -> list[AgentTaskItem]:
        reads.append(after_version)
        return await read(task_id, after_version)

    async def pins(node: TaskService, times: int = 1) -> None:
        for _ in range(times):
            pinned = (await node.load(task.task_id)).pinned
            await node.pin(task.task_id, ALICE, pinned=not pinned)

    async def heard(count: int) -> list[int]:
        return [(await within(anext(following))).version for _ in range(count)]

    task = await two.submit()
    following = two.here.watch(task.task_id)
    assert await heard(1) == [1]
    monkeypatch.setattr(two.store, "read", noted)
    await pins(two.here, 2)
    assert (await heard(2), reads) == ([2, 3], [])
    await pins(two.there)
    await pins(two.here)
    assert (await heard(2), reads) == ([4, 5], [3])
    await pins(two.here)
    await pins(two.there)
    two.here.bus.publish("tasks", {"task_id": task.task_id, "version": 7})
    assert (await heard(2), reads) == ([6, 7], [3, 5])
    await pins(two.here, 70)
    assert (await heard(70), reads) == ([*range(8, 78)], [3, 5, 7])


@pytest.mark.parametrize(("head", "loads"), [({}, 0), ({"head_hash": "0" * 64}, 1)])
async def test_a_command_that_comes_second_reads_what_came_first(
    monkeypatch: pytest.MonkeyPatch, head: dict[str, str], loads: int
) -> None:
    """And the whole task only where the new items do not follow what it knows."""
    two, loaded = Apart(), list[TaskId]()
    load = two.store.load

    async def noted(task_id: TaskId, known: AgentTask | None = None) -> AgentTask | None:
        loaded.append(task_id)
        return await load(task_id, known)

    stale = replace(await two.submit(), **head)  # type: ignore[arg-type]
    await two.there.pin(stale.task_id, ALICE, pinned=True)
    monkeypatch.setattr(two.store, "load", noted)
    task, changed = await two.here._command(stale, lambda: Pin(pinned=True), person(ALICE))
    assert (task.version, task.pinned, changed, len(loaded)) == (2, True, False, loads)


async def test_a_reviewer_is_told_the_newer_of_two_changes(tmp_path: Path) -> None:
    """Notifications overtake each other: one of this node's own does not hide what came since, nor open it again."""
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(running(tmp_path, model=Writing()))
        await stack.enter_async_context(connected(here, "3", Disk()))
        reviewer = await stack.enter_async_context(here.reviewing())
        await reviewer.hear("snapshot")
        request = await here.paused(await here.submit())
        await reviewer.hear("request_opened")
        own = here.orchestrator.service
        there = TaskService(store=own.store, bus=LocalBus(), clock=SystemClock(), authorizer=own.authorizer)
        await here.until(request["task_id"], "review_noted")
        before = await own.load(TaskId(request["task_id"]))
        items = await own.store.read(before.task_id)
        after = await there.cancel(before.task_id, replace(ALICE, roles=("admin",)))
        own.bus.publish("tasks", {"task_id": after.task_id, "version": after.version})
        late = [one for one in items if one.fact.kind == "review_requested"]
        own.published(before, late)
        assert (await reviewer.hear("request_closed"))["request_id"] == request["request_id"]
        own.published(before, late)
        later = await here.paused(await here.submit())
        assert (await reviewer.hear("request_opened"))["request"]["request_id"] == later["request_id"]
        await here.until(later["task_id"], "review_noted")
        newer = await own.load(TaskId(later["task_id"]))
        own.published(await own.cancel(newer.task_id, replace(ALICE, roles=("admin",))), late)
        own.published(newer, late)
        assert (await reviewer.hear("request_closed"))["request_id"] == later["request_id"]


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
