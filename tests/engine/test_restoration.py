"""The actor of a restoration and of watched programs, at computers that refuse, lie or go on changing."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import CallVoid, ComputerFailed
from orchestrator.core.ports import CallResult
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.rehearsal import Rehearsal, copy_name
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.task import AgentTask
from orchestrator.core.undo.plan import Listing
from orchestrator.core.undo.touches import DIRECTORY
from orchestrator.core.undo.wanted import MODEL, Restoration
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.engine.undo import Undoing
from orchestrator.history.backups import Transfers
from orchestrator.history.rehearsal.copy import Copying
from orchestrator.history.rehearsal.rehearsals import Rehearsals
from orchestrator.tools.stub import StubComputer
from tests.engine.test_actor import ALICE, FARM, Bench, killing, rules
from tests.harness.support import Disk, FakeComputers, Listening, call, final, says
from tests.waiting import within

ALLOWED = """
[[rules]]
id = "restoring"
effect = "allow"
tools = ["cc_restore"]
"""
TREE = {"a.lua": "old\n", "d/b": "b"}
RUN = call("cc_run_program", path="a.lua")


@dataclass
class Tree(Disk):
    """A computer with directories, whose looks at the root may be answered otherwise."""

    texts: dict[str, str] = field(default_factory=lambda: dict(TREE))
    root: CallResult | ComputerFailed | None = None
    made: int = 0
    """Of a program that makes a new file after each change."""
    busy: bool = False

    def perform(self, method: str, params: Mapping[str, Any], body: bytes | None) -> CallResult:
        if method == "fs_stat" and params.get("path") == "" and self.root is not None:
            if isinstance(self.root, ComputerFailed):
                raise self.root
            return self.root
        if "command" in params:
            params = {"path": params["command"].strip("/")}
        if method == "run_program":
            return CallResult({"ended": "returned", "output": 0, "cut": 0})
        if self.busy and method == "fs_delete":
            self.made += 1
            self.texts[f"new{self.made}"] = "x"
        return StubComputer(self.texts).perform(method, params, body)


def bench(disk: Tree, *script: Any, more: str = ALLOWED) -> Bench:
    return Bench(Listening(*script), policy=rules(more), computers=FakeComputers({FARM: disk}))


async def restoring(bench: Bench, **how: Any) -> TaskId:
    """A task that puts back what was there at first."""
    for text in TREE.values():
        await bench.store.put_blob(text.encode())
    states = {"a.lua": sha256_hex(b"old\n"), "d": DIRECTORY, "d/b": sha256_hex(b"b")}
    listing = (await bench.store.put_blob(Listing(states).lines)).sha256
    task = await bench.service.submit(
        "restore it",
        user=ALICE,
        computers=(FARM,),
        model=MODEL,
        max_steps=0,
        restores=Restoration(listing=listing, computer=FARM, **how),
    )
    return task.task_id


async def until_over(bench: Bench) -> AgentTask:
    for _ in range(20):
        task = await bench.act()
        if task.ended is not None:
            return task
        if task.request is not None:
            await bench.decide(task)
        bench.clock.advance(10)
    raise AssertionError("it goes on for ever")


@pytest.mark.parametrize("exact", [False, True])
async def test_a_connected_computer_that_refuses_looks_is_asked_again_later_and_not_at_once(exact: bool) -> None:
    disk = Tree()
    disk.texts["a.lua"] = "new\n"
    at = bench(disk)
    await restoring(at, exact=exact)
    at.computers.faults["fs_stat"] = deque([CallVoid("journal_failed", "Its journal is full.") for _ in range(1000)])
    await at.act()
    assert await at.idle()
    at.computers.faults.clear()
    at.clock.advance(6)
    task = await until_over(at)
    assert (task.status, disk.texts) == (TaskStatus.COMPLETED, TREE)


@pytest.mark.parametrize(
    ("root", "told"),
    [
        (ComputerFailed("internal", "Its disk broke."), "met a defect: Its disk broke"),
        (CallResult({"kind": "directory", "sha256": sha256_hex(b"x\n")}, b"x\n"), "What the computer says of / cannot"),
    ],
)
async def test_an_exact_restoration_of_what_cannot_be_listed_ends_and_says_why(
    root: CallResult | ComputerFailed, told: str
) -> None:
    at = bench(Tree(root=root))
    await restoring(at, exact=True)
    task = await at.act()
    assert task.ended is not None
    assert (task.status, task.status_reason) == (TaskStatus.FAILED, "not_restored")
    assert told in task.ended.message


async def test_what_comes_after_the_first_look_stays_and_is_said() -> None:
    """Also below a directory that goes, and what was there and changed since."""
    disk = Tree()
    disk.texts |= {"a.lua": "new\n", "extra": "x", "log": "1", "e/x": "x"}
    at = bench(disk, more=ALLOWED.replace("allow", "ask"))
    await restoring(at, exact=True)
    waiting = await at.act()
    disk.texts |= {"mine": "m", "log": "2", "e/mine": "m"}
    await at.decide(waiting)
    task = await until_over(at)
    assert task.ended is not None
    assert disk.texts == {**TREE, "mine": "m", "log": "2", "e/mine": "m"}
    assert task.ended.details["came_since"] == ["e/mine", "mine"]
    assert "2 left, since they came after it began" in task.ended.message
    kept = task.ended.details["kept"]
    assert isinstance(kept, dict)
    assert set(kept) == {"3:e", "3:log"}


async def test_a_program_that_makes_a_new_file_each_round_does_not_keep_it_going() -> None:
    disk = Tree(busy=True)
    disk.texts["extra"] = "x"
    at = bench(disk)
    await restoring(at, exact=True)
    task = await until_over(at)
    assert (task.status, disk.made) == (TaskStatus.COMPLETED, 1)
    assert disk.texts == {**TREE, "new1": "x"}


@pytest.mark.parametrize("spoiled", ["now", "before"])
async def test_a_program_whose_computer_lies_afterwards_is_heard_to_its_end(spoiled: str) -> None:
    """What it says then is recorded as a look that failed, and so is a look before that cannot be read any more."""
    disk = Tree()
    at = bench(disk, says(RUN), final(), more="")
    task_id = await at.submit()

    async def spoil() -> None:
        disk.texts["a.lua"] = "changed"
        if spoiled == "now":
            disk.root = CallResult({"kind": "file"})
            return
        (started,) = await at.happened(task_id, "tool_started")
        nonsense = (b"nonsense\n", started.watched.listing)
        at.store._cursor.execute("UPDATE blobs SET content = ? WHERE sha256 = ?", nonsense)

    at.store.after["tool_started"] = spoil
    task = await until_over(at)
    (finished,) = await at.happened(task_id, "tool_finished")
    assert "cannot be read" in finished.watched.why
    assert (task.status, task.open_runs) == (TaskStatus.COMPLETED, ())
    offer = await Undoing(at.service, at.world).offer(task)
    assert offer is not None
    assert offer.changes == 0


async def test_an_undo_goes_on_as_soon_as_the_last_call_of_its_task_is_heard_of() -> None:
    """The computer went in the middle of a change, the task was canceled; nobody waits for a look by the clock."""
    disk = Tree()
    at = bench(disk, says(call("cc_delete", path="d/b")))
    task_id = await at.submit()
    at.computers.faults["fs_delete"] = deque(["vanish"])
    await at.act()
    await at.service.cancel(task_id, ALICE)
    await at.act()
    undo = await Undoing(at.service, at.world).submit(Restoration(task_id=task_id), ALICE)
    assert (await at.act()).task_id == undo.task_id
    assert await at.idle()
    at.computers.away.clear()
    await at.store.wake_waiting([FARM])
    assert (await at.act()).task_id == task_id
    assert disk.texts != TREE
    while not await at.idle():
        assert (await at.act()).task_id == undo.task_id
    assert (await at.service.load(undo.task_id)).status is TaskStatus.COMPLETED
    assert disk.texts == TREE


async def test_an_undo_that_nobody_wakes_looks_by_itself_whether_the_last_call_was_heard_of() -> None:
    """Whoever heard of it was killed before it could say so."""
    disk = Tree()
    at = bench(disk, says(call("cc_delete", path="d/b")))
    task_id = await at.submit()
    at.computers.faults["fs_delete"] = deque(["vanish"])
    await at.act()
    await at.service.cancel(task_id, ALICE)
    await at.act()
    undo = await Undoing(at.service, at.world).submit(Restoration(task_id=task_id), ALICE)
    await at.act()
    at.computers.away.clear()
    await at.store.wake_waiting([FARM])
    at.store.after["tool_settled"] = killing()
    await at.dies()
    while (task := await at.service.load(undo.task_id)).ended is None:
        at.clock.advance(30)
        await at.act()
    assert (task.status, disk.texts) == (TaskStatus.COMPLETED, TREE)


async def test_an_undo_by_policy_of_what_is_no_longer_known_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    disk = Tree()
    at = Bench(
        Listening(says(call("cc_delete", path="d")), final("cannot", success=False)),
        policy=rules().model_copy(update={"undo": "auto"}),
        computers=FakeComputers({FARM: disk}),
    )

    async def lose() -> None:
        at.store._cursor.execute("DELETE FROM blobs")

    task_id = await at.submit()
    at.store.after["task_ended"] = lose
    for _ in range(20):
        await at.act()
        if await at.idle():
            break
    task = await at.service.load(task_id)
    assert task.ended is not None
    assert (task.undoes_itself, task.undone_by) == (True, ())
    assert f"task {task_id} cannot be undone" in caplog.text
    assert await at.store.next_due() is None


async def test_a_rehearsal_whose_copied_listing_cannot_be_read_ends_and_gives_its_seat_back(tmp_path: Path) -> None:
    at = bench(Tree())
    base = (await at.store.put_blob(b"nonsense\n")).sha256
    rehearsal = Rehearsal(computer=FARM, base=base, family="computer")
    task_id = await at.submit(copy_name(FARM, "0a1b2c3d"), rehearses=rehearsal)
    copying = Copying(at.store, at.world, lambda context, path: True, Transfers(at.clock))
    rehearsals = Rehearsals(Undoing(at.service, at.world), copying, tmp_path / "homes", at_once=1)
    await rehearsals.open("ws://127.0.0.1:1/computer")
    (running,) = rehearsals._running.values()
    await within(running)
    task = await at.service.load(task_id)
    assert task.ended is not None
    assert task.rehearsed is not None
    assert (task.status, task.rehearsed.changed) == (TaskStatus.FAILED, 0)
    assert "cannot be read" in task.ended.message
    assert list((tmp_path / "homes").iterdir()) == []
