"""Memory for each idle computer: what the server process has more once they are all welcome.

The first hundred connections are not counted: they make what all share. Counted is memory that
only this process has, so that libraries in shared pages are nobody's.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

from bench.measure import Asked, Line, Worker, raise_file_limit

BAR_KB: Final = 30.0
WARM: Final = 100


def lines(asked: Asked) -> Iterator[Line]:
    """One line: ours beside the raw server."""
    wanted = asked.scale.computers
    room = raise_file_limit() - WARM - 100
    count = min(wanted, room)
    ours, theirs = (_each_kb(asked, kind, count) for kind in ("ours", "raw"))
    yield Line(
        "memory",
        f"an idle computer, of {count}",
        "KB",
        ours,
        beside=theirs,
        what_beside="websockets.serve",
        judged="value",
        bar=BAR_KB,
        note="" if count == wanted else f"This system allows no more than {count} sockets; the bar is for {wanted}.",
    )


def _each_kb(asked: Asked, kind: str, count: int) -> float:
    with ExitStack() as stack:
        server = stack.enter_context(Worker("call_server", kind=kind, directory=asked.directory / "memory"))
        client = stack.enter_context(Worker("call_client", kind=kind, port=server.ask(do="port")["port"]))
        tokens = [server.ask(do="tokens", count=one)["tokens"] for one in (WARM, count)]
        client.ask(tokens=tokens[0])
        before = server.ask(do="memory")["kb"]
        client.ask(tokens=tokens[1])
        return float((server.ask(do="memory")["kb"] - before) / count)
