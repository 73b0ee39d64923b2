"""Verifying a store: every stream, what its items name, and the tables beside them.

Theory. The rows of the tables are read before the items and after them, because a node may be at work (see
:mod:`orchestrator.core.audit_tables`). The row of a task is read before its items, and they are held against it as it
was then.
"""

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from pydantic import AwareDatetime

from orchestrator.audit.checkpoint import AuditBroken, Checkpoint, Checkpoints, heads_of
from orchestrator.audit.heads import Noted
from orchestrator.audit.stream import Books, Records, Stream
from orchestrator.audit.tables import faults_beside, looked, requests_known, rows_beside, unlisted
from orchestrator.core.audit import SYSTEM_STREAM, Fault, beside, gone, heads_digest
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.facts import TaskId
from orchestrator.core.system_facts import BackupRemoved, TaskPruned
from orchestrator.core.values import Value

_TRIES: Final = 3
_NO_HASHES: Final[Mapping[int, str]] = MappingProxyType({})
_NOTHING: Final[Noted] = MappingProxyType({})

Told = Callable[[int, int], None]
"""Hears how many streams are done, of how many."""


def _nobody(_done: int, _of: int) -> None:
    """Nobody waits."""


class Verification(Value):
    """What a verification found."""

    streams: int
    items: int
    heads_sha256: str
    """Over the heads of all streams: keep it elsewhere and compare it with a later one of the same moment."""
    checkpoint_at: AwareDatetime | None = None
    """Of the checkpoint that it was compared with; None: there was none."""
    faults: tuple[Fault, ...] = ()


async def verify_store(
    store: Records, checkpoints: Checkpoints | None = None, *, away: Noted = _NOTHING, told: Told = _nobody
) -> Verification:
    """Every stream against its chain, its row and the checkpoint, and the tables against the items.

    ``checkpoints`` None: this store has no directory for one. ``away``: hashes that left the host. ``told`` hears how
    many streams of how many are done. Where something was pruned meanwhile, it is done again.
    """
    for _ in range(_TRIES):
        version, _ = (await heads_of(store)).get(SYSTEM_STREAM, (0, ""))
        found = await _verified(store, checkpoints, away, told)
        if not found.faults or not await _removed_since(store, version):
            break
    return found


async def _removed_since(store: Records, version: int) -> bool:
    """Whether anything was taken out on purpose after this version of the system stream."""
    try:
        told = await store.read(TaskId(SYSTEM_STREAM), version)
    except OrchestratorError:
        return False
    return any(isinstance(item.fact, TaskPruned | BackupRemoved) for item in told)


async def _verified(store: Records, checkpoints: Checkpoints | None, away: Noted, told: Told) -> Verification:
    faults: list[Fault] = []
    checkpoint = await _last(checkpoints, faults)
    # First the rows, then the streams that there are: what a row has then, one of these streams says.
    before = await rows_beside(store, faults)
    known = await requests_known(store, faults)
    heads = await heads_of(store)
    anchors = checkpoint.streams if checkpoint is not None else {}
    books = Books()
    within: list[Fault] = []
    for done, stream in enumerate(sorted(heads)):
        told(done, len(heads))
        within += await Stream(store, stream, heads[stream], books).verified(
            anchors.get(stream), away.get(stream, _NO_HASHES)
        )
    elsewhere = {stream: max(away[stream].items()) for stream in away.keys() - heads.keys() - anchors.keys()}
    missing = elsewhere | {stream: anchor for stream, anchor in anchors.items() if stream not in heads}
    faults += [gone(stream, anchor) for stream, anchor in missing.items() if not books.pruned.explains(stream, anchor)]
    faults += within
    if checkpoints is not None:
        faults += await _unrecorded(await _recorded(store, books, checkpoints), checkpoints, checkpoint)
    faults += await looked("items", unlisted(store, heads))
    if known > books.requests:
        detail = f"The table knows {known} requests, and the items raise {books.requests}: items were taken out."
        faults.append(beside("", "request", detail))
    faults += await faults_beside(store, before, books, heads)
    return Verification(
        streams=len(heads),
        items=books.items,
        heads_sha256=heads_digest(heads),
        checkpoint_at=checkpoint.at if checkpoint is not None else None,
        faults=tuple(faults),
    )


# -- the checkpoint ----------------------------------------------------------------------


async def _last(checkpoints: Checkpoints | None, faults: list[Fault]) -> Checkpoint | None:
    if checkpoints is None:
        return None
    try:
        return await asyncio.to_thread(checkpoints.read)
    except AuditBroken as error:
        faults.append(Fault(stream="", version=0, what="forged", detail=error.message))
        return None


async def _recorded(store: Records, books: Books, checkpoints: Checkpoints) -> str:
    """sha256 of the checkpoint that this directory should have; empty: none.

    Where several nodes share the store, each has its own, and one that never made any has none.
    """
    if not store.shared:
        return next(reversed(books.checkpoints.values()), "")
    try:
        key = await asyncio.to_thread(checkpoints.key_fingerprint)
    except AuditBroken:
        return ""  # Told already: nothing that it signed can be read.
    return books.checkpoints.get(key, "") if key else ""


async def _unrecorded(recorded: str, checkpoints: Checkpoints, checkpoint: Checkpoint | None) -> list[Fault]:
    """A fault where the file is not the checkpoint that the system stream says was made last.

    A crash after the file was written leaves one that follows the recorded one.
    """
    if not recorded or _follows(checkpoint, recorded):
        return []
    again: list[Fault] = []
    newer = await _last(checkpoints, again)
    if again or _follows(newer, recorded):
        return []  # A broken one is told already; and one was made while this was read.
    what = "is gone" if newer is None else "is not the one that was made last"
    detail = f"{checkpoints.path.name} {what}: it was deleted, or put back together with an older store."
    return [Fault(stream="", version=0, what="forged", detail=detail)]


def _follows(checkpoint: Checkpoint | None, recorded: str) -> bool:
    return checkpoint is not None and recorded in (checkpoint.sha256, checkpoint.previous)
