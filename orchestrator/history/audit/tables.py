"""The tables beside the items, read page by page and compared with the items."""

from collections.abc import Awaitable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from orchestrator.core.audit.chain import Anchor, Fault, beside, files_listed
from orchestrator.core.audit.computers import claim_faults
from orchestrator.core.audit.retention import BackupBook
from orchestrator.core.audit.shared import duty_faults, outbox_faults
from orchestrator.core.audit.tables import MADE_US, Rows
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import KeptBlob, KeptRow, KeptTable
from orchestrator.core.task.system_facts import ComputerBackedUp
from orchestrator.history.audit.stream import PAGE, Books, Records, rows_of, streams_beside

_BEFORE_AND_AFTER: Final[tuple[KeptTable, ...]] = (
    *("grants", "tokens", "computers", "backups", "pruned", "sign_ins", "policies", "agreed", "directory"),
    "secrets",
)


async def rows_beside(store: Records, faults: list[Fault]) -> Mapping[KeptTable, Rows]:
    """The rows of the tables that follow from the items of all streams."""
    found: dict[KeptTable, Rows] = {}
    for table in _BEFORE_AND_AFTER:
        try:
            found[table] = {str(next(iter(row.values()))): row async for row in rows_of(store, table)}
        except OrchestratorError as error:
            faults.append(_unreadable(table, error))
            found[table] = {}
    return found


async def requests_known(store: Records, faults: list[Fault]) -> int:
    """How many requests the table has."""
    try:
        return sum([1 async for _ in rows_of(store, "requests")])
    except OrchestratorError as error:
        faults.append(_unreadable("requests", error))
        return 0


async def looked(table: str, looking: Awaitable[list[Fault]]) -> list[Fault]:
    """What a look at a table finds, or that it cannot be read."""
    try:
        return await looking
    except OrchestratorError as error:
        return [_unreadable(table, error)]


def _unreadable(table: str, error: OrchestratorError) -> Fault:
    return beside("", "unreadable", f"The table {table} cannot be read: {error.message}")


async def faults_beside(
    store: Records, before: Mapping[KeptTable, Rows], books: Books, streams: Collection[str], *, blobs: bool = True
) -> list[Fault]:
    """Where the tables and the items differ, read after the items and ``before`` them; ``blobs``: and all bytes."""
    found: list[Fault] = []
    after = await rows_beside(store, [])
    found += books.grants.faults(before["grants"], after["grants"])
    since, now = books.since, books.now(store.clock)
    found += books.tokens.faults(before["tokens"], after["tokens"], may_lack=since.may_lack)
    found += books.sign_ins.faults(before["sign_ins"], after["sign_ins"], now)
    found += books.computers.faults(before["computers"], after["computers"], since)
    found += await _claims(store, claim_faults(before["computers"], after["computers"], books.work, streams), books)
    found += books.policy.faults(before["policies"], after["policies"])
    found += books.directory.faults(before["directory"], after["directory"])
    found += books.directory.secret_faults(before["secrets"], after["secrets"])
    found += books.agreed.faults(before["agreed"], after["agreed"], since, shared=store.shared)
    found += await looked("duties", _duties(store, now))
    found += await looked("outbox", _outbox(store, now))
    found += await looked("streams", _named_as_tasks(store))
    found += books.pruned.faults(before["pruned"], after["pruned"], streams)
    found += books.backups.faults(before["backups"], after["backups"])
    found += await looked("blobs", _backed_up(store, books.backups))
    return [*found, *(await looked("blobs", _blobs(store, now)) if blobs else ())]


async def _backed_up(store: Records, backups: BackupBook) -> list[Fault]:
    """Backups of which some bytes are not in the store."""
    found: list[Fault] = []
    for name, item in backups.kept.items():
        assert isinstance(item.fact, ComputerBackedUp), "the book takes no other"
        needed = [item.fact.listing]
        if await store.blob_sizes(needed):
            needed += files_listed(await store.get_blob(item.fact.listing))
        missing = len(set(needed)) - len(await store.blob_sizes(needed))
        if missing:
            found.append(beside("", "blob", f"{missing} of the blobs of the backup {name} are not in the store."))
    return found


async def _claims(store: Records, suspects: Mapping[str, list[tuple[str, Fault]]], books: Books) -> list[Fault]:
    """The suspected claims that hold: the task has not moved on since it was read, nor the claim."""
    found: list[Fault] = []
    for task_id, faults in suspects.items():
        row, work = await store.kept_task(task_id), books.work.get(task_id)
        if work is not None and row is not None and row["version"] != work.version:
            continue
        found += [fault for _, fault in faults]
    return found


async def _duties(store: Records, now: int) -> list[Fault]:
    return list(duty_faults({str(row["name"]): row async for row in rows_of(store, "duties")}, now))


async def _outbox(store: Records, now: int) -> list[Fault]:
    return list(outbox_faults({str(row["notice"]): row async for row in rows_of(store, "outbox")}, now))


async def _named_as_tasks(store: Records) -> list[Fault]:
    """Streams with the name of a task: they would hide its head from checkpoints."""
    return [
        beside(name, "row", f"{name} is a task, and a row of the table streams has its name, too.")
        async for row in rows_of(store, "streams")
        if await store.kept_task(name := str(row["stream"])) is not None
    ]


@dataclass(eq=False, repr=False)
class Counted:
    """How many items each stream has, as one goes through the streams by name."""

    store: Records
    unlisted: list[str] = field(default_factory=list)
    """Names that have items, and no row that was known then."""
    _page: list[KeptRow] = field(default_factory=list)
    _after: str | None = None
    _over: bool = False

    async def differing(self, last: str, heads: Mapping[str, Anchor], unread: Collection[str]) -> list[str]:
        """Those of ``unread`` that have more or fewer items than their heads say; all names go up to ``last``."""
        left = set(unread)
        while (row := await self._next()) is not None and (name := str(row["task_id"])) <= last:
            self._page.pop()
            if name not in heads:
                self.unlisted.append(name)
            elif row["items"] == row["last"] == heads[name][0]:
                left.discard(name)
        return sorted(left)

    async def _next(self) -> KeptRow | None:
        if not self._page and not self._over:
            page = await self.store.kept_rows("items", self._after, PAGE)
            last = str(page[-1]["task_id"]) if page else ""
            self._over = not page or (self._after is not None and last <= self._after)
            self._page, self._after = page[::-1], last
        return self._page[-1] if self._page else None

    async def faults(self) -> list[Fault]:
        """Streams that have items, and still no row that knows of them."""
        beside_tasks = {str(row["stream"]) for row in await streams_beside(self.store)} if self.unlisted else set()
        return [
            beside(name, "row", f"{name} has items, and no row: it is in no list, and nobody goes on with it.")
            for name in self.unlisted
            if name not in beside_tasks and await self.store.kept_task(name) is None
        ]


async def _blobs(store: Records, now: int) -> list[Fault]:
    """Blobs whose bytes are not those that they are named after."""
    found: list[Fault] = []
    after: str | None = None
    while page := await store.kept_blobs(after):
        marks = {str(row["sha256"]): row for row in await store.kept_rows("blob_marks", after, PAGE)}
        for one in page:
            if one.name != one.sha256:
                what = f"The bytes that are kept as {one.name} were changed: their sha256 is {one.sha256}."
                found.append(beside("", "blob", what))
            elif one.name in marks and (why := _wrong_mark(one, marks[one.name], now)):
                found.append(beside("", "blob", f"The mark of the blob {one.name} {why}."))
        after = page[-1].name
    return found


def _wrong_mark(blob: KeptBlob, mark: KeptRow, now: int) -> str:
    """The faults of a blob that show without reading it; empty: none.

    A blob that is not said to list files has them swept as if nobody named them.
    """
    touched = mark["touched"]
    if mark["size"] != blob.size:
        return f"says {mark['size']!r} bytes, and it has {blob.size}"
    if mark["lists"] not in (0, 1) or (blob.lists and not mark["lists"]):
        return "says that it names no files, and it does"
    if not isinstance(touched, int) or touched > now + MADE_US:
        return f"says that it was touched at {touched!r}, later than now"
    return ""
