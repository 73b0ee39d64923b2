"""Signs the heads of all streams now and then, while the orchestrator runs and when it stops."""

import asyncio
import hashlib
import heapq
import hmac
import logging
import os
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

import httpx2

from orchestrator.core.audit.chain import SYSTEM_STREAM, Anchor, HeadsDigest
from orchestrator.core.errors import InvalidRequest, NewerSchema, OrchestratorError
from orchestrator.core.task.system_facts import NodeStopped
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.tasks import TaskService
from orchestrator.history.audit import Checkpoint, Checkpoints, News, lines_of, make_checkpoint, news_of

# -- Sends the heads of streams to places that an intruder on this host does not reach: syslog, another mount, a
# webhook
#
# Theory. A line is sent after each checkpoint with what changed since the place has taken the one before; after a
# start all is sent again, some thousands of heads at a time. A place that is away holds up nothing: its lines come
# with the next checkpoint, and the log says so once.

logger = logging.getLogger(__name__)

KEY_NAME: Final = "heads.key"
SIGNATURE: Final = "X-CC-Orchestrator-Signature"
_WITHIN_S: Final = 10.0
_SYSLOG_PORT: Final = 514
_NOTICE_OF_AUDIT: Final = 13 * 8 + 5
_LOCAL_SYSLOG: Final = "/dev/log"
_AT_ONCE: Final = 4000
"""Heads in memory, and in one message to a webhook: half a megabyte."""


class Place(Protocol):
    """Where lines go."""

    @property
    def name(self) -> str:
        """The name as a person wrote it."""

    def send(self, lines: Sequence[str], at: datetime) -> None:
        """Have them taken. Blocks. Raises OSError, httpx2.HTTPError."""


@dataclass(frozen=True)
class FilePlace:
    """A file that grows, such as one on another mount."""

    name: str

    def send(self, lines: Sequence[str], at: datetime) -> None:
        del at
        descriptor = os.open(self.name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write("".join(f"{line}\n" for line in lines).encode())
            file.flush()
            os.fsync(file.fileno())


@dataclass(frozen=True)
class SyslogPlace:
    """A syslog server by UDP (RFC 5424), or this host's own. Nobody can know whether it took a line."""

    name: str
    address: str | tuple[str, int]

    def send(self, lines: Sequence[str], at: datetime) -> None:
        local = isinstance(self.address, str)
        head = f"<{_NOTICE_OF_AUDIT}>1 {at.isoformat()} {socket.gethostname()} cc-orchestrator {os.getpid()} heads - "
        if isinstance(self.address, str):
            family = socket.AF_UNIX
        else:
            family = socket.getaddrinfo(*self.address, type=socket.SOCK_DGRAM)[0][0]
        with socket.socket(family, socket.SOCK_DGRAM) as opened:
            opened.settimeout(_WITHIN_S)
            opened.connect(self.address)
            for line in lines:
                # What listens on this host wants the older form, without the name of the host.
                opened.send((f"<{_NOTICE_OF_AUDIT}>cc-orchestrator: {line}" if local else head + line).encode())


@dataclass(frozen=True)
class WebhookPlace:
    """An endpoint that takes lines as plain text, signed (HMAC-SHA256) with the key in ``heads.key``."""

    name: str
    key: bytes

    def send(self, lines: Sequence[str], at: datetime) -> None:
        body = "".join(f"{line}\n" for line in lines).encode()
        signed = f"sha256={hmac.new(self.key, body, hashlib.sha256).hexdigest()}"
        headers = {SIGNATURE: signed, "Content-Type": "text/plain; charset=utf-8", "Date-Sent": at.isoformat()}
        answer = httpx2.post(self.name, content=body, headers=headers, timeout=_WITHIN_S, trust_env=False)
        answer.raise_for_status()


def places_of(setting: str, directory: Path) -> list[Place]:
    """The places that the setting ``heads_to`` names. Raises InvalidRequest."""
    return [_place(one.strip(), directory) for one in setting.split(",") if one.strip()]


def _place(name: str, directory: Path) -> Place:
    found = urlsplit(name)
    if name == "syslog:":
        return SyslogPlace(name, _LOCAL_SYSLOG)
    if found.scheme == "syslog" and found.hostname:
        return SyslogPlace(name, (found.hostname, found.port or _SYSLOG_PORT))
    if found.scheme in {"http", "https"} and found.hostname:
        return WebhookPlace(name, _key(directory / KEY_NAME))
    if Path(name).is_absolute():
        parent = Path(name).parent
        if parent.is_dir() and parent.stat().st_dev == directory.stat().st_dev:
            logger.warning("%s is on the disk of the data directory: who can put back one can put back both.", name)
        return FilePlace(name)
    raise InvalidRequest(
        f"heads_to names {name!r}, which is not a place for heads.",
        remedy="Name syslog:, syslog://HOST:PORT, https://HOST/PATH or a whole path such as /mnt/other/heads.log.",
    )


def _key(path: Path) -> bytes:
    """The key of webhooks, made when it is first needed; the receiver of the lines gets a copy."""
    try:
        return bytes.fromhex(path.read_text("ascii").strip())
    except FileNotFoundError:
        key = secrets.token_bytes(32)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(key.hex() + "\n")
        return key
    except (OSError, ValueError):
        raise InvalidRequest(
            f"{path}, which signs the heads for webhooks, cannot be read.", remedy="Move it away for a new one."
        ) from None


@dataclass
class _Sent:
    """What one place has, and has not."""

    has: dict[str, Anchor] = field(default_factory=dict)
    """The heads that it took last."""
    waiting: dict[str, Anchor] = field(default_factory=dict)
    """The heads that it has not taken yet."""
    first: str | None = ""
    """The stream from which on it has not got all that a start sends; None: it has."""
    failed: str = ""


@dataclass
class HeadsAway:
    """The places, and what each of them has."""

    places: Sequence[Place] = ()
    _sent: dict[str, _Sent] = field(default_factory=dict)

    async def send(self, heads: Mapping[str, Anchor], at: datetime, key: str, checkpoints: Checkpoints) -> None:
        """Send each place what it has not of these, and what it did not take before.

        After the start also all that the last checkpoint has, once it takes anything.
        """
        for place in self.places:
            sent = self._sent.setdefault(place.name, _Sent())
            sent.waiting.update({stream: anchor for stream, anchor in heads.items() if sent.has.get(stream) != anchor})
            try:
                if sent.waiting:
                    await asyncio.to_thread(place.send, lines_of(sent.waiting, "", at, key), at)
                    sent.has, sent.waiting = sent.waiting, {}
                if sent.first is not None:
                    await asyncio.to_thread(_send_all, place, sent, checkpoints, at, key)
            except (OSError, httpx2.HTTPError) as error:
                why = (str(error) or type(error).__name__).rstrip(".")
                if not sent.failed:
                    logger.error("the heads of the audit do not reach %s: %s. They are sent again.", place.name, why)  # noqa: TRY400 - it explains itself
                sent.failed = why
            else:
                if sent.failed:
                    logger.info("the heads of the audit reach %s again", place.name)
                sent.failed = ""

    def alerts(self) -> list[str]:
        """What does not get there, for people."""
        failed = {name: sent.failed for name, sent in self._sent.items() if sent.failed}
        return [f"The heads of the audit do not reach {name}: {why}." for name, why in failed.items()]


def _send_all(place: Place, sent: _Sent, checkpoints: Checkpoints, at: datetime, key: str) -> None:
    """All heads, some at a time; where that fails, the next try goes on from there."""
    signed = checkpoints.read()
    assert signed is not None, "heads are sent after a checkpoint was made of them"
    digest, newer = HeadsDigest(), dict(sent.has)
    for part in _parts_of(signed, newer, ""):
        digest.take(part)
    for part in _parts_of(signed, newer, sent.first or ""):
        place.send(lines_of(part, digest.value(), at, key), at)
        sent.first = f"{max(part)}\0"
    sent.first = None


def _parts_of(signed: Checkpoint, newer: Mapping[str, Anchor], first: str) -> Iterator[dict[str, Anchor]]:
    """The heads from a stream on, by name; ``newer``: those that came to it since."""
    others = sorted(name for name in newer if name not in signed.streams)
    names = (name for name in heapq.merge(signed.names(), others) if name >= first)
    while part := {name: newer.get(name) or signed.streams[name] for name in islice(names, _AT_ONCE)}:
        yield part


# -- Signs the heads of all streams now and then, while the orchestrator runs and when it stops


EVERY_S: Final = 60.0
"""An item that is cut off a journal within this time after it was written leaves no trace in a checkpoint."""

DUTY: Final = "checkpoints"
_TURNS: Final = 3
"""Turns that the node with this singleton job may miss before another node takes it."""
_SLACK: Final = timedelta(minutes=5)
"""How far the clocks of nodes may be apart."""


@dataclass
class CheckpointKeeper:
    """Makes a checkpoint of a store whenever a task has changed since the last."""

    service: TaskService
    checkpoints: Checkpoints
    every_s: float = EVERY_S
    away: HeadsAway = field(default_factory=HeadsAway)
    _since: datetime | None = None
    """The time from which changes are looked at; None: that of the last checkpoint."""
    _first: str = ""
    """The stream from which on some are looked at although nothing says that they changed."""
    _own: Anchor | None = None
    """The note of the last checkpoint where nothing came between: it is an item too, and alone it is not news."""
    _heard: dict[ComputerId, tuple[str, int]] = field(default_factory=dict)
    """What the last checkpoints noted of computers."""

    async def keep(self) -> None:
        """Make checkpoints until canceled."""
        while True:
            await asyncio.sleep(self.every_s)
            await self.make()

    async def stopped(self) -> None:
        """Record the end of the node and sign what it leaves behind."""
        try:
            await self.service.record(NodeStopped(node=self.service.duties.node))
        except OrchestratorError as error:
            logger.error("the stop is not recorded: %s", error)  # noqa: TRY400 - it explains itself
        await self.make()
        await self.service.duties.leave(DUTY)

    async def make(self) -> None:
        """Make one if there is something new; one that may not be made is an error of the log, not the end.

        One node does it for all, as long as it lives: each has a file and a key of its own, and the note of a
        checkpoint would be news for the others.
        """
        try:
            if not await self.service.duties.take(DUTY, _TURNS * self.every_s):
                self._since = None
                return
            await self._make()
        except NewerSchema as error:
            logger.info("a node of a newer version is to make the checkpoints: %s", error)
            await self.service.duties.leave(DUTY)
        except OrchestratorError as error:
            logger.error("no checkpoint of the audit: %s", error)  # noqa: TRY400 - it explains itself

    async def _make(self) -> None:
        now, store = self.service.clock.now(), self.service.store
        known = await asyncio.to_thread(self.checkpoints.known)
        since = self._since or (None if known is None else known.at)
        # Where the clock was put back, what came since has an earlier time.
        since = None if since is None else min(since, now) - _SLACK
        news = await news_of(store, self.checkpoints, since, self._first)
        if not news.missing and news.changed == ({} if self._own is None else {SYSTEM_STREAM: self._own}):
            await self._sent_away(news.changed)
        else:
            await self._signed(news)
        self._since, self._first = now, news.next

    async def _signed(self, news: News) -> None:
        heard = await self._news_of_computers()
        made = await make_checkpoint(self.service.store, self.checkpoints, self.service.clock.now(), news=news)
        note = await self.service.record(made.model_copy(update={"heard": heard}))
        self._heard |= heard
        known = await asyncio.to_thread(self.checkpoints.known)
        signed = {} if known is None else known.streams
        own = (note.version, note.hash)
        self._own = own if note.version == signed.get(SYSTEM_STREAM, (0, ""))[0] + 1 else None
        await self._sent_away({**news.changed, SYSTEM_STREAM: own})

    async def _sent_away(self, heads: Mapping[str, Anchor]) -> None:
        """Only after a checkpoint was made of them: a head that it refuses to sign is not ours."""
        if self.away.places:
            key = await asyncio.to_thread(self.checkpoints.key_fingerprint)
            await self.away.send(heads, self.service.clock.now(), key, self.checkpoints)

    async def _news_of_computers(self) -> dict[ComputerId, tuple[str, int]]:
        """The facts heard of computers since the last note: it rises without an item, and must not fall."""
        records = await self.service.store.list_computers()
        heard = {one.computer: (one.known.boot if one.known else "", one.heard) for one in records if one.heard}
        return {name: said for name, said in heard.items() if self._heard.get(name) != said}
