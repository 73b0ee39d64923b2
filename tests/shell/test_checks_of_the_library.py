"""Checks without a server: of a library call, and of the policy for paths."""

from collections.abc import Sequence
from typing import Any

import pytest

from orchestrator.core.approval import CallDecision
from orchestrator.core.errors import HitlInterventionRequired, InvalidRequest
from orchestrator.core.policy import load_policy
from orchestrator.core.response import FinalResult
from orchestrator.model.scripted import ScriptedModel
from orchestrator.runner import execute_task_with_agent
from orchestrator.tools.deps import CCAgentDeps

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
