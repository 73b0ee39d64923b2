"""One process per file: a lock that dies with its holder and says who that is."""

import os
import sys
from pathlib import Path

from orchestrator.core.errors import StoreBusy

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        # Windows keeps others from reading a locked byte, so lock one far behind the pid.
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class FileLock:
    """The exclusive right to ``path``, kept in the side file ``path.lock`` that holds our pid.

    The operating system frees it when the process ends in whatever way; the side file stays,
    because removing it would let a third process lock another file of the same name.
    Raises StoreBusy with the holder's pid.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor: int | None = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(self._descriptor)
        except OSError:
            pid = os.read(self._descriptor, 32).decode("ascii", "replace").strip()
            self.release()
            raise StoreBusy(
                f"The store {path} is open in process {pid or 'unknown'}.",
                remedy="Stop that process, or use its server; one SQLite file serves one process.",
            ) from None
        os.truncate(self._descriptor, 0)
        os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let others have it. Safe to call twice."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
