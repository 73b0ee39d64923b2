"""The server of the whole step: the orchestrator in its own process, with all that `serve` starts.

Everything around it is in other processes: the model server, the computers, the watchers. So the CPU time of this
process, with all its threads, is what the steps cost.
"""

import asyncio
import gc
import os
import time
from typing import Any

from bench.call_server import WAIT_S, Ours
from bench.measure import raise_file_limit
from bench.worker import answer_all, options, own_directory, run
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.states import TaskStatus
from orchestrator.runtime.clock import SystemClock
from orchestrator.web.auth import issue_token

ENDED = (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELED)


class Whole(Ours):
    """The orchestrator with workers and a model server."""

    async def people(self, count: int) -> list[str]:
        """Tokens of so many new people: one token may hold 256 sockets only."""
        store, now = self._orchestrator.store, SystemClock().now()
        names = [f"p{os.urandom(4).hex()}" for _ in range(count)]
        told = (issue_token(store, kind="person", name=one, roles=("admin",), at=now) for one in names)
        return list(await asyncio.gather(*told))

    async def over(self, task_ids: list[str]) -> None:
        """Return when these tasks have ended. Raises RuntimeError where one did not complete."""
        async with asyncio.timeout(WAIT_S):
            for task_id in map(TaskId, task_ids):
                # The model has said its last word: what is left are milliseconds, and a subscription would be paid for.
                while (task := await self._orchestrator.store.load(task_id)) is None or task.status not in ENDED:  # noqa: ASYNC110 - see above
                    await asyncio.sleep(0.01)
                if task.status is not TaskStatus.COMPLETED:
                    raise RuntimeError(f"A task ended {task.status} after {task.steps} steps: {task.ended}")


async def main() -> None:
    """Serve, and do as the pipe says."""
    raise_file_limit()
    told = options()
    server = Whole(
        own_directory(told),
        store=told["store"],
        model="ollama:tiny",
        ollama_url=told["model_url"],
        ollama_concurrency=told["tasks"],
        workers=told["tasks"],
    )
    port = await server.start()
    # As `serve` does once it is ready.
    gc.collect()
    gc.freeze()

    async def handle(request: dict[str, Any]) -> dict[str, Any]:
        match request["do"]:
            case "port":
                return {"port": port, "pid": os.getpid()}
            case "computers":
                return {"tokens": await server.tokens(request["count"])}
            case "people":
                return {"tokens": await server.people(request["count"])}
            case "over":
                await server.over(request["task_ids"])
        return {"cpu_s": time.process_time()}

    try:
        await answer_all(handle)
    finally:
        await server.stop()


if __name__ == "__main__":
    run(main)
