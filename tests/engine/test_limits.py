"""What stops a task: its limits, a person's cancel in any phase, and the stop of everything."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from orchestrator.adapters.bus.local import LocalBus
from orchestrator.core.errors import ComputerFailed, Forbidden, ModelFailed, StoreAway
from orchestrator.core.model_view.prompt import estimate
from orchestrator.core.ports import CallResult, ChatMessage, Identity, Lease, ModelReply
from orchestrator.core.task import facts
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.limits import LEAST_REPLY
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.task import AgentTask
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.actor import journal as actor_journal
from orchestrator.runtime.clock import SystemClock
from tests.engine.test_actor import ALICE, FARM, MINE, Bench, Hook, only, rules
from tests.harness.support import WRITE, Disk, FakeComputers, Listening, call, final, says
from tests.waiting import HANG_S, within

BOB = Identity(kind="person", name="bob", roles=("submitter",))
RUN = says(call("cc_run_program", path="a.lua"))
READ = says(call("cc_read", path="a.lua"))
LESS, OUT = 30, 10
"""By so many tokens the server counts less than was estimated, and so many it counts for each reply."""


class Stoppable(FakeComputers):
    """Computers whose programs run until they are told to terminate."""

    def __init__(self) -> None:
        super().__init__({FARM: Disk({"a.lua": b"old\n"}), MINE: Disk({"a.lua": b"old\n"})})
        self.running: dict[str, asyncio.Future[CallResult]] = {}
        self.begun = asyncio.Event()
        self.terminated: list[str] = []

    async def call(self, computer: ComputerId, *, run_id: Any, method: str, params: Any, **more: Any) -> CallResult:
        if method == "terminate":
            self.terminated.append(params["run"])
            failed = ComputerFailed("terminated", "The program was terminated.")
            self.running[params["run"]].set_exception(failed)
            return CallResult({"state": "stopping"})
        if method == "run_program":
            self.running[run_id] = asyncio.get_running_loop().create_future()
            self.begun.set()
            return await self.running[run_id]
        return await super().call(computer, run_id=run_id, method=method, params=params, **more)


class Endless:
    """A model that never ends its reply, and knows when it is no longer listened to."""

    name = "endless"

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.stopped = asyncio.Event()
        self.bounds: list[int | None] = []

    async def window(self) -> None:
        """It does not say."""

    async def reply(
        self,
        messages: Sequence[ChatMessage],
        *,
        on_text: Callable[[str], None] | None = None,
        max_output_tokens: int | None = None,
        user: str = "",
        affinity: str = "",
        one_computer: bool = False,
    ) -> ModelReply:
        del messages
        self.bounds.append(max_output_tokens)
        self.asked.set()
        if on_text is not None:
            on_text('{"kind": "final", "success": true, "message": "done"')
            on_text("}")
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()
        raise AssertionError


# -- cancel ------------------------------------------------------------------------------


async def test_a_cancel_stops_the_generation() -> None:
    """The model is no longer listened to, and what came of its reply is nothing."""
    model = Endless()
    bench = Bench(model)
    task_id = await bench.submit()
    acting = asyncio.create_task(bench.act())
    await within(model.asked.wait())
    await bench.service.cancel(task_id, ALICE)
    assert (await within(acting)).status is TaskStatus.CANCELED
    assert model.stopped.is_set()
    assert await bench.kinds(task_id) == ["task_submitted", "model_asked", "cancel_requested", "task_ended"]


async def test_a_cancel_terminates_the_program() -> None:
    """The computer is told to stop it, and how it ended is still recorded: the bracket does not stay open."""
    computers = Stoppable()
    bench = Bench(Listening(RUN), policy=rules(), computers=computers)
    task_id = await bench.submit()
    acting = asyncio.create_task(bench.act())
    await within(computers.begun.wait())
    await bench.service.cancel(task_id, ALICE)
    ended = await within(acting)
    assert ended.status is TaskStatus.CANCELED
    assert not ended.open_runs
    assert computers.terminated == list(computers.running)
    (finished,) = await bench.happened(task_id, "tool_finished")
    assert (finished.ok, finished.code) == (False, "tool_failed")
    assert "terminated" in finished.text
    assert await bench.idle()


@pytest.mark.parametrize("before", ["queued", "reviewing", "away"])
async def test_a_cancel_in_a_phase_without_an_actor(before: str) -> None:
    """Queued, waiting for a person, waiting for a computer: it ends, and nothing of it is left to do."""
    bench = Bench(Listening(says(WRITE)))
    task_id = await bench.submit()
    if before == "reviewing":
        await bench.act()
    if before == "away":
        bench.computers.away.add(FARM)
        await bench.act()
    task = await bench.service.cancel(task_id, ALICE, "enough")
    assert (task.status, task.request) == (TaskStatus.CANCELED, None)
    if not await bench.idle():
        assert (await bench.act()).status is TaskStatus.CANCELED
    assert bench.disk.done == []


# -- limits ------------------------------------------------------------------------------


async def test_a_program_ends_with_the_time_of_its_task() -> None:
    """Out of time in the middle of a run: the program is terminated and the task fails, saying so."""
    computers = Stoppable()
    bench = Bench(Listening(RUN), policy=rules(), computers=computers, clock=SystemClock())  # type: ignore[arg-type]
    await bench.submit(max_wall_s=0.2)
    ended = await bench.act()
    assert (ended.status, ended.status_reason) == (TaskStatus.FAILED, "max_wall_s")
    assert len(computers.terminated) == 1
    assert not ended.open_runs


async def test_a_generation_ends_with_the_time_of_its_task() -> None:
    """Out of time while the model writes: it is stopped."""
    model = Endless()
    bench = Bench(model, clock=SystemClock())  # type: ignore[arg-type]
    task_id = await bench.submit(max_wall_s=0.1)
    ended = await bench.act()
    assert (ended.status, ended.status_reason) == (TaskStatus.FAILED, "max_wall_s")
    assert model.stopped.is_set()
    (reached,) = await bench.happened(task_id, "limit_reached")
    assert reached.detail == "The limit of 0.1 s was reached."


async def test_waiting_for_a_person_takes_no_time() -> None:
    """Hours of thinking by the reviewer cost nothing; a day without the computer does."""
    bench = Bench(Listening(says(WRITE), final()))
    await bench.submit(max_wall_s=60)
    task = await bench.act()
    bench.clock.advance(80_000)
    await bench.decide(task)
    bench.computers.away.add(FARM)
    parked = await bench.act()
    assert parked.active_s == 0
    due = await bench.store.next_due()
    assert due == bench.clock.now() + timedelta(seconds=60), "it must wake to notice"
    bench.clock.advance(60)
    ended = await bench.act()
    assert (ended.status, ended.status_reason) == (TaskStatus.FAILED, "max_wall_s")
    assert ended.ended is not None
    assert ended.ended.message == "The limit of 60 s was reached while it waited for computer 3."
    assert bench.disk.done == []


@pytest.mark.parametrize(("max_steps", "asked"), [(1, 1), (2, 2), (3, 2)])
async def test_the_limit_of_steps_is_exact(max_steps: int, asked: int) -> None:
    """So many replies and no more; the last one may still be the end."""
    model = Listening(RUN, final())
    bench = Bench(model, policy=rules())
    await bench.submit(max_steps=max_steps)
    ended = await bench.act()
    assert len(model.asked) == asked
    assert ended.status_reason == ("max_steps" if max_steps == 1 else "final")


class Counting(Listening):
    """A model whose server counts a few tokens less than are estimated, or does not count at all."""

    def __init__(self, *script: Any, counts: bool = True) -> None:
        super().__init__(*script)
        self.counts = counts
        self.bounds: list[int | None] = []
        self.sent: list[int] = []
        """Tokens of each request, as they are estimated."""
        self.sizes: list[int] = []

    async def reply(
        self,
        messages: Sequence[ChatMessage],
        *,
        on_text: Callable[[str], None] | None = None,
        max_output_tokens: int | None = None,
        user: str = "",
        affinity: str = "",
        one_computer: bool = False,
    ) -> ModelReply:
        self.bounds.append(max_output_tokens)
        self.sent.append(sum(estimate(message.content) for message in messages))
        reply = await super().reply(messages, on_text=on_text)
        self.sizes.append(len(reply.text.encode()))
        usage = facts.Usage(input_tokens=self.sent[-1] - LESS, output_tokens=OUT) if self.counts else facts.Usage()
        return ModelReply(text=reply.text, usage=usage)


async def _asked(max_tokens: int, *, counts: bool = True) -> tuple[Counting, AgentTask]:
    """A task of two runs and an end under a limit of tokens (0: none), as far as it comes."""
    model = Counting(RUN, RUN, final(), counts=counts)
    bench = Bench(model, policy=rules())
    await bench.submit(max_tokens=max_tokens)
    return model, await bench.act()


async def test_a_reply_may_have_what_the_prompt_leaves_of_the_limit() -> None:
    """The prompt counts before it is sent: as the server counted it as far as it did, the rest as it is estimated."""
    model, ended = await _asked(20_000)
    assert ended.status_reason == "final"
    used, counted, at = 0, 0, 0
    for sent, bound in zip(model.sent, model.bounds, strict=True):
        assert bound == 20_000 - used - (counted + sent - at)
        used, counted, at = used + sent - LESS + OUT, sent - LESS, sent
    assert ended.tokens == used
    assert (await _asked(0))[0].bounds == [None, None, None]


@pytest.mark.parametrize("counts", [True, False], ids=["counted", "estimated"])
async def test_a_request_that_would_pass_the_limit_is_not_sent(counts: bool) -> None:
    """What was used never passes it, and the end says what was counted and what estimated."""
    whole, _ = await _asked(0, counts=counts)
    used = 0
    for number, sent in enumerate(whole.sent):
        # A little less than this request needs, and more than the one before it did; the tags of tasks differ.
        short = used + sent - LESS * counts * min(number, 1) + LEAST_REPLY - 40
        model, ended = await _asked(short, counts=counts)
        assert len(model.sent) == number
        assert ended.status_reason == "max_tokens"
        assert ended.tokens + ended.uncounted <= short
        assert ended.ended is not None
        assert "leaves no room for another request, so none was sent" in ended.ended.message
        assert ("counted by the model's server" in ended.ended.message) == (counts and number > 0)
        assert ("of them estimated)" in ended.ended.message) == (not counts and number > 0)
        used += sent - LESS + OUT if counts else sent + whole.sizes[number] // 2 + 1


# -- everything --------------------------------------------------------------------------


async def test_stop_all_stops_what_runs_what_waits_and_what_is_queued() -> None:
    """One model writes, one program runs, one request waits, one task is queued: all are over."""
    model = Endless()
    bench = Bench(model)
    writing = await bench.submit()
    acting = asyncio.create_task(bench.act())
    await within(model.asked.wait())
    queued = await bench.submit(MINE)
    stopped = await bench.service.stop_all(ALICE, "the creeper")
    assert set(stopped) == {writing, queued}
    assert (await within(acting)).status is TaskStatus.CANCELED
    assert model.stopped.is_set()
    assert (await bench.service.load(queued)).cancel_reason == "the creeper"
    assert await bench.service.stop_all(ALICE) == []


async def test_stop_all_of_a_submitter_is_for_his_own() -> None:
    """Who is no admin stops what he submitted."""
    bench = Bench(Listening())
    others = await bench.submit()
    own = (await bench.service.submit("dig", user=BOB, model="m")).task_id
    assert await bench.service.stop_all(BOB) == [own]
    assert (await bench.service.load(others)).status is TaskStatus.QUEUED


# -- conversations -----------------------------------------------------------------------


async def test_a_follow_up_sees_how_the_session_went() -> None:
    """The ended tasks of the session, oldest first; the one that is not over is not told."""
    model = Listening(RUN, final("the wheat is in"), final("no fuel", success=False), final("nothing", success=False))
    bench = Bench(model, policy=rules())
    for prompt in ("harvest", "dig"):
        await bench.service.submit(prompt, user=ALICE, computers=[FARM], model="m", session_id="s-farm")
        bench.clock.advance(1)
        await bench.act()
    waiting: AgentTask = await bench.service.submit("later", user=ALICE, model="m", session_id="s-farm", priority=-1)
    await bench.service.submit("and now?", user=ALICE, model="m", session_id="s-farm")
    await bench.act()
    goal = model.asked[-1][1].content
    assert goal.startswith("and now?\n\nEarlier in this conversation")
    assert '- "harvest" ended Completed: "the wheat is in"\n- "dig" ended Failed: "no fuel"' in goal
    assert waiting.prompt not in goal


async def test_a_session_belongs_to_its_person() -> None:
    """Nobody reads another's results by naming a session."""
    bench = Bench(Listening())
    await bench.service.submit("harvest", user=ALICE, model="m", session_id="s-farm")
    with pytest.raises(Forbidden, match="somebody else's"):
        await bench.service.submit("what did she say?", user=BOB, model="m", session_id="s-farm")


# -- what is told while it comes ---------------------------------------------------------


class Writing(Listening):
    """A model that writes its reply letter by letter."""

    async def reply(
        self,
        messages: Sequence[ChatMessage],
        *,
        on_text: Callable[[str], None] | None = None,
        max_output_tokens: int | None = None,
        user: str = "",
        affinity: str = "",
        one_computer: bool = False,
    ) -> ModelReply:
        reply = await super().reply(messages, max_output_tokens=max_output_tokens)
        for letter in reply.text:
            if on_text is not None:
                on_text(letter)
                await asyncio.sleep(0)  # as each comes by itself, and what was due by then is done
        return reply


async def test_streamed_and_whole_replies_give_equal_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hints add up to the reply, and the journal does not know whether anybody listened."""
    monkeypatch.setattr(actor_journal, "EVERY_S", 0.0)
    journals, heard = [], []
    for model in (Listening(READ, final("it prints 1")), Writing(READ, final("it prints 1"))):
        bench = Bench(model)
        task_id = await bench.submit(read_only=True)
        bench.service.bus.subscribe(f"stream.{task_id}", lambda hint: heard.append(dict(hint)))
        await bench.act()
        journals.append([_told(item.fact) for item in await bench.journal(task_id)])
    assert journals[0] == journals[1]
    texts = ["".join(hint["text"] for hint in heard if hint["kind"] == kind) for kind in ("explanation", "message")]
    assert texts == ["becausethat was it", "it prints 1"]
    assert {hint["step"] for hint in heard} == {1, 2}


async def test_a_reply_that_comes_at_once_is_told_as_an_item_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many its parts are: nobody reads so fast."""
    monkeypatch.setattr(actor_journal, "EVERY_S", HANG_S)
    bench = Bench(Writing(READ, final("it prints 1")))
    heard: list[Mapping[str, Any]] = []
    task_id = await bench.submit(read_only=True)
    bench.service.bus.subscribe(f"stream.{task_id}", heard.append)
    await bench.act()
    assert [hint for hint in heard if hint["kind"] != "output"] == []


async def test_nothing_is_told_of_a_reply_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of one that was never told in parts; what was left of another came before."""
    monkeypatch.setattr(actor_journal, "EVERY_S", 0.0)
    bus, heard, told = LocalBus(), list[Any](), asyncio.Event()
    bus.subscribe("stream.t1", lambda hint: heard.append(hint["text"]))
    bus.subscribe("stream.t1", lambda _: told.set())
    at_once, slow = (actor_journal.Hints(bus, TaskId("t1")).reply(1) for _ in range(2))
    at_once("all of it")
    at_once.close()
    slow("one")
    await within(told.wait())
    slow("two")
    slow.close()
    for _ in range(3):
        await asyncio.sleep(0)
    assert heard == ["one", "two"]


def _told(fact: facts.Fact) -> dict[str, Any]:
    """A fact without what is drawn for each task."""
    drawn = {"session_id", "tag", "view_digest", "call_id", "run_id", "action_digest", "calls"}
    return {key: value for key, value in fact.model_dump(mode="json").items() if key not in drawn}


async def test_nothing_runs_from_a_partial_reply() -> None:
    """The text that came was a whole final result; as long as the reply is not over, it is none."""
    model = Endless()
    bench = Bench(model)
    task_id = await bench.submit()
    acting = asyncio.create_task(bench.act())
    await within(model.asked.wait())
    assert (await bench.service.load(task_id)).ended is None
    await bench.service.cancel(task_id, ALICE)
    assert (await within(acting)).status is TaskStatus.CANCELED


async def test_a_step_is_two_transactions() -> None:
    """Reply, call and start of a look in one, its outcome and the next request in the other: waiting costs disks."""
    bench = Bench(Listening(READ, final()))
    task_id = await bench.submit(read_only=True)
    versions: list[int] = []
    bench.service.news.hear(task_id, lambda hint: versions.append(hint["version"]))
    await bench.act()
    kinds = await bench.kinds(task_id)
    appended = [kinds[low:high] for low, high in zip([1, *versions], versions, strict=False)]
    assert appended == [
        ["model_asked"],
        ["model_replied", "calls_proposed", "tool_started"],
        ["tool_finished", "model_asked"],
        ["model_replied", "task_ended"],
    ]


# -- models that fail --------------------------------------------------------------------


async def test_a_failure_that_lasts_is_not_tried_again() -> None:
    """A model that is not installed will not be there in two seconds: the task ends at once, with what to do."""
    failure = ModelFailed("Ollama has no model 'x'.", remedy="Run `ollama pull x`.", lasting=True)
    model = Listening(failure)
    bench = Bench(model)
    await bench.submit()
    ended = await bench.act()
    assert (ended.status, ended.status_reason) == (TaskStatus.FAILED, "model_failed")
    assert len(model.asked) == 1
    assert ended.ended is not None
    assert ended.ended.message == "Ollama has no model 'x'. Run `ollama pull x`."


async def test_half_a_character_is_no_reply() -> None:
    """Text with half a surrogate pair cannot be kept as it was, so nothing of it is carried out."""
    model = Listening('{"kind": "final", "success": true, "message": "\ud83d"}', RUN, final("whole"))
    bench = Bench(model, policy=rules())
    task_id = await bench.submit()
    ended = await bench.act()
    (refused,) = await bench.happened(task_id, "reply_refused")
    assert "broke off" in refused.reason
    assert ended.ended is not None
    assert ended.ended.message == "whole"


async def test_a_program_that_is_not_there_is_told_at_once() -> None:
    """Nobody is asked about running nothing, unless a sibling may still write it."""
    model = Listening(says(call("cc_run_program", path="gone.lua")), final(success=False))
    bench = Bench(model)
    task_id = await bench.submit()
    ended = await bench.act()
    assert ended.status is TaskStatus.FAILED
    assert "review_requested" not in await bench.kinds(task_id)
    assert "finds no program" in model.told
    both = says(call("cc_write", path="new.lua", content="return 1\n"), call("cc_run_program", path="new.lua"))
    bench = Bench(Listening(both))
    await bench.submit()
    task = await bench.act()
    assert task.request is not None
    assert len(task.request.call_ids) == 2


# -- claims ------------------------------------------------------------------------------


async def test_a_step_that_begins_by_looking_claims_all_its_computers() -> None:
    """Together or not at all: two tasks that each held one of two computers would wait for each other for ever."""
    computers = FakeComputers({FARM: Disk({"a.lua": b"1\n"}), MINE: Disk({"a.lua": b"2\n"})})
    computers.faults["fs_read"] = deque(["hang"])
    both = says(
        call("cc_read", path="a.lua", computer=FARM),
        call("cc_write", path="b.lua", content="return 1\n", computer=MINE),
    )
    bench = Bench(Listening(both, final()), policy=rules(), computers=computers)
    task_id = await bench.submit(FARM, MINE)
    acting = await bench.hanging()
    assert [await bench.store.claimant(computer) for computer in (FARM, MINE)] == [task_id, task_id]
    computers.go.set()
    assert (await within(acting)).status is TaskStatus.COMPLETED
    assert [await bench.store.claimant(computer) for computer in (FARM, MINE)] == [None, None]


async def test_a_task_that_sleeps_tells_the_workers_of_those_that_wait_for_its_computer() -> None:
    """It gives its computer back with its lease, and no idle worker would look for the other task by itself."""
    change = says(WRITE)
    bench, told = Bench(Listening(change, change)), list[Mapping[str, Any]]()
    bench.computers.faults["fs_read"] = deque(["hang"])
    await bench.submit()
    acting = await bench.hanging()
    second = await bench.submit()
    assert (await bench.act()).task_id == second
    assert await bench.idle()
    bench.service.bus.subscribe("tasks.due", told.append)
    bench.computers.go.set()
    assert (await within(acting)).status is TaskStatus.PAUSED
    # By no name: the one that sleeps is not the one that is due.
    assert told == [{}]
    assert not await bench.idle()


async def test_an_acknowledgement_has_a_number_of_its_own() -> None:
    """That of a look was allotted with the look: no number is said to a computer twice."""
    bench = Bench(Listening(says(WRITE), final()))
    await bench.approved()
    await bench.act()
    numbers = [*(frame.number for frame in bench.computers.frames), *bench.computers.forgotten.values()]
    assert len(bench.computers.forgotten) > 1
    assert len(set(numbers)) == len(numbers)


async def taken(bench: Bench, computer: ComputerId = FARM) -> tuple[Lease, Hook]:
    """Another task has the computer: its lease, and what gives both back."""
    await bench.submit(computer)
    lease = await bench.store.lease("node-2", 60)
    assert lease is not None
    await bench.store.claim(lease, [computer])

    async def given_back() -> None:
        await bench.store.park(lease, 1, due=None, keep=())

    return lease, given_back


@pytest.mark.parametrize("reply", [READ, says(WRITE)], ids=["look", "change"])
async def test_a_computer_that_is_free_in_a_moment_is_waited_for(reply: str) -> None:
    """Most steps have their computer for milliseconds: the task keeps its lease, and no other actor has to begin."""
    bench = Bench(Listening(reply, final()), policy=rules())
    _, bench.store.before["claimant"] = await taken(bench)
    waiting = await bench.submit(FARM)
    task = await bench.act()
    assert (task.task_id, task.status) == (waiting, TaskStatus.COMPLETED)


@pytest.mark.parametrize("reply", [READ, says(WRITE)], ids=["look", "change"])
async def test_a_computer_that_is_given_back_as_the_task_parks_wakes_it(reply: str) -> None:
    """PostgreSQL still tells of the old claim while it is given back: who only looks then would sleep for ever."""
    bench = Bench(Listening(reply, final()), policy=rules())
    lease, bench.store.before["park"] = await taken(bench)
    bench.store.stale = lease.task_id
    waiting = await bench.submit(FARM)
    assert (await bench.act()).task_id == waiting
    assert not await bench.idle()
    assert (await bench.act()).status is TaskStatus.COMPLETED


async def test_a_claim_of_which_nothing_was_heard_is_made_again() -> None:
    """A task that stopped for it would keep what it has claimed from all others until it is looked at again."""
    bench = Bench(Listening(says(WRITE), final()), policy=rules())

    async def unheard() -> None:
        raise StoreAway("The disk took too long.")

    bench.store.after["claim"] = unheard
    await bench.submit(FARM)
    assert (await bench.act()).status is TaskStatus.COMPLETED


@pytest.mark.parametrize("tool", ["cc_read", "cc_delete"], ids=["look", "change"])
async def test_a_task_parks_for_the_computer_that_was_refused_last(tool: str) -> None:
    """Of its two computers another task takes the first while it waits for the second, which is given back then."""
    computers = FakeComputers({one: Disk({"a.lua": b"old\n"}) for one in (FARM, MINE)})
    both = says(*(call(tool, path="a.lua", computer=one) for one in (FARM, MINE)))
    bench = Bench(Listening(both, final()), policy=rules(), computers=computers)
    lease, bench.store.before["park"] = await taken(bench, MINE)
    bench.store.stale = lease.task_id
    give_back: list[Hook] = []

    async def taken_too() -> None:
        give_back.append((await taken(bench))[1])

    bench.store.before["claimant"] = taken_too
    waiting = await bench.submit(FARM, MINE)
    assert (await bench.act()).task_id == waiting
    assert await bench.idle()
    await give_back[0]()
    assert not await bench.idle()
    assert (await bench.act()).status is TaskStatus.COMPLETED


async def test_a_look_at_a_computer_of_another_task_waits() -> None:
    """The start is refused with the claim, nothing is sent, and giving the computer back wakes the task."""
    bench = Bench(Listening(READ, final()))
    _, give_back = await taken(bench)
    waiting = await bench.submit(FARM)
    task = await bench.act()
    assert (task.task_id, only(task).state) == (waiting, "allowed")
    assert bench.computers.frames == []
    assert await bench.idle()
    await give_back()
    assert (await bench.act()).status is TaskStatus.COMPLETED
