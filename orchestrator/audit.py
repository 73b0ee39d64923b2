"""The audit over a store: every stream verified, every task checked, and the checkpoint outside of it.

Theory. The chain of a stream proves its middle, not its end, and the whole store may be replaced by
an older one. So the heads of all streams are written to a file beside the store from time to time,
signed with a key of their own. A checkpoint is made only where every stream still holds what the one
before knew: what was cut is never signed away. The key lies on the same disk: against somebody who
can read it only a copy elsewhere helps, of the file or of the digest that ``audit verify`` prints.
"""

import asyncio
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from pydantic import AwareDatetime, ConfigDict, Field, ValidationError

from orchestrator.core.audit import (
    SYSTEM_STREAM,
    Anchor,
    Fault,
    gone,
    heads_digest,
    unreadable,
    verify_onward,
    verify_stream,
)
from orchestrator.core.audit_check import Finding, Standing, check, standing_of
from orchestrator.core.audit_story import Story, who_approved
from orchestrator.core.errors import InvalidRequest, NewerSchema, OrchestratorError
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

    async def read(self, task_id: TaskId, after_version: int = 0) -> list[AgentTaskItem]:
        """The items of a stream after a version, oldest first."""


# -- the checkpoint ----------------------------------------------------------------------


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
    for stream, anchor in (before.streams if before is not None else {}).items():
        await _must_hold(store, stream, anchor, heads.get(stream))
    made = await asyncio.to_thread(checkpoints.write, heads, at)
    return CheckpointMade(streams=len(heads), sha256=made.sha256)


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


# -- verifying ---------------------------------------------------------------------------


class Verification(Value):
    """What a verification found."""

    streams: int
    items: int
    heads_sha256: str
    """Over the heads of all streams: keep it elsewhere and compare it with a later one of the same moment."""
    checkpoint_at: AwareDatetime | None = None
    """Of the checkpoint that it was compared with; None: there was none."""
    faults: tuple[Fault, ...] = ()


async def heads_of(store: Journals) -> dict[str, Anchor]:
    """The heads of all streams by their names."""
    return {head.stream: (head.version, head.hash) for head in await store.heads()}


async def verify_store(store: Journals, checkpoints: Checkpoints | None = None) -> Verification:
    """Every stream against its chain, its row and the checkpoint; None: this store has no directory for one."""
    faults: list[Fault] = []
    checkpoint = await _last(checkpoints, faults)
    heads = await heads_of(store)
    anchors = checkpoint.streams if checkpoint is not None else {}
    faults += [gone(stream, anchor) for stream, anchor in anchors.items() if stream not in heads]
    count = 0
    for stream in sorted(heads):
        items, found = await _verified(store, stream, heads[stream], anchors.get(stream))
        count += len(items)
        faults += found
        if stream == SYSTEM_STREAM and checkpoints is not None:
            faults += await _unrecorded(items, checkpoints, checkpoint)
    return Verification(
        streams=len(heads),
        items=count,
        heads_sha256=heads_digest(heads),
        checkpoint_at=checkpoint.at if checkpoint is not None else None,
        faults=tuple(faults),
    )


async def _last(checkpoints: Checkpoints | None, faults: list[Fault]) -> Checkpoint | None:
    if checkpoints is None:
        return None
    try:
        return await asyncio.to_thread(checkpoints.read)
    except AuditBroken as error:
        faults.append(Fault(stream="", version=0, what="forged", detail=error.message))
        return None


async def _verified(
    store: Journals, stream: str, head: Anchor, anchor: Anchor | None
) -> tuple[list[AgentTaskItem], list[Fault]]:
    """A stream's items up to its head, and their faults; a task that is at work may grow meanwhile."""
    try:
        items = await store.read(TaskId(stream))
        if items and items[-1].version > head[0]:
            # The head is newer than these items, or the row knows nothing of them: only then are they no growth.
            newer = (await heads_of(store)).get(stream, head)
            if newer != head:
                items = [item for item in items if item.version <= head[0]]
    except OrchestratorError as error:
        return [], [unreadable(stream, error.message)]
    return items, await asyncio.to_thread(verify_stream, items, stream=stream, anchor=anchor, head=head)


async def _unrecorded(
    items: Sequence[AgentTaskItem], checkpoints: Checkpoints, checkpoint: Checkpoint | None
) -> list[Fault]:
    """A fault where the file is not the checkpoint that the system stream says was made last.

    A crash after the file was written leaves one that follows the recorded one.
    """
    recorded = [item.fact.sha256 for item in items if isinstance(item.fact, CheckpointMade)]
    if not recorded or _follows(checkpoint, recorded[-1]):
        return []
    again: list[Fault] = []
    newer = await _last(checkpoints, again)
    if again or _follows(newer, recorded[-1]):
        return []  # A broken one is told already; and one was made while this was read.
    what = "is gone" if newer is None else "is not the one that was made last"
    detail = f"{checkpoints.path.name} {what}: it was deleted, or put back together with an older store."
    return [Fault(stream="", version=0, what="forged", detail=detail)]


def _follows(checkpoint: Checkpoint | None, recorded: str) -> bool:
    return checkpoint is not None and recorded in (checkpoint.sha256, checkpoint.previous)


# -- reading -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """A stream that was read."""

    stream: str
    items: list[AgentTaskItem]


async def streams_of(store: Journals, names: Sequence[str] | None = None) -> AsyncIterator[Told]:
    """Streams with all their items, by name; None: all. One at a time, so that a large store fits.

    Raises AuditBroken at one that cannot be read: leaving it out would be to say that nothing is there.
    """
    wanted = sorted(await heads_of(store)) if names is None else names
    for stream in wanted:
        try:
            items = await store.read(TaskId(stream))
        except (InvalidRequest, NewerSchema) as error:
            raise AuditBroken(
                f"{stream} cannot be read: {error.message}",
                remedy="`cc-orchestrator audit verify` says what is not as written; the others go by their names.",
            ) from None
        yield Told(stream, items)


async def check_store(store: Journals, names: Sequence[str] | None = None) -> list[Finding]:
    """What is to be said of tasks (None: of all), with the standing approvals of the whole store looked up.

    Where a task that nobody asked about cannot be read, what it may have given is not missed. Raises AuditBroken.
    """
    standing: Standing | None = Standing()
    try:
        async for told in streams_of(store):
            standing = standing_of(told.items, standing)
    except AuditBroken:
        if names is None:
            raise
        standing = None
    found: list[Finding] = []
    async for told in streams_of(store, names):
        found += await asyncio.to_thread(check, told.items, standing=standing)
    return found


async def stories_of(store: Journals, names: Sequence[str] | None = None, **wanted: str) -> list[Story]:
    """As :func:`who_approved`, over streams; None: over all."""
    found: list[Story] = []
    async for told in streams_of(store, names):
        found += await asyncio.to_thread(who_approved, told.items, **wanted)
    return found


def as_written(item: AgentTaskItem) -> dict[str, Any]:
    """An item as JSON with the very fields that it was written with, so that its hash can be verified again."""
    value: dict[str, Any] = json.loads(item.model_dump_json(by_alias=True, exclude_unset=True))
    value["fact"]["kind"] = item.fact.kind
    return value
