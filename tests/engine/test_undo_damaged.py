"""A store in which what an undo needs is lost or damaged: that undo says so, and everything else goes on."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.wire.review import REVIEWER_SUBPROTOCOL_1_1
from orchestrator.core.wire.wire import sha256_hex
from tests.engine.test_restoration import Tree
from tests.harness.endpoints import ByPrompt
from tests.harness.support import call
from tests.harness.whole_server import Server, connected, running
from tests.web.test_reviewer import ended

CLEAR = call("cc_delete", path="d")
WRITE = call("cc_write", path="a.lua", content="print('new')\n")
MODEL = ByPrompt({"clear": (CLEAR,), "write": (WRITE,), "ask": (call("ask_user", question="Which one?"),)})
LINES = f"b\0file\0{sha256_hex(b'b')}\n".encode()
"""What is kept of the directory that the task deletes."""
OTHERS = f"b\0file\0{sha256_hex(b'x')}\n".encode()


def lose(store: sqlite3.Connection, content: bytes) -> None:
    store.execute("DELETE FROM blobs WHERE sha256 = ?", (sha256_hex(content),))


def spoil(store: sqlite3.Connection, content: bytes) -> None:
    changed = bytes([content[0] ^ 1]) + content[1:]
    store.execute("UPDATE blobs SET content = ? WHERE sha256 = ?", (changed, sha256_hex(content)))


def exchange(store: sqlite3.Connection, content: bytes) -> None:
    """It can be read as ever, and says something else."""
    store.execute("UPDATE blobs SET content = ? WHERE sha256 = ?", (OTHERS, sha256_hex(content)))


@asynccontextmanager
async def kept_server(directory: Path, disk: Tree) -> AsyncIterator[Server]:
    url = f"sqlite:///{directory / 'kept.db'}"
    kept = directory / "token"
    async with running(directory, model=MODEL, store=url) as server:
        token = kept.read_text() if kept.exists() else await server.computer("3")
        kept.write_text(token)
        async with connected(server, "3", disk, token):
            yield server


async def approved(server: Server, prompt: str) -> str:
    task_id = await server.submit(prompt=prompt)
    request = await server.paused(task_id)
    assert (await server.ask("POST", request["approval_url"])).is_success
    assert await ended(server, task_id) == "Completed"
    return task_id


async def over(server: Server, task_id: str) -> dict[str, Any]:
    await server.until(task_id, "task_ended")
    task: dict[str, Any] = (await server.ask("GET", f"/v1/tasks/{task_id}")).json()
    return task


@pytest.mark.parametrize("damage", [lose, spoil, exchange])
async def test_a_listing_that_is_lost_or_damaged_stops_that_undo_and_nothing_else(
    tmp_path: Path, damage: Callable[[sqlite3.Connection, bytes], None]
) -> None:
    disk = Tree()
    async with kept_server(tmp_path, disk) as server:
        task_id, other = await approved(server, "clear"), await approved(server, "write")
    with closing(sqlite3.connect(tmp_path / "kept.db")) as store, store:
        damage(store, LINES)
    async with kept_server(tmp_path, disk) as server:
        assert {row["task_id"] for row in (await server.ask("GET", "/v1/tasks")).json()["tasks"]} == {task_id, other}
        shown = await server.ask("GET", f"/v1/tasks/{task_id}")
        assert (shown.status_code, shown.json()["undo"]["changes"]) == (200, 0)
        for method, path in (("GET", "changes"), ("POST", "undo")):
            refused = await server.ask(method, f"/v1/tasks/{task_id}/{path}", {} if method == "POST" else None)
            told = refused.json()["error"]
            assert (refused.status_code, told["code"]) == (404, "unreadable")
            assert told["message"].startswith(f"What {task_id} changed cannot be told")
            assert "audit verify" in told["remedy"]
        async with server.reviewing(speaks=REVIEWER_SUBPROTOCOL_1_1) as reviewer:
            await reviewer.hear("snapshot")
            await reviewer.say(type="undo", ref="r", task_id=task_id, undo={})
            assert (await reviewer.hear("failed"))["code"] == "unreadable"
            await server.submit([], prompt="ask")
            await reviewer.hear("question_opened")
        undo = (await server.ask("POST", f"/v1/tasks/{other}/undo", {})).json()["task_id"]
        request = await server.paused(undo)
        assert (await server.ask("POST", request["approval_url"])).is_success
        assert (await over(server, undo))["status"] == "Completed"
        assert disk.texts == {"a.lua": "old\n"}


@pytest.mark.parametrize(("damage", "said"), [(lose, "are not in the store"), (spoil, "are damaged in the store")])
async def test_bytes_that_are_lost_or_damaged_are_never_put_back_and_the_rest_is(
    tmp_path: Path, damage: Callable[[sqlite3.Connection, bytes], None], said: str
) -> None:
    disk = Tree(texts={"a.lua": "old\n", "d/b": "b", "d/c": "c"})
    async with kept_server(tmp_path, disk) as server:
        task_id = await approved(server, "clear")
    with closing(sqlite3.connect(tmp_path / "kept.db")) as store, store:
        damage(store, b"b")
    async with kept_server(tmp_path, disk) as server:
        undo = (await server.ask("POST", f"/v1/tasks/{task_id}/undo", {})).json()["task_id"]
        task = await server.until(undo, "review_requested", "task_ended")
        while task["result"] is None:
            assert (await server.ask("POST", task["request"]["approval_url"])).is_success
            task = await over(server, undo)
        assert disk.texts == {"a.lua": "old\n", "d/": "", "d/c": "c"}
        assert task["status"] == "Failed"
        assert said in task["result"]["details"]["left"]["3:d/b"]
