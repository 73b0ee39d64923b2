"""The command that fills a server with simulated computers, paired through the public endpoint."""

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from orchestrator.core.errors import InvalidRequest, OrchestratorError
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.program import bare_environment, left_in_order
from orchestrator.terminal.cli.common import AsJson, DataDir, Url, as_segment, client_of, must_be_there, print_json
from orchestrator.terminal.output import counted, sized

if TYPE_CHECKING:
    from orchestrator.client import Client

FAMILIES: Final = ("advanced", "computer", "turtle", "advanced-turtle", "pocket", "advanced-pocket", "command")
MOST: Final = 200
"""Each is a process of about 25 MB."""
_FIRST_ID: Final = 1000
"""Their numbers begin here, away from those that a young world gives out."""
MOST_GIVEN_BYTES: Final = 500_000
"""Of a person's files; a computer has 1,000,000 bytes, and the client and the work on the files need room too."""
_ENTRY_BYTES: Final = 500
"""What a computer counts at least for each file and directory."""
_CONNECT_WITHIN_S: Final = 60.0
_STOP_WITHIN_S: Final = 10.0
_POLL_S: Final = 0.2


@dataclass
class Simulated:
    """One simulated computer and its process."""

    name: str
    computer_id: int
    family: str
    disk: Path
    log: Path
    process: "subprocess.Popen[bytes]"

    def row(self, *, online: bool) -> dict[str, Any]:
        """The row that a script gets."""
        facts = {"computer": self.name, "computer_id": self.computer_id, "family": self.family}
        return facts | {"online": online, "disk": str(self.disk), "log": str(self.log), "pid": self.process.pid}


def simulate(
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=MOST, help="How many computers.")] = 20,
    family: Annotated[
        list[str] | None,
        typer.Option(help=f"Their kind: {', '.join(FAMILIES)}. Given several times they take turns. Default advanced."),
    ] = None,
    world: Annotated[
        Path | None, typer.Option(help="JSON of the world around each: peripherals, redstone, blocks, the turtle.")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Keep their disks and logs here. Default: they are removed.")
    ] = None,
    files: Annotated[
        Path | None,
        typer.Option(help="Copy the files of this directory onto each disk. One that is there already stays as it is."),
    ] = None,
    latency: Annotated[float, typer.Option(min=0, help="What each frame takes on its way, in milliseconds.")] = 0.0,
    name: Annotated[str, typer.Option(help="What their names begin with.")] = "sim",
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Connect simulated computers to the running server.

    They run the real client, each in a process of its own, until Ctrl-C ends them all.
    """
    kinds = _kinds(family or ["advanced"])
    if world is not None:
        must_be_there(world, "The world")
    given = _given(files, directory) if files is not None else {}
    need_simulator()
    with contextlib.ExitStack() as stack:
        stack.enter_context(left_in_order())
        home = directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cc-orchestrator-")))
        client = stack.enter_context(client_of(url, data_dir))
        options = ["--latency", str(latency), *(["--world", str(world.absolute())] if world is not None else [])]
        names = [f"{name}-{number}" for number in range(1, count + 1)]
        _refuse_taken(client, names)
        running: list[Simulated] = []
        kept: list[Path] = []
        for number, each in enumerate(names, 1):
            kind = kinds[(number - 1) % len(kinds)]
            kept += _give(given, home / each)
            running.append(_start(stack, client, home, each, _FIRST_ID + number, kind, options))
            if directory is None:
                # Nobody can use it any more.
                stack.callback(_forget, client, each)
        stack.callback(_stop, running)
        online = _await(client, running)
        with contextlib.suppress(KeyboardInterrupt):
            # Before they are shown: one that ends meanwhile is said too.
            alive = [one for one in running if one.process.poll() is None]
            typer.echo(f"Their disks are in {one_line(str(home.absolute()), limit=1000)}.", err=True)
            if files is not None:
                typer.echo(_copied(files, given, names), err=True)
            _show(running, online, as_json=as_json)
            for one in kept:
                typer.echo(f"{one} was there already and stays as it is.", err=True)
            _watch(alive)
            # They have all ended, and nobody told them to.
            raise typer.Exit(1)
        typer.echo("Ending them all.", err=True)


def _kinds(family: list[str]) -> list[str]:
    for one in family:
        if one not in FAMILIES:
            raise InvalidRequest(f"There is no family {one!r}.", remedy=f"Say one of {', '.join(FAMILIES)}.")
    return family


def _given(files: Path, home: Path | None) -> dict[Path, Path]:
    """What `--files` names, by the path that each file gets on a disk.

    Names that begin with a dot, links, and the disks themselves where they lie inside are left out.
    """
    if not files.is_dir():
        raise InvalidRequest(f"There is no directory {files}.", remedy="Name a directory of programs with --files.")
    if home is not None and _same(files, home):
        raise InvalidRequest(
            f"The disks cannot be kept among the programs in {files}.", remedy="Name another directory with --dir."
        )
    found: dict[Path, Path] = {}
    for where, directories, names in os.walk(files):
        here = Path(where)
        directories[:] = sorted(
            one for one in directories if not one.startswith(".") and (home is None or not _same(here / one, home))
        )
        ours = (here / one for one in sorted(names) if not one.startswith("."))
        found |= {one.relative_to(files): one for one in ours if _is_plain_file(one)}
    every = {parent for path in found for parent in path.parents[:-1]}
    taken = len(every) * _ENTRY_BYTES + sum(max(_ENTRY_BYTES, one.stat().st_size) for one in found.values())
    if taken > MOST_GIVEN_BYTES:
        raise InvalidRequest(
            f"The files in {files} take {taken:,} bytes; a computer gets at most {MOST_GIVEN_BYTES:,}.",
            remedy="Name a directory with only the programs that the computer needs.",
        )
    return found


def _is_plain_file(path: Path) -> bool:
    """Whether this is a file and no link; one that cannot be looked at is none."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def _give(files: dict[Path, Path], disk: Path) -> list[Path]:
    """Copy the files onto a disk; those that were there already, and stay."""
    kept = []
    for path, source in files.items():
        target = disk / path
        try:
            if target.exists():
                kept.append(target)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        except OSError as error:
            raise InvalidRequest(
                f"{source} cannot be copied to {target}: {error.strerror or error}.",
                remedy="Look at --files and --dir: the first must be readable, the second a directory to write to.",
            ) from None
    return kept


def _copied(files: Path, given: dict[Path, Path], names: list[str]) -> str:
    amount = sized(sum(one.stat().st_size for one in given.values()))
    onto = names[0] if len(names) == 1 else f"each of {names[0]} … {names[-1]}"
    return f"{counted(len(given), 'file')} ({amount}) of {one_line(str(files), limit=1000)} copied onto {onto}."


def need_simulator() -> None:
    if find_spec("lupa") is None or find_spec("cc_client") is None:
        raise InvalidRequest(
            "Simulated computers need the extra `simulator`, which is not installed.",
            remedy="Install it with `pip install 'cc-orchestrator[simulator]'`.",
        )


def _refuse_taken(client: "Client", names: list[str]) -> None:
    """Pairing a name again cuts off who has it: that must not be a computer in use."""
    rows = client.request("GET", "/v1/computers")["computers"]
    taken = [row["computer"] for row in rows if row["online"] and row["computer"] in names]
    if taken:
        raise InvalidRequest(
            f"A computer named {taken[0]} is online already.", remedy="Choose other names with --name."
        )


def _start(
    stack: contextlib.ExitStack, client: "Client", home: Path, name: str, number: int, kind: str, options: list[str]
) -> Simulated:
    """Pair one as the installer does, and start it on a disk of its own."""
    disk, log = home / name, home / f"{name}.log"
    try:
        disk.mkdir(parents=True, exist_ok=True)
        errors = stack.enter_context(log.open("wb"))
    except OSError as error:
        raise InvalidRequest(
            f"The directory {disk} cannot be used: {error.strerror or error}.", remedy="Choose another with --dir."
        ) from None
    # Last: a code that is used cannot be given back.
    code = client.request("POST", "/v1/pairings", {"computer": name})["code"]
    paired = client.request("POST", "/v1/pair", {"code": code, "computer_id": number, "label": ""})
    command = [
        sys.executable,
        "-m",
        "cc_client.simulator",
        "--until-eof",
        # As in the game: a shell is on its screen, to look at and to type at.
        "--shell",
        "--url",
        paired["url"],
        # Read from the pipe: everybody on this machine can see the arguments of processes.
        "--token=-",
    ]
    command += ["--disk", str(disk), "--id", str(number), "--label", name, "--family", kind, *options]
    # A group of its own: Ctrl-C reaches only this command, which ends it then. The pipe ends it however this one ends.
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=errors,
        stderr=errors,
        # Not this command's, where the token of the person may be.
        env=bare_environment(),
        start_new_session=True,
    )
    stack.callback(_stop_one, process)
    assert process.stdin is not None, "asked for above"
    with contextlib.suppress(BrokenPipeError):
        # One that ended at once says why in its log.
        process.stdin.write(paired["token"].encode() + b"\n")
        process.stdin.flush()
    return Simulated(name, number, kind, disk, log, process)


def _await(client: "Client", running: list[Simulated]) -> set[str]:
    """Wait until all are connected, or have ended, or time is up; the names of those that are connected."""
    wanted, until = {one.name for one in running}, time.monotonic() + _CONNECT_WITHIN_S
    while True:
        rows = client.request("GET", "/v1/computers")["computers"]
        online = wanted & {row["computer"] for row in rows if row["online"]}
        alive = {one.name for one in running if one.process.poll() is None}
        if not alive - online or time.monotonic() > until:
            return online
        time.sleep(_POLL_S)


def _show(running: list[Simulated], online: set[str], *, as_json: bool) -> None:
    if as_json:
        print_json({"computers": [one.row(online=one.name in online) for one in running]})
    else:
        width = max(len(one.name) for one in running)
        typer.echo(f"{'NAME':{width}}  ID    FAMILY           STATE")
        for one in running:
            typer.echo(f"{one.name:{width}}  {one.computer_id}  {one.family:15}  {_state(one, online)}")
    sys.stdout.flush()
    typer.echo(f"{len(online)} of {len(running)} are online. Ctrl-C ends them all.", err=True)


def _state(one: Simulated, online: set[str]) -> str:
    code = one.process.poll()
    if code is not None:
        return f"ended with code {code}: {_last_words(one.log)}"
    return "online" if one.name in online else f"away: {_last_words(one.log)}"


def _last_words(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def _watch(alive: list[Simulated]) -> None:
    """Say of each when it ends, until all have."""
    while alive:
        time.sleep(_POLL_S)
        for one in [each for each in alive if each.process.poll() is not None]:
            alive.remove(one)
            typer.echo(f"{one.name} {_state(one, set())}", err=True)


def _forget(client: "Client", name: str) -> None:
    try:
        client.request("DELETE", f"/v1/tokens/computer/{as_segment(name)}")
    except OrchestratorError as error:
        again = f"`cc-orchestrator token revoke computer {name}`"
        typer.echo(f"The token of {name} is not revoked: {error} Revoke it with {again}.", err=True)


def _stop(running: list[Simulated]) -> None:
    """Ask all of them before waiting for any."""
    for one in running:
        one.process.terminate()


def _stop_one(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
