"""Journals and grants in memory: what `InMemoryPersistenceManager` keeps of tasks, streams and grants.

Everything is looked at first and written afterwards: what `Grants.planned` answers and
`Journal.sealed` sealed can no longer be refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from orchestrator.adapters.store import drafts as sealing
from orchestrator.adapters.store import grant_rules as granting
from orchestrator.adapters.store.grant_rules import Standing
from orchestrator.core.approval.grants import GrantState
from orchestrator.core.ports import KeptItem, KeptRow, StreamHead
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import GENESIS_HASH, AgentTaskItem, Draft, ItemId, decode_item
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.values import to_us


@dataclass
class Journal:
    """The items of one task or stream, encoded as on a disk: what a caller does to an answer changes nothing here."""

    name: TaskId
    head_hash: str = GENESIS_HASH
    items: list[bytes] = field(default_factory=list)
    places: dict[ItemId, int] = field(default_factory=dict)
    """Item id to its index in ``items``."""

    @property
    def head(self) -> StreamHead:
        """Its last item."""
        return StreamHead(self.name, len(self.items), self.head_hash)

    def read(self) -> list[AgentTaskItem]:
        """All items, oldest first."""
        return [decode_item(data) for data in self.items]

    def kept(self, after_version: int, limit: int) -> list[KeptItem]:
        """The port's ``kept_items``."""
        ids = {place: item_id for item_id, place in self.places.items()}
        places = range(max(0, after_version), len(self.items))[:limit]
        return [KeptItem(place + 1, ids[place], self.items[place]) for place in places]

    def stored(self, drafts: Sequence[Draft]) -> list[AgentTaskItem] | None:
        """The items of these drafts; None: none is there. Raises Conflict when only some are."""
        places = [self.places[draft.item_id] for draft in drafts if draft.item_id in self.places]
        if places and len(places) < len(drafts):
            raise sealing.partly_there(self.name)
        return [decode_item(self.items[place]) for place in places] or None

    def sealed(self, drafts: Sequence[Draft], number: int | None = None) -> list[sealing.Sealed]:
        """The drafts as the next items, which are not added yet."""
        version, head_hash = len(self.items), self.head_hash
        return sealing.seal_drafts(drafts, task_id=self.name, version=version, head_hash=head_hash, number=number)

    def add(self, sealed: Sequence[sealing.Sealed]) -> None:
        """Add what was sealed."""
        for item, data in sealed:
            self.places[item.item_id] = len(self.items)
            self.items.append(data)
            self.head_hash = item.hash


@dataclass(frozen=True)
class KeptGrant:
    """A grant, encoded, and whether it stands."""

    session_id: str
    data: str
    standing: Standing


class Grants:
    """The grants."""

    def __init__(self) -> None:
        self._kept: dict[GrantId, KeptGrant] = {}

    def planned(self, drafts: Sequence[Draft], now: int) -> dict[GrantId, KeptGrant]:
        """The grants that the drafts give and use, as they will be. Raises InvalidRequest, GrantVoid."""
        changed: dict[GrantId, KeptGrant] = {}
        for grant in granting.given_in(drafts):
            if grant.grant_id in self._kept or grant.grant_id in changed:
                raise granting.given_before(grant.grant_id)
            expires_at = None if grant.expires_at is None else to_us(grant.expires_at)
            standing = Standing(expires_at, grant.max_uses)
            changed[grant.grant_id] = KeptGrant(grant.session_id, granting.encode_grant(grant), standing)
        for grant_id in granting.used_in(drafts):
            kept = changed.get(grant_id) or self._kept.get(grant_id)
            if kept is None:
                raise granting.void(grant_id, "does not exist")
            granting.check_usable(grant_id, kept.standing, now)
            changed[grant_id] = replace(kept, standing=kept.standing._replace(uses=kept.standing.uses + 1))
        return changed

    def keep(self, changed: dict[GrantId, KeptGrant]) -> None:
        """Carry out what was planned."""
        self._kept.update(changed)

    def states(self, session_id: str | None) -> list[GrantState]:
        """The port's ``list_grants``."""
        found = [kept for kept in self._kept.values() if session_id in (None, kept.session_id)]
        rows = [(kept.data, kept.standing.uses, kept.standing.revoked) for kept in found]
        return granting.oldest_first(granting.decode_known(rows))

    def given_in(self, task_id: TaskId) -> list[GrantState]:
        """The grants that were given in a task."""
        return [one for one in self.states(None) if one.grant.task_id == task_id]

    def drop(self, grant_ids: Sequence[GrantId]) -> None:
        """Forget grants whose task goes away."""
        for grant_id in grant_ids:
            del self._kept[grant_id]

    def rows(self) -> list[KeptRow]:
        """The grants as the port's ``kept_rows`` has them."""
        return [
            {
                "grant_id": grant_id,
                "task_id": (grant := granting.decode_grant(kept.data, 0, 0).grant).task_id,
                "session_id": kept.session_id,
                "user_id": grant.user_id,
                "data": kept.data,
                **kept.standing._asdict(),
            }
            for grant_id, kept in self._kept.items()
        ]

    def revoked(self, grant_id: GrantId) -> dict[GrantId, KeptGrant]:
        """A grant as it will be when it is revoked; empty: it was before. Raises NotFound."""
        kept = self._kept.get(grant_id)
        if kept is None:
            raise granting.no_grant(grant_id)
        if kept.standing.revoked:
            return {}
        return {grant_id: replace(kept, standing=kept.standing._replace(revoked=1))}
