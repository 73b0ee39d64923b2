"""A rehearsal is asked for by several people, anew after a kill, or once it was taken back: one task does it."""

from dataclasses import dataclass

import pytest

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.ports import Identity
from orchestrator.core.task import facts
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import SYSTEM
from orchestrator.core.task.rehearsal import Rehearsal, copy_name
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.undo.plan import Listing
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.engine.undo import Undoing
from orchestrator.history.rehearsal.conclusion import Concluding
from tests.engine.test_actor import ALICE, FARM, Bench, Killed, killing
from tests.harness.support import Listening

ROOT = Identity(kind="person", name="root", roles=("admin",))


@dataclass
class Failed:
    """A rehearsal that failed once it had changed something in its copy."""

    at: Bench
    task_id: TaskId
    ends: Concluding

    async def applying(self) -> list[TaskId]:
        """The tasks that apply it, those that are over among them."""
        return [row.task_id for row in await self.at.service.list_tasks() if row.task_id != self.task_id]

    async def done(self, task_id: TaskId) -> str:
        """See a task that restores to its end, approved as it asks; the file as it is then."""
        while (task := await self.at.act()).task_id != task_id or task.ended is None:
            if task.request is not None:
                await self.at.decide(task)
        assert task.status is TaskStatus.COMPLETED
        return self.at.disk.files["a.lua"].decode()

    async def undone(self, task_id: TaskId) -> str:
        """Take all of a task back; the file as it is then."""
        undo = await self.ends.undoing.submit(Restoration(task_id=task_id), ALICE)
        return await self.done(undo.task_id)

    async def must_stand(self, applied_by: TaskId) -> None:
        """It is applied, and whoever asks for it anew is told by which task."""
        tasks = await self.applying()
        with pytest.raises(InvalidRequest, match=f"is already applied by {applied_by}.*undo {applied_by}`"):
            await self.ends.apply(self.task_id, ALICE)
        assert await self.applying() == tasks


async def failed() -> Failed:
    at = Bench(Listening())
    for text in (b"old\n", b"new\n"):
        await at.store.put_blob(text)
    old, new = Listing({"a.lua": sha256_hex(b"old\n")}), Listing({"a.lua": sha256_hex(b"new\n")})
    base, after = [(await at.store.put_blob(one.lines)).sha256 for one in (old, new)]
    rehearsal = Rehearsal(computer=FARM, base=base, family="computer")
    task_id = await at.submit(copy_name(FARM, "0a1b2c3d"), rehearses=rehearsal)
    task = await at.service.fail(task_id, "model_failed", "It failed.")
    over = facts.RehearsalEnded(after=after, changed=1, message="It failed.")
    await at.service.append(task, [at.service.draft(over, SYSTEM)])
    return Failed(at, task_id, Concluding(Undoing(at.service, at.world)))


async def test_its_owner_and_an_admin_ask_for_it_at_once_and_one_task_does_it() -> None:
    rehearsed = await failed()
    others: list[TaskId] = []

    async def ask_too() -> None:
        others.append(await rehearsed.ends.apply(rehearsed.task_id, ROOT))

    rehearsed.at.store.before["rehearsal_ended"] = ask_too
    mine = await rehearsed.ends.apply(rehearsed.task_id, ALICE)
    assert others == [mine]
    assert await rehearsed.applying() == [mine]


async def test_killed_before_it_is_noted_the_next_who_asks_gets_the_same_task() -> None:
    rehearsed = await failed()
    rehearsed.at.store.before["rehearsal_ended"] = killing()
    with pytest.raises(Killed):
        await rehearsed.ends.apply(rehearsed.task_id, ALICE)
    (begun,) = await rehearsed.applying()
    assert await rehearsed.ends.apply(rehearsed.task_id, ROOT) == begun
    assert await rehearsed.applying() == [begun]
    rehearsal = (await rehearsed.at.service.load(rehearsed.task_id)).rehearsed
    assert rehearsal is not None
    assert rehearsal.applied_by == begun


async def test_what_nobody_noted_and_somebody_canceled_is_asked_for_anew() -> None:
    rehearsed = await failed()
    rehearsed.at.store.before["rehearsal_ended"] = killing()
    with pytest.raises(Killed):
        await rehearsed.ends.apply(rehearsed.task_id, ALICE)
    (begun,) = await rehearsed.applying()
    await rehearsed.at.service.cancel(begun, ALICE)
    anew = await rehearsed.ends.apply(rehearsed.task_id, ROOT)
    assert anew != begun
    assert (await rehearsed.at.service.load(anew)).status is TaskStatus.QUEUED
    assert await rehearsed.ends.apply(rehearsed.task_id, ALICE) == anew


async def test_what_was_taken_back_is_applied_by_a_new_task_and_what_stands_is_not() -> None:
    """Applied, taken back, applied anew; and where the undo was undone in turn it stands again."""
    rehearsed = await failed()
    first = await rehearsed.ends.apply(rehearsed.task_id, ALICE)
    assert await rehearsed.done(first) == "new\n"
    await rehearsed.must_stand(first)
    assert await rehearsed.undone(first) == "old\n"
    others: list[TaskId] = []

    async def ask_too() -> None:
        others.append(await rehearsed.ends.apply(rehearsed.task_id, ROOT))

    rehearsed.at.store.before["rehearsal_ended"] = ask_too
    second = await rehearsed.ends.apply(rehearsed.task_id, ALICE)
    assert (others, second != first) == ([second], True)
    assert await rehearsed.ends.apply(rehearsed.task_id, ROOT) == second, "it goes on"
    assert await rehearsed.done(second) == "new\n"
    await rehearsed.must_stand(second)
    undo = await rehearsed.ends.undoing.submit(Restoration(task_id=second), ALICE)
    assert await rehearsed.done(undo.task_id) == "old\n"
    assert await rehearsed.undone(undo.task_id) == "new\n"
    await rehearsed.must_stand(second)


async def test_an_undo_that_found_nothing_to_do_takes_nothing_back() -> None:
    """Of two the later found all as it was; once the first is undone in turn, what was applied stands again."""
    rehearsed = await failed()
    applied = await rehearsed.ends.apply(rehearsed.task_id, ALICE)
    await rehearsed.done(applied)
    undo = await rehearsed.ends.undoing.submit(Restoration(task_id=applied), ALICE)
    assert await rehearsed.done(undo.task_id) == "old\n"
    late = await rehearsed.ends.undoing.submit(Restoration(task_id=applied), ALICE)
    assert await rehearsed.done(late.task_id) == "old\n"
    assert await rehearsed.undone(undo.task_id) == "new\n"
    await rehearsed.must_stand(applied)


async def test_killed_before_it_is_noted_anew_the_next_who_asks_gets_the_same_task() -> None:
    rehearsed = await failed()
    first = await rehearsed.ends.apply(rehearsed.task_id, ALICE)
    await rehearsed.done(first)
    await rehearsed.undone(first)
    before = await rehearsed.applying()
    rehearsed.at.store.before["rehearsal_ended"] = killing()
    with pytest.raises(Killed):
        await rehearsed.ends.apply(rehearsed.task_id, ALICE)
    (begun,) = set(await rehearsed.applying()) - set(before)
    assert await rehearsed.ends.apply(rehearsed.task_id, ROOT) == begun
    assert len(await rehearsed.applying()) == len(before) + 1
