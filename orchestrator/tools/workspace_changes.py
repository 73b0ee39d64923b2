"""Changes of files in the workspace that lose nothing of a change made in the last moment by somebody else.

Theory. To compare a file and then to replace it are two steps, and what a person saves between the two would be gone.
So what is there is first taken out of the way, in one step, and looked at then: a new file changes places with it, one
that is to go is moved away. It is held under a name that says what it should be and what took its place. Is it that,
it is removed; is it not, it goes back, unless somebody was there a second time: then it is kept under a name of its
own, and nobody's bytes are lost. Who was killed in between left what is held, and its name tells what was done.

A gap stays open: a program that has the old file open and goes on writing into it writes into the removed file. Where
the system has no such renames (it is not Linux, or the file system is of another kind) comparing and replacing are two
steps.
"""

import contextlib
import ctypes
import errno
import logging
import os
import re
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import file_digest
from typing import Any, Final

from orchestrator.core.undo.touches import ABSENT, DIRECTORY

# -- Two renames of Linux that Python has no name for: two names change places, or the new name must not be there
# yet
#
# Both happen in one step, so nothing that somebody puts there in between is lost. Where the system or the file
# system cannot, ``Unsupported`` says so, and nothing has happened.

_NO_REPLACE: Final = 1
_EXCHANGE: Final = 2
_CANNOT: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})


class Unsupported(Exception):
    """Such a rename cannot be made here."""


def exchange(name: str, directory: int, other: str, other_directory: int) -> None:
    """Let two names change places. Raises OSError, FileNotFoundError where one is not there, Unsupported."""
    _rename(name, directory, other, other_directory, _EXCHANGE)


def rename_new(name: str, directory: int, new: str, new_directory: int) -> None:
    """Rename to a name that nobody has. Raises OSError, FileExistsError where somebody has it, Unsupported."""
    _rename(name, directory, new, new_directory, _NO_REPLACE)


def _rename(name: str, directory: int, new: str, new_directory: int, flags: int) -> None:
    call = _renameat2()
    if call is None:
        raise Unsupported
    if call(directory, os.fsencode(name), new_directory, os.fsencode(new), flags) != 0:
        code = ctypes.get_errno()
        if code in _CANNOT:
            raise Unsupported
        raise OSError(code, os.strerror(code), name, None, new)


@cache
def _renameat2() -> Any:
    """The function of the system's C library; None: it has none."""
    if sys.platform != "linux":
        return None
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return call


# -- How a place of the workspace is changed without losing what somebody put there in the last moment

logger = logging.getLogger(__name__)

_HELD: Final = re.compile(rf"(.+)\.([0-9a-f]{{64}}|{DIRECTORY})\.([0-9a-f]{{64}}|{ABSENT})")
_KEPT: Final = ".kept"
"""Ends the name of what somebody had put there and that could not go back."""
OPEN_DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
OPEN_FILE: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@dataclass(frozen=True)
class Change:
    """The staged file of a run, and the place that it is for; both directories are open."""

    staging: int
    run: str
    directory: int
    name: str

    def put(self, found: str) -> bool:
        """Put what is staged in the place where ``found`` is, a sha256 or ``absent``.

        False: something else is there, and it stays; the staged file is gone then. Raises OSError.
        """
        if state_of(self.directory, self.name) != found:
            drop(self.staging, self.run)
            return False
        try:
            return self._put_new() if found == ABSENT else self._swap(found)
        except Unsupported:
            os.replace(self.run, self.name, src_dir_fd=self.staging, dst_dir_fd=self.directory)
            return True

    def take(self, found: str) -> bool:
        """Take away what is in the place, the file ``found`` or an empty ``directory``; False: it is not, and stays.

        The staged file is the mark that this was begun. Raises OSError.
        """
        if state_of(self.directory, self.name) != found:
            return False
        held = f"{self.run}.{found}.{ABSENT}"
        os.rename(self.name, held, src_dir_fd=self.directory, dst_dir_fd=self.staging)
        os.fsync(self.directory)
        if state_of(self.staging, held) == found:
            return True
        self._back(held)
        return False

    def _back(self, held: str) -> None:
        """Put back what was taken away, unless something else is there by now: then it is kept."""
        try:
            rename_new(held, self.staging, self.name, self.directory)
        except OSError:
            _keep(self.staging, held, self.run)
        except Unsupported:
            if state_of(self.directory, self.name) == ABSENT:
                os.rename(held, self.name, src_dir_fd=self.staging, dst_dir_fd=self.directory)
            else:
                _keep(self.staging, held, self.run)

    def _put_new(self) -> bool:
        try:
            rename_new(self.run, self.staging, self.name, self.directory)
        except FileExistsError:
            drop(self.staging, self.run)
            return False
        return True

    def _swap(self, found: str) -> bool:
        new = state_of(self.staging, self.run)
        held = f"{self.run}.{found}.{new}"
        os.rename(self.run, held, src_dir_fd=self.staging, dst_dir_fd=self.staging)
        try:
            exchange(held, self.staging, self.name, self.directory)
        except FileNotFoundError:
            drop(self.staging, held)
            return False
        except BaseException:
            os.rename(held, self.run, src_dir_fd=self.staging, dst_dir_fd=self.staging)
            raise
        os.fsync(self.directory)
        ours = state_of(self.staging, held) == found
        if not ours:
            # Where it is gone by now, the held file is the newest that anybody has.
            with contextlib.suppress(OSError):
                exchange(held, self.staging, self.name, self.directory)
        if state_of(self.staging, held) == (found if ours else new):
            drop(self.staging, held)
        else:
            _keep(self.staging, held, self.run)
        return ours


def forget(staging: int, run: str) -> bool:
    """Remove the staged or held file of a run. True: its deed was not done, and never will be."""
    staged, undone, done = exists(staging, run), False, False
    # The mark of a removal goes first: the held file is the sign that it was done.
    if staged:
        drop(staging, run)
    for held, found, new in _held(staging, run):
        state = state_of(staging, held)
        undone, done = undone or state == new, done or state != new
        if state in (found, new):
            drop(staging, held)
        else:
            _keep(staging, held, run)
    return (staged or undone) and not done


def state_of(directory: int, name: str) -> str:
    """The sha256 of a file, ``absent``, ``directory`` for an empty one; empty for all else."""
    try:
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            return "" if has_entries(directory, name) else DIRECTORY
        if not stat.S_ISREG(mode):
            return ""
        with os.fdopen(os.open(name, OPEN_FILE, dir_fd=directory), "rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ABSENT
    except OSError:
        # Such as a file that only its owner may read.
        return ""


def is_directory(directory: int, name: str) -> bool:
    """Whether it is one, and no link to one. Raises FileNotFoundError."""
    return stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)


def has_entries(directory: int, name: str) -> bool:
    """Whether something is in what is under ``name``; nothing is in a file."""
    if not is_directory(directory, name):
        return False
    inner = os.open(name, OPEN_DIRECTORY, dir_fd=directory)
    try:
        with os.scandir(inner) as entries:
            return next(entries, None) is not None
    finally:
        os.close(inner)


def drop(directory: int, name: str) -> None:
    """Remove a file or an empty directory."""
    if is_directory(directory, name):
        os.rmdir(name, dir_fd=directory)
    else:
        os.unlink(name, dir_fd=directory)


def _keep(staging: int, held: str, run: str) -> None:
    os.rename(held, run + _KEPT, src_dir_fd=staging, dst_dir_fd=staging)
    logger.warning("a file that somebody put in the place of a change at the last moment is kept as %s", run + _KEPT)


def _held(staging: int, run: str) -> Iterator[tuple[str, str, str]]:
    """The names of what is held for a run, each with what it should be and what took its place."""
    for name in os.listdir(staging):
        parts = _HELD.fullmatch(name)
        if parts is not None and parts[1] == run:
            yield name, parts[2], parts[3]


def exists(directory: int, name: str) -> bool:
    """Whether something has this name, a link that leads nowhere included."""
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
