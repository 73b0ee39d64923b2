"""The signed heads of a large store: a Merkle tree over all streams, in a SQLite file beside the checkpoint.

Theory. The checkpoint signs one hash, the root, in place of all heads. Each stream belongs to one of 65,536 leaves, by
the hash of its name. A leaf's hash is over the heads of its streams, and the hash of a node is over those of its
children. So the same heads have the same root, whatever came first. To read or to change one head takes the few rows
between its leaf and the root, and proves them: a head that was edited in the file does not lead to the signed root.
That is why a checkpoint costs what changed, and nothing is read when a server starts.

The hashes of leaves and of nodes begin with different bytes, as in RFC 6962, so that none can stand for the other.
"""

import hashlib
import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from orchestrator.core.audit.chain import Anchor
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.task.items import canonical_json

TREE_NAME: Final = "audit.heads"
_LEVELS: Final = 4
"""Levels of nodes above the leaves; each node has up to 16 children."""
_NODE: Final = 16
_ROOT: Final = 0
_WAIT_S: Final = 60.0
"""A verification reads all heads within some seconds, in which none can be written."""
_EMPTY: Final = b""
"""The hash of a leaf without streams, and of a node without children."""
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS heads (stream TEXT PRIMARY KEY, leaf INTEGER NOT NULL, version INTEGER NOT NULL, "
    "hash TEXT NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS heads_by_leaf ON heads (leaf)",
    "CREATE TABLE IF NOT EXISTS nodes (level INTEGER, place INTEGER, children BLOB NOT NULL, "
    "PRIMARY KEY (level, place)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS signed (line BLOB NOT NULL, streams INTEGER NOT NULL)",
)
_OF_LEAF: Final = "SELECT stream, version, hash FROM heads WHERE leaf = ? ORDER BY stream"
_ALL: Final = "SELECT leaf, stream, version, hash FROM heads ORDER BY leaf, stream"
_CHILDREN: Final = "SELECT children FROM nodes WHERE level = ? AND place = ?"
_SET_HEAD: Final = "INSERT OR REPLACE INTO heads (stream, leaf, version, hash) VALUES (?, ?, ?, ?)"
_SET_NODE: Final = "INSERT OR REPLACE INTO nodes (level, place, children) VALUES (?, ?, ?)"

Children = dict[int, bytes]
Changes = dict[int, tuple[bytes, bytes]]
"""By the place of a leaf or node: its hash before and after."""


LATER: Final = (
    "`cc-orchestrator audit verify` says what differs. Once you know why, move audit.checkpoint away: "
    "the next one then begins again."
)


class AuditBroken(OrchestratorError):
    """The data that the audit relies on has changed."""

    code = "audit_broken"
    http_status = 500


def tree_broken() -> AuditBroken:
    """The refusal of a file that does not lead to the root that was signed, or that cannot be read."""
    return AuditBroken(
        f"{TREE_NAME} does not have the heads that audit.checkpoint signs: it was edited, put back or damaged.",
        remedy=LATER,
    )


def leaf_of(stream: str) -> int:
    """The leaf that a stream belongs to."""
    return int.from_bytes(hashlib.sha256(stream.encode("utf-8", "surrogatepass")).digest()[:2])


def _leaf_hash(rows: list[tuple[str, int, str]]) -> bytes:
    return hashlib.sha256(b"\0" + canonical_json(rows)).digest() if rows else _EMPTY


def _node_hash(children: Children) -> bytes:
    return hashlib.sha256(b"\1" + _packed(children)).digest() if children else _EMPTY


def _packed(children: Children) -> bytes:
    return b"".join(bytes((number,)) + digest for number, digest in sorted(children.items()))


def _unpacked(data: bytes) -> Children:
    return {data[start]: data[start + 1 : start + 33] for start in range(0, len(data), 33)}


class TreeHeads(Mapping[str, Anchor]):
    """The heads in the file as they lead to one root; reading another one's raises AuditBroken.

    Until ``whole`` or ``release`` nobody else changes the file.
    """

    def __init__(self, connection: sqlite3.Connection, line: bytes, streams: int) -> None:
        self.line = line
        """The signed line that names the root."""
        self.root = ""
        self._connection = connection
        self._streams = streams

    def release(self) -> None:
        """Let others change the file."""
        self._connection.execute("COMMIT")

    def __getitem__(self, stream: str) -> Anchor:
        with _readable():
            leaf = leaf_of(stream)
            rows = self._connection.execute(_OF_LEAF, (leaf,)).fetchall()
            self._prove(leaf, _leaf_hash(rows))
        return {name: (version, digest) for name, version, digest in rows}[stream]

    def __iter__(self) -> Iterator[str]:
        with _readable():
            yield from (name for (name,) in self._connection.execute("SELECT stream FROM heads ORDER BY stream"))

    def __len__(self) -> int:
        return self._streams

    def between(self, first: str, last: str) -> list[str]:
        """The names of streams from one to another."""
        with _readable():
            found = self._connection.execute("SELECT stream FROM heads WHERE stream BETWEEN ? AND ?", (first, last))
            return [name for (name,) in found]

    def whole(self) -> "ProvenHeads":
        """All of them, each of which is proven, as the last that is asked. Raises AuditBroken."""
        with _readable():
            # On disk, and gone with the connection: so much is not to be in memory, and others may go on meanwhile.
            copy = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            with closing(self._connection):
                self._connection.backup(copy)
            found = ProvenHeads(copy, self.line, self._streams)
            hashes: dict[int, bytes] = {}
            for leaf, group in groupby(copy.execute(_ALL), lambda row: row[0]):
                rows = [(stream, version, digest) for _, stream, version, digest in group]
                hashes[leaf] = _leaf_hash(rows)
                if any(leaf_of(stream) != leaf for stream, _, _ in rows):
                    raise tree_broken()
        if _nodes_over(hashes)[0][_ROOT].hex() != self.root:
            raise tree_broken()
        found.root = self.root
        return found

    def _prove(self, leaf: int, digest: bytes) -> None:
        place = leaf
        for level in reversed(range(_LEVELS)):
            place, number = divmod(place, _NODE)
            children = _children(self._connection, level, place)
            if children.get(number, _EMPTY) != digest:
                raise tree_broken()
            digest = _node_hash(children)
        if digest.hex() != self.root:
            raise tree_broken()


class ProvenHeads(TreeHeads):
    """A copy of the heads that was proven as a whole: it stays as it is."""

    def __getitem__(self, stream: str) -> Anchor:
        found = self._connection.execute("SELECT version, hash FROM heads WHERE stream = ?", (stream,)).fetchone()
        if found is None:
            raise KeyError(stream)
        version, digest = found
        return version, digest


def _children(connection: sqlite3.Connection, level: int, place: int) -> Children:
    found = connection.execute(_CHILDREN, (level, place)).fetchone()
    return {} if found is None else _unpacked(found[0])


def _nodes_over(hashes: Mapping[int, bytes]) -> list[dict[int, bytes]]:
    """The hashes of all nodes, level by level from the root, over those of the leaves."""
    levels: list[dict[int, bytes]] = []
    for _ in range(_LEVELS):
        parents = _grouped(hashes)
        hashes = {place: _node_hash(children) for place, children in parents.items()}
        levels.insert(0, dict(hashes))
    levels[0].setdefault(_ROOT, _EMPTY)
    return levels


def _grouped(hashes: Mapping[int, bytes]) -> dict[int, Children]:
    parents: dict[int, Children] = {}
    for place, digest in hashes.items():
        parents.setdefault(place // _NODE, {})[place % _NODE] = digest
    return parents


class HeadsTree:
    """The file. Blocks on the disk: call it in a thread. Raises AuditBroken."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def heads(self) -> TreeHeads:
        """The heads, and the line that signs them."""
        if not self.path.exists():
            raise tree_broken()
        with _readable():
            connection = self._opened()
            connection.execute("BEGIN")
            line, streams = connection.execute("SELECT line, streams FROM signed").fetchone()
            return TreeHeads(connection, bytes(line), streams)

    def build(self, heads: Mapping[str, Anchor]) -> "Growing":
        """Begin anew with these heads."""
        return Growing(self._written(), None, heads, ())

    def grow(self, root: str, changed: Mapping[str, Anchor], gone: Collection[str]) -> "Growing":
        """Change some heads of the tree with this root."""
        return Growing(self._written(), bytes.fromhex(root), changed, gone)

    def _opened(self) -> sqlite3.Connection:
        # Used by one thread at a time, but not always by the same one.
        return sqlite3.connect(self.path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)

    def _written(self) -> sqlite3.Connection:
        if not self.path.exists():
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600))
        with _readable():
            connection = self._opened()
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            for statement in _TABLES:
                connection.execute(statement)
        return connection


class Growing:
    """A change of the tree, whose root is to be signed before it is kept."""

    def __init__(
        self, connection: sqlite3.Connection, root: bytes | None, changed: Mapping[str, Anchor], gone: Collection[str]
    ) -> None:
        self._connection = connection
        with _readable():
            try:
                if root is None:
                    self.root, self.streams = self._begun(changed)
                else:
                    self.root, self.streams = self._changed(root, changed, gone)
            except BaseException:
                connection.close()
                raise

    def keep(self, line: bytes) -> None:
        """Keep it with the line that signs its root, in one step."""
        with _readable():
            self._connection.execute("DELETE FROM signed")
            self._connection.execute("INSERT INTO signed (line, streams) VALUES (?, ?)", (line, self.streams))
            self._connection.execute("COMMIT")

    def close(self) -> None:
        """Let go of the file; what was not kept is undone."""
        self._connection.close()

    def _begun(self, heads: Mapping[str, Anchor]) -> tuple[str, int]:
        connection, leaves = self._connection, dict[int, list[tuple[str, int, str]]]()
        for stream, (version, digest) in sorted(heads.items()):
            leaves.setdefault(leaf_of(stream), []).append((stream, version, digest))
        connection.execute("DELETE FROM heads")
        connection.execute("DELETE FROM nodes")
        rows = ((stream, leaf_of(stream), *anchor) for stream, anchor in sorted(heads.items()))
        connection.executemany(_SET_HEAD, rows)
        hashes: Mapping[int, bytes] = {leaf: _leaf_hash(one) for leaf, one in leaves.items()}
        levels = _nodes_over(hashes)
        for level, below in zip(reversed(range(_LEVELS)), [hashes, *reversed(levels[1:])], strict=True):
            nodes = ((level, place, _packed(children)) for place, children in _grouped(below).items())
            connection.executemany(_SET_NODE, nodes)
        return levels[0][_ROOT].hex(), len(heads)

    def _changed(self, root: bytes, changed: Mapping[str, Anchor], gone: Collection[str]) -> tuple[str, int]:
        """The new root; each hash on the way there is compared with the one before."""
        more, changes = 0, Changes()
        streams = {**dict.fromkeys(gone), **changed}
        for leaf, names in _by_leaf(streams):
            rows = {row[0]: row for row in self._connection.execute(_OF_LEAF, (leaf,))}
            before, count = _leaf_hash(list(rows.values())), len(rows)
            for stream in names:
                self._set(stream, leaf, streams[stream], rows)
            changes[leaf] = before, _leaf_hash([rows[stream] for stream in sorted(rows)])
            more += len(rows) - count
        for level in reversed(range(_LEVELS)):
            changes = self._risen(level, changes)
        before, after = changes.get(_ROOT, (root, root))
        if before != root:
            raise tree_broken()
        (count,) = self._connection.execute("SELECT streams FROM signed").fetchone()
        return after.hex(), count + more

    def _set(self, stream: str, leaf: int, head: Anchor | None, rows: dict[str, Any]) -> None:
        if head is None:
            rows.pop(stream, None)
            self._connection.execute("DELETE FROM heads WHERE stream = ?", (stream,))
        else:
            rows[stream] = (stream, *head)
            self._connection.execute(_SET_HEAD, (stream, leaf, *head))

    def _risen(self, level: int, below: Changes) -> Changes:
        """The changes of a level of nodes by those of the level below."""
        risen = Changes()
        for place, group in groupby(sorted(below.items()), lambda one: one[0] // _NODE):
            children = _children(self._connection, level, place)
            was = _node_hash(children)
            for child, (before, after) in group:
                if children.pop(child % _NODE, _EMPTY) != before:
                    raise tree_broken()
                if after:
                    children[child % _NODE] = after
            self._connection.execute(_SET_NODE, (level, place, _packed(children)))
            risen[place] = was, _node_hash(children)
        return risen


def _by_leaf(streams: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    for leaf, group in groupby(sorted(streams, key=lambda one: (leaf_of(one), one)), leaf_of):
        yield leaf, list(group)


@contextmanager
def _readable() -> Iterator[None]:
    """Turn what SQLite says of a damaged file into AuditBroken, and of a full disk into OSError."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN")):
            raise OSError(str(error)) from None
        raise tree_broken() from None
    except (sqlite3.Error, TypeError, ValueError):
        raise tree_broken() from None
