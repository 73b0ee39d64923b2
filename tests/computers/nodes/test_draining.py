"""A node that stops: its tasks are handed over between two effects, and nothing that it knows is lost."""

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from orchestrator.adapters.store import open_store
from orchestrator.core.errors import StoreAway
from orchestrator.core.ports.store import SYSTEM_STREAM, TaskRow
from orchestrator.core.task.facts import TaskId, ToolFinished, ToolSettled
from orchestrator.core.task.items import AgentTaskItem, Draft
from orchestrator.core.task.states import Phase, TaskStatus
from orchestrator.core.wire.wire import ComputerId
from orchestrator.runtime.clock import SystemClock
from orchestrator.runtime.settings import Settings
from tests.app.test_start import admin_token, serving
from tests.computers.nodes.two_nodes import SharedStore, Slow, open_cluster
from tests.engine.test_actor import ALICE
from tests.harness.support import call, dialed, final, says
from tests.harness.whole_server import Server, running
from tests.servers import NO_TLS
from tests.waiting import HANG_S, within

FARM = ComputerId("farm")
LIST = says(call("cc_list", path=""))
CANNOT = final("cannot", success=False)


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_reply_that_comes_in_time_is_kept_and_another_node_goes_on_at_once() -> None:
    """The node waits for its model, hands over at the boundary after it, and no reply is asked for twice."""
    first, second = Slow(LIST), Slow(CANNOT)
    second.go.set()
    async with open_cluster("farm") as cluster:
        alpha = cluster.open("alpha", first)
        task = await alpha.service.submit("try", user=ALICE, computers=[FARM], model="m")
        await within(first.begun.wait())
        beta = cluster.open("beta", second)
        draining = asyncio.create_task(alpha.workers.drain(HANG_S))
        await asyncio.sleep(0)
        first.go.set()
        await within(draining)
        await cluster.ledger.held_by("beta", task.task_id)
        ended = await cluster.until(task.task_id, lambda task: task.phase is Phase.ENDED)
        assert (ended.status, ended.steps) == (TaskStatus.FAILED, 2)
        assert (len(first.asked), len(second.asked), first.cut.is_set()) == (1, 1, False)
        # Nothing had begun with the reply: the look that it asked for is the other node's.
        assert (sum(alpha.sending.sent.values()), sum(beta.sending.sent.values())) == (0, 1)


@pytest.mark.parametrize("cut_models", [True, False])
async def test_a_reply_that_takes_too_long_is_asked_for_again_elsewhere(cut_models: bool) -> None:
    """Cut at once, or let go when the time is over: the lease is given back either way."""
    first, second = Slow(), Slow(CANNOT)
    second.go.set()
    async with open_cluster() as cluster:
        alpha = cluster.open("alpha", first)
        task = await alpha.service.submit("try", user=ALICE, model="m")
        await within(first.begun.wait())
        due: list[str] = []
        cluster.bus.subscribe("tasks.due", lambda told: due.append(told["task_id"]))
        await within(alpha.workers.drain(2 * HANG_S if cut_models else 0.1, cut_models=cut_models))
        assert first.cut.is_set()
        # What other nodes that are idle wait for; they would look by themselves seconds later.
        assert due == [task.task_id]
        cluster.open("beta", second)
        await cluster.until(task.task_id, lambda task: task.phase is Phase.ENDED)
        assert cluster.ledger.leases[task.task_id] == [("alpha", 1), ("beta", 2)]


async def test_a_call_that_takes_too_long_is_settled_by_the_next_node() -> None:
    """Its bracket stays open, and the one frame that was written is the only one."""
    go = asyncio.Event()
    async with open_cluster("farm") as cluster:
        (stub,) = cluster.stubs
        took = asyncio.Event()
        start, late_ones = stub.start, list[asyncio.Task[None]]()

        def late(call: Any, body: bytes | None) -> None:
            took.set()
            late_ones.append(asyncio.create_task(_later(go, lambda: start(call, body))))

        stub.start = late  # type: ignore[method-assign]
        alpha = cluster.open("alpha", _ready(LIST))
        task = await alpha.service.submit("try", user=ALICE, computers=[FARM], model="m")
        await within(took.wait())
        await within(alpha.workers.drain(0.1))
        assert (await cluster.until(task.task_id, lambda task: bool(task.open_runs))).open_runs
        stub.start = start  # type: ignore[method-assign]
        cluster.open("beta", _ready(CANNOT))
        ended = await cluster.until(task.task_id, lambda task: task.phase is Phase.ENDED)
        items = await cluster.store.read(ended.task_id)
        closed = [item.fact for item in items if isinstance(item.fact, ToolFinished | ToolSettled)]
        assert [type(one) for one in closed] == [ToolSettled, ToolFinished]
        # What comes late is below the fence by now, and does nothing.
        go.set()
        await asyncio.gather(*late_ones)
        assert set(Counter(alpha.sending.sent).values()) == {1}


async def _later(go: asyncio.Event, then: Any) -> None:
    await go.wait()
    then()


def _ready(*script: Any) -> Slow:
    model = Slow(*script)
    model.go.set()
    return model


async def test_idle_workers_end_at_once_and_take_nothing_more() -> None:
    async with open_cluster() as cluster:
        alpha = cluster.open("alpha", Slow(), count=8)
        await asyncio.sleep(0)
        began = now()
        await within(alpha.workers.drain(HANG_S))
        assert now() - began < 2.5
        await within(alpha.working)
        task = await alpha.service.submit("try", user=ALICE, model="m")
        assert cluster.ledger.leases[task.task_id] == []


async def test_a_second_thought_lets_go_at_once() -> None:
    """Who cannot wait cancels the drain; the lease is given back all the same."""
    model = Slow()
    async with open_cluster() as cluster:
        alpha = cluster.open("alpha", model)
        task = await alpha.service.submit("try", user=ALICE, model="m")
        await within(model.begun.wait())
        draining = asyncio.create_task(alpha.workers.drain(HANG_S))
        await asyncio.sleep(0)
        draining.cancel()
        await within(alpha.working)
        cluster.open("beta", Slow())
        await cluster.ledger.held_by("beta", task.task_id)


# -- a store that is away ----------------------------------------------------------------


class Restarting(SharedStore):
    """A store that is away for the next calls of some methods; ``after`` it did what was asked, and nobody hears."""

    def __init__(self) -> None:
        super().__init__()
        self.away: Counter[str] = Counter()
        self.after = False

    async def append(self, task_id: TaskId, version: int, drafts: Sequence[Draft], **more: Any) -> list[AgentTaskItem]:
        fails = self._fails("append")
        if fails and not self.after:
            raise StoreAway("The database restarts.")
        items = await super().append(task_id, version, drafts, **more)
        if fails:
            raise StoreAway("The database restarts.")
        return items

    async def renew(self, lease: Any, lease_s: float) -> None:
        if self._fails("renew"):
            raise StoreAway("The database restarts.")
        await super().renew(lease, lease_s)

    async def park(self, *args: Any, **more: Any) -> bool:
        if self._fails("park"):
            raise StoreAway("The database restarts.")
        return await super().park(*args, **more)

    async def read(self, task_id: TaskId, after_version: int = 0) -> list[AgentTaskItem]:
        if self._fails("read"):
            raise StoreAway("The database restarts.")
        return await super().read(task_id, after_version)

    def _fails(self, method: str) -> bool:
        fails = self.away[method] > 0
        self.away[method] -= fails
        return fails


@pytest.mark.parametrize("after", [False, True], ids=["nothing was done", "it was done"])
async def test_a_reply_outlasts_a_store_that_is_away(after: bool) -> None:
    """What the model said is recorded once the store is back, once, and it is not asked again."""
    model = Slow(CANNOT)
    async with open_cluster(store=Restarting()) as cluster:
        store = cluster.store
        assert isinstance(store, Restarting)
        alpha = cluster.open("alpha", model)
        task = await alpha.service.submit("try", user=ALICE, model="m")
        await within(model.begun.wait())
        store.after = after
        store.away["append"] = 4
        model.go.set()
        await cluster.until(task.task_id, lambda task: task.phase is Phase.ENDED)
        kinds = [item.fact.kind for item in await store.read(task.task_id)]
        assert kinds == ["task_submitted", "model_asked", "model_replied", "task_ended"]
        assert (len(model.asked), store.ledger.leases[task.task_id]) == (1, [("alpha", 1)])


async def test_renewals_that_fail_stop_nobody_and_a_cancel_is_heard_afterwards() -> None:
    """While the store is away the model goes on; what came meanwhile is read when it is back."""
    model = Slow()
    async with open_cluster(store=Restarting()) as cluster:
        store = cluster.store
        assert isinstance(store, Restarting)
        alpha = cluster.open("alpha", model, lease_s=2.0)
        task = await alpha.service.submit("try", user=ALICE, model="m")
        await within(model.begun.wait())
        store.away["renew"] = 2
        await within(store.ledger.renewals.acquire())
        assert not model.cut.is_set()
        store.away["read"] = 2
        await alpha.service.cancel(task.task_id, ALICE)
        await within(model.cut.wait())
        assert store.ledger.leases[task.task_id] == [("alpha", 1)]


async def test_a_node_stops_in_time_although_its_store_is_away() -> None:
    """The lease then ends by itself."""
    model = Slow()
    async with open_cluster(store=Restarting()) as cluster:
        store = cluster.store
        assert isinstance(store, Restarting)
        alpha = cluster.open("alpha", model)
        await alpha.service.submit("try", user=ALICE, model="m")
        await within(model.begun.wait())
        store.away.update({"append": 10_000, "park": 10_000, "renew": 10_000})
        began = now()
        await within(alpha.workers.drain(0.1))
        assert now() - began < 5
        assert alpha.working.done()


async def test_whoever_follows_a_task_is_told_on_when_the_store_is_back() -> None:
    async with open_cluster(store=Restarting()) as cluster:
        store = cluster.store
        assert isinstance(store, Restarting)
        model = Slow(CANNOT)
        alpha = cluster.open("alpha", model)
        task = await alpha.service.submit("try", user=ALICE, model="m")
        await within(model.begun.wait())
        told = alpha.service.watch(task.task_id)
        first = [(await anext(told)).fact.kind for _ in range(2)]
        store.away["read"] = 3
        model.go.set()
        rest = [item.fact.kind async for item in told]
        assert first + rest == ["task_submitted", "model_asked", "model_replied", "task_ended"]


# -- the whole server --------------------------------------------------------------------


async def test_a_server_that_drains_says_so_and_takes_nobody_in(tmp_path: Path) -> None:
    """While a call is waited for: 503 for health checks, computers and reviewers; what is asked is answered."""
    chosen = Settings(data_dir=tmp_path, port=0)
    async with serving(chosen) as (url, orchestrator, ended):
        server = Server(
            url, orchestrator, httpx2.AsyncClient(base_url=url, trust_env=False, verify=NO_TLS), admin_token(chosen)
        )
        token = await server.computer("3")
        async with contextlib.aclosing(server.http), dialed(url, token) as client:
            await client.greet()
            await server.submit()
            await client.hear("call")
            os.kill(os.getpid(), signal.SIGTERM)
            while (health := await server.http.get("/healthz")).status_code == 200:
                pass
            assert (health.status_code, health.headers["retry-after"]) == (503, "1")
            assert health.json()["error"]["code"] == "draining"
            assert "another node" in health.json()["error"]["remedy"]
            for path in ("computer", "reviewer"):
                with pytest.raises(InvalidStatus) as refused:
                    async with connect(f"{url.replace('http', 'ws')}/{path}", proxy=None):
                        pass
                assert refused.value.response.status_code == 503
                assert refused.value.response.headers["Retry-After"] == "1"
            assert (await server.ask("GET", "/v1/tasks")).status_code == 200
            began = now()
            os.kill(os.getpid(), signal.SIGINT)
            assert (await client.closed())[0] == 1001
            await within(ended)
            assert now() - began < 1.5
    store = open_store(chosen.store_url, clock=SystemClock())
    assert "node_stopped" in [item.fact.kind for item in await store.read(TaskId(SYSTEM_STREAM))]
    await store.close()


async def test_a_store_that_is_away_is_a_sentence_at_the_endpoints(tmp_path: Path) -> None:
    """503 with what to do, also for health checks, and the same endpoints answer when it is back."""
    async with running(tmp_path) as server:
        store = server.orchestrator.service.store
        listed = store.list_tasks

        async def away(**_: Any) -> list[TaskRow]:
            raise StoreAway("The database does not answer.")

        store.list_tasks = away  # type: ignore[method-assign]
        for answer in (await server.ask("GET", "/v1/tasks"), await server.http.get("/healthz")):
            assert answer.status_code == 503
            assert answer.json()["error"] == {
                "code": "store_away",
                "message": "The database does not answer.",
                "remedy": "Try again in a moment.",
            }
        store.list_tasks = listed  # type: ignore[method-assign]
        assert (await server.http.get("/healthz")).status_code == 200
