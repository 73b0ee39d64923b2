"""The contracts of retention: S71 to S79, pins, blobs, pruned tasks and backups."""

import asyncio
from datetime import timedelta

from orchestrator.core.audit.retention import pruned
from orchestrator.core.errors import Conflict, InvalidRequest, NotFound
from orchestrator.core.ports import SYSTEM_STREAM, BackupRow, BlobMark, Store, StreamHead
from orchestrator.core.task import facts
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem, Draft, verify_chain
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import BackupRemoved, ComputerBackedUp, NodeStopped
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.wire.wire import ComputerId, sha256_hex
from orchestrator.testing.drafts import COMPUTER, Author, ManualClock, append, refused, taken

T1, T2 = TaskId("t1"), TaskId("t2")
SYSTEM = TaskId(SYSTEM_STREAM)
A, B = b"return 1\n", b"return 2\n"
LINES = b"a\0file\0%b\nb\0file\0%b\n" % (sha256_hex(A).encode(), sha256_hex(B).encode())


async def s71_pins(store: Store, clock: ManualClock) -> None:
    """A pin is in the item, the row and the list, however the append was made; the next one takes it back."""
    author = Author(clock)
    await store.create(T1, [author.submitted()])
    await store.create(T2, [author.submitted()])
    appends = (append(store, T1, 1, author.draft(facts.TaskPinned())), append(store, T2, 1, author.note()))
    await asyncio.gather(*appends)
    assert {row.task_id: row.pinned for row in await store.list_tasks()} == {T1: True, T2: False}
    task = await store.load(T1)
    assert task is not None
    assert task.pinned
    assert [row["pinned"] for row in await store.kept_rows("tasks")] == [1, 0]
    await append(store, T1, 2, author.note())
    assert [row.pinned for row in await store.list_tasks() if row.task_id == T1] == [True]
    await append(store, T1, 3, author.draft(facts.TaskPinned()), author.draft(facts.TaskUnpinned()))
    assert [row.pinned for row in await store.list_tasks()] == [False, False]


async def s72_blobs_are_listed_unread(store: Store, clock: ManualClock) -> None:
    """Blobs come by name with their sizes and whether they may list others, in pages."""
    author = Author(clock)
    for content in (A, LINES):
        await store.put_blob(content)
    await store.create(T1, [author.submitted()])
    await store.append(T1, 1, [author.note()], status=TaskStatus.QUEUED, blobs=[B])
    clock.advance(5)
    await store.touch_blobs([sha256_hex(B)])
    now, then = clock.now(), clock.now() - timedelta(seconds=5)
    told = {A: (False, then), B: (False, now), LINES: (True, then)}
    marks = sorted(BlobMark(sha256_hex(one), len(one), *said) for one, said in told.items())
    assert await store.list_blobs() == marks
    assert await store.list_blobs(limit=1) == marks[:1]
    assert await store.list_blobs(marks[0].sha256) == marks[1:]


async def s73_a_sweep_takes_what_nobody_touched(store: Store, clock: ManualClock) -> None:
    """What was put or counted on since stays, the rest of what is named goes; what is not named stays."""
    names = [(await store.put_blob(one)).sha256 for one in (A, B, LINES, b"other")]
    clock.advance(10)
    assert await store.touch_blobs([names[1], "none"]) == {names[1]: len(B)}
    await store.put_blob(LINES)
    before = clock.now() - timedelta(seconds=5)
    assert await store.sweep_blobs(names[:3], before - timedelta(seconds=20)) == {}
    assert await store.sweep_blobs([*names[:3], "none"], before) == {names[0]: len(A)}
    assert await store.sweep_blobs(names[:3], before) == {}
    await refused(NotFound, store.get_blob(names[0]))
    assert await store.touch_blobs(names[:2]) == {names[1]: len(B)}
    assert [one.sha256 for one in await store.list_blobs()] == sorted(names[1:])
    assert await store.put_blob(A)
    assert await store.get_blob(names[0]) == A
    assert await store.sweep_blobs([names[0]], before) == {}


async def s74_of_a_put_and_a_sweep_at_once_the_put_wins(store: Store, clock: ManualClock) -> None:
    """In either order: a blob that was put or counted on is there afterwards."""
    contents = [b"content %d" % number for number in range(40)]
    names = [(await store.put_blob(one)).sha256 for one in contents]
    clock.advance(60)
    before = clock.now() - timedelta(seconds=30)

    async def count_on(content: bytes, name: str) -> None:
        if name not in await store.touch_blobs([name]):
            await store.put_blob(content)

    counting = [count_on(content, name) for content, name in zip(contents, names, strict=True)]
    sweeping = [store.sweep_blobs(names[at : at + 10], before) for at in range(0, 40, 10)]
    await asyncio.gather(*counting[:20], *sweeping, *counting[20:])
    assert len(await store.touch_blobs(names)) == len(names)


async def s75_an_ended_task_is_pruned_with_its_note(store: Store, clock: ManualClock) -> None:
    """Nothing of it is left but the note; numbers of computers stay, and its id is not used again."""
    author = Author(clock)
    items = await _ended(store, author, T1)
    other = await _ended(store, author, T2)
    assert await store.claimant(COMPUTER) is None
    number = await store.allot_number(COMPUTER)
    assert await store.pruned_at(T1) is None
    note = author.draft(pruned(items, "age"))
    assert await store.prune_task(note)
    assert await store.read(T1) == []
    assert await store.load(T1) is None
    assert await store.kept_task(T1) is None
    assert [row.task_id for row in await store.list_tasks()] == [T2]
    assert await store.raised_by(["r-t1", "r-t2"]) == {"r-t2": T2}
    assert await store.pruned_at(T1) == clock.now()
    assert [row["task_id"] for row in await store.kept_rows("pruned")] == [T1]
    (told,) = await store.read(SYSTEM)
    assert (told.item_id, told.fact) == (note.item_id, note.fact)
    assert verify_chain([told]) is None
    heads = [StreamHead(SYSTEM, 1, told.hash), StreamHead(T2, len(other), other[-1].hash)]
    assert await store.heads() == heads
    assert await store.allot_number(COMPUTER) == number + 1
    assert not await store.prune_task(note)
    await refused(Conflict, store.create(T1, [author.submitted()]))
    await refused(InvalidRequest, store.prune_task(author.draft(NodeStopped())))
    assert len(await store.read(SYSTEM)) == 1


async def s76_what_is_needed_is_not_pruned(store: Store, clock: ManualClock) -> None:
    """Not what is not over, is pinned, is at work, is not as the note has it, or is referred to."""
    author = Author(clock)
    running = await store.create(T2, [author.submitted(), author.note()])
    assert not await store.prune_task(author.draft(pruned(running, "age")))
    items = await _ended(store, author, T1)
    note = pruned(items, "age")
    for wrong in (note.model_copy(update={"version": 1}), note.model_copy(update={"head_hash": "0" * 64})):
        assert not await store.prune_task(author.draft(wrong))
    items = await _said(store, items, author.draft(facts.TaskPinned()))
    assert not await store.prune_task(author.draft(pruned(items, "age"))), "it is pinned"
    items = await _said(store, items, author.draft(facts.TaskUnpinned()))
    note = pruned(items, "age")
    await store.wake(T1)
    assert not await store.prune_task(author.draft(note)), "it is due"
    lease = await taken(store)
    while lease.task_id != T1:
        await store.park(lease, 2, due=None)
        lease = await taken(store)
    assert not await store.prune_task(author.draft(note)), "it is held"
    await store.park(lease, items[-1].version, due=None, waiting_for=COMPUTER)
    assert not await store.prune_task(author.draft(note)), "it waits for a computer"
    await store.wake_waiting([COMPUTER])
    await store.park(await taken(store), items[-1].version, due=None)
    undo = await _referring(store, author, "t3", restores=Restoration(task_id=T1))
    told = await _referring(store, author, "t4", earlier=T1)
    assert not await store.prune_task(author.draft(note)), "two tasks refer to it"
    undo = await _over(store, author, undo)
    assert not await store.prune_task(author.draft(note)), "one still does"
    await _over(store, author, told)
    undo = await _said(store, undo, author.draft(facts.TaskPinned()))
    assert not await store.prune_task(author.draft(note)), "a pinned one does"
    await _said(store, undo, author.draft(facts.TaskUnpinned()))
    assert await store.read(SYSTEM) == []
    assert await store.prune_task(author.draft(note))


async def s77_grants_go_with_their_task(store: Store, clock: ManualClock) -> None:
    """A grant goes with the task that gave it, which stays while the grant can be used in another."""
    author = Author(clock)
    await store.create(T1, [author.submitted(), *author.proposed(), author.review("r1")])
    await append(store, T1, 5, author.decided(author.grant("g1", lasts_s=60), author.grant("g2")))
    await _over(store, author, await store.read(T1))
    note = pruned(await store.read(T1), "age")
    assert note.grants == ("g1", "g2")
    assert not await store.prune_task(author.draft(note))
    clock.advance(61)
    assert await store.prune_task(author.draft(note))
    assert await store.list_grants() == []


async def s78_backups(store: Store, clock: ManualClock) -> None:
    """A backup is kept with its note if all of its bytes are there; removed once; the newest comes first."""
    author = Author(clock)
    for content in (A, LINES):
        await store.put_blob(content)
    first = author.draft(_backup("b1"))
    await refused(Conflict, store.add_backup(first))
    await refused(Conflict, store.add_backup(author.draft(_backup("b0", listing="0" * 64))))
    assert await store.list_backups() == []
    assert await store.read(SYSTEM) == []
    await store.put_blob(B)
    await store.add_backup(first)
    await store.add_backup(first)
    await refused(Conflict, store.add_backup(author.draft(_backup("b1", files=9))))
    clock.advance(5)
    second = author.draft(_backup("b2", computer="4"))
    await store.add_backup(second)
    rows = [BackupRow(_backup("b2", computer="4"), "orchestrator", second.at)]
    rows += [BackupRow(_backup("b1"), "orchestrator", first.at)]
    assert await store.list_backups() == rows
    assert await store.list_backups(COMPUTER) == rows[1:]
    (kept, _) = await store.kept_rows("backups")
    assert (kept["backup_id"], kept["computer"], kept["made_by"]) == ("b1", COMPUTER, "orchestrator")
    gone = author.draft(BackupRemoved(backup_id="b1", computer=COMPUTER))
    assert await store.remove_backup(gone)
    assert not await store.remove_backup(gone)
    assert await store.list_backups() == rows[:1]
    told = await store.read(SYSTEM)
    assert [item.item_id for item in told] == [first.item_id, second.item_id, gone.item_id]
    assert verify_chain(told) is None
    await refused(InvalidRequest, store.add_backup(gone))
    await refused(InvalidRequest, store.remove_backup(first))


async def s79_a_backup_and_a_sweep(store: Store, clock: ManualClock) -> None:
    """Whatever comes first: a backup that is kept has all its bytes, and touches them."""
    author = Author(clock)
    names = [(await store.put_blob(one)).sha256 for one in (A, B, LINES)]
    clock.advance(60)
    await store.add_backup(author.draft(_backup("b1")))
    assert await store.sweep_blobs(names, clock.now() - timedelta(seconds=30)) == {}
    clock.advance(60)
    swept = await store.sweep_blobs(names, clock.now() - timedelta(seconds=30))
    assert sorted(swept) == sorted(names), "what is needed is for the caller to know"
    await refused(Conflict, store.add_backup(author.draft(_backup("b2"))))


def _backup(
    name: str, *, computer: str = COMPUTER, listing: str = sha256_hex(LINES), files: int = 2
) -> ComputerBackedUp:
    return ComputerBackedUp(
        backup_id=name, computer=ComputerId(computer), listing=listing, files=files, bytes=18, new_bytes=18
    )


async def _ended(store: Store, author: Author, task_id: TaskId) -> list[AgentTaskItem]:
    """A task that raised a request and is over, with nothing left to do."""
    await store.create(task_id, [author.submitted(), *author.proposed(), author.review(f"r-{task_id}")])
    return await _over(store, author, await store.read(task_id))


async def _over(store: Store, author: Author, items: list[AgentTaskItem]) -> list[AgentTaskItem]:
    """The task, canceled and asleep."""
    return await _said(store, items, author.ended())


async def _said(store: Store, items: list[AgentTaskItem], draft: Draft) -> list[AgentTaskItem]:
    """One more item of a task that is canceled with it, or was before."""
    task_id, version = items[0].task_id, items[-1].version
    more = await append(store, task_id, version, draft, status=TaskStatus.CANCELED, schedule="sleep")
    return [*items, *more]


async def _referring(
    store: Store, author: Author, name: str, *, restores: Restoration | None = None, earlier: str = ""
) -> list[AgentTaskItem]:
    """A task that is not over and builds on another."""
    one = facts.EarlierTask(task_id=TaskId(earlier), prompt="", status="Canceled", message="")
    told = {"restores": restores, "earlier": (one,) if earlier else ()}
    draft: Draft = author.submitted()
    return await store.create(TaskId(name), [draft._replace(fact=draft.fact.model_copy(update=told))])
