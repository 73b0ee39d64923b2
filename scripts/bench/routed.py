"""A call to a computer at another node beside one to a computer at this node: two whole servers on one NATS server.

Both go the way of a task's call, from ``Computers.call`` to the acknowledgement, one in flight. The
server that has the computer measures the local ones; the other one's go through its bus and back. They
take turns in short blocks; the median of each block, and of those the median. The stores are not
shared: no call here asks one. The bar is held against the computer of the call bench, which answers in
next to no time; the second line has one that works for it, as a real one does.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Final

from bench.calls import WARM
from bench.measure import Asked, Line, Worker, in_turns, middle

BAR: Final = 3.0
"""What the way over the bus may cost: two more hops through two more processes for the two that a local call has."""
BLOCKS: Final = 4
"""Of one turn."""
COMPUTERS: Final = (("call_client", "a call to another node, wall"), ("stub_client", "the same, a stub computer, wall"))


def lines(asked: Asked) -> Iterator[Line]:
    """One line for each kind of computer, one of which is judged."""
    with ExitStack() as stack:
        bus = stack.enter_context(Worker("nats_worker")).ask(do="url")["url"]
        here, there = nodes = [
            stack.enter_context(Worker("node_server", directory=asked.directory / name, bus=bus))
            for name in ("here", "there")
        ]
        port = there.ask(do="port")["port"]
        for (module, _), token in zip(COMPUTERS, there.ask(do="tokens", count=len(COMPUTERS))["tokens"], strict=True):
            stack.enter_context(Worker(module, kind="ours", port=port)).ask(tokens=[token])
        for node in nodes:
            node.ask(do="meet", names=[f"c{number}" for number in range(len(COMPUTERS))])
        each = max(1, asked.scale.calls // (2 * BLOCKS))
        for client, (_, what) in enumerate(COMPUTERS):
            for node in nodes:
                node.ask(do="calls", client=client, each=max(1, each // WARM))
            asks = [partial(node.ask, do="calls", client=client, each=each) for node in (here, there)]
            routed, local = in_turns(BLOCKS * asked.scale.turns, *asks)
            yield Line(
                "routed",
                what,
                "µs",
                middle(routed, "wall"),
                beside=middle(local, "wall"),
                what_beside="at this node",
                judged="nothing" if client else "ratio",
                bar=None if client else BAR,
            )
