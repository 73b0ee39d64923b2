"""Two renames of Linux that Python has no name for: two names change places, or the new name must not be there yet.

Both happen in one step, so nothing that somebody puts there in between is lost. Where the system or the file system
cannot, ``Unsupported`` says so, and nothing has happened.
"""

import ctypes
import errno
import os
import sys
from functools import cache
from typing import Any, Final

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
