"""Plays the evaluation with a persona behind real HTTP."""

import asyncio
from collections.abc import Sequence

from orchestrator.evaluation import Evaluation, Row, tasks_named
from tests.shell.ollama_server import ollama
from tests.shell.personas import Behaviour, acting
from tests.waiting import HANG_S


async def played(behaviour: Behaviour, names: Sequence[str] = (), *, most_s: float = HANG_S) -> list[Row]:
    """The rows of these tasks, or of the whole set, each within its limits."""
    async with ollama(acting(behaviour)) as server:
        evaluation = Evaluation(
            model="ollama:persona", tasks=tasks_named(names), options={"ollama-url": server.url}, most_s=most_s
        )
        return await asyncio.to_thread(lambda: list(evaluation.rows()))
