"""A fresh simulated computer joins a real server as in the game: one typed line, and again after each boot."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.simulating import playing
from tests.harness.whole_server import Server, running
from tests.waiting import HANG_S


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server without computers, with the store that people have."""
    async with running(tmp_path / "server", store="") as server:
        yield server


async def arrives(server: Server, name: str, *, online: bool = True) -> None:
    """Return when the server knows a computer as connected, or as gone."""
    async with asyncio.timeout(HANG_S):
        while True:
            rows = (await server.ask("GET", "/v1/computers")).json()["computers"]
            if {row["computer"]: row["online"] for row in rows}.get(name, False) == online:
                return


@pytest.mark.thinned(2)
@pytest.mark.parametrize("family", ["turtle", "pocket"])
async def test_one_typed_line_connects_a_computer_for_good(server: Server, tmp_path: Path, family: str) -> None:
    """On small screens too the shell is the player's again, and the client is back after a reboot and an unload."""
    line = (await server.ask("POST", "/v1/pairings", {"computer": "farm"})).json()["line"]
    async with playing(tmp_path / "disk", f"--family={family}", f"--type={line}", "--http-rule=allow") as player:
        await arrives(server, "farm")
        for command in ("reboot", "unload"):
            await player.do(command)
            if command == "unload":
                await arrives(server, "farm", online=False)
                await player.do("load")
            await player.do("type id")
            await player.see("This is computer #0")
            await arrives(server, "farm")


async def test_where_the_minecraft_server_forbids_it_the_player_is_told(server: Server, tmp_path: Path) -> None:
    line = (await server.ask("POST", "/v1/pairings", {"computer": "farm"})).json()["line"]
    async with playing(tmp_path / "disk", f"--type={line}", "--http-rule=deny-private") as player:
        await player.see("Domain not permitted")
