"""Checks: lines that say what has to hold, refused with what to type, made by calls, judged by what is recorded."""

from typing import Any

import pytest

from orchestrator.core.approval.presentation import hitl_response
from orchestrator.core.audit.check import check
from orchestrator.core.audit.story import who_approved
from orchestrator.core.errors import InvalidRequest, PolicyInvalid
from orchestrator.core.evidence.checks import (
    NO_PROGRAM,
    Checking,
    Due,
    Printed,
    failing,
    judged,
    output_of,
    said_failing,
    told_failing,
)
from orchestrator.core.evidence.user_checks import MAX_CHECKS, Check, checks_of, read_check
from orchestrator.core.model_view.view import told_results, view
from orchestrator.core.policy import RiskLevel, load_policy
from orchestrator.core.policy.match import may_hold
from orchestrator.core.task import facts
from orchestrator.core.task.effects import EvaluatePolicy, LookFirst, next_effects
from orchestrator.core.task.facts import CallId, Observed, RequestId, ShownCheck
from orchestrator.core.task.states import Phase
from orchestrator.core.wire.wire import ComputerId
from orchestrator.runtime.prompts import shipped
from tests.core.journal import REQUEST, Journal, call, decision, digest_of, verdict

PC = ComputerId("3")


@pytest.mark.parametrize(
    ("line", "check"),
    [
        ("runs farm.lua", ("runs", "", "farm.lua", (), "")),
        ('  runs "my farm.lua" 3  "north east"', ("runs", "", "my farm.lua", ("3", "north east"), "")),
        ("runs ./a/../farm.lua", ("runs", "", "farm.lua", (), "")),
        ("@t-1 runs farm.lua", ("runs", "t-1", "farm.lua", (), "")),
        ("prints 42 wheat", ("prints", "", "", (), "42 wheat")),
        ('prints " 42 "', ("prints", "", "", (), " 42 ")),
        ('prints "a" and "b"', ("prints", "", "", (), '"a" and "b"')),
        ("file a.cfg contains speed = 8", ("contains", "", "a.cfg", (), "speed = 8")),
        ('@t-1 file "my a.cfg" exists', ("exists", "t-1", "my a.cfg", (), "")),
        ("unchanged lib/a.lua", ("unchanged", "", "lib/a.lua", (), "")),
        ('unchanged "lib/a.lua', ("unchanged", "", "lib/a.lua", (), "")),
    ],
)
def test_a_line_is_read(line: str, check: tuple[Any, ...]) -> None:
    """Words end at blanks, quotes group them, a text is the rest of the line."""
    kind, computer, path, args, wanted = check
    assert read_check(line) == Check(line.strip(), kind, computer, path, args, wanted)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "it is empty"),
        ("run farm.lua", "'run' is not a kind of check"),
        ("runs", "the program is missing"),
        ("runs ..", "climbs above the root"),
        ('runs ""', "the path is missing"),
        ("prints ", "the text is missing"),
        ('prints ""', "the text is missing"),
        ("prints a\nb", "control character"),
        ("file a.cfg", "contains TEXT, or exists"),
        ("file a.cfg exists now", "contains TEXT, or exists"),
        ("file a.cfg contains", "the text is missing"),
        ("unchanged a.cfg b.cfg", "'b.cfg' stands behind the path"),
        ("@ runs a.lua", "computer's name after @ is missing"),
        (f"prints {'é' * 260}", "more than 500 bytes"),
    ],
)
def test_a_line_that_cannot_be_read_says_why_and_what_to_type(line: str, why: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(InvalidRequest) as refused:
        read_check(line)
    assert why in refused.value.message
    assert refused.value.remedy.startswith("Type one of: runs PROGRAM [ARGS], prints TEXT")


def test_the_checks_of_a_task_fit_its_computers() -> None:
    """Each stands once; with several computers each file and program says where it is."""
    assert checks_of(("runs a.lua ", "runs a.lua", "@3 unchanged b"), ("3",)) == ("runs a.lua", "@3 unchanged b")
    assert checks_of(("prints hello", "@2 runs a.lua"), ("1", "2")) == ("prints hello", "@2 runs a.lua")
    for lines, computers, read_only, remedy in (
        (("runs a.lua",), (), False, "Choose a computer for the task (`run --computer NAME`)."),
        (("@9 runs a.lua",), ("1", "2"), False, "Type one of: @1, @2."),
        (("runs a.lua",), ("1", "2"), False, "Put the computer's name in front, such as: @1 runs a.lua"),
        (("runs a.lua",), ("1",), True, "Leave out the check, or let the task do more than look."),
        (("runs a.lua",) * (MAX_CHECKS + 1), ("1",), False, "Leave some out."),
    ):
        with pytest.raises(InvalidRequest) as refused:
            checks_of(lines, computers, read_only=read_only)
        assert refused.value.remedy == remedy
        assert refused.value.details == {"field": "checks"}


def test_a_policy_names_checks_for_paths() -> None:
    """One that could never be made, or never be needed, is refused with its number."""
    rules = 'schema_version = 1\n[[rules]]\nid = "all"\neffect = "ask"\ntools = ["*"]\n'

    def named(path: str, check: str) -> Any:
        return load_policy(f'{rules}[[checks]]\npath = "{path}"\ncheck = "{check}"\n')

    policy = named("farm/**", " runs farm.lua")
    assert [(one.path, one.check) for one in policy.checks] == [("farm/**", "runs farm.lua")]
    assert policy.version != load_policy(rules).version
    assert [may_hold("FARM/*.txt", one) for one in ("farm", "b")] == [True, False]
    for path, line, why in (
        ("./farm", "runs farm.lua", "no canonical path can match"),
        ("farm/**", "walks farm.lua", "is not a kind of check"),
        ("farm/**", "@3 runs farm.lua", "names a computer"),
        ("farm/**", "unchanged farm.lua", "a rule that denies"),
    ):
        with pytest.raises(PolicyInvalid, match=rf"check 1: .*{why}"):
            named(path, line)


# -- what came of a check ------------------------------------------------------------------


def due(line: str, digest: str = "call-k") -> Due:
    """A check of the one computer."""
    check = read_check(line)
    return Due(check, line, PC, "" if check.call is None else digest)


def checked(line: str, **ended: Any) -> tuple[bool | None, str]:
    """What came of a check whose call ended so."""
    story = claimed(line)
    story.started("k")
    run_id = story.record("k").run_id
    assert run_id is not None
    story.add(facts.ToolFinished(call_id=CallId("k"), run_id=run_id, **ended))
    (one,) = judged(story.task.checking, (due(line),), {})
    assert one.items == (story.task.version,)
    return one.holds, one.why


def claimed(line: str, effect: str = "allow", story: Journal | None = None) -> Journal:
    """A task whose model claims success, and the call of its check."""
    story = story or Journal()
    if not story.items:
        story.submitted(checks=(line,))
    wanted = read_check(line).call
    assert wanted is not None
    tool, args = wanted
    story.proposed((call("k", tool, **args),), effect, checks=(line,))
    return story


def ran(ended: facts.ProgramEnd, seconds: float = 0.0) -> facts.Ran:
    """A program as its computer told it."""
    return facts.Ran(path="farm.lua", sha256="a" * 64, ended=ended, seconds=seconds)


@pytest.mark.parametrize(
    ("line", "ended", "holds", "why"),
    [
        ("runs farm.lua", {"ok": True, "ran": ran("finished")}, True, "It ran to its end."),
        ("runs farm.lua", {"ok": True}, True, "It ran to its end."),
        ("runs farm.lua", {"ok": True, "ran": ran("observed", 10)}, True, "It ran 10 s without an error, and was"),
        ("runs farm.lua", {"ok": False, "ran": ran("timed_out", 60)}, True, "It ran 60 s without an error, and was"),
        ("runs farm.lua", {"ok": False, "ran": ran("error")}, False, "It ended with an error."),
        ("runs farm.lua", {"ok": False}, None, "It was not run: Nobody knows why."),
        ("runs farm.lua", {"ok": False, "code": NO_PROGRAM}, False, "There is no such program."),
        ("runs farm.lua", {"ok": False, "ran": ran("stopped")}, False, "It did not end well."),
        ("runs farm.lua", {"ok": False, "code": "refused", "text": "It was refused."}, None, "It was not run: It was"),
        ("file a exists", {"ok": True, "text": "[1 match]\na  12"}, True, "It is there."),
        ("file a exists", {"ok": True, "text": "[1 match]\na/"}, False, "It is a directory."),
        ("file a exists", {"ok": True, "text": "[0 matches]"}, False, "There is no such file."),
        ("file a contains x", {"ok": True, "text": "[1 match]\na  12\n  3: x"}, True, "Line 3 has it."),
        ("file a contains x", {"ok": True, "text": "[0 matches]"}, False, "No line of it has the text"),
        ("file a contains x", {"ok": False, "text": "y" * 300}, None, f"It could not be looked at: {'y' * 200}…"),
    ],
)
def test_a_check_is_judged_by_what_its_call_came_to(line: str, ended: Any, holds: bool | None, why: str) -> None:
    """What nobody knows neither holds nor fails."""
    found = checked(line, **{"text": "", **ended})
    assert (found[0], found[1][: len(why)]) == (holds, why)


def test_a_run_that_people_or_the_policy_kept_back_is_not_known_to_hold() -> None:
    """Rejected, edited, answered, denied, not there, unknown: only a program that is missing fails the check."""
    line = "runs farm.lua"
    found: dict[str, tuple[bool | None, str]] = {}

    def judge(name: str, story: Journal) -> None:
        assert (story.task.phase, story.task.calls) == (Phase.REPLIED, ())
        (one,) = judged(story.task.checking, (due(line),), {})
        found[name] = (one.holds, one.why)

    denied = claimed(line, "deny")
    judge("denied", denied)
    for action in ("reject", "respond"):
        story = claimed(line, "ask")
        story.reviewed("k")
        story.decided(decision("k", action, on_reject="continue"))
        judge(action, story)
    edited = claimed(line, "ask")
    edited.reviewed("k")
    changed = {"args": {"path": "b.lua"}, "call_digest": "call-b", "runs_digest": "r", "evaluation": verdict("ask")}
    edited.decided(decision("k", "edit", **changed))
    edited.started("k")
    edited.finished("k")
    judge("edit", edited)
    for name, code, reason in (("absent", NO_PROGRAM, "It is not there."), ("superseded", "", "The policy changed.")):
        story = claimed(line, "ask")
        story.request_ended("superseded", "k", of=None, reason=reason, code=code)
        judge(name, story)
    unknown = claimed(line)
    unknown.started("k")
    unknown.settled("k", "unknown", reason="Nobody heard.")
    unknown.reviewed("k", reason="outcome_unknown")
    unknown.decided(decision("k", "mark_done"))
    judge("unknown", unknown)
    assert found == {
        "denied": (None, "Denied by policy: a rule says so"),
        "reject": (None, "It was not run: a person rejected it."),
        "respond": (None, "It was not run: a person answered in its place."),
        "edit": (None, "A person edited the run, so another one was made."),
        "absent": (False, "There is no such program."),
        "superseded": (None, "This call did not run: The policy changed."),
        "unknown": (None, "Nobody knows how it ended."),
    }


def test_prints_looks_at_the_run_before_it_else_at_the_last_good_run_of_the_model() -> None:
    """A change of the program makes that run old, and a run that failed has no word."""
    prints = due("prints 42")
    assert judged(Checking(), (prints,), {})[0].why == "No program was run whose output could have it."
    story = Journal()
    story.submitted(checks=("prints 42",))
    output = "Program farm.lua executed successfully.\nOutput:\n42 wheat\nWhile it ran, these files changed: 43."
    model_runs(story, "a", output)
    assert judged(story.task.checking, (prints,), {})[0].why == "It is in the output of farm.lua."
    assert judged(story.task.checking, (due("prints 43"),), {})[0].why == "It is not in the output of farm.lua."
    assert judged(story.task.checking, (Due(prints.check, "prints 42", ComputerId("9")),), {})[0].holds is False
    model_runs(story, "b", "Program farm.lua failed.", ok=False)
    assert judged(story.task.checking, (prints,), {})[0].holds is False
    model_runs(story, "c", output)
    story.proposed((call("d", "cc_write", path="farm.lua"),), "allow")
    story.started("d")
    wrote(story, "d", "farm.lua", "b" * 64)
    assert judged(story.task.checking, (prints,), {})[0].holds is False
    model_runs(story, "e", output)
    story.proposed((call("f", "cc_delete", path="lib"),), "allow")
    story.started("f", before={"lib": "c" * 64}, directories=("lib",))
    wrote(story, "f", "lib", "absent")
    assert story.task.checking.changed == (("3", "farm.lua"), ("3", "lib/"))
    assert judged(story.task.checking, (prints,), {})[0].holds is True
    places = ("lib/", "lib/a.lua", "li/", "lib")
    assert [Printed("lib/a.lua", "", PC, 1).is_old([(PC, one)]) for one in places] == [True, True, False, False]
    claimed("runs farm.lua", story=story)
    story.started("k")
    story.finished("k", text="Ran.\nOutput:\n42")
    results = judged(story.task.checking, (prints, due("runs farm.lua"), due("runs other.lua", "call-o")), {})
    assert [(one.holds, one.why) for one in results[::2]] == [
        (True, "It is in the output of farm.lua."),
        (None, "It was not made."),
    ]
    assert output_of(None) is None
    notes = "[3 bytes of the input were not read]\n[The game was paused or slow: 1 s in the game took 42 s]"
    assert output_of(f"Ran.\nOutput:\n[done]\n{notes}") == "[done]"


def test_prints_looks_at_the_nearest_run_before_it() -> None:
    """Of several; where all come behind it, at the last."""
    story = Journal()
    story.submitted(checks=("runs farm.lua", "runs other.lua", "prints 2"))
    calls = (call("k", "cc_run_program", path="farm.lua"), call("o", "cc_run_program", path="other.lua", index=1))
    story.proposed(calls, "allow", "allow", checks=("runs farm.lua", "runs other.lua"))
    for name, number in (("k", 1), ("o", 2)):
        story.started(name)
        story.finished(name, text=f"Ran.\nOutput:\n{number}")
    runs = (due("runs farm.lua"), due("runs other.lua", "call-o"))
    one, two = due("prints 1"), due("prints 2")
    for checks in ((*runs, one, two), (one, two, *runs)):
        results = {result.check: result.holds for result in judged(story.task.checking, checks, {})}
        assert (results["prints 1"], results["prints 2"]) == (False, True)
    results = {result.check: result.holds for result in judged(story.task.checking, (runs[0], one, runs[1]), {})}
    assert results["prints 1"] is True


def test_what_a_run_printed_is_not_known_where_it_was_not_run_or_was_cut() -> None:
    """Nor where its output was lost. What stands for a part that is left out is no output either."""
    checks = (due("prints 42"), due("runs farm.lua"))
    story = claimed("runs farm.lua", "ask")
    story.reviewed("k")
    story.decided(decision("k", "reject", on_reject="continue"))
    rejected = judged(story.task.checking, checks, {})[0]
    assert rejected.holds is None
    assert rejected.why == "Nobody knows what farm.lua prints. It was not run: a person rejected it."
    lost = claimed("runs farm.lua")
    lost.started("k")
    lost.settled(
        "k", "finished", ok=True, text="Done: the computer's journal says so. Its output was lost.", ran=ran("finished")
    )
    results = judged(lost.task.checking, checks, {})
    assert [one.holds for one in results] == [None, True]
    assert results[0].why == "Nobody knows what farm.lua prints. Its output was lost."
    cut = claimed("runs farm.lua")
    cut.started("k")
    cut.finished("k", text="Ran.\nOutput:\n1\n[lines 2-42 left out; print less]\n43")
    found = judged(cut.task.checking, (*checks, due("prints 43"), due("prints less")), {})
    assert [(one.holds, one.why) for one in found if one.check != "runs farm.lua"] == [
        (None, "It is not in the part of the output of farm.lua that was kept."),
        (True, "It is in the output of farm.lua."),
        (None, "It is not in the part of the output of farm.lua that was kept."),
    ]


def model_runs(story: Journal, name: str, text: str, *, ok: bool = True) -> None:
    """The model runs a program."""
    story.proposed((call(name, "cc_run_program", path="farm.lua"),), "allow")
    story.started(name)
    story.finished(name, text=text, ok=ok)


def wrote(story: Journal, name: str, path: str, sha256: str) -> None:
    """A change ends and leaves these bytes."""
    run_id = story.record(name).run_id
    assert run_id is not None
    story.add(facts.ToolFinished(call_id=CallId(name), run_id=run_id, ok=True, text="", after={path: sha256}))


def test_what_must_stay_unchanged_is_looked_at_before_the_model_is_asked() -> None:
    """By hash, then and at the claim; what one of the looks lacks is not known."""
    line = "unchanged belt.cfg"
    story = Journal()
    story.submitted(checks=(line,))
    assert next_effects(story.task) == (LookFirst(),)
    story.add(facts.ChecksBegun(found={line: "a" * 64}))
    assert next_effects(story.task) != (LookFirst(),)
    checking, one = story.task.checking, due(line)
    assert judged(checking, (one,), {line: "a" * 64})[0].holds is True
    assert judged(checking, (one,), {line: "b" * 64})[0].holds is False
    assert judged(checking, (one,), {})[0].why == "It could not be looked at now."
    assert judged(Checking(), (one,), {line: "a" * 64})[0].why == "It could not be looked at when the task began."


def test_the_model_is_told_from_the_start_what_is_checked() -> None:
    """Behind the task, before what came earlier: what it is told never changes later."""
    story = Journal()
    earlier = facts.EarlierTask(task_id=facts.TaskId("t0"), prompt="p", status="Completed", message="m")
    story.submitted(checks=("runs farm.lua", "prints wheat"), earlier=(earlier,))
    goal = view(story.task, {}, prompt=shipped()).messages[1][1]
    assert {one.why for one in story.task.checks} == {"It was not made: no success was claimed."}
    assert goal.startswith("fix my farm\n\nWhen you send a final with success true, this is checked")
    assert "has to hold:\n- runs farm.lua\n- prints wheat\n\nEarlier in this conversation" in goal


# -- the claim that waits ------------------------------------------------------------------


def test_a_claim_waits_for_its_checks_and_their_failure_is_told_as_data() -> None:
    """The step of the checks is no step of the model, and no doubt of it; a change makes old results old."""
    story = claimed("runs farm.lua")
    assert [one.why for one in story.task.checks] == ["It was begun, and not judged."]
    assert story.task.steps == 1
    story.started("k")
    story.finished("k", ok=False, text="No seeds.", code="failed", ran=ran("error"))
    (effect,) = next_effects(story.task)
    assert isinstance(effect, EvaluatePolicy)
    results = judged(story.task.checking, (due("runs farm.lua"),), {})
    story.add(facts.ChecksJudged(results=results))
    assert story.task.checking.fails
    assert story.task.checking.moved is False
    story.add(facts.ReplyRefused(reason=told_failing(results), because="unproven"))
    assert (story.task.doubted, story.task.phase, story.task.checks) == (False, Phase.THINKING, results)
    told = told_results(story.task.turns[-1], "maple")
    assert told.startswith("You say success, but these checks of the user do not hold:\n- runs farm.lua: It ended")
    assert "\nChange or run what is needed, then send the final again: all checks are then made anew. Without" in told
    assert told.endswith("TOOL_RESULT: No seeds.\n[end of data maple]")
    assert failing(results) == ("runs farm.lua",)
    assert said_failing(results) == "This check does not hold: runs farm.lua (It ended with an error)."
    assert said_failing((*results, *results)).startswith("2 of 2 checks do not hold: ")
    assert said_failing(()) == ""
    model_runs(story, "m", "x")
    moved: bool = story.task.checking.moved
    assert moved
    story.asked()
    story.replied()
    story.add(facts.ReplyRefused(reason="?", because="unproven"))
    assert (story.task.doubted, story.task.turns[-1].results) == (True, ())


def test_a_change_that_nobody_can_vouch_for_makes_old_results_old() -> None:
    """Its outcome was lost, and a person rejected to try again: it may be there all the same."""
    story = Journal()
    story.submitted(checks=("runs farm.lua", "prints 42"))
    model_runs(story, "r", "Ran.\nOutput:\n42")
    story.asked()
    story.replied()
    story.add(facts.ChecksJudged(results=(facts.CheckResult(check="runs farm.lua", holds=True, why="It ran."),)))
    story.add(facts.ReplyRefused(reason="?", because="unproven"))
    story.proposed((call("w", "cc_write", path="farm.lua"),), "allow")
    story.started("w", before={"farm.lua": "a" * 64})
    story.settled("w", "unknown", reason="Nobody heard.")
    story.reviewed("w", reason="outcome_unknown")
    story.decided(decision("w", "retry", retry_as="w2"))
    story.reviewed("w2", request_id="q2")
    story.decided(decision("w2", "reject", on_reject="continue"), of="q2")
    assert story.task.phase is Phase.THINKING
    assert story.task.checking.moved
    assert story.task.checking.printed is None
    assert story.task.checking.changed == (("3", "farm.lua"),)


def test_a_reviewer_is_shown_that_a_rejected_check_does_not_cancel_the_task() -> None:
    """What a page or a console then sends, or leaves out, is the same."""
    story = claimed("runs farm.lua", "ask")
    story.reviewed("k")
    assert story.task.on_reject == "cancel"
    assert hitl_response(story.task).on_reject == "continue"


def test_what_held_at_the_last_claim_is_not_known_to_hold_after_a_change() -> None:
    """What did not hold is told as such until it is judged again."""
    story = claimed("runs farm.lua")
    story.started("k")
    story.finished("k")
    lines = ("runs farm.lua", "file a exists")
    held = tuple(facts.CheckResult(check=line, holds=line in lines[:1], why="So.") for line in lines)
    story.add(facts.ChecksJudged(results=held))
    story.add(facts.ReplyRefused(reason="?", because="unproven"))
    assert story.task.checks == held
    model_runs(story, "m", "x")
    assert [(one.holds, one.why) for one in story.task.checks] == [
        (None, "It held when success was claimed last. Since then something was changed or run."),
        (False, "So."),
    ]


# -- approved with an earlier request --------------------------------------------------------


def shown_check(
    story: Journal,
    sha256: str = "",
    *,
    grant: bool = False,
    action: Any = "approve",
    risk: RiskLevel = RiskLevel.MEDIUM,
) -> None:
    """A person is asked about a write, with a check, and decides."""
    story.proposed((call("w", "cc_write", path="farm.lua", content="x"),), "ask")
    check = ShownCheck(
        check="runs farm.lua",
        computer=PC,
        call_digest="call-k",
        path="farm.lua",
        risk=risk,
        program="farm.lua" if sha256 else "",
        sha256=sha256,
    )
    asked = facts.RequestedCall(
        call_id=CallId("w"),
        observed=Observed(state={"farm.lua": sha256 or "absent"}),
        evaluation=verdict(),
        action_digest=digest_of("w"),
        checks=(check,),
    )
    story.add(
        facts.ReviewRequested(
            request_id=RequestId(REQUEST),
            reason="approval",
            calls=(asked,),
            risk=RiskLevel.MEDIUM,
            policy_version="v1",
        )
    )
    (view,) = hitl_response(story.task).tool_calls
    assert view.checks == ("runs farm.lua",)
    assert ("as it is now" in view.observed.note) is bool(sha256)
    more = {"grant_id": "g-1"} if grant else {}
    story.decided(decision("w", action, on_reject="continue", **more))


def covered(story: Journal, sha256: str, risk: RiskLevel = RiskLevel.MEDIUM, *, name: str = "k", **found: Any) -> bool:
    """Whether the run of the check needs no question of its own."""
    run = call(name, "cc_run_program", path="farm.lua")
    observed = Observed(state={"farm.lua": sha256}, **found)
    return story.task.checking.covering(run, observed, verdict("ask", risk)) is not None


def test_an_approved_check_runs_only_bytes_that_people_saw() -> None:
    """Those that were there, and those that an approved write made, or an approved edit on top of seen bytes."""
    there, written, edited = "a" * 64, "b" * 64, "c" * 64
    story = Journal()
    shown_check(story, there)
    assert [covered(story, one) for one in (there, written)] == [True, False]
    story.started("w")
    wrote(story, "w", "farm.lua", written)
    assert covered(story, written)
    for name, base, after in (("e", written, edited), ("f", "d" * 64, "e" * 64)):
        story.proposed((call(name, "cc_edit", path="farm.lua"),), "ask")
        story.reviewed(name, request_id=f"q-{name}")
        (note,) = (one.observed.note for one in hitl_response(story.task).tool_calls)
        assert note == "The check 'runs farm.lua', which was approved, runs what this writes."
        story.decided(decision(name), of=f"q-{name}")
        start = story.record(name)
        fact = facts.ToolStarted(
            call_id=start.call_id, run_id=start.next_run_id, action_digest="x", before={"farm.lua": base}, computer=PC
        )
        story.add(fact)
        wrote(story, name, "farm.lua", after)
    assert [covered(story, one) for one in (edited, "e" * 64)] == [True, False]
    assert not covered(story, edited, RiskLevel.HIGH)
    assert not covered(story, edited, RiskLevel.CRITICAL)
    assert not covered(story, edited, identity="another computer")
    assert not covered(story, edited, name="other-arguments")
    story.proposed((call("m", "cc_move", path="x", to="farm.lua"),), "ask")
    story.reviewed("m", request_id="q-m")
    story.decided(decision("m"), of="q-m")
    story.started("m")
    wrote(story, "m", "farm.lua", "f" * 64)
    assert not covered(story, "f" * 64)


def test_at_critical_risk_a_check_is_asked_about_each_time() -> None:
    """However it was shown."""
    story = Journal()
    shown_check(story, "a" * 64, risk=RiskLevel.CRITICAL)
    assert covered(story, "a" * 64, RiskLevel.HIGH)
    assert not covered(story, "a" * 64, RiskLevel.CRITICAL)


@pytest.mark.parametrize("how", [{"action": "reject"}, {"grant": True}])
def test_a_check_is_approved_only_by_a_person_s_yes_to_the_call_beside_it(how: dict[str, Any]) -> None:
    """Neither a rejection nor a grant is one; what the policy lets be written nobody saw."""
    story = Journal()
    shown_check(story, "a" * 64, **how)
    assert not covered(story, "a" * 64)
    allowed = Journal()
    shown_check(allowed)
    allowed.started("w")
    wrote(allowed, "w", "farm.lua", "b" * 64)
    allowed.proposed((call("p", "cc_write", path="farm.lua"),), "allow")
    allowed.started("p")
    wrote(allowed, "p", "farm.lua", "c" * 64)
    assert [covered(allowed, one) for one in ("b" * 64, "c" * 64)] == [True, False]


def test_a_run_under_an_approved_check_names_the_request_in_which_it_was_approved() -> None:
    """It is approved as by a decision, so it is bound to the digest that was found now."""
    story = Journal()
    shown_check(story, "a" * 64)
    story.started("w")
    story.finished("w")
    claimed("runs farm.lua", "ask", story)
    story.noted("check_approved", "k", of=REQUEST)
    record = story.record("k")
    assert (record.state, record.request_id, record.action_digest) == ("approved", REQUEST, digest_of("k"))
    assert record.approved_by == ""


def under_check(story: Journal, sha256: str, risk: RiskLevel = RiskLevel.MEDIUM, of: str = REQUEST) -> list[str]:
    """What the audit has against a run of the check with these bytes under its approval."""
    again = Journal()
    again.items, again.task = list(story.items), story.task
    claimed("runs farm.lua", "ask", again)
    shown = facts.RequestedCall(
        call_id=CallId("k"),
        observed=Observed(state={"farm.lua": sha256}),
        evaluation=verdict("ask", risk),
        action_digest=digest_of("k"),
    )
    again.add(facts.ReviewNoted(what="check_approved", request_id=RequestId(of), calls=(shown,)))
    assert "check_approved" in [one.how for told in who_approved(again.items) for one in told.approvals]
    return [one.detail.partition(", and ")[2] for one in check(again.items) if one.what == "grant_misused"]


def test_A6_the_audit_finds_a_check_that_ran_what_nobody_saw() -> None:
    """It counts by itself what was approved and which bytes people saw."""
    there, written = "a" * 64, "b" * 64
    story = Journal()
    shown_check(story, there)
    story.started("w")
    wrote(story, "w", "farm.lua", written)
    story.proposed((call("e", "cc_edit", path="farm.lua"),), "ask")
    story.reviewed("e", request_id="q-e")
    story.decided(decision("e"), of="q-e")
    story.started("e")
    wrote(story, "e", "farm.lua", "c" * 64)
    assert [under_check(story, one) for one in (there, written)] == [[], []]
    unseen = ["nobody has seen the program that it runs."]
    assert under_check(story, "c" * 64) == unseen
    assert under_check(story, "d" * 64) == unseen
    higher = ["it was approved as a check of another computer or of a lower risk."]
    assert under_check(story, there, RiskLevel.HIGH) == higher
    assert under_check(story, there, of="q-e") == ["nobody approved it as a check."]
    absent = Journal()
    shown_check(absent)
    absent.started("w")
    absent.finished("w")
    assert under_check(absent, there) == unseen
