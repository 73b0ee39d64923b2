"""Settings that all nodes of one store have to share are compared where nodes are told of each other."""

from datetime import UTC, datetime
from typing import Any

from orchestrator.computers.nodes.messages import Beat
from orchestrator.computers.nodes.node import SETTINGS, differences

AT = datetime(2026, 11, 23, tzinfo=UTC)
SAME = {"approvers": "requester", "lease_s": "30"}


def beat(name: str, facts: dict[str, Any], *, draining: bool = False) -> Beat:
    return Beat(node=f"{name}-1", name=name, at=AT, started_at=AT, draining=draining, facts=facts)


def test_what_differs_is_told_with_who_has_what() -> None:
    """In one sentence for each setting; what is the same is not mentioned."""
    beats = [beat(name, {SETTINGS: SAME}) for name in ("gamma", "alpha")]
    beats.append(beat("beta", {SETTINGS: {**SAME, "lease_s": "5"}}))
    assert differences(beats) == [
        "lease_s differs between nodes: 30 at alpha, gamma; 5 at beta. Start all nodes of one store with the same."
    ]


def test_a_node_that_tells_nothing_differs_in_nothing() -> None:
    """An older node tells none, a newer one more than is known here, one that drains is on its way out."""
    mine = beat("alpha", {SETTINGS: SAME})
    assert differences([mine, beat("old", {}), beat("odd", {SETTINGS: ["no", "table"]})]) == []
    assert differences([mine, beat("new", {SETTINGS: {**SAME, "more": "x"}})]) == []
    assert differences([mine, beat("going", {SETTINGS: {"lease_s": "5"}}, draining=True)]) == []


def test_what_another_node_tells_is_shown_on_one_short_line() -> None:
    """It comes from the bus, and is shown on a terminal."""
    odd = beat("b\n", {SETTINGS: {"lease_s": "\x1b[2J" + "x" * 999}})
    (told,) = differences([beat("alpha", {SETTINGS: SAME}), odd])
    assert "\x1b" not in told
    assert "\n" not in told
    assert len(told) < 300
