"""The policy's file: loaded at the start or nothing starts, looked at again while the orchestrator runs.

A changed file is loaded beside the policy in force and takes its place in one assignment, so that an
evaluation sees one or the other (hitl.md P14). A file that cannot be loaded changes nothing but the
alert. What waits for a person is judged again by the new policy (P15).
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol

from orchestrator.core.errors import OrchestratorError, PolicyInvalid
from orchestrator.core.policy import CustomPolicy, Policy
from orchestrator.core.system_facts import PolicyLoaded, PolicyRefused
from orchestrator.policy_plugins import load_with_plugins

logger = logging.getLogger(__name__)

LOOK_S: Final = 1.0
"""How soon a changed file is noticed; a look is one stat."""


class Told(Protocol):
    """Records what came of a look; ``content``: the bytes of a policy that came into force, to be kept."""

    async def __call__(self, fact: PolicyLoaded | PolicyRefused, *, content: bytes = b"") -> object:
        """Record it."""


class PolicyFile:
    """The policy in force, and the file that it comes from. Raises PolicyInvalid: without a policy nothing starts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes = _read(path)
        self._in_force = _loaded(path, self._bytes)
        self.alert = ""
        """Why the file as it is now could not be loaded; empty: it is what is in force."""
        self._seen = _stamp(path)

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._in_force[0]

    @property
    def custom(self) -> tuple[CustomPolicy, ...]:
        """The plugins that it names."""
        return self._in_force[1]

    @property
    def content(self) -> bytes:
        """The file's bytes as they came into force."""
        return self._bytes

    @property
    def loaded(self) -> PolicyLoaded:
        """The policy in force, as it is recorded."""
        return self._fact("")

    async def watch(self, told: Told, changed: Callable[[], Awaitable[object]]) -> None:
        """Look at the file until canceled; ``told`` records what came of it, ``changed`` judges again what waits."""
        while True:
            await asyncio.sleep(LOOK_S)
            stamp = _stamp(self.path)
            if stamp != self._seen:
                self._seen = stamp
                try:
                    await self.reload(told, changed)
                except OrchestratorError as error:
                    logger.error("after the policy changed: %s", error)  # noqa: TRY400 - it explains itself

    async def reload(self, told: Told, changed: Callable[[], Awaitable[object]]) -> str:
        """Load the file again if its bytes changed; the answer is the alert, empty when all is well."""
        try:
            data = _read(self.path)
            if data == self._bytes and not self.alert:
                return ""
            loaded = await asyncio.to_thread(_loaded, self.path, data)
        except PolicyInvalid as error:
            self.alert = str(error)
            logger.error("the policy stays as it was: %s", error)  # noqa: TRY400 - it explains itself
            await told(PolicyRefused(source=str(self.path), reason=str(error)))
            return self.alert
        previous, self._bytes, self.alert = self.policy.version, data, ""
        self._in_force = loaded
        logger.info("policy %s is in force, after %s", self.policy.version, previous)
        await told(self._fact(previous), content=data)
        await changed()
        return ""

    def _fact(self, previous: str) -> PolicyLoaded:
        sha256 = hashlib.sha256(self._bytes).hexdigest()
        return PolicyLoaded(source=str(self.path), policy_version=self.policy.version, sha256=sha256, previous=previous)


def _loaded(path: Path, data: bytes) -> tuple[Policy, tuple[CustomPolicy, ...]]:
    try:
        return load_with_plugins(data.decode("utf-8"), source=str(path))
    except UnicodeDecodeError as error:
        raise _unreadable(path, str(error)) from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None


def _unreadable(path: Path, why: str) -> PolicyInvalid:
    return PolicyInvalid(
        f"The policy {path} cannot be read: {why}.", remedy="Restore it; a new data directory gets the shipped one."
    )


def _stamp(path: Path) -> tuple[int, ...] | None:
    """What changes when a file does; None: it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
