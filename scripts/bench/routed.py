"""A call to a computer at another node beside one to a computer at this node: two whole houses on one NATS server.

Both go the way of a task's call, from ``Computers.call`` to the acknowledgement, one in flight. The
server that has the computer measures the local ones; the other one's go through its bus and back. The
stores are not shared: no call here asks one. The median of each turn, and of those the median.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Final

from bench.calls import WARM
from bench.measure import Asked, Line, Worker, in_turns, middle

BAR: Final = 3.0
"""What the way over the bus may cost: two more hops through two more processes for the two that a local call has."""


def lines(asked: Asked) -> Iterator[Line]:
    """One line."""
    with ExitStack() as stack:
        bus = stack.enter_context(Worker("nats_worker")).ask(do="url")["url"]
        here, there = (
            stack.enter_context(Worker("call_server", kind="house", directory=asked.directory / name, bus=bus))
            for name in ("here", "there")
        )
        client = stack.enter_context(Worker("call_client", kind="house", port=there.ask(do="port")["port"]))
        client.ask(tokens=there.ask(do="tokens", count=1)["tokens"])
        here.ask(do="meet", names=there.ask(do="meet", names=[])["names"])
        each = max(1, asked.scale.calls // 2)
        asks = [partial(server.ask, do="fleet", each=each) for server in (here, there)]
        for server in (here, there):
            server.ask(do="fleet", each=max(1, each // WARM))
        routed, local = in_turns(asked.scale.turns, *asks)
    yield Line(
        "routed",
        "a call to another node, wall",
        "µs",
        middle(routed, "wall"),
        beside=middle(local, "wall"),
        what_beside="at this node",
        judged="ratio",
        bar=BAR,
    )
