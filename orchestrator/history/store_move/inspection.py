"""The inspection of a store: its schema, its content, the nodes that work on it, and whether it is complete."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Final, TypeVar

from orchestrator.adapters.store.drafts import store_closed
from orchestrator.adapters.store.schema import SCHEMA
from orchestrator.adapters.store.script import Script
from orchestrator.adapters.store.sql import Append
from orchestrator.adapters.store.sql_store import SqlStore
from orchestrator.core.audit.chain import Fault
from orchestrator.core.errors import InvalidRequest
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.values import from_us, immutable, to_us
from orchestrator.history.audit import Checkpoints, Noted, Verification, goes_on, processes_here, verify_store
from orchestrator.history.store_move.sides import Side, asked, counts_of, reading, schema_of
from orchestrator.runtime.clock import SystemClock

T = TypeVar("T")
Told = Callable[[int, int], None]
"""Hears how many streams are done, of how many."""

_NOTHING: Final[Noted] = MappingProxyType({})
_HELD: Final = "SELECT task_id, holder, lease_until FROM tasks WHERE holder IS NOT NULL ORDER BY task_id"
_UNMARKED: Final = """SELECT blob_marks.sha256 FROM blob_marks LEFT JOIN blobs ON blobs.sha256 = blob_marks.sha256
    WHERE blobs.sha256 IS NULL OR LENGTH(blobs.content) <> blob_marks.size ORDER BY blob_marks.sha256"""
_CLAIMS: Final = """SELECT computer, task FROM computers WHERE task IS NOT NULL
    AND task NOT IN (SELECT task_id FROM tasks) ORDER BY computer"""


def _nobody(_done: int, _of: int) -> None:
    """Nobody waits."""


@immutable
class Held:
    """A task that somebody works on."""

    task_id: str
    holder: str
    until: str
    """When the lease ends unless it is renewed; ISO 8601, UTC."""
    over: bool
    """Whether it has ended by this machine's clock: the next node takes the task over."""


@immutable
class Checked:
    """The findings in a store."""

    store: str
    schema: int
    known: int
    """The schema of this version."""
    bytes: int
    counts: Mapping[str, int]
    served_by: str
    """The processes that have the file open; empty: none, or it is not a file."""
    nodes: Sequence[str]
    """The nodes that hold tasks."""
    held: Sequence[Held]
    items: int = 0
    streams: int = 0
    heads_sha256: str = ""
    """Over the heads of all streams; empty where the tables are older than this version, and nothing was verified."""
    faults: Sequence[str] = field(default_factory=tuple)


class _Kept(SqlStore):
    """A store of which only what is read is there, everything at the one moment of its side's transaction."""

    shared = False

    def __init__(self, side: Side) -> None:
        self._side = side
        self.clock = SystemClock()

    async def _read(self, script: Callable[[int], Script[T]]) -> T:
        return await self._side.run(script(_now()))

    async def strange(self) -> list[str]:
        return await self._side.strange()

    async def odd(self) -> list[str]:
        return await self._side.odd()

    def _write(
        self, script: Callable[[int], Script[T]], *, key: str | None = None, urgent: bool = False, once: bool = False
    ) -> Awaitable[T]:
        raise store_closed()

    def _append(self, wanted: Append) -> Awaitable[list[AgentTaskItem]]:
        raise store_closed()

    async def close(self) -> None:
        """Its side is closed by the code that opened it."""


async def verify_store_at(
    url: str, checkpoints: Checkpoints, away: Noted = _NOTHING, *, told: Told = _nobody, full: bool | None = True
) -> Verification:
    """A verification of a store without changing it, also while it is served, against what left the host.

    ``told`` and ``full`` as of ``verify_store``. Of a file with damaged pages nothing else is told; where only what
    changed is looked at, not all pages are read.
    Raises NotFound, InvalidRequest, NewerSchema.
    """
    async with reading(url) as side:
        damaged = [] if full is False and goes_on(checkpoints) else await _damage(side)
        if damage := [Fault(stream="", version=0, what="damage", detail=one) for one in damaged]:
            return Verification(streams=0, items=0, heads_sha256="", faults=tuple(damage))
        schema = await schema_of(side)
        if schema < SCHEMA:
            raise InvalidRequest(
                f"The store has schema {schema}, and this version verifies {SCHEMA}.",
                remedy="Start the server once, or verify with the version that wrote it.",
            )
        processes = processes_here()
        return await verify_store(_Kept(side), checkpoints, away=away, told=told, full=full, processes=processes)


async def _damage(side: Side) -> list[str]:
    return [f"The database is damaged: {line}" for line in await side.damage()]


async def check_store_at(url: str) -> Checked:
    """Look at a store without changing it, also while it is served. Raises NotFound, InvalidRequest, NewerSchema."""
    async with reading(url) as side:
        schema = await schema_of(side)
        damage = await _damage(side)
        strange = await side.strange() if not damage and schema == SCHEMA else []
        if not damage and not strange and schema == SCHEMA:
            damage = await side.odd()
        held = [] if damage else await side.run(_held())
        found = Checked(
            store=side.where,
            schema=schema,
            known=SCHEMA,
            bytes=await side.size(),
            counts=await counts_of(side, schema),
            served_by=await side.held_by(),
            nodes=sorted({one.holder for one in held}),
            held=held,
            faults=tuple(damage),
        )
        if schema < SCHEMA or damage:
            # What follows reads the tables of this version, and pages that are whole.
            return found
        verified = await verify_store(_Kept(side))
        faults = [*(fault.detail for fault in verified.faults), *await _beside(side)]
    return Checked(
        **{
            **vars(found),
            "items": verified.items,
            "streams": verified.streams,
            "heads_sha256": verified.heads_sha256,
            "faults": tuple(faults),
        }
    )


async def _beside(side: Side) -> list[str]:
    """The parts that an audit does not look at: the marks of blobs, and claims of tasks that are not there."""
    unmarked = await side.run(asked(_UNMARKED))
    claims = await side.run(asked(_CLAIMS))
    return [f"The mark of the blob {sha256} is not of what is kept." for (sha256,) in unmarked] + [
        f"Computer {computer} is claimed by {task}, which is not a task here." for computer, task in claims
    ]


def _held() -> Script[list[Held]]:
    rows = yield _HELD, ()
    now = _now()
    return [Held(task, holder, from_us(until).isoformat(), until <= now) for task, holder, until in rows]


def _now() -> int:
    return to_us(SystemClock().now())
