"""Sends the heads of streams to where whoever breaks into this host does not reach: syslog, another mount, a webhook.

Theory. A line is sent after each checkpoint with what changed since the place has taken the one before; after a start
all is sent again. A place that is away holds up nothing: its lines come with the next checkpoint, and the log says so
once.
"""

import asyncio
import hashlib
import hmac
import logging
import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

import httpx2

from orchestrator.core.audit.chain import Anchor
from orchestrator.core.errors import InvalidRequest
from orchestrator.history.audit import lines_of

logger = logging.getLogger(__name__)

KEY_NAME: Final = "heads.key"
SIGNATURE: Final = "X-CC-Orchestrator-Signature"
_WITHIN_S: Final = 10.0
_SYSLOG_PORT: Final = 514
_NOTICE_OF_AUDIT: Final = 13 * 8 + 5
_LOCAL_SYSLOG: Final = "/dev/log"


class Place(Protocol):
    """Where lines go."""

    @property
    def name(self) -> str:
        """As a person wrote it."""

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
    """A syslog server by UDP (RFC 5424), or this host's own. Whether it took a line nobody can know."""

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
            logger.warning("%s is on the disk of the data directory: who puts back one may put back both.", name)
        return FilePlace(name)
    raise InvalidRequest(
        f"heads_to names {name!r}, which is no place for heads.",
        remedy="Name syslog:, syslog://HOST:PORT, https://HOST/PATH or a whole path such as /mnt/other/heads.log.",
    )


def _key(path: Path) -> bytes:
    """The key of webhooks, made when it is first needed; whoever receives the lines gets a copy."""
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
class HeadsAway:
    """The places, and what each of them has."""

    places: Sequence[Place] = ()
    _has: dict[str, dict[str, Anchor]] = field(default_factory=dict)
    _waiting: dict[str, dict[str, Anchor]] = field(default_factory=dict)
    """What a place has not taken yet."""
    _failed: dict[str, str] = field(default_factory=dict)

    async def send(self, heads: Mapping[str, Anchor], at: datetime, key: str, digest: str = "") -> None:
        """Send each place what it has not of these, and what it did not take before; ``digest``: over all heads."""
        for place in self.places:
            has, waiting = self._has.setdefault(place.name, {}), self._waiting.setdefault(place.name, {})
            waiting.update({stream: anchor for stream, anchor in heads.items() if has.get(stream) != anchor})
            if not waiting:
                continue
            try:
                await asyncio.to_thread(place.send, lines_of(waiting, digest, at, key), at)
            except (OSError, httpx2.HTTPError) as error:
                why = str(error) or type(error).__name__
                if self._failed.get(place.name) != why:
                    logger.error("the heads of the audit do not reach %s: %s. They are sent again.", place.name, why)  # noqa: TRY400 - it explains itself
                self._failed[place.name] = why
            else:
                has.update(waiting)
                waiting.clear()
                if self._failed.pop(place.name, None):
                    logger.info("the heads of the audit reach %s again", place.name)

    def alerts(self) -> list[str]:
        """What does not get there, for people."""
        return [f"The heads of the audit do not reach {name}: {why}." for name, why in self._failed.items()]
