"""The computer of stub mode: the commands of docs/protocol.md section 1.6 on a dictionary of texts.

Only files are in the dictionary, under their canonical path; a directory is there while something
is below it, or as a key of its own that ends with a slash, which ``fs_mkdir`` makes. Bytes that are
no UTF-8 survive as surrogates.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from orchestrator.core.errors import ComputerFailed
from orchestrator.core.ports import CallResult
from orchestrator.core.text.paths import path_matches
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.tools.deps import ABSENT

_CAPACITY_BYTES: Final = 1_000_000
_MAX_LINES: Final = 5
_MAX_TEXT_BYTES: Final = 200


@dataclass
class StubComputer:
    """A ``CommandChannel`` to a computer that is a dictionary; it runs no programs."""

    files: dict[str, str]

    async def call(
        self, method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        """Do a command at once. Raises ComputerFailed as a computer would."""
        del wait_s
        return self.perform(method, params, body)

    def perform(self, method: str, params: Mapping[str, Any], body: bytes | None = None) -> CallResult:
        """Do a command. Raises ComputerFailed as a computer would."""
        act = {
            "fs_stat": self._stat,
            "fs_read": self._read,
            "fs_list": self._list,
            "fs_find": self._find,
            "fs_write": self._write,
            "fs_edit": self._edit,
            "fs_delete": self._delete,
            "fs_move": self._move,
            "fs_mkdir": self._mkdir,
            "info": _info,
            "screen": _screen,
        }.get(method)
        if act is None:
            raise ComputerFailed("unknown_method", f"There is no method {method} here.")
        return act({key: _text(value) if isinstance(value, str) else value for key, value in params.items()}, body)

    def kind(self, path: str) -> Literal["file", "directory", "absent"]:
        """What is at a canonical path."""
        if path in self.files:
            return "file"
        return "directory" if not path or any(key.startswith(f"{path}/") for key in self.files) else "absent"

    # -- looking -------------------------------------------------------------------------

    def _stat(self, params: Mapping[str, Any], body: bytes | None) -> CallResult:
        del body
        path = params["path"]
        kind = self.kind(path)
        size = len(_bytes(self.files[path])) if kind == "file" else 0
        data = {"kind": kind, "path": path, "size": size, "sha256": self._hash(path), "read_only": False}
        return CallResult(data, self._manifest(path) if kind == "directory" else b"")

    def _read(self, params: Mapping[str, Any], body: bytes | None) -> CallResult:
        del body
        data = self._file(params["path"])
        return CallResult({"size": len(data), "sha256": sha256_hex(data)}, data)

    def _list(self, params: Mapping[str, Any], body: bytes | None) -> CallResult:
        del body
        path = params["path"]
        if self.kind(path) != "directory":
            raise _failed("not_found" if self.kind(path) == "absent" else "not_a_directory", path)
        entries = [self._entry("name", name, _joined(path, name)) for name in self._below(path) if "/" not in name]
        return CallResult({"count": len(entries)}, json.dumps(entries).encode())

    def _find(self, params: Mapping[str, Any], body: bytes | None) -> CallResult:
        del body
        path, contains = params["path"], params.get("contains", "")
        entries: list[dict[str, Any]] = []
        for name in self._below(path):
            full = _joined(path, name)
            if not path_matches(params["pattern"], name, ignore_case=False):
                continue
            entry = self._entry("path", full, full)
            if contains:
                if entry["dir"] or contains not in self.files[full]:
                    continue
                entry["lines"] = _lines_with(self.files[full], contains)
            entries.append(entry)
        shown = entries[: params["max"]]
        return CallResult({"count": len(entries), "cut": len(shown) < len(entries)}, json.dumps(shown).encode())

    # -- changing ------------------------------------------------------------------------

    def _write(self, params: Mapping[str, Any], body: bytes | None) -> CallResult:
        return self._put(params, body or b"")

    def _edit(self, params: Mapping[str, Any], body: bytes | None) -> CallResult:
        old, new = (body or b"")[: params["old_size"]], (body or b"")[params["old_size"] :]
        self._expect(params)
        data = self._file(params["path"])
        count = sum(data.startswith(old, at) for at in range(len(data)))  # places that overlap count too
        if count != 1:
            raise _failed("no_match" if count == 0 else "several_matches", params["path"], count=count)
        return self._put(params, data.replace(old, new))

    def _put(self, params: Mapping[str, Any], data: bytes) -> CallResult:
        path = params["path"]
        before = self._expect(params)
        if self.kind(path) == "directory":
            raise _failed("is_directory", path)
        self.files[path] = data.decode("utf-8", "surrogateescape")
        return CallResult({"size": len(data), "sha256": sha256_hex(data), "before": before})

    def _delete(self, params: Mapping[str, Any], body: bytes | None) -> CallResult:
        del body
        before = self._expect(params)
        if before == ABSENT:
            raise _failed("not_found", params["path"])
        for key in self._keys(params["path"]):
            del self.files[key]
        return CallResult({"before": before})

    def _move(self, params: Mapping[str, Any], body: bytes | None) -> CallResult:
        del body
        path, to = params["path"], params["to"]
        before = self._expect(params)
        if before == ABSENT:
            raise _failed("not_found", path)
        if self.kind(to) != "absent":
            raise _failed("exists", to)
        for key in self._keys(path):
            self.files[to + key.removeprefix(path)] = self.files.pop(key)
        return CallResult({"before": before})

    def _mkdir(self, params: Mapping[str, Any], body: bytes | None) -> CallResult:
        del body
        path = params["path"]
        if self.kind(path) != "absent":
            raise _failed("exists", path)
        self.files[f"{path}/"] = ""
        return CallResult({})

    # -- inside --------------------------------------------------------------------------

    def _file(self, path: str) -> bytes:
        kind = self.kind(path)
        if kind != "file":
            raise _failed("not_found" if kind == "absent" else "is_directory", path)
        return _bytes(self.files[path])

    def _keys(self, path: str) -> list[str]:
        return [key for key in self.files if key == path or key.startswith(f"{path}/")]

    def _below(self, path: str) -> Iterator[str]:
        """The paths of all that is below a directory, counted from it, in the order of their bytes."""
        names: set[str] = set()
        prefix = f"{path}/" if path else ""
        for key in self.files:
            if key.startswith(prefix) and key != prefix:
                parts = key.removeprefix(prefix).rstrip("/").split("/")
                names.update("/".join(parts[: length + 1]) for length in range(len(parts)))
        return iter(sorted(names, key=_bytes))

    def _entry(self, key: str, name: str, full: str) -> dict[str, Any]:
        kind = self.kind(full)
        size = len(_bytes(self.files[full])) if kind == "file" else 0
        return {key: _wire(name), "dir": kind == "directory", "size": size}

    def _manifest(self, path: str) -> bytes:
        lines = []
        for name in self._below(path):
            full = _joined(path, name)
            kind = self.kind(full)
            lines.append(b"%s\0%s\0%s\n" % (_bytes(name), kind.encode(), self._hash(full, "-").encode()))
        return b"".join(lines)

    def _hash(self, path: str, directory: str = "") -> str:
        match self.kind(path):
            case "file":
                return sha256_hex(_bytes(self.files[path]))
            case "directory":
                return directory or sha256_hex(self._manifest(path))
        return ABSENT

    def _expect(self, params: Mapping[str, Any]) -> str:
        found = self._hash(params["path"])
        if found != params["if_hash"]:
            raise _failed("stale", params["path"], actual=found)
        return found


def _info(params: Mapping[str, Any], body: bytes | None) -> CallResult:
    del params, body
    data = {"id": 0, "family": "computer", "free": _CAPACITY_BYTES, "capacity": _CAPACITY_BYTES}
    return CallResult({**data, "uptime_s": 0, "day": 1, "time": 480}, b"[]")


def _screen(params: Mapping[str, Any], body: bytes | None) -> CallResult:
    del body
    if params:
        raise ComputerFailed("not_running", "Nothing was run or drawn here.")
    return CallResult({"width": 51, "height": 19, "x": 1, "y": 1, "blink": False}, b"[]")


def _lines_with(text: str, wanted: str) -> list[dict[str, Any]]:
    """The first lines in which the text begins."""
    lines: list[dict[str, Any]] = []
    at = text.find(wanted)
    while at >= 0 and len(lines) < _MAX_LINES:
        line = text[text.rfind("\n", 0, at) + 1 :].split("\n", 1)[0]
        lines.append({"line": text.count("\n", 0, at) + 1, "text": _wire(line)[:_MAX_TEXT_BYTES]})
        end = text.find("\n", at)
        at = text.find(wanted, end + 1) if end >= 0 else -1
    return lines


def _failed(code: str, path: str, **data: Any) -> ComputerFailed:
    sentence = "is not what the call expects to find" if code == "stale" else code.replace("_", " ")
    return ComputerFailed(code, f"{path}: {sentence}.", data)


def _joined(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(wire: str) -> str:
    """A byte string of the wire as it is in the dictionary."""
    return wire.encode("latin-1").decode("utf-8", "surrogateescape")


def _wire(text: str) -> str:
    return _bytes(text).decode("latin-1")
