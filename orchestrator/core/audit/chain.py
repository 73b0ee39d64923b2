"""Whether a journal is as it was written: the chain of one stream, and the heads of all.

Theory. Each item's hash is over its content and the hash before it. So a changed, removed, inserted or moved item
breaks the chain. Two attacks do not break it: all later items are written again, or the chain is cut short. Heads that
are kept elsewhere show both: the head in the task's row, the heads of a signed checkpoint, and a digest over all heads
that a person wrote down (promise A3). The tables beside the items follow from the items:
:mod:`orchestrator.core.audit.tables`.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from orchestrator.core.errors import InvalidRequest, NewerSchema
from orchestrator.core.policy import BUILT_IN_CATALOG
from orchestrator.core.task import facts
from orchestrator.core.task.items import (
    GENESIS_HASH,
    AgentTaskItem,
    canonical_json,
    decode_item,
    hash_holds,
    sealed_hashes,
)
from orchestrator.core.task.system_facts import PolicyLoaded
from orchestrator.core.task.task import AgentTask
from orchestrator.core.values import Value

# -- What a journal's rows say, read without trust: the item, whether its bytes are what was sealed, and what it
# names
#
# Theory. Two texts may be read as one item: with a key twice, with blanks, in another order. Each reader might
# take them for something else, so only one text is right: the very bytes that were sealed. Whatever an item says
# must be in the store beside it (blobs, the row of its request) is named here.

ABSENT: Final = "absent"


class Written(NamedTuple):
    """One row of the journal as it was read."""

    item: AgentTaskItem | None
    """None: it cannot be read."""
    why: str = ""
    """The reason why the stream cannot be read."""
    sound: bool = False
    """Whether its hash is over its content."""
    canonical: bool = False
    """Whether its bytes are the ones that were sealed."""
    newer: tuple[str, str] | None = None
    """For an item that is whole and that only a newer version can read: its hash and the one before.

    None: it is not.
    """


class Named(NamedTuple):
    """A blob that an item names."""

    sha256: str
    size: int | None
    """The size in bytes; None: the item does not say."""
    what: str
    """The name of the blob, such as ``the model's reply``."""
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
    canonical = data == head + text[1:]
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
    """Whether the old bytes of what a call changes were put into the store."""
    record = None if task is None else task.call(fact.call_id)
    spec = None if record is None else BUILT_IN_CATALOG.get(record.call.tool)
    return spec is not None and spec.recovery == "by_state"


# -- Whether a journal is as it was written: the chain of one stream, and the heads of all

SYSTEM_STREAM: Final = "system"
"""The stream of what belongs to no task."""

Anchor = tuple[int, str]
"""A version of a stream and the hash of its item, as noted outside of the stream."""

FaultKind = Literal[
    "edited", "missing", "duplicate", "reordered", "foreign", "unchained", "cut", "rewritten", "unnoted", "gone",
    "unreadable", "forged", "recoded", "misfiled", "impossible", "row", "blob", "request", "grant", "token", "computer",
    "backup", "newer", "policy", "agreed", "directory", "outbox", "schema", "damage",
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
    """The faults of one stream's items, in the order in which the store gives them; empty: nothing.

    ``stream`` empty: that of the first item. ``anchor``: the head in a checkpoint; the stream may have grown since.
    ``head``: the head in the stream's row, where it must end. None: nobody noted it.
    """
    check = StreamCheck(stream or (str(items[0].task_id) if items else ""), anchor)
    for item in items:
        check.take(item, sound=hash_holds(item))
    return check.end(head)


class _Link(NamedTuple):
    """An item next to a gap, as the chain knows it."""

    hash: str
    prev_hash: str
    joined: bool
    """Whether it was compared with the one before it, or cannot be."""


class StreamCheck:
    """Checks the chain of one stream, item by item as the store gives them.

    The memory for it does not grow with the stream.

    Only the item ids, each of which may come once, and the items around gaps are kept. ``anchor`` as in
    :func:`verify_stream`; ``away``: hashes of its items by their versions, as they left the host.
    """

    def __init__(
        self, stream: str, anchor: Anchor | None = None, away: Mapping[int, str] = MappingProxyType({})
    ) -> None:
        self.stream = stream
        self.faults: list[Fault] = []
        self._away = away
        self._anchor = anchor
        self._anchored = ""
        """The hash of the item at the anchor's version; empty: it did not come, or cannot be read."""
        self._last, self._hash = 0, GENESIS_HASH
        """The highest version, and its hash; empty: it cannot be read."""
        self._gaps: list[tuple[int, int]] = []
        self._links: dict[int, _Link] = {}
        self._ids: dict[str, int] = {}

    def take(self, item: AgentTaskItem, *, sound: bool) -> None:
        """The next item; ``sound``: it is what was sealed."""
        if item.task_id != self.stream:
            self.fault(item.version, "foreign", f"an item of {item.task_id}")
            return
        if not sound:
            self.fault(item.version, "edited", "its content is not what was sealed")
        self._named(item)
        self._place(item.version, item.hash, item.prev_hash, joins=sound)

    def skip(self, version: int, why: str) -> None:
        """The next item, of which only its row's version can be read."""
        self.fault(version, "unreadable", f"it cannot be read: {why.rstrip('.')}")
        self._place(version, "", "", joins=False)

    def pass_by(self, version: int, digest: str, prev_hash: str) -> None:
        """The next item, which is whole, and says what only a newer version knows."""
        self.fault(version, "newer", "a newer version wrote it, and only that one can tell what it says")
        self._place(version, digest, prev_hash, joins=True)

    def end(self, head: Anchor | None) -> list[Fault]:
        """All faults of it; ``head`` as in :func:`verify_stream`."""
        for first, last in self._gaps:
            more = "it was taken out" if first == last else f"it and all up to version {last} were taken out"
            self.fault(first, "missing", more)
        for version, link in sorted(self._links.items()):
            before = self._links.get(version - 1)
            if not link.joined and (before is not None or version == 1):
                self._join(version, link.prev_hash, GENESIS_HASH if before is None else before.hash)
        if head is not None:
            self._off_head(*head)
        if self._anchor is not None:
            self._off_anchor(*self._anchor)
        if (newest := max(self._away, default=0)) > self._last:
            why = (
                f"the items end before it, but the hash of version {newest} left the host: an older store and "
                "checkpoint were put back together, or the end was cut off"
            )
            self.fault(self._last + 1, "cut", why)
        return self.faults

    def fault(self, version: int, what: FaultKind, why: str) -> None:
        """One thing that is wrong, in words that follow a colon."""
        self.faults.append(fault_of(self.stream, version, what, why))

    def _named(self, item: AgentTaskItem) -> None:
        earlier = self._ids.setdefault(item.item_id, item.version)
        if earlier != item.version:
            self.fault(item.version, "duplicate", f"it has the item id of version {earlier}")

    def _place(self, version: int, digest: str, prev_hash: str, *, joins: bool) -> None:
        """Where it is in the order, and whether it follows from the one before."""
        if version == self._last + 1:
            if joins:
                self._join(version, prev_hash, self._hash)
        elif version > self._last:
            self._links.setdefault(self._last, _Link(self._hash, "", joined=True))
            self._gaps.append((self._last + 1, version - 1))
            self._links[version] = _Link(digest, prev_hash, joined=not joins)
        else:
            if version < self._last:
                self.fault(version, "reordered", f"it comes after version {self._last}")
            if not self._fills(version):
                self.fault(version, "duplicate", "its version comes twice")
                return
            self._links[version] = _Link(digest, prev_hash, joined=not joins)
        if version > self._last:
            self._last, self._hash = version, digest
        if self._anchor is not None and version == self._anchor[0]:
            self._anchored = digest
        if digest and self._away.get(version, digest) != digest:
            self.fault(version, "rewritten", "it is not the item whose hash left the host")

    def _fills(self, version: int) -> bool:
        """Whether it belongs into a gap, which is then smaller; False: its version was there."""
        for place, (first, last) in enumerate(self._gaps):
            if first <= version <= last:
                rest = [(first, version - 1), (version + 1, last)]
                self._gaps[place : place + 1] = [one for one in rest if one[0] <= one[1]]
                return True
        return False

    def _join(self, version: int, prev_hash: str, expected: str) -> None:
        if expected and prev_hash != expected:
            what = "it is not the beginning" if version == 1 else f"it does not follow from version {version - 1}"
            self.fault(version, "unchained", f"{what}: one of the two was put in its place")

    def _off_head(self, version: int, digest: str) -> None:
        last = self._last
        if last < version:
            self.fault(last + 1, "cut", f"the items end before it, and the row knows version {version}")
        elif last > version:
            self.fault(version + 1, "unnoted", f"the row knows nothing after version {version}")
        elif self._hash not in {digest, ""}:
            self.fault(version, "rewritten", "it is not the head that the row has")

    def _off_anchor(self, version: int, digest: str) -> None:
        last = self._last
        if last < version:
            why = f"the checkpoint has version {version}: it was cut, or the store was restored from an older backup"
            self.fault(last + 1, "cut", why)
        elif self._anchored not in {digest, ""}:
            self.fault(version, "rewritten", "it is not the item that the checkpoint has")


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


class HeadsDigest:
    """One sha256 over heads that come some at a time, sorted by the names of their streams."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256(b"[")
        self._comma = b""

    def take(self, heads: Mapping[str, Anchor]) -> None:
        """The next heads; their names are greater than all before."""
        for stream, (version, digest) in sorted(heads.items()):
            self._hash.update(self._comma + canonical_json([stream, version, digest]))
            self._comma = b","

    def value(self) -> str:
        """The digest over all that came so far."""
        whole = self._hash.copy()
        whole.update(b"]")
        return whole.hexdigest()


def heads_digest(heads: Mapping[str, Anchor]) -> str:
    """One sha256 over the heads of all streams: what can be written down elsewhere and compared later."""
    digest = HeadsDigest()
    digest.take(heads)
    return digest.value()


# -- faults ------------------------------------------------------------------------------


def fault_of(stream: str, version: int, what: FaultKind, why: str) -> Fault:
    """A fault that shows at one item; ``why`` follows a colon."""
    return Fault(stream=stream, version=version, what=what, detail=f"Version {version} of {stream}: {why}.")


def gone(stream: str, anchor: Anchor, witness: str = "the checkpoint has") -> Fault:
    """The fault of a stream that the store lacks; ``witness`` begins the words about who has it."""
    detail = (
        f"The whole of {stream} is gone; {witness} {anchor[0]} versions of it. "
        "It was deleted, or the store was restored from an older backup."
    )
    return Fault(stream=stream, version=0, what="gone", detail=detail)


def beside(stream: str, what: FaultKind, detail: str) -> Fault:
    """A fault beside the items, said in a whole sentence."""
    return Fault(stream=stream, version=0, what=what, detail=detail)
