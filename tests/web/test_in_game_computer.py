"""The player's `cc` in the game: the real Lua client on a simulated computer, typed at, against the real server."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from cc_client.simulator.install import install
from tests import forked
from tests.harness.simulating import playing
from tests.harness.support import Listening, call, final, says
from tests.harness.whole_server import Server, running
from tests.waiting import HANG_S

ASKS = says(call("ask_user", question="Which farm?"), explanation="I have to know.")
STARTUP = 'shell.run("/.cc-orchestrator/boot.lua --startup /startup.lua")\n'


@dataclass
class Game:
    """A computer that is on, and its screen."""

    process: asyncio.subprocess.Process

    async def sees(self, text: str) -> str:
        """The new row of the screen with this text."""
        assert self.process.stdout is not None
        seen = []
        try:
            async with asyncio.timeout(HANG_S):
                while line := await self.process.stdout.readline():
                    seen.append(line.decode().rstrip())
                    if seen[-1].startswith("screen") and text in seen[-1]:
                        return seen[-1]
        except TimeoutError:
            pass
        raise AssertionError(f"{text!r} never came:\n" + "\n".join(seen))

    async def unload(self) -> None:
        """The chunk is unloaded: everything stops, and nobody is told."""
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()


def computer(directory: Path, url: str, token: str) -> Path:
    """The disk of a computer on which the client is installed."""
    disk = directory / "disk"
    disk.mkdir()
    install(disk, f"ws{url.removeprefix('http')}/computer", token)
    (disk / "startup.lua").write_text(STARTUP, "utf-8")
    return disk


@asynccontextmanager
async def game(disk: Path, *typed: str, family: str = "advanced") -> AsyncIterator[Game]:
    """The computer boots, and somebody types these lines, each as soon as it asks for one."""
    lines = [word for line in typed for word in ("--type", line)]
    command = ("--bare", "--disk", str(disk), "--screen", "-", "--family", family, *lines)
    process = await forked.start_simulator(*command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
    try:
        yield Game(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def only_task(server: Server) -> dict[str, Any]:
    """The one task that the server has."""
    (task,) = (await server.ask("GET", "/v1/tasks")).json()["tasks"]
    return dict(task)


async def answers(server: Server, task_id: str) -> list[str]:
    """What people answered to the questions of a task."""
    found = (await server.ask("GET", f"/v1/audit?task={task_id}&kind=question_answered")).json()["items"]
    return [one["fact"]["answer"] for one in found]


@pytest.mark.parametrize("family", ["advanced", "computer"])
async def test_ask_shows_the_steps_and_the_question_survives_the_chunk(tmp_path: Path, family: str) -> None:
    """The chunk is unloaded in the middle: the task goes on, and after the next boot its question is answered."""
    model = Listening(says(call("send_status", message="I look at it.")), ASKS, final("all is well"))
    async with running(tmp_path / "server", model=model) as server:
        disk = computer(tmp_path, server.url, await server.computer("3"))
        async with game(disk, 'cc ask "where is my farm"', family=family) as here:
            await here.sees("q leaves, and it goes on.")
            await here.sees("I look at it.")
            await here.sees("Which farm?")
            await here.unload()
        task = await only_task(server)
        assert (task["prompt"], task["status"], task["user_id"]) == ("where is my farm", "Paused", "admin")
        async with game(disk, "cc tasks", "cc answer the river", f"cc watch {task['task_id']}", family=family) as here:
            await here.sees("waiting for an answer")
            await here.sees("Which farm?")
            await here.sees("Answered.")
            await here.sees("Done. The model says: all is well")
        assert "the river" in model.told
        assert (await only_task(server))["status"] == "Completed"


async def test_a_number_picks_a_task_of_the_list_and_a_choice_of_its_question(tmp_path: Path) -> None:
    """Where several tasks fit, they are listed, and a number means the one that stood there; alone it is a choice."""
    asks = says(call("ask_user", question="Which farm?", options=["the wheat farm", "the cactus farm"]))
    over = final("all is well", success=False)
    model = Listening(asks, asks, asks, over, over)
    async with running(tmp_path / "server", model=model) as server:
        disk = computer(tmp_path, server.url, await server.computer("3"))
        first, second, third = [await server.submit(("3",)) for _ in range(3)]
        for task_id in (first, second, third):
            await server.until(task_id, "question_asked")
        typed = ("cc stop", "cc stop 3", "cc answer 2", "cc answer 2 2", "cc answer 1")
        async with game(disk, *typed, family="computer") as here:
            await here.sees("More than one task is open:")
            await here.sees("cc stop 2 picks the second")
            await here.sees(f"Stopped: {first}.")
            await here.sees("More than one task asks something:")
            await here.sees("cc answer 2 TEXT picks the second")
            await here.sees(f"Answered. `cc watch {second}`")
            await here.sees(f"Answered. `cc watch {third}`")
        for task_id, picked in ((second, "the cactus farm"), (third, "the wheat farm")):
            await server.until(task_id, "task_ended")
            assert await answers(server, task_id) == [picked]
        told = {messages[-1].content.split("\n")[0] for messages in model.asked}
        assert {"TOOL_RESULT: the cactus farm", "TOOL_RESULT: the wheat farm"} <= told


async def test_the_choices_stand_below_their_question(tmp_path: Path) -> None:
    """Where the task is followed, in `cc tasks`, and in what `cc answer` alone shows."""
    asks = says(call("ask_user", question="Which farm?", options=["the wheat farm", "the cactus farm"]))
    async with running(tmp_path / "server", model=Listening(asks, final("all is well"))) as server:
        disk = computer(tmp_path, server.url, await server.computer("3"))
        async with game(disk, "cc ask where is it", family="computer") as here:
            for row in ("? Which farm?", "1. the wheat farm", "2. the cactus farm", "Type its number: cc answer 1."):
                await here.sees(row)
        async with game(disk, "cc tasks", "cc answer", "cc answer the third one", family="computer") as here:
            for _ in range(2):
                for row in ("? Which farm?", "2. the cactus farm", "NUMBER or TEXT answers."):
                    await here.sees(row)
            await here.sees("Answered.")
        assert await answers(server, (await only_task(server))["task_id"]) == ["the third one"]


async def test_the_server_restarts_in_the_middle(tmp_path: Path) -> None:
    """Who follows a task is told of it again by the next server, which begins no second task."""
    async with AsyncExitStack() as stack:
        async with running(tmp_path / "server", store="", model=Listening(ASKS)) as server:
            port = urlsplit(server.url).port
            disk = computer(tmp_path, server.url, await server.computer("3"))
            here = await stack.enter_async_context(game(disk, "cc ask where is my farm"))
            await here.sees("Which farm?")
        await here.sees("not connected")
        async with running(
            tmp_path / "server", store="", model=Listening(final("it stands there")), port=port
        ) as server:
            task = await only_task(server)
            question = (await server.ask("GET", f"/v1/tasks/{task['task_id']}")).json()["question"]
            answer = {"question_id": question["question_id"], "answer": "the river"}
            assert (await server.ask("POST", f"/v1/tasks/{task['task_id']}/answer", answer)).status_code == 200
            await here.sees("Done. The model says: it stands there")
            assert (await only_task(server))["task_id"] == task["task_id"]


async def test_a_question_that_came_meanwhile_stands_in_the_status(tmp_path: Path) -> None:
    """On an advanced computer the client's own tab says it; `cc status` says it everywhere."""
    async with running(tmp_path / "server", model=Listening(ASKS)) as server:
        disk = computer(tmp_path, server.url, await server.computer("3"))
        await server.until(await server.submit(("3",)), "question_asked")
        async with game(disk, "cc tasks", "cc status", family="computer") as here:
            await here.sees("? Which farm?")
            await here.sees("asks: Which farm?")


async def test_a_long_question_waits_to_be_read(tmp_path: Path) -> None:
    """No line of it leaves the screen before the player has pressed a key."""
    words = [f"word{number:03}" for number in range(300)]
    ask = says(call("ask_user", question=" ".join(words)), explanation="I have to know.")
    async with running(tmp_path / "server", model=Listening(ask)) as server:
        disk = computer(tmp_path, server.url, await server.computer("3"))
        await server.until(await server.submit(("3",)), "question_asked")
        async with playing(disk, "--family=computer", "--type=cc tasks") as player:
            seen = [await player.see("-- more")]
            while words[-1] not in seen[-1]:
                await player.do("key enter")
                seen.append(await player.see(f"word{int(seen[-1].split('word')[-1][:3]) + 1:03}"))
    assert {word for word in words if word not in " ".join(seen)} == set()


@pytest.mark.deep
@pytest.mark.parametrize("family", ["advanced", "computer"])
async def test_what_a_task_changed_is_put_back_at_the_computer(tmp_path: Path, family: str) -> None:
    """A task that failed says what it had changed and how it is put back; so it is typed, and the file is as before."""
    policy = tmp_path / "policy.toml"
    policy.write_text('[[rules]]\nid = "all"\neffect = "allow"\ntools = ["*"]\n', "utf-8")
    write = says(call("cc_write", path="farm.lua", content="print(1)\n"))
    model = Listening(write, final("it does not run", success=False))
    async with running(tmp_path / "server", model=model, policy=policy) as server:
        disk = computer(tmp_path, server.url, await server.computer("3"))
        farm = disk / "farm.lua"
        farm.write_text("print(0)\n", "utf-8")
        async with game(disk, "cc ask fix my farm", family=family) as here:
            await here.sees("Failed. The model says: it does not run")
            await here.sees("It had changed farm.lua. `cc undo t-")
            assert farm.read_text("utf-8") == "print(1)\n"
        async with game(disk, "cc undo", "cc undo", family=family) as here:
            await here.sees("Planned by the orchestrator for")
            await here.sees("Done: 1 put back.")
            assert farm.read_text("utf-8") == "print(0)\n"
            await here.sees("None of the last tasks here left something")


async def test_without_a_connection_nothing_is_asked(tmp_path: Path) -> None:
    """What keeps it from connecting is known by then, and said at once."""
    disk = computer(tmp_path, "http://127.0.0.1:1", "no token")
    async with game(disk, "cc ask where is my farm") as here:
        await here.sees("Not connected: Nothing answers at port 1")
