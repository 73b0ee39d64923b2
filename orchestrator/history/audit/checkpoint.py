"""The checkpoint: the heads of all streams in a signed file beside the store.

Theory. The chain of a stream proves its middle, not its end, and the whole store may be replaced by an older one. So
the heads of all streams are written to a file beside the store from time to time, signed with a key of their own. A
checkpoint is made only where every stream still has all that the one before knew: a cut is never signed away. The key
is on the same disk. Against a person who can read it only a copy elsewhere helps, of the file or of the digest that
``audit verify`` prints.

The file is one signed line. In a small store it has all heads. In a large one it has the root of a Merkle tree over
them, which is in a file of its own (:mod:`orchestrator.history.audit.heads_tree`), so that a checkpoint costs what
changed. Each line names the one before. A line that was put back is missed, because the system stream names the line
that was made last.
"""

import asyncio
import hashlib
import hmac
import os
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol, TypeVar

from pydantic import AwareDatetime, ConfigDict, Field, TypeAdapter, ValidationError

from orchestrator.core.audit.chain import SYSTEM_STREAM, Anchor, verify_onward
from orchestrator.core.audit.retention import PruneBook
from orchestrator.core.errors import JournalBroken
from orchestrator.core.ports import StreamHead
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem, canonical_json
from orchestrator.core.task.system_facts import CheckpointMade
from orchestrator.core.values import Value, immutable
from orchestrator.history.audit.heads_tree import (
    LATER,
    TREE_NAME,
    AuditBroken,
    Growing,
    HeadsTree,
    TreeHeads,
    tree_broken,
)

CHECKPOINT_NAME: Final = "audit.checkpoint"
KEY_NAME: Final = "audit.key"
WHOLE_BELOW: Final = 32 * 1024
"""Some three hundred streams."""
_KEY_BYTES: Final = 32
_AT_ONCE: Final = 5_000
_LOOKED_AT: Final = 200
"""Streams that are looked at with each checkpoint although nothing says that they changed."""
LAST_NAME: Final = "\U0010ffff"
"""No name is greater."""
_BESIDE: Final = 78
"""Bytes that a line has for each stream, besides its name."""


class Journals(Protocol):
    """The part of a store that an audit reads."""

    async def heads(self) -> list[StreamHead]:
        """The heads of all streams."""

    async def read(self, task_id: TaskId, after_version: int = 0) -> list[AgentTaskItem]:
        """The items of a stream after a version, oldest first."""


class ChangingJournals(Journals, Protocol):
    """The part of a store that a checkpoint reads."""

    async def heads_since(self, at: datetime) -> list[StreamHead]:
        """The heads of the streams that changed since, and of those that are not tasks."""

    async def heads_from(self, name: str, limit: int = 500) -> list[StreamHead]:
        """The heads of the streams from a name on, by name."""


async def heads_of(store: Journals) -> dict[str, Anchor]:
    """The heads of all streams by their names."""
    return {head.stream: (head.version, head.hash) for head in await store.heads()}


def number(version: object) -> int:
    """A version as a row has it; -1: somebody put something else there, which SQLite takes."""
    return version if isinstance(version, int) else -1


class _Line(Value):
    """The common part of a signed line."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    at: AwareDatetime
    previous: str = ""
    """sha256 of the checkpoint before; empty: this was the first."""
    hmac: str = ""

    def content(self) -> bytes:
        """The signed content."""
        return canonical_json(self.model_dump(mode="json", by_alias=True, exclude={"hmac"}))

    def encoded(self) -> bytes:
        """The line."""
        return canonical_json(self.model_dump(mode="json", by_alias=True)) + b"\n"


class _Whole(_Line):
    """All heads."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    streams: dict[str, tuple[int, str]]


class _Rooted(_Line):
    """The root over all heads, which are in the tree beside it."""

    schema_version: Literal[3] = Field(default=3, alias="schema")
    root: str


_Signed = TypeVar("_Signed", _Whole, _Rooted)
_LINES: Final[TypeAdapter[_Whole | _Rooted]] = TypeAdapter(_Whole | _Rooted)


@immutable
class Checkpoint:
    """The heads of all streams at one moment, as a signed line says them."""

    at: datetime
    streams: Mapping[str, Anchor]
    previous: str
    """sha256 of the line before; empty: this was the first."""
    sha256: str
    """The sha256 of the line."""

    def names(self) -> Iterator[str]:
        """The names of all its streams, in order."""
        return iter(self.streams if isinstance(self.streams, TreeHeads) else sorted(self.streams))

    def between(self, first: str, last: str) -> list[str]:
        """The names of its streams from one to another."""
        if isinstance(self.streams, TreeHeads):
            return self.streams.between(first, last)
        return [name for name in self.streams if first <= name <= last]

    def part(self, first: str, last: str) -> dict[str, Anchor]:
        """The heads of its streams from one to another."""
        return {name: self.streams[name] for name in self.between(first, last)}


class Checkpoints:
    """The checkpoint file of a data directory and its key. Blocks on the disk: call it in a thread.

    ``whole_below``: a line with all heads that has fewer bytes is written whole each time, which costs nothing.
    """

    def __init__(self, directory: Path, *, whole_below: int = WHOLE_BELOW) -> None:
        self.path = directory / CHECKPOINT_NAME
        self.key_path = directory / KEY_NAME
        self._tree = HeadsTree(directory / TREE_NAME)
        self._whole_below = whole_below
        self._known: Checkpoint | None = None
        self._stamp: tuple[int, ...] = ()

    def read(self) -> Checkpoint | None:
        """The last checkpoint with all heads, each of which is proven; None: none was made yet.

        Raises AuditBroken for one that nobody signed here.
        """
        return self._load(whole=True)

    def known(self) -> Checkpoint | None:
        """As ``read``, but in a large store a head is read and proven when somebody asks for it.

        It is not loaded again while nobody else has touched the file. To ask for a head may raise AuditBroken.
        """
        if self._known is None or self._stamp_now() != self._stamp:
            stamp = self._stamp_now()
            self._known, self._stamp = self._load(whole=False), stamp
        return self._known

    def write(self, heads: Mapping[str, Anchor], at: datetime) -> Checkpoint:
        """Sign the heads and put them in place of the last checkpoint, in one step. Raises AuditBroken."""
        before = self.known()
        return self._written(lambda: self._put(heads, at, before))

    def advance(self, changed: Mapping[str, Anchor], gone: Collection[str], at: datetime) -> Checkpoint:
        """Sign what changed since ``known``. Raises AuditBroken."""
        before = self.known()
        streams = {} if before is None else before.streams
        if isinstance(streams, TreeHeads):
            root = streams.root
            return self._written(lambda: self._put_root(self._tree.grow(root, changed, gone), at, before))
        heads = {name: one for name, one in {**streams, **changed}.items() if name not in gone}
        return self._written(lambda: self._put(heads, at, before))

    def key_fingerprint(self) -> str:
        """A text that tells only which key is in this directory; empty: there is none.

        Raises AuditBroken for one that is broken.
        """
        return hashlib.sha256(b"checkpoint key " + self.key()).hexdigest()[:16] if self.key_path.exists() else ""

    def key(self) -> bytes:
        """The key that signs. Raises AuditBroken where it is gone or broken."""
        try:
            key = bytes.fromhex(self.key_path.read_text("ascii").strip())
        except (OSError, ValueError):
            key = b""
        if len(key) != _KEY_BYTES:
            raise AuditBroken(f"{self.key_path}, which signs the checkpoint, is gone or broken.", remedy=LATER)
        return key

    # -- reading -------------------------------------------------------------------------

    def _load(self, *, whole: bool) -> Checkpoint | None:
        """The last checkpoint; ``whole``: with all heads."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise AuditBroken(f"{self.path} cannot be read: {error.strerror}.", remedy=LATER) from None
        line = self._followed(data, self.path)
        if isinstance(line, _Whole):
            return Checkpoint(line.at, dict(line.streams), line.previous, hashlib.sha256(data).hexdigest())
        heads = self._tree.heads()
        if heads.line != data:
            # The tree is written first: a crash in between leaves the line that follows in it alone.
            line = self._followed(heads.line, self._tree.path)
            if isinstance(line, _Whole) or line.previous != hashlib.sha256(data).hexdigest():
                raise tree_broken()
        return self._rooted(heads, line, whole=whole)

    def _rooted(self, heads: TreeHeads, line: _Rooted, *, whole: bool) -> Checkpoint:
        heads.root = line.root
        streams: Mapping[str, Anchor] = heads.whole() if whole else heads
        if not whole:
            heads.release()
        return Checkpoint(line.at, streams, line.previous, hashlib.sha256(heads.line).hexdigest())

    def _followed(self, data: bytes, path: Path) -> _Whole | _Rooted:
        """The line that these bytes of a file are, if the key signed it."""
        try:
            line = _LINES.validate_json(data)
        except ValidationError:
            raise AuditBroken(f"{path} is not a checkpoint: it is cut or was edited.", remedy=LATER) from None
        if not hmac.compare_digest(line.hmac.encode(), _signature(line, self.key()).encode()):
            raise AuditBroken(f"{path} does not carry the signature of {self.key_path}.", remedy=LATER)
        return line

    def _stamp_now(self) -> tuple[int, ...]:
        try:
            found = self.path.stat()
        except OSError:
            return ()
        return (found.st_ino, found.st_size, found.st_mtime_ns)

    # -- writing -------------------------------------------------------------------------

    def _written(self, write: Callable[[], Checkpoint]) -> Checkpoint:
        self._known = None
        try:
            made = write()
        except OSError as error:
            raise AuditBroken(
                f"{self.path} cannot be written: {error.strerror or error}.",
                remedy="Make room or fix the directory's rights.",
            ) from None
        self._known, self._stamp = made, self._stamp_now()
        return made

    def _put(self, heads: Mapping[str, Anchor], at: datetime, before: Checkpoint | None) -> Checkpoint:
        """All heads, in a line if it is short enough, else in a new tree."""
        if sum(_BESIDE + len(name) for name in heads) > self._whole_below:
            return self._put_root(self._tree.build(heads), at, before)
        line = self._signed(_Whole(at=at, streams=dict(heads), previous=before.sha256 if before else ""), before)
        encoded = line.encoded()
        replace_file(self.path, [encoded])
        return Checkpoint(line.at, dict(heads), line.previous, hashlib.sha256(encoded).hexdigest())

    def _put_root(self, grown: Growing, at: datetime, before: Checkpoint | None) -> Checkpoint:
        with closing(grown):
            line = self._signed(_Rooted(at=at, root=grown.root, previous=before.sha256 if before else ""), before)
            encoded = line.encoded()
            grown.keep(encoded)
        replace_file(self.path, [encoded])
        return self._rooted(self._tree.heads(), line, whole=False)

    def _signed(self, line: _Signed, before: Checkpoint | None) -> _Signed:
        # A lost key is never replaced: that would let anybody begin anew.
        key = self._new_key() if before is None and not self.key_path.exists() else self.key()
        return line.model_copy(update={"hmac": _signature(line, key)})

    def _new_key(self) -> bytes:
        key = secrets.token_bytes(_KEY_BYTES)
        replace_file(self.key_path, [key.hex().encode() + b"\n"])
        return key


def _signature(line: _Line, key: bytes) -> str:
    return hmac.new(key, line.content(), hashlib.sha256).hexdigest()


def replace_file(path: Path, pieces: Iterable[bytes]) -> None:
    """Put these bytes in place of a file in one step, readable by its owner alone, on disk when this returns."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    if os.name == "nt":
        return  # A directory cannot be opened there; the rename is journalled by the file system.
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class News(NamedTuple):
    """The heads to sign."""

    known: Checkpoint | None
    changed: dict[str, Anchor]
    """Heads that are not those of the last checkpoint."""
    missing: frozenset[str]
    """Streams of the last checkpoint that are not there."""
    next: str = ""
    """The name from which on the next look goes; empty: it begins again with the first stream."""


async def news_of(
    store: ChangingJournals, checkpoints: Checkpoints, since: datetime | None = None, first: str | None = None
) -> News:
    """The heads that differ from the last checkpoint. Raises AuditBroken.

    ``since``: only streams that changed since then are looked at, and a few from the name ``first`` on, so that in
    time all are. None: all are looked at now.
    """
    known = await asyncio.to_thread(checkpoints.known)
    if since is None or known is None:
        heads = {head.stream: head async for page in _pages_of(store) for head in page}
        missing = set() if known is None else known.streams.keys() - heads.keys()
        return await asyncio.to_thread(_news, known, heads.values(), missing, "")
    changed = await store.heads_since(since)
    if first is None:
        return await asyncio.to_thread(_news, known, changed, set(), "")
    found, gone, limit = {head.stream: head for head in changed}, set[str](), _LOOKED_AT
    while True:
        part = await store.heads_from(first, limit)
        last = part[-1].stream if len(part) == limit else LAST_NAME
        gone |= set(await asyncio.to_thread(known.between, first, last)) - {one.stream for one in part} - found.keys()
        others = [one for one in part if one.stream not in found]
        found |= {one.stream: one for one in others}
        first = f"{last}\0" if last != LAST_NAME else ""
        # Where one is new that no time told of, such as after an import, there are more of its kind.
        if not first or not await asyncio.to_thread(_has_news, known, others):
            return await asyncio.to_thread(_news, known, found.values(), gone, first)
        limit = _AT_ONCE


def _has_news(known: Checkpoint, heads: Iterable[StreamHead]) -> bool:
    return any(known.streams.get(one.stream) != (one.version, one.hash) for one in heads)


def _news(known: Checkpoint | None, heads: Iterable[StreamHead], missing: Collection[str], then: str) -> News:
    before: Mapping[str, Anchor] = {} if known is None else known.streams
    found = {head.stream: (head.version, head.hash) for head in heads}
    changed = {stream: head for stream, head in found.items() if before.get(stream) != head}
    return News(known, changed, frozenset(missing), then)


async def _pages_of(store: ChangingJournals) -> AsyncIterator[list[StreamHead]]:
    """All heads, some at a time, so that nobody waits for long who reads the store meanwhile."""
    first = ""
    while page := await store.heads_from(first, _AT_ONCE):
        yield page
        # The least name that is greater.
        first = f"{page[-1].stream}\0"


async def make_checkpoint(
    store: ChangingJournals, checkpoints: Checkpoints, at: datetime, *, news: News | None = None
) -> CheckpointMade:
    """Sign the heads as they are; the fact to record of it. ``news`` None: all of them are looked at.

    Raises AuditBroken, and signs nothing, where a stream no longer holds what the last checkpoint knew.
    """
    if news is None:
        news = await news_of(store, checkpoints)
    before: Mapping[str, Anchor] = {} if news.known is None else news.known.streams
    pruned = PruneBook()
    if SYSTEM_STREAM in news.changed or news.missing:
        pruned = await _pruned_since(store, before)
    gone = {
        stream
        for stream in {*news.missing, *(one for one in pruned.told if one in before)} - news.changed.keys()
        if pruned.explains(stream, before[stream])
    }
    for stream, (version, _) in news.changed.items():
        if number(version) < 0:
            raise AuditBroken(f"The row of {stream} has no number for its version.", remedy=LATER)
    for stream in sorted(one for one in {*news.changed, *news.missing} - gone if one in before):
        await _must_hold(store, stream, before[stream], news.changed.get(stream))
    made = await asyncio.to_thread(checkpoints.advance, news.changed, gone, at)
    key = await asyncio.to_thread(checkpoints.key_fingerprint)
    return CheckpointMade(streams=len(made.streams), sha256=made.sha256, key=key)


async def _pruned_since(store: Journals, known: Mapping[str, Anchor]) -> PruneBook:
    """The streams that were pruned since a checkpoint.

    Whether the notes follow from what it knew is seen with their stream.
    """
    version, _ = known.get(SYSTEM_STREAM, (0, ""))
    book = PruneBook()
    # Where it is broken nothing is explained, and :func:`_must_hold` says so.
    with suppress(JournalBroken):
        for item in await store.read(TaskId(SYSTEM_STREAM), version):
            book.take(item)
    return book


async def _must_hold(store: Journals, stream: str, anchor: Anchor, head: Anchor | None) -> None:
    version = anchor[0]
    try:
        since = [] if head is None else await store.read(TaskId(stream), version - 1)
    except JournalBroken:
        since = []
    # The row says what is signed: it has to be what the items say.
    at = -1 if head is None else head[0] - version
    holds = 0 <= at < len(since) and (since[at].version, since[at].hash) == head
    if not holds or not await asyncio.to_thread(verify_onward, since, anchor):
        raise AuditBroken(
            f"{stream} no longer holds version {version} of the last checkpoint and what followed it: it was changed, "
            "or the store was restored from an older backup. No new checkpoint was made.",
            remedy=LATER,
        )
