"""The work of one step of a task, counted without a clock, so that no change makes a step dearer unseen.

A whole server takes the steps: a model over HTTP, the gate, the journal on SQLite, a call to a computer over a
WebSocket. Model and computer live in another thread, whose work is not counted. The difference between a long task and
a short one is that of their steps: what the begin and the end of a task cost is in neither figure.
"""

import asyncio
import json
import sys
import threading
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from types import FrameType
from typing import Any, Self

from orchestrator.adapters.store.sqlite import SqlitePersistenceManager
from orchestrator.runtime.clock import SystemClock
from orchestrator.testing.stub_computer import StubComputer
from tests.harness.ollama_server import OllamaServer, Wire, listening
from tests.harness.support import call, final, says
from tests.harness.whole_server import Server, running
from tests.waiting import within

SHORT, LONG = 10, 40
MOST = {"COMMIT": 3, "statements": 25, "frames": 2, "JSON encodings": 13, "Python calls": 1800, "connections": 0}
"""The most of each in one step. Whoever makes a step cheaper lowers them."""
LOOP = ("asyncio/base_events.py", "asyncio/events.py", "asyncio/selector_events.py", "selectors.py")
"""The calls within the loop itself, which is another one in a server."""


class Elsewhere:
    """A model that reads a file again and again, and the computer that has it, in a thread of their own."""

    def __init__(self, replies: int) -> None:
        self.model = OllamaServer(keeps=True, listed={"models": [{"name": "tiny"}]})
        self.model.personas.append(self._reads)
        self.left = replies
        self.over = asyncio.Event()
        """The model has said that it is done, and was told that the journal does not support it."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._served = listening(self.model)

    async def _reads(self, wire: Wire) -> None:
        self.left -= 1
        if self.left < -1:
            self.over.set()
        read = says(call("cc_read", path="a.lua", max_lines=self.left + 1))
        await wire.head()
        await wire.text(json.dumps(read if self.left >= 0 else final("All was read.")))
        await wire.done(prompt_eval_count=len(json.dumps(wire.asked["messages"])) // 3)

    async def does(self, what: Coroutine[Any, Any, Any]) -> None:
        """Have the thread do something, and wait until it is done."""
        await within(asyncio.wrap_future(asyncio.run_coroutine_threadsafe(what, self._loop)))

    async def connect(self, server: Server) -> None:
        """The computer dials."""
        stub = StubComputer(server.url, await server.computer("3"), files={"a.lua": b"print('x')\n" * LONG})
        asyncio.run_coroutine_threadsafe(stub.run(), self._loop)
        await self.does(stub.welcomed.wait())

    async def __aenter__(self) -> Self:
        self._thread.start()
        await self.does(self._served.__aenter__())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.does(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await self._served.__aexit__(None, None, None)
        for one in others:
            one.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class Counting(Counter[str]):
    """What this thread calls."""

    def __call__(self, frame: FrameType, event: str, called: Any) -> None:
        """As ``sys.setprofile`` tells it."""
        if event == "call" and not frame.f_code.co_filename.endswith(LOOP):
            self["Python calls"] += 1
            name = frame.f_code.co_qualname
            self["frames"] += name == "FrameProtocol.write"
            self["JSON encodings"] += name == "JSONEncoder.encode"
        elif event == "c_call":
            self["JSON encodings"] += called.__name__ in {"to_json", "dump_json"}


async def task_of(steps: int, directory: Path) -> dict[str, int]:
    """The counts of a whole task of so many steps, and one more that ends it."""
    told: list[str] = []
    store = SqlitePersistenceManager(directory / f"{steps}.db", clock=SystemClock(), trace=told.append)
    async with Elsewhere(steps) as there:
        parts = {"wrap_store": lambda _: store}
        async with running(directory / str(steps), parts=parts, ollama_url=there.model.url) as server:
            await there.connect(server)
            connections, begun = there.model.connections, len(told)
            counting = Counting()
            sys.setprofile(counting)
            try:
                task_id = await server.submit(model="ollama:tiny", max_steps=steps + 5)
                await there.does(there.over.wait())
            finally:
                sys.setprofile(None)
            ended = await server.until(task_id, "task_ended")
            assert ended["status"] == "Completed", ended["result"]
            statements = told[begun:]
            return {
                **counting,
                "COMMIT": statements.count("COMMIT"),
                "statements": len(statements),
                "connections": there.model.connections - connections,
            }


async def test_the_work_of_a_step_does_not_grow(tmp_path: Path) -> None:
    """Transactions, statements, frames, JSON, calls of Python and connections to the model, of one step each."""
    short, long = [await task_of(steps, tmp_path) for steps in (SHORT, LONG)]
    found = {what: (long[what] - short[what]) / (LONG - SHORT) for what in MOST}
    assert not {what: count for what, count in found.items() if count > MOST[what]}, found
