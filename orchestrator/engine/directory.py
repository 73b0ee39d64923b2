"""The groups and owners of an installation as this node knows them: read from the store, and again when they change."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from orchestrator.core.approval.people import Away, Directory, Group, Owner
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import Bus, EntryRow, Store, TokenRow
from orchestrator.core.task.items import Draft
from orchestrator.core.task.system_facts import AwayValue, GroupValue, OwnerValue
from orchestrator.core.wire.wire import ComputerId

logger = logging.getLogger(__name__)

SUBJECT: Final = "directory"
"""The subject of the bus that tells of a change, also of the people and programs that have tokens."""
LOOK_EVERY_S: Final = 2.5
"""A notification that was lost is missed for so long; a store that one process has for itself loses none."""


class DirectoryKeeper:
    """Keeps the directory of one node as it is in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._present = Directory()
        self._numbers: dict[str, int] = {}
        self._changed = asyncio.Event()

    @property
    def present(self) -> Directory:
        """The directory as it was read last."""
        return self._present

    def number_of(self, entry: str) -> int:
        """The number of an entry as it was read last; 0: there is none."""
        return self._numbers.get(entry, 0)

    async def load(self) -> None:
        """Read all of it."""
        rows, tokens = await self._store.directory(), await self._store.list_tokens()
        self._numbers = {row.fact.entry: row.number for row in rows}
        self._present = directory_of(rows, tokens)

    async def set(self, note: Draft, bus: Bus, *, expected: int) -> None:
        """Set an entry, as ``Store.set_entry``, and tell all nodes. Raises Conflict, InvalidRequest."""
        await self._store.set_entry(note, expected=expected)
        await self.load()
        bus.publish(SUBJECT, {})

    async def keep(self, bus: Bus) -> None:
        """Read it again whenever it changes, until canceled."""
        end = bus.subscribe(SUBJECT, lambda _: self._changed.set())
        try:
            while True:
                try:
                    async with asyncio.timeout(LOOK_EVERY_S if self._store.shared else None):
                        await self._changed.wait()
                except TimeoutError:
                    pass
                self._changed.clear()
                try:
                    await self.load()
                except OrchestratorError as error:
                    logger.debug("the directory is read again soon: %s", error)
                    self._changed.set()
                    await asyncio.sleep(LOOK_EVERY_S)
        finally:
            end()


def directory_of(rows: Iterable[EntryRow], tokens: Iterable[TokenRow]) -> Directory:
    """The directory that these rows make."""
    groups: dict[str, Group] = {}
    owners: dict[ComputerId, Owner] = {}
    away: dict[str, Away] = {}
    for row in rows:
        match row.fact.value:
            case GroupValue() as value:
                groups[row.fact.name] = Group(frozenset(value.people), frozenset(value.computers))
            case OwnerValue() as value:
                owners[ComputerId(row.fact.name)] = Owner(value.person, value.group)
            case AwayValue() as value:
                away[row.fact.name] = Away(value.to, value.until)
            case None:
                pass
    held = list(tokens)
    programs = {one.name: one.owner for one in held if one.kind == "agent"}
    people = frozenset(one.name for one in held if one.kind == "person")
    roles: dict[str, frozenset[str]] = {}
    for one in held:
        if one.kind == "person" and not one.revoked:
            roles[one.name] = roles.get(one.name, frozenset()) | {*one.rights}
    return Directory(groups=groups, owners=owners, programs=programs, people=people, roles=roles, away=away)
