"""`cc-orchestrator simulate` against a running server, each part a process of its own."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.terminal.cli.simulate import _given
from tests import ROOT
from tests.harness.whole_server import Server, running
from tests.story.harness import Api
from tests.story.watching import looking
from tests.waiting import HANG_S

MOST_PATH = 4096
"""Bytes that Linux takes as a path."""
MAIN = "from orchestrator.terminal.cli import main; main()"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server without computers, with the store that people have."""
    async with running(tmp_path / "server", store="") as server:
        yield server


async def _start(server: Server, *options: str, program: str = MAIN) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    environment = {**os.environ, "CC_ORCHESTRATOR_URL": server.url, "CC_ORCHESTRATOR_TOKEN": server.admin}
    command = [sys.executable, "-c", program, "simulate", *options]
    return await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe)


@asynccontextmanager
async def simulating(server: Server, *options: str, says: str = "") -> AsyncIterator[list[dict[str, Any]]]:
    """The command, after its table; it is left with Ctrl-C, and ends well, having said ``says`` beside the table."""
    process = await _start(server, "--json", *options)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(HANG_S):
            line = await process.stdout.readline()
        rows: list[dict[str, Any]] = json.loads(line)["computers"]
        yield rows
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        async with asyncio.timeout(HANG_S):
            _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert "Ending them all." in errors.decode()
    assert says in errors.decode()


async def computers(server: Server) -> dict[str, tuple[bool, str]]:
    """Of each computer that the server knows: whether it is there, and its family."""
    rows = (await server.ask("GET", "/v1/computers")).json()["computers"]
    return {row["computer"]: (row["online"], row["family"]) for row in rows}


async def test_simulated_computers_are_paired_and_go_with_ctrl_c(server: Server, tmp_path: Path) -> None:
    """They are connected through the public endpoint, families take turns, and nothing stays behind."""
    (tmp_path / "world.json").write_text(json.dumps({"turtle": {"fuel": 7}}))
    options = ("--count=3", "--family=advanced", "--family=turtle", f"--world={tmp_path / 'world.json'}")
    async with simulating(server, *options, "--latency=5") as rows:
        assert [(row["computer"], row["family"], row["online"]) for row in rows] == [
            ("sim-1", "advanced", True),
            ("sim-2", "turtle", True),
            ("sim-3", "advanced", True),
        ]
        assert await computers(server) == {
            "sim-1": (True, "advanced"),
            "sim-2": (True, "turtle"),
            "sim-3": (True, "advanced"),
        }
        # A shell is on the screen, and what is typed there reaches it.
        api = Api(server.url, server.admin)
        async with looking(api, "sim-1") as shown:
            await shown.until(">")
            await api.ok("POST", "/v1/computers/sim-1/keys", {"text": "id\n"})
            await shown.until("This is computer #1001")
        await api.http.aclose()
        again = await _start(server, "--count=1")
        _, errors = await again.communicate()
        assert (again.returncode, b"A computer named sim-1 is online already" in errors) == (2, True)
    for row in rows:
        with pytest.raises(ProcessLookupError):
            os.kill(row["pid"], 0)
    assert not [row["disk"] for row in rows if os.path.exists(row["disk"])]  # noqa: PTH110, ASYNC240
    tokens = (await server.ask("GET", "/v1/tokens")).json()["tokens"]
    assert not [one for one in tokens if one["kind"] == "computer" and not one.get("revoked")]


async def test_a_persons_files_are_on_the_disk_and_no_start_overwrites_work_on_them(
    server: Server, tmp_path: Path
) -> None:
    """Directories too; links, hidden files and the disks themselves stay away."""
    files, home = tmp_path / "programs", tmp_path / "programs" / "disks"
    (files / "lib").mkdir(parents=True)
    (files / ".git").mkdir()
    for name in ("farm.lua", "lib/belt.lua", ".git/config", ".secret"):
        (files / name).write_text(name)
    (files / "link.lua").symlink_to("/etc/hostname")
    options = ("--count=1", f"--files={files}", f"--dir={home}")
    async with simulating(server, *options, says=f"2 files (20 B) of {files} copied onto sim-1.") as (row,):
        disk = Path(row["disk"])
        (disk / "farm.lua").write_text("better")
    async with simulating(server, *options):
        pass
    assert (disk / "farm.lua").read_text() == "better"
    assert (disk / "lib" / "belt.lua").read_text() == "lib/belt.lua"
    names = {one.name for one in disk.iterdir()}  # noqa: ASYNC240
    assert not names & {".git", ".secret", "link.lua", "disks"}


def test_only_plain_files_are_given(tmp_path: Path) -> None:
    """A pipe, a socket and a link are none; a file whose path is too long to look at is left out, too."""
    files = tmp_path / "programs"
    files.mkdir()
    (files / "farm.lua").write_text("farm")
    (files / "gone.lua").symlink_to("nowhere")
    (files / "loop.lua").symlink_to("loop.lua")
    os.mkfifo(files / "pipe.lua")
    with socket.socket(socket.AF_UNIX) as listening:
        # A short name: the path of a socket has about 100 bytes.
        with contextlib.chdir(files):
            listening.bind("socket.lua")
        deep = os.open(files, os.O_DIRECTORY)
        length = len(str(files))
        while length < MOST_PATH - 300:
            os.mkdir("d" * 200, dir_fd=deep)
            inner = os.open("d" * 200, os.O_DIRECTORY, dir_fd=deep)
            os.close(deep)
            deep, length = inner, length + 201
        os.mkdir("d" * (MOST_PATH - length - 50), dir_fd=deep)
        last = os.open("d" * (MOST_PATH - length - 50), os.O_DIRECTORY, dir_fd=deep)
        os.close(os.open("n" * 100, os.O_CREAT | os.O_WRONLY, dir_fd=last))
        os.close(last)
        os.close(deep)
        assert _given(files, None) == {Path("farm.lua"): files / "farm.lua"}


@pytest.mark.parametrize(("size", "said"), [(None, "There is no directory"), (600_000, "a computer gets at most 500,")])
async def test_files_that_cannot_be_given_are_said_before_a_computer_is_paired(
    server: Server, tmp_path: Path, size: int | None, said: str
) -> None:
    if size is not None:
        (tmp_path / "programs").mkdir()
        (tmp_path / "programs" / "big.lua").write_bytes(b" " * size)
    process = await _start(server, "--count=1", f"--files={tmp_path / 'programs'}")
    _, errors = await process.communicate()
    assert (process.returncode, said in errors.decode()) == (2, True), errors
    assert await computers(server) == {}


async def test_no_token_stands_where_others_on_the_machine_can_read_it(server: Server, tmp_path: Path) -> None:
    """Neither the computer's nor the person's is among the arguments or in the environment of what is started."""
    async with simulating(server, "--count=1", f"--dir={tmp_path / 'kept'}") as (row,):
        token = (Path(row["disk"]) / ".cc-orchestrator" / "connection").read_text().split("\n")[2]
        process = Path(f"/proc/{row['pid']}")
        seen = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
    assert b"cc_client.simulator" in seen
    assert token.startswith("ccc_")
    assert token.encode() not in seen
    assert server.admin.encode() not in seen
    assert b"ccc_" not in seen


@pytest.mark.deep
async def test_disks_that_are_kept_are_used_again(server: Server, tmp_path: Path) -> None:
    home = tmp_path / "kept"
    async with simulating(server, "--count=1", f"--dir={home}", "--name=farm") as rows:
        (home / "farm-1" / "mine.txt").write_text("kept")
    async with simulating(server, "--count=1", f"--dir={home}", "--name=farm") as again:
        assert (again[0]["computer"], again[0]["online"]) == ("farm-1", True)
    assert Path(rows[0]["disk"]) == home / "farm-1"
    assert (home / "farm-1" / "mine.txt").read_text() == "kept"
    assert "connected to ws://" in (home / "farm-1.log").read_text()


@pytest.mark.deep
async def test_one_that_ends_is_said_and_without_any_the_command_ends(server: Server) -> None:
    process = await _start(server, "--json", "--count=1")
    assert process.stdout is not None
    assert process.stderr is not None
    async with asyncio.timeout(HANG_S):
        (row,) = json.loads(await process.stdout.readline())["computers"]
        os.kill(row["pid"], signal.SIGKILL)
        errors = (await process.communicate())[1].decode()
    assert process.returncode == 1
    assert "sim-1 ended with code -9: " in errors


@pytest.mark.deep
async def test_a_directory_that_cannot_be_used_costs_no_pairing(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    process = await _start(server, "--count=1", f"--dir={tmp_path / 'file'}")
    async with asyncio.timeout(HANG_S):
        _, errors = await process.communicate()
    assert (process.returncode, b"cannot be used" in errors) == (2, True)
    tokens = (await server.ask("GET", "/v1/tokens")).json()["tokens"]
    assert not [one for one in tokens if one["kind"] == "computer"]


@pytest.mark.deep
async def test_simulators_end_with_the_command_however_it_ends(server: Server) -> None:
    process = await _start(server, "--json", "--count=1")
    assert process.stdout is not None
    async with asyncio.timeout(HANG_S):
        await process.stdout.readline()
        process.kill()
        await process.communicate()
        while (await computers(server))["sim-1"][0]:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


@pytest.mark.deep
@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("options", "program", "said"),
    [
        (("--family=robot",), MAIN, "There is no family 'robot'. Say one of advanced, computer, turtle"),
        (("--world=none.json",), MAIN, "The world 'none.json' cannot be read"),
        ((), f"import sys; sys.modules['lupa'] = None; {MAIN}", "need the extra `simulator`, which is not installed."),
    ],
)
async def test_what_is_missing_is_a_sentence(server: Server, options: tuple[str, ...], program: str, said: str) -> None:
    process = await _start(server, *options, program=program)
    async with asyncio.timeout(HANG_S):
        _, errors = await process.communicate()
    code = 4 if "--world=none.json" in options else 2
    assert (process.returncode, said in errors.decode()) == (code, True), errors.decode()
