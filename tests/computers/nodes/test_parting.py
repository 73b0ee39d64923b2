"""Whoever looks at computers hears of those that went with a node that was killed."""

from collections.abc import Mapping
from typing import Any

from orchestrator.adapters.bus import LocalBus
from orchestrator.computers.nodes import Presence
from orchestrator.computers.nodes.messages import GOODBYE, Goodbye, Seat, as_json, requests_to
from orchestrator.computers.nodes.node import Parting
from orchestrator.core.ports import Answer
from orchestrator.core.wire.wire import ComputerId
from tests.computers.nodes.several import until

FARM, MINE = ComputerId("farm"), ComputerId("mine")


async def test_of_the_nodes_that_are_left_one_tells() -> None:
    """Once for each computer; of one that left its node while that lives, the node itself has told."""
    bus, told = LocalBus(), list[str]()
    bus.subscribe("computers", lambda hint: told.append(hint["computer"]))
    nodes = [Presence(bus, name) for name in ("a-1", "b-2", "c-3")]
    for node in nodes:
        Parting(node)
        node.open()
    first, second, third = nodes

    async def table(payload: Mapping[str, Any], body: bytes) -> Answer:
        return Answer({}, as_json(third.whole()))

    bus.serve(requests_to("c-3"), table)
    third.changed(Seat(computer=FARM, online=True, number=1))
    third.changed(Seat(computer=MINE, online=True, number=1))
    third.changed(Seat(computer=MINE, online=False, number=1))
    await until(lambda: all(node.table.connected(FARM) for node in (first, second)))
    assert told == []
    # As its silence would.
    bus.publish(GOODBYE, Goodbye(node="c-3").told())
    assert told == [FARM]
    for node in (first, second):
        assert node.table.connected(FARM) is None
    for node in nodes:
        await node.close()
