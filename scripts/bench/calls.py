"""The command path against raw ``websockets.serve``: CPU of the whole server process for each call.

The bar is held against the raw server at its barest: one frame out, one back, no deadline, no
check of anything. Ours sends and receives two frames each for a call, because an outcome is kept
until it is acknowledged; the acknowledgement goes out with the next frame to that computer, which
here is the next call, so that a call is one write. The second line says what the raw server needs
for as many frames, each written by itself.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Final

from bench.measure import Asked, Line, Worker, in_turns, middle

BAR: Final = 1.5
KINDS: Final = ("ours", "raw", "raw with four frames")
WARM: Final = 5
"""A fifth of a turn goes before the first one that counts."""


def lines(asked: Asked) -> Iterator[Line]:
    """Two lines for each number of clients."""
    for clients in asked.scale.clients:
        each = max(1, asked.scale.calls // clients)
        with ExitStack() as stack:
            servers = [_connected(stack, asked, kind, clients) for kind in KINDS]
            for server in servers:
                server.ask(do="calls", clients=clients, each=max(1, each // WARM))
            asks = (partial(server.ask, do="calls", clients=clients, each=each) for server in servers)
            ours, raw, raw_with_four = in_turns(asked.scale.turns, *asks)
        cpu, wall = middle(ours, "cpu"), middle(ours, "wall")
        what = f"a call, {clients} client{'s' if clients > 1 else ''}"
        yield Line(
            "calls",
            what,
            "µs",
            cpu,
            wall=wall,
            beside=middle(raw, "cpu"),
            what_beside="websockets.serve",
            judged="ratio",
            bar=BAR,
        )
        yield Line("calls", what, "µs", cpu, beside=middle(raw_with_four, "cpu"), what_beside="the same, four frames")


def _connected(stack: ExitStack, asked: Asked, kind: str, clients: int) -> Worker:
    """A server with so many clients, ready to be asked."""
    server = stack.enter_context(Worker("call_server", kind=kind, directory=asked.directory / f"calls-{clients}"))
    client = stack.enter_context(Worker("call_client", kind=kind, port=server.ask(do="port")["port"]))
    client.ask(tokens=server.ask(do="tokens", count=clients)["tokens"])
    return server
