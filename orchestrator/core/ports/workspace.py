"""The port of the one directory on this host in which tools may work."""

from pathlib import Path
from typing import Protocol


class Workspace(Protocol):
    """The one directory on this host in which ``local_*`` may work."""

    @property
    def root(self) -> Path:
        """The directory itself."""

    def read_bytes(self, path: str) -> bytes | None:
        """The bytes of a file inside; None: there is none. Raises UnsafePath, ToolFailed (not a file, too large)."""

    def inside(self, path: str) -> tuple[str, ...] | None:
        """The paths of all that is in a directory, below it, sorted; None: there is no directory.

        Raises UnsafePath, ToolFailed (there is too much).
        """

    def missing_above(self, path: str) -> tuple[str, ...]:
        """The directories above a path that are not there, the highest first: ``commit`` makes them.

        Raises UnsafePath.
        """

    def stage(self, name: str, data: bytes | None) -> None:
        """Keep bytes under a name, on disk, apart from the files; staging again replaces. None: an empty directory.

        Raises ToolFailed.
        """

    def commit(self, name: str, path: str, found: str | None = None) -> None:
        """Make the staged bytes the file at ``path``, in one atomic step; the mode of an old file stays.

        A staged directory takes a place where nothing is. ``found``: the sha256 of what is there, or ``absent``, and
        where it is something else that stays; None: whatever is there.

        Raises UnsafePath when ``path`` leaves the workspace by any way, ToolFailed when nothing is staged,
        ComputerFailed ``stale`` where something else than ``found`` is there, with nothing left staged.
        """

    def remove(self, name: str, path: str, found: str | None = None) -> None:
        """Take the file, or the empty directory, at ``path`` away, for which something is staged under ``name``.

        In one atomic step; a directory with something in it stays, and is ToolFailed. ``found`` as in ``commit``, of
        a directory ``directory``.

        Raises UnsafePath and ToolFailed as ``commit`` does.
        """

    def discard(self, name: str) -> bool:
        """Take staged bytes away; False: they were not there any more, or what they stood for was done."""
