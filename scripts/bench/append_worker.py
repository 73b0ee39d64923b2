"""A worker of the append bench: the port's ``append`` on the SQLite store, and floors of bare ``sqlite3``.

``ours``
    Each task appends one item after the other and waits for each. Items have a fact of their own, a
    random id and the time, and come back sealed.
``by_hand``
    The same item without this project: one loop that makes the same fields (own random id, own time),
    their canonical JSON, the sha256 chained to the task's last one, one row in the journal and one
    update of the task's head. There is no port, no thread, no check of a version or a lease, no
    index on item ids and nothing to answer. As the store's group commit lets the tasks do, all of
    them share each commit. It is what an append is held against: one that does not make its item is none.
``rows``
    The same rows and commits, of bytes that are there already: what the disk and SQLite ask for.
``alone``
    The same rows, each with a commit of its own: what the tasks would ask for if they shared none.

All have WAL and ``synchronous=FULL``. What is made by hand is about as long as ours: it is looked at.
"""

import asyncio
import gc
import hashlib
import itertools
import json
import os
import secrets
import sqlite3
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.measure import Spent
from bench.worker import answer_all, options, own_directory, run
from orchestrator.adapters.store import open_store
from orchestrator.core.ports import Lease, Store
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId, TaskId
from orchestrator.core.task.items import GENESIS_HASH, Actor, Draft, ItemId, seal_encoded
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.wire.wire import RunId
from orchestrator.runtime.clock import SystemClock

TEXT: Final = "-- Stub content for logs/day-17.txt\n" * 4
ACTOR: Final = Actor(kind="computer", id="3")
CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
Measure = Callable[[Path, int, int], Awaitable[dict[str, float]]]
_ids = itertools.count()


def drafted(fact: facts.Fact) -> Draft:
    """A draft with an id of its own."""
    return Draft(item_id=ItemId(secrets.token_hex(12)), at=SystemClock().now(), actor=ACTOR, fact=fact)


def outcome() -> Draft:
    """What is appended: a result of a call, of about the usual size."""
    call_id = f"c{next(_ids):016x}"
    fact = facts.ToolFinished(call_id=CallId(call_id), run_id=RunId(f"{call_id}.1"), ok=True, text=TEXT, after={})
    return drafted(fact)


async def leased(store: Store, tasks: int) -> list[Lease]:
    """New tasks, all leased."""
    leases: list[Lease] = []
    for _ in range(tasks):
        submitted = facts.TaskSubmitted(
            prompt="p", user_id="bench", session_id="s", model="m", max_steps=0, tag="maple"
        )
        await store.create(TaskId(f"t-{secrets.token_hex(6)}"), [drafted(submitted)])
        lease = await store.lease("bench", 600.0)
        assert lease is not None
        leases.append(lease)
    return leases


async def ours(directory: Path, tasks: int, each: int) -> dict[str, float]:
    """Microseconds of an append through the port, in a new file."""
    return await through_port(f"sqlite:///{directory / f'{os.getpid()}-{next(_ids)}.db'}", tasks, each)


async def through_port(url: str, tasks: int, each: int) -> dict[str, float]:
    """Microseconds of an append through the port; every task waits for each of its own."""
    store = open_store(url, clock=SystemClock())

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


def made_by_hand(task: str, version: int, previous: str) -> tuple[str, str]:
    """The text of an item like ours, and its hash."""
    call_id = f"c{next(_ids):016x}"
    item = {
        "actor": {"kind": "computer", "id": "3", "auth": ""},
        "at": datetime.now(UTC).isoformat(),
        "fact": {
            "kind": "tool_finished",
            "call_id": call_id,
            "run_id": f"{call_id}.1",
            "ok": True,
            "code": None,
            "text": TEXT,
            "after": {},
            "watched": None,
        },
        "item_id": secrets.token_hex(12),
        "role": "tool",
        "schema": 1,
        "task_id": task,
        "version": version,
    }
    content = CANONICAL(item)
    digest = hashlib.sha256(f"{previous}{content}".encode()).hexdigest()
    return f'{{"hash":"{digest}","prev_hash":"{previous}",{content[1:]}', digest


async def bare(directory: Path, tasks: int, each: int, *, sealing: bool, shared: bool) -> dict[str, float]:
    """Microseconds of a row and its head's update through ``sqlite3`` alone.

    ``sealing``: the item is made each time. ``shared``: one commit for all tasks, otherwise one each.
    """
    connection = sqlite3.connect(directory / f"{os.getpid()}-{next(_ids)}.db", isolation_level=None)
    for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA fullfsync = ON"):
        connection.execute(statement)
    connection.execute("CREATE TABLE items (task TEXT, version INTEGER, data TEXT, PRIMARY KEY (task, version))")
    connection.execute("CREATE TABLE tasks (task TEXT PRIMARY KEY, version INTEGER, head TEXT)")
    names = [f"t-{next(_ids):012x}" for _ in range(tasks)]
    connection.executemany("INSERT INTO tasks VALUES (?, 0, ?)", ((task, GENESIS_HASH) for task in names))
    heads = dict.fromkeys(names, GENESIS_HASH)
    data, digest = made_by_hand(names[0], 1, GENESIS_HASH)
    gc.collect()
    with Spent() as spent:
        for version in range(1, each + 1):
            for part in [names] if shared else [[task] for task in names]:
                connection.execute("BEGIN IMMEDIATE")
                for task in part:
                    if sealing:
                        data, digest = made_by_hand(task, version, heads[task])
                        heads[task] = digest
                    connection.execute("INSERT INTO items VALUES (?, ?, ?)", (task, version, data))
                    connection.execute("UPDATE tasks SET version = ?, head = ? WHERE task = ?", (version, digest, task))
                connection.execute("COMMIT")
    connection.close()
    return spent.per(tasks * each)


def assert_alike() -> None:
    """An item made by hand has the fields of ours and about its length, so that one stands for the other."""
    task = TaskId(f"t-{next(_ids):012x}")
    _, ours = seal_encoded(outcome(), task_id=task, version=2, prev_hash=GENESIS_HASH)
    theirs, _ = made_by_hand(task, 2, GENESIS_HASH)
    assert _fields(json.loads(theirs)) == _fields(json.loads(ours))
    assert abs(len(theirs) - len(ours)) <= len(ours) / 10


def _fields(item: dict[str, Any]) -> list[Any]:
    return [sorted(item), sorted(item["fact"]), sorted(item["actor"])]


async def main() -> None:
    """Measure as the pipe says."""
    told = options()
    directory = own_directory(told)
    measures: dict[str, Measure] = {
        "ours": ours,
        "by_hand": partial(bare, sealing=True, shared=True),
        "rows": partial(bare, sealing=False, shared=True),
        "alone": partial(bare, sealing=False, shared=False),
    }
    measure = measures[told["kind"]]
    assert_alike()

    async def handle(request: dict[str, Any]) -> dict[str, Any]:
        return dict(await measure(directory, request["tasks"], request["each"]))

    await answer_all(handle)


if __name__ == "__main__":
    run(main)
