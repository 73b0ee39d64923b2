"""The file system of the simulated computer: a host directory under the mod's rules.

The bytes of a file on the host are the bytes on the computer. ``rom`` is read-only and comes from
this package. Every change first calls ``before_change``, so that a test can end the process there.
"""

import os
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from cc_client.simulator.paths import parent, sanitize

MIN_ENTRY_BYTES: Final = 500
"""What the mod charges at least for a file or a directory."""
FLOPPY_BYTES: Final = 125_000
"""What fits on a floppy disk."""
ROM: Final = b"rom"


class FsError(Exception):
    """The file system refuses; the text is the sentence that Lua sees."""

    def __init__(self, path: bytes, reason: str) -> None:
        super().__init__(f"/{os.fsdecode(path)}: {reason}")

    @property
    def sentence(self) -> bytes:
        """The sentence as bytes, paths unchanged."""
        return os.fsencode(str(self))


class Place(NamedTuple):
    """A path after cleaning, and where it is on the host."""

    path: bytes
    host: Path
    read_only: bool


class Attributes(NamedTuple):
    """What ``fs.attributes`` tells; times in milliseconds since 1970."""

    size: int
    is_dir: bool
    read_only: bool
    created_ms: int
    modified_ms: int


@dataclass
class Disk:
    """The files of one computer.

    Args:
        root: Host directory that is the computer's ``/``.
        rom: Host directory shown as ``/rom``.
        capacity_bytes: What fits, as the mod counts.
        before_change: Called before each change of the file system.
        filled_bytes: Space that is taken by nothing that can be seen.
    """

    root: Path
    rom: Path
    capacity_bytes: int
    before_change: Callable[[], None] = lambda: None
    filled_bytes: int = 0
    mounts: Callable[[], Mapping[bytes, Path]] = dict
    """The floppy disks in drives: where each is mounted, and its host directory."""

    def place(self, path: bytes) -> Place:
        """Where a path leads. Raises FsError for one that leaves the computer."""
        clean = sanitize(path)
        if clean == b".." or clean.startswith(b"../"):
            raise FsError(clean, "Invalid Path")
        if clean == ROM or clean.startswith(ROM + b"/"):
            return Place(clean, self.rom / os.fsdecode(clean[4:]), True)
        first, _, rest = clean.partition(b"/")
        floppy = self.mounts().get(first)
        if floppy is not None:
            return Place(clean, floppy / os.fsdecode(rest), False)
        return Place(clean, self.root / os.fsdecode(clean), False)

    def exists(self, path: bytes) -> bool:
        """Whether something is at the path."""
        return self.place(path).host.exists()

    def is_dir(self, path: bytes) -> bool:
        """Whether a directory is at the path."""
        return self.place(path).host.is_dir()

    def is_read_only(self, path: bytes) -> bool:
        """Whether the path is on the ROM."""
        return self.place(path).read_only

    def drive(self, path: bytes) -> bytes | None:
        """``hdd``, ``rom`` or where a floppy disk is mounted; None when nothing is there."""
        place = self.place(path)
        if not place.host.exists():
            return None
        first = place.path.partition(b"/")[0]
        if first in self.mounts():
            return first
        return b"rom" if place.read_only else b"hdd"

    def is_drive_root(self, path: bytes) -> bool:
        """Whether the path is where a drive is mounted."""
        return self.place(path).path in {b"", ROM, *self.mounts()}

    def list(self, path: bytes) -> list[bytes]:
        """The names in a directory, sorted. Raises FsError when it is none."""
        place = self.place(path)
        if not place.host.is_dir():
            raise FsError(place.path, "Not a directory")
        names = {os.fsencode(each.name) for each in place.host.iterdir()}
        if not place.path:
            names |= {ROM, *self.mounts()}
        return sorted(names)

    def size(self, path: bytes) -> int:
        """Bytes of a file, 0 for a directory. Raises FsError when nothing is there."""
        return self.attributes(path).size

    def attributes(self, path: bytes) -> Attributes:
        """What is known of a file or directory. Raises FsError when nothing is there."""
        place = self.place(path)
        try:
            found = place.host.stat()
        except OSError:
            raise FsError(place.path, "No such file") from None
        is_dir = stat.S_ISDIR(found.st_mode)
        size = 0 if is_dir else found.st_size
        return Attributes(size, is_dir, place.read_only, int(found.st_ctime * 1000), int(found.st_mtime * 1000))

    def used_bytes(self, root: Path | None = None) -> int:
        """What the files take, as the mod counts: on a floppy disk, or on the computer itself."""
        used, pending = (self.filled_bytes, [str(self.root)]) if root is None else (0, [str(root)])
        while pending:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        used += MIN_ENTRY_BYTES
                        pending.append(entry.path)
                    else:
                        used += max(MIN_ENTRY_BYTES, entry.stat(follow_symlinks=False).st_size)
        return used

    def fill(self, size: int) -> int:
        """Take space away, at most all that is free, and give back what was taken before; returns how much is taken."""
        if size < 0:
            raise ValueError(f"a disk cannot be filled with {size} bytes")
        self.filled_bytes = 0
        self.filled_bytes = min(size, self.free_bytes(b""))
        return self.filled_bytes

    def free_bytes(self, path: bytes) -> int:
        """What still fits where the path is; 0 on the ROM."""
        if self.place(path).read_only:
            return 0
        return max(0, self.capacity(path) - self.used_bytes(self._floppy(path)))

    def capacity(self, path: bytes) -> int:
        """What fits where the path is, when that is empty."""
        return self.capacity_bytes if self._floppy(path) is None else FLOPPY_BYTES

    def _floppy(self, path: bytes) -> Path | None:
        return self.mounts().get(self.place(path).path.partition(b"/")[0])

    def make_dir(self, path: bytes) -> None:
        """Make a directory and those above it. Raises FsError for a file in the way or no space."""
        place = self._writable(path)
        if place.host.is_dir():
            return
        missing: list[bytes] = []
        above = place.path
        while above and not self.exists(above):
            missing.append(above)
            above = parent(above)
        if above and not self.is_dir(above):
            raise FsError(place.path, "File exists" if above == place.path else "Could not create directory")
        if len(missing) * MIN_ENTRY_BYTES > self.free_bytes(path):
            raise FsError(place.path, "Out of space")
        for each in reversed(missing):
            self.before_change()
            self.place(each).host.mkdir()

    def delete(self, path: bytes) -> None:
        """Remove a file or a whole directory; what is missing is gone already."""
        place = self._writable(path)
        if not place.path:
            raise FsError(place.path, "Access denied")
        if place.host.is_dir():
            self.before_change()
            _remove_tree(place.host)
        elif place.host.exists():
            self.before_change()
            place.host.unlink()

    def move(self, source: bytes, target: bytes) -> None:
        """Rename; an existing target is refused. Raises FsError."""
        origin, goal = self._writable(source), self._writable(target)
        self._check_transfer(origin, goal)
        self.make_dir(parent(goal.path))
        self.before_change()
        origin.host.rename(goal.host)

    def copy(self, source: bytes, target: bytes) -> None:
        """Copy a file or directory; an existing target is refused. Raises FsError."""
        origin, goal = self.place(source), self._writable(target)
        self._check_transfer(origin, goal)
        if self._cost(origin.host) > self.free_bytes(target):
            raise FsError(goal.path, "Out of space")
        self.make_dir(parent(goal.path))
        self.before_change()
        if origin.host.is_dir():
            shutil.copytree(origin.host, goal.host)
        else:
            shutil.copyfile(origin.host, goal.host)

    def _writable(self, path: bytes) -> Place:
        place = self.place(path)
        if place.read_only:
            raise FsError(place.path, "Access denied")
        return place

    def _check_transfer(self, origin: Place, goal: Place) -> None:
        if not origin.host.exists():
            raise FsError(origin.path, "No such file")
        if goal.host.exists():
            raise FsError(goal.path, "File exists")
        if (goal.path + b"/").startswith(origin.path + b"/"):
            raise FsError(origin.path, "Can't move a directory inside itself")

    def _cost(self, host: Path) -> int:
        if not host.is_dir():
            return max(MIN_ENTRY_BYTES, host.stat().st_size)
        return MIN_ENTRY_BYTES + sum(self._cost(each) for each in host.iterdir())


def _remove_tree(top: Path) -> None:
    """Remove a directory and all that is in it, by paths: those are what a confined computer is judged by."""
    for above, directories, files in os.walk(top, topdown=False):
        for path in (Path(above, name) for name in (*files, *directories)):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()
    top.rmdir()
