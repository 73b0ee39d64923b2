"""What the journal shows of a success."""

from typing import Any

from orchestrator.core import facts
from orchestrator.core.evidence import NOTHING, Evidence, doubt
from orchestrator.core.response import FinalResult
from tests.core.journal import Journal, call, decision

WORK, QUESTION = "Mend the quarry.", "Why does the quarry crash at startup?"


class Steps(Journal):
    """A task whose steps are one call each."""

    def __init__(self) -> None:
        super().__init__()
        self.submitted()

    def step(self, tool: str, *, ok: bool = True, text: str = "so", **args: Any) -> Evidence:
        """One call that ran; the evidence after it."""
        name = f"c{len(self.items)}"
        self.proposed([call(name, tool, **args)], "allow")
        self.started(name)
        self.finished(name, ok=ok, text=text)
        return self.task.evidence

    def denied(self, tool: str) -> Evidence:
        """One call that the policy denied."""
        self.proposed([call(f"c{len(self.items)}", tool)], "deny")
        return self.task.evidence


def lacks(
    evidence: Evidence, prompt: str = WORK, *, read_only: bool = False, message: str = "Line 3 opens nil.", **more: Any
) -> str:
    final = FinalResult(**{"explanation": "", "success": True, "message": message, **more})
    return doubt(evidence, final, prompt=prompt, read_only=read_only) or ""


def test_nothing_done_is_no_success_of_anything() -> None:
    """Neither of work nor of a question; each says what is missing and what else may be said."""
    assert lacks(NOTHING).startswith(
        "You say success, but nothing was changed or run. Do what the task asks for first."
    )
    assert "you have looked at nothing" in lacks(NOTHING, QUESTION)
    assert "you have looked at nothing" in lacks(NOTHING, WORK, read_only=True)
    for prompt in (WORK, QUESTION):
        assert lacks(NOTHING, prompt).endswith("send a final with success false that says why.")


def test_work_needs_a_change_or_run_that_succeeded_and_none_that_failed_after_it() -> None:
    """Looking is not enough, and a failure takes the evidence back until something is done again."""
    steps = Steps()
    assert "nothing was changed or run" in lacks(steps.step("cc_read", path="a"))
    assert lacks(steps.step("cc_write", path="a")) == ""
    failed = steps.step("cc_run_program", ok=False, text="a.lua:3: attempt to index nil\nstack")
    assert "the last change or run failed: cc_run_program: a.lua:3: attempt to index nil. If" in lacks(failed)
    assert lacks(steps.step("cc_read", path="a")) == lacks(failed)
    assert lacks(steps.step("cc_run_program")) == ""
    assert "the last change or run failed: cc_delete: Denied by policy" in lacks(steps.denied("cc_delete"))


def test_a_question_needs_a_look() -> None:
    """Of a file, a list or the user's answer; a word to the user is none."""
    for tool, enough in (("cc_read", True), ("cc_list", True), ("send_status", False), ("cc_run_program", True)):
        assert (lacks(Steps().step(tool), QUESTION) == "") is enough, tool


def test_the_answer_to_a_question_claims_no_change_that_never_was() -> None:
    """In the message or the explanation; where something was changed it may be told."""
    looked = Steps().step("cc_list", path="/")
    for claim in ({"message": "Fixed."}, {"explanation": "I have rewritten it."}):
        assert "you changed something, but nothing was changed" in lacks(looked, QUESTION, read_only=False, **claim)
        assert lacks(looked, WORK, read_only=True, **claim) != ""
        assert lacks(Steps().step("cc_write", path="a"), QUESTION, read_only=False, **claim) == ""


def test_the_answer_to_a_question_says_something() -> None:
    """In the message, the explanation or the details; of work the result is in the world."""
    looked = Steps().step("cc_list", path="/")
    assert "your message has no answer in it" in lacks(looked, QUESTION, message="Done.")
    assert lacks(looked, QUESTION, message="Done.", explanation="It opens nil.") == ""
    assert lacks(looked, QUESTION, message="Done.", details={"line": 3}) == ""
    assert lacks(Steps().step("cc_write", path="a"), message="Done.") == ""


def test_a_look_that_failed_is_no_success_until_something_makes_up_for_it() -> None:
    """Another look at contents or a change does; a list does not, and neither does an earlier success."""
    for prompt in (WORK, QUESTION):
        steps = Steps()
        steps.step("cc_write", path="a")
        gap = steps.step("cc_read", ok=False, text="There is no file quarry.lua.")
        assert "this failed and nothing made up for it: cc_read: There is no file quarry.lua." in lacks(gap, prompt)
        assert lacks(steps.step("cc_list", path="/"), prompt) != ""
        assert lacks(steps.step("cc_read", path="b"), prompt) == ""
        steps.step("cc_find", ok=False)
        assert lacks(steps.step("cc_edit", path="a"), prompt) == ""


def test_a_file_that_the_task_names_has_to_be_seen_or_changed() -> None:
    """Contents of another file, a list or a search without matches make up for nothing there."""
    asked = "What is wrong with nope.lua?"
    steps = Steps()
    steps.step("cc_read", ok=False, path="nope.lua", text="There is no nope.lua.")
    for tool, text in (("cc_info", "so"), ("cc_find", "[0 matches]")):
        assert "There is no nope.lua" in lacks(steps.step(tool, text=text), asked), tool
    assert "nope.lua could not be read" in lacks(steps.step("cc_read", path="yes.lua"), asked)
    assert lacks(steps.task.evidence, "What is wrong?") == ""
    assert lacks(steps.step("cc_read", path="nope.lua"), asked) == ""
    work = "Fix farm.lua, please"
    changed = Steps()
    assert "farm.lua was not changed" in lacks(changed.step("cc_mkdir", path="x"), work)
    assert lacks(changed.step("cc_edit", path="/lib/farm.lua"), work) == ""
    assert lacks(Steps().step("cc_shell", command="rename farm.lua old.lua"), "rename farm.lua to old.lua") == ""


def test_a_program_that_only_lists_is_a_look() -> None:
    assert "nothing was changed or run" in lacks(Steps().step("cc_shell", command="ls lib"))
    assert lacks(Steps().step("cc_shell", command="/rom/programs/list.lua"), QUESTION) == ""
    assert lacks(Steps().step("cc_shell", command="lsx")) == ""


def test_what_failed_in_a_reply_is_not_made_up_for_beside_it() -> None:
    """Another change of the same reply does not, the same file written after all does."""
    steps = Steps()
    calls = [call("w", "cc_write", path="q.lua"), call("d", "cc_delete", index=1, path="hello.lua")]
    steps.proposed(calls, "allow", "allow")
    for name, ok in (("w", False), ("d", True)):
        steps.started(name)
        steps.finished(name, ok=ok, text="It does not parse.")
    assert "the last change or run failed: cc_write: It does not parse." in lacks(steps.task.evidence)
    again = [call("w2", "cc_write", path="q.lua"), call("w3", "cc_write", index=1, path="q.lua")]
    steps.proposed(again, "allow", "allow")
    for name, ok in (("w2", False), ("w3", True)):
        steps.started(name)
        steps.finished(name, ok=ok)
    assert lacks(steps.task.evidence) == ""


def test_work_that_may_only_look_does_not_succeed_by_what_was_denied() -> None:
    steps = Steps()
    steps.denied("cc_delete")
    steps.step("cc_list", path="/")
    assert "you may only look, and a change was denied" in lacks(steps.task.evidence, WORK, read_only=True)
    assert lacks(steps.task.evidence, QUESTION, read_only=True) == ""


def test_a_tool_that_does_not_exist_is_neither() -> None:
    """It would have changed nothing: what was done before it stays what was done."""
    steps = Steps()
    assert steps.denied("cc_format") == NOTHING
    done = steps.step("cc_write", path="a")
    assert steps.denied("cc_format") == done


def test_the_same_call_twice_in_a_reply_is_no_failure_where_the_first_worked() -> None:
    """The second is denied because the first counts; denied after one that failed, the failure stands."""
    for ok in (True, False):
        steps = Steps()
        first, twin = call("w"), call("v", index=1).model_copy(update={"call_digest": "call-w"})
        steps.proposed([first, twin], "allow", "deny")
        steps.started("w")
        steps.finished("w", ok=ok, text="so")
        assert (lacks(steps.task.evidence) == "") is ok


def test_what_a_person_gave_instead_of_a_result_changed_nothing() -> None:
    steps = Steps()
    steps.proposed([call("w")], "ask")
    steps.reviewed("w")
    steps.decided(decision("w", "respond", answer="I did it myself."))
    assert steps.task.evidence == NOTHING


def test_a_refused_success_is_remembered_and_counts_as_no_unreadable_reply() -> None:
    """Only once is a success refused for want of evidence; what could be read breaks a row of what could not."""
    steps = Steps()
    for because in ("unreadable", "unproven"):
        steps.asked()
        steps.replied()
        steps.add(facts.ReplyRefused(reason="No.", because=because))
    assert (steps.task.refusals, steps.task.doubted) == (0, True)
    assert [turn.unproven for turn in steps.task.turns] == [False, True]
