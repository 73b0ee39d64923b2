"""The heads of streams as they leave the host: lines that any collector keeps, and that a verification reads again.

Theory. An attacker who can write the store and the checkpoint beside it can put both back together, unseen. Lines that
went to another machine cannot be put back. Each has the heads that changed since the line before; a text that a syslog
server puts before them is passed over. All that they ever said still has to hold, so a store that was put back and grew
again is found by its older lines.
"""

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import AwareDatetime, ConfigDict, Field, ValidationError

from orchestrator.core.audit.chain import SYSTEM_STREAM, Anchor
from orchestrator.core.errors import InvalidRequest, Unreadable
from orchestrator.core.ports import KeptItem, KeptRecords
from orchestrator.core.task.items import GENESIS_HASH, AgentTaskItem, canonical_json, sealed_hashes
from orchestrator.core.values import Value
from orchestrator.history.audit.checkpoint import Checkpoints, replace_file
from orchestrator.history.audit.heads_tree import AuditBroken

# -- The heads of streams as they leave the host: lines that any collector keeps, and that a verification reads
# again

MARK: Final = "cc-orchestrator-heads "
"""The text before the JSON of each line."""
_A_LINE: Final = 8
"""Streams of one line: about a kilobyte, which every syslog takes whole."""

Noted = Mapping[str, Mapping[int, str]]
"""For each stream, the versions whose hash left the host."""


class HeadsLine(Value):
    """One line."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    schema_version: Literal[1] = Field(default=1, alias="schema")
    at: AwareDatetime
    key: str = ""
    """Which checkpoint key the node has, as a fingerprint: it tells nodes and installations apart."""
    all: str = ""
    """The digest over the heads of all streams at that moment, as ``audit verify`` prints it.

    Empty: they were not all looked at, only what changed.
    """
    streams: dict[str, tuple[int, str]]


def lines_of(news: Mapping[str, Anchor], digest: str, at: datetime, key: str) -> list[str]:
    """The lines of what changed; ``digest``: over all that there are, empty: nobody looked."""
    names = sorted(news)
    parts = [names[start : start + _A_LINE] for start in range(0, len(names), _A_LINE)]
    lines = (HeadsLine(at=at, key=key, all=digest, streams={name: news[name] for name in part}) for part in parts)
    return [MARK + canonical_json(one.model_dump(mode="json", by_alias=True)).decode("ascii") for one in lines]


def read_heads(path: Path) -> dict[str, dict[int, str]]:
    """What a file of such lines says, whatever else is in it. Raises InvalidRequest."""
    try:
        text = path.read_text("utf-8", "replace")
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}.", remedy="Name a file of heads.") from None
    found: dict[str, dict[int, str]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        _, mark, told = line.partition(MARK)
        if not mark:
            continue
        try:
            streams = HeadsLine.model_validate_json(told).streams
        except ValidationError:
            raise InvalidRequest(
                f"Line {number} of {path} is cut or was edited: it is not a line of heads.",
                remedy="Take a whole copy from where the heads were sent, or take that line out.",
            ) from None
        for stream, (version, digest) in streams.items():
            # Two lines that differ are told both: at most one of them holds.
            known = found.setdefault(stream, {})
            known[version] = digest if known.get(version, digest) == digest else "two lines differ"
    if not found:
        raise InvalidRequest(f"No line of {path} has heads.", remedy=f"Each begins with {MARK.strip()!r}.")
    return found


# -- The end of the system stream that a node trusts, and the proof that an item belongs to that stream
#
# Theory. A person who can write the database can write any item and any row, and can compute every hash again.
# That person cannot change what a node saw before. So each node of a shared store keeps the version and the hash
# of the newest policy item that it believed, in a file of its data directory; its checkpoint says the same of a
# later moment. An item is proven where the stream leads from the one to the other: no version is missing, and
# each hash is over the content and over the hash before it. A node that has neither begins with the first item.

logger = logging.getLogger(__name__)

TRUSTED_NAME: Final = "audit.system"
_PAGE: Final = 500
_SEALED: Final = re.compile(rb'\{"hash":"([0-9a-f]{64})","prev_hash":"([0-9a-f]{64})",')
_REMEDY: Final = (
    "`cc-orchestrator audit verify` says what was changed. Put the database right, or restore it. If you restored an "
    f"older backup or chose another store yourself, move {TRUSTED_NAME} and audit.checkpoint out of the data directory."
)


class TrustedStream:
    """The system stream of a store, from the newest item that this node trusts."""

    def __init__(self, store: KeptRecords, checkpoints: Checkpoints) -> None:
        self._store = store
        self._checkpoints = checkpoints
        self._path = checkpoints.path.with_name(TRUSTED_NAME)
        self._head: Anchor | None = None
        """None: the files were not read yet."""

    async def prove(self, item: AgentTaskItem | None) -> None:
        """Raises Unreadable unless the stream holds this item and what this node trusts; AuditBroken for the files.

        None: the stream has no such item, which holds only where this node knows nothing of the stream.
        """
        version, digest = await self._known()
        if item is None:
            if version:
                raise _refusal(f"The system stream names no policy, and this node knows its version {version}.")
            return
        wanted = {item.version: item.hash}
        if wanted.setdefault(version, digest) != digest:
            raise _broken(version)
        last, end = max(1, min(wanted)) - 1, max(wanted)
        # The first one follows nothing, or its own hash covers what it follows.
        before = GENESIS_HASH if last == 0 else ""
        while last < end:
            page = await self._store.kept_items(SYSTEM_STREAM, last, _PAGE)
            if not page:
                raise _broken(last + 1)
            last, before = await asyncio.to_thread(_followed, page, last, before, end, wanted)

    async def knows(self, item: AgentTaskItem) -> bool:
        """Whether a proven item is not newer than what this node trusts."""
        return item.version <= (await self._known())[0]

    async def keep(self, item: AgentTaskItem) -> None:
        """Trust a proven item from now on, also after a restart."""
        if await self.knows(item):
            return
        self._head = (item.version, item.hash)
        try:
            await asyncio.to_thread(replace_file, self._path, [json.dumps(self._head).encode() + b"\n"])
        except OSError as error:
            logger.error("%s cannot be written, so it is not trusted after a restart: %s", self._path, error)  # noqa: TRY400 - it explains itself

    async def _known(self) -> Anchor:
        if self._head is None:
            self._head = await asyncio.to_thread(self._read)
        return self._head

    def _read(self) -> Anchor:
        signed = self._checkpoints.known()
        found = (0, GENESIS_HASH) if signed is None else signed.streams.get(SYSTEM_STREAM, (0, GENESIS_HASH))
        try:
            version, digest = json.loads(self._path.read_bytes())
            return max(found, (int(version), str(digest)))
        except FileNotFoundError:
            return found
        except (OSError, ValueError, TypeError):
            raise AuditBroken(
                f"{self._path} cannot be read.", remedy="Once you know why, move it away: the node makes a new one."
            ) from None


def _followed(page: Sequence[KeptItem], last: int, before: str, end: int, wanted: Mapping[int, str]) -> tuple[int, str]:
    """The version and the hash of the last item of a page, up to ``end``. Raises Unreadable."""
    for kept in page:
        if last == end:
            break
        links = _links(kept.data)
        if kept.version != last + 1 or links is None:
            raise _broken(last + 1)
        digest, follows = links
        if before not in ("", follows) or wanted.get(kept.version, digest) != digest:
            raise _broken(kept.version)
        last, before = kept.version, digest
    return last, before


def _links(data: bytes) -> tuple[str, str] | None:
    """An item's hash and the one before it; None: it is not as it was sealed.

    Its bytes are hashed as they are, which is ten times faster than to read them. The earliest releases kept them in
    another order.
    """
    head = _SEALED.match(data)
    if head is None:
        return sealed_hashes(data)
    digest, follows = head.groups()
    sealed = hashlib.sha256(follows + b"{" + data[head.end() :]).hexdigest()
    return (sealed, follows.decode()) if sealed.encode() == digest else None


def _broken(version: int) -> Unreadable:
    return _refusal(f"Version {version} of the system stream does not follow from what this node knows of the stream.")


def _refusal(message: str) -> Unreadable:
    return Unreadable(message, remedy=_REMEDY)
