"""kill -9 around the outbox: each notification comes at least once, has one id, and is marked as sent."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from orchestrator.adapters.store import open_store
from orchestrator.core.approval.notices import notable
from orchestrator.core.ports import Store
from orchestrator.core.task.facts import TaskId
from orchestrator.engine import notifications
from orchestrator.runtime.clock import SystemClock
from tests.harness.processes import DyingStore, Kill, prompt, start_server
from tests.harness.receiver import Receiver, receiving
from tests.harness.support import call, final, says
from tests.servers import free_port
from tests.waiting import HANG_S, within

SCRIPT = prompt(says(call("local_write", path="plan.txt", content="new\n")), final())
JOURNAL = ("append",)
OUTBOX = ("replace_notices",)
SIDES = ("before", "after")
POINTS = [
    # Of the request: spread over the rules, begun, marked; then the same of the end.
    *((OUTBOX, at, side) for at in (1, 2, 3) for side in SIDES),
    *(pytest.param(OUTBOX, at, side, marks=pytest.mark.deep) for at in (4, 5, 6) for side in SIDES),
    (JOURNAL, 5, "before"),
    (JOURNAL, 5, "after"),
    *(pytest.param(JOURNAL, at, side, marks=pytest.mark.deep) for at in (1, 2, 3, 4) for side in SIDES),
]


@dataclass(frozen=True)
class Dying:
    """The store of a server that kills itself; an attempt that it left counts as ended sooner than else."""

    kill: Kill | None = None

    def __call__(self, store: Store) -> Any:
        notifications.ATTEMPT_S, notifications.LOOK_S, notifications.DUTY_S = 1.0, 0.1, 3.0  # type: ignore[misc]
        return store if self.kill is None else DyingStore(store, self.kill)


async def _task(http: httpx2.AsyncClient, key: str) -> dict[str, Any]:
    """Submit the task, or find it submitted; once it waits or is over."""
    sent = {"prompt": SCRIPT, "idempotency_key": key}
    answer = await http.post("/v1/tasks", json=sent)
    assert answer.status_code == 201, answer.text
    task_id = answer.json()["task_id"]
    async with http.stream("GET", f"/v1/tasks/{task_id}/events") as events:
        async for line in events.aiter_lines():
            if line in ("event: review_requested", "event: task_ended"):
                break
    task: dict[str, Any] = (await http.get(f"/v1/tasks/{task_id}")).json()
    return task


async def _through(http: httpx2.AsyncClient, receiver: Receiver) -> str:
    """The task to its end, and until the receiver has both messages; its id."""
    task = await _task(http, "the-one")
    if task["request"] is not None:
        await receiver.until(lambda one: "waits_for_you" in {event["kind"] for event in one.events})
        decided = await http.post(f"/v1/approve/{task['request']['request_id']}", json={})
        assert decided.status_code in (200, 202, 409), decided.text
    await receiver.until(lambda one: {event["kind"] for event in one.events} >= {"waits_for_you", "finished"})
    return str(task["task_id"])


def _client(url: str, home: Path) -> httpx2.AsyncClient:
    token = (home / "admin.token").read_text("utf-8").strip()
    return httpx2.AsyncClient(
        base_url=url, headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=HANG_S
    )


async def _marked(url: str, home: Path, receiver: Receiver) -> str:
    """The task to its end, until both messages came and are marked as sent; its id."""
    async with _client(url, home) as http:
        task_id = await within(_through(http, receiver))
        rows: list[dict[str, Any]] = []
        while [one["state"] for one in rows] != ["sent", "sent"]:
            rows = (await http.get("/v1/notifications")).json()["notifications"]
    return task_id


async def _sent(url: str, task_id: str) -> tuple[set[str], set[tuple[str, str]]]:
    """The events that the journal has to tell, and the rows of the outbox with their states."""
    store = open_store(url, clock=SystemClock())
    try:
        items = await store.read(TaskId(task_id))
        wanted = {f"{task_id}.{item.version}" for item in items if notable(item.fact) is not None}
        return wanted, {(row.event, row.state) for row in await store.list_notices()}
    finally:
        await store.close()


@pytest.mark.parametrize(("operations", "at", "side"), POINTS, ids=str)
async def test_a_kill_loses_no_notification(tmp_path: Path, operations: tuple[str, ...], at: int, side: str) -> None:
    port, armed = free_port(), tmp_path / "armed"
    home = tmp_path / "data"
    kill = Kill(at, side, operations, armed)
    async with receiving() as receiver:
        first, url = start_server(home, port, wrap_store=Dying(kill), workspace=tmp_path)
        async with _client(url, home) as http:
            body = {"name": "hook", "kinds": ["waits_for_you", "finished", "failed"], "url": receiver.url}
            made = (await http.post("/v1/notifications/rules", json=body)).json()
            armed.touch()
            through = asyncio.create_task(_through(http, receiver))
            assert await first.gone() == -9
            through.cancel()
            await asyncio.gather(through, return_exceptions=True)
        second, url = start_server(home, port, wrap_store=Dying(), workspace=tmp_path)
        task_id = await _marked(url, home, receiver)
        assert second.stop() == 0
    await _checked(f"sqlite:///{home / 'orchestrator.db'}", task_id, receiver, made["signing_key"])


async def _checked(url: str, task_id: str, receiver: Receiver, key: str) -> None:
    """Each event came, each message has one id and a signature, no two were sent at once, and all are marked."""
    wanted, marked = await _sent(url, task_id)
    assert len(wanted) == 2
    assert marked == {(event, "sent") for event in wanted}
    assert {event["id"] for event in receiver.events} == wanted
    assert all(one.is_signed(key) for one in receiver.taken)
    of_event = {(one.told["events"][0]["id"], one.headers["webhook-id"]) for one in receiver.taken}
    assert len(of_event) == 2, "the same message has the same id"
    assert receiver.most_at_once == 1


@pytest.mark.parametrize("at", [pytest.param(1, marks=pytest.mark.deep), 2, pytest.param(3, marks=pytest.mark.deep)])
async def test_another_node_goes_on_after_a_kill(tmp_path: Path, postgres_url: str, at: int) -> None:
    """The first node has the job and dies in it; the second one takes it, and each message is sent and marked."""
    armed, home = tmp_path / "armed", tmp_path / "data"
    shared: dict[str, Any] = {"store": postgres_url, "bus": postgres_url, "workspace": tmp_path, "lease_s": 5.0}
    async with receiving() as receiver:
        first, url = start_server(home, wrap_store=Dying(Kill(at, "after", OUTBOX, armed)), **shared)
        async with _client(url, home) as http:
            body = {"name": "hook", "kinds": ["waits_for_you", "finished", "failed"], "url": receiver.url}
            made = (await http.post("/v1/notifications/rules", json=body)).json()
        second, url = start_server(tmp_path / "other", wrap_store=Dying(), **shared)
        armed.touch()
        task_id = await _marked(url, home, receiver)
        assert await first.gone() == -9
        assert second.stop() == 0
    await _checked(postgres_url, task_id, receiver, made["signing_key"])
