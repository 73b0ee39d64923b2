"""Computers on the terminal UI: paired, let come back, backed up and put back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.computers.test_frozen import known, refused
from tests.computers.test_transfers import Gated, gated
from tests.harness.support import Disk, Listening, final
from tests.harness.whole_server import Server, connected, running
from tests.terminal.tui.driving import Seat, seated

NOTE = "[red]r[/] [@click=app.quit]q[/]"
LABEL = "[b]l[/b]\x9b31m"
"""What a terminal, this library and a reader may be fooled with."""


@pytest.mark.deep
async def test_a_computer_is_paired(tmp_path: Path) -> None:
    """`p` shows the line, what the server saw of a wrong attempt, and that it came; away, it is not backed up."""
    async with running(tmp_path, model=Listening(final())) as server, seated(server) as seat:
        await seat.asks("4", "There are no computers yet. p has the line")
        await seat.asks("p", "Its name here")
        await seat.type("barn")
        await seat.asks("enter", "wget run http://", "It works once", "Waiting for the computer", "does not work?")
        line = next(row for row in seat.text.splitlines() if "wget run" in row)
        code = line.replace("│", " ").split()[-1]
        assert (await pairing(server, "AAAA-AAAA"))[0] == 401
        await seat.sees("A computer at 127.0.0.1 was turned away:")
        status, token = await pairing(server, code)
        assert status in (200, 201)
        await seat.sees("barn is paired. It connects as soon as")
        async with connected(server, "barn", Disk(), token):
            await seat.sees("barn is connected!", "Computer barn is connected.")
            await seat.asks("escape", "> barn", "Online")
        await seat.sees("> barn", "Away")
        await seat.asks("b", "None yet")
        await seat.asks("n", "Back it up now")
        await seat.asks("enter", "Not carried out: Computer barn is away")


async def test_a_line_over_plain_http_says_so(tmp_path: Path) -> None:
    """Beside the line to type, with what to do about it."""
    away = "http://192.168.0.12:8765"
    async with running(tmp_path, model=Listening(final()), public_url=away) as server, seated(server) as seat:
        await seat.asks("4", "There are no computers yet. p has the line")
        await seat.asks("p", "Its name here")
        await seat.asks("enter", f"wget run {away}/install", "This address is plain http:", "--pin`, or put TLS before")


async def pairing(server: Server, code: str) -> tuple[int, str]:
    """What the installer does with a code: the status, and the token."""
    answer = await server.http.post("/v1/pair", json={"code": code, "computer_id": 3})
    return answer.status_code, answer.json().get("token", "")


@pytest.mark.deep
async def test_a_frozen_computer_is_let_come_back(tmp_path: Path) -> None:
    """`r` shows both sides, releases once that is confirmed, says when somebody was first, and who may not."""
    async with running(tmp_path, model=Listening(final())) as server:
        bob = await server.person("bob", "submitter")
        token = await server.computer("farm")
        await known(server, token)
        await refused(server, token, found_seq=0, label=LABEL)
        async with seated(server, bob) as seat:
            await seat.asks("4", "farm is FROZEN: r lets it come back")
            await seat.agrees("r", "Let farm come back?", "Not carried out:", "admin")
        async with seated(server) as seat:
            await seat.asks("4", "FROZEN", "who was welcome last", "who came then", "label [b]l[/b]\\u{9b}31m")
            await seat.agrees("r", "Let farm come back?", "Carried out: farm is released")
            await seat.sees("released and not back yet")
            await seat.asks("r", "Computer farm is not frozen.")
            await refused_again(server, token)
            await seat.asks("r", "Let farm come back?")
            await server.ask("POST", "/v1/computers/farm/release")
            await seat.asks("y", "Too late: farm was not frozen any more.")


async def refused_again(server: Server, token: str) -> None:
    """It is welcomed, and then comes without its journal."""
    await known(server, token)
    await refused(server, token, found_seq=0)


@asynccontextmanager
async def backed_up(tmp_path: Path) -> AsyncIterator[tuple[Server, Gated, Seat]]:
    """Computer 3, which gives out a file when it is told to, and its backups on the screen."""
    async with running(tmp_path, model=Listening(final())) as server, gated(server) as computer, seated(server) as seat:
        await seat.asks("4", "> 3", "Online")
        await seat.asks("b", "Backups of computer 3", "None yet: n keeps every file as it is now")
        yield server, computer, seat


@pytest.mark.deep
async def test_a_backup_is_made_looked_at_put_back_and_forgotten(tmp_path: Path) -> None:
    """`n` shows how far it has come; its files are ticked; `r` shows what it would do and begins a task."""
    async with backed_up(tmp_path) as (server, computer, seat):
        await seat.press("n")
        await seat.sees("Back it up now")
        await seat.type(NOTE)
        await seat.press("enter")
        await seat.until(computer.asked.is_set, "asked")
        computer.gate.release()
        await seat.sees("1 of 3 files", "[########----")
        for _ in range(9):
            computer.gate.release()
        await seat.sees("Carried out: 3 files kept", NOTE, "[ ] a.lua", "[ ] c.lua")
        await seat.asks("d", "── Backup b-", "listing")
        await seat.press("escape", "tab", "down", "space")
        await seat.asks("r", "Put 1 path back?", "1 is as it was.")
        await seat.press("escape", "space")
        await seat.asks("r", "Put all of it back?", "3 are as they were.", "e also remove what came since")
        await seat.asks("e", "Put all of it back?", "e keep what came since")
        await seat.asks("y", "[1 Tasks]", "puts it back, once it is approved.")
        (task,) = (await server.ask("GET", "/v1/tasks")).json()["tasks"]
        assert task["computers"] == ["3"]
        await seat.asks("4", "> 3")
        await seat.asks("b", "[ ] a.lua")
        await seat.agrees("x", "Forget this backup?", "Carried out: it is forgotten.")
        await seat.sees("None yet: n keeps")
        assert (await server.ask("GET", "/v1/backups")).json()["backups"] == []
