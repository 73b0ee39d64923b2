"""What the simulator's own process may not do once it runs, in case a program should ever get out of Lua."""

import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

_REFUSED: Final = frozenset(
    {
        "ctypes.dlopen",
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
        "os.system",
        "pty.spawn",
        "subprocess.Popen",
    }
)


_CHANGING: Final[Mapping[str, int]] = {
    "os.chmod": 1,
    "os.chown": 1,
    "os.link": 2,
    "os.mkdir": 1,
    "os.remove": 1,
    "os.rename": 2,
    "os.rmdir": 1,
    "os.symlink": 2,
    "os.truncate": 1,
    "os.utime": 1,
}
"""How many of the first arguments of an event are paths that it changes."""
_OF_NAMES: Final = frozenset({"os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink"})
"""Events that change a name in a directory, and not what a link of that name leads to."""
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def confine(file_bytes: int, within: Collection[Path]) -> None:
    """From now on this process starts no other, leaves no core, and changes nothing but what is ``within`` directories.

    No file that it writes is larger than ``file_bytes``. What goes through Python is refused whatever asks for it; a
    call of C that Python does not see is not.
    """
    _limit(file_bytes)
    places = tuple(f"{os.path.realpath(one)}{os.sep}" for one in within)

    def refuse(event: str, given: tuple[Any, ...]) -> None:
        if event in _REFUSED:
            raise PermissionError(f"a confined computer does not do this: {event}")
        changed = given[: _CHANGING.get(event, 0)]
        if event == "open" and given[2] & _WRITES:
            changed = given[:1]
        if not all(_is_within(one, places, follows=event not in _OF_NAMES) for one in changed):
            raise PermissionError(f"a confined computer changes nothing outside of its disk: {event}")

    sys.addaudithook(refuse)


def _is_within(path: Any, places: tuple[str, ...], *, follows: bool) -> bool:
    """Whether a path is below one of these directories, whatever links lead there; a descriptor is that of a file.

    ``follows``: what a link leads to counts, where that is the last part. A relative path is not within: it may be
    meant from a directory that nobody tells of.
    """
    if isinstance(path, int):
        return True
    named = Path(os.fsdecode(path))
    meant = os.path.realpath(named) if follows else f"{os.path.realpath(named.parent)}{os.sep}{named.name}"
    return named.is_absolute() and named.name != ".." and meant.startswith(places)


def _limit(file_bytes: int) -> None:
    try:
        import resource
    except ImportError:
        return
    for kind, wanted in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, file_bytes)):
        hard = resource.getrlimit(kind)[1]
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (limit, limit))
