# Its imports are in the environment of the peers only, and mypy runs without them.
# mypy: disable-error-code="import-not-found, misc, unused-ignore"
"""A worker of the whole step: the Runner of the OpenAI Agents SDK; its SQLite session keeps the items of each turn."""

import asyncio
import gc
from pathlib import Path
from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, Runner, SQLiteSession, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from bench import peers
from bench.measure import Spent
from bench.worker import answer_all, options, own_directory, run


async def whole(agent: Agent[Any], file: Path, *, steps: int, names: list[str]) -> dict[str, float]:
    """Microseconds of a step of tasks that run at once."""

    async def one(name: str) -> None:
        session = SQLiteSession(name, file)
        told = await Runner.run(agent, peers.prompt(name), session=session, max_turns=steps + 1)
        session.close()
        if sum(item.type == "tool_call_output_item" for item in told.new_items) != steps:
            raise RuntimeError("The OpenAI Agents SDK did not do the steps that are measured.")

    gc.collect()
    with Spent() as spent:
        await asyncio.gather(*map(one, names))
    return spent.per(steps * len(names))


async def main() -> None:
    """Measure as the pipe says."""
    told = options()
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=f"{told['model_url']}/v1", api_key="none")
    model = OpenAIChatCompletionsModel("tiny", client)
    agent = Agent(name="bench", instructions=peers.SYSTEM, model=model, tools=[function_tool(peers.cc_read)])
    file = own_directory(told) / "sessions.db"

    async def handle(request: dict[str, Any]) -> dict[str, Any]:
        return dict(await whole(agent, file, **request))

    await answer_all(handle)


if __name__ == "__main__":
    run(main)
