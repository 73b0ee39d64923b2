"""The copy of a real computer for a rehearsal: its files, their bytes in the store, and the files to copy."""

import asyncio
import contextlib
import os
import re
import secrets
import stat
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from orchestrator.core.errors import (
    CallLost,
    CallVoid,
    ComputerAway,
    ComputerFailed,
    InvalidRequest,
    OrchestratorError,
    ToolFailed,
)
from orchestrator.core.policy import PolicyContext
from orchestrator.core.ports import ComputerInfo, Store
from orchestrator.core.task.rehearsal import Rehearsal, copy_name
from orchestrator.core.undo.plan import Listed, Listing, differences
from orchestrator.core.undo.touches import DIRECTORY
from orchestrator.core.wire.wire import ComputerId, sha256_hex
from orchestrator.history.backups import Transfer, Transfers
from orchestrator.runtime.program import bare_environment
from orchestrator.tools.environment import Environment

# -- The disk of a copy: a directory of this host, filled from a listing and read back as one
#
# It is read from the host and not through the copy's client, so that nothing that ran there has a say in it, and
# a restart of the server needs nobody but the directory. Paths are bytes: so they are on a computer.

OWN: Final = ".cc-orchestrator"
"""The directory of the copy's client: no file of the computer."""
MAX_FILES: Final = 2_000
"""Files and directories of a computer that is rehearsed: more than fit on a disk of the mod's own settings."""
MAX_BYTES: Final = 20_000_000
"""Bytes of all files: 20 times the size of such a disk."""

MAX_DEPTH: Final = 100
"""Directories in one another: a path has to stay one of this host's."""
_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_TOO_MUCH: Final = "There is more in the copy than a rehearsal may leave."


class RehearsalFailed(OrchestratorError):
    """A rehearsal cannot go on."""

    code = "rehearsal_failed"


def write_disk(root: Path, listing: Listing, contents: Mapping[str, bytes]) -> None:
    """Make a directory that has what a listing has, and nothing else; ``contents``: the bytes of each hash.

    Raises RehearsalFailed.
    """
    try:
        root.mkdir(mode=0o700, parents=True)
        for path, state in sorted(listing.states.items()):
            place = _place(root, path)
            if state == DIRECTORY:
                place.mkdir(parents=True, exist_ok=True)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                _write(place, contents[state])
    except OSError as error:
        raise RehearsalFailed(f"The copy cannot be written to this host: {error.strerror or error}.") from error
    written, _ = read_disk(root, known=set(listing.files.values()))
    changed = differences(listing, written)
    if changed:
        raise RehearsalFailed(
            f"This host cannot keep {_shown(next(iter(changed)))} as the computer has it.",
            remedy="Names that differ only in their letters' case do not fit on some hosts' disks.",
        )


def read_disk(root: Path, *, known: Collection[str]) -> tuple[Listing, dict[str, bytes]]:
    """All that is on a copy's disk, and the bytes of those files whose hashes are not known. Raises RehearsalFailed."""
    states: dict[str, str] = {}
    new: dict[str, bytes] = {}
    total = 0
    try:
        for path, place in _walk(root):
            if len(states) >= MAX_FILES:
                raise RehearsalFailed(_TOO_MUCH)
            if place.is_dir() and not place.is_symlink():
                states[path] = DIRECTORY
                continue
            data = _read(place)
            total += len(data)
            sha256 = states[path] = sha256_hex(data)
            if sha256 not in known:
                new[sha256] = data
            if total > MAX_BYTES:
                raise RehearsalFailed(_TOO_MUCH)
    except OSError as error:
        raise RehearsalFailed(f"The copy cannot be read: {error.strerror or error}.") from error
    return Listing(states), new


def _walk(root: Path) -> Iterator[tuple[str, Path]]:
    """All that is below a directory, except the client's own files, each with its path on the computer.

    Parents come first.

    Raises RehearsalFailed for what is too deep: a program may nest directories as it likes.
    """
    left = [("", root)]
    while left:
        above, place = left.pop()
        for one in sorted(place.iterdir()):
            name = os.fsencode(one.name).decode("utf-8", "surrogateescape")
            if not above and name == OWN:
                continue
            path = f"{above}/{name}" if above else name
            if path.count("/") >= MAX_DEPTH:
                raise RehearsalFailed(_TOO_MUCH)
            yield path, one
            if one.is_dir() and not one.is_symlink():
                left.append((path, one))


def remove(root: Path) -> None:
    """Remove a directory with all that is in it, however deep. Raises OSError."""
    found = [root]
    for place in found:
        found.extend(one for one in place.iterdir() if one.is_dir() and not one.is_symlink())
    for place in reversed(found):
        for one in place.iterdir():
            one.unlink()
        place.rmdir()


def _place(root: Path, path: str) -> Path:
    """Where a path of the computer is on this host. Raises RehearsalFailed for one that would leave its directory.

    A computer may say anything of itself.
    """
    parts = path.split("/")
    odd = any(part in ("", ".", "..") or "\0" in part or "\\" in part for part in parts)
    if odd or parts[0] == OWN or len(parts) > MAX_DEPTH:
        raise RehearsalFailed(f"{_shown(path)} is not a path that can be copied.")
    return root.joinpath(*(os.fsdecode(part.encode("utf-8", "surrogateescape")) for part in parts))


def _write(place: Path, data: bytes) -> None:
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _read(place: Path) -> bytes:
    """The bytes of a file. Raises RehearsalFailed for a path that is not a file, OSError."""
    descriptor = os.open(place, os.O_RDONLY | _NO_FOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
            raise RehearsalFailed(_TOO_MUCH)
        return file.read()


def _shown(path: str) -> str:
    return repr(path.encode(errors="replace").decode()[:200])


# -- The process of a copy: the simulated computer on the copy's disk, with as little of this host as it needs
#
# Programs in it run before anybody approved them. They are Lua in a sandbox; they reach no network but this
# server's own endpoint for computers, see nothing of the environment, and are bound in memory and disk.

MEMORY_BYTES: Final = 256_000_000
"""Bytes of memory for Lua in a copy."""
END_WITHIN_S: Final = 5.0
LOCK_WITHIN_S: Final = 20.0
"""When a server is killed, the rest of its copy ends by itself in two seconds."""
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


# -- Taking the copy: all that is on a real computer, its bytes in the store, and what of it may be in the copy

CAPACITY_BYTES: Final = 1_000_000
"""The capacity of a computer by the mod's own settings, where it does not say."""
COPY_WITHIN_S: Final = 60.0
"""Each file is a command of its own, some 30 ms; the asker waits for the answer."""
_NAMED: Final = 20
"""Paths that are not in the copy and are recorded by name."""
_LOOKS: Final = 2
"""Looks at a computer that goes away or is busy meanwhile."""
_NOT_READABLE: Final = "The policy does not let this task read it."


class CannotRehearse(OrchestratorError):
    """There can be no rehearsal now: the computer is away, or too many go on."""

    code = "cannot_rehearse"
    http_status = 409


@dataclass(frozen=True)
class Copying:
    """Copies real computers into the store."""

    store: Store
    world: Environment
    may_read: Callable[[PolicyContext, str], bool]
    """Whether the policy lets a task read a file without a question: a program in the copy reads what is there."""
    transfers: Transfers

    async def copied(self, info: ComputerInfo, roles: tuple[str, ...]) -> Rehearsal:
        """All of a computer that a task of these roles may read, in the store.

        Raises CannotRehearse, InvalidRequest.
        """
        try:
            with self.transfers.begin("rehearsal", info.computer) as transfer:
                async with asyncio.timeout(COPY_WITHIN_S):
                    return await self._tried(info, roles, transfer)
        except TimeoutError:
            raise CannotRehearse(
                f"Computer {info.computer} was not copied within {COPY_WITHIN_S:.0f} s.",
                remedy="Try again: the files that were read are kept and not read again.",
            ) from None

    async def _tried(self, info: ComputerInfo, roles: tuple[str, ...], transfer: Transfer) -> Rehearsal:
        for left in reversed(range(_LOOKS)):
            try:
                return await self._copied(info, roles, transfer)
            except (ComputerAway, CallLost, CallVoid, ComputerFailed, ToolFailed) as error:
                if not left:
                    raise CannotRehearse(
                        f"Computer {info.computer} could not be copied: {error}", remedy="Try again soon."
                    ) from error
        raise AssertionError("the last look answers or raises")

    async def _copied(self, info: ComputerInfo, roles: tuple[str, ...], transfer: Transfer) -> Rehearsal:
        computer = info.computer
        context = PolicyContext(
            computer=computer, family=info.family, label=info.label, former_labels=info.former_labels, roles=roles
        )
        listed = await self.world.listed(computer)
        _must_fit(computer, len(listed.listing.states), 0)
        allowed, hidden = self._readable(listed, context)
        kept = await self.world.kept(computer, allowed, on_read=transfer.told)
        _must_fit(computer, len(kept.listed.listing.states), kept.bytes)
        base = await self.store.put_blob(kept.listed.listing.lines)
        capacity = await self.world.capacity(computer) or CAPACITY_BYTES
        return Rehearsal(
            computer=computer,
            base=base.sha256,
            family=info.family,
            label=info.label,
            former_labels=info.former_labels,
            computer_id=info.computer_id or 0,
            host=info.host,
            capacity=min(capacity, MAX_BYTES),
            left_out=_named({**kept.listed.skipped, **hidden}),
        )

    def _readable(self, listed: Listed, context: PolicyContext) -> tuple[Listed, dict[str, str]]:
        """The parts of a listing that may be in the copy, and those that may not, with the reason."""
        hidden = {path: _NOT_READABLE for path in listed.listing.files if not self.may_read(context, path)}
        states = {path: state for path, state in listed.listing.states.items() if path not in hidden}
        return Listed(Listing(states), listed.skipped), hidden


def new_copy_name(computer: ComputerId) -> ComputerId:
    """A name for a copy that nothing else has."""
    return copy_name(computer, secrets.token_hex(4))


def _must_fit(computer: ComputerId, count: int, size: int) -> None:
    if count > MAX_FILES or size > MAX_BYTES:
        raise InvalidRequest(
            f"There is too much on {computer} for a rehearsal: at most {MAX_FILES} files of {MAX_BYTES} bytes.",
            remedy="Run it without --rehearse; each change is then asked for.",
        )


def _named(left_out: dict[str, str]) -> dict[str, str]:
    """The first of what is left out; names on a computer are bytes, and what is not text in them is shown as such."""
    shown = {path.encode(errors="replace").decode(): why for path, why in sorted(left_out.items())}
    named = dict(list(shown.items())[:_NAMED])
    if len(shown) > _NAMED:
        named["…"] = f"And {len(shown) - _NAMED} more."
    return named
