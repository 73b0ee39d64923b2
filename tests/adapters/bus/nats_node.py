"""A node in a process of its own: ``python -m tests.adapters.bus.nats_node URL NAME``, until it is killed.

It serves ``NAME.stuck``, which never ends, ``NAME.mark``, which only counts, and ``NAME.count``, which says how often.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Any

from orchestrator.adapters.bus import open_bus
from orchestrator.core.ports.bus import Answer


async def main(url: str, name: str) -> None:
    """Say ``begun`` whenever a request is begun, ``ready`` before."""
    marked = 0

    async def stuck(_payload: Mapping[str, Any], _body: bytes) -> Answer:
        _say("begun")
        await asyncio.Event().wait()
        return Answer({})

    async def mark(_payload: Mapping[str, Any], _body: bytes) -> Answer:
        nonlocal marked
        marked += 1
        return Answer({})

    async def count(_payload: Mapping[str, Any], _body: bytes) -> Answer:
        return Answer({"marked": marked})

    bus = open_bus(url, node=name)
    for subject, handler in {"stuck": stuck, "mark": mark, "count": count}.items():
        bus.serve(f"{name}.{subject}", handler)
    await bus.open()
    _say("ready")
    await asyncio.Event().wait()


def _say(line: str) -> None:
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
