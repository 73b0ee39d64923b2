"""A worker of the audit bench: a SQLite store full of tasks that are over, with five items each."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from bench.measure import Spent
from bench.worker import answer_all, options, own_directory, run
from orchestrator.adapters.store import open_store
from orchestrator.core.audit.wanted import Wanted
from orchestrator.core.ports import Store
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import NodeStopped
from orchestrator.history.audit import (
    Checkpoints,
    Place,
    Reach,
    make_checkpoint,
    newest_of,
    news_of,
    page_of,
    verify_store,
)
from orchestrator.testing import ManualClock
from orchestrator.testing.drafts import REPLY, Author

AT_ONCE: Final = 200
LIMIT: Final = 50


def named(number: int) -> TaskId:
    return TaskId(f"t-{number:07}")


class Bench:
    """The store, and what is asked of it."""

    def __init__(self, store: Store, directory: Path, clock: ManualClock) -> None:
        self.store, self.directory, self.clock = store, directory, clock
        self.author = Author(self.clock)
        self.checkpoints = Checkpoints(directory)
        self.tasks = 0
        self.signed_at = self.clock.now()

    async def fill(self, tasks: int) -> dict[str, float]:
        """So many tasks."""

        async def one(number: int) -> None:
            await self.store.create(named(number), [self.author.submitted()])
            drafts = [*self.author.proposed(), self.author.ended()]
            await self.store.append(named(number), 1, drafts, status=TaskStatus.CANCELED, blobs=[REPLY])

        for start in range(0, tasks, AT_ONCE):
            await asyncio.gather(*(one(number) for number in range(start, min(tasks, start + AT_ONCE))))
        await self.store.record([self.author.draft(NodeStopped())])
        self.tasks = tasks
        # What changed within some minutes is looked at again, since the clocks of nodes differ.
        self.signed_at = self.clock.advance(3600)
        return {}

    async def change(self) -> dict[str, float]:
        """One more task."""
        self.clock.advance(3600)
        await self.store.create(named(self.tasks), [self.author.submitted()])
        self.tasks += 1
        return {}

    async def checkpoint(self, everything: bool) -> dict[str, float]:
        """One, with its note."""
        with Spent() as spent:
            since = None if everything else self.signed_at
            now = self.clock.now()
            news = await news_of(self.store, self.checkpoints, since)
            made = await make_checkpoint(self.store, self.checkpoints, now, news=news)
            await self.store.record([self.author.draft(made)])
        self.signed_at = now
        return spent.per(1)

    async def verify(self, full: bool) -> dict[str, float]:
        """All streams, or those that changed."""
        with Spent() as spent:
            found = await verify_store(self.store, Checkpoints(self.directory), full=full)
        assert found.faults == (), found.faults[:3]
        return {**spent.per(1), "read": found.read, "items": found.items}

    async def page(self, order: str, last: bool) -> dict[str, float]:
        """One page."""
        read = newest_of if order == "newest" else page_of
        after = None
        if last:
            after = Place(named(9), 5) if order == "newest" else Place(named(self.tasks - 10), 1)
        with Spent() as spent:
            page = await read(self.store, Reach(), Wanted(), after, LIMIT)
        assert page.items
        return spent.per(1)


async def serve(directory: Path) -> None:
    """Answer until nobody asks any more."""
    clock = ManualClock()
    store = open_store(f"sqlite:///{directory / 'audit.db'}", clock=clock)
    bench = Bench(store, directory, clock)
    does: dict[str, Callable[..., Awaitable[dict[str, float]]]] = {
        "fill": bench.fill,
        "change": bench.change,
        "checkpoint": bench.checkpoint,
        "verify": bench.verify,
        "page": bench.page,
    }

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        return dict(await does[request.pop("do")](**request))

    try:
        await answer_all(answer)
    finally:
        await store.close()


if __name__ == "__main__":
    place = own_directory(options())
    run(lambda: serve(place))
