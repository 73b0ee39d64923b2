"""Computers of the bench that work for their answers: stub computers with a disk in memory."""

import asyncio
from typing import Any

from bench.call_client import BODY
from bench.call_server import PATH, WAIT_S
from bench.worker import answer_all, options, run
from orchestrator.testing.stub_computer import StubComputer


async def main() -> None:
    """Connect as many as are asked for and answer until the pipe closes."""
    told = options()
    url, files = f"http://127.0.0.1:{told['port']}", {PATH: BODY * told.get("times", 1)}
    running: list[asyncio.Task[None]] = []

    async def handle(request: dict[str, Any]) -> dict[str, Any]:
        stubs = [
            StubComputer(url, token, files=files, computer_id=number)
            for number, token in enumerate(request["tokens"], 1)
        ]
        running.extend(asyncio.create_task(stub.run()) for stub in stubs)
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*(stub.welcomed.wait() for stub in stubs))
        return {"connected": len(stubs)}

    await answer_all(handle)


if __name__ == "__main__":
    run(main)
