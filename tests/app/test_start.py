"""Starting and stopping: what the first start lays out, what starts nothing, and what a signal leaves behind."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.exceptions import InvalidStatus

from orchestrator.app import first_start as app_first_start
from orchestrator.app import orchestrator as app_orchestrator
from orchestrator.app import serving as app_serving
from orchestrator.app.first_start import ollama_options, started
from orchestrator.app.orchestrator import kept_up
from orchestrator.app.serving import listen
from orchestrator.core.errors import InvalidRequest, OrchestratorError, PolicyInvalid
from orchestrator.core.policy import default_policy
from orchestrator.core.ports import Store
from orchestrator.runtime.program import program
from orchestrator.runtime.settings import Settings
from tests.harness.endpoints import Writing, stream
from tests.harness.support import Disk, dialed
from tests.harness.whole_server import Server, connected, running
from tests.servers import NO_TLS
from tests.waiting import HANG_S


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server without computers, whose model writes a file."""
    async with running(tmp_path, model=Writing()) as server:
        yield server


async def test_the_first_start_lays_out_its_data_directory(tmp_path: Path) -> None:
    """The first start writes policy, workspace and the admin's token (0600); the second keeps the token."""
    home = tmp_path / "new" / "home"
    async with running(home, store="") as server:
        first = server.admin
        assert server.orchestrator.admin_token == first
        names = {path.name for path in home.iterdir()}
        assert {"policy.toml", "workspace", "admin.token", "orchestrator.db"} <= names
        assert (home / "admin.token").stat().st_mode & 0o777 == 0o600
    async with running(home, store="") as server:
        assert server.admin == first
        assert server.orchestrator.admin_token is None


async def test_a_lost_admin_token_is_made_anew(tmp_path: Path) -> None:
    """Without the file, or with one that the store does not know, a start makes a new token for the admin."""
    async with running(tmp_path, store="") as server:
        first = server.admin
    (tmp_path / "admin.token").write_text("junk\n")
    async with running(tmp_path, store="") as server:
        assert server.admin not in {first, "junk"}
        # Of whichever installation that was, it is still there.
        assert (tmp_path / "admin.token.old").read_text() == "junk\n"
        assert (await server.ask("GET", "/v1/tokens")).status_code == 200


@pytest.mark.parametrize("content", [None, b"rules = 3\n", b"\xff", b"schema_version = 1\n[[rules]]\nid = 'x'\n"])
async def test_a_policy_that_cannot_be_used_starts_nothing(tmp_path: Path, content: bytes | None) -> None:
    """In a data directory that was used, a missing or broken policy refuses the start: nothing runs ungated."""
    async with running(tmp_path, store=""):
        pass
    policy = tmp_path / "policy.toml"
    if content is None:
        policy.unlink()
    else:
        policy.write_bytes(content)
    with pytest.raises(PolicyInvalid, match=r"policy\.toml"):
        async with running(tmp_path, store=""):
            pass
    assert content is None or policy.read_bytes() == content


async def test_a_bus_that_cannot_be_opened_leaves_the_store_closed(tmp_path: Path) -> None:
    """The start is refused, and the store's file is free for the next."""
    stores: list[Store] = []

    def kept(store: Store) -> Store:
        stores.append(store)
        return store

    settings = Settings(data_dir=tmp_path, bus="pigeon:")
    with pytest.raises(InvalidRequest, match="No bus can be opened"):
        await contextlib.AsyncExitStack().enter_async_context(
            app_orchestrator.open_orchestrator(settings, wrap_store=kept)
        )
    with pytest.raises(OrchestratorError, match="closed"):
        await stores[0].list_tasks()


async def test_what_a_defect_ends_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """What goes on for as long as the node does is missed by nobody else until the next start."""

    async def works() -> None:
        raise KeyError("a figure")

    with pytest.raises(KeyError):
        await kept_up("the pruner", works())
    assert "the pruner met a defect and does nothing until the next start" in caplog.text


async def test_a_bus_for_several_nodes_wants_a_store_for_several(tmp_path: Path) -> None:
    """Nodes that each have a SQLite store of their own would share nothing: said before anything is made."""
    settings = Settings(data_dir=tmp_path / "new", port=0, bus="nats://127.0.0.1:1")
    with pytest.raises(InvalidRequest, match="the store sqlite: is one node's own") as refused:
        await app_serving.serve(settings, ready=lambda *_: None)
    assert "--store postgresql://" in refused.value.remedy
    assert not settings.data_dir.exists()


@pytest.mark.parametrize(
    ("bus", "told"),
    [
        ("nats://secret@a", "nats://***@a"),
        ("tls://u:secret@a,secret@b:1/name", "tls://***@a,***@b:1/name"),
        ("nats://a,nats://u:secret@b", "nats://a,nats://***@b"),
        ("postgresql://u:secret@a/b", "postgresql://u:***@a/b"),
    ],
)
def test_a_start_is_recorded_without_what_opens_the_bus(tmp_path: Path, bus: str, told: str) -> None:
    """Neither a password nor a token of its URL is in the audit."""
    said = started(Settings(data_dir=tmp_path, bus=bus), default_policy(), "alpha-1")
    assert said.settings["bus"] == told


@pytest.mark.parametrize("inside", [False, True])
async def test_a_data_directory_that_is_none_is_a_sentence(tmp_path: Path, inside: bool) -> None:
    """A data directory that is a file, or lies in one, is refused with what to do."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidRequest, match=r"cannot be used: .*Choose another with --data-dir"):
        async with running(tmp_path / "file" / "x" if inside else tmp_path / "file"):
            pass


async def test_sigterm_ends_cleanly_and_the_next_start_carries_on(tmp_path: Path) -> None:
    """A signal closes computers with 1001 and streams at their end, promptly; the task then goes on where it was."""
    chosen = Settings(data_dir=tmp_path, port=0)
    async with serving(chosen) as (url, orchestrator, ended):
        server = Server(
            url, orchestrator, httpx2.AsyncClient(base_url=url, trust_env=False, verify=NO_TLS), admin_token(chosen)
        )
        token = await server.computer("3")
        async with dialed(url, token) as client, contextlib.aclosing(server.http):
            await client.greet()
            task_id = await server.submit()
            await client.hear("call")
            async with stream(server, task_id, "?after=99") as blocks:
                await anext(blocks)
                os.kill(os.getpid(), signal.SIGTERM)
                assert [block async for block in blocks] == []
            assert await client.closed() == (1001, "the orchestrator stops")
        async with asyncio.timeout(HANG_S):
            await ended
    async with running(tmp_path, model=Writing(), store="") as server, connected(server, "3", Disk(), token):
        request = await server.paused(task_id)
        assert request["task_id"] == task_id


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[tuple[str, app_orchestrator.Orchestrator, asyncio.Task[None]]]:
    """`app_serving.serve` as the command does it, in this loop."""
    ready: asyncio.Future[tuple[str, app_orchestrator.Orchestrator]] = asyncio.get_running_loop().create_future()
    ended = asyncio.create_task(
        app_serving.serve(settings, ready=lambda *told: ready.set_result(told), model=Writing())
    )
    try:
        async with asyncio.timeout(HANG_S):
            await asyncio.wait((ready, ended), return_when=asyncio.FIRST_COMPLETED)
        yield *ready.result(), ended
    finally:
        ended.cancel()
        await asyncio.gather(ended, return_exceptions=True)


def admin_token(settings: Settings) -> str:
    """The admin's token as the first start wrote it."""
    return settings.token_path.read_text("utf-8").strip()


async def test_a_stop_ends_a_wait_for_a_result(server: Server) -> None:
    """Who waits for the result of an approval when the orchestrator stops is answered at once with 202."""
    token = await server.computer("3")
    async with dialed(server.url, token) as client:
        await client.greet()
        task_id = await server.submit()
        look, _ = await client.hear("call")
        await client.result(look.call_id, Disk({"a.lua": b"old\n"}).perform("fs_read", {"path": "a.lua"}, None))
        request = await server.paused(task_id)
        waiting = asyncio.create_task(server.ask("POST", f"{request['approval_url']}?wait_s=60"))
        while (message := (await client.hear())[0]).type != "call" or message.method != "fs_write":
            pass
        async with asyncio.timeout(HANG_S):
            await server.orchestrator.endpoints.close()
            answer = await waiting
        then = {"task_id": task_id, "status": "Running", "progress": ""}
        assert (answer.status_code, answer.json()) == (202, then)


async def test_a_refused_handshake_is_no_error_in_the_log(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """A computer without a token gets its 401, and the log no line at ERROR."""
    with caplog.at_level(logging.INFO), pytest.raises(InvalidStatus):
        async with dialed(server.url, "nonsense"):
            pass
    await server.http.get("/healthz")
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_the_settings_reach_ollama(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How Ollama is asked is what the settings say; its address, unless they name one, what OLLAMA_HOST says."""
    monkeypatch.setenv("OLLAMA_HOST", "gpu.example")
    named: dict[str, Any] = {"num_ctx": 4096, "num_predict": 512, "temperature": 0.7, "seed": 3, "keep_alive": "2h"}
    options = ollama_options(Settings(data_dir=tmp_path, **named))
    assert {name: getattr(options, name) for name in named} == named
    assert options.url == "http://gpu.example:11434"
    assert ollama_options(Settings(data_dir=tmp_path, ollama_url="http://127.0.0.1:9")).url == "http://127.0.0.1:9"


async def test_a_reply_that_does_not_fit_the_window_starts_nothing(tmp_path: Path) -> None:
    """`num_predict` that leaves no room in `num_ctx` is refused at the start, where Ollama is the model."""
    settings = Settings(data_dir=tmp_path, store="memory:", model="ollama:any", num_ctx=1024, num_predict=1024)
    with pytest.raises(InvalidRequest, match="num_predict is 1024 and num_ctx 1024"):
        async with app_orchestrator.open_orchestrator(settings):
            pass


def test_the_first_words_say_where_to_go_on(tmp_path: Path) -> None:
    """The first start names the token's file, the URL and the next commands; one that nobody reaches, the setting."""
    words = "\n".join(app_first_start.first_words(Settings(data_dir=tmp_path), "http://127.0.0.1:9"))
    for wanted in (str(tmp_path / "admin.token"), "CC_ORCHESTRATOR_URL=http://127.0.0.1:9 ", f"{program()} pair"):
        assert wanted in words
    assert "the page http://127.0.0.1:9/ too" in words
    assert f"{program()} tui" in words
    assert "--public-url" not in words
    everywhere = Settings(data_dir=tmp_path, host="0.0.0.0", insecure_bind=True)
    assert "--public-url" in "\n".join(app_first_start.first_words(everywhere, "http://0.0.0.0:8765"))


def test_an_answer_is_not_held_back(tmp_path: Path) -> None:
    """The listener says that it is TCP: only then asyncio sends an answer at once, not 40 ms later."""
    with contextlib.closing(listen(Settings(data_dir=tmp_path, port=0))) as listener:
        assert listener.proto == socket.IPPROTO_TCP
