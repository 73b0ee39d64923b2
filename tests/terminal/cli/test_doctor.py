"""`cc-orchestrator doctor`: with a server and without one, on what is well and on everything that can be wrong."""

import asyncio
import json
import os
import socket
import sqlite3
import ssl
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from orchestrator.adapters.store.file_lock import FileLock
from orchestrator.runtime.settings import Settings
from orchestrator.terminal.doctor import Finding, examine
from orchestrator.terminal.doctor.local import Patient
from orchestrator.terminal.doctor.reach import bind, keeping_away
from tests.harness.commands import cli
from tests.harness.simulating import Asked, Handler, answer, web
from tests.harness.support import dialed, hello
from tests.harness.whole_server import Server, running


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server with the store that people have; its data directory is ``home``."""
    async with running(tmp_path / "home", store="") as server:
        yield server


async def looked(home: Path, url: str = "http://127.0.0.1:9", **environ: str) -> dict[str, list[Finding]]:
    """Everything that was found, by what was looked at."""
    found: dict[str, list[Finding]] = {}
    for one in await asyncio.to_thread(examine, url, home, environ):
        found.setdefault(one.check, []).append(one)
    return found


async def one(home: Path, check: str, url: str = "http://127.0.0.1:9", **environ: str) -> Finding:
    """The only finding of a look."""
    (finding,) = (await looked(home, url, **environ))[check]
    return finding


# -- the command -------------------------------------------------------------------------


async def test_it_works_without_a_server_and_changes_nothing(tmp_path: Path) -> None:
    """It ends with 1, because nothing answers, says how to start it, and makes no file."""
    home = tmp_path / "home"
    done = await asyncio.to_thread(cli, tmp_path, "doctor", "--data-dir", str(home), "--url", "http://127.0.0.1:9")
    assert done.returncode == 1
    assert "FAIL  server          No orchestrator answers at http://127.0.0.1:9." in done.stdout
    assert "\n                      cc-orchestrator serve --port 9\n" in done.stdout
    assert not home.exists()


async def test_it_is_content_with_a_server_that_is_well_and_tells_no_secret(server: Server, tmp_path: Path) -> None:
    """It ends with 0; neither the token nor any other secret is printed."""
    arguments = ("doctor", "--data-dir", str(tmp_path / "home"), "--url", server.url)
    plain = await asyncio.to_thread(cli, tmp_path, *arguments)
    as_json = await asyncio.to_thread(cli, tmp_path, *arguments, "--json")
    assert (plain.returncode, as_json.returncode) == (0, 0), plain.stdout
    rows = json.loads(as_json.stdout)
    assert {tuple(row) for row in rows} == {("check", "state", "sentence", "remedy")}
    assert {row["check"] for row in rows if row["state"] == "ok"} >= {
        *("python", "settings", "data directory", "store", "policy", "prompt", "port", "server", "token", "version"),
        *("address", "public url", "installer", "refused", "model"),
    }
    assert server.admin not in plain.stdout + as_json.stdout
    assert "ccp_" not in plain.stdout + as_json.stdout


@pytest.mark.deep
async def test_what_hangs_costs_seconds(tmp_path: Path) -> None:
    """A port that takes connections and says nothing is named, and nobody waits long for it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        found = await one(tmp_path, "server", url)
        assert (found.state, found.sentence) == (
            "fail",
            f"127.0.0.1, port {url.rpartition(':')[2]}, did not answer in time.",
        )


# -- this machine ------------------------------------------------------------------------


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("name", "content", "check", "sentence"),
    [
        ("cc-orchestrator.toml", b"prot = 1\n", "settings", "there is no such setting"),
        ("policy.toml", b"nonsense", "policy", "policy.toml"),
        ("prompt.md", b"Be good.", "prompt", "prompt.md: The prompt has no place for $tools"),
        ("prompt.md", b"", "prompt", "prompt.md: The prompt has no place for $tools"),
        ("orchestrator.db", b"no database, but long enough to be taken for one" * 100, "store", "cannot be read"),
    ],
)
async def test_a_broken_file(tmp_path: Path, name: str, content: bytes, check: str, sentence: str) -> None:
    (tmp_path / name).write_bytes(content)
    found = await one(tmp_path, check)
    assert found.state == "fail"
    assert sentence in found.sentence
    assert found.remedy
    assert (tmp_path / name).read_bytes() == content


async def test_a_data_directory_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    found = await one(tmp_path / "file", "data directory")
    assert (found.state, "not a directory" in found.sentence) == ("fail", True)


async def test_a_store_that_is_newer_or_held_or_well(tmp_path: Path) -> None:
    """Whose process has it is said; a store is neither brought up to date nor left locked."""
    path = tmp_path / "orchestrator.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
        connection.execute("INSERT INTO meta VALUES ('cc-orchestrator schema', '7')")
    assert "schema 7; `serve` brings it up to date" in (await one(tmp_path, "store")).sentence
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET value = '6'")
    older = await one(tmp_path, "store")
    assert (older.state, "before 0.6" in older.sentence) == ("fail", True)
    lock = FileLock(path)
    held = await one(tmp_path, "store")
    lock.release()
    assert (held.state, f"open in process {os.getpid()}." in held.sentence) == ("warn", True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET value = '99'")
    newer = await one(tmp_path, "store")
    assert (newer.state, newer.remedy) == ("fail", ("Update cc-orchestrator.",))


async def test_a_port_that_somebody_else_has(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        found = await one(tmp_path, "port", CC_ORCHESTRATOR_PORT=str(port))
    assert (found.state, found.sentence) == ("fail", f"Port {port} of 127.0.0.1 is taken by another program.")
    assert f"cc-orchestrator serve --port {port + 1}" in found.remedy
    assert (await one(tmp_path, "port", CC_ORCHESTRATOR_PORT=str(port))).state == "ok"


@pytest.mark.parametrize(
    ("settings", "state", "sentence"),
    [
        ({}, "ok", "only computers of a Minecraft server on this machine reach it."),
        ({"public_url": "https://farm.example"}, "ok", "behind https://farm.example."),
        ({"host": "0.0.0.0"}, "warn", "the line of `pair` names none of them."),
        ({"host": "0.0.0.0", "public_url": "http://10.0.0.2:8765"}, "ok", "It listens on 0.0.0.0;"),
    ],
)
def test_who_can_reach_the_address(tmp_path: Path, settings: dict[str, Any], state: str, sentence: str) -> None:
    chosen = Settings(data_dir=tmp_path, **settings)
    found = bind(Patient(url="http://127.0.0.1:8765", settings=chosen, data_dir=tmp_path))
    assert (found.state, sentence in found.sentence) == (state, True)
    lines = [line for line in found.remedy if line.startswith("cc-orchestrator serve --host 0.0.0.0 --insecure-bind")]
    assert bool(lines) == (not settings.get("public_url"))


# -- the model ---------------------------------------------------------------------------


def ollama(*names: str, context: int = 32768) -> Handler:
    """A server that has these models."""

    async def handle(asked: Asked) -> bytes:
        if asked.path == "/api/tags":
            return answer(json.dumps({"models": [{"name": name} for name in names]}).encode())
        return answer(json.dumps({"model_info": {"llama.context_length": context}}).encode())

    return handle


@pytest.mark.parametrize(
    ("handler", "state", "sentence", "remedy"),
    [
        (ollama("qwen:latest"), "ok", "has qwen; the window is 8192 tokens.", ""),
        (ollama("llama:1b"), "fail", "has no model qwen.", "ollama pull qwen"),
        (
            ollama("qwen:latest", context=4096),
            "warn",
            "a window of 4096 tokens",
            "cc-orchestrator serve --num-ctx 4096",
        ),
    ],
)
async def test_the_model_of_ollama(tmp_path: Path, handler: Handler, state: str, sentence: str, remedy: str) -> None:
    async with web(handler) as port:
        environ = {"CC_ORCHESTRATOR_MODEL": "ollama:qwen", "CC_ORCHESTRATOR_OLLAMA_URL": f"http://127.0.0.1:{port}"}
        found = await one(tmp_path, "model", **environ)
    assert (found.state, sentence in found.sentence) == (state, True)
    assert not remedy or remedy in found.remedy
    gone = await one(tmp_path, "model", **environ)
    assert (gone.state, gone.sentence) == ("fail", f"Ollama does not answer at http://127.0.0.1:{port}.")


# -- the server --------------------------------------------------------------------------


async def test_what_answers_and_is_not_ours(tmp_path: Path) -> None:
    async def page(asked: Asked) -> bytes:
        del asked
        return answer(b"<html>welcome</html>")

    async with web(page) as port:
        found = await one(tmp_path, "server", f"http://127.0.0.1:{port}")
    assert found.sentence == f"What answers at 127.0.0.1, port {port}, is not cc-orchestrator."


async def test_a_certificate_of_ones_own_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands trust it where SSL_CERT_FILE names it, and so does the doctor; without that it says what to do."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2", "-nodes"]
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", *subject]
    made += ["-keyout", str(key), "-out", str(certificate)]
    process = await asyncio.create_subprocess_exec(*made, stderr=asyncio.subprocess.DEVNULL)
    assert await process.wait() == 0
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def well(asked: Asked) -> bytes:
        del asked
        return answer(b'{"status": "ok"}')

    async with web(well, tls=context) as port:
        url = f"https://127.0.0.1:{port}"
        for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
            monkeypatch.delenv(name, raising=False)
        found = await one(tmp_path, "server", url)
        assert (found.state, found.sentence) == ("fail", "This machine does not trust the certificate of 127.0.0.1.")
        assert "SSL_CERT_FILE" in found.remedy[0]
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        found = await one(tmp_path, "server", url)
        assert (found.state, found.sentence) == ("ok", f"An orchestrator answers at {url}.")


async def test_a_token_that_is_missing_weak_or_revoked(server: Server, tmp_path: Path) -> None:
    """Only an admin sees what the server saw; the others are told so, and the rest is looked at."""
    empty = tmp_path / "empty"
    assert (await one(empty, "token", server.url)).state == "fail"
    empty.mkdir()
    (empty / "admin.token").write_text(await server.person("bob", "submitter"))
    weak = await looked(empty, server.url)
    assert [(one.state, "not an admin's" in one.sentence) for one in weak["token"]] == [("warn", True)]
    assert {"store", "model", "game"} <= set(weak)
    await server.ask("DELETE", "/v1/tokens/person/bob")
    assert (await one(empty, "token", server.url)).state == "fail"


async def test_who_was_turned_away_and_who_is_frozen_or_old(server: Server, tmp_path: Path) -> None:
    """A path that is no channel, a frozen computer with its command, and an older client with its line."""
    home, token = tmp_path / "home", await server.computer("farm")
    with pytest.raises(InvalidStatus) as nowhere:
        await connect(f"{server.url.replace('http', 'ws', 1)}/computers", proxy=None)
    assert nowhere.value.response.status_code == 404
    (found,) = (await looked(home, server.url))["refused"]
    assert (found.state, found.remedy) == ("warn", ("Computers dial /computer, reviewers /reviewer.",))
    assert "at /computers from 127.0.0.1" in found.sentence
    async with dialed(server.url, token) as client:
        await client.greet(client="0.3.0")
        seen = (await server.ask("GET", "/v1/doctor")).json()["computers"]
        assert [(row["state"], row["client"]) for row in seen] == [("online", "0.3.0")]
        (old,) = (await looked(home, server.url))["computers"]
        assert "runs on farm (0.3.0)." in old.sentence
        assert f"wget run {server.url}/install" in old.remedy
    async with dialed(server.url, await server.computer("farm")) as client:
        await client.send(hello(computer_id=99))
        await client.hear("refused")
    frozen = [row for row in (await looked(home, server.url))["computers"] if row.state == "fail"]
    assert len(frozen) == 1
    assert "cc-orchestrator computers release farm" in " ".join(frozen[0].remedy)


async def test_a_line_that_nothing_came_for_is_said_whoever_else_is_here(server: Server, tmp_path: Path) -> None:
    """Until it is used, or the installer is fetched: then the computer says itself what is wrong."""
    home, token = tmp_path / "home", await server.computer("farm")
    async with dialed(server.url, token) as client:
        await client.greet()
        assert (await one(home, "game", server.url)).state == "ok"
        made = await server.ask("POST", "/v1/pairings", {"computer": "barn"})
        found = await one(home, "game", server.url)
        assert found.state == "warn"
        assert "A line of `pair` for barn was made within the last hour" in found.sentence
        assert {"[[http.rules]]", 'host = "127.0.0.1"', "enabled = true", 'action = "allow"'} <= set(found.remedy)
        game = {"User-Agent": "computercraft/1.116.1"}
        assert (await server.http.get("/install", headers=game)).status_code == 200
        assert (await one(home, "game", server.url)).state == "ok"
        await server.ask("POST", "/v1/pairings", {})
        assert "A line of `pair` was made" in (await one(home, "game", server.url)).sentence
        paired = await server.http.post("/v1/pair", json={"code": made.json()["code"], "computer_id": 9})
        assert paired.status_code == 200


@pytest.mark.parametrize(
    ("url", "wanted", "absent"),
    [
        ("http://192.168.0.12:8765", "If the computer says `Domain not permitted`:", "Unknown host"),
        ("http://farm.example:8765", "--port 8765 --public-url http://ADDRESS:8765", "certificate"),
        (
            "https://farm.example",
            "Or: The Minecraft server does not trust the certificate of farm.example.",
            "port 443 --public",
        ),
    ],
)
def test_what_keeps_computers_away_fits_the_address(url: str, wanted: str, absent: str) -> None:
    """A private address, a name, one with TLS: each has its own lines."""
    lines = "\n".join(keeping_away(url))
    assert wanted in lines
    assert absent not in lines
    assert "enabled = true" in lines
    assert "If it says `Failed.`: Nothing answers at " in lines


async def test_only_an_admin_sees_it(server: Server) -> None:
    bob = await server.person("bob", "reviewer")
    assert (await server.ask("GET", "/v1/doctor", token=bob)).status_code == 403
    assert (await server.http.get("/v1/doctor")).status_code == 401


async def test_a_password_in_an_address_is_not_printed(tmp_path: Path) -> None:
    found = await asyncio.to_thread(examine, "http://me:hunter2@127.0.0.1:9", tmp_path, {})
    assert "hunter2" not in json.dumps([one.as_json() for one in found])
    assert any("http://127.0.0.1:9" in one.sentence for one in found)
