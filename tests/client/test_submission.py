"""Submitting once: the key of a task, and what a client does whose answer was lost."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from orchestrator.adapters.models.scripted import ScriptedModel
from orchestrator.client import Client, ServerUnreachable
from tests.harness.processes import Kill, prompt
from tests.harness.support import final
from tests.harness.whole_server import running
from tests.story.harness import Server
from tests.story.harness import final as ending
from tests.web.test_web import refused

TASK: dict[str, Any] = {"prompt": "Count.", "max_steps": 3, "session_id": "evening", "priority": 1}


async def test_a_key_begins_one_task(tmp_path: Path) -> None:
    """In the body or as a header, again and at the same time; another person's key is theirs, and no key is none."""
    async with running(tmp_path, model=ScriptedModel([final()])) as server:
        keyed = {**TASK, "idempotency_key": "k-1"}
        answers = await asyncio.gather(*(server.ask("POST", "/v1/tasks", keyed) for _ in range(5)))
        assert {one.status_code for one in answers} == {201}
        (task_id,) = {one.json()["task_id"] for one in answers}
        await server.until(task_id, "task_ended")
        by_header = await server.ask("POST", "/v1/tasks", TASK, **{"Idempotency-Key": "k-1"})
        assert by_header.json() == {"task_id": task_id, "status": "Completed"}
        bob = await server.person("bob", "submitter")
        theirs = await server.ask("POST", "/v1/tasks", {**keyed, "session_id": ""}, token=bob)
        others = [await server.ask("POST", "/v1/tasks", TASK) for _ in range(2)]
        assert len({task_id, *(one.json()["task_id"] for one in (theirs, *others))}) == 4


async def test_a_key_is_for_one_task(tmp_path: Path) -> None:
    """With anything else than before it is 409 and names the task; what is left to the settings may be left out."""
    async with running(tmp_path, model=ScriptedModel([final()])) as server:
        keyed = {**TASK, "idempotency_key": "k-1"}
        task_id = (await server.ask("POST", "/v1/tasks", keyed)).json()["task_id"]
        for other in (
            {"prompt": "Count on."},
            {"max_steps": 4},
            {"session_id": "morning"},
            {"priority": 2},
            {"read_only": True},
            {"wait_for_model": True},
            {"rehearse": True},
            {"computers": ["nowhere"]},
            {"model": "another"},
            {"on_reject": "continue"},
        ):
            error = refused(await server.ask("POST", "/v1/tasks", {**keyed, **other}), 409, "invalid_decision")
            assert error["message"] == "This idempotency key was used for another task."
            details: Any = error["details"]
            assert details == {"used_for": task_id}
        less = {"prompt": "Count.", "priority": 1, "idempotency_key": "k-1"}
        assert (await server.ask("POST", "/v1/tasks", less)).json()["task_id"] == task_id
        long = await server.ask("POST", "/v1/tasks", {**TASK, "idempotency_key": "k" * 201})
        refused(long, 422, "invalid_request")


async def test_a_lost_answer_begins_no_second_task(tmp_path: Path) -> None:
    """The server dies in the moment in which the task is durable: the client asks the next one, and gets that task."""
    server = Server(tmp_path / "home")
    armed = tmp_path / "armed"
    server.start(Kill(at=1, side="after", operations=("create",), armed=armed))
    api = server.api()
    try:
        client = Client(server.url, str(api.token))
        armed.touch()
        submitting = asyncio.create_task(asyncio.to_thread(client.submit, {"prompt": prompt(ending())}))
        assert server.process is not None
        await server.process.gone()
        server.start()
        task_id = (await submitting)["task_id"]
        tasks = (await api.ok("GET", "/v1/tasks"))["tasks"]
        assert [one["task_id"] for one in tasks] == [task_id]
        client.close()
    finally:
        await server.close()
        server.kill()


def test_where_nothing_was_sent_it_says_so_at_once() -> None:
    """Nobody waits for a server that never was there."""
    client = Client("http://127.0.0.1:9", "t")
    waited: list[float] = []
    with pytest.raises(ServerUnreachable) as caught:
        client.submit({"prompt": "x"}, pause=waited.append)
    assert (waited, caught.value.may_have_arrived) == ([], False)
    client.close()
