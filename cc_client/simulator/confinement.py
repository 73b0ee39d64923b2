"""What the simulator's own process may not do once it runs, in case a program should ever get out of Lua."""

import sys
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


def confine(file_bytes: int) -> None:
    """From now on this process starts no other, leaves no core, and writes no file larger than ``file_bytes``.

    What goes through Python is refused whatever asks for it; a call of C that Python does not see is not.
    """
    _limit(file_bytes)
    sys.addaudithook(_refuse)


def _refuse(event: str, _: tuple[Any, ...]) -> None:
    if event in _REFUSED:
        raise PermissionError(f"a confined computer does not do this: {event}")


def _limit(file_bytes: int) -> None:
    try:
        import resource
    except ImportError:
        return
    for kind, wanted in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, file_bytes)):
        hard = resource.getrlimit(kind)[1]
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (limit, limit))
