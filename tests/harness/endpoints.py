"""What the tests of the endpoints share: models without a state, and the events of a task as they come."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from orchestrator.core.ports import ModelReply
from tests.harness.support import WRITE, final, says
from tests.harness.whole_server import Server
from tests.waiting import HANG_S


class Writing:
    """A model that writes once in each task, and is then done: it holds no state."""

    name = "writing"

    def __init__(self, *calls: dict[str, Any], message: str = "written") -> None:
        self._calls, self._message = calls or (WRITE,), message

    async def window(self) -> None:
        """It does not say."""

    async def reply(self, messages: Any, **_: object) -> ModelReply:
        said = sum(message.role == "assistant" for message in messages)
        return ModelReply(json.dumps(says(*self._calls) if said == 0 else final(self._message)))


class ByPrompt:
    """A model that first makes the calls that the prompt names, and is then done; it holds no state."""

    name = "by-prompt"

    def __init__(self, calls: Mapping[str, tuple[dict[str, Any], ...]]) -> None:
        self._calls = calls

    async def window(self) -> None:
        """It does not say."""

    async def reply(self, messages: Any, **_: object) -> ModelReply:
        said = sum(message.role == "assistant" for message in messages)
        wanted = messages[1].content
        if said == 0 and wanted in self._calls:
            return ModelReply(json.dumps(says(*self._calls[wanted])))
        return ModelReply(json.dumps(final("it does not run", success=False) if wanted == "fail" else final()))


@asynccontextmanager
async def stream(server: Server, task_id: str, query: str = "") -> AsyncIterator[AsyncIterator[str]]:
    """The blocks of an open stream of events, the opening comment first."""
    headers = {"Authorization": f"Bearer {server.admin}"}
    async with (
        asyncio.timeout(HANG_S),
        server.http.stream("GET", f"/v1/tasks/{task_id}/events{query}", headers=headers) as answer,
    ):
        assert answer.status_code == 200
        yield blocks_of(answer)


async def blocks_of(answer: httpx2.Response) -> AsyncIterator[str]:
    """The blocks of a stream of events, as they come."""
    lines: list[str] = []
    async for line in answer.aiter_lines():
        if line:
            lines.append(line)
        else:
            yield "\n".join(lines)
            lines.clear()
