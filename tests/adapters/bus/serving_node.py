"""A node of its own process, for tests that kill or stop it: ``python -m tests.adapters.bus.serving_node URL SUBJECT``.

It says ``serving`` when it does, and writes the number of each request that it begins; one with ``stay`` it never ends.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from orchestrator.adapters.bus import open_bus
from orchestrator.core.ports.bus import Answer
from tests.waiting import HANG_S


async def _serve(url: str, subject: str) -> None:
    async def answer(payload: Mapping[str, Any], body: bytes) -> Answer:
        _say(f"begun {payload['n']}")
        if "stay" in payload:
            await asyncio.Event().wait()
        return Answer({"did": payload["n"]}, body)

    bus = open_bus(url, node=subject)
    await bus.open()
    bus.serve(subject, answer)
    await bus.flush()
    _say("serving")
    await asyncio.Event().wait()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class ServingNode:
    """Such a process, seen from the test."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.said: list[str] = []

    async def until(self, line: str) -> None:
        """It has said this line."""
        assert self._process.stdout is not None
        async with asyncio.timeout(HANG_S):
            while line not in self.said:
                said = await self._process.stdout.readline()
                assert said, "the node is gone"
                self.said.append(said.decode().strip())

    def signal(self, which: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(which)


@asynccontextmanager
async def serving_node(url: str, subject: str) -> AsyncIterator[ServingNode]:
    """A process that serves the subject, and is killed at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.adapters.bus.serving_node", url, subject, stdout=asyncio.subprocess.PIPE
    )
    try:
        node = ServingNode(process)
        await node.until("serving")
        yield node
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
