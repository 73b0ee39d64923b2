"""The audit on the terminal UI: narrowed down, read on, and verified."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.terminal.tui.audit import Audit
from orchestrator.terminal.tui.tasks import Tasks
from tests.harness.support import Listening, final
from tests.harness.whole_server import running
from tests.terminal.tui.driving import seated


@pytest.mark.deep
async def test_the_audit_is_narrowed_down_read_on_and_verified(tmp_path: Path) -> None:
    """`f` takes a task, a person, a kind, a time and what is of no task; `l` reads on; `v` says whether it is whole."""
    async with running(tmp_path, model=Listening(*[final()] * 20)) as server:
        bob = await server.person("bob", "submitter")
        tasks = [await server.submit((), token=bob) for _ in range(9)]
        for task_id in tasks:
            await server.until(task_id, "task_ended")
        async with seated(server) as seat:
            pane = seat.app.query_one(Audit)
            await seat.press("6")
            await seat.sees("Everything: 50 items", "l reads older ones")
            await seat.press("l")
            await seat.until(lambda: "that is all" in seat.text or "100 items" in seat.text, "read on")
            await seat.asks("f", "Only what fits all of it")
            await seat.type(tasks[3])
            await seat.press("tab", "tab")
            await seat.type("task ended")
            await seat.asks("enter", f"Only task {tasks[3]}, Task ended: 1 item", f"task {tasks[3]}, item")
            await seat.asks("o", "[1 Tasks]")
            await seat.until(lambda: seat.app.query_one(Tasks).rows.chosen == tasks[3], "that task")
            await seat.asks("6", "Only task")
            await seat.asks("x", "Everything: 50 items")
            await seat.press("f")
            await seat.sees("Only what fits all of it")
            await seat.press("tab", "tab", "tab")
            await seat.type("no time")
            await seat.asks("enter", "'no time' is not a time")
            await seat.press("ctrl+u", "tab", "tab", "space", "enter")
            await seat.sees("Only what belongs to no task", "Token made")
            assert all(one["task_id"] == "system" for one in pane._items.values())
            await seat.asks("v", "Nothing was changed.", "were compared with their chains")
            await seat.press("escape")


@pytest.mark.deep
async def test_a_change_of_what_was_written_is_found(tmp_path: Path) -> None:
    """The verdict names what is not as written; who may not verify is told so."""
    store = tmp_path / "store.db"
    async with running(tmp_path, model=Listening(final()), store=f"sqlite:///{store}") as server:
        bob = await server.person("bob", "submitter")
        task_id = await server.submit(())
        await server.until(task_id, "task_ended")
        with closing(sqlite3.connect(store)) as file, file:
            file.execute("UPDATE items SET data = replace(data, 'fix my', 'rob my') WHERE task_id = ?", (task_id,))
        async with seated(server) as seat:
            await seat.press("6")
            await seat.sees("Everything:")
            await seat.asks("v", "not as written.", "edited", task_id)
        async with seated(server, bob) as seat:
            await seat.press("6")
            await seat.sees("There is nothing.")
            await seat.asks("v", "bob may not do this. This needs the role reviewer or admin.")
            await seat.asks("f", "Only what fits all of it")
            await seat.press("tab", "tab", "tab", "tab", "tab", "space", "enter")
            await seat.sees("Everything: 0 items")
        refused = (await server.ask("GET", "/v1/audit?system=1&kind=attempt_refused")).json()["items"]
        assert [one["fact"]["door"] for one in refused] == ["GET /v1/audit/verify", "GET /v1/audit"]
