"""What a journal's rows say, read without trust: the item, whether its bytes are what was sealed, and what it names.

Theory. Two texts may be read as one item: with a key twice, with blanks, in another order. Each
reader might take them for something else, so only one text is right: the very bytes that were sealed.
Whatever an item says must be in the store beside it (blobs, the row of its request) is named here.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from orchestrator.core.errors import InvalidRequest, NewerSchema
from orchestrator.core.policy import BUILT_IN_CATALOG
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem, canonical_json, decode_item, sealed_hashes
from orchestrator.core.task.system_facts import PolicyLoaded
from orchestrator.core.task.task import AgentTask

ABSENT: Final = "absent"


class Written(NamedTuple):
    """One row of the journal as it was read."""

    item: AgentTaskItem | None
    """None: it cannot be read."""
    why: str = ""
    """Why it cannot be read."""
    sound: bool = False
    """Whether its hash is over its content."""
    canonical: bool = False
    """Whether its bytes are the ones that were sealed."""
    newer: tuple[str, str] | None = None
    """Of one that is whole, and that only a newer version can read: its hash and the one before; None: it is not."""


class Named(NamedTuple):
    """A blob that an item names."""

    sha256: str
    size: int | None
    """In bytes; None: the item does not say."""
    what: str
    """Such as ``the model's reply``."""
    is_directory: bool = False
    """Whether it lists the files of a directory, each of which is a blob, too."""
    but: str = ""
    """The sha256 of lines that list those of them that are not kept; empty: all are."""


def read_written(data: bytes) -> Written:
    """The item that the bytes of a row hold, and what is to be thought of them."""
    try:
        item = decode_item(data)
        value: dict[str, Any] = json.loads(data)
    except (InvalidRequest, NewerSchema) as error:
        return Written(None, error.message, newer=sealed_hashes(data))
    content = {name: one for name, one in value.items() if name not in ("hash", "prev_hash")}
    text = canonical_json(content)
    head = b'{"hash":"%b","prev_hash":"%b",' % (item.hash.encode(), item.prev_hash.encode())
    # The earliest releases kept the two hashes in the order of their names.
    canonical = data in (head + text[1:], canonical_json(value))
    return Written(item, "", hashlib.sha256(item.prev_hash.encode() + text).hexdigest() == item.hash, canonical)


def blobs_named(task: AgentTask | None, item: AgentTaskItem) -> Iterator[Named]:
    """The blobs that must be there because of an item; ``task``: as it was before, None: that is not known."""
    match item.fact:
        case facts.ModelReplied() as fact:
            yield Named(fact.raw.sha256, fact.raw.size, "the model's reply")
        case PolicyLoaded() as fact:
            yield Named(fact.sha256, None, "the policy")
        case facts.ToolStarted() as fact:
            for path, sha256 in fact.before.items() if _keeps(task, fact) else ():
                if sha256 != ABSENT:
                    yield Named(sha256, None, f"{path} as it was before", path in fact.directories)
            yield from _watched(fact.watched, "before a program ran", with_files=True)
        case facts.ToolFinished() | facts.ToolSettled() as fact:
            yield from _watched(fact.watched, "after a program ran", with_files=False)


def _watched(watched: facts.Watched | None, when: str, *, with_files: bool) -> Iterator[Named]:
    """The listings of a look at what is watched; only of the one before it are the files kept as well."""
    if watched is not None and watched.gaps:
        yield Named(watched.gaps, None, f"what could not be watched {when}")
    if watched is not None and watched.listing:
        yield Named(watched.listing, None, f"the watched files {when}", with_files, watched.gaps if with_files else "")


def files_listed(manifest: bytes) -> list[str]:
    """The sha256 of each file in the lines that a directory's hash is taken over."""
    lines = [line.split(b"\0") for line in manifest.split(b"\n")]
    return sorted({parts[2].decode("ascii", "replace") for parts in lines if len(parts) == 3 and parts[1] == b"file"})


def _keeps(task: AgentTask | None, fact: facts.ToolStarted) -> bool:
    """Whether the old bytes of what a call changes were put into the store.

    An early release did not; its items lack the field that came with that.
    """
    record = None if task is None else task.call(fact.call_id)
    spec = None if record is None else BUILT_IN_CATALOG.get(record.call.tool)
    return spec is not None and spec.recovery == "by_state" and "directories" in fact.model_fields_set
