"""Checks without a server: of a library call, of the policy for paths, and of an actor on computers in memory."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.adapters.models.scripted import ScriptedModel
from orchestrator.app.greeter import JournalGreeter
from orchestrator.app.library import execute_task_with_agent
from orchestrator.core.approval.approval import CallDecision
from orchestrator.core.errors import ComputerFailed, FrameRefused, HitlInterventionRequired, InvalidRequest, ModelFailed
from orchestrator.core.policy import PathCheck, load_policy
from orchestrator.core.reply.response import FinalResult
from orchestrator.core.task.states import Phase
from orchestrator.core.undo.wanted import Restoration
from orchestrator.engine.actor.checks import due_of
from orchestrator.tools.deps import CCAgentDeps
from tests.core.journal import Journal
from tests.engine.test_actor import FARM as PC
from tests.engine.test_actor import Bench, only, rules
from tests.harness.support import WRITE, Listening, call, final, says

ALLOWS = 'schema_version = 1\n[[rules]]\nid = "all"\neffect = "allow"\ntools = ["*"]\n'
FARM = f'{ALLOWS}[[checks]]\npath = "FARM/**"\ncheck = "file farm/a.txt contains wheat"\n'
DONE = {"kind": "final", "explanation": "So it is.", "success": True, "message": "Done."}


def write(path: str, content: str) -> dict[str, Any]:
    """A reply that writes a file."""
    call = {"tool": "cc_write", "args": {"path": path, "content": content}}
    return {"kind": "tool", "explanation": "I write.", "tool_call": call}


async def ran(*script: Any, policy: str = ALLOWS, checks: Sequence[str] = (), **files: str) -> FinalResult:
    """A task of the library on files in memory, to its end."""
    deps = CCAgentDeps(mode="stub", file_cache=dict(files))
    model = ScriptedModel(script)
    return await execute_task_with_agent("x", deps, model=model, policy=load_policy(policy), checks=checks)


async def test_the_policy_adds_a_check_where_a_path_was_changed() -> None:
    """Whatever the case of its glob; a task that changes nothing there is not asked for it."""
    wrong, right, beside = write("farm/a.txt", "rye"), write("farm/a.txt", "wheat"), write("b.txt", "rye")
    mended = await ran(wrong, DONE, right, DONE, policy=FARM)
    assert (mended.success, mended.message) == (True, "Done.")
    left = await ran(wrong, DONE, DONE, policy=FARM)
    assert (left.success, "file farm/a.txt contains wheat" in left.message) == (False, True)
    assert (await ran(beside, DONE, policy=FARM)).success


@pytest.mark.parametrize(
    ("change", "held"),
    [
        (call("cc_delete", path="farm"), False),
        (call("cc_move", path="farm", to="old"), False),
        (call("cc_move", path="new", to="farm2"), True),
    ],
)
async def test_a_directory_that_is_gone_changes_what_was_in_it(change: dict[str, Any], held: bool) -> None:
    """So the policy's check of a file in it is made."""
    policy = FARM.replace("FARM/**", "FARM/a.txt")
    files = {"farm/a.txt": "wheat", "new/a.txt": "rye"}
    assert (await ran(says(change), DONE, DONE, policy=policy, **files)).success is held


async def test_what_must_stay_unchanged_is_compared_with_the_beginning() -> None:
    """A file, and one that was not there; put back, it is as it was."""
    checks = ("unchanged belt.cfg", "unchanged new.txt")
    files = {"belt.cfg": "speed = 4"}
    changed, back, other = write("belt.cfg", "speed = 8"), write("belt.cfg", "speed = 4"), write("a.txt", "x")
    assert (await ran(other, DONE, checks=checks, **files)).success
    assert (await ran(changed, DONE, back, DONE, checks=checks, **files)).success
    failed = await ran(changed, write("new.txt", ""), DONE, DONE, checks=checks, **files)
    assert (failed.success, failed.message[:21]) == (False, "2 of 2 checks do not ")


async def test_a_library_call_raises_where_a_person_has_to_decide_and_shows_the_check_with_it() -> None:
    """In stub mode there is no program whose bytes an approval could cover, so the run is asked about as well."""
    deps = CCAgentDeps(mode="stub")
    model = ScriptedModel((write("farm.lua", "print(1)"), DONE))
    with pytest.raises(InvalidRequest, match="cannot be read"):
        await execute_task_with_agent("x", deps, model=model, checks=("walks farm.lua",))
    task: Any = "x"
    shown: list[tuple[str, list[str]]] = []
    decisions: dict[Any, CallDecision] | None = None
    for _ in range(2):
        with pytest.raises(HitlInterventionRequired) as asked:
            await execute_task_with_agent(task, deps, model=model, decisions=decisions, checks=("runs farm.lua",))
        task = asked.value.task
        (record,) = task.calls
        shown.append((record.call.tool, [one.check for one in record.checks]))
        decisions = {record.call_id: CallDecision(call_id=record.call_id, action="approve")}
    assert shown == [("cc_write", ["runs farm.lua"]), ("cc_run_program", [])]
    final = await execute_task_with_agent(task, deps, model=model, decisions=decisions)
    assert final.success


async def test_a_check_that_the_policy_gets_meanwhile_is_made_though_nothing_moved() -> None:
    """Results stand as long as nothing is changed or run, and only for the checks that they are of."""
    asks = '[[rules]]\nid = "ask"\neffect = "ask"\ntools = ["cc_delete"]\n'
    lie = {**DONE, "message": "I ran farm/a.txt and it printed 42."}
    delete = {"kind": "tool", "explanation": "I ask.", "tool_call": {"tool": "cc_delete", "args": {"path": "b.txt"}}}
    deps = CCAgentDeps(mode="stub", file_cache={"b.txt": "x"})
    model = ScriptedModel((write("farm/a.txt", "rye"), lie, delete, DONE, DONE))
    checks = ("file farm/a.txt exists",)
    with pytest.raises(HitlInterventionRequired) as asked:
        await execute_task_with_agent("x", deps, model=model, policy=load_policy(ALLOWS + asks), checks=checks)
    (record,) = asked.value.task.calls
    decisions = {record.call_id: CallDecision(call_id=record.call_id, action="respond", answer="Leave it.")}
    stricter = load_policy(FARM + asks)
    final = await execute_task_with_agent(asked.value.task, deps, model=model, policy=stricter, decisions=decisions)
    assert (final.success, "file farm/a.txt contains wheat" in final.message) == (False, True)


# -- an actor on computers in memory -------------------------------------------------------


ASKS = '[[rules]]\nid = "asks"\neffect = "ask"\ntools = ["cc_run_program", "cc_write"]\n'
DELETE = says(call("cc_delete", path="b.lua"))


async def test_the_programs_of_checks_run_watched_and_before_files_are_looked_at() -> None:
    """With their arguments. Where the policy denies a look, nobody knows, and no success is verified."""
    bench = Bench(Listening(final()), policy=rules())
    bench.world.run_timeout_s = 33
    task_id = await bench.submit(checks=("file a.lua contains old", "runs a.lua 7 north"))
    task = await bench.act()
    (frame,) = bench.computers.sent("run_program")
    assert (frame.params["observe_s"], frame.params["timeout_s"], frame.body) == (10, 33, b'["7", "north"]')
    proposed = await bench.happened(task_id, "calls_proposed")
    assert [[one.tool for one in fact.calls] for fact in proposed] == [["cc_run_program"], ["cc_find"]]
    assert task.ended is not None
    assert (task.ended.status, task.ended.status_reason, task.ended.verified) == ("Completed", "unverified", False)
    assert "Nobody knows whether these checks hold: file a.lua contains old" in task.ended.doubt


async def test_what_must_stay_unchanged_is_waited_for_and_never_read_where_the_policy_denies_it() -> None:
    """The model is not asked before it was looked at."""
    denies = '[[rules]]\nid = "no"\neffect = "deny"\ntools = ["cc_read"]\npaths = ["secret.txt"]\n'
    bench = Bench(Listening(final()), policy=rules(denies))
    bench.disk.files["secret.txt"] = b"x"
    bench.computers.away.add(PC)
    task_id = await bench.submit(checks=("unchanged a.lua", "unchanged secret.txt"))
    assert (await bench.act()).phase is Phase.QUEUED
    assert await bench.kinds(task_id) == ["task_submitted"]
    bench.computers.away.clear()
    await JournalGreeter(bench.service).arrived(PC)
    ended = await bench.act()
    assert [one.holds for one in ended.checks] == [True, None]
    assert not [one for one in bench.computers.frames if "secret.txt" in one.params.values()]


async def test_a_limit_names_the_checks_that_did_not_hold() -> None:
    """What the limit says, and then what failed when success was claimed last."""
    bench = Bench(Listening(final(), says(WRITE)), policy=rules())
    await bench.submit(checks=("prints 42",), max_steps=2)
    ended = (await bench.act()).ended
    assert ended is not None
    assert (ended.status, ended.status_reason) == ("Failed", "max_steps")
    assert "When success was claimed last: This check does not hold: prints 42 (No program was run" in ended.message


async def test_a_claim_whose_checks_failed_is_no_success_where_the_model_cannot_be_asked_again() -> None:
    """A claim that was only doubted is kept then; this one was wrong."""
    bench = Bench(Listening(final(), ModelFailed("It is gone.", lasting=True)), policy=rules())
    await bench.submit(checks=("prints 42",))
    ended = (await bench.act()).ended
    assert ended is not None
    assert (ended.status, ended.status_reason) == ("Failed", "model_failed")
    assert "It is gone. When success was claimed last: This check does not hold" in ended.message


@pytest.mark.parametrize(
    ("fault", "holds", "why"),
    [
        (FrameRefused("The client is too old for observe_s."), None, "It was not run: The client is too old"),
        (ComputerFailed("stale", "It is not what it was."), None, "It was not run: It is not what it was."),
        (None, False, "There is no such program."),
    ],
)
async def test_a_program_that_never_began_did_not_end_with_an_error(
    fault: Exception | None, holds: bool | None, why: str
) -> None:
    """Nobody knows whether it runs, unless it is not there."""
    bench = Bench(Listening(final()), policy=rules())
    if fault is None:
        del bench.disk.files["a.lua"]
    else:
        bench.computers.faults["run_program"] = deque([fault])
    await bench.submit(checks=("runs a.lua",), max_steps=1)
    (result,) = (await bench.act()).checks
    assert (result.holds, result.why[: len(why)]) == (holds, why)


@pytest.mark.parametrize(
    ("risks", "first", "shown"),
    [
        ((), None, True),
        ((), DELETE, False),
        (("cc_run_program", "high"), None, None),
        (("*", "critical"), None, None),
    ],
)
async def test_a_check_is_shown_with_a_call_of_its_own_risk_and_bound_to_untouched_bytes(
    risks: tuple[str, str], first: Any, shown: bool | None
) -> None:
    """Bytes that the task may have made nobody has seen; a higher risk is asked about by itself (None: not shown)."""
    more = f'[[rules]]\nid = "r"\neffect = "ask"\ntools = ["{risks[0]}"]\nrisk = "{risks[1]}"\n' if risks else ""
    bench = Bench(Listening(*filter(None, (first, says(WRITE)))), policy=rules(ASKS, more))
    bench.disk.files |= {"farm.lua": b"print(1)\n", "b.lua": b""}
    await bench.submit(checks=("runs farm.lua",))
    checks = only(await bench.act()).checks
    assert [bool(one.sha256) for one in checks] == ([] if shown is None else [shown])


def test_what_puts_files_back_has_no_checks() -> None:
    """Neither its user's nor the policy's."""
    story = Journal()
    story.submitted(checks=("runs a.lua",))
    rule, changed = PathCheck(path="**", check="runs b.lua"), [(PC, "a.lua")]
    assert [one.line for one in due_of(story.task, [rule], changed)] == ["runs a.lua", "runs b.lua"]
    assert due_of(replace(story.task, restores=Restoration()), [rule], changed) == ()
