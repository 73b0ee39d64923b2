"""A policy as it was loaded from its bytes, and the file that such bytes come from."""

from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.errors import PolicyInvalid
from orchestrator.core.policy import CustomPolicy, Policy
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.runtime.policy_plugins import load_with_plugins


@dataclass(frozen=True)
class LoadedPolicy:
    """A policy that can be used here: its bytes, what they say, and the plugins that they name."""

    source: str
    """Where the bytes came from, such as a file's path."""
    content: bytes
    policy: Policy
    custom: tuple[CustomPolicy, ...] = ()

    @property
    def sha256(self) -> str:
        """Of the bytes."""
        return sha256_hex(self.content)


def load_content(content: bytes, source: str) -> LoadedPolicy:
    """A policy from its bytes. Raises PolicyInvalid."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable(source, str(error)) from None
    return LoadedPolicy(source, content, *load_with_plugins(text, source=source))


def load_file(path: Path) -> LoadedPolicy:
    """A policy from its file. Raises PolicyInvalid."""
    return load_content(read_file(path), str(path))


def read_file(path: Path) -> bytes:
    """The bytes of a policy's file. Raises PolicyInvalid."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(str(path), error.strerror or str(error)) from None


def stamp_of(path: Path) -> tuple[int, ...] | None:
    """What changes when a file does; None: it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _unreadable(source: str, why: str) -> PolicyInvalid:
    return PolicyInvalid(
        f"The policy {source} cannot be read: {why}.", remedy="Restore it; a new data directory gets the shipped one."
    )
