"""kill -9 of the server at every item boundary of the demo's task, and a start on the same file."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from websockets.exceptions import WebSocketException

from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from tests.harness.processes import ALL_WRITES, Kill
from tests.story.harness import (
    Api,
    Computer,
    Server,
    check_laws,
    computer,
    decoded,
    each,
    ended,
    facts_of,
    final,
    kinds,
    last_words,
    tool,
)

PROGRAM = "local log = fs.open('ran.log', 'a') log.write('ran\\n') log.close() print('Hello, world!')\n"
SCRIPT = (tool("cc_write", path="hello.lua", content=PROGRAM), tool("cc_run_program", path="hello.lua"), final())
_STEP = (
    ("model_replied", "calls_proposed"),
    ("review_requested",),
    ("decision_recorded",),
    ("tool_started",),
    ("tool_finished", "model_asked"),
)
APPENDS = [("task_submitted",), ("model_asked",), *_STEP, *_STEP, ("model_replied", "task_ended")]
"""The transactions of the task's journal when nothing goes wrong: the boundaries."""
SIDES = ("before", "after")
STEPS = [kind for append in APPENDS for kind in append]


class Reviewer:
    """Approves each request that is open, and must never be shown one whose decision was recorded."""

    def __init__(self) -> None:
        self.recorded: set[str] = set()

    async def work(self, api: Api) -> None:
        """Decide on one connection until it is over."""
        with contextlib.suppress(OSError, WebSocketException):
            async with api.reviewer() as socket:
                async for frame in socket:
                    message = decoded(frame)
                    match message["type"]:
                        case "snapshot":
                            opened = message["requests"]
                        case "request_opened":
                            opened = [message["request"]]
                        case "done":
                            self.recorded.add(message["ref"])
                            continue
                        case _:
                            assert message["type"] == "request_closed", message
                            continue
                    for request in opened:
                        request_id = request["request_id"]
                        assert request_id not in self.recorded, "asked again what was decided"
                        assert request["reason"] == "approval", request
                        resume = {"action": "approve", "expected_digest": request["action_digest"]}
                        await socket.send(_decide(request_id, resume))


def _decide(request_id: str, resume: dict[str, str]) -> str:
    return json.dumps({"type": "decide", "ref": request_id, "request_id": request_id, "resume": resume})


async def _survive(tmp: Path, kill: Kill, *, both: bool) -> None:
    """Play the task through a kill; with ``both`` the computer dies in the same moment."""
    server = Server(tmp / "home")
    await asyncio.to_thread(server.start)
    try:
        async with computer(server, tmp) as pc:
            await server.close()
            server.kill()
            items = await _two_lives(server, pc, kill, both=both)
            _check(items, pc)
            await _computer_is_free(server, pc)
    finally:
        await server.close()
        server.kill()


async def _two_lives(server: Server, pc: Computer, kill: Kill, *, both: bool) -> list[AgentTaskItem]:
    reviewer = Reviewer()
    await asyncio.to_thread(server.start, kill)
    pc.boot()
    reviewing = asyncio.create_task(reviewer.work(server.api()))
    task_id = await _submitted(server.api(), pc)
    assert server.process is not None
    ending = asyncio.create_task(_end_of(server.api(), task_id))
    died = asyncio.create_task(server.process.gone())
    await asyncio.wait((ending, died), return_when=asyncio.FIRST_COMPLETED)
    if ending.done() and not ending.exception() and ending.result():
        # The kill was due after the last of the operations.
        server.kill()
    await asyncio.gather(ending, died, reviewing, return_exceptions=True)
    if both:
        pc.kill()
    await server.close()
    await asyncio.to_thread(server.start)
    if both:
        pc.boot()
    reviewing = asyncio.create_task(reviewer.work(server.api()))
    try:
        task_id = await _the_task(server.api()) or await _submitted(server.api(), pc)
        items = await server.api().journal(task_id)
    finally:
        reviewing.cancel()
        await asyncio.gather(reviewing, return_exceptions=True)
    assert len(facts_of(items, facts.DecisionRecorded)) == 2
    return items


async def _submitted(api: Api, pc: Computer) -> str:
    """The id of the submitted task; empty when the server died at it."""
    with contextlib.suppress(httpx2.TransportError):
        return await api.submit(*SCRIPT, computers=(pc.name,))
    return ""


async def _end_of(api: Api, task_id: str) -> bool:
    """Whether the task's end was seen before the server died."""
    if task_id:
        with contextlib.suppress(httpx2.TransportError):
            return kinds(await api.journal(task_id))[-1] == "task_ended"
    return False


async def _the_task(api: Api) -> str:
    """The one task of the store; empty when the submission never got there, and nobody was told that it had."""
    tasks = (await api.ok("GET", "/v1/tasks"))["tasks"]
    assert len(tasks) <= 1
    return str(tasks[0]["task_id"]) if tasks else ""


def _check(items: list[AgentTaskItem], pc: Computer) -> None:
    check_laws(items)
    assert ended(items).status == "Completed"
    assert pc.read("hello.lua") == PROGRAM.encode()
    assert pc.read("ran.log") == b"ran\n"
    assert len(facts_of(items, facts.ReviewRequested)) == 2
    happened = kinds(items)
    # A repeated question to the model, or a void run, is all that a kill may add.
    extra = [kind for kind in set(happened) if happened.count(kind) > STEPS.count(kind)]
    assert set(extra) <= {"model_asked", "tool_started", "tool_settled"}, happened


async def _computer_is_free(server: Server, pc: Computer) -> None:
    """Another task gets the computer: no claim stayed behind."""
    api = server.api()
    items = await api.journal(await api.submit(tool("cc_list", path="/"), final(), computers=(pc.name,)))
    assert ended(items).status == "Completed"


async def test_the_boundaries_are_those_of_the_task(tmp_path: Path) -> None:
    """The journal of the task when nothing is killed is the one whose boundaries are tried."""
    server = Server(tmp_path / "home")
    server.start()
    try:
        async with computer(server, tmp_path) as pc:
            pc.boot()
            reviewing = asyncio.create_task(Reviewer().work(server.api()))
            items = await server.api().journal(await server.api().submit(*SCRIPT, computers=(pc.name,)))
            assert kinds(items) == STEPS
            reviewing.cancel()
    finally:
        await server.close()
        server.kill()


async def _at_boundaries(tmp: Path, sides: Callable[[int], str], *, both: bool, step: int = 1) -> None:
    cases = {}
    for at, facts_made in list(enumerate(APPENDS, start=1))[::step]:
        name = f"{sides(at)}-{at:02}-{facts_made[0]}"
        cases[name] = _survive(tmp / name, Kill(at, sides(at)), both=both)
    await each(cases, lambda name: last_words(tmp / name / "home" / "server.log", tmp / name / "c0.log"))


async def test_a_killed_server_ends_the_task_by_itself_at_every_fourth_boundary(tmp_path: Path) -> None:
    """Wherever the server dies, the next one on its file ends the task: decided once, written once, run once.

    In turn before and after what is written; in depth both at each.
    """
    await _at_boundaries(tmp_path, lambda at: SIDES[at // 4 % 2], both=False, step=4)


@pytest.mark.deep
async def test_a_server_killed_with_its_computer_ends_the_task_at_every_sixth_boundary(tmp_path: Path) -> None:
    """The same where the computer dies, too; in depth at each."""
    await _at_boundaries(tmp_path, lambda at: SIDES[at // 6 % 2], both=True, step=6)


@pytest.mark.deep
@pytest.mark.parametrize("both", [False, True], ids=["server", "server and computer"])
@pytest.mark.parametrize("side", SIDES)
async def test_a_kill_on_each_side_of_every_boundary(tmp_path: Path, side: str, *, both: bool) -> None:
    """Before and after each."""
    await _at_boundaries(tmp_path, lambda _: side, both=both)


@pytest.mark.deep
@pytest.mark.parametrize("side", SIDES)
async def test_a_killed_server_ends_the_task_by_itself_at_every_write(tmp_path: Path, side: str) -> None:
    """The same at every write to the store: leases, claims, numbers and parking are boundaries too."""
    kills = [Kill(at, side, ALL_WRITES) for at in range(1, 61)]
    cases = {f"{side}-{kill.at:02}": _survive(tmp_path / str(kill.at), kill, both=False) for kill in kills}
    await each(cases, lambda name: last_words(tmp_path / str(int(name[-2:])) / "home" / "server.log"))
