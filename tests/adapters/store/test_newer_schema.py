"""Two versions on one store: a newer one brings the tables forward, by a step that only adds or by one that does not.

The newer version is this one with one more step, which is made up.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from orchestrator.adapters.store import open_store, postgres, schema, sql
from orchestrator.core.errors import NewerSchema, StoreBusy
from orchestrator.core.ports import Store
from orchestrator.core.task.facts import TaskId
from orchestrator.core.wire.wire import ComputerId
from orchestrator.runtime.clock import SystemClock
from orchestrator.testing import ManualClock
from orchestrator.testing.drafts import Author, append, refused, taken

KNOWN: Final = schema.SCHEMA
STEP: Final = (
    "CREATE TABLE dreams (name TEXT PRIMARY KEY, told BIGINT NOT NULL)",
    "ALTER TABLE tasks ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'",
    "ALTER TABLE computers ADD COLUMN mood TEXT",
)
"""One that only adds: tables and columns with a default."""


@contextmanager
def newer(*, adds: bool) -> Iterator[None]:
    """This process is the newer version meanwhile; ``adds``: its step is one that older ones may work with."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (schema, sql):
            patch.setattr(module, "MIGRATIONS", {**schema.MIGRATIONS, KNOWN + 1: STEP})
        for module in (sql, postgres):
            patch.setattr(module, "SCHEMA", KNOWN + 1)
        patch.setattr(sql.migrate, "__kwdefaults__", {"upto": KNOWN + 1})
        if adds:
            patch.setattr(schema, "WORKS_FROM", {KNOWN + 1: KNOWN})
        yield


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def open_one(url: str) -> AsyncIterator[Callable[[], Awaitable[Store]]]:
    """Opens the store as one more node does, which is asked something first; all are closed in the end."""
    stores: list[Store] = []

    async def one() -> Store:
        stores.append(open_store(url, clock=SystemClock()))
        await stores[-1].list_tasks()
        return stores[-1]

    yield one
    for store in stores:
        await store.close()


async def _works(store: Store, name: str) -> None:
    """A task goes its way there."""
    author, task_id = Author(ManualClock()), TaskId(name)
    await store.create(task_id, [author.submitted()])
    lease = await taken(store)
    await append(store, task_id, 1, author.note(), token=lease.token, claim=[ComputerId("3")], release=True)
    await store.park(lease, 2, due=None)
    assert len(await store.read(task_id)) == 2


OpenOne = Callable[[], Awaitable[Store]]


async def test_an_older_version_works_on_after_a_step_that_only_adds(url: str, open_one: OpenOne) -> None:
    """The one that ran meanwhile, where several may, and one that is started after; the newer one beside them, too."""
    older = await open_one()
    await _works(older, "before")
    if not older.shared:
        await older.close()
    with newer(adds=True):
        above = await open_one()
        await _works(above, "by the newer")
        if not above.shared:
            await above.close()
    after = await open_one()
    running = older if older.shared else after
    await _works(running, "by the older")
    await _works(after, "by one started after")
    if above.shared:
        await _works(above, "by the newer again")
    assert len(await after.list_tasks()) == (5 if above.shared else 4)


async def test_a_step_that_does_more_waits_until_the_older_nodes_are_gone(url: str, open_one: OpenOne) -> None:
    """It is refused while one works there, nothing is changed, and then no older one begins any more."""
    older = await open_one()
    with newer(adds=False):
        refusal = await refused(StoreBusy, open_one())
        assert refusal.remedy
        await _works(older, "by the older")
        await older.close()
        above = await open_one()
        await _works(above, "by the newer")
        await above.close()
    assert "newer version" in (await refused(NewerSchema, open_one())).remedy
