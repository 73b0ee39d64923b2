"""Backups of computers: all that is on one, kept by hash, and put back as a task.

A backup is a listing whose files are all in the store, and a record that names it. Only bytes that the store does
not have are read, so that a second backup costs what changed. The record is written last, and only if every
byte is there: whatever dies in the middle leaves some blobs that nobody needs, and no half of a backup.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from orchestrator.core.errors import CallLost, CallVoid, ComputerAway, Forbidden, InvalidRequest, NotFound, ToolFailed
from orchestrator.core.ports import BackupRow, Clock, Identity
from orchestrator.core.task.system_facts import BackupRemoved, ComputerBackedUp
from orchestrator.core.task.task import AgentTask
from orchestrator.core.text.paths import spelled
from orchestrator.core.undo.plan import Listing, read_listing
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.wire.wire import ComputerId, sha256_hex
from orchestrator.engine.tasks import TaskService, person
from orchestrator.engine.undo import Preview, Undoing

# -- What is being read from computers now, such as for a backup: how far it has come, for the code that waits for it

What = Literal["backup", "rehearsal"]


@dataclass
class Transfer:
    """One transfer that goes on."""

    transfer_id: str
    what: What
    computer: ComputerId
    began_at: datetime
    files: int = 0
    """Files that were read, those with the same bytes once."""
    of_files: int | None = None
    """The number of files to read; None: it is not known yet."""
    bytes: int = 0
    """Read so far."""

    def told(self, files: int, of_files: int, size: int) -> None:
        """How far it has come now."""
        self.files, self.of_files, self.bytes = files, of_files, size


@dataclass
class Transfers:
    """The transfers that go on at this node."""

    clock: Clock
    _now: dict[str, Transfer] = field(default_factory=dict)

    @contextmanager
    def begin(self, what: What, computer: ComputerId) -> Iterator[Transfer]:
        """One, as long as the block lasts."""
        transfer = Transfer(f"x-{secrets.token_hex(6)}", what, computer, self.clock.now())
        self._now[transfer.transfer_id] = transfer
        try:
            yield transfer
        finally:
            del self._now[transfer.transfer_id]

    def rows(self) -> list[dict[str, Any]]:
        """All of them as people see them, the oldest first."""
        return [{**asdict(one), "began_at": one.began_at.isoformat()} for one in self._now.values()]


# -- Backups of computers: all that is on one, kept by hash, and put back as a task ------

_MOST_SKIPPED: Final = 200
"""Named in the record of a backup; of the rest only their number is kept."""


@dataclass(frozen=True)
class BackedUpFile:
    """What a backup has at one path."""

    path: str
    state: str
    """The sha256 of a file, or ``directory``."""
    size: int
    """In bytes; of a directory 0."""


@dataclass(frozen=True)
class Backups:
    """Makes, lists, removes and puts back backups."""

    service: TaskService
    undoing: Undoing
    transfers: Transfers

    async def make(self, computer: ComputerId, by: Identity, note: str = "") -> BackupRow:
        """Keep all that is on a computer now.

        Raises ComputerAway when it is not connected or goes away meanwhile, ToolFailed, also where it takes no call,
        and Conflict.
        """
        async with self.undoing.world.pinned([computer]):
            return await self._made(computer, by, note)

    async def _made(self, computer: ComputerId, by: Identity, note: str) -> BackupRow:
        world, store = self.undoing.world, self.service.store
        if not world.online(computer):
            raise ComputerAway(
                f"Computer {computer} is away, so nothing on it can be read.",
                remedy="Back it up when it is; `cc-orchestrator computers` says which are.",
            )
        try:
            with self.transfers.begin("backup", computer) as transfer:
                kept = await world.kept_whole(computer, transfer.told)
        except CallVoid as void:
            # It is there and takes no call, as where its disk is full.
            raise ToolFailed(
                f"Computer {computer} cannot be read now: {void} There is no backup of it from now.",
                remedy="Make room on its disk if that is full, and try again.",
            ) from void
        except (ComputerAway, CallLost) as error:
            raise ComputerAway(
                f"Computer {computer} went away while it was backed up; there is no backup of it from now.",
                remedy="Try again when it is back: the files that were read are kept for some time and not read again.",
            ) from error
        listing, skipped = kept.listed.listing, kept.listed.skipped
        await store.put_blob(listing.lines)
        told = sorted(skipped.items())
        fact = ComputerBackedUp(
            backup_id=f"b-{secrets.token_hex(6)}",
            computer=computer,
            listing=sha256_hex(listing.lines),
            files=len(listing.files),
            bytes=kept.bytes,
            new_bytes=kept.new_bytes,
            skipped={_text(path): _text(why) for path, why in told[:_MOST_SKIPPED]},
            skipped_more=max(0, len(told) - _MOST_SKIPPED),
            note=note,
        )
        draft = self.service.draft(fact, person(by))
        await store.add_backup(draft)
        return BackupRow(fact, by.name, draft.at)

    async def find(self, computer: ComputerId, name: str = "") -> BackupRow:
        """The backup whose id or whose listing begins so; an empty name: the newest.

        Raises NotFound, InvalidRequest where several do.
        """
        rows = await self.service.store.list_backups(computer)
        found = [row for row in rows if row.fact.backup_id.startswith(name) or row.fact.listing.startswith(name)]
        if not found:
            which = f"no backup {name[:80]!r}" if name else "no backup"
            raise NotFound(
                f"There is {which} of computer {computer}.",
                remedy="`cc-orchestrator backups list` lists them, `cc-orchestrator backup` makes one.",
            )
        if name and len(found) > 1 and len({row.fact.listing for row in found}) > 1:
            names = ", ".join(row.fact.backup_id for row in found[:5])
            raise InvalidRequest(f"Several backups begin with {name!r}: {names}.", remedy="Write more of the id.")
        return found[0]

    async def files(self, row: BackupRow) -> list[BackedUpFile]:
        """What is in a backup, by path. Raises NotFound."""
        listing = await self._listing(row)
        sizes = await self.service.store.blob_sizes(sorted(set(listing.files.values())))
        states = sorted(listing.states.items())
        return [BackedUpFile(spelled(path), state, sizes.get(state, 0)) for path, state in states]

    async def remove(self, row: BackupRow, by: Identity) -> bool:
        """Forget a backup, as the person who made it or as an admin; False: somebody did before. Raises Forbidden."""
        if row.by != by.name and "admin" not in by.roles:
            raise Forbidden("Only the person who made a backup, or an admin, can remove it.", remedy="Ask one of them.")
        gone = BackupRemoved(backup_id=row.fact.backup_id, computer=row.fact.computer)
        return await self.service.store.remove_backup(self.service.draft(gone, person(by)))

    # -- putting back --------------------------------------------------------------------

    def wanted(self, row: BackupRow, paths: Sequence[str], *, exact: bool) -> Restoration:
        """A backup as what is to be put back."""
        return Restoration(
            listing=row.fact.listing,
            computer=row.fact.computer,
            paths=tuple(paths),
            exact=exact,
            leaves=_left_alone(row.fact),
        )

    async def preview(self, wanted: Restoration, by: Identity) -> Preview:
        """The changes that putting it back would make now. Raises NotFound."""
        return await self.undoing.preview(wanted, by)

    async def restore(self, row: BackupRow, wanted: Restoration, by: Identity) -> AgentTask:
        """A task that puts it back. Raises NotFound, InvalidRequest."""
        # Counted on before the task names them: the backup may be removed, and swept, in between.
        listing = await self._listing(row)
        needed = {row.fact.listing, *listing.files.values()}
        if len(await self.service.store.touch_blobs(sorted(needed))) < len(needed):
            raise NotFound(
                f"Some bytes of the backup {row.fact.backup_id} are not in the store any more.",
                remedy="`cc-orchestrator audit verify` says which; take another backup.",
            )
        title = f"Restore {row.fact.computer} as it was in {row.fact.backup_id}"
        return await self.undoing.submit(wanted, by, title=title)

    async def came_since(self, wanted: Restoration) -> int | None:
        """How many files and directories are there that the backup has not; None: nobody can look now."""
        computer, world = wanted.computer, self.undoing.world
        if computer is None:
            return None
        async with world.pinned([computer]):
            if not world.online(computer):
                return None
            try:
                present = (await world.listed(computer)).listing
            except (ComputerAway, CallLost, CallVoid, ToolFailed):
                return None
        target = read_listing(await self.service.store.get_blob(wanted.listing))
        return sum(path not in target.states and wanted.wants(path) for path in present.states)

    async def _listing(self, row: BackupRow) -> Listing:
        return read_listing(await self.service.store.get_blob(row.fact.listing))


def _left_alone(fact: ComputerBackedUp) -> tuple[str, ...]:
    """The places that a backup cannot tell of, and that an exact restoration therefore leaves as they are."""
    if fact.skipped_more or any("\ufffd" in path for path in fact.skipped):
        return ("",)
    return tuple(sorted(fact.skipped))


def _text(path: str) -> str:
    """A name as text: bytes that are not UTF-8 are shown as replacement characters."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
