"""The port of an audit: what is kept, as it is kept."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

KeptTable = Literal[
    "tasks",
    "grants",
    "tokens",
    "computers",
    "requests",
    "items",
    "backups",
    "pruned",
    "sign_ins",
    "policies",
    "agreed",
    "duties",
    "blob_marks",
]
"""What ``kept_rows`` tells of; of ``items`` only the streams that have any."""
KeptRow = Mapping[str, str | int | None]
"""A row by its columns."""


class KeptItem(NamedTuple):
    """An item as it is kept: its bytes, and the columns beside them."""

    version: int
    item_id: str
    data: bytes


class KeptBlob(NamedTuple):
    """What is kept under a blob's name, which should be its sha256."""

    name: str
    sha256: str
    size: int
    lists: bool
    """Whether it may be the lines of a directory, which name further blobs."""


class KeptRecords(Protocol):
    """What is kept, as it is kept: for an audit, which trusts neither a decoder nor a column.

    Everything comes in pages of at most ``limit``, ordered by key: after ``after``, None: from the first.
    """

    async def kept_items(self, stream: str, after_version: int = 0, limit: int = 500) -> list[KeptItem]:
        """The items of a task or a stream by their rows' versions, undecoded."""

    async def kept_rows(self, table: KeptTable, after: str | None = None, limit: int = 500) -> list[KeptRow]:
        """The rows of a table; the first column is the key.

        Of ``items`` one for each stream, with how many it has and the version of the last.
        """

    async def kept_blobs(self, after: str | None = None, limit: int = 64) -> list[KeptBlob]:
        """The blobs by their names, each read and hashed, one at a time."""

    async def kept_task(self, task_id: str) -> KeptRow | None:
        """A task's row; None: there is none."""

    async def strange(self) -> list[str]:
        """What of the database is not of the store's schema, such as a trigger, in a sentence each."""

    async def odd(self) -> list[str]:
        """Which columns hold a value that no version writes, in a sentence each; where :meth:`strange` is empty."""

    async def blob_sizes(self, names: Sequence[str]) -> dict[str, int]:
        """The sizes in bytes of those blobs of these that are there."""

    async def raised_by(self, request_ids: Sequence[str]) -> dict[str, str]:
        """The tasks that raised those requests of these that are known."""
