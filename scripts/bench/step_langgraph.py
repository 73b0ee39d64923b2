# Its imports are there only where somebody installed them (see the package), and mypy runs without them.
# mypy: disable-error-code="import-not-found, misc, untyped-decorator, unused-ignore"
"""A worker of both step benches: LangGraph's agent, as its `create_agent` builds the graph.

In the step bench its model answers at once, with and without the saver. In the whole step its model is a server, asked
by `ChatOpenAI`, and each step is saved before the next begins, as in this project.
"""

import asyncio
import gc
import itertools
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from pydantic import SecretStr

from bench import peers
from bench.measure import Spent
from bench.worker import answer_all, options, own_directory, run

_files = itertools.count()


@tool
def cc_read(path: str) -> str:
    """Read a file on the computer."""
    return f"-- Stub content for {path}\n"


def checked(answer: dict[str, Any], steps: int) -> None:
    """Raises RuntimeError where a task has not so many steps."""
    if sum(message.type == "tool" for message in answer["messages"]) != steps:
        raise RuntimeError("LangGraph did not do the steps that are measured.")


class Instant(BaseChatModel):
    """Asks for one read each step, ``steps`` times."""

    steps: int

    @property
    def _llm_type(self) -> str:
        return "instant"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Itself: it knows its one tool."""
        del tools, options
        return self

    def _generate(self, messages: list[BaseMessage], *rest: Any, **options: Any) -> ChatResult:
        del rest, options
        done = sum(isinstance(message, AIMessage) for message in messages[-2:]) and len(messages) // 2
        if done >= self.steps:
            message = AIMessage(content="Read it all.")
        else:
            call = {"name": "cc_read", "args": {"path": f"logs/day-{done}.txt"}, "id": f"c{done}"}
            message = AIMessage(content=f"I look at day {done} next.", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: list[BaseMessage], *rest: Any, **options: Any) -> ChatResult:
        # At once, and not through the thread that the base class would take.
        return self._generate(messages, *rest, **options)


async def task(steps: int, saver: AsyncSqliteSaver | None) -> Spent:
    """One fresh task."""
    agent: Any = create_agent(Instant(steps=steps), [cc_read], checkpointer=saver)
    config = {"recursion_limit": 4 * steps + 20, "configurable": {"thread_id": str(next(_files))}}
    gc.collect()
    with Spent() as spent:
        answer = await agent.ainvoke({"messages": [("user", "Read the logs.")]}, config)
    checked(answer, steps)
    return spent


async def measure(directory: Path, *, saving: bool, steps: int, tasks: int) -> dict[str, float]:
    """Microseconds of a step."""
    total = Spent()
    for _ in range(tasks):
        if saving:
            async with AsyncSqliteSaver.from_conn_string(str(directory / f"graph-{next(_files)}.db")) as saver:
                await task(1, saver)
                spent = await task(steps, saver)
        else:
            spent = await task(steps, None)
        total.cpu_s, total.wall_s = total.cpu_s + spent.cpu_s, total.wall_s + spent.wall_s
    return total.per(steps * tasks)


async def whole(directory: Path, model_url: str, *, steps: int, names: list[str]) -> dict[str, float]:
    """Microseconds of a step of tasks that run at once."""
    model = ChatOpenAI(model="tiny", base_url=f"{model_url}/v1", api_key=SecretStr("none"))
    async with AsyncSqliteSaver.from_conn_string(str(directory / "graphs.db")) as saver:
        agent: Any = create_agent(model, [tool(peers.cc_read)], system_prompt=peers.SYSTEM, checkpointer=saver)

        async def one(name: str) -> None:
            config = {"recursion_limit": 4 * steps + 20, "configurable": {"thread_id": name}}
            asked = {"messages": [("user", peers.prompt(name))]}
            checked(await agent.ainvoke(asked, config, durability="sync"), steps)

        gc.collect()
        with Spent() as spent:
            await asyncio.gather(*map(one, names))
    return spent.per(steps * len(names))


async def main() -> None:
    """Measure as the pipe says."""
    told = options()
    directory, saving = own_directory(told), told["kind"] == "saving"

    async def handle(request: dict[str, Any]) -> dict[str, Any]:
        if told["kind"] == "whole":
            return dict(await whole(directory, told["model_url"], **request))
        return dict(await measure(directory, saving=saving, steps=request["steps"], tasks=request["tasks"]))

    if told["kind"] != "whole":
        await task(1, None)
    await answer_all(handle)


if __name__ == "__main__":
    run(main)
