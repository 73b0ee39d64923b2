"""The time of the database's server stands for all nodes; a machine whose clock is off says so."""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from orchestrator.adapters.store import open_store
from orchestrator.adapters.store.postgres_dialect import ServerTime, StoreClock
from orchestrator.core.task.facts import TaskId
from orchestrator.runtime.clock import SystemClock, ahead_s
from orchestrator.testing.drafts import Author, taken


class Far:
    """A connection to a server whose clock is so many seconds ahead of this machine's."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    async def fetchval(self, _: str) -> int:
        """What time it is there."""
        return int((time.time() + self.ahead_s) * 1_000_000)


async def _asked(server: ServerTime, far: Far) -> None:
    server._asked_at = None
    await server.ask_now_and_then(far)


async def test_the_servers_clock_counts_and_a_machine_that_is_off_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Before it was asked, this machine's stands in; what was said is said again only when it changes."""
    server, far = ServerTime(), Far()
    clock = StoreClock(server)
    assert abs(ahead_s(clock.now())) < 0.5
    with caplog.at_level(logging.WARNING):
        for ahead in (0.0, 75.0, 75.5, -600.0, 0.3):
            far.ahead_s = ahead
            await _asked(server, far)
            assert abs(ahead_s(clock.now()) + ahead) < 0.5
    assert [record.getMessage() for record in caplog.records] == [
        "The clock of this machine is 75 s behind the store's, by which all nodes go: set it.",
        "The clock of this machine is 600 s ahead of the store's, by which all nodes go: set it.",
        "The clock of this machine is right again.",
    ]


Wrong = Callable[[float], None]


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> Wrong:
    """Sets this machine's clock forward by some seconds, for whatever reads it."""

    def set_forward(by_s: float) -> None:
        class Later(datetime):
            @classmethod
            def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
                del tz
                return datetime.now(UTC) + timedelta(seconds=by_s)

        monkeypatch.setattr("orchestrator.runtime.clock.datetime", Later)

    return set_forward


@pytest.mark.parametrize("by_s", [-600.0, 600.0])
async def test_a_store_goes_by_its_servers_clock(postgres_url: str, wrong: Wrong, by_s: float) -> None:
    """What a node with a wrong clock parks for a second by the store's clock is due in a second, and not before."""
    store = open_store(postgres_url, clock=SystemClock())
    try:
        await store.list_tasks()
        wrong(by_s)
        assert ahead_s(store.clock.now()) == pytest.approx(by_s, abs=2)
        task_id = TaskId("t1")
        await store.create(task_id, [Author(store.clock).submitted()])
        lease = await taken(store)
        due = store.clock.now() + timedelta(seconds=0.3)
        await store.park(lease, 1, due=due)
        assert await store.next_due() == due
        assert await store.lease("node-1", 10) is None
        while (left := (due - store.clock.now()).total_seconds()) > 0:  # noqa: ASYNC110 - it is time that passes
            await asyncio.sleep(left)
        assert (await taken(store)).task_id == task_id
    finally:
        await store.close()
