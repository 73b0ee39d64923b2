"""The process of a copy: the simulated computer on the copy's disk, with as little of this host as it needs.

Programs in it run before anybody approved them. They are Lua in a sandbox; they reach no network but this
server's own door for computers, see nothing of the environment, and are bound in memory and disk.
"""

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.task.rehearsal import Rehearsal
from orchestrator.history.rehearsal.disk import RehearsalFailed
from orchestrator.runtime.program import bare_environment

MEMORY_BYTES: Final = 256_000_000
"""What Lua may take in a copy."""
END_WITHIN_S: Final = 5.0
LOCK_WITHIN_S: Final = 20.0
"""What is left of a copy when its server was killed ends by itself in two."""
_VERSION: Final = re.compile(r"ComputerCraft (\d+)\.(\d+)(?:\.(\d+))?")
_SIMULATED: Final = ((1, 95, 0), (1, 116, 1))
"""The versions of the mod that are simulated, from and to."""
_LAST_CHARS: Final = 200


def must_be_installed() -> None:
    """Raises InvalidRequest where there is no simulated computer."""
    if find_spec("lupa") is None or find_spec("cc_client") is None:
        raise InvalidRequest(
            "A rehearsal needs the extra `simulator`, which is not installed where the server runs.",
            remedy="Install it there with `pip install 'cc-orchestrator[simulator]'`.",
        )


@dataclass(frozen=True)
class Home:
    """The directory of one rehearsal below the data directory."""

    root: Path

    @property
    def disk(self) -> Path:
        """What is the copy's ``/``."""
        return self.root / "disk"

    @property
    def whole(self) -> Path:
        """A file that is there once the disk was written whole."""
        return self.root / "whole"

    @property
    def log(self) -> Path:
        """What the process says."""
        return self.root / "log"

    def last_words(self) -> str:
        """The last line that the process said."""
        with contextlib.suppress(OSError):
            lines = self.log.read_text("utf-8", "replace").splitlines()
            return next((line.strip()[:_LAST_CHARS] for line in reversed(lines) if line.strip()), "it said nothing")
        return "it said nothing"

    async def lock(self) -> int:
        """Wait until no other process has the copy; a descriptor that holds it. Raises RehearsalFailed."""
        descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        until = asyncio.get_running_loop().time() + LOCK_WITHIN_S
        while not _locked(descriptor):
            if asyncio.get_running_loop().time() > until:
                os.close(descriptor)
                raise RehearsalFailed("The copy is still in use by a process of an earlier server.")
            await asyncio.sleep(0.05)
        return descriptor


def _locked(descriptor: int) -> bool:
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextlib.asynccontextmanager
async def copy_running(
    home: Home, rehearsal: Rehearsal, *, url: str, token: str, lock: int
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The copy at work until the block ends. Raises RehearsalFailed when it cannot be started."""
    with home.log.open("ab") as log:
        try:
            process = await asyncio.create_subprocess_exec(
                *command(home, rehearsal, url),
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=home.root,
                env=bare_environment(),
                start_new_session=True,
                # With it the lock: it is held for as long as the process lives, whatever becomes of this one.
                pass_fds=() if os.name == "nt" else (lock,),
            )
        except OSError as error:
            raise RehearsalFailed(f"The copy cannot be started: {error.strerror or error}.") from error
    try:
        assert process.stdin is not None, "asked for above"
        process.stdin.write(token.encode() + b"\n")
        yield process
    finally:
        await asyncio.shield(_end(process))


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(END_WITHIN_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def command(home: Home, rehearsal: Rehearsal, url: str) -> list[str]:
    """The command line of a copy."""
    options = {
        "url": url,
        "token": "-",
        "disk": str(home.disk),
        "id": str(rehearsal.computer_id),
        "family": rehearsal.family,
        "capacity": str(rehearsal.capacity),
        "cc-version": simulated_version(rehearsal.host),
        "http-rule": "orchestrator",
        "memory": str(MEMORY_BYTES),
    }
    if rehearsal.label is not None and "\0" not in rehearsal.label:
        options["label"] = rehearsal.label
    program = [sys.executable, "-m", "cc_client.simulator", "--until-eof", "--confined"]
    return [*program, *(f"--{name}={value}" for name, value in options.items())]


def simulated_version(host: str) -> str:
    """The version of the mod that a copy plays: that of the computer, or the nearest that is simulated."""
    found = _VERSION.search(host)
    version = tuple(int(part or 0) for part in found.groups()) if found else _SIMULATED[1]
    return ".".join(map(str, min(max(version, _SIMULATED[0]), _SIMULATED[1])))
