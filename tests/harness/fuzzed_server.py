"""The server that test_openapi_fuzz.py asks: ``python -m tests.harness.fuzzed_server DIRECTORY``.

It says where it is and which tokens there are on one line of JSON, and ends when its input does. It is a
process of its own, since Hypothesis minds when somebody else throws its dice while it makes a request.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Final

from tests.harness.endpoints import ByPrompt
from tests.harness.support import Disk, call
from tests.harness.whole_server import connected, running

COMPUTER: Final = "3"
WRITE: Final = call("cc_write", path="a.lua", content="print('new')\n")
CALLS: Final = {
    "write": (WRITE,),
    "two": (WRITE, call("cc_delete", path="a.lua")),
    "ask": (call("ask_user", question="Which one?"),),
}
"""What the model does at each prompt; at any other it says at once that it is done."""


async def serve(directory: Path) -> None:
    """A server with a computer and people, until nobody holds its input any more."""
    async with (
        running(directory, model=ByPrompt(CALLS)) as server,
        connected(server, COMPUTER, Disk({"a.lua": b"old\n"})),
    ):
        tokens = {"admin": server.admin, "submitter": await server.person("alice", "submitter")}
        sys.stdout.write(json.dumps({"url": server.url, "tokens": tokens}) + "\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
