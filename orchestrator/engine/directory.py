"""Groups, owners, freezes, rules and findings of the audit as this node knows them: read again when they change."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from orchestrator.core.approval.people import Away, Directory, Freeze, Group, Owner
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import Bus, EntryRow, Store, TokenRow
from orchestrator.core.task.items import Draft
from orchestrator.core.task.system_facts import (
    AwayValue,
    FindingValue,
    FreezeValue,
    GroupValue,
    NotifyValue,
    OwnerValue,
)
from orchestrator.core.wire.wire import ComputerId

logger = logging.getLogger(__name__)

SUBJECT: Final = "directory"
"""The subject of the bus that tells of a change, also of the people and programs that have tokens."""
LOOK_EVERY_S: Final = 0.75
"""A notification that was lost is missed for so long; a store that one process has for itself loses none.

A freeze holds within a second, on a node that did not hear of it as well.
"""


class DirectoryKeeper:
    """Keeps the directory of one node as it is in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._present = Directory()
        self._numbers: dict[str, int] = {}
        self._rules: dict[str, NotifyValue] = {}
        self._findings: dict[str, FindingValue] = {}
        self._changed = asyncio.Event()
        self._listeners: list[Callable[[], object]] = []

    @property
    def present(self) -> Directory:
        """The directory as it was read last."""
        return self._present

    @property
    def rules(self) -> Mapping[str, NotifyValue]:
        """The notification rules, by the names of their entries: the person, ``/`` and the rule's own name."""
        return self._rules

    @property
    def findings(self) -> Mapping[str, FindingValue]:
        """What the verification in the background found, by the names of their entries."""
        return self._findings

    def number_of(self, entry: str) -> int:
        """The number of an entry as it was read last; 0: there is none."""
        return self._numbers.get(entry, 0)

    async def load(self) -> None:
        """Read all of it."""
        rows, tokens = await self._store.directory(), await self._store.list_tokens()
        self._numbers = {row.fact.entry: row.number for row in rows}
        self._rules = {one.fact.name: one.fact.value for one in rows if isinstance(one.fact.value, NotifyValue)}
        self._findings = {one.fact.name: one.fact.value for one in rows if isinstance(one.fact.value, FindingValue)}
        present = directory_of(rows, tokens)
        if present != self._present:
            # The same one as long as it says the same: what is made of it is not made again.
            self._present = present
            for hear in tuple(self._listeners):
                hear()

    def listen(self, hear: Callable[[], object]) -> Callable[[], None]:
        """Call ``hear`` after each change; what is returned ends that."""
        self._listeners.append(hear)
        return lambda: self._listeners.remove(hear)

    async def set(self, note: Draft, bus: Bus, *, expected: int, secret: str = "") -> None:
        """Set an entry, as ``Store.set_entry``, and tell all nodes. Raises Conflict, InvalidRequest."""
        await self._store.set_entry(note, expected=expected, secret=secret)
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
    freezes: dict[str, Freeze] = {}
    for row in rows:
        match row.fact.value:
            case GroupValue() as value:
                groups[row.fact.name] = Group(frozenset(value.people), frozenset(value.computers))
            case OwnerValue() as value:
                owners[ComputerId(row.fact.name)] = Owner(value.person, value.group)
            case AwayValue() as value:
                away[row.fact.name] = Away(value.to, value.until)
            case FreezeValue() as value:
                freezes[row.fact.name] = Freeze(row.fact.name, value.by, value.at, value.reason)
            case NotifyValue() | FindingValue() | None:
                pass
    held = list(tokens)
    programs = {one.name: one.owner for one in held if one.kind == "agent"}
    people = frozenset(one.name for one in held if one.kind == "person")
    roles: dict[str, frozenset[str]] = {}
    for one in held:
        if one.kind == "person" and not one.revoked:
            roles[one.name] = roles.get(one.name, frozenset()) | {*one.rights}
    return Directory(
        groups=groups, owners=owners, programs=programs, people=people, roles=roles, away=away, freezes=freezes
    )
