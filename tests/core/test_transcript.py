"""The log of a task, line by line as people read it."""

from datetime import timedelta
from typing import Any, get_args

import pytest

from orchestrator.core.task import facts
from orchestrator.core.task.facts import CANNOT_BE_KNOWN, CallId, TaskId
from orchestrator.core.task.items import decode_item, encode_item
from orchestrator.core.task.limits import failed
from orchestrator.core.task.system_facts import SystemFact
from orchestrator.core.task.transcript import Transcript
from tests.core.golden_items import EXAMPLES
from tests.core.journal import Journal, call, decision


def lines(story: Journal) -> list[str]:
    """The whole log, from items as they come back from a store."""
    transcript = Transcript()
    return [line for item in story.items for line in transcript.lines(decode_item(encode_item(item)))]


def test_the_log_of_the_main_job() -> None:
    """The seeds' lines, word for word: step, explanation, tool with its arguments, result, final."""
    story = Journal()
    story.submitted()
    story.proposed([call("c1", path="hello.lua", content="print('hi')")], "ask", explanation="I write it.")
    story.reviewed("c1")
    story.decided(decision("c1"))
    story.started("c1")
    story.finished("c1", text="Wrote 11 bytes to hello.lua")
    story.proposed([call("c2", "cc_run_program", path="hello.lua", args=["a"])], "allow", explanation="")
    story.started("c2")
    story.finished("c2", text="Program hello.lua executed successfully.\nOutput:\nhi")
    story.asked()
    story.replied()
    story.ended("Completed", "final", message="It runs.", explanation="I saw it.")
    assert lines(story) == [
        "[STEP 1]",
        "[EXPLANATION] I write it.",
        "[TOOL] cc_write({'path': 'hello.lua', 'content': \"print('hi')\"}) on 3",
        "[REVIEW] cc_write waits for approval (risk: medium).",
        "[DECISION] alice: approve cc_write",
        "[TOOL_RESULT] Wrote 11 bytes to hello.lua",
        "[STEP 2]",
        "[TOOL] cc_run_program({'path': 'hello.lua', 'args': ['a']}) on 3",
        "[TOOL_RESULT] Program hello.lua executed successfully.\nOutput:\nhi",
        "[STEP 3]",
        "[EXPLANATION] I saw it.",
        "[FINAL] Success=True, Message=It runs.",
    ]


def test_a_long_text_is_cut_in_the_line_of_its_call() -> None:
    """A file stands in its diff; the line has its beginning and its size."""
    story = Journal()
    story.proposed([call("c1", path="a", content="x" * 12_345)], "allow", explanation="")
    assert lines(story)[-1] == f"[TOOL] cc_write({{'path': 'a', 'content': '{'x' * 80}… (12,345 characters)'}}) on 3"


def test_a_call_names_its_computer() -> None:
    """Not a call that works on no computer."""
    story = Journal()
    story.submitted(computers=("3", "4"))
    story.proposed(
        [call("c1", "cc_read", path="a", computer="4"), call("c2", "local_read", index=1, computer=None)],
        "allow",
        "allow",
    )
    assert lines(story)[-2:] == ["[TOOL] cc_read({'path': 'a'}) on 4", "[TOOL] local_read({})"]


@pytest.mark.parametrize(
    ("tool", "args", "shown"),
    [
        ("cc_write", {"content": "x", "path": "p"}, "{'path': 'p', 'content': 'x'}"),
        ("cc_run_program", {"args": ["a"], "path": "p"}, "{'path': 'p', 'args': ['a']}"),
        ("local_patch", {"patch": "x", "path": "p"}, "{'path': 'p', 'patch': 'x'}"),
        ("cc_read", {"zebra": 1, "path": "p", "ant": 2}, "{'path': 'p', 'ant': 2, 'zebra': 1}"),
        ("tool_of_tomorrow", {"b": 1, "a": 2}, "{'a': 2, 'b': 1}"),
        ("send_status", {}, "{}"),
    ],
)
def test_arguments_are_shown_in_the_order_of_the_tool(tool: str, args: dict[str, Any], shown: str) -> None:
    """As the tool declares them, though the journal sorts keys; what it does not declare comes after."""
    story = Journal()
    story.proposed([call("c1", tool, **args)], "allow", explanation="")
    assert lines(story)[-1] == f"[TOOL] {tool}({shown}) on 3"


def test_what_goes_wrong_is_in_the_log() -> None:
    """Denials, refused replies, ends without a decision, settled calls, limits and a failed end."""
    story = Journal()
    story.submitted()
    story.asked()
    story.replied()
    story.add(facts.ReplyRefused(reason="Your reply was empty."))
    story.proposed([call("c1"), call("c2", "cc_shell", index=1)], "ask", "deny", explanation="")
    story.reviewed("c1")
    story.request_ended("stale", "c1", reason="The file changed.")
    story.reviewed("c1", request_id="q2")
    story.decided(decision("c1"), of="q2")
    story.started("c1")
    story.settled("c1", "void", reason="It never ran.")
    story.started("c1")
    story.settled("c1", "finished", ok=True, text="Done.")
    story.add(facts.WorkFrozen(by="rita", of="*", reason="lunch"))
    story.add(facts.LimitReached(limit="max_steps", detail="The limit of 20 steps was reached."))
    story.ended("Failed", "max_steps", message="The limit of 20 steps was reached.")
    assert lines(story) == [
        "[STEP 1]",
        "[REFUSED] The model was told: Your reply was empty.",
        "[STEP 2]",
        "[TOOL] cc_write({}) on 3",
        "[TOOL] cc_shell({}) on 3",
        "[TOOL_RESULT] Denied by policy: a rule says so",
        "[REVIEW] cc_write waits for approval (risk: medium).",
        "[REVIEW] stale: The file changed.",
        "[REVIEW] cc_write waits for approval (risk: medium).",
        "[DECISION] alice: approve cc_write",
        "[SETTLED] cc_write: void. It never ran.",
        "[TOOL_RESULT] Done.",
        "[FROZEN] by rita: lunch",
        "[LIMIT] The limit of 20 steps was reached.",
        "[FINAL] Success=False, Message=The limit of 20 steps was reached.",
    ]


def test_E3_an_unknown_outcome_is_told_as_unknown() -> None:
    """Nobody knows, a person has to look; a retried call keeps its tool's name under its new id."""
    story = Journal()
    story.proposed([call("c1"), call("c2", "cc_shell", index=1)], "allow", "allow", explanation="")
    story.started("c1")
    story.settled("c1", "unknown", reason="It rebooted.")
    story.reviewed("c1", reason="outcome_unknown")
    story.decided(decision("c1", "retry", retry_as=CallId("c9")), by="bob")
    story.reviewed("c9", request_id="q2")
    story.decided(decision("c9", "reject", on_reject="continue"), of="q2")
    assert lines(story)[3:] == [
        "[SETTLED] cc_write: unknown. It rebooted.",
        "[REVIEW] The outcome of cc_write is unknown; a person has to look.",
        "[DECISION] bob: retry cc_write",
        "[REVIEW] cc_write waits for approval (risk: medium).",
        "[DECISION] alice: reject cc_write",
    ]


def test_questions_and_status() -> None:
    """What the model asks and tells, and what a person answers."""
    story = Journal()
    story.proposed([call("c1", "ask_user"), call("c2", "send_status", index=1)], "allow", "allow", explanation="")
    story.question("c1")
    story.add(facts.StatusSent(call_id=CallId("c2"), message="Half done."))
    story.answered()
    assert lines(story)[3:] == ["[QUESTION] Which farm?", "[STATUS] Half done.", "[ANSWER] the wheat"]


def test_a_wait_for_the_model_server_is_told_once_until_the_model_replies() -> None:
    """A server that comes and goes fills no log; another one, and one after a reply, is told again."""
    story = Journal()
    story.submitted()
    story.asked()
    gone = facts.ModelAwaited(server="http://a", why="It is off. Start it.", until=None)
    for fact in (gone, gone.model_copy(update={"server": "http://b"})):
        story.add(fact)
        story.asked()
        story.add(fact)
        story.asked()
    story.replied()
    story.add(facts.ReplyRefused(reason="empty"))
    story.asked()
    story.add(gone.model_copy(update={"server": "http://b"}))
    assert [one for one in lines(story) if one.startswith("[WAITING]")] == [
        "[WAITING] Waiting for the model server at http://a, until it is back. It is off. Start it.",
        "[WAITING] Waiting for the model server at http://b, until it is back. It is off. Start it.",
        "[WAITING] Waiting for the model server at http://b, until it is back. It is off. Start it.",
    ]
    until = story.sealed(gone).at + timedelta(seconds=120)
    assert Transcript().lines(story.sealed(gone.model_copy(update={"until": until}))) == [
        "[WAITING] Waiting for the model server at http://a, for 120 s at most. It is off. Start it."
    ]


def test_after_two_checks_it_is_said_that_it_cannot_be_known_and_what_can_be_done() -> None:
    story = Journal()
    story.proposed([call("c1")], "allow", explanation="")
    story.started("c1")
    story.settled("c1", "unknown", reason="It rebooted.")
    story.reviewed("c1", reason="outcome_unknown")
    asked = story.items[-1].fact
    assert isinstance(asked, facts.ReviewRequested)
    (shown,) = asked.calls
    found = shown.observed.model_copy(update={"note": f"It rebooted. {CANNOT_BE_KNOWN}"})
    again = asked.model_copy(update={"calls": (shown.model_copy(update={"observed": found}),)})
    (line,) = Transcript().lines(story.sealed(again))
    assert line.startswith("[REVIEW] c1: It cannot be known whether this was done")
    assert line.endswith("mark it done, mark it failed, or retry it.")


def test_what_fails_is_told_with_its_reason_and_an_answer_that_is_missed_only_now_and_then() -> None:
    """Each failure; of a computer that does not answer the fourth, with which the pauses begin, and each tenth."""

    def told(because: Any) -> list[str]:
        story = Journal()
        story.submitted()
        for _ in range(20):
            story.add(failed(story.task, "The disk is full.", because))
        return lines(story)

    assert told("failed")[:2] == [f"[WAITING] Tried {count} of 5 times: The disk is full." for count in (1, 2)]
    assert told("unanswered") == [
        f"[WAITING] Waiting for a computer that does not answer, tried {count} of 25 times: The disk is full."
        for count in (4, 10, 20)
    ]


def test_what_says_nothing_new_has_no_line() -> None:
    """Submission, requests to the model, starts, cancels and pins add no line, and what is of no task; effects do."""
    silent = {"task_submitted", "model_asked", "tool_started", "cancel_requested", "task_pinned", "task_unpinned"}
    silent |= {"checks_begun", *(kind.model_fields["kind"].default for kind in get_args(SystemFact))}
    story = Journal()
    for _, fact in EXAMPLES:
        shown = Transcript().lines(story.sealed(fact))
        assert (shown == []) == (fact.kind in silent), fact.kind
    closed = facts.RequestEnded(request_id=None, end="canceled", call_ids=(), reason="enough")
    assert Transcript().lines(story.sealed(closed)) == []


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("notified", None),
        ("viewed", None),
        ("reminded", "[REVIEW] It still waits for a person, and will expire soon."),
        ("extended", "[REVIEW] There is more time for it now."),
        ("renewed", "[REVIEW] It is asked again."),
    ],
)
def test_of_the_notes_around_a_request_those_are_told_that_matter(what: Any, line: str | None) -> None:
    """That somebody was told or looked is for the audit; that time runs out, or something is approved, is for all."""
    noted = Journal().sealed(facts.ReviewNoted(what=what))
    assert Transcript().lines(noted) == ([] if line is None else [line])


def test_an_edit_shows_what_runs_and_an_answer_what_was_said() -> None:
    """The arguments that a person put in place of the model's, and the text in place of a result."""
    story = Journal()
    story.proposed([call("c1", path="a"), call("c2", path="b", index=1)], "ask", "ask")
    story.reviewed("c1", "c2")
    edited = decision("c1", "edit", args={"path": "a", "content": "x"}, call_digest="d", runs_digest="r")
    story.decided(edited, decision("c2", "respond", answer="It is there."))
    transcript = Transcript()
    said = [line for item in story.items for line in transcript.lines(item)]
    assert said[-3:] == [
        "[DECISION] alice: edit cc_write, respond cc_write",
        "[TOOL] cc_write({'path': 'a', 'content': 'x'}) on 3",
        "[TOOL_RESULT] alice answered in its place: It is there.",
    ]


def test_a_call_that_nobody_decided_says_what_becomes_of_it() -> None:
    """It waits for somebody to ask again, is shown again, or did not run, by how the request ended."""
    ended = {"request_id": None, "call_ids": (), "reason": "So it is."}
    said = [
        Transcript().lines(Journal().sealed(facts.RequestEnded.model_validate({**ended, **how})))
        for how in (
            {"end": "expired", "then": "stay_paused"},
            {"end": "expired", "then": "continue"},
            {"end": "expired", "code": "approval_expired"},
            {"end": "canceled", "code": "withdrawn"},
        )
    ]
    assert said == [
        ["[REVIEW] So it is. The task waits until somebody asks again."],
        ["[TOOL_RESULT] This call did not run: So it is."],
        ["[REVIEW] expired: So it is."],
        ["[TOOL_RESULT] This call did not run: So it is."],
    ]


def test_a_transcript_can_go_on_in_the_middle() -> None:
    """Resumed after a step with its calls, the lines are those of one that saw everything."""
    story = Journal()
    story.proposed([call("c1"), call("c2", "cc_shell", index=1)], "ask", "ask", explanation="")
    resumed = Transcript()
    resumed.resume(story.task.steps, [record.call for record in story.task.calls])
    seen = len(lines(story))
    before = len(story.items)
    story.reviewed("c1", "c2")
    story.decided(decision("c1", "reject", on_reject="continue"), decision("c2", "reject", on_reject="continue"))
    story.asked()
    story.replied()
    assert [line for item in story.items[before:] for line in resumed.lines(item)] == lines(story)[seen:]
    assert lines(story)[seen:] == [
        "[REVIEW] cc_write, cc_shell waits for approval (risk: medium).",
        "[DECISION] alice: reject cc_write, reject cc_shell",
        "[STEP 2]",
    ]


def test_a_call_that_was_never_shown_goes_by_its_id() -> None:
    """A log that starts in the middle of a step still names what it can."""
    story = Journal()
    story.proposed([call("c1")], "ask")
    story.reviewed("c1")
    story.decided(decision("c1"))
    late = Transcript()
    assert late.lines(story.items[-2]) == ["[REVIEW] c1 waits for approval (risk: medium)."]
    assert late.lines(story.items[-1]) == ["[DECISION] alice: approve c1"]


def test_a_success_that_nothing_bears_out_reads_unverified() -> None:
    """The log never says Success=True of a claim that the journal does not support."""
    story = Journal()
    story.submitted()
    story.add(facts.TaskEnded(status="Completed", status_reason="unverified", message="Done!", verified=False))
    assert lines(story) == ["[FINAL] Success=Unverified, Message=Done!"]


def test_a_call_that_may_not_run_any_more_reads_as_its_result() -> None:
    """Superseded or expired is what became of the call; stale is a new question for the reviewer."""
    story = Journal()
    story.submitted()
    story.proposed([call("c1", path="a", content="x"), call("c2", path="b", content="y")], "ask", "ask")
    story.reviewed("c1", "c2")
    open_request = story.task.request
    assert open_request is not None
    for call_id, end in (("c1", "superseded"), ("c2", "stale")):
        request_id, ids = open_request.request_id, (CallId(call_id),)
        fact: Any = facts.RequestEnded(request_id=request_id, end=end, call_ids=ids, reason=f"because of {end}")  # type: ignore[arg-type]
        story.add(fact)
    assert lines(story)[-2:] == [
        "[TOOL_RESULT] This call did not run: because of superseded",
        "[REVIEW] stale: because of stale",
    ]


def test_what_became_of_a_task_that_the_log_only_begins() -> None:
    """An undo, and what carries a rehearsal out: as it began, and how it stands by now where that is told."""
    story = Journal()
    story.submitted()
    story.ended("Failed", "final")
    story.add(facts.UndoSubmitted(undo_task_id=TaskId("t-u")))
    message = "It changed 1 place in the copy. t-a asks for all of it."
    story.add(facts.RehearsalEnded(after="a" * 64, changed=1, applied_by=TaskId("t-a"), message=message))
    assert lines(story)[-2:] == ["[UNDO] Task t-u was begun to put back what it changed.", f"[REHEARSAL] {message}"]
    transcript = Transcript({"t-u": "taken back by t-u (Completed)", "t-a": "applied by t-a (Completed)"})
    assert [line for item in story.items for line in transcript.lines(item)][-2:] == [
        "[UNDO] Task t-u was begun to put back what it changed; by now taken back by t-u (Completed).",
        f"[REHEARSAL] {message.rstrip('.')}; by now applied by t-a (Completed).",
    ]
