"""The one directory on this host in which ``local_*`` works. No path leads out of it.

Theory of operation. A path is never checked and then opened: between the two, somebody could
put a symbolic link there. It is walked. Each part is opened relative to the directory before
it, and the open itself refuses a link (``openat`` with ``O_NOFOLLOW``), so that what was
opened is inside by construction, whatever happens to the tree meanwhile. No link is followed,
not even one that stays inside: who follows some has to judge them all.

A write is made in two steps, so that a crash between them can be told from one after them:
``stage`` puts the bytes into a directory of the workspace's own, under the name of the run;
``commit`` renames them to their place, which happens wholly or not at all; ``discard`` takes
them away and says whether they were still there (then the run was not done, and now never
will be).

Everything here blocks for as long as the disk takes; call it in a thread.
"""

import asyncio
import contextlib
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NoReturn

from orchestrator.core.errors import ComputerFailed, ToolFailed, UnsafePath
from orchestrator.core.ports import Store, Workspace
from orchestrator.tools.workspace_changes import (
    OPEN_DIRECTORY,
    OPEN_FILE,
    Change,
    exists,
    forget,
    has_entries,
    is_directory,
    state_of,
)

# -- The one directory on this host in which ``local_*`` works, and out of which no path leads

MAX_FILE_BYTES: Final = 1024 * 1024
"""Far more than a model can read, and no pause that anybody notices while it is hashed."""
MAX_ENTRIES: Final = 4000
"""Entries of a directory that is looked into: as many as a computer tells of its own."""
STAGING: Final = ".cc-orchestrator"
"""Below the root, and so on the same file system as (nearly) every file of the workspace."""
MAX_PATH_CHARS: Final = 1000
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_INSIDE: Final = "Name a file inside the workspace by its relative path, like notes/plan.txt."
_CAN_WALK: Final = {os.open, os.mkdir, os.rename, os.rmdir, os.stat, os.unlink} <= os.supports_dir_fd
"""Not on Windows, where ``local_*`` is refused rather than less safe."""
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


class DirectoryWorkspace:
    """A ``Workspace`` that is one directory, made when it is not there yet."""

    def __init__(self, root: Path, *, max_bytes: int = MAX_FILE_BYTES) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = root.resolve(strict=True)
        self._max_bytes = max_bytes

    @property
    def root(self) -> Path:
        """The directory itself, as the host names it."""
        return self._root

    def read_bytes(self, path: str) -> bytes | None:
        """The bytes of the file; None: there is no such file.

        Raises UnsafePath when ``path`` leaves the workspace by any way or goes through a link;
        ToolFailed when it is too large or not a file.
        """
        *parents, name = _parts(path)
        with _told(path), contextlib.suppress(FileNotFoundError), self._directory(path, parents) as directory:
            return self._read(path, directory, name)
        return None

    def inside(self, path: str) -> tuple[str, ...] | None:
        """The paths of all that is in a directory, below it, sorted; links are told of and not followed.

        None: there is no directory. Raises UnsafePath and ToolFailed as ``read_bytes``, ToolFailed for too much.
        """
        found: list[str] = []
        with _told(path), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            with self._directory(path, _parts(path)) as directory:
                _walk(directory, "", found)
            if len(found) > MAX_ENTRIES:
                raise ToolFailed(f"{path} has more than {MAX_ENTRIES} entries.", remedy="Look at a smaller directory.")
            return tuple(sorted(found))
        return None

    def missing_above(self, path: str) -> tuple[str, ...]:
        """The directories above a path that are not there, the highest first. Raises as ``read_bytes``."""
        parents = _parts(path)[:-1]
        with _told(path):
            for count in range(1, len(parents) + 1):
                try:
                    with self._directory(path, parents[:count]):
                        pass
                except FileNotFoundError:
                    return tuple("/".join(parents[:each]) for each in range(count, len(parents) + 1))
        return ()

    def stage(self, name: str, data: bytes | None) -> None:
        """Make ``data`` ready under ``name``, durably; earlier data of that name is gone. None: an empty directory.

        Raises ToolFailed when it is too much or there is no room: then nothing is staged.
        """
        self.discard(name)
        if data is None:
            with _told(STAGING), self._directory(STAGING, [STAGING], make=True) as staging:
                os.mkdir(name, dir_fd=staging)
                os.fsync(staging)
            return
        if len(data) > self._max_bytes:
            raise ToolFailed(f"{len(data)} bytes are too many for a file; {self._max_bytes} are allowed.")
        with _told(STAGING), self._directory(STAGING, [STAGING], make=True) as staging:
            try:
                with os.fdopen(os.open(name, _NEW, mode=0o666, dir_fd=staging), "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.fsync(staging)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=staging)
                raise

    def commit(self, name: str, path: str, found: str | None = None) -> None:
        """Put what was staged in the file's place, in one step; a file that was there hands on its mode.

        A staged directory takes a place where nothing is. Directories that are missing are made. ``found``: the sha256
        of what is to be there, or ``absent``; None: whatever is.

        Raises UnsafePath and ToolFailed as ``read_bytes`` does, ToolFailed when nothing is staged; then no file was
        touched, and what is staged stays. Raises ComputerFailed ``stale`` where something else is there, which stays;
        then nothing is staged any more.
        """
        *parents, last = _parts(path)
        _must_be_a_name(name)
        with (
            _told(path),
            self._directory(STAGING, [STAGING], make=True) as staging,
            self._directory(path, parents, make=True) as directory,
        ):
            if not exists(staging, name):
                raise ToolFailed(f"Nothing is ready to be written to {path}.", remedy="Write it again.")
            if exists(directory, last):
                mode = _look(path, directory, last)
                if is_directory(staging, name):
                    raise ToolFailed(f"{path} is a file.")
                _hand_on_mode(mode, staging, name)
            if found is None:
                os.replace(name, last, src_dir_fd=staging, dst_dir_fd=directory)
            elif not Change(staging, name, directory, last).put(found):
                raise _stale(path, state_of(directory, last))
            os.fsync(directory)
            os.fsync(staging)

    def remove(self, name: str, path: str, found: str | None = None) -> None:
        """Take a file or an empty directory away, in one step: the staged file is the mark that this was begun.

        ``found``: the sha256 of what is to be there, or ``directory``; None: whatever is. Raises as ``commit`` does,
        ToolFailed for a directory with something in it.
        """
        *parents, last = _parts(path)
        _must_be_a_name(name)
        with (
            _told(path),
            self._directory(STAGING, [STAGING], make=True) as staging,
            self._directory(path, parents) as directory,
        ):
            if not exists(staging, name):
                raise ToolFailed(f"Nothing is ready for {path} to be removed.", remedy="Remove it again.")
            _must_be_removable(path, directory, last)
            if not Change(staging, name, directory, last).take(found or state_of(directory, last)):
                _must_be_removable(path, directory, last)
                forget(staging, name)
                raise _stale(path, state_of(directory, last))
            forget(staging, name)
            os.fsync(staging)

    def discard(self, name: str) -> bool:
        """Take away what was staged. True: it was there, so that what it stood for was not done and never will be."""
        _must_be_a_name(name)
        with _told(STAGING), contextlib.suppress(FileNotFoundError), self._directory(STAGING, [STAGING]) as staging:
            undone = forget(staging, name)
            os.fsync(staging)
            return undone
        return False

    # -- inside ----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _directory(self, path: str, parts: Sequence[str], *, make: bool = False) -> Iterator[int]:
        """The open directory at the end of the walk. Raises FileNotFoundError, unless it may be made."""
        if not _CAN_WALK:
            raise ToolFailed("Files on this host cannot be reached safely on this system.", remedy="Use a POSIX one.")
        try:
            at = os.open(self._root, OPEN_DIRECTORY)
        except OSError as error:
            raise ToolFailed(f"The workspace {self._root} cannot be opened: {error.strerror}.") from error
        try:
            for part in parts:
                if make and not exists(at, part):
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=at)
                        os.fsync(at)
                inner = _enter(path, at, part)
                os.close(at)
                at = inner
            yield at
        finally:
            os.close(at)

    def _read(self, path: str, directory: int, name: str) -> bytes:
        _look(path, directory, name)  # a device may act on being opened
        with os.fdopen(os.open(name, OPEN_FILE, dir_fd=directory), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ToolFailed(f"{path} is not a file.")
            content = file.read(self._max_bytes + 1)
        if len(content) > self._max_bytes:
            raise ToolFailed(f"{path} has more than {self._max_bytes} bytes.", remedy="Work on a smaller file.")
        return content


def _parts(path: str) -> list[str]:
    """The names from the root down to the file. Raises UnsafePath."""
    if not path or len(path) > MAX_PATH_CHARS or any(ord(char) < 32 or "\ud800" <= char <= "\udfff" for char in path):
        raise UnsafePath(f"{path[:80]!r} cannot be the path of a file.", remedy=_INSIDE)
    if path.startswith("/") or "\\" in path or _DRIVE.match(path):
        raise UnsafePath(f"{path!r} is not a relative path with '/' between its parts.", remedy=_INSIDE)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise UnsafePath(f"{path!r} goes up with '..'.", remedy=_INSIDE)
    if not parts or path.endswith(("/", "/.")):
        raise UnsafePath(f"{path!r} names a directory.", remedy=_INSIDE)
    if parts[0].casefold() == STAGING:
        raise UnsafePath(f"{STAGING} is the workspace's own.", remedy=_INSIDE)
    return parts


def _must_be_a_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UnsafePath(f"{name!r} cannot name what is staged.")


def _enter(path: str, directory: int, part: str) -> int:
    try:
        return os.open(part, OPEN_DIRECTORY, dir_fd=directory)
    except FileNotFoundError:
        raise
    except OSError:
        if stat.S_ISLNK(os.stat(part, dir_fd=directory, follow_symlinks=False).st_mode):
            raise _link(path, part) from None
        raise


def _look(path: str, directory: int, name: str) -> int:
    """The mode of the regular file under ``name``. Raises FileNotFoundError, UnsafePath, ToolFailed."""
    mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        raise _link(path, name)
    if not stat.S_ISREG(mode):
        raise ToolFailed(f"{path} is {'a directory' if stat.S_ISDIR(mode) else 'not a file'}.")
    return mode


def _must_be_removable(path: str, directory: int, name: str) -> None:
    """Raises FileNotFoundError, UnsafePath and ToolFailed unless it is a file or an empty directory."""
    if not is_directory(directory, name):
        _look(path, directory, name)
    elif has_entries(directory, name):
        raise _not_empty(path)


def _stale(path: str, found: str) -> ComputerFailed:
    return ComputerFailed("stale", f"{path} is not what it was when it was shown.", {"actual": found})


def _not_empty(path: str) -> ToolFailed:
    return ToolFailed(f"{path} is not empty.", remedy="Its content has to go first.")


def _walk(directory: int, above: str, found: list[str]) -> None:
    """Add what is below an open directory, until there is more than anybody wants to know."""
    for name in os.listdir(directory):
        path = f"{above}{name}"
        found.append(path)
        if len(found) <= MAX_ENTRIES and is_directory(directory, name):
            inner = os.open(name, OPEN_DIRECTORY, dir_fd=directory)
            try:
                _walk(inner, f"{path}/", found)
            finally:
                os.close(inner)


def _hand_on_mode(mode: int, directory: int, name: str) -> None:
    with os.fdopen(os.open(name, OPEN_FILE, dir_fd=directory), "rb") as file:
        os.fchmod(file.fileno(), mode & 0o777)
        os.fsync(file.fileno())


def _link(path: str, part: str) -> UnsafePath:
    return UnsafePath(f"{path!r} goes through the symbolic link {part!r}, and links are not followed.", remedy=_INSIDE)


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    """An error of the system becomes a sentence."""
    try:
        yield
    except OSError as error:
        raise ToolFailed(f"{path}: {error.strerror}.") from error


# -- The workspace of several nodes: one directory that all of them share, or none -------
#
# A file in it says which one it is, and the store which one it has to be. A node whose workspace is another would
# work on other files than those that the reviewer was shown, so there every ``local_*`` call is refused, with the
# reason.

MARKER: Final = ".workspace-id"
"""In the workspace's own directory; the name of a staged file never begins with a dot."""
_AGREED: Final = "workspace"


async def workspace_of(store: Store, root: Path) -> Workspace:
    """The workspace of a node; of one that has another than the other nodes, one that refuses everything.

    Raises ToolFailed where the directory cannot be used at all.
    """
    space = DirectoryWorkspace(root)
    if not store.shared:
        return space
    own = await asyncio.to_thread(_identity, space.root)
    agreed = await store.agree(_AGREED, own)
    return space if own == agreed else RefusedWorkspace(space.root, agreed)


class RefusedWorkspace:
    """A ``Workspace`` that is not the one of the other nodes: it does nothing and says why."""

    def __init__(self, root: Path, agreed: str) -> None:
        self._root = root
        self.why = ToolFailed(
            f"{root} on this node is not the workspace that the other nodes of this store have, so local_* cannot be "
            "used here.",
            remedy="Start this node with --workspace naming the one directory that all nodes share. "
            f"(The one meant has {agreed} in its {STAGING}/{MARKER}.)",
        )

    @property
    def root(self) -> Path:
        """The directory itself."""
        return self._root

    def read_bytes(self, path: str) -> bytes | None:
        """Raises ToolFailed, as all below."""
        self._refuse(path)

    def inside(self, path: str) -> tuple[str, ...] | None:
        """Refused."""
        self._refuse(path)

    def missing_above(self, path: str) -> tuple[str, ...]:
        """Refused."""
        self._refuse(path)

    def stage(self, name: str, data: bytes | None) -> None:
        """Refused."""
        self._refuse(name, data)

    def commit(self, name: str, path: str, found: str | None = None) -> None:
        """Refused."""
        self._refuse(name, path, found)

    def remove(self, name: str, path: str, found: str | None = None) -> None:
        """Refused."""
        self._refuse(name, path, found)

    def discard(self, name: str) -> bool:
        """Refused: nobody here can tell whether anything is staged there."""
        self._refuse(name)

    def _refuse(self, *_: object) -> NoReturn:
        raise ToolFailed(self.why.message, remedy=self.why.remedy)


def _identity(root: Path) -> str:
    """The name of a workspace in its marker, which is made when it is not there. Raises ToolFailed."""
    marker = root / STAGING / MARKER
    try:
        marker.parent.mkdir(exist_ok=True)
        if not marker.exists():
            new = marker.with_name(f"{MARKER}.{secrets.token_hex(8)}")
            new.write_text(f"w-{secrets.token_hex(16)}\n", "ascii")
            # Whole or not at all, and of two nodes that make one at once the first counts.
            with contextlib.suppress(FileExistsError):
                os.link(new, marker)
            new.unlink()
        return marker.read_text("ascii", "replace").strip()
    except OSError as error:
        raise ToolFailed(
            f"The workspace {root} cannot be marked as the one that all nodes share: {error.strerror or error}.",
            remedy="Let the server's user write there, or name another directory with --workspace.",
        ) from None
