"""The actor of a task: a store in memory, computers at our own port, and everything that can go wrong between."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestrator.adapters.bus import LocalBus
from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager
from orchestrator.app.greeter import JournalGreeter
from orchestrator.core.approval.approval import CallDecision, CallState, ResumeRequest
from orchestrator.core.approval.deciders import Saying
from orchestrator.core.approval.presentation import hitl_response
from orchestrator.core.errors import (
    CallLost,
    CallVoid,
    ComputerFailed,
    FrameRefused,
    InvalidDecision,
    LeaseLost,
    ModelFailed,
)
from orchestrator.core.model_view.view import View
from orchestrator.core.policy import Policy, default_policy, load_policy
from orchestrator.core.ports import ChatMessage, ChatModel, Coming, Identity, ModelReply, RequestAuthorizer, Workspace
from orchestrator.core.task import facts
from orchestrator.core.task.facts import DecisionAction, OnReject, TaskId
from orchestrator.core.task.items import SYSTEM, AgentTaskItem, Draft, verify_chain
from orchestrator.core.task.states import Phase, TaskStatus
from orchestrator.core.task.system_facts import ComputerSide
from orchestrator.core.task.task import AgentTask, CallRecord
from orchestrator.core.wire.wire import ComputerId, sha256_hex
from orchestrator.engine.active_policy import NodePolicy
from orchestrator.engine.actor import Leaving
from orchestrator.engine.actor.talks import KEPT, Talk, Talks
from orchestrator.engine.tasks import TaskService
from orchestrator.engine.workers import LEASE_S, process_task
from orchestrator.testing import ManualClock
from orchestrator.tools.environment import Environment
from orchestrator.tools.workspace import STAGING, DirectoryWorkspace, RefusedWorkspace
from tests.harness.support import NEW, WRITE, Disk, FakeComputers, Listening, call, final, says
from tests.waiting import within

FARM, MINE = ComputerId("3"), ComputerId("4")
ALICE = Identity(kind="person", name="alice", roles=("admin",))
QUESTION = "Why does a.lua crash?"
"""What is answered by looking."""
CANNOT = final("cannot", success=False)
OLD = sha256_hex(b"old\n")


class Killed(BaseException):
    """The process died here: nothing after it happens."""


class Anyone(RequestAuthorizer):
    """An authorizer for whom everybody may decide."""

    async def authenticate(self, authorization: str | None) -> Identity:
        del authorization
        return ALICE

    def may_decide(self, identity: Identity, task: AgentTask, action: Saying = "approve") -> bool:
        del identity, task, action
        return True

    def who_decides(self, task: AgentTask) -> str:
        del task
        return "anybody"


Hook = Callable[[], Awaitable[None]]


class WatchedStore(InMemoryPersistenceManager):
    """The store in memory, with what a test wants to happen just before or after what an actor asks of it."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.before: dict[str, Hook] = {}
        self.after: dict[str, Hook] = {}
        self.attempts: list[Draft] = []
        self.fetched: list[str] = []
        """The blobs that were read."""
        self.stale: TaskId | None = None
        """Who has any computer, for those who look: as while the transaction that gives it back is not committed."""

    async def get_blob(self, sha256: str) -> bytes:
        self.fetched.append(sha256)
        return await super().get_blob(sha256)

    async def claimant(self, computer: ComputerId) -> TaskId | None:
        await self._happen(self.before, ["claimant"])
        return self.stale or await super().claimant(computer)

    async def claim(self, *given: Any) -> ComputerId | None:
        blocked = await super().claim(*given)
        await self._happen(self.after, ["claim"])
        return blocked

    async def park(self, *given: Any, **more: Any) -> bool:
        await self._happen(self.before, ["park"])
        return await super().park(*given, **more)

    async def append(self, task_id: TaskId, version: int, drafts: Sequence[Draft], **more: Any) -> list[AgentTaskItem]:
        self.attempts.extend(drafts)
        kinds = [draft.fact.kind for draft in drafts]
        await self._happen(self.before, kinds)
        items = await super().append(task_id, version, drafts, **more)
        await self._happen(self.after, kinds)
        return items

    async def _happen(self, hooks: dict[str, Hook], kinds: Sequence[str]) -> None:
        for kind in kinds:
            hook = hooks.pop(kind, None)
            if hook is not None:
                await hook()


@dataclass
class Bench:
    """One node at work, moved by hand."""

    model: ChatModel
    policy: Policy = field(default_factory=default_policy)
    computers: FakeComputers = field(default_factory=lambda: FakeComputers({FARM: Disk({"a.lua": b"old\n"})}))
    workspace: Workspace | None = None
    clock: ManualClock = field(default_factory=ManualClock)
    talks: Talks | None = None
    leaving: Leaving | None = None

    def __post_init__(self) -> None:
        self.store = WatchedStore(self.clock)
        self.world = Environment(store=self.store, computers=self.computers, workspace=self.workspace)
        active_policy = NodePolicy(lambda: self.policy, self.world.context)
        self.service = TaskService(
            store=self.store, bus=LocalBus(), clock=self.clock, authorizer=Anyone(), active_policy=active_policy
        )

    @property
    def disk(self) -> Disk:
        return self.computers.disks[FARM]

    async def submit(self, *computers: ComputerId, prompt: str = "fix it", **more: Any) -> TaskId:
        task = await self.service.submit(prompt, user=ALICE, computers=computers or (FARM,), model="m", **more)
        return task.task_id

    async def act(self) -> AgentTask:
        """Act for the task that is due, until it waits."""
        lease = await self.store.lease("node-1", LEASE_S)
        assert lease is not None, "nothing is due"
        return await within(
            process_task(
                lease,
                service=self.service,
                world=self.world,
                model_for=lambda _: self.model,
                talks=self.talks,
                leaving=self.leaving,
            ),
        )

    async def idle(self) -> bool:
        """Whether nothing is due now."""
        due = await self.store.next_due()
        return due is None or due > self.clock.now()

    async def decide(
        self, task: AgentTask, action: DecisionAction = "approve", on_reject: OnReject | None = None
    ) -> AgentTask:
        """Decide everything that waits."""
        assert task.request is not None
        resume = ResumeRequest(action=action, on_reject=on_reject)
        return (await self.service.decide(task.request.request_id, resume, ALICE)).task

    async def approved(self) -> AgentTask:
        """Submit, run into the request, and approve it; what is approved has not run yet."""
        await self.submit()
        return await self.decide(await self.act())

    async def dies(self) -> None:
        """Act, until the process is killed by a hook; then its lease runs out."""
        with pytest.raises(Killed):
            await self.act()
        self.clock.advance(LEASE_S + 1)

    async def hanging(self) -> "asyncio.Task[AgentTask]":
        """Act, until a call hangs on its computer."""
        acting = asyncio.create_task(self.act())
        await within(self.computers.hanging.wait())
        return acting

    async def journal(self, task_id: TaskId) -> list[AgentTaskItem]:
        items = await self.store.read(task_id)
        assert verify_chain(items) is None
        return items

    async def happened(self, task_id: TaskId, *kinds: str) -> list[Any]:
        """The facts of these kinds, in order."""
        return [item.fact for item in await self.journal(task_id) if item.fact.kind in kinds]

    async def kinds(self, task_id: TaskId) -> list[str]:
        return [item.fact.kind for item in await self.journal(task_id)]


def killing() -> Hook:
    async def kill() -> None:
        raise Killed

    return kill


def rules(*more: str, write: str = "allow") -> Policy:
    """A policy that lets everything pass but, perhaps, a write."""
    text = f"""
schema_version = 1
[[rules]]
id = "reads"
effect = "allow"
tools = ["cc_read", "cc_list", "cc_run_program", "cc_shell", "cc_delete", "local_write", "local_read", "local_patch"]
[[rules]]
id = "writes"
effect = "{write}"
tools = ["cc_write"]
reason = "As the test says."
"""
    return load_policy("\n".join((text, *more)))


def gave_up(task: AgentTask) -> bool:
    """Whether the model ended the task, and said itself that it could not be done."""
    return (task.status, task.status_reason) == (TaskStatus.FAILED, "final")


def only(task: AgentTask) -> CallRecord:
    (record,) = task.calls
    return record


# -- the straight way --------------------------------------------------------------------


async def test_a_task_from_prompt_to_end_is_this_journal() -> None:
    """One gated write is exactly these items in this order, each bracket closed, and ends Completed."""
    bench = Bench(Listening(says(WRITE), final("done")))
    task = await bench.approved()
    ended = await bench.act()
    assert ended.status is TaskStatus.COMPLETED
    assert await bench.kinds(task.task_id) == [
        "task_submitted",
        "model_asked",
        "model_replied",
        "calls_proposed",
        "review_requested",
        "decision_recorded",
        "tool_started",
        "tool_finished",
        "model_asked",
        "model_replied",
        "task_ended",
    ]
    assert bench.disk.files == {"a.lua": NEW}
    assert bench.disk.done == ["fs_write a.lua"]


async def test_what_runs_is_what_was_approved() -> None:
    """The bracket carries the approved digest and the hash that the person saw; the frame carries the same hash."""
    bench = Bench(Listening(says(WRITE), final()))
    task = await bench.approved()
    approved = only(task)
    await bench.act()
    (started,) = await bench.happened(task.task_id, "tool_started")
    assert started.action_digest == approved.action_digest
    assert started.before == {"a.lua": OLD}
    (frame,) = bench.computers.sent("fs_write")
    assert (frame.params, frame.body) == ({"path": "a.lua", "if_hash": OLD}, NEW)
    assert (frame.run_id, frame.number) == (started.run_id, started.number)


async def test_an_outcome_is_acknowledged_only_after_it_is_durable() -> None:
    """`result_ack` follows the durable `tool_finished`, with a number above the call's."""
    bench = Bench(Listening(says(WRITE), final()))
    task = await bench.approved()
    seen: list[bool] = []

    async def look() -> None:
        seen.append(bool(set(bench.computers.forgotten) & {frame.run_id for frame in bench.computers.sent("fs_write")}))

    bench.store.before["tool_finished"] = look
    await bench.act()
    (started,) = await bench.happened(task.task_id, "tool_started")
    assert seen == [False]
    assert bench.computers.forgotten[started.run_id] > started.number


async def test_a_paused_task_holds_nothing() -> None:
    """While a person decides, the task has no lease, no claim, and is not due (S12)."""
    bench = Bench(Listening(says(WRITE)))
    task_id = await bench.submit()
    task = await bench.act()
    assert (task.status, task.phase) == (TaskStatus.PAUSED, Phase.REVIEWING)
    assert await bench.store.claimant(FARM) is None
    assert await bench.idle()
    assert await bench.idle()
    await bench.service.cancel(task_id, ALICE)


async def approved_steps(talks: Talks | None) -> tuple[list[list[str]], list[str]]:
    """What a model was asked in a task with three approved steps, and the replies that were read in it."""
    writes = [call("cc_write", path=f"{number}.lua", content=f"print({number})\n") for number in range(3)]
    model = Listening(*(says(write) for write in writes), final())
    bench = Bench(model, talks=talks)
    await bench.submit()
    while (task := await bench.act()).status is TaskStatus.PAUSED:
        await bench.decide(task)
    replies = {fact.raw.sha256 for fact in await bench.happened(task.task_id, "model_replied")}
    asked = [[one.content.replace(task.tag, "TAG") for one in messages] for messages in model.asked]
    return asked, [one for one in bench.store.fetched if one in replies]


async def test_after_a_decision_the_conversation_goes_on() -> None:
    """The next actor of a node reads no reply again and asks the same as one that knows nothing; an end forgets it."""
    talks = Talks()
    asked, fetched = await approved_steps(talks)
    anew, read_again = await approved_steps(None)
    assert asked == anew
    assert len(asked) == 4
    assert (fetched, len(read_again)) == ([], 1 + 2 + 3)
    assert not talks.kept


async def test_a_node_keeps_some_conversations_and_each_has_one_actor() -> None:
    """The oldest make room, and nobody gets one that another actor has."""
    talks = Talks()
    names = [TaskId(f"t-{number}") for number in range(KEPT + 1)]
    given = [talks.take(name) for name in names]
    for name, talk in zip(names, given, strict=True):
        talks.keep(name, talk)
    assert talks.kept == names[1:]
    assert talks.take(names[0]) is not given[0]
    assert talks.take(names[1]) is given[1]
    assert talks.take(names[1]) is not given[1]


async def test_a_conversation_that_cannot_go_on_begins_anew() -> None:
    """A view that took only some of the steps is not asked about: the next actor makes another."""
    bench = Bench(Listening(says(WRITE), final()), policy=rules())
    await bench.submit()
    task = await bench.act()
    view = View(task, prompt=bench.service.prompt)
    talk = Talk(view=view)
    with pytest.raises(KeyError):
        talk.extend(view, task)
    assert talk.view is None
    assert talk.messages() == ()


async def test_an_allowed_write_carries_the_hash_that_was_seen() -> None:
    """A write that needs no person still looks first and changes only what it saw."""
    bench = Bench(Listening(says(WRITE), final()), policy=rules())
    task_id = await bench.submit()
    assert (await bench.act()).status is TaskStatus.COMPLETED
    assert [frame.method for frame in bench.computers.frames] == ["fs_read", "fs_write"]
    assert bench.computers.sent("fs_write")[0].params["if_hash"] == OLD
    (started,) = await bench.happened(task_id, "tool_started")
    assert started.before == {"a.lua": OLD}
    assert await bench.happened(task_id, "review_requested") == []


# -- conflicts ---------------------------------------------------------------------------


async def test_an_outcome_is_appended_again_after_a_conflict_with_the_same_id() -> None:
    """Somebody appends while a call runs: the outcome is appended at the new version, same item id, done once."""
    bench = Bench(Listening(says(WRITE), final()))
    task = await bench.approved()
    bench.computers.faults["fs_write"] = deque(["hang"])
    acting = await bench.hanging()
    running = await bench.service.load(task.task_id)
    note = bench.service.draft(facts.CancelRequested(reason="just a note"), SYSTEM)
    await bench.service.append(running, [note])
    bench.computers.go.set()
    assert (await acting).status is TaskStatus.COMPLETED
    tried = [draft.item_id for draft in bench.store.attempts if draft.fact.kind == "tool_finished"]
    stored = [item.item_id for item in await bench.journal(task.task_id) if item.fact.kind == "tool_finished"]
    assert len(tried) == 2
    assert len(stored) == 1
    assert set(tried) == set(stored)
    assert bench.disk.done == ["fs_write a.lua"]


async def test_an_intent_stands_or_falls_with_the_version() -> None:
    """Somebody cancels just before the bracket opens: it is not opened, no frame is written, nothing is done."""
    bench = Bench(Listening(says(WRITE), final()))
    task = await bench.approved()

    async def cancel() -> None:
        await bench.service.cancel(task.task_id, ALICE)

    bench.store.before["tool_started"] = cancel
    ended = await bench.act()
    assert ended.status is TaskStatus.CANCELED
    assert await bench.happened(task.task_id, "tool_started") == []
    assert bench.computers.sent("fs_write") == []
    assert await bench.store.claimant(FARM) is None


async def test_a_task_that_ended_while_a_call_ran_records_the_outcome() -> None:
    """Canceled during a call: the outcome is recorded after the end, acknowledged, and the claim given back (D11)."""
    bench = Bench(Listening(says(WRITE), final()))
    task = await bench.approved()
    bench.computers.faults["fs_write"] = deque(["hang"])
    acting = await bench.hanging()
    canceled = await bench.service.cancel(task.task_id, ALICE)
    assert canceled.status is TaskStatus.CANCELED
    bench.computers.go.set()
    ended = await acting
    assert ended.status is TaskStatus.CANCELED
    assert only(ended).state is CallState.EXECUTED
    assert (await bench.kinds(task.task_id))[-3:] == ["cancel_requested", "task_ended", "tool_finished"]
    (started,) = await bench.happened(task.task_id, "tool_started")
    assert started.run_id in bench.computers.forgotten
    assert await bench.store.claimant(FARM) is None


async def test_a_reply_to_a_task_that_ended_is_dropped() -> None:
    """Canceled while the model thinks: its reply changes nothing."""
    asked, go = asyncio.Event(), asyncio.Event()

    class Slow:
        name = "slow"

        async def window(self) -> None:
            """It does not say."""

        async def reply(self, messages: Sequence[ChatMessage], **_: object) -> ModelReply:
            del messages
            asked.set()
            await go.wait()
            return ModelReply("{}")

    bench = Bench(Slow())
    task_id = await bench.submit()
    acting = asyncio.create_task(bench.act())
    await within(asked.wait())
    await bench.service.cancel(task_id, ALICE)
    go.set()
    assert (await acting).status is TaskStatus.CANCELED
    assert (await bench.kinds(task_id))[-1] == "task_ended"


# -- leases ------------------------------------------------------------------------------


async def test_a_lost_lease_stops_the_old_actor_and_the_new_one_settles() -> None:
    """After takeover the old actor appends nothing; the new one settles the bracket and does not run it again."""
    bench = Bench(Listening(says(WRITE), final()))
    task = await bench.approved()
    bench.computers.faults["fs_write"] = deque(["hang"])
    acting = await bench.hanging()
    bench.clock.advance(LEASE_S + 1)
    lease = await bench.store.lease("node-2", LEASE_S)
    assert lease is not None
    bench.computers.go.set()
    with pytest.raises(LeaseLost):
        await acting
    assert await bench.happened(task.task_id, "tool_finished") == []
    ended = await process_task(lease, service=bench.service, world=bench.world, model_for=lambda _: bench.model)
    assert ended.status is TaskStatus.COMPLETED
    (settled,) = await bench.happened(task.task_id, "tool_settled")
    assert (settled.state, settled.ok, settled.text) == ("finished", True, "Wrote 13 bytes to a.lua")
    assert len(bench.computers.sent("fs_write")) == 1
    ((run_ids, number),) = bench.computers.settles
    (started,) = await bench.happened(task.task_id, "tool_started")
    assert run_ids == (started.run_id,)
    assert number > started.number


@pytest.mark.thinned(3)
@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("kind", ["tool_started", "tool_finished", "model_replied", "review_requested", "task_ended"])
async def test_killed_around_any_item_it_ends_done_once(where: str, kind: str) -> None:
    """A process killed just before or after an append leaves a task that the next one ends, the write done once."""
    bench = Bench(Replaying(says(WRITE), final()))
    task_id = await bench.submit()
    getattr(bench.store, where)[kind] = killing()
    dead = 0
    for _ in range(6):
        if await bench.idle():
            task = await bench.service.load(task_id)
            if task.ended is not None:
                break
            await bench.decide(task)
        try:
            await bench.act()
        except Killed:
            dead += 1
            bench.clock.advance(LEASE_S + 1)
    task = await bench.service.load(task_id)
    assert dead == 1
    assert task.status is TaskStatus.COMPLETED
    assert bench.disk.done == ["fs_write a.lua"]
    assert len(bench.computers.sent("fs_write")) == 1
    assert len(await bench.happened(task_id, "decision_recorded")) == 1
    assert await bench.store.claimant(FARM) is None


class Replaying:
    """A model whose answer is the one at the place of the replies that the view has."""

    name = "replaying"

    def __init__(self, *script: dict[str, Any]) -> None:
        self._inner = [Listening(one) for one in script]

    async def window(self) -> None:
        """It does not say."""

    async def reply(self, messages: Sequence[ChatMessage], **_: object) -> ModelReply:
        place = sum(message.role == "assistant" for message in messages)
        inner = self._inner[place]
        inner.script.append(inner.script[0])
        return await inner.reply(messages)


async def test_a_node_that_leaves_as_a_task_ends_hands_nothing_over() -> None:
    """The lease went with the last item: there is nothing to give back, and no other node has it."""
    leaving = Leaving()
    bench = Bench(Listening(final()), leaving=leaving)

    async def left() -> None:
        leaving.begin(cut_models=False)

    bench.store.after["task_ended"] = left
    await bench.submit()
    assert (await bench.act()).status is TaskStatus.COMPLETED
    assert await bench.idle()


async def test_a_claim_that_a_dead_actor_left_is_given_back() -> None:
    """Killed with a claim and no open bracket: the next actor of the task frees the computer when it sleeps."""
    bench = Bench(Listening(says(WRITE)))
    task_id = await bench.submit()
    bench.store.after["review_requested"] = killing()
    await bench.dies()
    assert await bench.store.claimant(FARM) == task_id
    assert (await bench.act()).status is TaskStatus.PAUSED
    assert await bench.store.claimant(FARM) is None


async def test_a_claim_of_a_task_that_ended_is_given_back() -> None:
    """Killed with a claim, then canceled: the computer does not stay claimed by a task that is over."""
    bench = Bench(Listening(says(WRITE)))
    task_id = await bench.submit()
    bench.store.before["review_requested"] = killing()
    await bench.dies()
    await bench.service.cancel(task_id, ALICE)
    assert await bench.store.claimant(FARM) == task_id
    assert (await bench.act()).status is TaskStatus.CANCELED
    assert await bench.store.claimant(FARM) is None


# -- void, busy, away --------------------------------------------------------------------


async def test_a_void_call_runs_again_under_a_new_id_and_the_same_approval() -> None:
    """Refused below the fence it never ran: a new run id, a higher number, the same digest, nobody asked again."""
    bench = Bench(Listening(says(WRITE), final()))
    task = await bench.approved()
    bench.computers.faults["fs_write"] = deque([CallVoid("below_fence", "below")])
    assert (await bench.act()).status is TaskStatus.COMPLETED
    first, second = await bench.happened(task.task_id, "tool_started")
    (settled,) = await bench.happened(task.task_id, "tool_settled")
    assert (settled.state, settled.run_id) == ("void", first.run_id)
    assert first.run_id != second.run_id
    assert first.number < second.number
    assert first.action_digest == second.action_digest
    assert len(await bench.happened(task.task_id, "review_requested")) == 1
    assert bench.disk.done == ["fs_write a.lua"]


@pytest.mark.parametrize("reason", ["busy", "journal_failed"])
async def test_a_busy_computer_is_asked_again_a_second_later(reason: str) -> None:
    """A computer that cannot take a call now is left alone for a second, and the task sleeps meanwhile."""
    bench = Bench(Listening(says(WRITE), final()))
    await bench.approved()
    bench.computers.faults["fs_write"] = deque([CallVoid(reason, "later")])
    waiting = await bench.act()
    assert waiting.status is TaskStatus.RUNNING
    assert await bench.store.next_due() == bench.clock.now() + timedelta(seconds=1)
    assert await bench.idle()
    bench.clock.advance(1)
    assert (await bench.act()).status is TaskStatus.COMPLETED
    assert bench.disk.done == ["fs_write a.lua"]


async def test_five_refusals_are_told_to_the_model() -> None:
    """A call that the computer refuses five times becomes a failed result that says so; the task goes on."""
    model = Listening(says(WRITE), final("gave up", success=False))
    bench = Bench(model)
    task = await bench.approved()
    bench.computers.faults["fs_write"] = deque([CallVoid("below_fence", "below the fence")] * 9)
    assert (await bench.act()).status is TaskStatus.FAILED
    assert "The computer refused it 5 times: below the fence" in model.told
    assert len(bench.computers.sent("fs_write")) == 5
    assert [one.ok for one in await bench.happened(task.task_id, "tool_finished")] == [False]


async def test_a_computer_that_is_away_lets_the_task_sleep() -> None:
    """An approved call for a computer that is away starts nothing; when the computer comes it runs (B5)."""
    bench = Bench(Listening(says(WRITE), final()))
    task = await bench.approved()
    bench.computers.away.add(FARM)
    await bench.act()
    assert await bench.happened(task.task_id, "tool_started") == []
    assert await bench.idle()
    bench.computers.away.clear()
    await JournalGreeter(bench.service).arrived(FARM)
    assert (await bench.act()).status is TaskStatus.COMPLETED


async def test_a_computer_that_is_away_is_not_shown_to_a_person() -> None:
    """What cannot be looked at is not asked about: the request comes when the computer is there."""
    bench = Bench(Listening(says(WRITE)))
    await bench.submit()
    bench.computers.away.add(FARM)
    assert (await bench.act()).request is None
    assert await bench.idle()
    bench.computers.away.clear()
    await JournalGreeter(bench.service).arrived(FARM)
    assert (await bench.act()).request is not None


@pytest.mark.parametrize("error", [CallLost("no answer in 60 s"), CallVoid("busy", "later")])
async def test_a_look_that_got_no_answer_is_taken_again(error: Exception) -> None:
    """A look before a review that is lost or refused while the computer stays connected is taken again, by itself."""
    bench = Bench(Listening(says(WRITE)))
    await bench.submit()
    bench.computers.faults["fs_read"] = deque([error])
    task = await bench.act()
    while task.request is None:
        assert await bench.store.next_due() is not None, "nobody will ever look again"
        bench.clock.advance(60)
        task = await bench.act()
    assert len(bench.computers.sent("fs_read")) == 2


async def test_a_look_that_the_computer_goes_on_refusing_is_told_to_the_model() -> None:
    """A journal that cannot be written is no reason to look for ever."""
    model = Listening(says(WRITE), final("gave up", success=False))
    bench = Bench(model)
    await bench.submit()
    bench.computers.faults["fs_read"] = deque([CallVoid("journal_failed", "The disk is full.")] * 50)
    assert (await bench.act()).status is TaskStatus.FAILED
    assert "The disk is full." in model.told
    assert len(bench.computers.sent("fs_read")) == 5


async def test_a_look_that_was_begun_waits_for_its_computer() -> None:
    """Its start is recorded with the reply; the computer goes before the frame is written, and nothing is lost."""
    bench = Bench(Listening(says(call("cc_read", path="a.lua")), final()))
    task_id = await bench.submit(prompt=QUESTION)

    async def gone() -> None:
        bench.computers.away.add(FARM)

    bench.store.after["tool_started"] = gone
    assert only(await bench.act()).state is CallState.EXECUTING
    assert await bench.idle()
    assert bench.computers.frames == []
    bench.computers.away.clear()
    await JournalGreeter(bench.service).arrived(FARM)
    assert (await bench.act()).status is TaskStatus.COMPLETED
    assert [one.state for one in await bench.happened(task_id, "tool_settled")] == ["void"]
    assert len(bench.computers.sent("fs_read")) == 1


async def test_a_look_that_was_begun_too_late_is_not_taken() -> None:
    """The time of the task is up as its start is recorded: the task ends, and what was begun is settled, not sent."""
    bench = Bench(Listening(says(call("cc_read", path="a.lua"))))
    task_id = await bench.submit(max_wall_s=60)

    async def late() -> None:
        bench.clock.advance(61)

    bench.store.after["tool_started"] = late
    assert (await bench.act()).status_reason == "max_wall_s"
    assert bench.computers.frames == []
    assert [one.state for one in await bench.happened(task_id, "tool_settled")] == ["void"]


# -- lost answers ------------------------------------------------------------------------


async def test_a_lost_answer_is_settled_when_the_computer_is_back() -> None:
    """Dropped after the write and before its answer: claim kept, settled at the return, never sent again (E5)."""
    model = Listening(says(WRITE), final())
    bench = Bench(model)
    task = await bench.approved()
    bench.computers.faults["fs_write"] = deque(["vanish"])
    waiting = await bench.act()
    assert only(waiting).state is CallState.EXECUTING
    assert await bench.idle()
    assert await bench.store.claimant(FARM) == task.task_id
    bench.computers.away.clear()
    await JournalGreeter(bench.service).arrived(FARM)
    assert (await bench.act()).status is TaskStatus.COMPLETED
    assert "TOOL_RESULT: Wrote 13 bytes to a.lua" in model.told
    assert len(bench.computers.sent("fs_write")) == 1
    (settled,) = await bench.happened(task.task_id, "tool_settled")
    assert bench.computers.forgotten[settled.run_id] > bench.computers.settles[0][1]
    assert await bench.store.claimant(FARM) is None


async def test_a_lost_call_that_never_ran_runs_again() -> None:
    """Dropped before the computer took it: void at the settle, then run under a new id with the same approval."""
    bench = Bench(Listening(says(WRITE), final()))
    task = await bench.approved()
    bench.computers.faults["fs_write"] = deque([CallLost("gone")])
    while (task := await bench.act()).ended is None:
        pass
    assert [one.state for one in await bench.happened(task.task_id, "tool_settled")] == ["void"]
    assert len({one.run_id for one in await bench.happened(task.task_id, "tool_started")}) == 2
    assert bench.disk.done == ["fs_write a.lua"]
    assert len(await bench.happened(task.task_id, "review_requested")) == 1


async def test_a_settle_that_is_lost_is_asked_again_with_a_new_number() -> None:
    """A settle without an answer settles nothing; the next one carries a higher number."""
    bench = Bench(Listening(says(WRITE), final()))
    task = await bench.approved()
    bench.computers.faults["fs_write"] = deque(["lost"])
    bench.computers.settle_faults = deque([CallLost("gone again")])
    while (task := await bench.act()).ended is None:
        assert await bench.store.claimant(FARM) == task.task_id
    (_, first), (_, second) = bench.computers.settles
    assert first < second
    assert len(bench.computers.sent("fs_write")) == 1


async def test_an_interrupted_read_runs_again() -> None:
    """A read that a reboot interrupted is pure: it runs again under a new id and nobody is asked."""
    model = Listening(says(call("cc_read", path="a.lua")), final())
    bench = Bench(model)
    task_id = await bench.submit(prompt=QUESTION)
    bench.computers.faults["fs_read"] = deque(["lost"])
    bench.computers.settled_as["fs_read"] = {"state": "interrupted"}
    while (await bench.act()).ended is None:
        pass
    assert "TOOL_RESULT: 1| old" in model.told
    assert len(await bench.happened(task_id, "tool_started")) == 2
    assert await bench.happened(task_id, "review_requested") == []


async def unknown_run(bench: Bench) -> AgentTask:
    """A program run that a reboot interrupted: paused, its outcome unknown."""
    await bench.submit()
    task = await bench.decide(await bench.act())
    bench.computers.faults["run_program"] = deque(["lost"])
    bench.computers.settled_as["run_program"] = {"state": "interrupted"}
    while (task := await bench.act()).request is None:
        pass
    return task


RUN = call("cc_run_program", path="a.lua")


async def test_an_interrupted_run_is_unknown_and_a_person_is_asked() -> None:
    """A run that a reboot interrupted may have happened: paused as outcome_unknown, the model not told "failed"."""
    model = Listening(says(RUN), final())
    bench = Bench(model)
    task = await unknown_run(bench)
    assert (task.status, task.status_reason) == (TaskStatus.PAUSED, "outcome_unknown")
    record = only(task)
    assert record.state is CallState.OUTCOME_UNKNOWN
    assert record.observed is not None
    assert "Whether it was done is not known." in record.observed.note
    assert len(model.asked) == 1
    assert bench.disk.done == ["run_program a.lua"]


@pytest.mark.parametrize(
    ("action", "told", "reason"),
    [
        ("mark_done", "alice looked and says that it was done.", "final"),
        ("mark_failed", "alice looked and says that it was not done.", "unverified"),
    ],
)
async def test_a_person_says_what_became_of_it(action: DecisionAction, told: str, reason: str) -> None:
    """Marked done or failed the model hears that it was unknown and who looked; nothing runs again.

    A success that it claims then stands or falls with what the person said.
    """
    model = Listening(says(RUN), final())
    bench = Bench(model)
    await bench.decide(await unknown_run(bench), action)
    ended = await bench.act()
    assert (ended.status, ended.status_reason) == (TaskStatus.COMPLETED, reason)
    assert told in model.asked[1][-1].content
    assert bench.disk.done == ["run_program a.lua"]


async def test_check_looks_again_and_asks_again() -> None:
    """`check` decides nothing: the person is shown the present state in a new request."""
    bench = Bench(Listening(says(RUN), final()))
    task = await unknown_run(bench)
    await bench.decide(task, "check")
    again = await bench.act()
    assert again.request is not None
    assert task.request is not None
    assert again.request.request_id != task.request.request_id
    assert again.request.reason == "outcome_unknown"
    assert bench.disk.done == ["run_program a.lua"]


async def test_after_two_checks_it_cannot_be_known() -> None:
    """The person is told so, and is asked what only they can see; a third check is refused."""
    bench = Bench(Listening(says(RUN), final()))
    task = await unknown_run(bench)
    for _ in range(2):
        assert "check" in hitl_response(task).allowed_decisions
        await bench.decide(task, "check")
        task = await bench.act()
    observed = only(task).observed
    assert observed is not None
    assert "It cannot be known whether this was done: the computer was asked again twice" in observed.note
    assert hitl_response(task).allowed_decisions == ("mark_done", "mark_failed", "retry")
    with pytest.raises(InvalidDecision, match="cannot be known"):
        await bench.decide(task, "check")
    await bench.decide(task, "mark_done")
    assert (await bench.act()).status is TaskStatus.COMPLETED
    assert bench.disk.done == ["run_program a.lua"]


async def test_retry_is_a_new_call_with_a_new_approval() -> None:
    """`retry` runs nothing by itself: a new call id is asked about, and runs only when approved (E3)."""
    bench = Bench(Listening(says(RUN), final()))
    task = await unknown_run(bench)
    await bench.decide(task, "retry")
    again = await bench.act()
    assert again.request is not None
    assert again.request.reason == "approval"
    assert only(again).call_id != only(task).call_id
    assert bench.disk.done == ["run_program a.lua"]
    await bench.decide(again)
    assert (await bench.act()).status is TaskStatus.COMPLETED
    assert bench.disk.done == ["run_program a.lua"] * 2


async def test_what_ran_is_recorded_at_once_and_at_settling() -> None:
    """The program, its bytes and how it ended are in the fact and in the fold; so where the answer came late."""
    bench = Bench(Listening(says(RUN), says(call("cc_shell", command="a")), says(RUN), final()))
    task_id = await bench.submit()
    await bench.decide(await bench.act())
    failure = ComputerFailed("program_error", "boom", {"ended": "error", "ran_ms": 50})
    bench.computers.faults["shell"] = deque([failure])
    await bench.decide(await bench.act())
    bench.computers.faults["run_program"] = deque(["lost"])
    await bench.decide(await bench.act())
    while (await bench.act()).ended is None:
        pass
    sha256 = sha256_hex(b"old\n")
    finished, failed = [one.ran for one in await bench.happened(task_id, "tool_finished")]
    assert finished == facts.Ran(path="a.lua", sha256=sha256, ended="finished")
    assert failed == facts.Ran(path="a.lua", sha256=sha256, ended="error", seconds=0.05)
    (settled,) = await bench.happened(task_id, "tool_settled")
    assert settled.ran == finished


@pytest.mark.parametrize(
    ("args", "policy", "sent", "note"),
    [
        ({}, "", {"timeout_s": 60}, "It may run for 60 s of game time."),
        ({}, '[run_timeout_s]\n"?" = 300', {"timeout_s": 300}, "It may run for 300 s of game time."),
        ({"timeout_s": 7}, "[run_timeout_s]\n3 = 300", {"timeout_s": 7}, "It may run for 7 s of game time."),
        (
            {"observe_s": 90},
            "",
            {"timeout_s": 90, "observe_s": 90},
            "It is watched for 90 s of game time and then stopped.",
        ),
    ],
)
async def test_the_limit_of_a_run_is_of_the_call_the_policy_or_the_setting(
    args: dict[str, Any], policy: str, sent: dict[str, int], note: str
) -> None:
    """Whoever approves reads it, and it is what the computer is sent."""
    asks = """schema_version = 1
[[rules]]
id = "runs"
effect = "ask"
tools = ["cc_run_program"]
"""
    run = call("cc_run_program", path="a.lua", **args)
    bench = Bench(Listening(says(run), final()), policy=load_policy(asks + policy))
    await bench.submit()
    task = await bench.act()
    observed = only(task).observed
    assert observed is not None
    assert note in observed.note
    await bench.decide(task)
    await bench.act()
    (frame,) = bench.computers.sent("run_program")
    assert {name: frame.params[name] for name in frame.params if name.endswith("_s")} == sent


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            {"state": "finished", "ok": True},
            "Done: the computer's journal says so. Its output was lost when the computer restarted.",
        ),
        ({"state": "finished", "ok": True, "code": "observed"}, "It was watched and then stopped: the computer's"),
        ({"state": "finished", "ok": False, "code": "timed_out"}, "It reached its limit of time: the computer's"),
        ({"state": "finished", "ok": False, "code": "program_error"}, "It did not succeed (program_error): the"),
    ],
)
async def test_an_outcome_whose_output_is_lost_is_told_as_such(answer: dict[str, Any], told: str) -> None:
    """A run that the journal calls finished, whose output a reboot took, is told as what it is."""
    model = Listening(says(RUN), final())
    bench = Bench(model)
    task_id = await bench.submit()
    await bench.decide(await bench.act())
    bench.computers.faults["run_program"] = deque(["lost"])
    bench.computers.settled_as["run_program"] = answer
    hints: list[Mapping[str, Any]] = []
    bench.service.bus.subscribe(f"stream.{task_id}", hints.append)
    while (await bench.act()).ended is None:
        pass
    # While it is settled, those who watch the task are told what the program goes on to write.
    assert [(one["offset"], one["text"]) for one in hints if one["kind"] == "output"] == [(4, "on and on")]
    assert f"TOOL_RESULT: {told}" in model.asked[1][-1].content
    assert bench.disk.done == ["run_program a.lua"]
    (settled,) = await bench.happened(task_id, "tool_settled")
    ends: dict[str, facts.ProgramEnd] = {"": "finished", "observed": "observed", "timed_out": "timed_out"}
    ended = ends.get(answer.get("code", ""), "error")
    assert settled.ran == facts.Ran(path="a.lua", sha256=sha256_hex(b"old\n"), ended=ended)
    assert settled.ok == (ended != "error")


async def test_a_change_that_its_swap_files_undid_runs_again() -> None:
    """A write that the boot found not done is void: it runs again under a new id, with the approval it has."""
    bench = Bench(Listening(says(WRITE), final()))
    task = await bench.approved()
    bench.computers.faults["fs_write"] = deque([CallLost("gone")])
    bench.computers.settled_as["fs_write"] = {"state": "finished", "ok": False, "code": "not_done"}
    while (task := await bench.act()).ended is None:
        pass
    assert [one.state for one in await bench.happened(task.task_id, "tool_settled")] == ["void"]
    assert bench.disk.done == ["fs_write a.lua"]
    assert len(await bench.happened(task.task_id, "review_requested")) == 1


# -- the gate at run time ----------------------------------------------------------------


async def test_a_file_that_changed_is_asked_about_again() -> None:
    """Approved, then changed on the computer: nothing is overwritten, a new request shows the new diff (B3)."""
    bench = Bench(Listening(says(WRITE), final()))
    task = await bench.approved()
    bench.disk.files["a.lua"] = b"somebody's\n"
    again = await bench.act()
    assert bench.disk.files == {"a.lua": b"somebody's\n"}
    record = only(again)
    assert record.observed is not None
    assert "-somebody's" in (record.observed.diff or "")
    assert record.action_digest != only(task).action_digest
    await bench.decide(again)
    assert (await bench.act()).status is TaskStatus.COMPLETED
    assert bench.disk.files == {"a.lua": NEW}


async def test_a_policy_that_denies_at_run_time_wins() -> None:
    """Approved, then denied by a new policy: superseded, told to the model, nothing sent (P16)."""
    model = Listening(says(WRITE), CANNOT)
    bench = Bench(model)
    task = await bench.approved()
    bench.policy = rules(write="deny")
    assert gave_up(await bench.act())
    (ended,) = await bench.happened(task.task_id, "request_ended")
    assert ended.end == "superseded"
    assert "This call did not run: As the test says." in model.told
    assert bench.computers.sent("fs_write") == []


async def test_a_rule_that_changed_asks_again() -> None:
    """Approved under one rule, run under another that asks too: stale, shown again under a new digest."""
    bench = Bench(Listening(says(WRITE), final()))
    task = await bench.approved()
    bench.policy = rules(write="ask")
    again = await bench.act()
    assert again.request is not None
    assert only(again).action_digest != only(task).action_digest
    assert bench.computers.sent("fs_write") == []
    await bench.decide(again)
    assert (await bench.act()).status is TaskStatus.COMPLETED


async def test_a_neutral_edit_of_the_policy_costs_no_review() -> None:
    """A rule that does not match the call changes the policy's version and nothing else (P15)."""
    bench = Bench(Listening(says(WRITE), final()), policy=rules(write="ask"))
    task = await bench.approved()
    bench.policy = rules('[[rules]]\nid = "other"\neffect = "deny"\ntools = ["cc_delete"]\npaths = ["x"]', write="ask")
    assert (await bench.act()).status is TaskStatus.COMPLETED
    assert len(await bench.happened(task.task_id, "review_requested")) == 1


async def test_an_allowed_call_that_has_to_ask_meanwhile_asks() -> None:
    """Allowed when it was proposed, asked about by the policy that is in force when it runs."""
    bench = Bench(Listening(says(WRITE), final()), policy=rules())

    async def stricter() -> None:
        bench.policy = rules(write="ask")

    bench.store.after["calls_proposed"] = stricter
    await bench.submit()
    task = await bench.act()
    assert task.request is not None
    assert bench.computers.sent("fs_write") == []
    await bench.decide(task)
    assert (await bench.act()).status is TaskStatus.COMPLETED


async def test_a_command_computer_is_not_touched() -> None:
    """On a command computer the shipped policy denies changes and runs; reading goes on."""
    model = Listening(says(WRITE, RUN, call("cc_read", path="a.lua")), CANNOT)
    bench = Bench(model)
    bench.computers.families[FARM] = "command"
    await bench.submit()
    assert gave_up(await bench.act())
    assert model.told.count("Denied by policy: A command computer can change the whole world.") == 2
    assert "[3 cc_read] 1| old" in model.told
    assert bench.disk.done == []


async def test_a_program_that_the_policy_denies_once_it_is_resolved_does_not_run() -> None:
    """A rule on the resolved program bites when the program is looked at: nobody is asked and nothing runs."""
    model = Listening(says(call("cc_shell", command="a now")), CANNOT)
    deny = '[[rules]]\nid = "p"\neffect = "deny"\ntools = ["cc_shell"]\nprograms = ["a.lua"]\nreason = "Not that one."'
    bench = Bench(model, policy=load_policy(_asking_with(deny)))
    await bench.submit()
    assert gave_up(await bench.act())
    assert "Denied by policy: Not that one." in model.told
    assert bench.disk.done == []


def _asking_with(rule: str) -> str:
    return f'schema_version = 1\n[[rules]]\nid = "ask"\neffect = "ask"\ntools = ["*"]\n{rule}\n'


async def test_S15_what_can_not_work_is_told_to_the_model_before_anybody_is_asked() -> None:
    """A change whose look is refused asks no person: the model hears why, and the task goes on."""
    model = Listening(says(call("cc_shell", command="x" * 5000)), CANNOT)
    bench = Bench(model)
    task_id = await bench.submit()
    bench.computers.faults["fs_stat"] = deque([FrameRefused("The header has 5100 bytes, over 4096.")])
    assert gave_up(await bench.act())
    assert "TOOL_RESULT: This call did not run: The header has 5100 bytes, over 4096." in model.told
    assert await bench.happened(task_id, "review_requested") == []


async def test_a_computer_that_never_answers_a_look_is_told_to_the_model() -> None:
    """A read that was interrupted five times is a failed result, not a loop for ever."""
    model = Listening(says(call("cc_read", path="a.lua")), CANNOT)
    bench = Bench(model)
    task_id = await bench.submit()
    bench.computers.faults["fs_read"] = deque([CallLost("silence") for _ in range(5)])
    bench.computers.settled_as["fs_read"] = {"state": "interrupted"}
    while not gave_up(await bench.act()):
        bench.clock.advance(2.0)
    assert "It was interrupted 5 times" in model.told
    assert len(await bench.happened(task_id, "tool_started")) == 5


async def test_a_frame_that_does_not_fit_is_told_to_the_model() -> None:
    """A call whose frame was refused here never ran: its bracket is closed and the model hears why."""
    model = Listening(says(RUN), CANNOT)
    bench = Bench(model)
    task = await bench.submit()
    await bench.decide(await bench.act())
    bench.computers.faults["run_program"] = deque([FrameRefused("The body has 60000 bytes, over 49152.")])
    assert gave_up(await bench.act())
    assert "TOOL_RESULT: The body has 60000 bytes, over 49152." in model.told
    assert [one.ok for one in await bench.happened(task, "tool_finished")] == [False]


# -- several calls, several tasks, several computers ---------------------------------------


async def test_changes_run_one_after_the_other_in_the_order_of_the_reply() -> None:
    """Approved siblings that change something run in the reply's order, each bracket closed before the next."""
    bench = Bench(Listening(says(call("cc_write", path="b", content="1"), WRITE, RUN), final()))
    await bench.submit()
    task = await bench.decide(await bench.act())
    await bench.act()
    assert bench.disk.done[:2] == ["fs_write b", "fs_write a.lua"]
    brackets = [kind for kind in await bench.kinds(task.task_id) if kind in ("tool_started", "tool_finished")]
    assert brackets[:4] == ["tool_started", "tool_finished"] * 2


async def test_one_failing_call_does_not_lose_its_siblings() -> None:
    """A sibling that fails leaves the others' results as they are (E6)."""
    model = Listening(says(call("cc_read", path="none"), call("cc_read", path="a.lua"), WRITE), final())
    bench = Bench(model)
    await bench.submit()
    await bench.decide(await bench.act())
    assert (await bench.act()).status is TaskStatus.COMPLETED
    first, second, third = model.told.split("TOOL_RESULT: ")[1:]
    assert first.startswith("[1 cc_read] There is no none on the computer.")
    assert second.startswith("[2 cc_read] 1| old")
    assert third.startswith("[3 cc_write] Wrote")


async def test_two_tasks_never_overlap_on_a_computer() -> None:
    """While one task has an open call, the other's step waits without a frame, and is woken when it is free."""
    bench = Bench(Replaying(says(WRITE), final()), policy=rules())
    first = await bench.submit()
    bench.computers.faults["fs_write"] = deque(["hang"])
    acting = await bench.hanging()
    second = await bench.submit()
    sent = len(bench.computers.frames)
    assert (await bench.act()).task_id == second
    assert len(bench.computers.frames) == sent
    assert await bench.idle()
    bench.computers.go.set()
    assert (await acting).task_id == first
    assert (await bench.act()).status is TaskStatus.COMPLETED
    assert bench.disk.done == ["fs_write a.lua"] * 2


async def test_an_open_bracket_keeps_the_computer_from_others_after_the_end() -> None:
    """A canceled task whose call is not settled keeps its computer; when it is settled another task goes on."""
    bench = Bench(Replaying(says(WRITE), final()), policy=rules())
    first = await bench.submit()
    bench.computers.faults["fs_write"] = deque(["vanish"])
    await bench.act()
    await bench.service.cancel(first, ALICE)
    await bench.act()
    assert await bench.store.claimant(FARM) == first
    second = await bench.submit()
    assert (await bench.act()).task_id == second
    assert len(bench.computers.sent("fs_write")) == 1
    bench.computers.away.clear()
    await JournalGreeter(bench.service).arrived(FARM)
    while not await bench.idle():
        await bench.act()
    assert (await bench.service.load(first)).open_runs == ()
    assert (await bench.service.load(second)).status is TaskStatus.COMPLETED
    assert await bench.store.claimant(FARM) is None


async def test_with_several_computers_each_call_names_its_own() -> None:
    """With two computers a call without a name, or with an unknown one, is refused with the names; a named one runs."""
    model = Listening(
        says(call("cc_read", path="a.lua")),
        says(call("cc_read", path="a.lua", computer="9")),
        says(call("cc_read", path="a.lua", computer="4")),
        final(),
    )
    bench = Bench(model, computers=FakeComputers({FARM: Disk({"a.lua": b"farm"}), MINE: Disk({"a.lua": b"mine\n"})}))
    await bench.submit(FARM, MINE, prompt=QUESTION)
    assert (await bench.act()).status is TaskStatus.COMPLETED
    for asked in model.asked[1:3]:
        assert "Name the computer of cc_read: one of 3, 4." in asked[-1].content
    assert "TOOL_RESULT: 1| mine" in model.told


class Shaped(Listening):
    """Remembers whether it was told that a call needs no computer."""

    def __init__(self, *script: Any) -> None:
        super().__init__(*script)
        self.shapes: list[bool] = []

    async def reply(self, messages: Sequence[ChatMessage], **given: Any) -> ModelReply:
        self.shapes.append(given["one_computer"])
        return await super().reply(messages, **given)


async def test_with_one_computer_a_call_may_name_it_or_not() -> None:
    """Both are the same call; another name is refused; the model's server is told that no name is needed."""
    named = says(call("cc_read", path="a.lua", computer="3"))
    model = Shaped(
        says(call("cc_read", path="a.lua")), named, says(call("cc_read", path="a.lua", computer="4")), final()
    )
    bench = Bench(model, computers=FakeComputers({FARM: Disk({"a.lua": b"farm"}), MINE: Disk({"a.lua": b"mine\n"})}))
    await bench.submit(FARM, prompt=QUESTION)
    task = await bench.act()
    assert task.status is TaskStatus.COMPLETED
    bare, same, _ = task.turns
    assert bare.results == same.results
    assert bare.digests == same.digests
    assert "This task has only the computer 3. Leave computer out of cc_read." in model.told
    await bench.submit(FARM, MINE, prompt=QUESTION)
    model.script.extend([named, final()])
    await bench.act()
    assert model.shapes == [True] * 4 + [False] * 2


async def test_a_task_without_computers_uses_none() -> None:
    """A task that names no computer gets no `cc_*`, and the model is told so."""
    model = Listening(says(call("cc_list", path="/")), CANNOT)
    bench = Bench(model)
    task = await bench.service.submit("p", user=ALICE, model="m")
    assert (await bench.act()).task_id == task.task_id
    assert "This task has no computer, so cc_list cannot be used." in model.told
    assert bench.computers.frames == []


# -- people, the model, the host ---------------------------------------------------------


async def test_a_question_waits_and_the_first_answer_counts() -> None:
    """`ask_user` pauses the task; its answer is the tool's result, and a second answer is refused."""
    model = Listening(says(call("ask_user", question="Which one?")), final())
    bench = Bench(model)
    task_id = await bench.submit(prompt="Which one is it?")
    task = await bench.act()
    assert (task.status, task.status_reason) == (TaskStatus.PAUSED, "waiting for an answer")
    assert await bench.idle()
    question_id = only(task).question_id
    assert question_id is not None
    await bench.service.answer(task_id, question_id, "the left one", ALICE)
    assert (await bench.act()).status is TaskStatus.COMPLETED
    assert model.told.startswith("TOOL_RESULT: the left one\n")


async def test_a_status_is_an_item() -> None:
    """`send_status` is recorded for the user and touches nothing."""
    bench = Bench(Listening(says(call("send_status", message="half")), CANNOT))
    task_id = await bench.submit()
    await bench.act()
    (status,) = await bench.happened(task_id, "status_sent")
    assert status.message == "half"
    assert bench.computers.frames == []


async def test_a_model_that_cannot_be_asked_is_asked_three_times() -> None:
    """A failed request is repeated after 2 and 4 seconds, then the task fails with the model's reason."""
    bench = Bench(Listening(*[ModelFailed("no route")] * 3))
    task_id = await bench.submit()
    for seconds in (2, 4):
        assert (await bench.act()).status is TaskStatus.RUNNING
        assert await bench.store.next_due() == bench.clock.now() + timedelta(seconds=seconds)
        bench.clock.advance(seconds)
    ended = await bench.act()
    assert (ended.status, ended.status_reason) == (TaskStatus.FAILED, "model_failed")
    assert ended.ended is not None
    assert ended.ended.message == "no route"
    assert [one.attempt for one in await bench.happened(task_id, "model_asked")] == [1, 2, 3]


async def test_a_model_whose_own_wait_was_canceled_has_failed() -> None:
    """Its cancellation is not that of the actor: it is asked again, and then the task fails."""

    class Canceled(Listening):
        async def reply(self, *_: Any, **__: Any) -> ModelReply:
            raise asyncio.CancelledError

    bench = Bench(Canceled())
    await bench.submit()
    for seconds in (2, 4):
        assert (await bench.act()).status is TaskStatus.RUNNING
        bench.clock.advance(seconds)
    ended = await bench.act()
    assert (ended.status, ended.status_reason) == (TaskStatus.FAILED, "model_failed")


async def test_what_the_model_was_sent_is_proved() -> None:
    """Each request records prompt version, policy version and the digest of the very messages sent."""
    model = Listening(says(call("cc_list", path="/")), final())
    bench = Bench(model)
    task_id = await bench.submit(prompt="Which files are there?")
    await bench.act()
    asked = await bench.happened(task_id, "model_asked")
    assert {one.policy_version for one in asked} == {bench.policy.version}
    assert len({one.view_digest for one in asked}) == 2
    assert [(one.role, one.content) for one in model.asked[1][:2]] == [
        (one.role, one.content) for one in model.asked[0]
    ]


LOCAL = call("local_write", path="plan.txt", content="new\n")


@pytest.mark.parametrize(
    ("where", "kind", "states"), [("after", "tool_started", ["void"]), ("before", "tool_finished", ["finished"])]
)
async def test_a_local_change_is_settled_by_its_staged_file(
    tmp_path: Path, where: str, kind: str, states: list[str]
) -> None:
    """Killed before the commit it was not done and runs again; killed after it, it was done: once in all."""
    workspace = DirectoryWorkspace(tmp_path)
    bench = Bench(Replaying(says(LOCAL), final()), policy=rules(), workspace=workspace)
    task_id = await bench.submit()
    getattr(bench.store, where)[kind] = killing()
    await bench.dies()
    committed = workspace.read_bytes("plan.txt") is not None
    assert committed is (states == ["finished"])
    assert (await bench.act()).status is TaskStatus.COMPLETED
    assert [one.state for one in await bench.happened(task_id, "tool_settled")] == states
    assert workspace.read_bytes("plan.txt") == b"new\n"
    assert list((tmp_path / STAGING).iterdir()) == []
    assert len(await bench.happened(task_id, "tool_started")) == (1 if committed else 2)


async def test_a_path_that_the_workspace_refuses_closes_its_bracket(tmp_path: Path) -> None:
    """A path that leaves the workspace is a failed result for the model, not a task that stands still."""
    model = Listening(says(call("local_read", path="/etc/passwd")), says(call("local_write", path="/x", content="")))
    model.script.append(CANNOT)
    bench = Bench(model, policy=rules(), workspace=DirectoryWorkspace(tmp_path))
    task_id = await bench.submit()
    assert gave_up(await bench.act())
    assert [one.code for one in await bench.happened(task_id, "tool_finished")] == ["unsafe_path"]
    assert [one.end for one in await bench.happened(task_id, "request_ended")] == ["superseded"]
    assert "goes" in model.told or "relative path" in model.told


@pytest.mark.parametrize("place", ["above it", "of what is staged"])
async def test_a_change_whose_directory_became_a_link_is_unknown(tmp_path: Path, place: str) -> None:
    """Killed in the middle of a change of this host, and then the way there leaves the workspace: a person is asked."""
    root = tmp_path / "space"
    (root / "notes").mkdir(parents=True)
    bench = Bench(
        Replaying(says(call("local_write", path="notes/plan.txt", content="new\n")), final()),
        policy=rules(),
        workspace=DirectoryWorkspace(root),
    )
    task_id = await bench.submit()
    moment = bench.store.after if place == "of what is staged" else bench.store.before
    moment["tool_started" if place == "of what is staged" else "tool_finished"] = killing()
    await bench.dies()
    moved = root / (STAGING if place == "of what is staged" else "notes")
    moved.rename(tmp_path / "elsewhere")
    moved.symlink_to(tmp_path / "elsewhere")
    task = await bench.act()
    (settled,) = await bench.happened(task_id, "tool_settled")
    if place == "of what is staged":
        assert (settled.state, task.status_reason) == ("unknown", "outcome_unknown")
        assert "symbolic link" in settled.reason
    else:
        assert (settled.state, task.status) == ("finished", TaskStatus.COMPLETED)


async def test_a_node_with_another_workspace_refuses_local_tools(tmp_path: Path) -> None:
    """Where the other nodes have another workspace, the model is told so, and no file is touched."""
    model = Listening(says(call("local_read", path="plan.txt")), says(LOCAL), CANNOT)
    bench = Bench(model, policy=rules(), workspace=RefusedWorkspace(tmp_path, "w-1"))
    await bench.submit()
    assert gave_up(await bench.act())
    assert "is not the workspace that the other nodes" in model.told
    assert not (tmp_path / "plan.txt").exists()


async def test_a_node_with_another_workspace_settles_nothing_there(tmp_path: Path) -> None:
    """A change that was begun on a node with the workspace is unknown to one that has another: it says so, and asks."""
    workspace = DirectoryWorkspace(tmp_path / "common")
    bench = Bench(Replaying(says(LOCAL), final()), policy=rules(), workspace=workspace)
    task_id = await bench.submit()
    bench.store.after["tool_started"] = killing()
    await bench.dies()
    bench.world.workspace = RefusedWorkspace(tmp_path, "w-1")
    assert (await bench.act()).status is TaskStatus.PAUSED
    (settled,) = await bench.happened(task_id, "tool_settled")
    assert settled.state == "unknown"
    assert "is not the workspace that the other nodes" in settled.reason
    assert workspace.read_bytes("plan.txt") is None


async def test_one_decision_each_of_several_calls() -> None:
    """Two calls decided apart: the task stays paused until the last one, then runs only the approved."""
    model = Listening(says(WRITE, call("cc_write", path="b", content="x")), final())
    bench = Bench(model)
    await bench.submit()
    task = await bench.act()
    first, second = task.calls
    assert task.request is not None
    one = ResumeRequest(decisions=(CallDecision(call_id=second.call_id, action="approve"),))
    task = (await bench.service.decide(task.request.request_id, one, ALICE)).task
    assert task.status is TaskStatus.PAUSED
    if not await bench.idle():
        await bench.act()
    assert bench.disk.done == []
    other = CallDecision(call_id=first.call_id, action="reject", on_reject="continue")
    assert task.request is not None
    await bench.service.decide(task.request.request_id, ResumeRequest(decisions=(other,)), ALICE)
    assert (await bench.act()).status is TaskStatus.COMPLETED
    assert bench.disk.done == ["fs_write b"]


@pytest.mark.parametrize("says_of_it", [{"state": "void"}, {"state": "finished", "ok": True}, {"state": "interrupted"}])
async def test_a_run_on_a_computer_that_was_put_back_is_unknown_whatever_it_says(says_of_it: dict[str, Any]) -> None:
    """A computer whose disk or whose store was put back says this or that: it proves nothing, and a person is asked."""
    model = Listening(says(RUN), final())
    bench = Bench(model)
    task_id = await bench.submit()
    await bench.decide(await bench.act())
    bench.computers.faults["run_program"] = deque(["vanish"])
    bench.computers.settled_as["run_program"] = says_of_it
    await bench.act()
    side = ComputerSide(computer_id=3, boot="b", at=bench.clock.now())
    await bench.store.welcome_computer(FARM, Coming(side, doubt=True))
    bench.computers.away.clear()
    await bench.store.wake(task_id)
    while (task := await bench.act()).request is None:
        pass
    assert (task.request.reason, task.status) == ("outcome_unknown", TaskStatus.PAUSED)
    assert "put back" in only(task).note
