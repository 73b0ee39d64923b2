"""The disk of a copy: a directory of this host, filled from a listing and read back as one.

It is read from the host and not through the copy's client, so that nothing that ran there has a say in it, and a
restart of the server needs nobody but the directory. Paths are bytes: so they are on a computer.
"""

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.undo.listings import Listing, differences
from orchestrator.core.undo.touches import DIRECTORY
from orchestrator.core.wire.wire import sha256_hex

OWN: Final = ".cc-orchestrator"
"""The directory of the copy's client: no file of the computer."""
MAX_FILES: Final = 2_000
"""Files and directories of a computer that is rehearsed: more than fit on a disk of the mod's own settings."""
MAX_BYTES: Final = 20_000_000
"""Of all of them: 20 times what such a disk holds."""

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
    """All that is below a directory but the client's own, each with its path on the computer; parents come first.

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

    What a computer says of itself is anybody's word.
    """
    parts = path.split("/")
    odd = any(part in ("", ".", "..") or "\0" in part or "\\" in part for part in parts)
    if odd or parts[0] == OWN or len(parts) > MAX_DEPTH:
        raise RehearsalFailed(f"{_shown(path)} is no path that can be copied.")
    return root.joinpath(*(os.fsdecode(part.encode("utf-8", "surrogateescape")) for part in parts))


def _write(place: Path, data: bytes) -> None:
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _read(place: Path) -> bytes:
    """The bytes of a file. Raises RehearsalFailed for what is none, OSError."""
    descriptor = os.open(place, os.O_RDONLY | _NO_FOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
            raise RehearsalFailed(_TOO_MUCH)
        return file.read()


def _shown(path: str) -> str:
    return repr(path.encode(errors="replace").decode()[:200])
