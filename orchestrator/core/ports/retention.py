"""The port of what is kept for long and what goes: backups of computers, pruned tasks, blobs that nobody needs.

Blobs are put before the item that names them, and who finds one there counts on it without putting it
again. So a blob is *touched* whenever it is put or counted on, and a sweep takes only what was not
touched for a while, checked in the transaction that takes it (see ``orchestrator.history.retention``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import Draft
from orchestrator.core.task.system_facts import ComputerBackedUp
from orchestrator.core.wire.wire import ComputerId


@dataclass(frozen=True)
class BackupRow:
    """A backup that is kept."""

    fact: ComputerBackedUp
    by: str
    """Who made it."""
    at: datetime


class BlobMark(NamedTuple):
    """What is known of a blob without reading it."""

    sha256: str
    size: int
    lists: bool
    """Whether it may be the lines of a directory, which name further blobs."""
    touched: datetime
    """When it was put or counted on last; in 1970: before that was written down."""


class Retention(Protocol):
    """Backups, and the removal of what is no longer needed."""

    async def touch_blobs(self, names: Sequence[str]) -> dict[str, int]:
        """The sizes in bytes of those blobs of these that are there; they count as put again now."""

    async def list_blobs(self, after: str | None = None, limit: int = 5000) -> list[BlobMark]:
        """The blobs by their names, unread, in pages as those of ``KeptRecords``."""

    async def sweep_blobs(self, names: Sequence[str], before: datetime) -> dict[str, int]:
        """Remove those blobs of these that nobody put or touched since ``before``; their sizes in bytes."""

    async def prune_task(self, note: Draft) -> bool:
        """Remove the task that a ``task_pruned`` names: items, row, requests, grants, claims; with the note.

        False, and nothing is done: it is not as the note has it, it is not over or somebody still works on it (such
        as on a call whose outcome nobody heard), it is pinned, a standing approval that was given in it can still be
        used, or a task that is not over or is pinned refers to it. Numbers of computers stay.
        Raises InvalidRequest.
        """

    async def pruned_at(self, task_id: TaskId) -> datetime | None:
        """When a task was pruned; None: it was not."""

    async def add_backup(self, note: Draft) -> None:
        """Keep the backup that a ``computer_backed_up`` tells of, with the note in the system stream.

        Added again with the same note, nothing changes. Raises InvalidRequest; Conflict when a blob that it needs is
        not there, or another backup has its id.
        """

    async def remove_backup(self, note: Draft) -> bool:
        """Remove the backup that a ``backup_removed`` names, with the note; False: it is not there.

        Its blobs stay until they are swept. Raises InvalidRequest.
        """

    async def list_backups(self, computer: ComputerId | None = None) -> list[BackupRow]:
        """The backups of a computer (None: of all), the newest first."""
