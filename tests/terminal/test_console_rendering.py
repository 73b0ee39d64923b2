"""How a request is drawn: no text gets past as anything but text, nothing is hidden, and no fault hides a request."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.approval.approval import CallState, CommentView, HitlResponse, SiblingView, TeamView
from orchestrator.core.task.facts import Observed
from orchestrator.core.text.visible import visible
from orchestrator.terminal.console import Console
from orchestrator.terminal.review.request_view import Line, changes, describe, details, on_screen, page, time_left
from tests.harness.asked import NOW, console, request, shown

HOSTILE = st.text(
    st.one_of(
        st.sampled_from(
            "\x1b\x9b\x07\r\n\t\b\x00\x7f\u202e\u2066\u200b\u2028\u0085\ufeff\u0301\U000e0041[]2JmHK+-@ │─\\u{}"
        ),
        st.characters(),
    ),
    max_size=60,
)
VALUES = st.sampled_from(["", "1", "x", "x\n", "x\ny", "\n", 1, 1.5, None, True, [], ["x"], "[]", "null", '"x"'])
ANSI = re.compile(r"\x1b\[[0-9;]*m")


@st.composite
def hostile_requests(draw: st.DrawFn) -> HitlResponse:
    """Requests in which every text is whatever the world likes."""

    def text() -> str:
        return draw(HOSTILE)

    args: dict[str, Any] = {"path": text(), "content": text(), "list": [text(), {text(): text()}], text(): text()}
    observed = Observed(
        state={text(): draw(st.sampled_from(["absent", "a" * 64]))},
        diff=draw(st.one_of(st.none(), HOSTILE)),
        program=text(),
        source=draw(st.one_of(st.none(), HOSTILE)),
        note=text(),
    )
    call = shown(
        draw(st.sampled_from(["cc_write", "cc_run_program", "other"])),
        args,
        observed,
        reason=text(),
        computer=text(),
        grant_paths=(),
        original_args=draw(st.one_of(st.none(), st.just({"content": text()}))),
    )
    sibling = SiblingView(tool=text(), args={"x": text()}, computer=text(), state=CallState.EXECUTED, result=text())
    return request(call, goal=text(), explanation=text(), requester=text(), context=(sibling,))


@given(hostile_requests(), st.one_of(st.none(), st.integers(1, 120)))
def test_nothing_reaches_the_terminal_but_text_and_our_colors(hostile: HitlResponse, columns: int | None) -> None:
    """Each line is one line, and without our own colors there is no control character in it at all (V2)."""
    for color in (False, True):
        said: list[str] = []
        person = Console(say=said.append, color=color, columns=columns, now=lambda: NOW)
        person.show(hostile)
        person.write(details(hostile, hostile.tool_calls))
        for line in said:
            plain = ANSI.sub("", line) if color else line
            assert "\n" not in plain
            assert visible(plain) == plain, repr(plain)


@given(hostile_requests())
def test_nothing_that_runs_is_hidden(hostile: HitlResponse) -> None:
    """Every argument, and every line of a diff and a source, stands on the page, escaped (V1)."""
    lines = describe(hostile)
    text = "\n".join(lines)
    assert not any("could not be drawn" in line for line in lines)
    (call,) = hostile.tool_calls
    for whole in (call.observed.diff, call.observed.source, call.args["path"]):
        for line in visible(whole or "").splitlines():
            assert line in text
    if not call.observed.diff:
        assert all(line in text for line in visible(call.args["content"]).splitlines())


@given(HOSTILE, st.integers(1, 100))
def test_wrapping_loses_nothing(text: str, columns: int) -> None:
    """The parts of a wrapped line, without the blanks that set them in, are the line."""
    safe = visible(f"  said: {text}").replace("\n", "\\n")
    parts = on_screen(Line(f"  said: {text}", prose=True), color=False, columns=columns)
    whole = parts[0] + "".join(part[6:] for part in parts[1:])
    assert whole == safe
    assert all(part.startswith("      ") for part in parts[1:])


def test_prose_is_wrapped_and_what_runs_is_not() -> None:
    """On eighty columns the goal is broken at blanks; a long line of a diff stays one line."""
    said: list[str] = []
    long = "+" + "word " * 40
    asked = request(shown(observed=Observed(state={}, diff=long)), goal="word " * 40)
    Console(say=said.append, columns=80, now=lambda: NOW).show(asked)
    assert f"  │ {long}" in said
    goal = said[1 : said.index("  written by the model: I mend the loop.")]
    assert len(goal) == 3
    assert all(len(line) <= 81 for line in goal)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"expires_at": NOW + timedelta(seconds=3599)}, "  expires in 59 min; then the task waits"),
        (
            {"expires_at": NOW + timedelta(hours=5), "on_timeout": "continue"},
            "  expires in 5 h; then the task goes on without it",
        ),
        (
            {"expires_at": NOW + timedelta(days=3), "on_timeout": "cancel"},
            "  expires in 3 d; then the task is canceled",
        ),
        ({"expires_at": NOW - timedelta(seconds=1)}, "  has expired; then the task waits"),
        ({"redacted": True}, "  secrets stand here as [redacted …]: what runs has them"),
    ],
)
def test_the_head_says_until_when_and_what_is_hidden(changes: dict[str, Any], line: str) -> None:
    """The deadline with what follows it, and that secrets were taken out."""
    assert line in describe(request(**changes), now=NOW)


def test_without_a_deadline_none_is_told() -> None:
    """A request that waits for ever says nothing of time or of secrets."""
    text = "\n".join(describe(request(), now=NOW))
    assert "expires" not in text
    assert "secrets" not in text


def test_what_ran_before_is_context() -> None:
    """The other calls of the step stand there with their results, shortened (S4)."""
    done = SiblingView(
        tool="cc_read", args={"path": "a"}, computer="3", state=CallState.EXECUTED, result="x" * 500 + "\nend"
    )
    held = SiblingView(tool="cc_list", args={"path": "/"}, computer=None, state=CallState.PROPOSED, result=None)
    lines = describe(request(context=(done, held)))
    at = lines.index("  also in this step, not asked about:")
    assert lines[at + 1] == '  │ cc_read on computer 3 {"path": "a"}'
    assert lines[at + 2] == f"  │   executed: {'x' * 200} [… 304 characters more]"
    assert lines[at + 3 : at + 5] == ['  │ cc_list on this host {"path": "/"}', "  │   proposed"]


def test_what_no_model_wrote_is_not_said_to_be_a_models() -> None:
    """What the orchestrator planned says so itself, as a request of an undo has it."""
    said = "Planned by the orchestrator for alice: Files go back to how they were: 1 put back."
    lines = describe(request(explanation=said, informational=("goal", "context")))
    assert f"  {said}" in lines
    assert not [line for line in lines if "written by" in line]


def test_what_a_person_edited_before_is_shown_as_a_change() -> None:
    """Beside what will run stands what the model had asked for (D19)."""
    lines = describe(request(shown(edited_by="ann", original_args={"path": "/farm.lua", "content": "mine\n"})))
    at = lines.index("  edited by ann; these are the changes of the model's call:")
    assert "  │ -mine" in lines[at:]
    assert "  │ +new" in lines[at:]


@given(st.dictionaries(st.sampled_from("ab"), VALUES), st.dictionaries(st.sampled_from("ab"), VALUES))
def test_whatever_differs_is_shown_as_a_change(before: dict[str, Any], after: dict[str, Any]) -> None:
    """No edit looks like none, not even of a number into its digits or of the last line's end."""
    differ = json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True)
    assert bool(changes(before, after)) is differ


def test_what_was_cut_says_so() -> None:
    """A cut call has no digest to show, and says that it cannot be approved yet (V3)."""
    lines = describe(request(shown(truncated=True, action_digest="")))
    assert "  CUT: not all of this call is shown, so it cannot be approved yet" in lines


@pytest.mark.parametrize(
    "broken",
    [
        {"tool_calls": (None,)},
        {"tool_calls": (shown().model_copy(update={"args": None}),)},
        {"tool_calls": (shown().model_copy(update={"observed": None, "args": {"path": "\x1b[2J\x7f\u202e"}}),)},
        {"tool_calls": (shown().model_copy(update={"args": {"path": object()}}),)},
        {"goal": None},
        {"risk": "none at all"},
        {"context": ({"tool": 1},)},
    ],
)
def test_a_fault_of_the_drawing_hides_no_request(broken: dict[str, Any]) -> None:
    """What cannot be drawn is shown as it came, safe to look at and without a traceback (V5)."""
    said: list[str] = []
    person = Console(say=said.append, now=lambda: NOW)
    asked = request(goal="fix my \x1b farm").model_copy(update=broken)
    person.show(asked)
    assert said[0] == "── A request that could not be drawn: this is all of it, as it came"
    text = "\n".join(said)
    assert "alice" in text
    assert "Traceback" not in text
    assert text.isascii() or visible(text) == text
    assert "\x1b" not in text
    assert "\x7f" not in text


def test_colors_follow_what_a_line_says() -> None:
    """Of a diff the names of the files are bold and its places cyan; a removed line that begins with -- is red."""
    diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- old\n+++ new\n"
    styles = [line.style for line in page(request(shown(observed=Observed(state={}, diff=diff))), now=NOW)]
    at = styles.index("file")
    assert styles[at : at + 5] == ["file", "file", "hunk", "removed", "added"]


def test_a_program_is_not_colored_as_a_diff() -> None:
    """A line of a program that begins with a plus is no added line."""
    run = shown("cc_run_program", {"path": "x"}, Observed(state={}, program="x", source="+ 1\n- 2\n"))
    here, said, _ = console("n", color=True)
    here.show(request(run))
    assert "  │ + 1" in said
    assert "  │ - 2" in said


def test_time_left_counts_down() -> None:
    """Days, hours, minutes and seconds, never rounded up."""
    spans = {0.5: "no time", 1: "1 s", 59: "59 s", 60: "1 min", 7199: "119 min", 7200: "2 h", 172_800: "2 d"}
    assert {span: time_left(NOW + timedelta(seconds=span), NOW) for span in spans} == spans


def test_a_request_of_several_people_says_how_far_it_is() -> None:
    """Who approved, who looks at it, where it went and when it goes, and each word to the next reviewer as text."""
    comment = CommentView(by="ann\x1b[0m", at=NOW, text="Is the\u202e chest empty?")
    team = TeamView(
        need=2,
        approved_by=("bob",),
        progress="1 of 2: bob",
        claimed_by="eve",
        claimed_until=NOW + timedelta(minutes=4),
        escalate_at=NOW + timedelta(minutes=5),
        escalated_to="role:admin",
        waits_for="somebody with the role admin",
        comments=(comment,),
    )
    lines = [line.text for line in page(request(team=team), now=NOW)]
    assert "  approved 1 of 2: bob; eve looks at it (4 min left); escalated to somebody with the role admin" in lines
    assert "  it goes to other people in 5 min" in lines
    assert any(line.endswith("says: Is the\\u{202e} chest empty?") and "\x1b" not in line for line in lines)
    later = [line.text for line in page(request(team=team), now=NOW + timedelta(minutes=4))]
    assert "  approved 1 of 2: bob; escalated to somebody with the role admin" in later, "its claim is over"
    plain = [line.text for line in page(request(team=TeamView(comments=(comment,))), now=NOW)]
    assert not any("approved" in line for line in plain)
