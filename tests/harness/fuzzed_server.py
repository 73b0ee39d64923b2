"""The server that test_openapi_fuzz.py asks: ``python -m tests.harness.fuzzed_server DIRECTORY``.

It says where it is and which tokens there are on one line of JSON, and ends when its input does. It is a
process of its own, since Hypothesis minds when somebody else throws its dice while it makes a request.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, Final

from orchestrator.core.ports import ModelReply
from tests.harness.support import Disk, call, final, says
from tests.harness.whole_server import connected, running

COMPUTER: Final = "3"
WRITE: Final = call("cc_write", path="a.lua", content="print('new')\n")
REPLIES: Final = {
    "write": says(WRITE),
    "two": says(WRITE, call("cc_delete", path="a.lua")),
    "ask": says(call("ask_user", question="Which one?")),
}
"""What the model answers first to each prompt; to any other it says at once that it is done."""


class ByPrompt:
    """A model that does once what its prompt names, and is then done: it holds no state."""

    name = "by-prompt"

    async def window(self) -> None:
        """It does not say."""

    async def reply(self, messages: Any, **_: object) -> ModelReply:
        said = sum(message.role == "assistant" for message in messages)
        return ModelReply(json.dumps(final() if said else REPLIES.get(messages[1].content, final())))


async def serve(directory: Path) -> None:
    """A server with a computer and people, until nobody holds its input any more."""
    async with running(directory, model=ByPrompt()) as server, connected(server, COMPUTER, Disk({"a.lua": b"old\n"})):
        tokens = {"admin": server.admin, "submitter": await server.person("alice", "submitter")}
        sys.stdout.write(json.dumps({"url": server.url, "tokens": tokens}) + "\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
