"""The items of a stream as they come out of a store: each is held against its hash and the item before it.

Theory. A decision counts for what its reviewer was shown, and both come from these items. So an item that somebody
changed in the database is never shown and never acted on. The check reads the very bytes that were sealed: one
sha256 per item, where decoding the item costs several times as much.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

from orchestrator.core.audit.kept import read_written
from orchestrator.core.errors import InvalidRequest, JournalBroken
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import GENESIS_HASH, AgentTaskItem, decode_item


def linked(stream: str, rows: Iterable[Any], after_version: int = 0) -> list[AgentTaskItem]:
    """The items of a stream after a version, from their rows in order. Raises JournalBroken, NewerSchema."""
    items: list[AgentTaskItem] = []
    previous = GENESIS_HASH if after_version <= 0 else None
    for version, data in enumerate(rows, start=max(0, after_version) + 1):
        item = _item(stream, version, data)
        if previous not in (None, item.prev_hash):
            raise broken(stream, version)
        previous = item.hash
        items.append(item)
    return items


def check_head(stream: str, last: AgentTaskItem, version: Any, head_hash: Any) -> None:
    """Raises JournalBroken where the last item is not the one that the stream's row names."""
    if (last.version, last.hash) != (version, head_hash):
        raise broken(stream, last.version)


def broken(stream: str, version: int) -> JournalBroken:
    """The refusal of a stream with an item that is not as it was sealed."""
    return JournalBroken(
        f"Item {version} of {stream} is not as it was written: somebody changed the database, or it is damaged. "
        "Nothing of this task is shown, decided or run.",
        remedy="`cc-orchestrator audit verify` names all that was changed. Stop the server and put a backup of the "
        "store in its place.",
        details={"task_id": TaskId(stream), "version": version},
    )


def _item(stream: str, version: int, data: Any) -> AgentTaskItem:
    text = bytes(data).decode(errors="replace") if isinstance(data, bytes | bytearray | memoryview) else str(data)
    try:
        item = decode_item(text)
    except InvalidRequest:
        raise broken(stream, version) from None
    if (item.version, item.task_id) != (version, stream) or not _as_sealed(item, text):
        raise broken(stream, version)
    return item


def _as_sealed(item: AgentTaskItem, text: str) -> bool:
    head = f'{{"hash":"{item.hash}","prev_hash":"{item.prev_hash}",'
    if text.startswith(head):
        return hashlib.sha256(f"{item.prev_hash}{{{text[len(head) :]}".encode()).hexdigest() == item.hash
    # The earliest releases kept the two hashes elsewhere.
    return read_written(text.encode()).sound
