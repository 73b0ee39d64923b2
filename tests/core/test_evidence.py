"""What the journal shows of a success, and what a task asks for."""

from typing import Any

import pytest

from orchestrator.core import facts
from orchestrator.core.evidence import NOTHING, Evidence, asks_only, doubt
from tests.core.journal import Journal, call, decision

WORK, QUESTION = "Mend quarry.lua.", "Why does the quarry crash at startup?"


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


def lacks(evidence: Evidence, prompt: str = WORK, *, read_only: bool = False) -> str:
    return doubt(evidence, prompt=prompt, read_only=read_only) or ""


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


@pytest.mark.parametrize(
    "prompt",
    [
        QUESTION,
        "What is in startup.lua?",
        "which program runs at startup",
        "List the files on this computer.",
        "Can you tell me how to craft a turtle?",
        "Explain what farm.lua does. Do not change anything.",
        "Show me the first lines of a.lua",
        "How much fuel is left?",
        "Is the door program all right? Tell me what you think.",
        "Please check whether farm.lua has errors",
        "How do I write a file?",
        "Warum st\xfcrzt mein Programm ab?",
        "Pourquoi la ferme s'arr\xeate-t-elle ?",
        "Ist alles gut?",
        "Coal left?",
        "Why did the build fail",
        "List the programs that run at startup",
        "Show me what is in the files which write to the monitor",
    ],
)
def test_a_question_asks_only(prompt: str) -> None:
    assert asks_only(prompt)


@pytest.mark.parametrize(
    "prompt",
    [
        WORK,
        "Why does it crash? Fix it.",
        "Can you fix my farm program?",
        "Write hello.lua and run it",
        "Read farm.lua and mend it, then run it",
        "Make a door that opens with a password",
        "Is there a file a.lua? If not, create it.",
        "farm",
        "Schreib mir ein Programm, das gr\xfc\xdft.",
        "hello",
        "",
        "List all files and write them to out.txt",
        "Show the time on the monitor",
        "look at farm.lua\nthen repair it",
    ],
)
def test_everything_else_is_work(prompt: str) -> None:
    assert not asks_only(prompt)


def test_a_refused_success_is_remembered_and_counts_as_no_unreadable_reply() -> None:
    """Only once is a success refused for want of evidence; what could be read breaks a row of what could not."""
    steps = Steps()
    for because in ("unreadable", "unproven"):
        steps.asked()
        steps.replied()
        steps.add(facts.ReplyRefused(reason="No.", because=because))
    assert (steps.task.refusals, steps.task.doubted) == (0, True)
    assert [turn.unproven for turn in steps.task.turns] == [False, True]
