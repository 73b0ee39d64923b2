"""The files of a stub computer, and the methods of docs/protocol.md section 1.6 that work on them.

Paths and words are byte strings of the wire, as a computer has them. There is no ``rom`` and no
disk drive: one mount, which can be written.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.core.errors import UnsafePath
from orchestrator.core.text.paths import canonical_path, path_matches
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.testing.stub_parameters import ABSENT, Params, StubFailure, canonical, checked

CAPACITY_BYTES: Final = 1_000_000
"""The capacity of a computer in the game."""
ENTRY_BYTES: Final = 500
"""The least that the game counts for a file or a directory."""
MAX_LINES: Final = 5
MAX_BIGGEST: Final = 5
MAX_LINE_BYTES: Final = 200


@dataclass(frozen=True)
class Answer:
    """The answer of a call that succeeded."""

    data: dict[str, Any] = field(default_factory=dict)
    body: bytes | None = None
    sha256: str | None = None
    """After a change: the hash, or ``absent``; None: the call was not a change."""


class StubDisk:
    """One writable disk in memory."""

    def __init__(self, files: Mapping[str, bytes], capacity: int = CAPACITY_BYTES) -> None:
        self.capacity = capacity
        self.nodes: dict[str, bytes | None] = {"": None}
        """Path to bytes; a directory is None."""
        for path, data in files.items():
            self.put(path, data)

    # -- looking -------------------------------------------------------------------------

    def put(self, path: str, data: bytes) -> None:
        """A file with these bytes, and the directories above it."""
        self._make_above(path)
        self.nodes[path] = data

    def kind(self, path: str) -> str:
        """``file``, ``directory`` or ``absent``."""
        if path not in self.nodes:
            return ABSENT
        return "directory" if self.nodes[path] is None else "file"

    def file(self, path: str) -> bytes:
        """The bytes of a file. Raises StubFailure."""
        data = self.nodes.get(path)
        if data is None:
            raise StubFailure(*(_NOTHING if path not in self.nodes else ("is_directory", "This is a directory.")))
        return data

    def free(self) -> int:
        """Bytes that are free."""
        return self.capacity - sum(max(ENTRY_BYTES, len(data or b"")) for path, data in self.nodes.items() if path)

    def below(self, path: str) -> Iterator[str]:
        """The paths of all entries below a directory."""
        prefix = f"{path}/" if path else ""
        return (one for one in self.nodes if one and one.startswith(prefix))

    def reachable(self, path: str) -> list[str]:
        """The paths of all entries below a directory that lead there, sorted: names from the host may be others."""
        return [one for one in sorted(self.below(path)) if _is_reachable(one)]

    def unreachable(self, path: str, *, deep: bool = True) -> list[str]:
        """The highest of the others, relative to the directory, sorted; those in it itself, or ``deep`` all."""
        skip = len(path) + 1 if path else 0
        lost = (one for one in self.below(path) if not _is_reachable(one) and _is_reachable(one.rpartition("/")[0]))
        return sorted(one[skip:] for one in lost if deep or "/" not in one[skip:])

    def manifest(self, path: str) -> bytes:
        """The lines that the hash of a directory is taken over."""
        skip = len(path) + 1 if path else 0
        lines = []
        for one in self.reachable(path):
            data = self.nodes[one]
            kind, sha256 = ("directory", "-") if data is None else ("file", sha256_hex(data))
            lines.append(f"{one[skip:]}\0{kind}\0{sha256}\n".encode("latin-1"))
        return b"".join(lines)

    def sha256(self, path: str) -> str:
        """The hash of what is at a path, or ``absent``."""
        if path not in self.nodes:
            return ABSENT
        data = self.nodes[path]
        return sha256_hex(self.manifest(path) if data is None else data)

    def resolve(self, word: str) -> str:
        """The program that a word means. Raises StubFailure."""
        path = canonical(word.lstrip("/"))
        for candidate in (path, f"{path}.lua"):
            if self.kind(candidate) == "file":
                return candidate
        raise StubFailure("not_found", "There is no program of this name.")

    # -- methods -------------------------------------------------------------------------

    def perform(self, method: str, params: Params, body: bytes | None) -> Answer:
        """Do what a method of files says. Raises StubFailure."""
        if method not in METHODS:
            raise StubFailure("unknown_method", "This computer does not have this method.")
        if body is not None and method not in ("fs_write", "fs_edit"):
            raise StubFailure("bad_params", "This method takes no body.")
        return METHODS[method](self, params, body)

    def list_directory(self, params: Params, body: bytes | None) -> Answer:
        """``fs_list``."""
        del body
        (path,) = checked(params, "path")
        self._directory(path)
        depth = path.count("/") + 1 if path else 0
        entries = [self._entry(one, "name") for one in self.reachable(path) if one.count("/") == depth]
        return Answer({"count": len(entries), **_told(self.unreachable(path, deep=False))}, _json(entries))

    def read(self, params: Params, body: bytes | None) -> Answer:
        """``fs_read``."""
        del body
        (path,) = checked(params, "path")
        data = self.file(path)
        return Answer({"size": len(data), "sha256": sha256_hex(data)}, data)

    def stat(self, params: Params, body: bytes | None) -> Answer:
        """``fs_stat``."""
        del body
        path, command = checked(params, optional=("path", "command"))
        if (path is None) == (command is None):
            raise StubFailure("bad_params", "fs_stat takes a path or a command.")
        path = self.resolve(command) if path is None else path
        kind = self.kind(path)
        size = len(self.file(path)) if kind == "file" else 0
        data = {"kind": kind, "path": path, "size": size, "sha256": self.sha256(path), "read_only": False}
        if kind != "directory":
            return Answer(data)
        return Answer({**data, **_told(self.unreachable(path))}, self.manifest(path))

    def find(self, params: Params, body: bytes | None) -> Answer:
        """``fs_find``."""
        del body
        path, pattern, most, contains = checked(params, "path", "pattern", "max", optional=("contains",))
        self._directory(path)
        skip = len(path) + 1 if path else 0
        found = []
        for one in self.reachable(path):
            if not path_matches(pattern, one[skip:], ignore_case=False):
                continue
            entry = self._entry(one, "path")
            if contains is not None:
                lines = _lines_with(self.nodes[one] or b"", contains.encode("latin-1"))
                if lines is None:
                    continue
                entry["lines"] = lines
            found.append(entry)
        data = {"count": len(found), "cut": len(found) > most, **_told(self.unreachable(path))}
        return Answer(data, _json(found[:most]))

    def write(self, params: Params, body: bytes | None) -> Answer:
        """``fs_write``."""
        path, if_hash, replaces = checked(params, "path", "if_hash", optional=("replaces",))
        if body is None:
            raise StubFailure("bad_params", "The bytes to write must come as the body.")
        before = self._expect(path, if_hash) if replaces is None else self._other(path, if_hash, replaces, "directory")
        return self._replace(path, before, body, replaces=replaces is not None)

    def edit(self, params: Params, body: bytes | None) -> Answer:
        """``fs_edit``."""
        path, if_hash, old_size = checked(params, "path", "if_hash", "old_size")
        if body is None or len(body) < old_size:
            raise StubFailure("bad_params", "The body must be the old bytes and the new.")
        before = self._expect(path, if_hash)
        data, old, new = self.file(path), body[:old_size], body[old_size:]
        count = _occurrences(data, old)
        if count != 1:
            code = "several_matches" if count else "no_match"
            raise StubFailure(code, f"The old bytes occur {count} times.", {"count": count})
        return self._replace(path, before, data.replace(old, new))

    def delete(self, params: Params, body: bytes | None) -> Answer:
        """``fs_delete``."""
        del body
        path, if_hash = checked(params, "path", "if_hash")
        before = self._expect(path, if_hash)
        self._there(path)
        for one in [path, *self.below(path)]:
            del self.nodes[one]
        return Answer({"before": before}, None, ABSENT)

    def move(self, params: Params, body: bytes | None) -> Answer:
        """``fs_move``."""
        del body
        path, if_hash, to, _ = checked(params, "path", "if_hash", "to", "if_to")
        before = self._expect(path, if_hash)
        self._there(path)
        if to == path or to.startswith(f"{path}/"):
            raise StubFailure("bad_path", "A directory cannot be moved into itself.")
        self._check_above(to)
        if to in self.nodes:
            raise StubFailure("exists", "The destination is taken.")
        self._make_room(self._missing_above(to) * ENTRY_BYTES)
        self._make_above(to)
        for one in [path, *self.below(path)]:
            self.nodes[to + one[len(path) :]] = self.nodes.pop(one)
        return Answer({"before": before}, None, self.sha256(to))

    def make_directory(self, params: Params, body: bytes | None) -> Answer:
        """``fs_mkdir``."""
        del body
        path, if_hash, replaces = checked(params, "path", "if_hash", optional=("replaces",))
        if replaces is not None:
            self._other(path, if_hash, replaces, "file")
        elif if_hash != ABSENT:
            raise StubFailure("bad_params", "if_hash must be absent.")
        self._check_above(path)
        if path in self.nodes and replaces is None:
            raise StubFailure("exists", "There is something at this path.")
        self._make_room((self._missing_above(path) + 1) * ENTRY_BYTES)
        self._make_above(path)
        self.nodes[path] = None
        return Answer({}, None, self.sha256(path))

    # -- inside --------------------------------------------------------------------------

    def _expect(self, path: str, if_hash: str) -> str:
        if path == "":
            raise StubFailure("access_denied", "This is a disk, not a file.")
        self._check_above(path)
        for name in self.unreachable(path):
            raise StubFailure("unreachable", "This directory holds a name that the game cannot reach.", {"name": name})
        actual = self.sha256(path)
        if actual != if_hash:
            raise StubFailure("stale", "What is there is not what the call expects.", {"actual": actual})
        return actual

    def _other(self, path: str, if_hash: str, replaces: str, kind: str) -> str:
        """The hash of what a change of another kind takes the place of."""
        if replaces != kind:
            raise StubFailure("bad_params", f"What this makes can only replace a {kind}.")
        actual = self._expect(path, if_hash)
        if self.kind(path) != kind:
            raise StubFailure("stale", "What is there is not what the call expects.", {"actual": actual})
        return actual

    def _there(self, path: str) -> None:
        if path not in self.nodes:
            raise StubFailure(*_NOTHING)

    def _directory(self, path: str) -> None:
        if self.kind(path) != "directory":
            self._there(path)
            raise StubFailure("not_a_directory", "There is a file at this path.")

    def _replace(self, path: str, before: str, data: bytes, *, replaces: bool = False) -> Answer:
        if self.kind(path) == "directory" and not replaces:
            raise StubFailure("is_directory", "There is a directory at this path.")
        self._make_room(max(ENTRY_BYTES, len(data)) + self._missing_above(path) * ENTRY_BYTES)
        for one in list(self.below(path)):
            del self.nodes[one]
        self.put(path, data)
        after = sha256_hex(data)
        return Answer({"size": len(data), "sha256": after, "before": before}, None, after)

    def _make_room(self, needed: int) -> None:
        """The old and the new stand side by side for a moment."""
        missing = needed - self.free()
        if missing > 0:
            sentence = "There is no room for the old and the new side by side."
            by_size = sorted(((len(data), path) for path, data in self.nodes.items() if data is not None), reverse=True)
            biggest = "\n".join(f"{size} {path}" for size, path in by_size[:MAX_BIGGEST])
            raise StubFailure("no_space_for_safe_write", sentence, {"missing": missing, "biggest": biggest[:300]})

    def _check_above(self, path: str) -> None:
        for above in _above(path):
            if self.kind(above) == "file":
                sentence = "A part of the path is a file, not a directory."
                raise StubFailure("not_a_directory", sentence, {"file": above})

    def _missing_above(self, path: str) -> int:
        return sum(above not in self.nodes for above in _above(path))

    def _make_above(self, path: str) -> None:
        for above in _above(path):
            self.nodes.setdefault(above, None)

    def _entry(self, path: str, key: str) -> dict[str, Any]:
        data = self.nodes[path]
        shown = path.rpartition("/")[2] if key == "name" else path
        return {key: shown, "dir": data is None, "size": len(data or b"")}


METHODS: Final[Mapping[str, Callable[[StubDisk, Params, bytes | None], Answer]]] = {
    "fs_list": StubDisk.list_directory,
    "fs_read": StubDisk.read,
    "fs_stat": StubDisk.stat,
    "fs_find": StubDisk.find,
    "fs_write": StubDisk.write,
    "fs_edit": StubDisk.edit,
    "fs_delete": StubDisk.delete,
    "fs_move": StubDisk.move,
    "fs_mkdir": StubDisk.make_directory,
}
_NOTHING: Final = ("not_found", "There is nothing at this path.")


def _is_reachable(path: str) -> bool:
    """Whether a path of the host is one of the game."""
    try:
        return canonical_path(path) == path
    except UnsafePath:
        return False


def _told(unreachable: list[str]) -> dict[str, Any]:
    return {"unreachable": len(unreachable), "unreachable_names": "\n".join(unreachable)} if unreachable else {}


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode("ascii")


def _occurrences(data: bytes, old: bytes) -> int:
    """How often ``old`` is in ``data``, overlaps included."""
    count, at = 0, data.find(old)
    while at >= 0:
        count, at = count + 1, data.find(old, at + 1)
    return count


def _lines_with(data: bytes, wanted: bytes) -> list[dict[str, Any]] | None:
    if wanted not in data:
        return None
    hits = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if wanted in line]
    return [{"line": number, "text": line[:MAX_LINE_BYTES].decode("latin-1")} for number, line in hits[:MAX_LINES]]
