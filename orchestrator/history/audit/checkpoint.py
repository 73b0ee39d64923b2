"""The checkpoint: the heads of all streams in a signed file beside the store.

Theory. The chain of a stream proves its middle, not its end, and the whole store may be replaced by an older one. So
the heads of all streams are written to a file beside the store from time to time, signed with a key of their own. A
checkpoint is made only where every stream still has all that the one before knew: a cut is never signed away. The key
is on the same disk. Against a person who can read it only a copy elsewhere helps, of the file or of the digest that
``audit verify`` prints.

The file is a log: its first line has all heads, and each further one those that changed, signed and chained to the
line before. So a checkpoint costs what changed. Once the further lines are as long as the first, one line says all
anew. A line that a crash cut does not count. A line that was taken off the end is missed, because the system stream
names the line that was made last.
"""

import asyncio
import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol

from pydantic import AwareDatetime, ConfigDict, Field, ValidationError

from orchestrator.core.audit.chain import SYSTEM_STREAM, Anchor, verify_onward
from orchestrator.core.audit.retention import PruneBook
from orchestrator.core.errors import JournalBroken, OrchestratorError
from orchestrator.core.ports import StreamHead
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem, canonical_json
from orchestrator.core.task.system_facts import CheckpointMade
from orchestrator.core.values import Value

CHECKPOINT_NAME: Final = "audit.checkpoint"
KEY_NAME: Final = "audit.key"
WHOLE_BELOW: Final = 32 * 1024
"""Some three hundred streams."""
_KEY_BYTES: Final = 32
_LATER: Final = (
    "`cc-orchestrator audit verify` says what differs. Once you know why, move audit.checkpoint away: "
    "the next one then begins again."
)


class AuditBroken(OrchestratorError):
    """The data that the audit relies on has changed."""

    code = "audit_broken"
    http_status = 500


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


async def heads_of(store: Journals) -> dict[str, Anchor]:
    """The heads of all streams by their names."""
    return {head.stream: (head.version, head.hash) for head in await store.heads()}


def number(version: object) -> int:
    """A version as a row has it; -1: somebody put something else there, which SQLite takes."""
    return version if isinstance(version, int) else -1


class _Line(Value):
    """The common part of the lines of the file."""

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
    """The first line: all heads."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    streams: dict[str, tuple[int, str]]


class _Step(_Line):
    """Each further one: what changed since the line before."""

    schema_version: Literal[2] = Field(default=2, alias="schema")
    changed: dict[str, tuple[int, str]]
    gone: tuple[str, ...] = ()
    """Streams that were pruned."""


@dataclass(frozen=True)
class Checkpoint:
    """The heads of all streams at one moment, as signed lines say them."""

    at: datetime
    streams: dict[str, Anchor]
    previous: str
    """sha256 of the line before the last, or of the last of the file before; empty: this was the first."""
    sha256: str
    """The sha256 of the last line."""


class _Lines(NamedTuple):
    """The file as it was read."""

    last: Checkpoint
    base: int
    """Bytes of its first line."""
    size: int
    """Bytes of its whole lines: a line that was cut in the middle of a write counts for nothing."""


class Checkpoints:
    """The checkpoint file of a data directory and its key. Blocks on the disk: call it in a thread.

    ``whole_below``: a file whose first line has fewer bytes is written whole each time, which costs nothing.
    """

    def __init__(self, directory: Path, *, whole_below: int = WHOLE_BELOW) -> None:
        self.path = directory / CHECKPOINT_NAME
        self.key_path = directory / KEY_NAME
        self._whole_below = whole_below
        self._known: _Lines | None = None
        self._stamp: tuple[int, ...] = ()

    def read(self) -> Checkpoint | None:
        """The last checkpoint; None: none was made yet. Raises AuditBroken for one that nobody signed here."""
        found = self._load()
        return None if found is None else found.last

    def known(self) -> Checkpoint | None:
        """As ``read``, and not read again while nobody else has touched the file. Do not change it."""
        if self._known is None or self._stamp_now() != self._stamp:
            stamp = self._stamp_now()
            self._known, self._stamp = self._load(), stamp
        return None if self._known is None else self._known.last

    def write(self, heads: Mapping[str, Anchor], at: datetime) -> Checkpoint:
        """Sign the heads and put them in place of the last checkpoint, in one step. Raises AuditBroken."""
        before = self.read()
        return self._written(lambda: self._write_whole(dict(heads), at, before))

    def advance(self, changed: Mapping[str, Anchor], gone: Collection[str], at: datetime) -> Checkpoint:
        """Sign what changed since ``known``: at the end of the file, until that is longer than to say all again.

        Raises AuditBroken.
        """
        before = self.known()
        lines = self._known
        if before is None or lines is None:
            return self._written(lambda: self._write_whole(dict(changed), at, None))
        return self._written(lambda: self._advance(lines, changed, gone, at))

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
            raise AuditBroken(f"{self.key_path}, which signs the checkpoint, is gone or broken.", remedy=_LATER)
        return key

    # -- reading -------------------------------------------------------------------------

    def _load(self) -> _Lines | None:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise AuditBroken(f"{self.path} cannot be read: {error.strerror}.", remedy=_LATER) from None
        lines = data.splitlines(keepends=True)
        if len(lines) > 1 and not lines[-1].endswith(b"\n"):
            lines.pop()
        try:
            whole = _Whole.model_validate_json(lines[0] if lines else b"")
            steps = [_Step.model_validate_json(line) for line in lines[1:]]
        except ValidationError:
            raise AuditBroken(f"{self.path} is not a checkpoint: it is cut or was edited.", remedy=_LATER) from None
        return self._followed(whole, steps, len(lines[0]))

    def _followed(self, whole: _Whole, steps: Sequence[_Step], base: int) -> _Lines:
        key = self.key()
        streams, last = dict(whole.streams), _sha256(whole)
        for line in (whole, *steps):
            signed = hmac.compare_digest(line.hmac.encode(), _signature(line, key).encode())
            if not signed or (line is not whole and line.previous != last):
                raise AuditBroken(f"{self.path} does not carry the signature of {self.key_path}.", remedy=_LATER)
            if isinstance(line, _Step):
                streams |= line.changed
                for stream in line.gone:
                    streams.pop(stream, None)
                last = _sha256(line)
        newest = steps[-1] if steps else whole
        size = base + sum(len(step.encoded()) for step in steps)
        return _Lines(Checkpoint(newest.at, streams, newest.previous, last), base, size)

    def _stamp_now(self) -> tuple[int, ...]:
        try:
            found = self.path.stat()
        except OSError:
            return ()
        return (found.st_ino, found.st_size, found.st_mtime_ns)

    # -- writing -------------------------------------------------------------------------

    def _written(self, write: Callable[[], Checkpoint]) -> Checkpoint:
        try:
            made = write()
        except OSError as error:
            self._known = None
            raise AuditBroken(
                f"{self.path} cannot be written: {error.strerror}.", remedy="Make room or fix the directory's rights."
            ) from None
        except AuditBroken:
            self._known = None
            raise
        self._stamp = self._stamp_now()
        return made

    def _write_whole(self, streams: dict[str, Anchor], at: datetime, before: Checkpoint | None) -> Checkpoint:
        key = self.key() if self.key_path.exists() else self._new_key()
        line = _Whole(at=at, streams=streams, previous="" if before is None else before.sha256)
        line = line.model_copy(update={"hmac": _signature(line, key)})
        encoded = line.encoded()
        replace_file(self.path, encoded)
        made = Checkpoint(line.at, streams, line.previous, hashlib.sha256(encoded).hexdigest())
        self._known = _Lines(made, len(encoded), len(encoded))
        return made

    def _advance(self, lines: _Lines, changed: Mapping[str, Anchor], gone: Collection[str], at: datetime) -> Checkpoint:
        before = lines.last
        line = _Step(at=at, changed=dict(changed), gone=tuple(sorted(gone)), previous=before.sha256)
        line = line.model_copy(update={"hmac": _signature(line, self.key())})
        encoded = line.encoded()
        # Older checkpoints stay as they were, but share their streams: a copy would cost as much as there are streams.
        streams = before.streams
        streams |= changed
        for stream in gone:
            streams.pop(stream, None)
        if lines.base < self._whole_below or lines.size + len(encoded) > 2 * lines.base:
            return self._write_whole(streams, at, before)
        self._known = None
        _append(self.path, encoded, lines.size)
        made = Checkpoint(line.at, streams, line.previous, hashlib.sha256(encoded).hexdigest())
        self._known = _Lines(made, lines.base, lines.size + len(encoded))
        return made

    def _new_key(self) -> bytes:
        key = secrets.token_bytes(_KEY_BYTES)
        replace_file(self.key_path, key.hex().encode() + b"\n")
        return key


def _signature(line: _Line, key: bytes) -> str:
    return hmac.new(key, line.content(), hashlib.sha256).hexdigest()


def _sha256(line: _Line) -> str:
    return hashlib.sha256(line.encoded()).hexdigest()


def replace_file(path: Path, content: bytes) -> None:
    """Put content in place of a file in one step, readable by its owner alone, on disk when this returns."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    _sync_directory(path.parent)


def _append(path: Path, content: bytes, size: int) -> None:
    """Put content behind the first ``size`` bytes of a file; bytes that a crash left there are removed."""
    descriptor = os.open(path, os.O_WRONLY)
    with os.fdopen(descriptor, "wb") as file:
        file.truncate(size)
        file.seek(size)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


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


async def news_of(store: ChangingJournals, checkpoints: Checkpoints, since: datetime | None = None) -> News:
    """The heads that differ from the last checkpoint; ``since``: only streams that changed since then are looked at.

    Raises AuditBroken.
    """
    known = await asyncio.to_thread(checkpoints.known)
    before: Mapping[str, Anchor] = {} if known is None else known.streams
    if since is None or known is None:
        heads = await heads_of(store)
        missing = frozenset(before.keys() - heads.keys())
    else:
        heads = {head.stream: (head.version, head.hash) for head in await store.heads_since(since)}
        missing = frozenset()
    return News(known, {stream: head for stream, head in heads.items() if before.get(stream) != head}, missing)


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
        for stream in {*news.missing, *(pruned.told.keys() & before.keys())} - news.changed.keys()
        if pruned.explains(stream, before[stream])
    }
    for stream, (version, _) in news.changed.items():
        if number(version) < 0:
            raise AuditBroken(f"The row of {stream} has no number for its version.", remedy=_LATER)
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
            remedy=_LATER,
        )
