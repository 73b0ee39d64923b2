"""Cells: the router shows each computer the way to its cell, and a computer moves between cells with its work."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import pytest_asyncio

from orchestrator.adapters.store import open_store
from orchestrator.core.task.fold import fold
from orchestrator.core.wire import wire
from orchestrator.core.wire.cells import route_of
from orchestrator.core.wire.wire import ComputerId
from orchestrator.history.audit import verify_store
from orchestrator.history.audit.stream import check_store
from orchestrator.runtime.clock import SystemClock
from tests.harness.commands import CLI, Served, cli, process_of, refused
from tests.harness.processes import Process, start_computer, start_server
from tests.harness.support import dialed, hello
from tests.servers import PostgresServer
from tests.story.harness import Api, check_laws, final, tool

CLIENT = (wire.CELLS, *wire.FIRST_METHODS)


@dataclass
class Cell:
    """A server that is a cell of its own."""

    name: str
    home: Path
    settings: dict[str, Any] = field(default_factory=dict)
    url: str = ""
    process: Process | None = None
    opened: list[Api] = field(default_factory=list)
    """The clients of its endpoints."""

    def start(self) -> None:
        """Start it, again on the port that it had."""
        port = int(self.url.rpartition(":")[2] or 0)
        self.process, self.url = start_server(self.home, port, cell=self.name, workers=4, **self.settings)

    def kill(self) -> None:
        """SIGKILL, if it runs."""
        if self.process is not None:
            self.process.kill()

    def api(self) -> Api:
        """Its endpoints, as the admin."""
        return self.asked(self.url, (self.home / "admin.token").read_text("utf-8").strip())

    def asked(self, url: str, token: str | None = None) -> Api:
        """Endpoints at any address; the connections end with the test."""
        self.opened.append(Api(url, token))
        return self.opened[-1]

    async def token(self, computer: str) -> str:
        """A token of a computer."""
        return str((await self.api().ok("POST", "/v1/tokens", {"kind": "computer", "name": computer}))["token"])


@dataclass
class Cells:
    """Two cells, and the file that lists them."""

    east: Cell
    west: Cell
    file: Path

    def move(self, *names: str, source: Cell, target: Cell) -> "CompletedProcess[str]":
        """The command that moves computers."""
        home = self.file.parent
        ways = ("--from", source.name, "--to", target.name, "--cells", str(self.file))
        return cli(home, "cells", "move", *names, *ways)

    @contextmanager
    def router(self) -> Iterator[Served]:
        """The router, as a command."""
        home = self.file.parent
        with process_of([*CLI, "route", "--cells", str(self.file), "--port", "0"], home, home) as served:
            yield served


def listed(file: Path, *cells: Cell) -> None:
    """Write the file."""
    rows = (f'[cells.{one.name}]\nurl = "{one.url}"\nstore = "{one.settings.get("store", "")}"\n' for one in cells)
    file.write_text(f'default = "{cells[0].name}"\n' + "".join(rows))


@asynccontextmanager
async def running(tmp_path: Path, *stores: str) -> AsyncIterator[Cells]:
    """East, which is the default, and west, each with a store of its own; empty: SQLite."""
    named = zip(("east", "west"), stores, strict=True)
    found = [Cell(name, tmp_path / name, {"store": store} if store else {}) for name, store in named]
    try:
        for one in found:
            one.start()
        listed(tmp_path / "cells.toml", *found)
        yield Cells(found[0], found[1], tmp_path / "cells.toml")
    finally:
        for one in found:
            one.kill()
            for api in one.opened:
                await api.http.aclose()


@pytest_asyncio.fixture
async def cells(tmp_path: Path) -> AsyncIterator[Cells]:
    """Two cells on SQLite."""
    async with running(tmp_path, "", "") as found:
        yield found


@pytest_asyncio.fixture
async def shared(tmp_path: Path, postgres_server: PostgresServer) -> AsyncIterator[Cells]:
    """Two cells on PostgreSQL, so that a move may open their stores beside them."""
    names = [await postgres_server.new_database() for _ in range(2)]
    try:
        async with running(tmp_path, *(postgres_server.url(name) for name in names)) as found:
            yield found
    finally:
        for name in names:
            await postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def sound(*cells: Cell) -> None:
    """Both audits: everything is as it was written, and every call that ran was allowed."""
    for cell in cells:
        store = open_store(cell.settings["store"], clock=SystemClock())
        try:
            assert [fault.detail for fault in (await verify_store(store)).faults] == []
            assert [one.detail for one in await check_store(store) if one.level == "violation"] == []
        finally:
            await store.close()


def channel(url: str) -> str:
    return f"ws{url.removeprefix('http')}/computer"


async def test_the_client_goes_to_its_cell_and_finds_it_again_without_the_router(cells: Cells, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    token = await cells.west.token("farm")
    assert route_of(token).cell == "west"
    api = cells.west.api()
    with cells.router() as router:
        computer = start_computer(disk, channel(router.url), token)
        try:
            task = await api.submit(tool("cc_list", path=""), final(), computers=("farm",))
            assert (await api.first(task, "task_ended")).status == "Completed"
            router.process.kill()
            cells.west.kill()
            cells.west.start()
            again = await api.submit(tool("cc_list", path=""), final(), computers=("farm",))
            assert (await api.first(again, "task_ended")).status == "Completed"
        finally:
            computer.kill()
    kept = (disk / ".cc-orchestrator" / "connection").read_text().splitlines()
    assert kept[1] == channel(router.url), "the address of the installation stays"
    assert kept[-1] == f"cell {channel(cells.west.url)}"
    assert (await cells.east.api().ok("GET", "/v1/computers"))["computers"] == []


async def test_an_older_client_is_passed_on_and_hears_nothing_of_cells(cells: Cells) -> None:
    token = await cells.west.token("farm")
    with cells.router() as router:
        async with dialed(router.url, token) as old:
            welcome = await old.greet(capabilities=CLIENT[1:])
            assert (welcome.computer, welcome.cell) == ("farm", None)
            await old.socket.send(b"no frame")
            assert (await old.hear("error"))[0].code == "bad_frame"
            found = (await cells.west.api().ok("GET", "/v1/computers"))["computers"]
            assert [(one["computer"], one["online"]) for one in found] == [("farm", True)]
        async with dialed(router.url, token) as new:
            await new.send(hello(capabilities=CLIENT))
            refused, _ = await new.hear("refused")
            assert refused.cell == wire.Cell(name="west", url=channel(cells.west.url))


async def test_the_router_takes_nobody_elsewhere_than_the_file_says(cells: Cells) -> None:
    """No token, a cell that is not there, an old token without a cell, and a file that changes meanwhile."""
    old = route_of(await cells.east.token("old")).bare
    with cells.router() as router:
        anybody = cells.east.asked(router.url)
        async with dialed(router.url, old) as computer:
            await computer.send(hello(capabilities=CLIENT))
            assert (await computer.hear("refused"))[0].cell.name == "east"
        for token, status in (("", 401), ("ccc_north.S", 404)):
            with pytest.raises(Exception, match=f"HTTP {status}"):
                async with dialed(router.url, token):
                    pass
        for path, place in (
            ("/client.lua", f"{cells.east.url}/client.lua"),
            ("/cell/west/v1/tasks?limit=1", f"{cells.west.url}/v1/tasks?limit=1"),
            ("/cell/west", f"{cells.west.url}/"),
            ("/cell/west//evil.net/x", f"{cells.west.url}/evil.net/x"),
        ):
            shown = await anybody.call("GET", path)
            assert (shown.status_code, shown.headers["location"]) == (307, place)
        assert (
            (await cells.east.asked(router.url, "ccp_west.S").call("GET", "/v1/tasks"))
            .headers["location"]
            .startswith(cells.west.url)
        )
        await anybody.refused(404, "GET", "/cell/north/")
        cells.file.write_text("broken")
        cells.file.write_text(cells.file.read_text())
        assert [one["cell"] for one in (await anybody.ok("GET", "/cells"))["cells"]] == ["east", "west"]
        listed(cells.file, cells.west)
        while (names := [one["cell"] for one in (await anybody.ok("GET", "/cells"))["cells"]]) != ["west"]:
            assert names == ["east", "west"]
            await asyncio.sleep(0.1)


WAITING = b"""\
local function say(word)
  local file = fs.open("ran.log", "ab")
  file.write(word .. "\\n")
  file.close()
end
say("begun")
while not fs.exists("go") do sleep(0.05) end
say("done")
"""


async def approved(api: Api, task: str, place: int) -> None:
    """Approve what a task asks for the so manieth time."""
    asked = await api.first(task, "review_requested", place)
    await api.resume(asked.request_id, "approve")


async def test_a_computer_moves_in_the_middle_of_a_call_and_nothing_is_lost(shared: Cells, tmp_path: Path) -> None:
    """A program runs while its computer moves. It ran once, and its outcome is heard in the other cell."""
    east, west, disk = shared.east.api(), shared.west.api(), tmp_path / "disk"
    disk.mkdir()
    (disk / "p.lua").write_bytes(WAITING)
    steps = [
        tool("cc_write", path="one", content="1"),
        tool("cc_run_program", path="p.lua"),
        tool("cc_write", path="two", content="2"),
    ]
    with shared.router() as router:
        computer = start_computer(disk, channel(router.url), await shared.east.token("farm"))
        try:
            task = await east.submit(*steps, final(), computers=("farm",))
            await approved(east, task, 1)
            await approved(east, task, 2)
            while not (disk / "ran.log").exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.05)
            done = await asyncio.to_thread(shared.move, "farm", source=shared.east, target=shared.west)
            assert done.stdout == "farm moved from east to west, with 1 tasks.\n", done.stderr
            (disk / "go").touch()
            await approved(west, task, 3)
            journal = await west.journal(task)
        finally:
            computer.kill()
    check_laws(journal)
    assert fold(journal).status == "Completed"
    assert (disk / "ran.log").read_text() == "begun\ndone\n"
    assert ((disk / "one").read_text(), (disk / "two").read_text()) == ("1", "2")
    gone = await east.refused(404, "GET", f"/v1/tasks/{task}")
    assert "pruned" in gone["message"]
    await sound(shared.east, shared.west)


async def test_a_move_that_was_interrupted_is_finished_and_one_back_goes_on(shared: Cells, tmp_path: Path) -> None:
    """The command dies between its two transactions; later the computer comes back with its task, which waits."""
    east, west, disk = shared.east.api(), shared.west.api(), tmp_path / "disk"
    with shared.router() as router:
        computer = start_computer(disk, channel(router.url), await shared.east.token("farm"))
        try:
            task = await east.submit(tool("cc_write", path="one", content="1"), final(), computers=("farm",))
            await east.first(task, "review_requested")
            source = open_store(shared.east.settings["store"], clock=SystemClock())
            try:
                await source.depart_computers([ComputerId("farm")], "west", channel(shared.west.url))
            finally:
                await source.close()
            await west.refused(404, "GET", f"/v1/tasks/{task}")
            for said in ("farm moved from east to west, with 1 tasks.", "An earlier move brought farm to west."):
                done = await asyncio.to_thread(shared.move, "farm", source=shared.east, target=shared.west)
                assert (done.returncode, said in done.stdout) == (0, True), (done.stdout, done.stderr)
            await west.first(task, "review_requested")
            done = await asyncio.to_thread(shared.move, "farm", source=shared.west, target=shared.east)
            assert done.returncode == 0, done.stderr
            await approved(east, task, 1)
            journal = await east.journal(task)
        finally:
            computer.kill()
    check_laws(journal)
    assert fold(journal).status == "Completed"
    assert (disk / "one").read_text() == "1"
    await sound(shared.east, shared.west)


async def test_a_move_that_cannot_be_is_refused_and_changes_nothing(shared: Cells) -> None:
    """An unknown computer, a name that is taken there, a task of two computers, and one cell twice."""
    east = shared.east.api()
    for name in ("farm", "mine"):
        await shared.east.token(name)
    await shared.west.token("mine")
    refused(shared.move("nobody", source=shared.east, target=shared.west), "no computer nobody", code=4)
    refused(shared.move("farm", source=shared.east, target=shared.east), "one cell")
    task = await east.submit(tool("cc_list", path="", computer="farm"), final(), computers=("farm", "mine"))
    refused(shared.move("farm", source=shared.east, target=shared.west), "works on mine too")
    await east.ok("POST", f"/v1/tasks/{task}/cancel")
    await east.first(task, "task_ended")
    refused(
        shared.move("farm", "mine", source=shared.east, target=shared.west), "computer mine in the cell west already"
    )
    assert [one["online"] for one in (await east.ok("GET", "/v1/computers"))["computers"]] == [False, False]
    assert shared.move("farm", source=shared.east, target=shared.west).returncode == 0
    await sound(shared.east, shared.west)
