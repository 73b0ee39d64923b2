"""Checking and telling over a store: every stream read whole, one at a time."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.core.audit.check import Finding, Standing, check, standing_of
from orchestrator.core.audit.rights import RightsBook
from orchestrator.core.audit.story import Story, who_approved
from orchestrator.core.errors import JournalBroken, NewerSchema, OrchestratorError
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.history.audit.checkpoint import AuditBroken, Journals, heads_of


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
        except (JournalBroken, NewerSchema) as error:
            raise broken(stream, error) from None
        yield Told(stream, items)


def broken(stream: str, error: OrchestratorError) -> AuditBroken:
    """What is said of a stream that cannot be read."""
    return AuditBroken(
        f"{stream} cannot be read: {error.message}",
        remedy="`cc-orchestrator audit verify` says what is not as written; the others go by their names.",
    )


async def check_store(store: Journals, names: Sequence[str] | None = None) -> list[Finding]:
    """What is to be said of streams (None: of all), with the approvals and the people of the whole store looked up.

    Where a task that nobody asked about cannot be read, what it may have given is not missed. Raises AuditBroken.
    """
    standing: Standing | None = Standing()
    book = RightsBook()
    rights: RightsBook | None = book
    try:
        async for told in streams_of(store):
            standing = standing_of(told.items, standing)
            for item in told.items:
                book.take(item)
    except AuditBroken:
        if names is None:
            raise
        standing = rights = None
    found: list[Finding] = []
    async for told in streams_of(store, names):
        found += await asyncio.to_thread(check, told.items, standing=standing, rights=rights)
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
