"""What Lua may ask of the simulator: one table of functions that answer ``true, ...`` or ``false, text``.

Nothing raises into Lua: an exception of Python would reach a program as an object that it cannot read.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from cc_client.simulator import paths
from cc_client.simulator.disk import Disk, FsError
from cc_client.simulator.handles import HandleError, Handles
from cc_client.simulator.requests import Requests, Wanted
from cc_client.simulator.rules import NetError
from cc_client.simulator.sockets import SocketError, Sockets
from cc_client.simulator.world.items import WorldError

Answer = Callable[..., Any]


def answering(function: Callable[..., Any]) -> Answer:
    """The function with its failures as ``(False, sentence)`` and its result after ``True``."""

    def answer(*arguments: Any) -> tuple[Any, ...]:
        try:
            result = function(*arguments)
        except FsError as error:
            return (False, error.sentence)
        except (HandleError, SocketError, WorldError) as error:
            return (False, str(error).encode())
        except Exception as error:  # noqa: BLE001 (whatever it is, a program must be able to read it)
            return (False, said(error))
        return (True, *result) if isinstance(result, tuple) else (True, result)

    return answer


def said(error: Exception) -> bytes:
    """What a program reads of a failure that nobody foresaw: no path of the host."""
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"{type(error).__name__}: {reason}".encode(errors="replace")


def file_functions(disk: Disk, handles: Handles) -> dict[str, Answer]:
    """The functions behind ``fs`` and its handles."""
    plain: Mapping[str, Callable[..., Any]] = {
        "fs_exists": disk.exists,
        "fs_isDir": disk.is_dir,
        "fs_isReadOnly": disk.is_read_only,
        "fs_makeDir": disk.make_dir,
        "fs_delete": disk.delete,
        "fs_move": disk.move,
        "fs_copy": disk.copy,
        "fs_getSize": disk.size,
        "fs_getDrive": disk.drive,
        "fs_isDriveRoot": disk.is_drive_root,
        "fs_getFreeSpace": disk.free_bytes,
        "fs_getCapacity": lambda path: None if disk.is_read_only(path) else disk.capacity(path),
        "fs_attributes": lambda path: tuple(disk.attributes(path)),
        "fs_getName": lambda path: paths.name(paths.sanitize(path, wildcards=True)),
        "fs_getDir": lambda path: paths.parent(paths.sanitize(path, wildcards=True)),
        "fs_combine": lambda path: paths.sanitize(path, wildcards=True),
        "fs_list": lambda path: b"\0".join(disk.list(path)),
        "fs_find": lambda pattern: b"\0".join(find(disk, pattern)),
        "fs_open": handles.open,
        "file_read": lambda number, count: handles.read(number, int(count)),
        "file_read_all": handles.read_all,
        "file_read_line": handles.read_line,
        "file_write": handles.write,
        "file_seek": lambda number, whence, offset: handles.seek(number, whence, int(offset)),
        "file_flush": handles.flush,
        "file_close": handles.close,
    }
    return {name: answering(function) for name, function in plain.items()}


def find(disk: Disk, pattern: bytes) -> list[bytes]:
    """The paths that a pattern with ``*`` and ``?`` names, sorted."""
    found = [b""]
    for part in paths.sanitize(pattern, wildcards=True).split(b"/"):
        matches = _pattern(part).fullmatch
        found = [
            above + b"/" + name if above else name
            for above in found
            if disk.is_dir(above)
            for name in disk.list(above)
            if matches(name)
        ]
    return sorted(found)


def _pattern(part: bytes) -> re.Pattern[bytes]:
    """Each star takes the least that will do and does not try again, so that no pattern takes long."""
    first, *rest = (re.escape(text).replace(rb"\?", b".") for text in part.split(b"*"))
    stars = [b"(?>.*?" + text + b")" for text in rest[:-1]] + [b".*" + text for text in rest[-1:]]
    return re.compile(first + b"".join(stars), re.DOTALL)


def socket_functions(sockets: Sockets) -> dict[str, Answer]:
    """The functions behind ``http.websocketAsync`` and its handles."""

    def open_socket(url: bytes, headers: bytes, timeout_s: float) -> Any:
        """True; False and a sentence that the function returns; None and one that it throws."""
        try:
            sockets.open(url, _headers(headers), timeout_s)
        except NetError as error:
            return (False, str(error).encode())
        except SocketError as error:
            return (None, str(error).encode())
        return (True,)

    return {
        "socket_open": open_socket,
        "socket_open_now": sockets.is_open,
        "socket_send": answering(sockets.send),
        "socket_close": answering(sockets.close),
    }


def request_functions(requests: Requests) -> dict[str, Answer]:
    """The functions behind ``http.request`` and ``http.checkURL``."""

    def request(
        url: bytes, method: bytes, headers: bytes, body: bytes | None, redirect: bool, binary: bool, timeout_s: float
    ) -> Any:
        given = _headers(headers)
        return requests.request(Wanted(url, method.decode(), given, body, redirect, binary, timeout_s))

    return {"http_on": lambda: requests.rules.http, "http_request": request, "http_check": requests.check}


def _headers(text: bytes) -> dict[str, str]:
    words = text.decode("latin-1").split("\0") if text else []
    return dict(zip(words[::2], words[1::2], strict=True))
