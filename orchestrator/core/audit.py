"""Whether a journal is as it was written: the chain of one stream, and the heads of all.

Theory. Each item's hash is over its content and the hash before it, so nothing inside a chain can be
changed, taken out, put in or moved without breaking it, except by whoever writes the whole rest
anew, and a chain that is cut short is a chain still. Against both there is only what was noted
elsewhere: the head that the task's row has, the heads of a signed checkpoint, and a digest over all
heads that somebody wrote down (hitl.md A3).
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from orchestrator.core.items import GENESIS_HASH, AgentTaskItem, canonical_json, hash_holds
from orchestrator.core.values import Value

SYSTEM_STREAM: Final = "system"
"""The stream of what belongs to no task."""

Anchor = tuple[int, str]
"""A version of a stream and the hash of its item, as noted outside of the stream."""

FaultKind = Literal[
    "edited", "missing", "duplicate", "reordered", "foreign", "unchained", "cut", "rewritten", "unnoted", "gone",
    "unreadable", "forged",
]  # fmt: skip


class Fault(Value):
    """One thing that is not as it was written."""

    stream: str
    """Empty: it concerns no stream."""
    version: int
    """Where it shows; 0: in the stream as a whole."""
    what: FaultKind
    detail: str
    """A sentence."""


def verify_stream(
    items: Sequence[AgentTaskItem], *, stream: str = "", anchor: Anchor | None = None, head: Anchor | None = None
) -> list[Fault]:
    """What is wrong with one stream's items, in the order in which the store gives them; empty: nothing.

    ``stream`` empty: that of the first item. ``anchor``: what a checkpoint has of it, and it may have
    grown since. ``head``: what its row has, and it ends there. None: nobody noted it.
    """
    name = stream or (str(items[0].task_id) if items else "")
    own = [item for item in items if item.task_id == name]
    faults = [_fault(name, one.version, "foreign", f"an item of {one.task_id}") for one in items if one.task_id != name]
    faults += _misplaced(name, own)
    by_version: dict[int, AgentTaskItem] = {}
    for item in own:
        by_version.setdefault(item.version, item)
    faults += _gaps(name, by_version)
    faults += _broken(name, by_version)
    if head is not None:
        faults += _off_head(name, by_version, head)
    if anchor is not None:
        faults += _off_anchor(name, by_version, anchor)
    return faults


def verify_onward(items: Sequence[AgentTaskItem], anchor: Anchor) -> bool:
    """Whether items that begin at an anchor's version are its item and what was chained to it since."""
    if not items or (items[0].version, items[0].hash) != anchor:
        return False
    previous = items[0].prev_hash
    for expected, item in enumerate(items, start=anchor[0]):
        if item.version != expected or item.prev_hash != previous or not hash_holds(item):
            return False
        previous = item.hash
    return True


def heads_digest(heads: Mapping[str, Anchor]) -> str:
    """One sha256 over the heads of all streams: what can be written down elsewhere and compared later."""
    listed = [[stream, version, digest] for stream, (version, digest) in sorted(heads.items())]
    return hashlib.sha256(canonical_json(listed)).hexdigest()


# -- the chain ---------------------------------------------------------------------------


def _misplaced(stream: str, items: Iterable[AgentTaskItem]) -> list[Fault]:
    """Items that come twice or out of their order."""
    faults: list[Fault] = []
    versions: set[int] = set()
    ids: dict[str, int] = {}
    last = 0
    for item in items:
        if item.version in versions:
            faults.append(_fault(stream, item.version, "duplicate", "its version comes twice"))
        elif item.item_id in ids:
            earlier = ids[item.item_id]
            faults.append(_fault(stream, item.version, "duplicate", f"it has the item id of version {earlier}"))
        if item.version < last:
            faults.append(_fault(stream, item.version, "reordered", f"it comes after version {last}"))
        versions.add(item.version)
        ids.setdefault(item.item_id, item.version)
        last = max(last, item.version)
    return faults


def _gaps(stream: str, items: Mapping[int, AgentTaskItem]) -> list[Fault]:
    faults: list[Fault] = []
    before = 0
    for version in sorted(items):
        first, last = before + 1, version - 1
        if last == first:
            faults.append(_fault(stream, first, "missing", "it was taken out"))
        elif last > first:
            faults.append(_fault(stream, first, "missing", f"it and all up to version {last} were taken out"))
        before = version
    return faults


def _broken(stream: str, items: Mapping[int, AgentTaskItem]) -> list[Fault]:
    """Items that are not what was sealed, or that do not follow from the one before."""
    faults: list[Fault] = []
    for version, item in sorted(items.items()):
        if not hash_holds(item):
            faults.append(_fault(stream, version, "edited", "its content is not what was sealed"))
            continue
        before = items.get(version - 1)
        expected = GENESIS_HASH if version == 1 else before.hash if before is not None else None
        if expected is not None and item.prev_hash != expected:
            what = "it is not the beginning" if version == 1 else f"it does not follow from version {version - 1}"
            faults.append(_fault(stream, version, "unchained", f"{what}: one of the two was put in its place"))
    return faults


def _off_head(stream: str, items: Mapping[int, AgentTaskItem], head: Anchor) -> list[Fault]:
    version, digest = head
    last = max(items, default=0)
    if last < version:
        return [_fault(stream, last + 1, "cut", f"the items end before it, and the row knows version {version}")]
    if last > version:
        return [_fault(stream, version + 1, "unnoted", f"the row knows nothing after version {version}")]
    if items and items[last].hash != digest:
        return [_fault(stream, version, "rewritten", "it is not the head that the row has")]
    return []


def _off_anchor(stream: str, items: Mapping[int, AgentTaskItem], anchor: Anchor) -> list[Fault]:
    version, digest = anchor
    last = max(items, default=0)
    if last < version:
        why = f"the checkpoint has version {version}: it was cut, or the store was restored from an older backup"
        return [_fault(stream, last + 1, "cut", why)]
    present = items.get(version)
    if present is not None and present.hash != digest:
        return [_fault(stream, version, "rewritten", "it is not the item that the checkpoint has")]
    return []


def _fault(stream: str, version: int, what: FaultKind, why: str) -> Fault:
    return Fault(stream=stream, version=version, what=what, detail=f"Version {version} of {stream}: {why}.")


def gone(stream: str, anchor: Anchor) -> Fault:
    """The fault of a stream that a checkpoint has and the store has not."""
    detail = (
        f"The whole of {stream} is gone; the checkpoint has {anchor[0]} versions of it. "
        "It was deleted, or the store was restored from an older backup."
    )
    return Fault(stream=stream, version=0, what="gone", detail=detail)


def unreadable(stream: str, why: str) -> Fault:
    """The fault of a stream with an item that no decoder takes."""
    return Fault(stream=stream, version=0, what="unreadable", detail=f"{stream} cannot be read: {why}")
