"""A worker of the append bench: the port's ``append`` on the SQLite store, and bare ``sqlite3`` beside it.

Bare means what as many independent writers need and no more: for each append one row of the same
size into the journal and one update of its task's head; the item is bytes already, and there is no
number, no lease, no check of a version, no thread. One task waits for a commit of its own each time;
a hundred share each commit, as the group commit of the store lets them: no fewer rows, no fewer bytes
and no more flushes than ours. ``sealed`` makes the bytes as well:
canonical JSON, chained by sha256.
"""

import asyncio
import gc
import hashlib
import itertools
import json
import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.measure import Spent
from bench.worker import answer_all, options, own_directory, run
from orchestrator.clock import SystemClock
from orchestrator.core import facts
from orchestrator.core.facts import CallId, TaskId
from orchestrator.core.items import Actor, Draft, ItemId
from orchestrator.core.task import TaskStatus
from orchestrator.core.wire import RunId
from orchestrator.ports import Lease, Store
from orchestrator.store import open_store

TEXT: Final = "-- Stub content for logs/day-17.txt\n" * 4
ACTOR: Final = Actor(kind="computer", id="3")
Measure = Callable[[Path, int, int], Awaitable[dict[str, float]]]
_ids = itertools.count()


def drafted(fact: facts.Fact) -> Draft:
    """A draft with an id of its own."""
    return Draft(item_id=ItemId(f"{next(_ids):024x}"), at=SystemClock().now(), actor=ACTOR, fact=fact)


def outcome() -> Draft:
    """What is appended: a result of a call, of about the usual size."""
    number = next(_ids)
    return drafted(
        facts.ToolFinished(call_id=CallId(f"c{number:016x}"), run_id=RunId(f"c{number:016x}.1"), ok=True, text=TEXT)
    )


async def leased(store: Store, tasks: int) -> list[Lease]:
    """New tasks, all leased."""
    leases: list[Lease] = []
    for _ in range(tasks):
        submitted = facts.TaskSubmitted(
            prompt="p", user_id="bench", session_id="s", model="m", max_steps=0, tag="maple"
        )
        await store.create(TaskId(f"t-{next(_ids):012x}"), [drafted(submitted)])
        lease = await store.lease("bench", 600.0)
        assert lease is not None
        leases.append(lease)
    return leases


async def house(directory: Path, tasks: int, each: int) -> dict[str, float]:
    """Microseconds of an append through the port; every task waits for each of its own."""
    store = open_store(f"sqlite:///{directory / f'appends-{next(_ids)}.db'}", clock=SystemClock())

    async def one(lease: Lease) -> None:
        for version in range(1, each + 1):
            await store.append(lease.task_id, version, [outcome()], status=TaskStatus.RUNNING, token=lease.token)

    try:
        leases = await leased(store, tasks)
        gc.collect()
        with Spent() as spent:
            await asyncio.gather(*(one(lease) for lease in leases))
    finally:
        await store.close()
    return spent.per(tasks * each)


def by_hand(task: int, version: int, previous: str) -> str:
    """An item of about the same size as ours."""
    fact = {"kind": "tool_finished", "call_id": f"c{version:016x}", "run_id": f"c{version:016x}.1", "text": TEXT}
    actor = {"kind": "computer", "id": "3", "auth": ""}
    item = {"item_id": f"{version:024x}", "task": task, "version": version, "actor": actor, "fact": fact}
    at = "2026-11-20T12:00:00.000000Z"
    sealed = {**item, "at": at, "prev_hash": previous, "hash": previous, "role": "tool", "schema": 1}
    return json.dumps(sealed, sort_keys=True, separators=(",", ":"))


async def bare(directory: Path, tasks: int, each: int, *, sealing: bool = False) -> dict[str, float]:
    """Microseconds of the same rows through ``sqlite3`` alone, the store's tables and thread left out."""
    connection = sqlite3.connect(directory / f"{'sealed' if sealing else 'bare'}-{next(_ids)}.db", isolation_level=None)
    for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA fullfsync = ON"):
        connection.execute(statement)
    connection.execute("CREATE TABLE items (task, version, data, PRIMARY KEY (task, version))")
    connection.execute("CREATE TABLE tasks (task PRIMARY KEY, version)")
    connection.executemany("INSERT INTO tasks VALUES (?, 0)", ((task,) for task in range(tasks)))
    data = by_hand(0, 0, "0" * 64)
    heads = ["0" * 64] * tasks
    gc.collect()
    with Spent() as spent:
        for version in range(each):
            connection.execute("BEGIN IMMEDIATE")
            for task in range(tasks):
                if sealing:
                    data = by_hand(task, version, heads[task])
                    heads[task] = hashlib.sha256(data.encode()).hexdigest()
                connection.execute("INSERT INTO items VALUES (?, ?, ?)", (task, version, data))
                connection.execute("UPDATE tasks SET version = ? WHERE task = ?", (version, task))
            connection.execute("COMMIT")
    connection.close()
    return spent.per(tasks * each)


async def main() -> None:
    """Measure as the pipe says."""
    told = options()
    directory = own_directory(told)
    measures: dict[str, Measure] = {"house": house, "bare": bare, "sealed": partial(bare, sealing=True)}
    measure = measures[told["kind"]]

    async def handle(request: dict[str, Any]) -> dict[str, Any]:
        return dict(await measure(directory, request["tasks"], request["each"]))

    await answer_all(handle)


if __name__ == "__main__":
    run(main)
