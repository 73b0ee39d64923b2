"""The checkpoint: the heads of all streams in a signed file beside the store.

Theory. The chain of a stream proves its middle, not its end, and the whole store may be replaced by
an older one. So the heads of all streams are written to a file beside the store from time to time,
signed with a key of their own. A checkpoint is made only where every stream still holds what the one
before knew: what was cut is never signed away. The key lies on the same disk: against somebody who
can read it only a copy elsewhere helps, of the file or of the digest that ``audit verify`` prints.
"""

import asyncio
import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, Protocol

from pydantic import AwareDatetime, ConfigDict, Field, ValidationError

from orchestrator.core.audit import SYSTEM_STREAM, Anchor, verify_onward
from orchestrator.core.audit_removed import PruneBook
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.facts import TaskId
from orchestrator.core.items import AgentTaskItem, canonical_json
from orchestrator.core.system_facts import CheckpointMade
from orchestrator.core.values import Value
from orchestrator.ports import StreamHead

CHECKPOINT_NAME: Final = "audit.checkpoint"
KEY_NAME: Final = "audit.key"
_KEY_BYTES: Final = 32
_LATER: Final = (
    "`cc-orchestrator audit verify` says what differs. Once you know why, move audit.checkpoint away: "
    "the next one then begins anew."
)


class AuditBroken(OrchestratorError):
    """What the audit rests on is not as it was left."""

    code = "audit_broken"
    http_status = 500


class Journals(Protocol):
    """Of a store, what an audit reads."""

    async def heads(self) -> list[StreamHead]:
        """The heads of all streams."""

    async def heads_since(self, at: datetime) -> list[StreamHead]:
        """The heads of what changed since, and of what is no task."""

    async def read(self, task_id: TaskId, after_version: int = 0, limit: int | None = None) -> list[AgentTaskItem]:
        """The items of a stream after a version, oldest first."""


async def heads_of(store: Journals) -> dict[str, Anchor]:
    """The heads of all streams by their names."""
    return {head.stream: (head.version, head.hash) for head in await store.heads()}


class Checkpoint(Value):
    """The heads of all streams at one moment, signed."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_version: Literal[1] = Field(default=1, alias="schema")
    at: AwareDatetime
    streams: dict[str, tuple[int, str]]
    previous: str = ""
    """sha256 of the checkpoint before; empty: this was the first."""
    hmac: str = ""

    def content(self) -> bytes:
        """What is signed."""
        return canonical_json(self.model_dump(mode="json", by_alias=True, exclude={"hmac"}))

    def encoded(self) -> bytes:
        """The file."""
        return canonical_json(self.model_dump(mode="json", by_alias=True)) + b"\n"

    @property
    def sha256(self) -> str:
        """Of the file."""
        return hashlib.sha256(self.encoded()).hexdigest()


class Checkpoints:
    """The checkpoint file of a data directory and its key. Blocks on the disk: call it in a thread."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / CHECKPOINT_NAME
        self.key_path = directory / KEY_NAME

    def read(self) -> Checkpoint | None:
        """The last checkpoint; None: none was made yet. Raises AuditBroken for one that nobody signed here."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise AuditBroken(f"{self.path} cannot be read: {error.strerror}.", remedy=_LATER) from None
        try:
            found = Checkpoint.model_validate_json(data)
        except ValidationError:
            raise AuditBroken(f"{self.path} is no checkpoint: it is cut or was edited.", remedy=_LATER) from None
        if not hmac.compare_digest(found.hmac.encode(), self._signature(found, self._key()).encode()):
            raise AuditBroken(f"{self.path} does not carry the signature of {self.key_path}.", remedy=_LATER)
        return found

    def write(self, heads: Mapping[str, Anchor], at: datetime) -> Checkpoint:
        """Sign the heads and put them in place of the last checkpoint, in one step. Raises AuditBroken."""
        before = self.read()
        try:
            key = self._key() if self.key_path.exists() else self._new_key()
            made = Checkpoint(at=at, streams=dict(heads), previous="" if before is None else before.sha256)
            made = made.model_copy(update={"hmac": self._signature(made, key)})
            _replace(self.path, made.encoded())
        except OSError as error:
            raise AuditBroken(
                f"{self.path} cannot be written: {error.strerror}.", remedy="Make room or mend the directory's rights."
            ) from None
        return made

    def key_fingerprint(self) -> str:
        """What tells the key of this directory apart from others, and nothing else of it; empty: there is none.

        Raises AuditBroken for one that is broken.
        """
        return hashlib.sha256(b"checkpoint key " + self._key()).hexdigest()[:16] if self.key_path.exists() else ""

    def _signature(self, checkpoint: Checkpoint, key: bytes) -> str:
        return hmac.new(key, checkpoint.content(), hashlib.sha256).hexdigest()

    def _key(self) -> bytes:
        try:
            key = bytes.fromhex(self.key_path.read_text("ascii").strip())
        except (OSError, ValueError):
            key = b""
        if len(key) != _KEY_BYTES:
            raise AuditBroken(f"{self.key_path}, which signs the checkpoint, is gone or broken.", remedy=_LATER)
        return key

    def _new_key(self) -> bytes:
        key = secrets.token_bytes(_KEY_BYTES)
        _replace(self.key_path, key.hex().encode() + b"\n")
        return key


def _replace(path: Path, content: bytes) -> None:
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


def _sync_directory(directory: Path) -> None:
    if os.name == "nt":
        return  # A directory cannot be opened there; the rename is journalled by the file system.
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


async def make_checkpoint(store: Journals, checkpoints: Checkpoints, at: datetime) -> CheckpointMade:
    """Sign the heads as they are; the fact to record of it.

    Raises AuditBroken, and signs nothing, where a stream no longer holds what the last checkpoint knew.
    """
    before = await asyncio.to_thread(checkpoints.read)
    heads = await heads_of(store)
    known: Mapping[str, Anchor] = before.streams if before is not None else {}
    pruned = await _pruned_since(store, known) if known.keys() - heads.keys() else PruneBook()
    for stream, anchor in known.items():
        if stream in heads or not pruned.explains(stream, anchor):
            await _must_hold(store, stream, anchor, heads.get(stream))
    made = await asyncio.to_thread(checkpoints.write, heads, at)
    key = await asyncio.to_thread(checkpoints.key_fingerprint)
    return CheckpointMade(streams=len(heads), sha256=made.sha256, key=key)


async def _pruned_since(store: Journals, known: Mapping[str, Anchor]) -> PruneBook:
    """What was pruned since a checkpoint; whether the notes follow from what it knew is seen with their stream."""
    version, _ = known.get(SYSTEM_STREAM, (0, ""))
    book = PruneBook()
    for item in await store.read(TaskId(SYSTEM_STREAM), version):
        book.take(item)
    return book


async def _must_hold(store: Journals, stream: str, anchor: Anchor, head: Anchor | None) -> None:
    if head == anchor:
        return
    version = anchor[0]
    since = [] if head is None else await store.read(TaskId(stream), version - 1)
    if head is None or not await asyncio.to_thread(verify_onward, since, anchor):
        raise AuditBroken(
            f"{stream} no longer holds version {version} of the last checkpoint and what followed it: it was changed, "
            "or the store was restored from an older backup. No new checkpoint was made.",
            remedy=_LATER,
        )
