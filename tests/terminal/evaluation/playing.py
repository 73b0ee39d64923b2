"""Plays the evaluation with a persona behind real HTTP."""

import asyncio
import json
from collections.abc import Sequence

from orchestrator.terminal.evaluation import Evaluation, Row, tasks_named
from tests.harness.ollama_server import Wire, ollama
from tests.harness.personas import Behaviour, Playing, acting, speak
from tests.terminal.evaluation.personas.cases import measured
from tests.waiting import HANG_S


def measured_liar(kind: str) -> Behaviour:
    """One of the liars of MEASURED, in whatever task it is asked."""

    async def lies(run: Playing, wire: Wire) -> None:
        (persona,) = (one for one in measured(run.task) if one.name.endswith(kind))
        reply = persona.replies[min(run.place, len(persona.replies) - 1)]
        run.place += 1
        await speak(wire, json.dumps(reply))

    return lies


async def played(behaviour: Behaviour, names: Sequence[str] = (), *, most_s: float = HANG_S) -> list[Row]:
    """The rows of these tasks, or of the whole set, each within its limits."""
    async with ollama(acting(behaviour)) as server:
        evaluation = Evaluation(
            model="ollama:persona", tasks=tasks_named(names), options={"ollama-url": server.url}, most_s=most_s
        )
        return await asyncio.to_thread(lambda: list(evaluation.rows()))
