"""A worker's side: options from the command line, then a line of JSON for each line of JSON."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

Handler = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


def options() -> dict[str, Any]:
    """What the worker was started with."""
    told: dict[str, Any] = json.loads(sys.argv[1])
    return told


def own_directory(told: dict[str, Any]) -> Path:
    """The directory that a worker was told to make its databases in."""
    directory = Path(told["directory"])
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def say(answer: dict[str, Any]) -> None:
    """Answer the request at hand."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


async def answer_all(handler: Handler) -> None:
    """Answer until whoever asks closes the pipe."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        say(await handler(json.loads(line)))


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Run ``main`` on the loop that `serve` uses."""
    try:
        import uvloop

        factory: Callable[[], asyncio.AbstractEventLoop] | None = uvloop.new_event_loop
    except ImportError:
        factory = None

    async def awaited() -> None:
        await main()

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(awaited())
