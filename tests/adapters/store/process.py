"""A process of its own that opens a store: ``python -m tests.adapters.store.process COMMAND PATH|URL [ROUND]``.

The commands are ``hold``, ``write``, ``fill``, ``leave`` and ``stop``.
"""

import asyncio
import os
import signal
import sys
from itertools import count
from pathlib import Path

from orchestrator.adapters.store import open_store, sql, sql_queue
from orchestrator.adapters.store.script import Script
from orchestrator.adapters.store.sql_store import SqlStore
from orchestrator.core.errors import GrantVoid, OrchestratorError, StoreAway
from orchestrator.core.ports import Store
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem, ItemId, verify_chain
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import GrantId, GrantRevoked
from orchestrator.runtime.clock import SystemClock
from orchestrator.testing import ManualClock
from orchestrator.testing.drafts import Author, append

CLOCK = ManualClock()


def say(line: str) -> None:
    """One line to the parent, at once and whole."""
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


async def hold(_store: Store, _round: str) -> None:
    """Keep the store open until killed."""
    say("open")
    await asyncio.Event().wait()


async def write(store: Store, round_name: str) -> None:
    """Append to ten tasks as fast as it goes until killed, and tell of each item that was acknowledged.

    Three more give grants, use each other's, and revoke every second one of their own.
    """
    author = Author(CLOCK)

    async def work(task_id: TaskId) -> None:
        await store.create(task_id, [author.submitted()])
        version = 1
        while True:
            (item,) = await append(store, task_id, version, author.note("x" * 500))
            version = item.version
            say(f"{task_id} {version} {item.hash}")

    newest = ""

    async def approve(task_id: TaskId) -> None:
        nonlocal newest
        await store.create(task_id, [author.submitted()])
        version = 1
        for number in count():
            newest = mine = f"{task_id}-{number}"
            drafts = [author.decided(author.grant(mine, max_uses=2))]
            while drafts:
                try:
                    (item,) = await append(store, task_id, version, *drafts)
                except GrantVoid:
                    break
                version = item.version
                say(f"{task_id} {version} {item.hash}")
                drafts = [author.started(grant_id=newest)]
            if number % 2:
                note = author.draft(GrantRevoked(grant_id=GrantId(mine)))
                assert await store.revoke_grant(GrantId(mine), note=note._replace(item_id=ItemId(mine)))

    writers = [work(TaskId(f"{round_name}-{number}")) for number in range(10)]
    await asyncio.gather(*writers, *(approve(TaskId(f"{round_name}-{number}")) for number in range(10, 13)))


async def leave(store: Store, task_id: str) -> None:
    """Lease the only task for a second, and never come back to it."""
    lease = await store.lease("leaves", 1.0)
    assert lease is not None
    assert lease.task_id == task_id
    say("leased")
    await asyncio.Event().wait()


async def stop(store: Store, task_id: str) -> None:
    """Lease the only task for a second, and stop in the middle of an append; woken, tell what became of it."""
    assert isinstance(store, SqlStore)
    lease = await store.lease("stops", 1.0)
    assert lease is not None
    wanted = sql.Append(TaskId(task_id), 1, [Author(CLOCK).note()], TaskStatus.RUNNING, token=lease.token)

    def stopping(now: int) -> Script[list[AgentTaskItem]]:
        script = sql_queue.append(wanted, now)
        rows = yield next(script)  # the task's row is locked from here on
        if not stopped:
            stopped.append(True)
            os.kill(os.getpid(), signal.SIGSTOP)
        while True:
            try:
                rows = yield script.send(rows)
            except StopIteration as done:
                return list(done.value)

    stopped: list[bool] = []
    say("leased")
    try:
        await store._write(stopping, key=task_id)
        say("appended")
    except OrchestratorError as error:
        say(error.code)


async def fill(store: Store, path: str) -> None:
    """Meet the end of the disk in a COMMIT and in a statement, then go on with room again."""
    import resource

    author = Author(CLOCK)
    ids = [TaskId(f"t{number}") for number in range(20)]
    for task_id in ids:
        await store.create(task_id, [author.submitted()])
    drafts = {task_id: [author.note()] for task_id in ids}
    before = await _everything(store, ids)
    room, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_size(f"{path}-wal"), most))
    # Without a blob they are written together.
    for size in (0, 5_000, 5_000_000):
        attempts = [
            store.append(task_id, 1, drafts[task_id], status=TaskStatus.QUEUED, blobs=_blobs(size)) for task_id in ids
        ]
        for answer in await asyncio.gather(*attempts, return_exceptions=True):
            assert isinstance(answer, StoreAway), answer
            assert "Make room" in answer.remedy, answer
        assert await _everything(store, ids) == before
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, most))
    await asyncio.gather(*(append(store, task_id, 1, *drafts[task_id]) for task_id in ids))
    assert all(len(items) == 2 and verify_chain(items) is None for items in await _everything(store, ids))


async def _everything(store: Store, ids: list[TaskId]) -> list[list[AgentTaskItem]]:
    return [await store.read(task_id) for task_id in ids]


def _blobs(size: int) -> list[bytes]:
    """One that is the same for all and one of its own; none of size 0."""
    return [b"x" * size, os.urandom(999)] if size else []


def _size(path: str) -> int:
    return Path(path).stat().st_size


async def main(command: str, path: str, round_name: str = "") -> None:
    """Open the store and do as told."""
    store = open_store(path, clock=SystemClock()) if "://" in path else open_store(f"sqlite:///{path}", clock=CLOCK)
    commands = {"hold": hold, "write": write, "fill": fill, "leave": leave, "stop": stop}
    await commands[command](store, round_name or path)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
