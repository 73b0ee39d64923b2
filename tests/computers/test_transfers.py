"""A person who waits for a backup sees its progress: at the endpoint, on a terminal and on a pipe."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from orchestrator.core.errors import ComputerFailed
from orchestrator.core.ports import CallResult
from orchestrator.core.wire import wire
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.web.answers.history import TransferList
from tests.harness.commands import on_a_terminal
from tests.harness.support import Listening, StubClient, dialed, final
from tests.harness.whole_server import Server, running
from tests.waiting import HANG_S, within

FILES = {"a.lua": b"print('a')\n", "b.lua": b"print('b')\n", "c.lua": b"x" * 5000}


@dataclass
class Gated:
    """A computer that gives out a file for each ``release``."""

    client: StubClient
    gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    """Somebody wants to read a file."""

    async def serve(self) -> None:
        """Answer until the connection is over."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    data = await self.client.socket.recv()
                    assert isinstance(data, bytes)
                    message, _ = wire.decode_any(data)
                    if isinstance(message, wire.Call):
                        group.create_task(self._answer(message))
        except* ConnectionClosed:
            pass

    async def _answer(self, message: wire.Call) -> None:
        await self.client.send(wire.Ack(journal_seq=2, call_id=message.call_id))
        if message.method == "fs_read":
            self.asked.set()
            await self.gate.acquire()
        await self.client.result(message.call_id, _outcome(message.method, message.params.get("path", "")))


def _outcome(method: str, path: str) -> CallResult | ComputerFailed:
    match method:
        case "fs_stat" if not path:
            lines = "".join(f"{name}\0file\0{sha256_hex(data)}\n" for name, data in FILES.items()).encode()
            return CallResult({"kind": "directory", "sha256": sha256_hex(lines)}, lines)
        case "fs_stat" if path in FILES:
            size, sha256 = len(FILES[path]), sha256_hex(FILES[path])
            return CallResult({"kind": "file", "path": path, "size": size, "sha256": sha256, "read_only": False})
        case "fs_list":
            return CallResult({}, json.dumps([{"name": name} for name in FILES]).encode())
        case "fs_read":
            return CallResult({"size": len(FILES[path]), "sha256": sha256_hex(FILES[path])}, FILES[path])
        case "info":
            return CallResult({"capacity": 1_000_000})
    return ComputerFailed("unknown_method", f"There is no method {method}.")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server."""
    async with running(tmp_path / "data", model=Listening(final("done"))) as server:
        yield server


@asynccontextmanager
async def gated(server: Server) -> AsyncIterator[Gated]:
    """Computer 3, which gives out nothing yet."""
    async with dialed(server.url, await server.computer("3")) as client:
        await client.greet()
        computer = Gated(client)
        serving = asyncio.create_task(computer.serve())
        yield computer
        await client.socket.close()
        await serving


async def transfers(server: Server) -> list[dict[str, Any]]:
    """What goes on."""
    rows: list[dict[str, Any]] = (await server.ask("GET", "/v1/transfers")).json()["transfers"]
    return rows


async def came_to(server: Server, files: int) -> dict[str, Any]:
    """The transfer, once so many files were read."""
    async with asyncio.timeout(HANG_S):
        while not (rows := await transfers(server)) or rows[0]["files"] < files:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.01)
    return rows[0]


def where(server: Server) -> dict[str, str]:
    """What a command needs to find the server."""
    return {"CC_ORCHESTRATOR_URL": server.url, "CC_ORCHESTRATOR_TOKEN": server.admin}


async def test_the_endpoint_tells_of_a_backup_while_it_is_made(server: Server) -> None:
    """Files and bytes rise with each that was read, and nothing is left when it is over."""
    async with gated(server) as computer:
        assert await transfers(server) == []
        backup = asyncio.create_task(server.ask("POST", "/v1/computers/3/backups", {}))
        await within(computer.asked.wait())
        row = await came_to(server, 0)
        assert {key: row[key] for key in ("what", "computer", "files", "of_files", "bytes")} == {
            "what": "backup",
            "computer": "3",
            "files": 0,
            "of_files": 3,
            "bytes": 0,
        }
        computer.gate.release()
        assert (await came_to(server, 1))["bytes"] in {len(data) for data in FILES.values()}
        computer.gate.release()
        computer.gate.release()
        made = await within(backup)
        assert (made.status_code, made.json()["new_bytes"]) == (201, sum(map(len, FILES.values())))
        assert await transfers(server) == []
        again = await server.ask("POST", "/v1/computers/3/backups", {})
        assert again.json()["new_bytes"] == 0


async def test_a_computer_that_goes_away_leaves_no_transfer(server: Server) -> None:
    """What ended with an error goes on no more."""
    async with gated(server) as computer:
        backup = asyncio.create_task(server.ask("POST", "/v1/computers/3/backups", {}))
        await within(computer.asked.wait())
        for _ in FILES:
            computer.gate.release()
        await computer.client.socket.close()
        assert (await within(backup)).status_code in (201, 409)
    assert await transfers(server) == []


def test_a_row_of_a_node_of_another_version_is_read_as_far_as_it_is_known() -> None:
    """A field that came later is left out, and so is a row without one that is needed."""
    row = {"transfer_id": "x-1", "what": "backup", "computer": "3", "files": 1, "of_files": None, "bytes": 5}
    row["began_at"] = "2030-01-01T12:00:00+00:00"
    read = TransferList.read([{**row, "later": 1}, {"transfer_id": "x-2"}])
    assert read.model_dump(mode="json") == {"transfers": [row]}


async def test_the_endpoint_is_for_people_and_programs(server: Server) -> None:
    """A computer's token opens it not."""
    assert (await server.http.get("/v1/transfers")).status_code == 401
    assert (await server.ask("GET", "/v1/transfers", token=await server.computer("4"))).status_code == 401


@pytest.mark.parametrize(
    ("arguments", "what"), [(["backup", "3"], "backup"), (["run", "x", "--rehearse"], "rehearsal")]
)
async def test_a_terminal_shows_a_bar_and_takes_it_back(
    server: Server, tmp_path: Path, arguments: list[str], what: str
) -> None:
    """While files are read a bar says how many; when the answer is there the bar is gone."""
    rest = ["--computer", "3", "--detach"] if what == "rehearsal" else []
    async with gated(server) as computer:
        loop = asyncio.get_running_loop()

        def at_the_terminal() -> tuple[int, str]:
            shown = {"TERM": "xterm", **where(server)}
            with on_a_terminal(tmp_path, *arguments, *rest, **shown) as terminal:
                terminal.expect("3  [------------------------]   0%  0 of 3 files, 0 B")
                loop.call_soon_threadsafe(computer.gate.release)
                terminal.expect("1 of 3 files")
                for _ in FILES:
                    loop.call_soon_threadsafe(computer.gate.release)
                return terminal.end(), terminal.text

        code, text = await asyncio.to_thread(at_the_terminal)
    assert code == 0, text
    drawn, _, answer = text.rpartition("\x1b[K")
    assert "of 3 files" in drawn
    assert answer.startswith("backup    b-" if what == "backup" else "task t-"), text
    assert "[#" not in answer


async def test_a_script_gets_one_document_and_hints_beside_it(server: Server, tmp_path: Path) -> None:
    """With --json the output is the answer alone, and beside it each line is an object."""
    async with gated(server) as computer:
        loop = asyncio.get_running_loop()

        def on_a_pipe() -> tuple[str, str]:
            from tests.harness.commands import CLI, environment

            command = [*CLI, "backup", "3", "--json"]
            pipe = subprocess.PIPE
            with subprocess.Popen(
                command, env=environment(tmp_path, **where(server)), stdout=pipe, stderr=pipe, text=True
            ) as process:
                assert process.stderr is not None
                first = process.stderr.readline()
                for _ in FILES:
                    loop.call_soon_threadsafe(computer.gate.release)
                out, beside = process.communicate(timeout=HANG_S)
                return out, first + beside

        out, beside = await asyncio.to_thread(on_a_pipe)
    assert json.loads(out)["files"] == 3
    hints = [json.loads(line) for line in beside.splitlines()]
    assert hints
    assert {one["hint"] for one in hints} == {"transfer"}
    assert hints[0]["of_files"] == 3
