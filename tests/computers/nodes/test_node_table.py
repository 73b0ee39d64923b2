"""What a node knows of the others: beats and deltas in, events out."""

from datetime import UTC, datetime

from orchestrator.computers.nodes.messages import Beat, Delta, Seat
from orchestrator.computers.nodes.table import (
    GONE_AFTER_S,
    ComputerCame,
    ComputerWent,
    Missed,
    NodeCame,
    NodeTable,
    NodeWent,
    Pinned,
    Place,
)
from orchestrator.core.wire.wire import ComputerId

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FARM = ComputerId("farm")


def beat(node: str = "b-1", rev: int = 0, name: str = "b") -> Beat:
    return Beat(node=node, name=name, at=NOW, started_at=NOW, rev=rev)


def seat(number: int, rev: int = 0, *, online: bool = True, computer: ComputerId = FARM) -> Seat:
    return Seat(computer=computer, online=online, number=number, rev=rev, left_at=None if online else NOW)


def delta(node: str, said: Seat, *, came: bool = True) -> Delta:
    return Delta(node=node, rev=said.rev, seat=said, came=came)


def pinning(*nodes: str) -> NodeTable:
    """The table of a node that has heard of others, and needs the farm."""
    table = NodeTable("a-1")
    for node in nodes:
        table.beat(beat(node), 1.0)
    table.pin(FARM)
    return table


def at(table: NodeTable) -> tuple[str, int] | None:
    """Where the farm is."""
    place = table.connected(FARM)
    return None if place is None else (place.node, place.seat.number)


def test_a_node_comes_with_its_first_beat_and_goes_when_it_is_not_heard() -> None:
    """It is there as long as it is heard; what it says of itself is its last word."""
    table = NodeTable("a-1")
    assert table.beat(beat(), 10.0) == [NodeCame("b-1"), Missed("b-1")]
    assert table.beat(beat(name="renamed"), 11.0) == []
    assert [one.name for one in table.beats()] == ["renamed"]
    assert table.name_of("b-1") == "renamed"
    assert table.sweep(11.0 + GONE_AFTER_S) == []
    assert table.sweep(11.1 + GONE_AFTER_S) == [NodeWent("b-1")]
    assert (table.beats(), table.knows("b-1"), table.name_of("b-1")) == ([], False, "b-1")
    assert table.goodbye("b-1") == []


def test_a_node_passes_over_its_own_words() -> None:
    """A bus hands back what this node publishes, and its own rows are not those of another node."""
    table = pinning()
    assert table.beat(beat("a-1"), 1.0) == table.delta(delta("a-1", seat(1))) == []
    assert table.read([Place("a-1", seat(1))]) == []
    assert table.place(FARM) is None


def test_only_what_is_needed_here_is_kept() -> None:
    """A welcome elsewhere is an event for whom it concerns, and nothing of it stays; so is nothing once unpinned."""
    table = pinning("b-1")
    mill = ComputerId("mill")
    assert table.delta(delta("b-1", seat(1, 1, computer=mill))) == [ComputerCame(mill, "b-1", 1)]
    assert table.delta(delta("b-1", seat(1, 2, computer=mill), came=False)) == []
    assert table.delta(delta("b-1", seat(1, 3, computer=mill, online=False), came=False)) == []
    assert (table.place(mill), table.connected(mill)) == (None, None)
    table.pin(FARM)
    assert table.delta(delta("b-1", seat(4, 4))) == [ComputerCame(FARM, "b-1", 4)]
    assert table.unpin(FARM) == []
    assert at(table) == ("b-1", 4)
    assert table.unpin(FARM) == [Pinned(FARM)]
    assert (table.place(FARM), table.pinned()) == (None, [])


def test_changes_are_taken_in_their_order_and_after_a_gap_the_store_is_read() -> None:
    """The later welcome counts, and of one welcome the later change; what the store has may be older than both."""
    table = pinning("b-1")
    assert table.delta(delta("b-1", seat(4, 1))) == [ComputerCame(FARM, "b-1", 4)]
    assert table.delta(delta("b-1", seat(4, 2, online=False), came=False)) == [ComputerWent(FARM)]
    assert table.read([Place("b-1", seat(4))]) == []
    assert at(table) is None
    assert table.delta(delta("b-1", seat(9, 4))) == [ComputerCame(FARM, "b-1", 9), Missed("b-1")]
    assert table.delta(delta("b-1", seat(3, 5, online=False), came=False)) == []
    assert at(table) == ("b-1", 9)
    assert table.beat(beat(rev=5), 2.0) == []
    assert table.beat(beat(rev=6), 3.0) == [Missed("b-1")]
    assert table.read([Place("b-1", seat(9, 6, online=False))]) == [ComputerWent(FARM)]


def test_what_was_not_found_where_it_is_said_to_be_is_away_until_that_node_is_heard() -> None:
    """Nobody tries without end; the answer to a request may be older than the next welcome."""
    table = pinning("b-1")
    table.read([Place("b-1", seat(4))])
    assert table.absent("b-1", FARM, 3) == table.absent("c-1", FARM, 4) == []
    assert at(table) == ("b-1", 4)
    assert table.absent("b-1", FARM, 4) == [ComputerWent(FARM)]
    assert table.absent("b-1", FARM, 4) == table.read([Place("b-1", seat(4))]) == []
    assert not table.has(Place("b-1", seat(4)))
    assert at(table) is None
    assert table.beat(beat(), 2.0) == [ComputerCame(FARM, "b-1", 4), Missed("b-1")]
    assert table.beat(beat(), 3.0) == []
    table.absent("b-1", FARM, 4)
    assert table.read([Place("b-1", seat(5))]) == [ComputerCame(FARM, "b-1", 5)]


def test_the_last_welcome_counts_where_two_nodes_have_a_computer() -> None:
    """The higher number has it, whichever node is heard first, also when it has left there, and when it is here."""
    table = pinning("b-1", "c-1")
    assert table.delta(delta("b-1", seat(5, 1))) == [ComputerCame(FARM, "b-1", 5)]
    assert table.delta(delta("c-1", seat(6, 1))) == [ComputerCame(FARM, "c-1", 6)]
    assert table.delta(delta("b-1", seat(5, 2, online=False), came=False)) == []
    assert table.came_here(FARM, 5) == []
    assert table.delta(delta("c-1", seat(6, 2, online=False), came=False)) == [ComputerWent(FARM)]
    assert table.read([Place("b-1", seat(5))]) == []
    place = table.place(FARM)
    assert place is not None
    assert (place.node, table.info(place).online) == ("c-1", False)
    table.delta(delta("b-1", seat(7, 3)))
    assert table.came_here(FARM, 8) == [ComputerWent(FARM)]
    assert table.place(FARM) is None


def test_the_computers_of_a_node_that_is_gone_are_away_and_still_known() -> None:
    """What the store has of them says that they are there; when the node is heard again, they are."""
    table = pinning("b-1")
    table.read([Place("b-1", seat(5))])
    assert table.sweep(20.0) == [NodeWent("b-1"), ComputerWent(FARM)]
    place = table.place(FARM)
    assert place is not None
    assert (table.info(place).online, table.info(place).left_at) == (False, NOW)
    assert table.read([Place("b-1", seat(5))]) == []
    assert table.delta(delta("b-1", seat(5, 1))) == []
    assert table.beat(beat(rev=1), 21.0) == [NodeCame("b-1"), ComputerCame(FARM, "b-1", 5), Missed("b-1")]
    assert table.info(place).online
