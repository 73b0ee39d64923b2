"""What a node knows of the others: beats and deltas in, events out."""

from datetime import UTC, datetime

from orchestrator.computers.nodes.messages import Beat, Seat
from orchestrator.computers.nodes.table import (
    GONE_AFTER_S,
    ComputerCame,
    ComputerWent,
    Missed,
    NodeCame,
    NodeTable,
    NodeWent,
)
from orchestrator.core.wire.wire import ComputerId

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FARM = ComputerId("farm")


def beat(node: str = "b-1", rev: int = 0, name: str = "b") -> Beat:
    return Beat(node=node, name=name, at=NOW, started_at=NOW, rev=rev)


def seat(number: int, *, online: bool = True, computer: ComputerId = FARM) -> Seat:
    return Seat(computer=computer, online=online, number=number, left_at=None if online else NOW)


def test_a_node_comes_with_its_first_beat_and_goes_when_it_is_not_heard() -> None:
    """It is there as long as it is heard; what it says of itself is its last word."""
    table = NodeTable("a-1")
    assert table.beat(beat(), 10.0) == [NodeCame("b-1"), Missed("b-1")]
    assert table.whole(beat(), (), 10.0) == []
    assert table.beat(beat(name="renamed"), 11.0) == []
    assert [one.name for one in table.beats()] == ["renamed"]
    assert table.name_of("b-1") == "renamed"
    assert table.sweep(11.0 + GONE_AFTER_S) == []
    assert table.sweep(11.1 + GONE_AFTER_S) == [NodeWent("b-1")]
    assert (table.beats(), table.knows("b-1"), table.name_of("b-1")) == ([], False, "b-1")
    assert table.goodbye("b-1") == []


def test_a_node_passes_over_its_own_words() -> None:
    """A bus hands back what this node publishes."""
    table = NodeTable("a-1")
    assert table.beat(beat("a-1"), 1.0) == table.delta("a-1", 1, seat(1)) == table.whole(beat("a-1"), (), 1.0) == []


def test_changes_in_order_are_taken_and_a_gap_is_asked_about() -> None:
    """A delta that follows is taken, an old one is passed over, and after a gap the whole counts."""
    table = NodeTable("a-1")
    table.whole(beat(), (), 1.0)
    assert table.delta("b-1", 1, seat(4)) == [ComputerCame(FARM, "b-1", 4)]
    assert table.delta("b-1", 1, seat(3, online=False)) == []
    assert table.delta("b-1", 3, seat(9)) == [Missed("b-1")]
    place = table.connected(FARM)
    assert place is not None
    assert (place.node, place.seat.number) == ("b-1", 4)
    # The whole that was asked for may be from before what is known of already.
    assert table.whole(beat(rev=2), (seat(4, online=False),), 1.0) == [ComputerWent(FARM), Missed("b-1")]
    assert table.whole(beat(rev=3), (seat(9),), 1.0) == [ComputerCame(FARM, "b-1", 9)]
    assert table.whole(beat(rev=2), (), 1.0) == []
    assert table.beat(beat(rev=4), 2.0) == [Missed("b-1")]


def test_what_was_not_found_where_it_is_said_to_be_is_asked_about() -> None:
    """It counts as away until that node has told its table anew: it may have been there all the time."""
    table = NodeTable("a-1")
    table.whole(beat(rev=1), (seat(4),), 1.0)
    assert table.absent("b-1", FARM, 3) == table.absent("c-1", FARM, 4) == []
    assert table.beat(beat(rev=1), 2.0) == []
    assert table.absent("b-1", FARM, 4) == [ComputerWent(FARM)]
    assert table.connected(FARM) is None
    assert table.beat(beat(rev=1), 3.0) == [Missed("b-1")]
    assert table.whole(beat(rev=1), (seat(4),), 3.0) == [ComputerCame(FARM, "b-1", 4)]
    assert table.beat(beat(rev=1), 4.0) == []


def test_a_delta_of_a_node_that_nobody_has_heard_of_asks_for_the_whole() -> None:
    """Its beat may have been lost."""
    table = NodeTable("a-1")
    assert table.delta("b-1", 7, seat(1)) == [Missed("b-1")]
    assert table.whole(beat(rev=7), (seat(1),), 1.0) == [NodeCame("b-1"), ComputerCame(FARM, "b-1", 1)]


def test_the_last_welcome_counts_where_two_nodes_have_a_computer() -> None:
    """The higher number has it, whichever node is heard first; when that one lets go, what the other says counts."""
    table = NodeTable("a-1")
    table.whole(beat("b-1"), (), 1.0)
    table.whole(beat("c-1"), (), 1.0)
    assert table.delta("b-1", 1, seat(5)) == [ComputerCame(FARM, "b-1", 5)]
    assert table.delta("c-1", 1, seat(6)) == [ComputerCame(FARM, "c-1", 6)]
    assert table.delta("b-1", 2, seat(5, online=False)) == []
    assert table.delta("c-1", 2, seat(6, online=False)) == [ComputerWent(FARM)]
    place = table.place(FARM)
    assert place is not None
    assert (place.node, place.seat.info.online) == ("c-1", False)
    assert table.connected(FARM) is None


def test_the_computers_of_a_node_that_is_gone_are_away_and_still_known() -> None:
    """What it told of them is kept; when it is heard again they are where it says."""
    table = NodeTable("a-1")
    table.whole(beat(rev=1), (seat(5),), 1.0)
    assert table.sweep(20.0) == [NodeWent("b-1"), ComputerWent(FARM)]
    (place,) = table.places()
    assert (place.seat.info.online, place.seat.info.left_at) == (False, NOW)
    assert table.beat(beat(rev=1), 21.0) == [NodeCame("b-1"), Missed("b-1")]
    assert table.whole(beat(rev=1), (seat(5),), 21.0) == [ComputerCame(FARM, "b-1", 5)]


def test_of_nodes_that_are_gone_only_the_last_word_is_kept() -> None:
    """A node that starts again has another id: the old one's words make room."""
    table = NodeTable("a-1")
    for start in range(3):
        table.whole(beat(f"b-{start}", rev=1), (seat(start + 1),), 1.0)
        table.goodbye(f"b-{start}")
    assert list(table._seats[FARM]) == ["b-2"]


def test_a_computer_that_a_node_has_not_is_away_unless_it_came_again() -> None:
    """The answer to a request may be older than the next welcome."""
    table = NodeTable("a-1")
    table.whole(beat(rev=1), (seat(5),), 1.0)
    assert table.absent("b-1", FARM, 4) == table.absent("c-1", FARM, 5) == []
    assert table.absent("b-1", FARM, 5) == [ComputerWent(FARM)]
    assert table.absent("b-1", FARM, 5) == []


def test_what_a_node_does_not_name_any_more_is_forgotten() -> None:
    """The whole is all that it knows."""
    table = NodeTable("a-1")
    table.whole(beat(rev=2), (seat(5), seat(6, computer=ComputerId("x"), online=False)), 1.0)
    assert table.whole(beat(rev=3), (), 2.0) == [ComputerWent(FARM)]
    assert list(table.places()) == []
