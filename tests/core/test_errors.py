"""The one tree of errors: each class has its code and status, each instance says what to do."""

import re

import pytest

from orchestrator.core import errors
from orchestrator.core.errors import (
    CallVoid,
    ComputerClaimed,
    ComputerFailed,
    Conflict,
    FrameRefused,
    HitlInterventionRequired,
    InvalidRequest,
    ModelFailed,
    NotFound,
    NotPending,
    OrchestratorError,
)
from tests.core.journal import call
from tests.core.persons import paused, unknown

STATUS = {
    "OrchestratorError": ("internal", 500),
    "InvalidRequest": ("invalid_request", 422),
    "FrameRefused": ("bad_frame", 422),
    "ReplyRefused": ("reply_refused", 422),
    "PolicyInvalid": ("policy_invalid", 422),
    "UnsafePath": ("unsafe_path", 422),
    "Unauthenticated": ("unauthenticated", 401),
    "Forbidden": ("forbidden", 403),
    "NotFound": ("not_found", 404),
    "Unreadable": ("unreadable", 404),
    "NotPending": ("not_pending", 409),
    "RequestExpired": ("expired", 409),
    "InvalidDecision": ("invalid_decision", 409),
    "TaskEnded": ("task_ended", 409),
    "PersonFrozen": ("frozen", 409),
    "QuotaReached": ("quota_reached", 429),
    "Conflict": ("conflict", 409),
    "LeaseLost": ("lease_lost", 409),
    "ComputerClaimed": ("computer_claimed", 409),
    "GrantVoid": ("grant_void", 409),
    "PolicyUnusable": ("policy_unusable", 503),
    "StoreBusy": ("store_busy", 503),
    "JournalBroken": ("journal_broken", 500),
    "StoreDamaged": ("store_damaged", 500),
    "NewerSchema": ("newer_schema", 503),
    "StoreAway": ("store_away", 503),
    "BusAway": ("bus_away", 503),
    "NobodyServes": ("nobody_serves", 503),
    "RequestLost": ("request_lost", 503),
    "ComputerAway": ("computer_away", 409),
    "BeingUndone": ("being_undone", 409),
    "CallVoid": ("call_void", 503),
    "CallLost": ("call_lost", 503),
    "ComputerFailed": ("computer_failed", 502),
    "ToolFailed": ("tool_failed", 422),
    "ModelFailed": ("model_failed", 502),
    "WindowTooSmall": ("window_too_small", 422),
    "HitlInterventionRequired": ("hitl_required", 409),
}
CLASSES = {
    name: one for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, OrchestratorError)
}


def test_D1_every_error_has_its_code_and_status() -> None:
    """Codes are on the wire for ever, and no two classes share one."""
    assert {name: (one.code, one.http_status) for name, one in CLASSES.items()} == STATUS
    assert len({one.code for one in CLASSES.values()}) == len(CLASSES)


def test_the_tree_in_the_docstring_is_the_tree_in_the_code() -> None:
    """Every class is drawn, under its parent."""
    drawn = re.findall(r"^    ([│ ]*)[├└]── (\w+)", errors.__doc__ or "", re.MULTILINE)
    assert {name for _, name in drawn} == set(CLASSES) - {"OrchestratorError"}
    above = OrchestratorError
    for indent, name in drawn:
        parent = above if indent else OrchestratorError
        assert CLASSES[name].__bases__ == (parent,)
        above = above if indent else CLASSES[name]


def test_an_error_says_what_happened_and_what_to_do() -> None:
    """The message, then the remedy where there is one."""
    error = NotFound("There is no task.", remedy="List the tasks.")
    assert (error.message, error.remedy, str(error)) == (
        "There is no task.",
        "List the tasks.",
        "There is no task. List the tasks.",
    )
    assert str(Conflict("Somebody was first.")) == "Somebody was first."
    assert isinstance(FrameRefused("x"), InvalidRequest)


def test_D7_an_error_may_carry_details_for_programs() -> None:
    """Who decided before, which calls offend: nothing where there is nothing, and a copy of what was given."""
    given = {"decided_by": "bob"}
    error = NotPending("It was approved by bob.", details=given)
    given["decided_by"] = "mallory"
    assert error.details == {"decided_by": "bob"}
    assert NotPending("It is over.").details == {}


def test_errors_of_a_computer_carry_what_came_with_them() -> None:
    """Why a call is void; the client's own code, its data and the output of what failed."""
    assert (CallVoid("busy", "no").reason, str(CallVoid("busy", "no"))) == ("busy", "no")
    bare = ComputerFailed("stale", "it changed")
    assert (bare.reason, bare.data, bare.body) == ("stale", {}, b"")
    full = ComputerFailed("program_error", "no", {"ended": "error"}, b"out")
    assert (full.data, full.body) == ({"ended": "error"}, b"out")


@pytest.mark.parametrize(("tool", "plugin"), [("cc_write", "cc"), ("local_read", "local"), ("nope", "unknown")])
def test_S1_the_intervention_carries_all_calls_of_the_step(tool: str, plugin: str) -> None:
    """The seeds' message names the first call; all of them, and the task to go on with, come along."""
    calls = [call("c1", tool), call("c2", "cc_shell")]
    raised = HitlInterventionRequired(calls, task="the task")
    assert (raised.function_calls, raised.task) == (calls, "the task")
    assert (raised.plugin_name, raised.function_name) == (plugin, tool)
    assert str(raised) == f"HITL intervention required for {plugin}.{tool}"


def test_an_intervention_without_calls() -> None:
    """The seeds' short message."""
    raised = HitlInterventionRequired()
    assert (str(raised), raised.function_calls, raised.plugin_name) == ("HITL intervention required", [], None)


def test_an_intervention_approves_what_waits_and_nothing_else() -> None:
    """Calls that wait, not those of the step that ran; an unknown outcome is pending, and approved by nobody."""
    story = paused("ask", "allow", "ask")
    raised = HitlInterventionRequired([one.call for one in story.task.calls], task=story.task)
    assert [one.call_id for one in raised.pending] == ["c1", "c3"]
    assert {name: one.action for name, one in raised.approve_all().items()} == {"c1": "approve", "c3": "approve"}
    lost = HitlInterventionRequired(task=unknown().task)
    assert [one.call_id for one in lost.pending] == ["c1"]
    for nothing in (lost, HitlInterventionRequired()):
        with pytest.raises(NotPending, match="waits for no approval"):
            nothing.approve_all()


def test_what_some_errors_carry_beside_their_sentence() -> None:
    """The computer that is claimed; whether asking a model again can help."""
    assert ComputerClaimed("3").computer == "3"
    assert str(ComputerClaimed("3")) == "Another task works on computer 3 now."
    assert not ModelFailed("It is busy.").lasting
    assert ModelFailed("There is no such model.", remedy="Pull it.", lasting=True).lasting
