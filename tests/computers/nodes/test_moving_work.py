"""A store that real work made moves from one engine to the other and back, and the work goes on there."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from orchestrator.adapters.store import open_store
from orchestrator.history.audit import Checkpoints, verify_store
from orchestrator.history.store_move.inspection import check_store_at
from orchestrator.runtime.clock import SystemClock
from orchestrator.terminal.cli.commands import app
from orchestrator.testing.stub_computer import StubComputer
from tests.adapters.store.moving import rows_of
from tests.computers.test_frozen import known, refused
from tests.harness.browsing import signed_in
from tests.harness.endpoints import Writing
from tests.harness.support import stubs_connected
from tests.harness.whole_server import Server, running
from tests.waiting import HANG_S

FILES = {"a.lua": b"print('old')\n", "startup.lua": b"print('hello')\n"}
ODD = "fix my \0 farm \x01 \U0001f33e"


async def approved(server: Server, task_id: str, spec: Mapping[str, Any] | None = None) -> None:
    """The task's request approved, and the task seen to its end."""
    request = await server.paused(task_id)
    one = {"call_id": request["tool_calls"][0]["call_id"], "action": "approve", **({"remember": spec} if spec else {})}
    body = {"decisions": [one]}
    answer = await server.ask("POST", f"/v1/resume/{request['request_id']}", body)
    assert answer.status_code == 202, answer.text
    assert (await server.until(task_id, "task_ended"))["status"] == "Completed"


async def worked(server: Server) -> tuple[str, StubComputer]:
    """What a server has after a while; the task that still waits for a person, and the computer that it is for."""
    token, other = await server.computer("3"), await server.computer("mine")
    computer = StubComputer(server.url, token, files=FILES, computer_id=3)
    await server.person("bob", "submitter", "reviewer")
    assert (await server.ask("DELETE", "/v1/tokens", {"kind": "person", "name": "bob"})).status_code < 500
    async with stubs_connected(computer):
        first = await server.submit(prompt=ODD, session_id="evening\0")
        await approved(server, first, {"scope": "session", "expires_s": 86_400})
        second = await server.submit(session_id="evening\0")
        assert (await server.until(second, "task_ended"))["status"] == "Completed"
        for task_id in (first, second):
            assert (await server.ask("POST", f"/v1/tasks/{task_id}/pin")).status_code == 200
        assert (await server.ask("POST", "/v1/computers/3/backups", {})).status_code == 201
        gone = await server.submit(session_id="gone")
        await server.paused(gone)
        assert (await server.ask("POST", f"/v1/tasks/{gone}/cancel", {})).status_code < 300
        await server.until(gone, "task_ended")
        hook = {"name": "hook", "kinds": ["frozen"], "url": "http://127.0.0.1:9/"}
        assert (await server.ask("POST", "/v1/notifications/rules", hook)).status_code == 201
        # Its last actor may be giving it back, and what is held stays.
        async with asyncio.timeout(HANG_S):
            while not (pruned := (await server.ask("POST", "/v1/prune", {"older_than_days": 0})).json()["tasks"]):
                pass
        assert [one["task_id"] for one in pruned] == [gone]
        waiting = await server.submit(session_id="open")
        await server.paused(waiting)
    await known(server, other)
    await refused(server, other, boot="boot-2", journal_seq=6, found_seq=5)
    return waiting, computer


async def verified(url: str, directory: Path) -> None:
    """Nothing was changed, by the checkpoint that the first engine's server signed too."""
    store = open_store(url, clock=SystemClock())
    try:
        found = await verify_store(store, Checkpoints(directory))
    finally:
        await store.close()
    assert found.checkpoint_at is not None
    assert found.faults == ()
    assert (await check_store_at(url)).faults == ()


async def commanded(*words: str) -> str:
    """What a command prints; it has to go well."""
    done = await asyncio.to_thread(CliRunner().invoke, app, list(words))
    assert done.exit_code == 0, done.output
    return done.output


async def test_an_installation_moves_and_goes_on(tmp_path: Path, postgres_url: str) -> None:
    here, back = f"sqlite:///{tmp_path / 'o.db'}", f"sqlite:///{tmp_path / 'back.db'}"
    async with running(tmp_path, model=Writing(), store=here) as server:
        waiting, computer = await worked(server)
        tab = await signed_in(server)
        assert (await server.ask("POST", "/v1/groups/class", {"add_people": ["admin"]})).status_code == 200
        admin, port = server.admin, int(server.url.rpartition(":")[2])
    before = await rows_of(here)
    assert {table for table in before if not before[table]} <= {"agreed"}
    told = await commanded("store", "migrate", "--store", here, "--to", postgres_url)
    assert f"{sum(map(len, before.values()))} rows" in told
    assert "Next: cc-orchestrator serve --store URL" in told
    assert await rows_of(postgres_url) == await rows_of(here) == before
    await verified(postgres_url, tmp_path)
    async with running(tmp_path, model=Writing(), store=postgres_url, port=port) as server:
        assert server.admin == admin
        assert (await replace(tab, server=server).ask("GET", "/v1/session")).status_code == 200
        frozen = (await server.ask("GET", "/v1/computers/mine")).json()
        assert frozen["state"] == "frozen"
        assert len((await server.ask("GET", "/v1/backups")).json()["backups"]) == 1
        (grant,) = (await server.ask("GET", "/v1/grants")).json()["grants"]
        assert (grant["usable"], grant["uses"]) == (True, 1)
        listed = (await server.ask("GET", "/v1/tasks")).json()["tasks"]
        assert ODD in {row["prompt"] for row in listed}
        async with stubs_connected(computer):
            await approved(server, waiting)
            again = await server.submit(session_id="evening\0")
            assert (await server.until(again, "task_ended"))["status"] == "Completed"
    dump = str(tmp_path / "store.dump.gz")
    await commanded("store", "export", dump, "--store", postgres_url)
    await commanded("store", "import", dump, "--store", back)
    assert await rows_of(back) == await rows_of(postgres_url)
    await verified(back, tmp_path)
    async with running(tmp_path, model=Writing(), store=back) as server:
        assert (await server.ask("GET", f"/v1/tasks/{waiting}")).json()["status"] == "Completed"
