"""An item that somebody changed in the database is not shown, not decided and not acted on (promise A3)."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.contract.parts import WRITE, Playing, policy
from tests.contract.test_10_tampering import _items, _sealed_anew
from tests.harness.support import says
from tests.harness.whole_server import Installation, Opened


def edit_diff(database: sqlite3.Connection, task_id: str) -> None:
    """What the reviewer is shown, and nothing else."""
    done = database.execute(
        "UPDATE items SET data = REPLACE(data, '-old', '-bad') WHERE task_id = ? AND data LIKE '%review_requested%'",
        (task_id,),
    )
    assert done.rowcount == 1


def seal_one_anew(database: sqlite3.Connection, task_id: str) -> None:
    """The same with a new hash in each item, but not in the row of the task."""
    head = database.execute("SELECT version, head_hash FROM tasks WHERE task_id = ?", (task_id,)).fetchone()
    _sealed_anew(database, task_id, [one.replace("-old", "-bad") for one in _items(database, task_id)])
    database.execute("UPDATE tasks SET version = ?, head_hash = ? WHERE task_id = ?", (*head, task_id))


def cut_the_end(database: sqlite3.Connection, task_id: str) -> None:
    """The last item is gone."""
    last = "SELECT MAX(version) FROM items WHERE task_id = ?1"
    database.execute(f"DELETE FROM items WHERE task_id = ?1 AND version = ({last})", (task_id,))


def put_in_bytes(database: sqlite3.Connection, task_id: str) -> None:
    """No item at all."""
    database.execute("UPDATE items SET data = x'ff00' WHERE task_id = ? AND version = 2", (task_id,))


def take_out_one(database: sqlite3.Connection, task_id: str) -> None:
    """Every later version is one less."""
    database.execute("DELETE FROM items WHERE task_id = ? AND version = 2", (task_id,))
    database.execute("UPDATE items SET version = version - 1 WHERE task_id = ? AND version > 2", (task_id,))


EDITS = (edit_diff, seal_one_anew, cut_the_end, put_in_bytes, take_out_one)


def change(installation: Installation, edit: object, task_id: str) -> None:
    """The edit, in the file."""
    with closing(sqlite3.connect(installation.directory / "orchestrator.db")) as database, database:
        edit(database, task_id)  # type: ignore[operator]


async def is_refused(server: Opened, task_id: str, request_id: str) -> None:
    """Nobody is shown the task, nobody decides it, and the doctor says why."""
    for method, path, body in (
        ("GET", f"/v1/tasks/{task_id}", None),
        ("GET", f"/v1/requests/{request_id}", None),
        ("POST", f"/v1/resume/{request_id}", {"action": "approve"}),
        ("POST", f"/v1/tasks/{task_id}/cancel", None),
    ):
        answer = await server.ask(method, path, body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "journal_broken"), answer.text
        assert "audit verify" in answer.json()["error"]["remedy"]
    assert (await server.ask("GET", "/v1/requests")).json()["requests"] == []
    async with server.reviewing() as reviewer:
        assert (await reviewer.hear("snapshot"))["requests"] == []
    alerts = (await server.ask("GET", "/v1/doctor")).json()["alerts"]
    assert any(task_id in one for one in alerts)
    row = next(one for one in (await server.ask("GET", "/v1/tasks")).json()["tasks"] if one["task_id"] == task_id)
    assert "not as it was written" in row["status_reason"]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("edit", EDITS, ids=lambda one: one.__name__)
async def test_a_changed_task_is_neither_shown_nor_decided_nor_run(tmp_path: Path, edit: object) -> None:
    """Also while the server runs; and other tasks go on."""
    installation = Installation(tmp_path / "data")
    async with installation.open(
        Playing(says(WRITE), says(WRITE)), policy=policy(), files={"a.lua": b"old\n"}
    ) as server:
        task_id, request = await server.asked()
        assert "-old" in str(request["tool_calls"])
        change(installation, edit, task_id)
        await is_refused(server, task_id, request["request_id"])
        other, next_request = await server.asked()
        listed = (await server.ask("GET", "/v1/requests")).json()["requests"]
        assert [one["request_id"] for one in listed] == [next_request["request_id"]], "others go on"
        await server.ask("POST", f"/v1/tasks/{other}/cancel")
        await server.ended(other)
    async with installation.open(Playing()) as server:
        await is_refused(server, task_id, request["request_id"])
        assert server.stub.disk.file("a.lua") == b"old\n"
