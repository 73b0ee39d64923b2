"""kill -9 at random moments, over tasks that append to a file: never twice, never lost, never stuck."""

import asyncio
import contextlib
import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.exceptions import WebSocketException

from tests.story.harness import Api, Computer, Server, check_laws, computer, decoded, ended, final, last_words, tool
from tests.waiting import HANG_S, within

PROGRAM = b"local line = ... local file = fs.open('lines', 'a') file.write(line .. '\\n') file.close() print(line)\n"
POLICY = """schema_version = 1
[[rules]]
id = "all"
effect = "allow"
tools = ["cc_run_program"]
"""
OPEN = ("Queued", "Running", "Paused")
RUNS = 3
"""Lines that each task appends."""
AT_ONCE = 4
"""Tasks that are under way at any time."""
AT_MOST_ITEMS = 24
"""New items of all tasks that a life of the server may see, however slow the machine is; a task has about twenty."""


@dataclass
class Village:
    """A server, its computers, and whoever gives them work and looks after them."""

    server: Server
    computers: list[Computer]
    rng: random.Random
    submitted: Iterator[int] = field(default_factory=lambda: iter(range(1_000_000)))
    decided: Counter[str] = field(default_factory=Counter)
    versions: dict[str, int] = field(default_factory=dict)
    """The last item of each task that was seen."""
    awaited: int = 0
    """New items to see until ``enough``."""
    enough: asyncio.Event = field(default_factory=asyncio.Event)

    def lines(self, name: str) -> list[str]:
        """The lines that were appended on a computer."""
        (one,) = [pc for pc in self.computers if pc.name == name]
        return (one.read("lines") or b"").decode().splitlines()

    async def life(self, *, quiet: bool = False) -> None:
        """Give work and review until the server dies; ``quiet``: no new work, until nothing is open."""
        api = self.server.api()
        reviewing = asyncio.create_task(self._review(api))
        try:
            with contextlib.suppress(httpx2.HTTPError):
                left = await self._tasks(api, *OPEN)
                await asyncio.gather(*(self._work(api, left, quiet=quiet) for _ in range(AT_ONCE)))
        finally:
            reviewing.cancel()
            await asyncio.gather(reviewing, return_exceptions=True)

    async def _work(self, api: Api, left: list[str], *, quiet: bool) -> None:
        """See tasks to their end, those that an earlier life left open first."""
        while left or not quiet:
            await self._follow(api, left.pop() if left else await self._submit(api))

    async def _follow(self, api: Api, task_id: str) -> None:
        """See a task to its end, and count what is new."""
        async with contextlib.aclosing(api.items(task_id, self.versions.get(task_id, 0))) as items:
            async for item in items:
                self.versions[task_id] = item.version
                self.awaited -= 1
                if not self.awaited:
                    self.enough.set()

    async def happens(self, items: int) -> None:
        """Returns when so many new items were seen."""
        self.enough.clear()
        self.awaited = items
        await self.enough.wait()

    async def _submit(self, api: Api) -> str:
        name = self.rng.choice(self.computers).name
        words = [f"{name}-{next(self.submitted)}" for _ in range(RUNS)]
        script = [tool("cc_run_program", path="append.lua", args=[word]) for word in words]
        return await api.submit(*script, final(), computers=(name,))

    async def _tasks(self, api: Api, *statuses: str) -> list[str]:
        answers = [await api.ok("GET", "/v1/tasks", status=status, limit=1000) for status in statuses]
        return [row["task_id"] for answer in answers for row in answer["tasks"]]

    async def _review(self, api: Api) -> None:
        """Looks at the computer, as a person would, where the outcome of a run is not known."""
        with contextlib.suppress(OSError, WebSocketException):
            async with api.reviewer() as socket:
                async for frame in socket:
                    message = decoded(frame)
                    opened = [message["request"]] if "request" in message else message.get("requests", [])
                    for request in opened:
                        await socket.send(self._decide(request))

    def _decide(self, request: dict[str, Any]) -> str:
        (call,) = request["tool_calls"]
        (line,) = call["args"]["args"]
        action = "approve"
        if request["reason"] == "outcome_unknown":
            action = "mark_done" if line in self.lines(call["computer"]) else "retry"
        self.decided[action] += 1
        resume = {"action": action, "expected_digest": request["action_digest"]}
        request_id = request["request_id"]
        return json.dumps({"type": "decide", "ref": request_id, "request_id": request_id, "resume": resume})

    async def check(self) -> int:
        """Every task has ended well, and each of its lines is there once; how many tasks there were."""
        api = self.server.api()
        assert not await self._tasks(api, *OPEN), "a task is stuck"
        finished = await self._tasks(api, "Completed", "Failed", "Canceled")
        wanted: Counter[str] = Counter()
        for task_id in finished:
            items = await api.journal(task_id)
            check_laws(items)
            assert ended(items).status == "Completed", ended(items)
            wanted.update(reply["tool_call"]["args"]["args"][0] for reply in _script(items) if "tool_call" in reply)
        found = Counter(line for pc in self.computers for line in self.lines(pc.name))
        assert found == wanted, f"lost: {wanted - found}, twice: {found - wanted}"
        return len(finished)


def _script(items: list[Any]) -> list[dict[str, Any]]:
    script: list[dict[str, Any]] = json.loads(items[0].fact.prompt)
    return script


async def _moment(village: Village, number: int) -> None:
    """Each third comes soon after the start, also before the computers are back; the others in the midst of work."""
    if number % 3:
        await within(village.happens(village.rng.randint(1, AT_MOST_ITEMS)))
        await asyncio.sleep(village.rng.uniform(0.0, 0.05))
    else:
        await asyncio.sleep(village.rng.uniform(0.0, 0.6))


async def _kill(village: Village, number: int) -> None:
    """Let it work for a moment, then kill the server, and now and then a computer with it."""
    moment = asyncio.create_task(_moment(village, number))
    living = asyncio.create_task(village.life())
    await asyncio.wait((living, moment), return_when=asyncio.FIRST_COMPLETED)
    if not moment.done():
        moment.cancel()
        await living
        raise AssertionError("nobody works, and the server was not killed")
    await moment
    victims = [pc for pc in village.computers if village.rng.random() < 0.2]
    village.server.kill()
    for pc in victims:
        pc.kill()
    await within(living)
    await village.server.close()
    village.server.start()
    for pc in victims:
        pc.boot()


async def _survive(tmp: Path, kills: int, seed: int) -> None:
    home = tmp / "home"
    home.mkdir()
    (home / "policy.toml").write_text(POLICY, "utf-8")
    server = Server(home)
    server.start()
    try:
        async with computer(server, tmp) as one, computer(server, tmp) as other:
            for pc in (one, other):
                pc.write("append.lua", PROGRAM)
                pc.boot()
            village = Village(server, [one, other], random.Random(seed))
            for number in range(kills):
                await _kill(village, number)
            async with asyncio.timeout(HANG_S):
                await village.life(quiet=True)
            assert await village.check() >= kills / 4, "hardly any work was done"
    finally:
        await server.close()
        server.kill()


@pytest.mark.deep
@pytest.mark.parametrize(
    ("kills", "seed"),
    [(8, 1), pytest.param(200, 2, marks=[pytest.mark.deep, pytest.mark.timeout(900)])],
)
async def test_kill_9_at_random_moments(tmp_path: Path, kills: int, seed: int) -> None:
    """Server killed again and again, computers now and then: each line is there once, and every task ends."""
    try:
        await _survive(tmp_path, kills, seed)
    except BaseException as error:
        error.add_note(last_words(tmp_path / "home" / "server.log"))
        raise
