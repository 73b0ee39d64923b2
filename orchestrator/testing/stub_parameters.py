"""The parameters of a call to a stub computer, each checked as a computer in the game checks it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from orchestrator.core.errors import UnsafePath
from orchestrator.core.text.paths import MAX_PATH_BYTES, canonical_path

ABSENT: Final = "absent"
MAX_FOUND: Final = 1000
OWN: Final = ".cc-orchestrator"
_HEX: Final = frozenset("0123456789abcdef")

Params = Mapping[str, Any]


class StubFailure(Exception):
    """A call ends with a code of the protocol."""

    def __init__(self, code: str, message: str, data: dict[str, Any] | None = None, body: bytes = b"") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data or {}
        self.body = body


def checked(params: Params, *names: str, optional: tuple[str, ...] = ()) -> list[Any]:
    """The values of exactly these parameters, each sound; an optional one that is not there is None."""
    unknown = set(params) - {*names, *optional}
    if unknown:
        raise StubFailure("bad_params", "There is a parameter that this method does not have.")
    return [_CHECKS[name](name, params.get(name), name in optional) for name in (*names, *optional)]


def canonical(path: str) -> str:
    """A path as the computer reads it. Raises StubFailure."""
    try:
        return canonical_path(path)
    except UnsafePath as error:
        raise StubFailure("bad_path", error.message) from None


def _text(name: str, value: Any, optional: bool) -> Any:
    if value is None and optional:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= MAX_PATH_BYTES:
        raise StubFailure("bad_params", f"{name} must be a string of 1 to {MAX_PATH_BYTES} bytes.")
    return value


def _path(name: str, value: Any, optional: bool) -> Any:
    if value is None and optional:
        return None
    if not isinstance(value, str):
        raise StubFailure("bad_params", f"{name} must be a string.")
    becomes = canonical(value)
    if becomes != value:
        raise StubFailure("bad_path", "ComputerCraft would make another path of this one.", {"becomes": becomes})
    if value.partition("/")[0].lower() == OWN:
        raise StubFailure("access_denied", "This is the client's own directory.")
    return value


def _hash(name: str, value: Any, optional: bool) -> Any:
    del optional
    is_hash = isinstance(value, str) and len(value) == 64 and set(value) <= _HEX
    if value != ABSENT and not is_hash:
        raise StubFailure("bad_params", f"{name} must be a sha256 in lower-case hex, or absent.")
    return value


def _absent(name: str, value: Any, optional: bool) -> Any:
    del optional
    if value != ABSENT:
        raise StubFailure("bad_params", f"{name} must be absent.")
    return value


def _kind(name: str, value: Any, optional: bool) -> Any:
    if value is None and optional:
        return None
    if value not in ("file", "directory"):
        raise StubFailure("bad_params", f"{name} must be file or directory.")
    return value


def _number(most: int) -> Callable[[str, Any, bool], Any]:
    def check(name: str, value: Any, optional: bool) -> Any:
        if value is None and optional:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise StubFailure("bad_params", f"{name} must be from 1 to {most}.")
        return value

    return check


_CHECKS: Final[Mapping[str, Callable[[str, Any, bool], Any]]] = {
    "path": _path,
    "to": _path,
    "if_hash": _hash,
    "if_to": _absent,
    "replaces": _kind,
    "command": _text,
    "pattern": _text,
    "contains": _text,
    "run": _text,
    "of": _text,
    "name": _text,
    "method": _text,
    "input_size": _number(1024),
    "max": _number(MAX_FOUND),
    "old_size": _number(2 * 1024 * 1024),
    "timeout_s": _number(86400),
    "observe_s": _number(86400),
}
