"""Cells: the router shows each computer the way to its cell, and a computer moves between cells with its work."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from orchestrator.core.wire import wire
from orchestrator.core.wire.cells import route_of
from tests.harness.commands import CLI, Served, process_of
from tests.harness.processes import Process, start_computer, start_server
from tests.harness.support import dialed, hello
from tests.story.harness import Api, final, tool

CLIENT = (wire.CELLS, *wire.FIRST_METHODS)


@dataclass
class Cell:
    """A server that is a cell of its own."""

    name: str
    home: Path
    settings: dict[str, str] = field(default_factory=dict)
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


@pytest_asyncio.fixture
async def cells(tmp_path: Path) -> AsyncIterator[Cells]:
    """East, which is the default, and west, each with a store of its own."""
    found = [Cell(name, tmp_path / name) for name in ("east", "west")]
    try:
        for one in found:
            one.start()
        listed(tmp_path / "cells.toml", *found)
        yield Cells(*found, tmp_path / "cells.toml")
    finally:
        for one in found:
            one.kill()
            for api in one.opened:
                await api.http.aclose()


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
