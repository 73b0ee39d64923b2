"""Open files of the simulated computer."""

import os
from dataclasses import dataclass, field
from io import FileIO
from typing import Final

from cc_client.simulator.disk import MIN_ENTRY_BYTES, Disk, FsError
from cc_client.simulator.paths import parent

MAX_OPEN_FILES: Final = 128
_WHENCE: Final = {b"set": os.SEEK_SET, b"cur": os.SEEK_CUR, b"end": os.SEEK_END}


class HandleError(Exception):
    """An open file refuses; the text is the sentence that Lua sees."""


@dataclass
class Handles:
    """The open files of one boot, by number. Writes reach the host at once."""

    disk: Disk
    _open: dict[int, FileIO] = field(default_factory=dict)
    _paths: dict[int, bytes] = field(default_factory=dict)
    _last: int = 0

    def open(self, path: bytes, mode: bytes) -> int:
        """Open as ``r w a r+ w+`` with or without ``b``. Raises FsError."""
        place = self.disk.place(path)
        if len(self._open) >= MAX_OPEN_FILES:
            raise FsError(place.path, "Too many files already open")
        plain = mode.replace(b"b", b"").decode("ascii")
        if place.host.is_dir():
            raise FsError(place.path, "Not a file" if plain == "r" else "Cannot write to directory")
        if plain != "r" and place.read_only:
            raise FsError(place.path, "Access denied")
        if plain.startswith("r") and not place.host.exists():
            raise FsError(place.path, "No such file")
        if not plain.startswith("r"):
            self._make_room(place.path, exists=place.host.exists())
        self._last += 1
        self._open[self._last] = FileIO(place.host, plain)
        self._paths[self._last] = place.path
        return self._last

    def read(self, number: int, count: int) -> bytes | None:
        """At most ``count`` bytes, None at the end."""
        data = self._file(number).read(count)
        return data or (b"" if count == 0 else None)

    def read_all(self, number: int) -> bytes:
        """Everything that is left; empty at the end."""
        return self._file(number).readall()

    def read_line(self, number: int, with_end: bool) -> bytes | None:
        """The next line, None at the end."""
        line = self._file(number).readline()
        if not line:
            return None
        return line if with_end else line.removesuffix(b"\n")

    def write(self, number: int, data: bytes) -> None:
        """Write where the file stands. Raises HandleError when the disk is full."""
        file = self._file(number)
        size = os.fstat(file.fileno()).st_size
        end = max(size, (size if "a" in file.mode else file.tell()) + len(data))
        growth = max(end, MIN_ENTRY_BYTES) - max(size, MIN_ENTRY_BYTES)
        if growth > 0 and growth > self.disk.free_bytes(self._paths[number]):
            raise HandleError("Out of space")
        self.disk.before_change()
        file.write(data)

    def seek(self, number: int, whence: bytes, offset: int) -> int:
        """Go to a place; returns it. Raises HandleError for a bad one."""
        if whence not in _WHENCE:
            raise HandleError("bad argument #1 (invalid option)")
        return self._file(number).seek(offset, _WHENCE[whence])

    def flush(self, number: int) -> None:
        """Writes are never held back, so this only looks that the file is open."""
        self._file(number)

    def close(self, number: int) -> None:
        """Close; a second time is an error, as in the mod."""
        self._file(number).close()
        del self._open[number]

    def close_all(self) -> None:
        """The boot has ended."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _file(self, number: int) -> FileIO:
        file = self._open.get(number)
        if file is None:
            raise HandleError("attempt to use a closed file")
        return file

    def _make_room(self, path: bytes, *, exists: bool) -> None:
        self.disk.make_dir(parent(path))
        if not exists and self.disk.free_bytes(path) < MIN_ENTRY_BYTES:
            raise FsError(path, "Out of space")
        self.disk.before_change()
