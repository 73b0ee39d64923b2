"""The audit as people read it: the items that are meant, and lines in which nothing hides or moves."""

import json
from datetime import timedelta
from typing import Any

import pytest

from orchestrator.core.audit.presentation import audit_line, fact_line, story_lines
from orchestrator.core.audit.story import who_approved
from orchestrator.core.audit.wanted import Wanted
from orchestrator.core.task import facts
from orchestrator.core.task.facts import RequestId
from orchestrator.core.task.items import decode_item
from tests.core.audited import ALICE, BOB, BYTES, Trail, bound, edits, granted, made, says
from tests.core.golden_items import GOLDEN
from tests.core.journal import NOW, REQUEST

C1, C2 = made("c1"), made("c2", path="barn", content="y")


def trail() -> Trail:
    """Two requests, one for each call, and the run of the first."""
    both = Trail(C1, C2).requested(C1).approved(C1).started(C1).finished(C1)
    return both.requested(C2, of="q2").decided(says(C2, "reject", reason="not now"), by=ALICE, of="q2")


def versions(wanted: Wanted) -> list[int]:
    """Which items of that history are meant."""
    return [item.version for item in wanted.of(trail().items)]


def shown(item: Any) -> dict[str, Any]:
    """An item as an endpoint gives it out."""
    value: dict[str, Any] = json.loads(item.model_dump_json(by_alias=True))
    return value


def test_everything_is_meant_where_nothing_is_said() -> None:
    """In the order in which it came."""
    assert versions(Wanted()) == list(range(1, 9))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Wanted(request_id=REQUEST), [2, 3, 4, 5, 6]),
        (Wanted(request_id="q2"), [2, 7, 8]),
        (Wanted(request_id="q9"), []),
        (Wanted(by="alice"), [8]),
        (Wanted(by="bob", kind="decision_recorded"), [4]),
        (Wanted(kind="review_requested"), [3, 7]),
        (Wanted(since=NOW + timedelta(seconds=7)), [7, 8]),
        (Wanted(request_id="q2", since=NOW + timedelta(seconds=7)), [7, 8]),
    ],
)
def test_items_are_found_by_request_actor_kind_and_time(wanted: Wanted, expected: list[int]) -> None:
    """All that is said has to fit; a request's items are those of its calls too."""
    assert versions(wanted) == expected


def line(of: Trail) -> str:
    """The line of a trail's last item."""
    return audit_line(shown(of.items[-1]))


def test_a_line_says_when_where_who_and_what() -> None:
    """Digests are cut to what tells them apart."""
    assert line(trail()) == (
        f"2030-01-01 00:00:08Z  t1#8  person alice by token  decision_recorded  request q2"
        f"  reject c2 digest {bound(C2)[:12]}… because not now"
    )
    started = line(Trail(C1).started(C1))
    assert started.startswith("2030-01-01 00:00:03Z  t1#3  system orchestrator  tool_started  call_id c1  run_id c1.1")
    assert f"action_digest {bound(C1)[:12]}…" in started


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("2030-01-01T02:00:00.5+02:00", "2030-01-01 00:00:00Z"),
        ("2030-01-01T00:00:00Z", "2030-01-01 00:00:00Z"),
        ("2030-01-01T00:00:00", "2030-01-01 00:00:00Z"),
        ("soon", "soon"),
    ],
)
def test_times_are_shown_in_utc(at: str, said: str) -> None:
    """Whatever offset they were written with."""
    assert audit_line({"at": at}).startswith(f"{said}  ?#?")


def test_what_happened_is_told_without_when_and_who() -> None:
    fact = {"kind": "newer_than_this", "text": "a\x1bb", "empty": ""}
    assert fact_line(fact) == r"newer_than_this  text a\u{1b}b"
    assert audit_line({"fact": fact}).endswith(fact_line(fact))


def test_a_decision_says_what_was_edited_granted_and_released() -> None:
    """And whether it was one's own task."""
    edit, _ = edits(C1, path="farm", content="new\n")
    under = says(C2, "approve", grant_id="g-1")
    said = line(Trail(C1, C2).decided(edit, under, grants=(granted(C1),), self_approved=True))
    assert 'edit c1 to {"path": "farm", "content": "new\\n"} digest' in said
    assert "approve c2 under g-1 digest" in said
    assert "grants g-1 (call)" in said
    assert said.endswith("self_approved true")


def test_a_proposal_and_a_request_say_each_call() -> None:
    """With the policy's verdict, and with what a decision is bound to."""
    proposed = audit_line(shown(Trail(C1).items[1]))
    assert 'c1 cc_write on 3 {"path": "farm", "content": "print(\'ok\')\\n"}: ask, risk medium, policy v1' in proposed
    here = C1.model_copy(update={"computer": None})
    assert "c1 cc_write {" in audit_line(shown(Trail(here).items[1]))
    requested = line(Trail(C1).requested(C1))
    assert f"request_id {REQUEST}  reason approval" in requested
    assert f"c1 digest {bound(C1)[:12]}…" in requested


def test_every_kind_of_fact_has_a_line() -> None:
    """Of the first release too, and of a kind that is not known yet."""
    for path in GOLDEN.glob("*.json"):
        item = decode_item(path.read_bytes())
        assert f"t-golden#{item.version}  " in audit_line(shown(item))
        assert f"  {item.fact.kind}" in audit_line(shown(item))
    new = {"task_id": "t1", "version": 3, "at": "later", "fact": {"kind": "moon_landed", "where": "here", "no": None}}
    assert audit_line(new) == "later  t1#3    moon_landed  where here"


@pytest.mark.parametrize("broken", [{}, {"fact": 3, "actor": "x"}, {"fact": {"kind": "calls_proposed", "calls": 1}}])
def test_what_is_no_item_is_a_line_all_the_same(broken: dict[str, Any]) -> None:
    """A server of another version may say anything."""
    assert audit_line(broken).startswith("None  ?#?")
    calls = [{"call_id": "c1"}, 3]
    odd = audit_line({"fact": {"kind": "calls_proposed", "calls": calls, "evaluations": [{}]}})
    assert "c1 None null: None" in odd


def test_nothing_in_a_line_hides_moves_or_breaks_it() -> None:
    """What people and programs wrote is visible text on one line, and cut where it is long."""
    evil = "\x1b[2Jgood\u202e\nsystem  all is well"
    said = line(Trail(C1).add(facts.CancelRequested(reason=evil), BOB))
    assert "\x1b" not in said
    assert "\n" not in said
    assert "\\u{1b}[2Jgood\\u{202e}\\nsystem" in said
    long = line(Trail(*(made(f"c{n}", path="x", content="y" * 500) for n in range(60))))
    assert "…" in long
    assert len(long) < 700


# -- stories -----------------------------------------------------------------------------


def told(of: Trail, **wanted: str) -> list[str]:
    """The lines of the one story in a trail."""
    (story,) = who_approved(of.items, **wanted)
    return story_lines(story.model_dump(mode="json"))


def test_a5_a_story_in_lines_answers_who_when_under_which_policy_and_what_happened() -> None:
    """For a person, in the order of the questions."""
    ran = Trail(C1).requested(C1).approved(C1, by=ALICE, policy_version="v7").started(C1)
    lines = told(ran.finished(C1, after={"farm": BYTES}), sha256=BYTES)
    assert lines[0].startswith("t1#2  call c1  cc_write  computer 3  asked for by alice  args {")
    assert lines[1:3] == ["  bytes: written at farm", "  bytes: left at farm"]
    assert lines[3] == (
        f"  2030-01-01 00:00:04Z  approve by person alice, their own task  policy v7  digest {bound(C1)[:12]}…"
    )
    assert lines[4] == f'  2030-01-01 00:00:05Z  run c1.1: done  after {{"farm": "{BYTES[:12]}…"}}'
    assert len(lines) == 5


def test_a5_a_story_says_what_did_not_happen_too() -> None:
    """Refused with a reason, failed with a code, never run, allowed by nobody's decision."""
    refused = told(Trail(C1).requested(C1).decided(says(C1, "reject", reason="not now")))
    assert refused[1:] == ["  2030-01-01 00:00:04Z  reject by person bob: not now", "  it never ran"]
    failed = told(Trail(C1, effect="allow").started(C1).finished(C1, ok=False, code="stale"))
    assert failed[1] == "  2030-01-01 00:00:02Z  policy by system orchestrator  policy v1  digest -"
    assert failed[2] == "  2030-01-01 00:00:03Z  run c1.1: failed (stale)"
    used = facts.ReviewNoted(
        what="grant_used", request_id=RequestId("q1"), calls=(Trail(C1).shown(C1),), grant_id=granted(C1).grant_id
    )
    assert "grant_used by system orchestrator under g-1  policy v1" in told(Trail(C1).add(used))[1]
    assert story_lines({})[0].startswith("None#None  call None")
    assert "policy ?" in story_lines({"approvals": [{}]})[1]
