"""Two nodes on one store: what somebody at the one wants of a task that the other runs never makes both run it."""

import asyncio
import json
import logging
import random
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.adapters.store.objects import Entry, awakened, made_due, scheduled
from orchestrator.core.approval.approval import ResumeRequest
from orchestrator.core.errors import NotPending, TaskEnded
from orchestrator.core.task.facts import TaskId, ToolFinished, ToolSettled, ToolStarted
from orchestrator.core.task.items import verify_chain
from orchestrator.core.task.states import Phase, TaskStatus
from orchestrator.core.wire.wire import ComputerId
from tests.computers.nodes.two_nodes import Cluster, Node, Slow, Steps, open_cluster
from tests.engine.test_actor import ALICE, rules
from tests.harness.support import call, final, says
from tests.waiting import HANG_S, within

COMPUTERS = ("farm", "mine", "shop")
TASKS = 32
CANCELED = 4
STIRS = 100
"""Of each outsider: on a busy machine, notes without end would keep every intent from being recorded."""
SCRIPT = [
    json.dumps(says(call("cc_list", path=""))),
    json.dumps(says(call("cc_write", path="one.txt", content="1\n"))),
    json.dumps(says(call("cc_read", path="a.lua"))),
    json.dumps(says(call("cc_write", path="two.txt", content="2\n"))),
    json.dumps(final("cannot", success=False)),
]


class Outsider:
    """Somebody at one node who pins, decides and wakes tasks, whoever runs them."""

    def __init__(self, cluster: Cluster, node: Node, tasks: list[TaskId], dice: random.Random) -> None:
        self.cluster, self.service, self.tasks, self.dice = cluster, node.service, tasks, dice
        self.did: Counter[str] = Counter()

    async def go_on(self) -> None:
        """Until every task is over."""
        left = list(self.tasks)
        while left:
            task = await self.service.load(self.dice.choice(left))
            if task.ended is not None:
                left.remove(task.task_id)
                continue
            if task.request is not None and self.dice.random() < 0.7:
                try:
                    await self.service.decide(task.request.request_id, ResumeRequest(action="approve"), ALICE)
                    self.did["decision"] += 1
                except NotPending:
                    self.did["late decision"] += 1
            elif self.did["note"] + self.did["wake"] >= STIRS:
                pass
            elif self.dice.random() < 0.7:
                await self.service.pin(task.task_id, ALICE, pinned=not task.pinned)
                self.did["note"] += 1
            else:
                await self.service.store.wake(task.task_id)
                self.service.falls_due(task.task_id)
                self.did["wake"] += 1
            await asyncio.sleep(self.dice.uniform(0, 0.02))

    async def cancel(self, task_id: TaskId, after: int) -> None:
        """Cancel a task once it has so many items."""
        await self.cluster.until(task_id, lambda task: task.version >= after or task.ended is not None)
        try:
            await self.service.cancel(task_id, ALICE)
            self.did["cancel"] += 1
        except TaskEnded:
            self.did["late cancel"] += 1


@pytest.fixture(params=[pytest.param("memory", marks=pytest.mark.deep), "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """Of the database that nodes share; empty: they share a store in memory."""
    return "" if request.param == "memory" else str(request.getfixturevalue("postgres_url"))


@pytest.mark.deep
async def test_hundreds_of_notes_decisions_and_cancels_never_make_two_nodes_run_one_step(
    caplog: pytest.LogCaptureFixture, url: str
) -> None:
    """By the items, by what each node sent and asked, and by the frames that the computers got."""
    asked: Counter[tuple[TaskId, int, str]] = Counter()
    dice = random.Random(9)
    async with open_cluster(*COMPUTERS, url=url) as cluster:
        nodes = [
            cluster.open(name, lambda name, task: Steps(name, task.task_id, SCRIPT, asked), policy=rules(write="ask"))
            for name in ("alpha", "beta")
        ]
        tasks = [
            (
                await nodes[one % 2].service.submit(
                    "try", user=ALICE, computers=[ComputerId(COMPUTERS[one % len(COMPUTERS)])], model="m"
                )
            ).task_id
            for one in range(TASKS)
        ]
        outsiders = [Outsider(cluster, node, tasks, dice) for node in nodes for _ in range(2)]
        canceling = [outsiders[one % 4].cancel(tasks[-1 - one], 5 + 3 * one) for one in range(CANCELED)]
        with caplog.at_level(logging.WARNING, logger="orchestrator.engine.workers"):
            async with asyncio.timeout(HANG_S):
                await asyncio.gather(*(one.go_on() for one in outsiders), *canceling)
        did = sum((one.did for one in outsiders), Counter[str]())
        for task_id in tasks:
            await cluster.until(task_id, lambda task: not task.open_runs)
        _nobody_lost_a_lease(cluster, caplog)
        await _each_run_once(cluster, nodes, tasks)
        _each_step_asked_once(asked)
    assert did["note"] + did["decision"] + did["wake"] > 200, did
    assert did["decision"] >= TASKS, did
    assert did["cancel"] > 0, did
    assert cluster.ledger.conflicts > 10, "the outsiders came in between too seldom to show anything"
    both = [task_id for task_id in tasks if len({holder for holder, _ in cluster.ledger.leases[task_id]}) == 2]
    assert both, "no task went from one node to the other"


def _nobody_lost_a_lease(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing that an outsider did took a lease from its holder, or freed it."""
    assert [record.getMessage() for record in caplog.records] == []
    for given_out in cluster.ledger.leases.values():
        tokens = [token for _, token in given_out]
        assert tokens == list(range(1, len(tokens) + 1))


async def _each_run_once(cluster: Cluster, nodes: list[Node], tasks: list[TaskId]) -> None:
    """Each bracket is closed once, by one node's one call, which reached its computer in one frame."""
    started: dict[str, str | None] = {}
    closed: Counter[str] = Counter()
    for task_id in tasks:
        items = await cluster.store.read(task_id)
        assert verify_chain(items) is None
        for item in items:
            if isinstance(item.fact, ToolStarted):
                assert item.fact.run_id not in started
                started[item.fact.run_id] = item.fact.computer
            elif isinstance(item.fact, ToolFinished | ToolSettled):
                closed[item.fact.run_id] += 1
    assert set(closed) == set(started)
    assert set(closed.values()) == {1}
    sent = Counter[str]()
    for node in nodes:
        sent.update({run: times for run, times in node.sending.sent.items() if run in started})
        assert node.sending.sent, f"{node.name} did nothing"
    assert set(sent.values()) == {1}
    took = Counter(frame.call_id for stub in cluster.stubs for frame in stub.took)
    assert set(took.values()) == {1}
    assert set(sent) <= set(took)


def _each_step_asked_once(asked: Counter[tuple[TaskId, int, str]]) -> None:
    """The model was asked for each step by one node, once."""
    by_step: defaultdict[tuple[TaskId, int], int] = defaultdict(int)
    for (task_id, step, _), times in asked.items():
        by_step[task_id, step] += times
    assert {step: times for step, times in by_step.items() if times > 1} == {}


async def test_a_cancel_at_the_other_node_ends_a_reply_that_is_being_waited_for() -> None:
    """The node that acts hears of it over the bus, stops the model at once, and keeps its lease."""
    model = Slow()
    async with open_cluster() as cluster:
        # It would find out by itself when it renews its lease, at a third of it.
        cluster.open("alpha", model, lease_s=10 * HANG_S, count=1)
        task = await cluster.nodes[0].service.submit("try", user=ALICE, model="m")
        await within(model.begun.wait())
        beta = cluster.open("beta", Slow(), count=1)
        await beta.service.cancel(task.task_id, ALICE)
        await within(model.cut.wait())
        ended = await cluster.until(task.task_id, lambda task: task.phase is Phase.ENDED)
        assert ended.status is TaskStatus.CANCELED
        assert cluster.ledger.leases[task.task_id][0][0] == "alpha"


async def test_what_a_killed_node_held_is_taken_over_within_one_and_a_half_lease_times(url: str, timed: bool) -> None:
    """Also while nothing is published: an idle node looks often enough by itself."""
    lease_s = 2.0
    async with open_cluster(url=url) as cluster:
        model = Slow()
        alpha = cluster.open("alpha", model, lease_s=lease_s, count=1)
        task = await alpha.service.submit("try", user=ALICE, model="m")
        await within(model.begun.wait())
        cluster.open("beta", Slow(), lease_s=lease_s, count=2)
        began = asyncio.get_running_loop().time()
        await alpha.killed()
        await cluster.ledger.held_by("beta", task.task_id)
        assert asyncio.get_running_loop().time() - began < 1.5 * lease_s or not timed


async def test_a_renewed_lease_is_not_taken_over() -> None:
    """Whoever waits long for a model keeps the task: no other node gets it, however often it looks."""
    async with open_cluster() as cluster:
        model = Slow(final("cannot", success=False))
        alpha = cluster.open("alpha", model, lease_s=1.0, count=1)
        task = await alpha.service.submit("try", user=ALICE, model="m")
        await within(model.begun.wait())
        cluster.open("beta", Slow(), lease_s=1.0, count=1)
        for _ in range(7):
            await within(cluster.ledger.renewals.acquire())
        model.go.set()
        await cluster.until(task.task_id, lambda task: task.phase is Phase.ENDED)
        assert cluster.ledger.leases[task.task_id][0] == ("alpha", 1)
        assert len(model.asked) == 1


@given(
    st.builds(
        Entry,
        due=st.none() | st.integers(0, 200),
        holder=st.sampled_from(["alpha", "beta"]),
        token=st.integers(1, 9),
        lease_until=st.integers(0, 200),
        lease_for=st.integers(1, 50),
        waiting_for=st.none() | st.just(ComputerId("farm")),
        woken=st.integers(0, 1),
    ),
    st.integers(0, 200),
)
def test_nothing_that_an_outsider_does_touches_a_lease(entry: Entry, now: int) -> None:
    """A wake, and an append of any schedule without a token: holder, token and both times stay."""
    for after in (
        awakened(entry, now),
        made_due(entry, now),
        scheduled(entry, "wake", None, now),
        scheduled(entry, "keep", None, now),
        scheduled(entry, "sleep", None, now),
    ):
        assert after[1:5] == entry[1:5]


async def test_what_is_due_and_not_to_be_had_is_looked_at_ever_less_often() -> None:
    """Such as where a clock is wrong: after the first looks, which are for what is just taken, twice a second."""
    async with open_cluster() as cluster:
        looks: list[float] = []
        enough, now = asyncio.Event(), asyncio.get_running_loop().time

        async def never(*_: Any, **__: Any) -> None:
            looks.append(now())
            if len(looks) == 8:
                enough.set()

        cluster.store.lease = never  # type: ignore[method-assign]
        alpha = cluster.open("alpha", Slow())
        await alpha.service.submit("try", user=ALICE, model="m")
        await within(enough.wait())
    # The first two may come for other reasons: the start of the node, and the task that was submitted.
    waits = [later - sooner for sooner, later in pairwise(looks[2:])]
    least = [0.01 * 2**place for place in range(len(waits))]
    assert all(wait >= bound for wait, bound in zip(waits, least, strict=True)), waits
