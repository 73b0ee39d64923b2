"""The heads of streams leave the host, and a store that was put back together with its checkpoint is found by them."""

import asyncio
import hashlib
import hmac
import json
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from orchestrator.core.audit.chain import heads_digest
from orchestrator.core.errors import InvalidRequest
from orchestrator.history.audit import MARK, Checkpoints, read_heads
from orchestrator.history.checkpoints import SIGNATURE, HeadsAway, places_of
from orchestrator.terminal.cli.audit import offline_verify, verify_against
from tests.contract.parts import Playing
from tests.core.journal import NOW
from tests.harness.commands import cli
from tests.harness.whole_server import Installation
from tests.servers import free_port
from tests.waiting import HANG_S


async def _lived(installation: Installation, heads_to: Path | str, prompt: str) -> str:
    """One life of a node in which a task came and ended; its id."""
    async with installation.open(Playing(), computer=False, heads_to=str(heads_to)) as server:
        answer = await server.ask("POST", "/v1/tasks", {"prompt": prompt})
        task_id = str(answer.json()["task_id"])
        await server.ended(task_id)
    return task_id


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """``data`` after three lives, ``young`` after the second, and ``heads.log`` on another disk."""
    installation = Installation(tmp_path / "data")
    for prompt in ("one", "two"):
        asyncio.run(_lived(installation, tmp_path / "heads.log", prompt))
    shutil.copytree(installation.directory, tmp_path / "young")
    asyncio.run(_lived(installation, tmp_path / "heads.log", "three"))
    return tmp_path


def whats(place: Path, directory: str) -> set[str]:
    return {one["what"] for one in verify_against(place / "heads.log", place / directory)["faults"]}


def test_a_store_that_was_put_back_with_its_checkpoint_is_found(place: Path) -> None:
    """Everything in the data directory is of one moment, so that it fits together; what left it does not."""
    assert whats(place, "data") == set()
    young = offline_verify(place / "young")
    assert young is not None
    assert young["faults"] == []
    assert whats(place, "young") == {"gone", "cut"}
    done = cli(place, "audit", "verify", "--heads", str(place / "heads.log"), "--data-dir", str(place / "young"))
    assert done.returncode == 1
    assert "an older store and checkpoint were put back together" in done.stdout
    assert "is gone; heads that left the host have" in done.stdout
    done = cli(place, "audit", "verify", "--heads", str(place / "heads.log"), "--data-dir", str(place / "data"))
    assert (done.returncode, "Nothing was changed." in done.stdout) == (0, True)


def test_it_is_found_too_after_it_grew_again(place: Path) -> None:
    """The node that was put back goes on, and sends heads as ever: the older lines still say what there was."""
    installation = Installation(place / "young")
    for prompt in ("four", "five", "six"):
        asyncio.run(_lived(installation, place / "heads.log", prompt))
    assert whats(place, "young") == {"gone", "rewritten"}


async def test_a_server_at_work_is_compared_as_well(tmp_path: Path) -> None:
    """The store is read beside the server, which need not be believed."""
    installation = Installation(tmp_path / "data")
    await _lived(installation, tmp_path / "heads.log", "one")
    async with installation.open(Playing(), computer=False, heads_to=str(tmp_path / "heads.log")):
        found = await asyncio.to_thread(verify_against, tmp_path / "heads.log", installation.directory)
        assert found["faults"] == []


async def test_a_pruned_task_is_not_missed(tmp_path: Path) -> None:
    """Its note says that it went, and with which head."""
    installation = Installation(tmp_path / "data")
    await _lived(installation, tmp_path / "heads.log", "one")
    async with installation.open(Playing(), computer=False, heads_to=str(tmp_path / "heads.log")) as server:
        assert (await server.ask("POST", "/v1/prune", {"older_than_days": 0})).json()["tasks"]
    found = await asyncio.to_thread(verify_against, tmp_path / "heads.log", installation.directory)
    assert found["faults"] == []


# -- where they go -----------------------------------------------------------------------


async def test_a_syslog_server_hears_them_and_its_file_is_read(tmp_path: Path) -> None:
    """What it puts before each line is passed over."""
    installation, port = Installation(tmp_path / "data"), 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(HANG_S)
        port = listening.getsockname()[1]
        await _lived(installation, f"syslog://127.0.0.1:{port}", "one")
        received = listening.recv(4096).decode()
    assert received.startswith("<109>1 ")
    assert len(received) < 2048
    (tmp_path / "heads.log").write_text(f"Nov 25 host something else\nNov 25 host {received}\n")
    assert "system" in read_heads(tmp_path / "heads.log")
    assert (await asyncio.to_thread(verify_against, tmp_path / "heads.log", installation.directory))["faults"] == []


@contextmanager
def _collector(port: int, into: list[tuple[bytes, str]], busy_at: int = -1) -> Iterator[None]:
    """A real HTTP server that keeps what is posted to it; ``busy_at``: once it has so much, it refuses one."""
    busy = iter([busy_at])

    class Keeping(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told = self.rfile.read(int(self.headers["Content-Length"])), self.headers[SIGNATURE]
            refused = len(into) == busy_at and next(busy, None) is not None
            into.extend([] if refused else [told])
            self.send_response(503 if refused else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", port), Keeping) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


async def test_a_webhook_gets_signed_lines_and_all_of_them_once_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """While it is away the node works and says so once; then everything comes."""
    installation, port, told = Installation(tmp_path / "data"), free_port(), list[tuple[bytes, str]]()
    url = f"http://127.0.0.1:{port}/heads"
    await _lived(installation, url, "one")
    assert caplog.text.count("do not reach") == 1
    with _collector(port, told):
        await _lived(installation, url, "two")
    key = bytes.fromhex((installation.directory / "heads.key").read_text())
    for body, signature in told:
        assert signature == "sha256=" + hmac.new(key, body, hashlib.sha256).hexdigest()
    (tmp_path / "heads.log").write_bytes(b"".join(body for body, _ in told))
    assert len(read_heads(tmp_path / "heads.log")) == 3
    assert await asyncio.to_thread(whats, tmp_path, "data") == set()


async def test_all_heads_go_some_at_a_time_and_on_from_where_a_place_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are, and whatever the place has taken already."""
    monkeypatch.setattr("orchestrator.history.checkpoints._AT_ONCE", 10)
    heads = {f"t-{number:02}": (1, "a" * 64) for number in range(25)}
    newer = {"system": (7, "b" * 64), "t-03": (2, "c" * 64)}
    checkpoints = Checkpoints(tmp_path, whole_below=0)
    checkpoints.write(heads, NOW)
    port, told = free_port(), list[tuple[bytes, str]]()
    away = HeadsAway(places_of(f"http://127.0.0.1:{port}/heads", tmp_path))
    with _collector(port, told, busy_at=2):
        await away.send(newer, NOW, "key", checkpoints)
        assert away.alerts()
        await away.send({}, NOW, "key", checkpoints)
    assert away.alerts() == []
    parts = [[json.loads(line.removeprefix(MARK)) for line in body.decode().splitlines()] for body, _ in told]
    got = [{name: tuple(said) for line in part for name, said in line["streams"].items()} for part in parts]
    names = sorted({**heads, **newer})
    assert [sorted(part) for part in got] == [sorted(newer), names[:10], names[10:20], names[20:]]
    assert {name: said for part in got[1:] for name, said in part.items()} == {**heads, **newer}
    digest = heads_digest({**heads, **newer})
    assert {line["all"] for part in parts[1:] for line in part} == {digest}


def test_what_is_no_place_or_no_file_of_heads_is_refused(tmp_path: Path) -> None:
    """A sentence each, before anything is compared."""
    for name in ("heads.log", "syslog://", "ftp://x/y"):
        with pytest.raises(InvalidRequest, match="not a place for heads"):
            places_of(f"syslog:, {name}", tmp_path)
    file = tmp_path / "heads.log"
    for text, words in (("", "No line"), (f"{MARK}{{}}\n", "Line 1"), (None, "cannot be read")):
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_text(text)
        with pytest.raises(InvalidRequest, match=words):
            read_heads(file)
    done = cli(tmp_path, "audit", "verify", "--heads", str(file), "--url", "http://127.0.0.1:1")
    assert done.returncode != 0
    assert "--url names a server" in done.stderr
