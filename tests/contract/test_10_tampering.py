"""Whatever somebody does to the file of a real store, ``audit verify`` says so in a sentence (promise A3)."""

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.task.facts import ToolStarted
from orchestrator.core.task.items import decode_item, item_hash
from orchestrator.terminal.cli.audit import offline_verify
from tests.contract.parts import WRITE, Playing, policy, sha256
from tests.harness.commands import cli
from tests.harness.support import call, says
from tests.harness.whole_server import Installation, Opened
from tests.waiting import HANG_S

DELETE = call("cc_delete", path="old.lua")
DELETE_ALL = call("cc_delete", path="lib")
PLACES = ("data", "young", "plain")
"""A store that was closed in order, the same some tasks earlier, and one of which no checkpoint was ever made."""


async def _lived(directory: Path) -> None:
    """An installation with a row of each kind, made through its endpoints; copies of it at three moments."""
    installation = Installation(directory / "data")
    files = {"a.lua": b"old\n", "old.lua": b"once\n", "lib/x": b"X"}
    async with installation.open(Playing(says(WRITE), says(WRITE)), policy=policy(), files=files) as server:
        await server.person("sam")
        await server.person("rita", "reviewer")
        task_id, request = await server.asked(session_id="evening")
        one = {"call_id": request["tool_calls"][0]["call_id"], "action": "approve"}
        spec = {"scope": "session", "paths": ["*.lua"], "max_uses": 5}
        await server.decide(request, decisions=[one | {"remember": spec}])
        await server.ended(task_id)
        await server.ask("DELETE", "/v1/tokens/person/sam")
    shutil.copytree(installation.directory, directory / "young")
    async with installation.open(Playing(says(DELETE), says(DELETE_ALL))) as server:
        second, request = await server.asked(session_id="night")
        one = {"call_id": request["tool_calls"][0]["call_id"], "action": "approve"}
        await server.decide(request, decisions=[one | {"remember": {"scope": "session"}}])
        first = await server.item(second, "tool_finished")
        await server.decide(await server.request(second, after=first["version"]), "approve")
        await server.ended(second)
        grants = (await server.ask("GET", "/v1/grants")).json()["grants"]
        (taken_back,) = [one["grant_id"] for one in grants if one["tool"] == "cc_delete"]
        await server.ask("DELETE", f"/v1/grants/{taken_back}")
        await _kept_and_pruned(server, task_id, second)
    shutil.copytree(installation.directory, directory / "plain")
    (directory / "plain" / "audit.checkpoint").unlink()
    with closing(sqlite3.connect(directory / "plain" / "orchestrator.db")) as database, database:
        _without_checkpoints(database)


async def _kept_and_pruned(server: Opened, *pinned: str) -> None:
    """Two backups, of which one is removed, and a third task, which is pruned; the others are pinned."""
    backups = [(await server.ask("POST", "/v1/computers/3/backups", {})).json()["backup_id"] for _ in range(2)]
    await server.ask("DELETE", f"/v1/computers/3/backups/{backups[0]}")
    for task_id in pinned:
        await server.ask("POST", f"/v1/tasks/{task_id}/pin")
    third = (await server.ask("POST", "/v1/tasks", {"prompt": "never mind"})).json()["task_id"]
    await server.ask("POST", f"/v1/tasks/{third}/cancel")
    async with asyncio.timeout(HANG_S):
        wanted = {"older_than_days": 0}
        while not (await server.ask("POST", "/v1/prune", wanted)).json()["tasks"]:  # noqa: ASYNC110 - it may be at work
            await asyncio.sleep(0.02)


def _without_checkpoints(database: sqlite3.Connection) -> None:
    """The system stream as if its node had never lived long enough to sign anything."""
    kept = [one for one in _items(database, "system") if '"checkpoint_made"' not in one]
    _sealed_anew(database, "system", kept)


def _items(database: sqlite3.Connection, stream: str) -> list[str]:
    rows = database.execute("SELECT data FROM items WHERE task_id = ? ORDER BY version", (stream,))
    return [data for (data,) in rows]


def _sealed_anew(database: sqlite3.Connection, stream: str, texts: list[str]) -> str:
    """Items under new versions with new hashes, and the row that goes with them; the last hash.

    What somebody does who knows the format.
    """
    database.execute("DELETE FROM items WHERE task_id = ?", (stream,))
    before = "0" * 64
    for version, text in enumerate(texts, start=1):
        value = json.loads(text) | {"version": version, "prev_hash": before}
        value["hash"] = before = item_hash(decode_item(json.dumps(value)))
        hashes = {name: value.pop(name) for name in ("hash", "prev_hash")}
        rest = json.dumps(value, sort_keys=True, separators=(",", ":"))
        data = json.dumps(hashes, separators=(",", ":"))[:-1] + "," + rest[1:]
        row = (stream, version, value["item_id"], data)
        database.execute("INSERT INTO items (task_id, version, item_id, data) VALUES (?, ?, ?, ?)", row)
    for table, name in (("tasks", "task_id"), ("streams", "stream")):
        news = (len(texts), before, stream)
        database.execute(f"UPDATE {table} SET version = ?, head_hash = ? WHERE {name} = ?", news)
    return before


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The three stores, made once."""
    directory = tmp_path_factory.mktemp("lived")
    asyncio.run(_lived(directory))
    return directory


@pytest.fixture
def place(lived: Path, tmp_path: Path) -> Path:
    """A copy of them to tamper with."""
    for name in PLACES:
        shutil.copytree(lived / name, tmp_path / name)
    return tmp_path


def whats(directory: Path) -> list[str]:
    """What a verification says, without a server."""
    found = offline_verify(directory)
    assert found is not None
    for one in found["faults"]:
        assert one["detail"].endswith("."), "a fault is a sentence"
        assert len(one["detail"].split()) > 5
    return [one["what"] for one in found["faults"]]


# -- one statement -----------------------------------------------------------------------

_TASK = "(SELECT MIN(task_id) FROM tasks)"
_OTHER = "(SELECT MAX(task_id) FROM tasks)"
_LAST = f"(SELECT version FROM tasks WHERE task_id = {_TASK})"
_WIDE = "json_set(data, '$.paths', json_array('*'))"
_STANDING = "grant_id = (SELECT MIN(grant_id) FROM grants WHERE revoked = 0)"
_ACTOR = "instr(data, '\"actor\"')"
_TWICE = '\'"actor":\', \'"actor":{{"id":"x"}},"actor":\''
_TURNED = f"substr(data, {_ACTOR}, length(data) - {_ACTOR}) || ',' || substr(data, 2, {_ACTOR} - 3)"
_KEPT = "sha256 = '{once}'"

STATEMENTS: Mapping[str, tuple[str, str]] = {
    # items
    "an item's text": ("UPDATE items SET data = replace(data, 'fix my farm', 'rob my farm')", "edited"),
    "an item's actor": ('UPDATE items SET data = replace(data, \'"id":"admin"\', \'"id":"other"\')', "edited"),
    "an item's bytes": (f"UPDATE items SET data = 'x' WHERE task_id = {_TASK} AND version = 2", "unreadable"),
    "a blob for an item": (f"UPDATE items SET data = x'ff' WHERE task_id = {_TASK} AND version = 2", "unreadable"),
    "trailing blanks": (f"UPDATE items SET data = data || '  ' WHERE task_id = {_TASK} AND version = 2", "recoded"),
    "a blank inside": ("UPDATE items SET data = replace(data, '\"at\":', '\"at\": ') WHERE version = 2", "recoded"),
    "a doubled key": (f"UPDATE items SET data = replace(data, {_TWICE}) WHERE version = 3", "recoded"),
    "another order": (f"UPDATE items SET data = '{{{{' || {_TURNED} || '}}}}' WHERE version = 2", "recoded"),
    "an escape more": ("UPDATE items SET data = replace(data, 'admin', 'a\\u0064min') WHERE version = 1", "recoded"),
    "a row's version": (f"UPDATE items SET version = 99 WHERE task_id = {_TASK} AND version = {_LAST}", "misfiled"),
    "a row's item id": (f"UPDATE items SET item_id = 'mine' WHERE task_id = {_TASK} AND version = 2", "misfiled"),
    "an item without a version": (
        f"UPDATE items SET version = 'x' WHERE task_id = {_TASK} AND version = 2",
        "unreadable",
    ),
    "an item gone": (f"DELETE FROM items WHERE task_id = {_TASK} AND version = 3", "missing"),
    "a system item gone": ("DELETE FROM items WHERE task_id = 'system' AND version = 2", "missing"),
    "the tail gone": (f"DELETE FROM items WHERE task_id = {_TASK} AND version > 5", "cut"),
    "all items gone": ("DELETE FROM items", "cut"),
    # tasks
    "a status": (f"UPDATE tasks SET status = 'Failed' WHERE task_id = {_TASK}", "row"),
    "a status that is none": (f"UPDATE tasks SET status = 'Fine' WHERE task_id = {_TASK}", "row"),
    "a version": (f"UPDATE tasks SET version = version - 1 WHERE task_id = {_TASK}", "unnoted"),
    "a row's version that is text": (f"UPDATE tasks SET version = 'x' WHERE task_id = {_TASK}", "unnoted"),
    "a head": (f"UPDATE tasks SET head_hash = '0' WHERE task_id = {_TASK}", "rewritten"),
    "whose task": (f"UPDATE tasks SET user_id = 'mallory' WHERE task_id = {_TASK}", "row"),
    "which session": (f"UPDATE tasks SET session_id = 'other' WHERE task_id = {_TASK}", "row"),
    "a prompt": (f"UPDATE tasks SET prompt = 'nothing' WHERE task_id = {_TASK}", "row"),
    "its computers": (f"UPDATE tasks SET computers = '[\"9\"]' WHERE task_id = {_TASK}", "row"),
    "no list of computers": (f"UPDATE tasks SET computers = 'x' WHERE task_id = {_TASK}", "row"),
    "its priority": (f"UPDATE tasks SET priority = 9 WHERE task_id = {_TASK}", "row"),
    "when it came": (f"UPDATE tasks SET created_at = 1 WHERE task_id = {_TASK}", "row"),
    "when it changed": (f"UPDATE tasks SET updated_at = 1 WHERE task_id = {_TASK}", "row"),
    "a row gone": (f"DELETE FROM tasks WHERE task_id = {_TASK}", "row"),
    "the system stream's row gone": ("DELETE FROM streams", "row"),
    "another stream's head": ("UPDATE streams SET head_hash = '0'", "rewritten"),
    "a pin taken away": ("UPDATE tasks SET pinned = 0", "row"),
    "a pruned task forgotten": ("DELETE FROM pruned", "row"),
    "a task that counts as pruned": ("INSERT INTO pruned (task_id, pruned_at) VALUES ('t-mine', 1)", "row"),
    # backups
    "a backup gone": ("DELETE FROM backups", "backup"),
    "a backup of another computer": ("UPDATE backups SET computer = '9'", "backup"),
    "who made a backup": ("UPDATE backups SET made_by = 'mallory'", "backup"),
    "when a backup was made": ("UPDATE backups SET made_at = 1", "backup"),
    "another listing": ("UPDATE backups SET data = json_set(data, '$.listing', 'mine')", "backup"),
    "a backup that is none": ("UPDATE backups SET data = 'x'", "backup"),
    "a backup that nobody made": (
        "INSERT INTO backups SELECT 'b-mine', computer, made_at, made_by, data FROM backups",
        "backup",
    ),
    "a backup's listing gone": (
        "DELETE FROM blobs WHERE sha256 = (SELECT json_extract(data, '$.listing') FROM backups)",
        "blob",
    ),
    # requests
    "a request led elsewhere": ("UPDATE requests SET task_id = 'elsewhere'", "request"),
    "a request gone": ("DELETE FROM requests", "request"),
    "a request more": (f"INSERT INTO requests (request_id, task_id) VALUES ('r-mine', {_TASK})", "request"),
    # blobs
    "a blob's bytes": (f"UPDATE blobs SET content = x'00' WHERE {_KEPT}", "blob"),
    "a blob as text": (f"UPDATE blobs SET content = 'one' WHERE {_KEPT}", "blob"),
    "a blob gone": (f"DELETE FROM blobs WHERE {_KEPT}", "blob"),
    "all blobs gone": ("DELETE FROM blobs", "blob"),
    "a blob's name": (f"UPDATE blobs SET sha256 = 'mine' WHERE {_KEPT}", "blob"),
    "every blob longer": ("UPDATE blobs SET content = CAST(content || 'x' AS BLOB)", "blob"),
    # grants
    "a wider grant": (f"UPDATE grants SET data = {_WIDE} WHERE {_STANDING}", "grant"),
    "a grant that is none": (f"UPDATE grants SET data = 'x' WHERE {_STANDING}", "grant"),
    "a grant for another task": (f"UPDATE grants SET task_id = 'other' WHERE {_STANDING}", "grant"),
    "a grant for another session": (f"UPDATE grants SET session_id = 'other' WHERE {_STANDING}", "grant"),
    "a grant for another person": (f"UPDATE grants SET user_id = 'other' WHERE {_STANDING}", "grant"),
    "a grant for ever": (f"UPDATE grants SET expires_at = NULL WHERE {_STANDING}", "grant"),
    "more uses": (f"UPDATE grants SET max_uses = 500 WHERE {_STANDING}", "grant"),
    "uses forgotten": ("UPDATE grants SET uses = 0", "grant"),
    "uses that are not a number": ("UPDATE grants SET uses = 'x'", "grant"),
    "a grant taken back by hand": (f"UPDATE grants SET revoked = 1 WHERE {_STANDING}", "grant"),
    "a grant that stands again": ("UPDATE grants SET revoked = 0", "grant"),
    "a grant gone": ("DELETE FROM grants", "grant"),
    "a grant that nobody gave": (
        "INSERT INTO grants SELECT 'g-mine', task_id, session_id, user_id, data, expires_at, max_uses, 0, 0 FROM grants"
        f" WHERE {_STANDING}",
        "grant",
    ),
    # tokens
    "a revoked token that lives": ("UPDATE tokens SET revoked = 0 WHERE name = 'sam'", "token"),
    "another's token for one that was revoked": (
        "UPDATE tokens SET token_hash = 'mine', revoked = 0 WHERE name = 'sam'",
        "token",
    ),
    "a token's hash": ("UPDATE tokens SET token_hash = 'mine' WHERE name = 'admin'", "token"),
    "more roles": ("UPDATE tokens SET roles = '[\"admin\"]' WHERE name = 'rita'", "token"),
    "no roles": ("UPDATE tokens SET roles = 'x' WHERE name = 'rita'", "token"),
    "another name": ("UPDATE tokens SET name = 'admin' WHERE name = 'rita'", "token"),
    "another kind": ("UPDATE tokens SET kind = 'person' WHERE kind = 'computer'", "token"),
    "a person for a pairing": ("UPDATE tokens SET kind = 'pairing' WHERE name = 'rita'", "token"),
    "a token revoked by hand": ("UPDATE tokens SET revoked = 1 WHERE name = 'rita'", "token"),
    "a token gone": ("DELETE FROM tokens WHERE name = 'sam'", "token"),
    "a token that nobody issued": (
        "INSERT INTO tokens VALUES ('mine', 'person', 'mallory', '[\"admin\"]', 1, 0)",
        "token",
    ),
    # computers
    "a lower number": ("UPDATE computers SET number = 0", "computer"),
    "a number that is none": ("UPDATE computers SET number = 'x'", "computer"),
    "a computer gone": ("DELETE FROM computers", "computer"),
    # tables
    "no table of grants": ("DROP TABLE grants", "unreadable"),
    "no table of requests": ("DROP TABLE requests", "unreadable"),
    "no table of blobs": ("DROP TABLE blobs", "unreadable"),
    "no table of backups": ("DROP TABLE backups", "unreadable"),
    "no table of pruned tasks": ("DROP TABLE pruned", "unreadable"),
    "no table of tokens": ("DROP TABLE tokens", "unreadable"),
    "a version that is a fraction": (
        f"UPDATE items SET version = 2.5 WHERE version = 2 AND task_id = {_TASK}",
        "misfiled",
    ),
}


def tamper(directory: Path, statement: str) -> None:
    """What somebody does who has the file."""
    with closing(sqlite3.connect(directory / "orchestrator.db")) as database, database:
        done = database.execute(statement.format(once=sha256(b"once\n")))
        assert done.rowcount != 0, "it changed something"


def test_a3_an_untouched_file_shows_nothing(lived: Path) -> None:
    """What the copies are copies of."""
    assert [whats(lived / name) for name in PLACES] == [[] for _ in PLACES]


@pytest.mark.thinned(3)
@pytest.mark.parametrize("where", ["data", "plain"])
@pytest.mark.parametrize("how", STATEMENTS)
def test_a3_one_change_to_the_file_shows(place: Path, how: str, where: str) -> None:
    """Each column of each table that follows from the items, with a checkpoint and without one."""
    statement, expected = STATEMENTS[how]
    tamper(place / where, statement)
    assert expected in whats(place / where)


def test_a3_the_command_says_it_and_exits_with_one(place: Path) -> None:
    """In words that name what differs and what follows."""
    tamper(place / "data", STATEMENTS["a revoked token that lives"][0])
    tamper(place / "data", STATEMENTS["a lower number"][0])
    done = cli(place, "audit", "verify", "--data-dir", str(place / "data"))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "token: A token for person sam was revoked, and the table lets it in again."
    assert lines[1].startswith("computer: Computer 3 is at number 0, and t-")
    assert "2 things are not as written." in lines


# -- more than one -----------------------------------------------------------------------


def _swapped(place: Path, database: sqlite3.Connection) -> None:
    """Two items of two tasks change places."""
    del place
    for new, old in (("tx", _TASK), (_TASK, _OTHER), (_OTHER, "'tx'")):
        name = f"'{new}'" if new == "tx" else new
        database.execute(f"UPDATE items SET task_id = {name} WHERE task_id = {old} AND version = 2")


def _reordered(place: Path, database: sqlite3.Connection) -> None:
    del place
    for new, old in ((1003, 3), (3, 4), (4, 1003)):
        database.execute(f"UPDATE items SET version = {new} WHERE task_id = {_TASK} AND version = {old}")


def _cut_with_its_row(place: Path, database: sqlite3.Connection) -> None:
    """The end of the newest task, and its row put right."""
    del place
    (task_id,) = database.execute(f"SELECT {_OTHER}").fetchone()
    _sealed_anew(database, task_id, _items(database, task_id)[:-2])


def _rewritten(place: Path, database: sqlite3.Connection) -> None:
    """Every item of a task sealed anew, its row too."""
    del place
    (task_id,) = database.execute(f"SELECT {_TASK}").fetchone()
    texts = [text.replace("fix my farm", "rob my farm") for text in _items(database, task_id)]
    _sealed_anew(database, task_id, texts)
    database.execute("UPDATE tasks SET prompt = replace(prompt, 'fix my farm', 'rob my farm')")


def _impossible(place: Path, database: sqlite3.Connection) -> None:
    """A task that ends and then goes on, sealed as if it had."""
    del place
    (task_id,) = database.execute(f"SELECT {_TASK}").fetchone()
    texts = _items(database, task_id)
    (end,) = [text for text in texts if '"kind":"task_ended"' in text]
    _sealed_anew(database, task_id, [texts[0], end, *(text for text in texts[1:] if text != end)])


def _erased(place: Path, database: sqlite3.Connection) -> None:
    """A task with all that names it."""
    del place
    (task_id,) = database.execute(f"SELECT {_OTHER}").fetchone()
    for table in ("items", "tasks", "requests", "grants"):
        database.execute(f"DELETE FROM {table} WHERE task_id = ?", (task_id,))


def _erased_as_if_pruned(place: Path, database: sqlite3.Connection) -> None:
    """The same, and in the table of pruned tasks."""
    (task_id,) = database.execute(f"SELECT {_OTHER}").fetchone()
    _erased(place, database)
    database.execute("INSERT INTO pruned (task_id, pruned_at) VALUES (?, 1)", (task_id,))


def _erased_with_a_note(place: Path, database: sqlite3.Connection) -> None:
    """The same with a note in the system stream, of a task that was pruned before."""
    (task_id,) = database.execute(f"SELECT {_OTHER}").fetchone()
    texts = _items(database, "system")
    (note,) = [text for text in texts if '"task_pruned"' in text]
    value = json.loads(note)
    value["fact"]["task_id"], value["item_id"] = task_id, "mine"
    _erased_as_if_pruned(place, database)
    _sealed_anew(database, "system", [*texts, json.dumps(value)])


def _older_database(place: Path, database: sqlite3.Connection) -> None:
    """An old file beside the newer checkpoint."""
    database.close()
    shutil.copy(place / "young" / "orchestrator.db", place / "data" / "orchestrator.db")


def _older_both(place: Path, database: sqlite3.Connection) -> None:
    """An old checkpoint beside the newer file."""
    database.close()
    shutil.copy(place / "young" / "audit.checkpoint", place / "data" / "audit.checkpoint")


def _no_checkpoint(place: Path, database: sqlite3.Connection) -> None:
    database.close()
    (place / "data" / "audit.checkpoint").unlink()


def _edited_checkpoint(place: Path, database: sqlite3.Connection) -> None:
    database.close()
    path = place / "data" / "audit.checkpoint"
    value: dict[str, Any] = json.loads(path.read_text("utf-8"))
    value["streams"].popitem()
    path.write_text(json.dumps(value), "utf-8")


TAMPERINGS: Mapping[Callable[[Path, sqlite3.Connection], None], str] = {
    _swapped: "foreign",
    _reordered: "misfiled",
    _cut_with_its_row: "cut",
    _rewritten: "rewritten",
    _impossible: "impossible",
    _erased: "gone",
    _erased_as_if_pruned: "gone",
    _erased_with_a_note: "gone",
    _older_database: "cut",
    _older_both: "forged",
    _no_checkpoint: "forged",
    _edited_checkpoint: "forged",
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("how", TAMPERINGS, ids=lambda how: how.__name__.strip("_"))
def test_a3_more_than_one_change_shows(place: Path, how: Callable[[Path, sqlite3.Connection], None]) -> None:
    """Whole tasks, two tasks, the whole file, the checkpoint."""
    with closing(sqlite3.connect(place / "data" / "orchestrator.db")) as database:
        how(place, database)
        if how not in (_older_database, _older_both, _no_checkpoint, _edited_checkpoint):
            database.commit()
    assert TAMPERINGS[how] in whats(place / "data")


def test_a3_without_a_checkpoint_a_cut_tail_shows_where_a_row_knows_more(place: Path) -> None:
    """The row was put right but for what only the items that are gone could say: here, that the task ended."""
    with closing(sqlite3.connect(place / "plain" / "orchestrator.db")) as database, database:
        _cut_with_its_row(place, database)
    assert "row" in whats(place / "plain")


async def test_a3_an_honest_store_has_no_fault_while_it_is_at_work(installation: Installation) -> None:
    """Over both stores, through the endpoint: a directory was deleted, a call edited, a task waits, a line is cut."""
    model = Playing(says(DELETE_ALL), says(WRITE), says(WRITE))
    files = {"a.lua": b"old\n", "lib/x": b"X", "lib/sub/y": b"Y"}
    async with installation.open(model, policy=policy(), files=files) as server:
        task_id, request = await server.asked()
        await server.decide(request, "approve")
        gone = await server.item(task_id, "tool_finished")
        request = await server.request(task_id, after=gone["version"])
        edit = {"call_id": request["tool_calls"][0]["call_id"], "action": "edit"}
        edit["args"] = {"path": "b.lua", "content": "print('edited')\n"}
        await server.decide(request, decisions=[edit])
        ended = await server.item(task_id, "request_ended", after=gone["version"])
        await server.decide(await server.request(task_id, after=ended["version"]), "approve")
        done = await server.item(task_id, "tool_finished", after=gone["version"])
        await server.request(task_id, after=done["version"])
        await installation.hang_up()
        found = (await server.ask("GET", "/v1/audit/verify")).json()
        assert found["faults"] == []
        (started,) = [
            one.fact.before
            for one in await server.items(task_id, "tool_started")
            if isinstance(one.fact, ToolStarted) and "lib" in one.fact.before
        ]
        sizes = await server.store.blob_sizes([started["lib"], sha256(b"X"), sha256(b"Y")])
        assert len(sizes) == 3, "the lines of the directory, and its files"


def test_a3_a_file_of_a_directory_that_was_deleted_has_to_be_there(place: Path) -> None:
    """Only the lines of the directory name it."""
    tamper(place / "data", f"DELETE FROM blobs WHERE sha256 = '{sha256(b'X')}'")
    assert whats(place / "data") == ["blob"]
