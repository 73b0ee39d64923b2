"""``cc-orchestrator store``: the commands around a store, as they are typed."""

import json
import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.adapters.store import open_store
from orchestrator.adapters.store.schema import SCHEMA
from orchestrator.core.ports import SYSTEM_STREAM
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.states import TaskStatus
from orchestrator.runtime.clock import SystemClock
from orchestrator.testing import ManualClock
from orchestrator.testing.drafts import REPLY, Author
from orchestrator.web.auth import token_hash
from tests import ROOT, forked
from tests.harness.commands import CLI
from tests.servers import PASSWORD, PostgresServer
from tests.waiting import HANG_S


@pytest.fixture
async def data_dir(tmp_path: Path) -> Path:
    """A data directory whose store has a task."""
    directory = tmp_path / "data"
    directory.mkdir()
    store = open_store(f"sqlite:///{directory / 'orchestrator.db'}", clock=SystemClock())
    author = Author(ManualClock())
    await store.create(TaskId("t1"), [author.submitted()])
    await store.append(TaskId("t1"), 1, author.proposed(), status=TaskStatus.RUNNING, blobs=[REPLY])
    await store.lease("alpha-1", 600)
    await store.close()
    with closing(sqlite3.connect(directory / "orchestrator.db")) as connection, connection:
        connection.execute("UPDATE tasks SET holder = 'alpha-1'")
    return directory


def typed(*words: str, said: bytes = b"", **environ: str) -> subprocess.CompletedProcess[bytes]:
    """What a command says."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CC_ORCHESTRATOR")}
    mine = {**kept, "PYTHONPATH": str(ROOT)}
    command = [*CLI, "store", *words]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with forked.start(command, {**mine, **environ}, **pipes) as process:
        out, errors = process.communicate(said, HANG_S)
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


def test_check_tells_what_is_there(data_dir: Path) -> None:
    done = typed("check", "--data-dir", str(data_dir))
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"schema {SCHEMA}" in text
    assert "1 tasks, 4 items" in text
    assert "t1 is held by alpha-1" in text
    assert "All is as it was written." in text
    found = json.loads(typed("check", "--json", CC_ORCHESTRATOR_DATA_DIR=str(data_dir)).stdout)
    assert (found["ok"], found["nodes"], found["counts"]["items"]) == (True, ["alpha-1"], 4)


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("UPDATE tasks SET head_hash = 'x'", "t1"),
        ("DELETE FROM items WHERE version = 2", "t1"),
        ("UPDATE tasks SET status = 'Completed'", "status"),
        ("UPDATE blobs SET content = X'00'", "were changed"),
        ("UPDATE blob_marks SET size = 1", "The mark of the blob"),
        ("INSERT INTO computers (computer, number, task) VALUES ('9', 1, 't9')", "claimed by t9"),
    ],
)
def test_check_tells_what_is_not_as_it_was_written(data_dir: Path, damage: str, told: str) -> None:
    with closing(sqlite3.connect(data_dir / "orchestrator.db")) as connection, connection:
        connection.execute(damage)
    done = typed("check", "--data-dir", str(data_dir))
    assert done.returncode == 1
    assert told in done.stdout.decode()
    assert "not as written" in done.stdout.decode()


def test_check_tells_of_damaged_pages(data_dir: Path) -> None:
    path = data_dir / "orchestrator.db"
    whole = path.read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'tasks_newest'").fetchone()
    path.write_bytes(whole[: (page - 1) * 4096 + 8] + b"\xff" * 4088 + whole[page * 4096 :])
    done = typed("check", "--json", "--data-dir", str(data_dir))
    found = json.loads(done.stdout)
    assert (done.returncode, found["ok"]) == (1, False)
    assert found["faults"][0].startswith("The database is damaged: ")


def test_a_store_goes_through_a_pipe(data_dir: Path, tmp_path: Path) -> None:
    """Standard output has the dump and nothing else; what is said of it stands beside."""
    out = typed("export", "-", "--data-dir", str(data_dir))
    assert out.returncode == 0
    assert b"were written to -" in out.stderr
    target = f"sqlite:///{tmp_path / 'new.db'}"
    back = typed("import", "-", "--store", target, "--json", said=out.stdout)
    found = json.loads(back.stdout)
    assert (found["counts"]["items"], found["schema"]) == (4, SCHEMA)
    assert f"rows sha256 {found['sha256']}".encode() in out.stderr
    cut = typed("import", "-", "--store", f"sqlite:///{tmp_path / 'cut.db'}", said=out.stdout[:-9])
    assert cut.returncode == 2
    assert b"The dump is not whole: line " in cut.stderr
    assert not (tmp_path / "cut.db").exists()


def test_a_file_is_new_and_of_its_owner_and_packs_to_the_same_bytes(data_dir: Path, tmp_path: Path) -> None:
    one, packed, again = (str(tmp_path / name) for name in ("one", "one.gz", "two.gz"))
    for file in (one, packed, again):
        assert typed("export", file, "--data-dir", str(data_dir)).returncode == 0
        assert Path(file).stat().st_mode & 0o077 == 0
    assert Path(packed).stat().st_size < Path(one).stat().st_size
    done = typed("export", one, "--data-dir", str(data_dir))
    assert done.returncode == 2
    assert b"cannot be written" in done.stderr
    unnamed = Path(packed).rename(tmp_path / "packed.dump")
    target = f"sqlite:///{tmp_path / 'new.db'}"
    assert typed("import", str(unnamed), "--store", target).returncode == 0
    piped = typed("import", "-", "--store", f"sqlite:///{tmp_path / 'piped.db'}", said=unnamed.read_bytes())
    assert piped.returncode == 0
    missing = typed("import", str(tmp_path / "none"), "--store", target)
    assert missing.returncode == 4
    assert b"cannot be read" in missing.stderr


@pytest.mark.deep
async def test_growing_is_one_command(data_dir: Path, postgres_server: PostgresServer) -> None:
    """The password is in no word that is said, and what was held is due on the other side."""
    url = postgres_server.tcp_url(await postgres_server.new_database())
    (data_dir / "cc-orchestrator.toml").write_text("port = 8765\n")
    done = typed("migrate", "--data-dir", str(data_dir), "--to", url)
    assert done.returncode == 0, done.stderr
    assert b"Next: cc-orchestrator serve --store URL, with the URL of postgresql://127.0.0.1" in done.stdout
    assert b"as `store` in cc-orchestrator.toml of the data directory, or as CC_ORCHESTRATOR_STORE." in done.stdout
    found = json.loads(typed("check", "--json", CC_ORCHESTRATOR_STORE=url).stdout)
    assert (found["ok"], found["held"], found["counts"]["items"]) == (True, [], 4)
    again = typed("migrate", "--data-dir", str(data_dir), "--to", url)
    assert again.returncode == 2
    assert b"is not empty" in again.stderr
    wrong = typed("check", "--store", postgres_server.tcp_url(password="wrong-horse"))
    assert wrong.returncode == 2
    for one in (done, again, wrong):
        assert PASSWORD.encode() not in one.stdout + one.stderr
        assert b"wrong-horse" not in one.stdout + one.stderr


def test_migrate_alone_brings_the_tables_forward(data_dir: Path) -> None:
    done = typed("migrate", "--data-dir", str(data_dir))
    assert b"has schema" in done.stdout
    found = json.loads(typed("migrate", "--json", "--data-dir", str(data_dir)).stdout)
    assert (found["from_schema"], found["schema"]) == (SCHEMA, SCHEMA)
    nothing = typed("migrate", "--store", "memory:")
    assert nothing.returncode == 2
    assert b"cannot be moved" in nothing.stderr


async def test_who_can_open_the_store_makes_an_admin(data_dir: Path) -> None:
    """A token that the store knows as an admin's, noted in the audit; while somebody has the store it is refused."""
    done = typed("admin", "--data-dir", str(data_dir), "--json")
    assert done.returncode == 0, done.stderr
    token = json.loads(done.stdout)["token"]
    url = f"sqlite:///{data_dir / 'orchestrator.db'}"
    store = open_store(url, clock=SystemClock())
    try:
        row = await store.find_token(token_hash(token))
        assert row is not None
        assert "admin" in row.roles
        assert [item.fact.kind for item in await store.read(TaskId(SYSTEM_STREAM))] == ["token_issued"]
        held = typed("admin", "--data-dir", str(data_dir))
    finally:
        await store.close()
    assert held.returncode == 2
    assert f"open in process {os.getpid()}".encode() in held.stderr
