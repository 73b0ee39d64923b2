"""A server for tests, as a process: its model plays the script that stands in a prompt, and talks while it does.

``python -m tests.harness.talking DATA_DIR [PORT]`` prints ``listening on URL``.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from orchestrator.app.orchestrator import Orchestrator
from orchestrator.app.serving import serve
from orchestrator.core.ports import ChatMessage, ModelReply
from orchestrator.core.task.facts import Usage
from orchestrator.runtime.settings import Settings

_PART = 12
"""Characters of a part."""
_PART_S = 0.03
"""Longer than hints are gathered, so that each part is seen for itself."""


class Talking:
    """A ``ChatModel``: the goal of a task is JSON, a list of replies; each comes in parts."""

    name = "talking"

    async def window(self) -> None:
        """It does not say."""

    async def reply(
        self,
        messages: Sequence[ChatMessage],
        *,
        on_text: Callable[[str], None] | None = None,
        max_output_tokens: int | None = None,
        user: str = "",
        affinity: str = "",
        one_computer: bool = False,
    ) -> ModelReply:
        """The reply whose place is the number of replies so far; the last one again where there are no more."""
        del max_output_tokens
        goal = messages[1].content
        script, _ = json.JSONDecoder().raw_decode(goal[goal.index("[{") :])
        place = min(sum(one.role == "assistant" for one in messages), len(script) - 1)
        text = json.dumps(script[place], ensure_ascii=False)
        for at in range(0, len(text), _PART):
            if on_text is not None:
                on_text(text[at : at + _PART])
            await asyncio.sleep(_PART_S)
        return ModelReply(text=text, usage=Usage(input_tokens=100, output_tokens=len(text) // 4))


def main() -> None:
    """Serve until SIGTERM."""

    def ready(url: str, orchestrator: Orchestrator) -> None:
        del orchestrator
        sys.stdout.write(f"listening on {url}\n")
        sys.stdout.flush()

    port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    asyncio.run(serve(Settings(data_dir=Path(sys.argv[1]), port=port), ready=ready, model=Talking()))


if __name__ == "__main__":
    main()
