"""The library form: one task from a prompt to its result, without a server."""

import ast
import dataclasses
import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from orchestrator.adapters.models.scripted import ScriptedModel
from orchestrator.app.library import execute_task_with_agent
from orchestrator.core.approval.approval import CallDecision, CallState
from orchestrator.core.errors import HitlInterventionRequired, InvalidDecision, InvalidRequest, ModelFailed, NotPending
from orchestrator.core.model_view.prompt import Window, estimate
from orchestrator.core.policy import Policy, load_policy
from orchestrator.core.ports import ChatMessage, ModelReply
from orchestrator.core.reply.response import TaskResult
from orchestrator.core.task.facts import DecisionAction, OnReject
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.task import AgentTask
from orchestrator.tools.deps import CCAgentDeps
from orchestrator.tools.workspace import DirectoryWorkspace
from tests import ROOT
from tests.harness.support import Channel, Disk, Listening, call, final, says

PAGE = ROOT / "docs" / "python.md"
WRITE = call("cc_write", path="a.lua", content="print(1)\n")
ALL_ALLOWED = """
schema_version = 1
[[rules]]
id = "everything"
effect = "allow"
tools = ["*"]
"""


def stub() -> CCAgentDeps:
    return CCAgentDeps(mode="stub")


def allowing() -> Policy:
    return load_policy(ALL_ALLOWED)


async def paused(
    model: Any, deps: CCAgentDeps, task: str | AgentTask = "fix it", **more: Any
) -> HitlInterventionRequired:
    """The intervention that a run must end in."""
    with pytest.raises(HitlInterventionRequired) as raised:
        await execute_task_with_agent(task, deps, model=model, **more)
    return raised.value


def decided(
    stopped: HitlInterventionRequired,
    action: DecisionAction = "approve",
    *,
    on_reject: OnReject | None = None,
    reason: str = "",
) -> dict[Any, CallDecision]:
    """One decision for every call that waits."""
    return {
        record.call_id: CallDecision(call_id=record.call_id, action=action, on_reject=on_reject, reason=reason)
        for record in stopped.task.pending_tool_calls
    }


# -- the pause ---------------------------------------------------------------------------


async def test_a_call_that_asks_raises_with_all_that_a_caller_needs() -> None:
    """A call that asks raises `HitlInterventionRequired`, worded and filled as DESIGN section 4 says."""
    stopped = await paused(Listening(says(WRITE)), stub())
    assert str(stopped) == stopped.message == "HITL intervention required for cc.cc_write"
    assert (stopped.plugin_name, stopped.function_name) == ("cc", "cc_write")
    task = stopped.task
    assert isinstance(task, AgentTask)
    assert task.status is TaskStatus.PAUSED
    assert task.status.value == "Paused"
    (pending,) = task.pending_tool_calls
    assert pending.call.args == {"path": "a.lua", "content": "print(1)\n"}
    assert pending.state is CallState.PENDING
    assert pending.observed is not None
    assert "+print(1)" in (pending.observed.diff or "")


def test_without_calls_it_says_only_that_a_person_is_needed() -> None:
    """The exception without calls has the seed's short message and no plugin or function."""
    bare = HitlInterventionRequired()
    assert str(bare) == "HITL intervention required"
    assert (bare.plugin_name, bare.function_name, bare.function_calls, bare.task) == (None, None, [], None)


async def test_it_carries_all_calls_of_the_step() -> None:
    """The exception holds every call of the step in order, gated or not (S1), named after the first."""
    model = Listening(says(call("cc_list", path="/"), WRITE, call("cc_delete", path="b.lua")))
    stopped = await paused(model, stub())
    assert [one.function_name for one in stopped.function_calls] == ["cc_list", "cc_write", "cc_delete"]
    assert [one.plugin_name for one in stopped.function_calls] == ["cc", "cc", "cc"]
    assert str(stopped) == "HITL intervention required for cc.cc_list"
    assert [record.call.tool for record in stopped.task.pending_tool_calls] == ["cc_write", "cc_delete"]


async def test_nothing_of_a_held_step_has_happened_yet() -> None:
    """While a person has not decided, no gated call of the step has touched anything."""
    deps = stub()
    await paused(Listening(says(WRITE, call("cc_write", path="b.lua", content="return 2\n"))), deps)
    assert deps.file_cache == {}


@pytest.mark.parametrize("policy", [None, load_policy("schema_version = 1\nrules = []\n")])
async def test_stub_mode_has_the_gate_too(policy: Policy | None) -> None:
    """Neither stub mode nor an empty policy lets a write pass: None is the shipped policy, which asks."""
    deps = stub()
    stopped = await paused(Listening(says(WRITE)), deps, policy=policy)
    assert stopped.function_name == "cc_write"
    assert deps.file_cache == {}


# -- decisions ---------------------------------------------------------------------------


async def test_approve_runs_the_call_and_goes_on() -> None:
    """Called again with approvals the very call runs, the model is told, and the final result comes."""
    deps = stub()
    model = Listening(says(WRITE), final("written", path="a.lua"))
    stopped = await paused(model, deps)
    result = await execute_task_with_agent(stopped.task, deps, model=model, decisions=decided(stopped))
    assert result == TaskResult(
        explanation="that was it",
        success=True,
        message="written",
        details={"path": "a.lua"},
        report=("new a.lua  +1 -0", "not run since it was changed: a.lua"),
        verified=True,
    )
    assert deps.file_cache == {"a.lua": "print(1)\n"}
    assert model.told.startswith("TOOL_RESULT: Wrote 9 bytes to a.lua\n")


async def test_reject_cancels_and_the_model_is_not_asked_again() -> None:
    """A rejection without more ends the task as a failure, and the model is not called again (D12)."""
    deps = stub()
    model = Listening(says(WRITE), final())
    stopped = await paused(model, deps)
    result = await execute_task_with_agent(stopped.task, deps, model=model, decisions=decided(stopped, "reject"))
    assert not result.success
    assert "rejected" in result.message
    assert len(model.asked) == 1
    assert deps.file_cache == {}


async def test_reject_and_continue_tells_the_model_why() -> None:
    """With on_reject continue the model hears that a person said no, that nothing ran, and why (D13, D14)."""
    deps = stub()
    model = Listening(says(WRITE), final("gave up", success=False))
    stopped = await paused(model, deps)
    choices = decided(stopped, "reject", on_reject="continue", reason="use b.lua")
    result = await execute_task_with_agent(stopped.task, deps, model=model, decisions=choices)
    assert (result.success, result.message) == (False, "gave up")
    assert "A person rejected this call and it did not run." in model.told
    assert '"use b.lua"' in model.told
    assert deps.file_cache == {}


async def test_a_rejected_call_is_not_asked_about_again() -> None:
    """The same call proposed again after a rejection is denied without a person (D15)."""
    deps = stub()
    model = Listening(says(WRITE), says(WRITE), final("stopped", success=False))
    stopped = await paused(model, deps)
    choices = decided(stopped, "reject", on_reject="continue")
    result = await execute_task_with_agent(stopped.task, deps, model=model, decisions=choices)
    assert result.message == "stopped"
    assert "Denied by policy: A person rejected this very call before" in model.told
    assert deps.file_cache == {}


async def test_each_call_is_decided_by_itself() -> None:
    """One call approved, its sibling rejected: only the approved one happens, results in the reply's order (S5)."""
    deps = stub()
    model = Listening(says(WRITE, call("cc_write", path="b.lua", content="return 2\n")), final())
    stopped = await paused(model, deps)
    first, second = stopped.task.pending_tool_calls
    choices = {
        second.call_id: CallDecision(call_id=second.call_id, action="approve"),
        first.call_id: CallDecision(call_id=first.call_id, action="reject", on_reject="continue"),
    }
    await execute_task_with_agent(stopped.task, deps, model=model, decisions=choices)
    assert deps.file_cache == {"b.lua": "return 2\n"}
    assert model.told.index("[1 cc_write] A person rejected") < model.told.index("[2 cc_write] Wrote 9 bytes to b.lua")


async def test_a_part_of_the_decisions_leaves_the_rest_pending() -> None:
    """Deciding one of two calls raises again with the other, whose turn comes later (D5)."""
    deps = stub()
    model = Listening(says(WRITE, call("cc_write", path="b.lua", content="return 2\n")), final())
    stopped = await paused(model, deps)
    first, second = stopped.task.pending_tool_calls
    half = {first.call_id: CallDecision(call_id=first.call_id, action="approve")}
    again = await paused(model, deps, stopped.task, decisions=half)
    assert [record.call_id for record in again.task.pending_tool_calls] == [second.call_id]
    assert deps.file_cache == {}
    await execute_task_with_agent(again.task, deps, model=model, decisions=decided(again))
    assert deps.file_cache == {"a.lua": "print(1)\n", "b.lua": "return 2\n"}


async def test_calling_again_without_decisions_raises_the_same_request() -> None:
    """Resuming a paused task with no decision changes nothing: the same calls wait, the model is not asked."""
    deps = stub()
    model = Listening(says(WRITE))
    stopped = await paused(model, deps)
    again = await paused(model, deps, stopped.task)
    assert again.task.request == stopped.task.request
    assert len(model.asked) == 1


async def test_a_decision_on_another_digest_is_refused() -> None:
    """A decision that echoes another digest than the one shown binds nothing and runs nothing (B1)."""
    deps = stub()
    stopped = await paused(Listening(says(WRITE)), deps)
    (pending,) = stopped.task.pending_tool_calls
    wrong = CallDecision(call_id=pending.call_id, action="approve", expected_digest="0" * 64)
    with pytest.raises(InvalidDecision, match="its digest differs"):
        await execute_task_with_agent(stopped.task, deps, model=Listening(), decisions={pending.call_id: wrong})
    assert deps.file_cache == {}


async def test_an_old_step_cannot_be_decided_twice() -> None:
    """The exception of an earlier step does not act on the present one (S6)."""
    deps = stub()
    model = Listening(says(WRITE), says(call("cc_delete", path="a.lua")), final())
    first = await paused(model, deps)
    second = await paused(model, deps, first.task, decisions=decided(first))
    with pytest.raises(InvalidDecision, match="does not wait for call"):
        await execute_task_with_agent(second.task, deps, model=model, decisions=decided(first))
    assert deps.file_cache == {"a.lua": "print(1)\n"}


async def test_decisions_without_a_task_that_waits_are_refused() -> None:
    """Decisions for a fresh prompt, or a task without its journal, are refused with a sentence."""
    deps = stub()
    stopped = await paused(Listening(says(WRITE)), deps)
    with pytest.raises(NotPending, match="waits for no decision"):
        await execute_task_with_agent("new", deps, model=Listening(), decisions=decided(stopped))
    values = {one.name: getattr(stopped.task, one.name) for one in dataclasses.fields(AgentTask)}
    with pytest.raises(NotPending, match="no journal"):
        await execute_task_with_agent(AgentTask(**values), deps, model=Listening())


# -- several calls, errors, limits -------------------------------------------------------


async def test_allowed_reads_run_at_once_and_results_keep_their_order() -> None:
    """Reads beside a gated write run before anyone decides, once, and come back in the reply's order (S3, S4, S5)."""
    channel = Channel(Disk({"a.lua": b"old\n"}))
    deps = CCAgentDeps(mode="live", ws_client=channel)
    model = Listening(says(WRITE, call("cc_read", path="a.lua"), call("cc_list", path="/")), final())
    stopped = await paused(model, deps)
    states = {record.call.tool: record.state for record in stopped.task.calls}
    assert states == {"cc_write": "pending", "cc_read": "executed", "cc_list": "executed"}
    await execute_task_with_agent(stopped.task, deps, model=model, decisions=decided(stopped))
    first, second, third = model.told.split("TOOL_RESULT: ")[1:]
    assert first.startswith("[1 cc_write] Wrote 9 bytes to a.lua")
    assert second.startswith("[2 cc_read] 1| old\n")
    assert third.startswith("[3 cc_list] a.lua  4")
    methods = [frame.method for frame in channel.frames]
    assert methods.count("fs_list") == 1
    assert methods.count("fs_write") == 1


async def test_the_same_call_twice_in_a_reply_counts_once() -> None:
    """Of two identical calls in one reply the second is denied, so nothing is asked or done twice (S16)."""
    deps = stub()
    model = Listening(says(WRITE, WRITE), final())
    stopped = await paused(model, deps)
    assert len(stopped.task.pending_tool_calls) == 1
    await execute_task_with_agent(stopped.task, deps, model=model, decisions=decided(stopped))
    assert "[2 cc_write] Denied by policy: The same call stands twice" in model.told


async def test_a_tools_error_goes_back_to_the_model() -> None:
    """What a tool cannot do is a TOOL_RESULT that says why; the task goes on."""
    model = Listening(says(call("local_read", path="x.txt")), says(WRITE), final())
    result = await execute_task_with_agent("go", stub(), model=model, policy=allowing())
    assert result.success
    assert model.asked[1][-1].content.startswith("TOOL_RESULT: There is no workspace, so local_* cannot be used.")


@pytest.mark.parametrize("tool", ["local_read", "local_write", "local_patch"])
async def test_without_a_workspace_every_local_tool_is_refused(tool: str) -> None:
    """`local_*` without a workspace touches nothing and tells the model so, even where the policy allows it."""
    args = {"local_read": {}, "local_write": {"content": "x"}, "local_patch": {"patch": "@@ -1 +1 @@\n-a\n+b\n"}}
    model = Listening(says(call(tool, path="x.txt", **args[tool])), final(success=False))
    await execute_task_with_agent("go", stub(), model=model, policy=allowing())
    assert "There is no workspace" in model.told


@pytest.mark.parametrize("path", ["/etc/passwd", "link/secret.txt", "a\\b", "C:x", ".cc-orchestrator/x", "dir/"])
async def test_a_path_out_of_the_workspace_is_told_to_the_model(path: str, tmp_path: Path) -> None:
    """A path that the workspace refuses is a TOOL_RESULT that says why, and the task goes on."""
    (tmp_path / "work").mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "work" / "link").symlink_to(tmp_path)
    deps = CCAgentDeps(mode="stub", workspace=DirectoryWorkspace(tmp_path / "work"))
    read = says(call("local_read", path=path))
    write = says(call("local_write", path=path, content="x"))
    model = Listening(read, write, final())
    result = await execute_task_with_agent("go", deps, model=model, policy=allowing())
    assert not result.success
    assert result.message.startswith("Unverified, because the journal does not support it. The model says: ")
    for told in (model.asked[1][-1].content, model.asked[2][-1].content):
        assert told.startswith("TOOL_RESULT: ")
        assert "secret\n" not in told
        assert "Name a file inside the workspace" in told
    assert sorted(entry.name for entry in (tmp_path / "work").iterdir() if entry.name != ".cc-orchestrator") == ["link"]


async def test_a_success_that_the_journal_does_not_bear_out_is_none() -> None:
    """A claim after a failed change is no success; one after a change that worked is, and so is an answer."""
    broken = says(call("cc_delete", path="none"))
    assert not (
        await execute_task_with_agent("go", stub(), model=Listening(broken, final()), policy=allowing())
    ).success
    mended = Listening(broken, says(WRITE), final())
    assert (await execute_task_with_agent("go", stub(), model=mended, policy=allowing())).success
    asked = Listening(says(call("cc_read", path="a")), final())
    assert (await execute_task_with_agent("What is in a?", stub(), model=asked, policy=allowing())).success


async def test_a_model_that_raises_anything_ends_the_task_with_a_sentence() -> None:
    """A defect of a model is told as a failure of the task, never retried for ever."""

    class Broken:
        name = "broken"

        async def window(self) -> None:
            """It does not say."""

        async def reply(self, messages: object, **_: object) -> object:
            raise ValueError("no such weights")

    result = await execute_task_with_agent("go", stub(), model=Broken())
    assert not result.success
    assert "The model broken met a defect: ValueError: no such weights" in result.message


async def test_a_path_that_climbs_is_denied() -> None:
    """A path with leading `..` never reaches a person or a tool: the gate denies it with the reason."""
    model = Listening(says(call("cc_read", path="../x")), final(success=False))
    await execute_task_with_agent("go", stub(), model=model)
    assert "Denied by policy: The path '../x' climbs above the root." in model.told


async def test_an_unknown_tool_is_denied_and_the_tools_are_named() -> None:
    """A tool that does not exist is denied with the list of those that do, and the model may try again."""
    model = Listening(says(call("cc_format", path="/")), final("ok", success=False))
    result = await execute_task_with_agent("go", stub(), model=model)
    assert result.message == "ok"
    assert model.told.startswith("TOOL_RESULT: Denied by policy: No such tool: 'cc_format'. The tools are: ask_user")


async def test_three_unreadable_replies_end_the_task() -> None:
    """A model that cannot answer in the form ends the task as failed after three replies, with the reason."""
    model = Listening("no json", "none", "again none")
    result = await execute_task_with_agent("go", stub(), model=model)
    assert not result.success
    assert result.message == (
        "3 replies in a row could not be read. Try another model, a larger window, or another value of think "
        '("auto" or "off"). The last one was `again none`. It was refused with: Your reply has no JSON object. Send '
        "one, such as a request for a tool; a program goes into the content of a call, prose into explanation or "
        "message."
    )
    assert len(model.asked) == 3


async def test_three_replies_that_a_model_of_ones_own_cut_off_are_named_as_such() -> None:
    """A model that does not tell its window has a limit of its own."""

    class Cut:
        name = "cut"

        async def window(self) -> None:
            """It does not say."""

        async def reply(self, messages: object, **_: object) -> ModelReply:
            return ModelReply("{", "length")

    result = await execute_task_with_agent("go", stub(), model=Cut())
    assert result.message == (
        "3 replies in a row could not be read. They were cut off at the length limit of the model. Raise that limit; "
        'for a model that thinks, set think = "off". The last one was `{`.'
    )


async def test_the_step_limit_ends_the_task() -> None:
    """After max_steps replies the task ends unsuccessful and says so; the model is not asked once more."""
    model = Listening(*(says(call("cc_list", path=f"/{number}")) for number in range(9)))
    result = await execute_task_with_agent("go", stub(), model=model, max_steps=3)
    assert result == TaskResult(
        success=False, message="The limit of 3 steps was reached.", report=("nothing was changed or run",)
    )
    assert len(model.asked) == 3


async def test_a_model_that_slips_once_is_asked_again() -> None:
    """A failed request to the model is repeated: the caller gets a result, not an intervention without calls."""
    model = Listening(ModelFailed("connection reset"), final("there", success=False))
    result = await execute_task_with_agent("go", stub(), model=model)
    assert result.message == "there"
    assert len(model.asked) == 2


async def test_a_question_stops_the_library_form() -> None:
    """`ask_user` needs a person, so the library form raises and names it."""
    model, deps = Listening(says(call("ask_user", question="which?")), final()), stub()
    stopped = await paused(model, deps, "Which one is it?")
    assert str(stopped) == "HITL intervention required for people.ask_user"
    asked = stopped.function_calls[0].call_id
    answer = {asked: CallDecision(call_id=asked, action="respond", answer="the left one")}
    assert (await execute_task_with_agent(stopped.task, deps, model=model, decisions=answer)).success
    assert "TOOL_RESULT: the left one" in model.told


async def test_a_choice_of_a_question_is_picked_by_its_number() -> None:
    """The exception has the choices, and the model gets the text of the one that was picked."""
    model, deps = Listening(says(call("ask_user", question="which?", options=["left", "right"])), final()), stub()
    stopped = await paused(model, deps, "Which one is it?")
    (asked,) = stopped.function_calls
    assert asked.args["options"] == ["left", "right"]
    answer = {asked.call_id: CallDecision(call_id=asked.call_id, action="respond", answer="2")}
    assert (await execute_task_with_agent(stopped.task, deps, model=model, decisions=answer)).success
    assert "TOOL_RESULT: right" in model.told


async def test_approving_every_call_that_the_exception_names_goes_on() -> None:
    """A caller who approves all `function_calls` may include reads that had run already; nothing runs twice."""
    model, deps = Listening(says(call("cc_read", path="b.lua"), WRITE), final()), stub()
    stopped = await paused(model, deps)
    everything = {one.call_id: CallDecision(call_id=one.call_id, action="approve") for one in stopped.function_calls}
    assert len(everything) == 2
    assert (await execute_task_with_agent(stopped.task, deps, model=model, decisions=everything)).success
    with pytest.raises(NotPending, match="waits for no decision"):
        await execute_task_with_agent(stopped.task, deps, model=model, decisions=everything)


async def test_a_status_is_sent_and_the_task_goes_on() -> None:
    """`send_status` needs nobody."""
    model = Listening(says(call("send_status", message="halfway")), final(success=False))
    await execute_task_with_agent("go", stub(), model=model)
    assert model.told.startswith("TOOL_RESULT: Status sent.")


# -- policies ----------------------------------------------------------------------------


async def test_a_policy_of_the_callers_own_decides() -> None:
    """A policy that allows writes runs through without a person."""
    deps = stub()
    model = Listening(says(WRITE), final())
    assert (await execute_task_with_agent("go", deps, model=model, policy=allowing())).success
    assert deps.file_cache == {"a.lua": "print(1)\n"}


async def test_a_policy_that_denies_tells_the_model() -> None:
    """A denied call runs nowhere, asks nobody, and the model hears the rule's reason."""
    deny = load_policy(
        'schema_version = 1\n[[rules]]\nid = "no"\neffect = "deny"\ntools = ["cc_write"]\nreason = "Hands off."\n'
    )
    deps = stub()
    model = Listening(says(WRITE), final(success=False))
    await execute_task_with_agent("go", deps, model=model, policy=deny)
    assert model.told.startswith("TOOL_RESULT: Denied by policy: Hands off.")
    assert deps.file_cache == {}


async def test_a_policy_that_grew_stricter_in_the_pause_wins() -> None:
    """What was approved under one policy does not run under one that denies it (P16)."""
    deps = stub()
    model = Listening(says(WRITE), final(success=False))
    stopped = await paused(model, deps)
    deny = load_policy('schema_version = 1\n[[rules]]\nid = "no"\neffect = "deny"\ntools = ["*"]\nreason = "Closed."\n')
    await execute_task_with_agent(stopped.task, deps, model=model, decisions=decided(stopped), policy=deny)
    assert deps.file_cache == {}
    assert "This call did not run: Closed." in model.told


# -- live, with the caller's own channel -------------------------------------------------


async def test_live_mode_works_over_the_callers_own_channel() -> None:
    """In live mode the caller's `ws_client` gets each command; a write carries the hash that the person saw."""
    channel = Channel(Disk({"a.lua": b"old\n"}))
    deps = CCAgentDeps(mode="live", ws_client=channel, computer="farm")
    model = Listening(says(WRITE), says(call("cc_run_program", path="a.lua", args=["x"])), final())
    stopped = await paused(model, deps)
    (pending,) = stopped.task.pending_tool_calls
    assert pending.call.computer == "farm"
    assert pending.observed is not None
    assert pending.observed.state == {"a.lua": Disk({"a.lua": b"old\n"}).hash("a.lua")}
    stopped = await paused(model, deps, stopped.task, decisions=decided(stopped))
    assert channel.disk.files == {"a.lua": b"print(1)\n"}
    write = next(frame for frame in channel.frames if frame.method == "fs_write")
    assert write.params == {"path": "a.lua", "if_hash": pending.observed.state["a.lua"]}
    assert (await execute_task_with_agent(stopped.task, deps, model=model, decisions=decided(stopped))).success
    assert "Program a.lua executed successfully.\nOutput:\nHello, world!" in model.told
    run = channel.frames[-1]
    assert (run.method, json.loads(run.body or b"")) == ("run_program", ["x"])


async def test_live_mode_asks_again_when_the_file_changed() -> None:
    """Approved, then changed on the computer: nothing is overwritten and a new diff is asked about (B3)."""
    channel = Channel(Disk({"a.lua": b"old\n"}))
    deps = CCAgentDeps(mode="live", ws_client=channel)
    model = Listening(says(WRITE), final())
    stopped = await paused(model, deps)
    channel.disk.files["a.lua"] = b"somebody's\n"
    again = await paused(model, deps, stopped.task, decisions=decided(stopped))
    assert channel.disk.files == {"a.lua": b"somebody's\n"}
    (pending,) = again.task.pending_tool_calls
    assert pending.observed is not None
    assert "-somebody's" in (pending.observed.diff or "")
    assert again.task.request.request_id != stopped.task.request.request_id
    await execute_task_with_agent(again.task, deps, model=model, decisions=decided(again))
    assert channel.disk.files == {"a.lua": b"print(1)\n"}


async def test_live_mode_without_a_channel_says_so() -> None:
    """Live mode without a computer is a TOOL_RESULT that says what to do, not a crash."""
    model = Listening(says(call("cc_list", path="/")), final(success=False))
    await execute_task_with_agent("go", CCAgentDeps(mode="live"), model=model)
    assert model.told.startswith("TOOL_RESULT: There is no computer to send this to. Use mode='stub', or connect one.")


# -- models ------------------------------------------------------------------------------


async def test_a_function_model_of_pydantic_ai_plays_it() -> None:
    """Any pydantic-ai model drives the library form: a FunctionModel sees each result and decides."""
    seen: list[str] = []

    def play(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del info
        last = messages[-1]
        assert isinstance(last, ModelRequest)
        (part,) = last.parts
        assert isinstance(part, UserPromptPart)
        seen.append(str(part.content))
        reply = says(WRITE) if len(seen) == 1 else final("by function")
        return ModelResponse(parts=[TextPart(json.dumps(reply))])

    deps = stub()
    model = FunctionModel(play)
    stopped = await paused(model, deps, "write a.lua")
    result = await execute_task_with_agent(stopped.task, deps, model=model, decisions=decided(stopped))
    assert result.message == "by function"
    assert seen[0] == "write a.lua"
    assert seen[1].startswith("TOOL_RESULT: Wrote 9 bytes to a.lua")


async def test_a_model_by_name() -> None:
    """A name opens the shipped script; an unknown one is refused with those that exist."""
    deps = stub()
    first = await paused("scripted:hello", deps)
    second = await paused("scripted:hello", deps, first.task, decisions=decided(first))
    assert second.function_name == "cc_run_program"
    result = await execute_task_with_agent(second.task, deps, model="scripted:hello", decisions=decided(second))
    assert result.success
    with pytest.raises(InvalidRequest, match="There are scripted:hello"):
        await execute_task_with_agent("go", deps, model="scripted:nothing")


async def test_the_log_reads_as_the_seeds_wrote_it(caplog: pytest.LogCaptureFixture) -> None:
    """The steps are logged as they happen, in the words of DESIGN section 4, and a resume goes on counting."""
    deps = stub()
    model = ScriptedModel([says(WRITE, explanation="first I write"), final("all good")])
    with caplog.at_level(logging.INFO, logger="orchestrator.app.library"):
        stopped = await paused(model, deps)
        await execute_task_with_agent(stopped.task, deps, model=model, decisions=decided(stopped))
    lines = [record.getMessage() for record in caplog.records if record.name == "orchestrator.app.library"]
    wanted = [
        "[STEP 1]",
        "[EXPLANATION] first I write",
        "[TOOL] cc_write({'path': 'a.lua', 'content': 'print(1)\\n'})",
        "[TOOL_RESULT] Wrote 9 bytes to a.lua",
        "[STEP 2]",
        "[FINAL] Success=True, Message=all good",
    ]
    assert [line for line in lines if line in wanted] == wanted


# -- what a model sees of a large file ---------------------------------------------------


PAGED = Window(12_288, 2048)


class Pager(Listening):
    """Reads a file in a small window, and goes on wherever a gap says how."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.next: str | None = f"cc_read path={path} start_line=1"
        self.seen: dict[int, str] = {}

    async def window(self) -> Window:  # type: ignore[override]
        return PAGED

    async def reply(self, messages: Sequence[ChatMessage], **given: Any) -> ModelReply:
        if self.asked:
            told = messages[-1].content
            self.seen |= {int(n): text for n, text in re.findall(r"^(\d+)\|(?: (.*))?$", told, re.MULTILINE)}
            gaps = re.findall(r"^\[lines \d+-\d+ left out; (.*)\]$", told, re.MULTILINE)
            self.next = gaps[0] if gaps else None
        if self.next is None:
            self.script.append(final())
        else:
            tool, path, start = self.next.split()
            args = {"path": path.removeprefix("path="), "start_line": int(start.removeprefix("start_line="))}
            self.script.append(says(call(tool, **args)))
        return await super().reply(messages, **given)


async def test_a_model_that_follows_the_gaps_reads_every_line_of_a_large_file() -> None:
    """The tool cuts for itself and the window cuts again: the one gap that is left leads on, and the window holds."""
    lines = [f"local value_{number} = {number * 977}" for number in range(1, 1501)]
    deps = CCAgentDeps(mode="stub", file_cache={"big.lua": "\n".join(lines) + "\n"})
    model = Pager("big.lua")
    result = await execute_task_with_agent("What is in big.lua?", deps, model=model, max_steps=40)
    assert result.message == final()["message"]
    assert model.seen == dict(enumerate(lines, 1))
    assert 5 <= len(model.asked) <= 12
    assert all(sum(estimate(one.content) for one in asked) <= PAGED.budget for asked in model.asked)
    rows = "\n".join(one.content for one in model.asked[-1])
    assert re.search(r"cc_read big\.lua from line 1 → 1500 lines, \d+ of them shown", rows)


# -- the example of docs/python.md --------------------------------------------------------


def readme_example() -> str:
    """The Python of the page, as it is there."""
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return str(example)


async def run_example(source: str, **names: Any) -> Any:
    """What the example calls its result; ``names``: what it finds there besides."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    space = dict(names)
    await eval(compile(source, str(PAGE), "exec", flags=flags), space)
    return space["result"]


async def test_the_readmes_example_runs_as_it_stands() -> None:
    """It approves what the scripted model asks, and ends with what that did."""
    result = await run_example(readme_example())
    assert result.success, result


async def test_the_readmes_example_takes_a_reply_of_calls_that_ask_and_calls_that_do_not() -> None:
    """Reads run at once, changes wait; all of them are in the exception, and only those that wait are approved."""
    mixed = says(call("cc_list", path="/"), WRITE, call("cc_read", path="a.lua"), call("cc_mkdir", path="d"))
    model = Listening(mixed, says(call("cc_list", path="/"), call("cc_delete", path="d")), final("done"))
    source = readme_example()
    assert source.count('model="scripted:hello"') == 1
    result = await run_example(source.replace('model="scripted:hello"', "model=model"), model=model)
    assert result.message.endswith("The model says: done")


async def test_S1_the_exception_names_what_waits_and_approves_all_of_it() -> None:
    """`pending` has the calls that a person decides, `approve_all()` a decision for each."""
    stopped = await paused(Listening(says(call("cc_list", path="/"), WRITE)), stub())
    assert [one.tool for one in stopped.pending] == ["cc_write"]
    (decision,) = stopped.approve_all().values()
    assert decision == CallDecision(call_id=stopped.pending[0].call_id, action="approve")
    assert HitlInterventionRequired().pending == []


async def test_a_question_is_answered_and_never_approved() -> None:
    """Where only a question waits, nothing can be approved: a loop that tried would never end."""
    stopped = await paused(Listening(says(call("ask_user", question="Which?"))), stub())
    assert stopped.pending == []
    with pytest.raises(NotPending, match="waits for no approval") as refused:
        stopped.approve_all()
    assert "respond" in refused.value.remedy
