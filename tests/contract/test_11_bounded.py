"""No effect is tried for ever: whatever fails at a port, each try on another node, the task ends and says why.

Theory. The cases are drawn from the table of all effects, the ports that each of them uses, and the faults of a port.
Time is a clock that is moved; each try is made by workers of their own, as after a restart: all that they share is
the store, and what stands behind the ports.
"""

import asyncio
import errno
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest

from orchestrator.core.approval.approval import CallDecision, ResumeRequest
from orchestrator.core.approval.grants import GrantSpec
from orchestrator.core.errors import ComputerFailed, StoreAway
from orchestrator.core.policy import load_policy
from orchestrator.core.task import effects as todo
from orchestrator.core.task import facts
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import Draft
from orchestrator.core.task.limits import MAX_FAILED, MAX_UNANSWERED, pause_s
from orchestrator.core.task.rehearsal import Rehearsal
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.undo.plan import Listing
from orchestrator.core.undo.wanted import Restoration
from orchestrator.engine.undo import Undoing
from orchestrator.history.backups import Transfers
from orchestrator.history.rehearsal import rehearsals
from orchestrator.history.rehearsal.copy import Copying
from orchestrator.testing import ManualClock
from tests.contract.failing_ports import COMPUTER, MANY, POLICY, SYSTEM, Bench, Gone
from tests.contract.parts import Playing
from tests.engine.test_actor import ALICE, FARM
from tests.harness.support import call, final, says
from tests.harness.whole_server import Installation, Opened
from tests.waiting import within

WAITS = {todo.AwaitReview, todo.AwaitAnswer, todo.AwaitRuns, todo.Rest}
CANNOT = final("I cannot do it.", success=False)
LOCAL = call("local_write", path="notes/plan.txt", content="new\n")
LOOK = call("local_read", path="notes/plan.txt")
WRITE = call("cc_write", path="a.lua", content="print('new')\n")
READ = call("cc_read", path="a.lua")
PLACE = ("link", "file")
"""What comes to stand in the place of a directory of this host."""


# -- how each effect comes to fail -------------------------------------------------------


async def asking(bench: Bench, port: str, fault: str) -> TaskId:
    bench.breaks(port, fault)
    return await bench.submit()


async def looking_first(bench: Bench, port: str, fault: str) -> TaskId:
    bench.breaks(port, fault)
    return await bench.submit(checks=["unchanged a.lua"])


async def evaluating(bench: Bench, port: str, fault: str) -> TaskId:
    """A success is claimed, and its check cannot be made."""
    bench.model.script = [final(), CANNOT]
    bench.model.before[0] = partial(bench.breaks, port, fault)
    return await bench.submit(checks=["unchanged a.lua"])


async def observing(bench: Bench, port: str, fault: str) -> TaskId:
    bench.policy = load_policy(POLICY.format(effect="ask", undo="offer"))
    bench.model.script = [says(LOCAL if port == "host" else WRITE), CANNOT]
    bench.model.before[0] = partial(bench.breaks, port, fault)
    return await bench.submit()


async def running(bench: Bench, port: str, fault: str) -> TaskId:
    """A look, which claims its computer as it starts; but a change, which has it before, where no start is written."""
    bench.model.script = [says({"host": LOOK, "tool_started": WRITE}.get(port, READ)), CANNOT]
    bench.model.before[0] = partial(bench.breaks, port, fault)
    return await bench.submit()


async def settling(bench: Bench, port: str, fault: str) -> TaskId:
    """A call had begun when its node was gone."""
    bench.model.script = [says(LOCAL if port == "host" else WRITE), CANNOT]

    async def gone() -> None:
        bench.breaks(port, fault)
        raise Gone

    bench.store.after["tool_started"] = gone
    return await bench.submit()


async def restoring(bench: Bench, port: str, fault: str) -> TaskId:
    bench.model.script = [says(LOCAL if port == "host" else WRITE), CANNOT]
    of = await bench.submit()
    await bench.until_nothing_is_due()
    undo = await Undoing(bench.service, bench.world).submit(Restoration(task_id=of), ALICE)
    bench.breaks(port, fault)
    return undo.task_id


async def beginning_an_undo(bench: Bench, port: str, fault: str) -> TaskId:
    """The policy wants the undo of a task that failed."""
    bench.policy = load_policy(POLICY.format(effect="allow", undo="auto"))
    bench.model.script = [says(WRITE), CANNOT]
    bench.model.before[1] = partial(bench.breaks, port, fault)
    return await bench.submit()


Setting = Callable[[Bench, str, str], Awaitable[TaskId]]
STEPS: dict[type, tuple[Setting, tuple[str, ...]]] = {
    todo.AskModel: (asking, ("model_replied",)),
    todo.LookFirst: (looking_first, ("checks_begun", "computer")),
    todo.EvaluatePolicy: (evaluating, ("checks_judged", "computer")),
    todo.Observe: (observing, ("review_requested", "computer", "host")),
    todo.RunTool: (running, ("tool_started", "tool_finished", "computer", "host")),
    todo.Settle: (settling, ("computer", "host")),
    todo.PlanRestoration: (restoring, ("calls_proposed", "computer", "host")),
    todo.BeginUndo: (beginning_an_undo, ("task_submitted", "undo_submitted")),
}
"""What makes a task come to each effect, and the ports that the effect uses."""
FAULTS = {"computer": tuple(COMPUTER), "host": (*PLACE, *SYSTEM)}


def cases() -> Iterator[Any]:
    for effect, (setting, ports) in STEPS.items():
        for port in ports:
            for fault in FAULTS.get(port, ("ENOSPC",)):
                yield pytest.param(setting, port, fault, id=f"{effect.__name__}-{port}-{fault}")


def test_each_effect_has_a_case() -> None:
    assert {*STEPS, *WAITS} == set(get_args(todo.Effect))


REASONS = {
    **{"busy": "8 calls are open.", "full journal": "Its journal is full.", "silent": "did not answer within 60 s."},
    **{"broken": "Its disk broke.", "defect": "met a defect (KeyError)"},
    **{"link": "goes through the symbolic link 'notes'", "file": "Not a directory"},
    **{name: os.strerror(getattr(errno, name)) for name in SYSTEM},
}
UNSEEN = ("unchanged a.lua: not known", "Nobody could look at computer 3", "was interrupted 5 times")
"""What is said in place of the reason: of a check, of an undo, and of a look that was begun again and again."""


@pytest.mark.thinned(3)
@pytest.mark.parametrize(("setting", "port", "fault"), tuple(cases()))
async def test_what_fails_ends_with_a_reason(tmp_path: Path, setting: Setting, port: str, fault: str) -> None:
    """Within its bound, whichever node is at it; what is left is a task that is over, or a person who is asked."""
    root = tmp_path / "space"
    (root / "notes").mkdir(parents=True)
    bench = Bench(root, CANNOT, CANNOT)
    task_id = await setting(bench, port, fault)
    await bench.until_nothing_is_due()
    task = await bench.service.load(task_id)
    assert task.ended is not None or task.request is not None
    open_on = {one.call.computer for one in task.open_runs}
    assert await bench.store.claimant(FARM) == (task_id if FARM in open_on else None)
    seen = await bench.seen(task_id)
    assert any(one in seen for one in (REASONS[fault], *UNSEEN)), seen
    failures = [one.fact for one in await bench.store.read(task_id) if isinstance(one.fact, facts.WorkFailed)]
    most = MAX_UNANSWERED if any(one.because == "unanswered" for one in failures) else MAX_FAILED
    assert bench.tries() <= (2 * most if port == "undo_submitted" else most)
    for because in ("failed", "unanswered"):
        counts = [one.count for one in failures if one.because == because]
        assert all(after in (before + 1, 1) for before, after in pairwise(counts)), counts
    if fault in PLACE:
        # At once; the one failure is that of the node that is gone.
        assert len(failures) == (setting is settling)
    if task.status_reason == "stuck":
        assert task.ended is not None
        assert failures[-1].count == failures[-1].most
        assert REASONS[fault] in task.ended.message or UNSEEN[1] in task.ended.message


async def test_a_computer_that_is_away_is_waited_for_and_nothing_is_counted(tmp_path: Path) -> None:
    bench = Bench(tmp_path, says(WRITE), CANNOT)
    bench.model.before[0] = lambda: bench.computers.away.add(FARM)
    task_id = await bench.submit()
    await bench.until_nothing_is_due()
    for _ in range(2 * MAX_UNANSWERED):
        await bench.store.wake(task_id)
        await bench.go()
    task = await bench.service.load(task_id)
    assert (task.ended, task.failures) == (None, ())
    bench.computers.away.clear()
    await bench.store.wake(task_id)
    await bench.until_nothing_is_due()
    assert bench.computers.disks[FARM].files["a.lua"] == b"print('new')\n"


async def test_a_computer_that_goes_away_at_each_look_is_asked_so_often_and_no_more(tmp_path: Path) -> None:
    """As where a look makes it crash: it comes back, is asked the same, and is gone."""
    bench = Bench(tmp_path, says(WRITE), CANNOT)
    bench.computers.faults["fs_read"] = deque("vanish" for _ in range(MANY))
    task_id = await bench.submit()
    while (task := await bench.service.load(task_id)).ended is None:
        assert bench.nodes < 2 * MAX_UNANSWERED, "it goes on for ever"
        bench.computers.away.clear()
        await bench.store.wake(task_id)
        await bench.go()
    assert "The connection of computer 3 ended." in task.ended.message
    assert len(bench.computers.sent("fs_read")) == MAX_UNANSWERED


async def test_what_goes_on_is_counted_anew(tmp_path: Path) -> None:
    """Four failures, then a step, then four more: nothing ends by them."""
    other = call("cc_write", path="a.lua", content="print('newer')\n")
    bench = Bench(tmp_path, says(WRITE), says(other), CANNOT)
    broken: list[Exception | str] = [COMPUTER["defect"]() for _ in range(MAX_FAILED - 1)]
    bench.computers.faults["fs_read"] = deque([*broken, "answers", *broken])
    task_id = await bench.submit()
    await bench.until_nothing_is_due()
    task = await bench.service.load(task_id)
    assert (task.status, task.status_reason) == (TaskStatus.FAILED, "final")
    assert not task.failures


async def test_a_file_that_keeps_changing_is_told_and_not_asked_about_for_ever(tmp_path: Path) -> None:
    """Under a grant nobody is asked, so nobody would ever stop it."""
    bench = Bench(tmp_path, says(WRITE), CANNOT)
    bench.policy = load_policy(POLICY.format(effect="ask", undo="offer"))
    stale = [ComputerFailed("stale", "a.lua is not what it was when it was shown.") for _ in range(MANY)]
    bench.computers.faults["fs_write"] = deque(stale)
    task_id = await bench.submit()
    await bench.go()
    task = await bench.service.load(task_id)
    assert task.request is not None
    (call_id,) = task.request.call_ids
    decision = CallDecision(call_id=call_id, action="approve", remember=GrantSpec(scope="task"))
    await bench.service.decide(task.request.request_id, ResumeRequest(decisions=(decision,)), ALICE)
    await bench.until_nothing_is_due()
    assert "kept changing, 5 times" in bench.model.told
    assert len(bench.computers.sent("fs_write")) == MAX_FAILED


async def test_a_rehearsal_whose_directory_is_gone_ends_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link to itself stands where copies are kept. A try that cannot be recorded is no try."""
    monkeypatch.setattr(rehearsals, "_AGAIN_S", 0.0)
    homes = tmp_path / "rehearsals"
    homes.symlink_to(homes)
    bench = Bench(tmp_path)
    base = (await bench.store.put_blob(Listing({}).lines)).sha256
    rehearsal = Rehearsal(computer=FARM, base=base, family="computer")
    task_id = await bench.submit(rehearses=rehearsal)

    async def away() -> None:
        raise StoreAway("It restarts.")

    bench.store.before["work_failed"] = away
    copying = Copying(bench.store, bench.world, lambda *_: True, Transfers(bench.clock))
    one = rehearsals.Rehearsals(Undoing(bench.service, bench.world), copying, homes, at_once=1)
    one.performing.url = "http://127.0.0.1:1"
    one.begin(task_id)
    await within(asyncio.gather(*one.going_on()))
    task = await bench.service.load(task_id)
    assert (task.status, task.status_reason) == (TaskStatus.FAILED, "rehearsal_failed")
    assert task.rehearsed is not None
    assert "The copy cannot be worked on: File exists" in task.rehearsed.message
    assert f"Nothing is applied: {FARM} is as it was." in task.rehearsed.message
    assert [one.fact.kind for one in await bench.store.read(task_id)].count("work_failed") == MAX_FAILED


def test_pauses_grow_and_all_of_them_are_a_quarter_of_an_hour() -> None:
    pauses = [pause_s(count) for count in range(1, MAX_UNANSWERED)]
    assert (pauses[0], pauses[-1], pauses) == (1, 60, sorted(pauses))
    assert 800 < sum(pauses) < 1200


# -- a whole server ----------------------------------------------------------------------


def full(store: Any) -> Any:
    """A store on a disk on which a reply of the model finds no room."""
    append = store.append

    async def refuses(task_id: Any, version: int, drafts: Sequence[Draft], **more: Any) -> Any:
        if any(one.fact.kind == "model_replied" for one in drafts):
            raise SYSTEM["ENOSPC"]()
        return await append(task_id, version, drafts, **more)

    store.append = refuses
    return store


async def test_a_new_server_counts_on_and_says_why(kept_installation: Installation) -> None:
    """The count is in the file; people see it at each of the two, and the second ends the task."""
    clock, said = ManualClock(), "The host of the orchestrator said: No space left on device."

    async def tried(server: Opened, task_id: str, count: int) -> None:
        await server.item(task_id, "work_failed", where=lambda fact: fact["count"] == count)
        assert (await server.task(task_id))["status_reason"].startswith(f"tried {count} of 5 times: {said}")

    async with kept_installation.open(Playing(final()), clock=clock, wrap_store=full) as server:
        task_id = await server.submit()
        await tried(server, task_id, 1)
    async with kept_installation.open(Playing(final()), clock=clock, wrap_store=full) as server:
        for count in range(2, MAX_FAILED):
            server.advance(60)
            await tried(server, task_id, count)
        server.advance(60)
        await server.ended(task_id)
        task = await server.task(task_id)
    assert (task["status"], task["status_reason"]) == ("Failed", "stuck")
    assert said in str(task)
