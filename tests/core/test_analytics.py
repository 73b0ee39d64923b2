"""Figures about decisions: what is counted, from when to when, and for whom."""

from datetime import timedelta

from orchestrator.core.audit.analytics import Figures, figures, grouped, settled
from orchestrator.core.task import facts
from orchestrator.core.task.facts import RequestId
from tests.core.audited import BOB, Trail, edits, made, says
from tests.core.journal import NOW, person
from tests.core.test_quorum import TWO, noted

C1, C2, C3, C4 = (made(f"c{n}") for n in range(1, 5))


def test_a_call_is_settled_once_by_a_person_by_time_or_not_at_all() -> None:
    """Approved, rejected, answered, expired and canceled; what waits and what was never asked is not there."""
    other = made("c5")
    trail = Trail(C1, C2, C3, C4, other).requested(C1, C2, C3, C4)
    trail.decided(says(C1, "approve"), says(C2, "reject"), at=NOW + timedelta(seconds=13))
    trail.decided(says(C3, "respond", answer="done"), by=person("ann"), at=NOW + timedelta(seconds=23))
    trail.ended_request("expired", C4, other).ended_request("canceled", C1)
    found = settled(trail.items)
    assert [(one.how, one.people, one.tool, one.rules) for one in found] == [
        ("approved", ("bob",), "cc_write", ("rule",)),
        ("rejected", ("bob",), "cc_write", ("rule",)),
        ("answered", ("ann",), "cc_write", ("rule",)),
        ("expired", (), "cc_write", ("rule",)),
    ]
    assert [one.seconds for one in found] == [10.0, 10.0, 20.0, 3.0]
    assert settled(Trail(C1).requested(C1).items) == []


def test_what_was_stale_is_dropped_and_counted_from_its_next_request_on() -> None:
    """As is what a grant or a policy let run before anybody decided; an unknown outcome is no approval."""
    trail = Trail(C1).requested(C1).ended_request("stale", C1).requested(C1, of="q2")
    trail.add(facts.ReviewNoted(what="released", request_id=RequestId("q2"), calls=(trail.shown(C1),)))
    trail.requested(C1, of="q3", reason="outcome_unknown").decided(says(C1, "mark_done"), of="q3")
    trail.approved(C2)
    assert [(one.how, one.people) for one in settled(trail.items)] == [("dropped", ()), ("dropped", ())]


def test_everybody_who_approved_counts_and_a_delegate_by_both_names() -> None:
    """Not those whose approval an edit made void."""
    trail = noted(Trail(C1).requested(C1, workflow=TWO), says(C1, "approve"), by=person("ann"), behalf="eve")
    trail.approved(C1)
    assert [one.people for one in settled(trail.items)] == [("ann for eve", "bob")]
    edit, after = edits(C1, path="farm", content="y")
    anew = noted(Trail(C1).requested(C1, workflow=TWO), says(C1, "approve"), by=person("ann"))
    noted(anew, edit, by=person("tom"))
    noted(anew, says(C2, "approve"))
    anew.decided(says(after, "approve"), by=BOB)
    assert [one.people for one in settled(anew.items)] == [("tom", "bob")]


def test_the_figures_are_those_of_the_calls() -> None:
    """Median and 95 of 100 of what people decided; grouped, the one with the most calls first."""
    trails = []
    for number in range(20):
        trail = Trail(C1).requested(C1)
        trails += settled(trail.approved(C1, at=trail.items[-1].at + timedelta(seconds=number + 1)).items)
    trails += settled(Trail(C2).requested(C2).ended_request("expired", C2).items)
    made_of = figures(trails)
    assert made_of == Figures(
        calls=21, approved=20, rejected=0, answered=0, expired=1, dropped=0, median_s=10.5, p95_s=19.0
    )
    assert figures([]) == Figures(0, 0, 0, 0, 0, 0, None, None)
    assert {name: one.calls for name, one in grouped(trails, "tool").items()} == {"cc_write": 21}
    assert {name: one.calls for name, one in grouped(trails, "people").items()} == {"bob": 20}
    more = settled(Trail(C1).requested(C1).approved(C1, by=person("ann")).items)
    assert list(grouped([*more, *trails], "people")) == ["bob", "ann"]
    assert grouped(trails, "rules")["rule"] == made_of
