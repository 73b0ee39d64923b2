"""A worker of the step bench: pydantic-ai's own loop with a model that answers at once; nothing is kept."""

import gc
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits

from bench.measure import Spent
from bench.worker import answer_all, run


async def task(steps: int) -> Spent:
    """One fresh task."""
    done = 0

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del messages, info
        nonlocal done
        if done >= steps:
            return ModelResponse(parts=[TextPart("Read it all.")])
        done += 1
        call = ToolCallPart("cc_read", {"path": f"logs/day-{done}.txt"}, tool_call_id=f"c{done}")
        return ModelResponse(parts=[TextPart(f"I look at day {done} next."), call])

    agent = Agent(FunctionModel(reply))

    @agent.tool_plain
    def cc_read(path: str) -> str:
        """Read a file on the computer."""
        return f"-- Stub content for {path}\n"

    gc.collect()
    with Spent() as spent:
        await agent.run("Read the logs.", usage_limits=UsageLimits(request_limit=None))
    if done != steps:
        raise RuntimeError("pydantic-ai did not do the steps that are measured.")
    return spent


async def main() -> None:
    """Measure as the pipe says."""
    await task(1)

    async def handle(request: dict[str, Any]) -> dict[str, Any]:
        steps, tasks = request["steps"], request["tasks"]
        total = Spent()
        for _ in range(tasks):
            spent = await task(steps)
            total.cpu_s, total.wall_s = total.cpu_s + spent.cpu_s, total.wall_s + spent.wall_s
        return dict(total.per(steps * tasks))

    await answer_all(handle)


if __name__ == "__main__":
    run(main)
