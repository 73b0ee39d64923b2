"""A policy as it was loaded from its bytes, and the file that such bytes come from."""

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from orchestrator.core.errors import PolicyInvalid
from orchestrator.core.policy import CustomPolicy, Policy, load_policy, parse_policy
from orchestrator.core.values import immutable, sha256_hex

# -- Plugins of the policy: Python functions that a policy file names and installed packages offer
#
# A package offers one under the entry point group ``cc_orchestrator.policy``; the policy asks for it by name
# (``custom = ["night-shift"]``). It can make the gate stricter, never looser. One that is named and not there, or
# cannot be imported, is refused when the policy is loaded.

GROUP: Final = "cc_orchestrator.policy"


def load_with_plugins(text: str, *, source: str = "policy.toml") -> tuple[Policy, tuple[CustomPolicy, ...]]:
    """A policy from TOML and the plugins that it names, its examples checked with both. Raises PolicyInvalid."""
    named = parse_policy(text, source=source).custom
    custom = load_plugins(named, source=source)
    return load_policy(text, source=source, custom=custom), custom


def load_plugins(names: Sequence[str], *, source: str = "policy.toml") -> tuple[CustomPolicy, ...]:
    """The plugins of these names, each once. Raises PolicyInvalid naming the file, the plugin and the reason."""
    if not names:
        return ()
    offered = metadata.entry_points(group=GROUP)
    return tuple(_loaded(name, offered, source) for name in dict.fromkeys(names))


def _loaded(name: str, offered: metadata.EntryPoints, source: str) -> CustomPolicy:
    found = list({(one.value, one.name): one for one in offered.select(name=name)}.values())
    if not found:
        known = ", ".join(sorted(offered.names)) or "none"
        raise PolicyInvalid(
            f"{source}: there is no plugin {name!r}; installed are: {known}.",
            remedy=f"Install the package that offers it (entry point group {GROUP}), or take it out of custom.",
        )
    if len(found) > 1:
        places = " and ".join(sorted(one.value for one in found))
        raise PolicyInvalid(f"{source}: two plugins are called {name!r}: {places}.", remedy="Uninstall one of them.")
    try:
        judge = found[0].load()
    except Exception as error:
        raise PolicyInvalid(
            f"{source}: the plugin {name!r} ({found[0].value}) cannot be loaded: {error}.", remedy="Fix the plugin."
        ) from error
    if not callable(judge):
        raise PolicyInvalid(
            f"{source}: the plugin {name!r} ({found[0].value}) is not a function.",
            remedy="Let its entry point name a function that takes a call and a context.",
        )
    return CustomPolicy(name=name, judge=judge)


# -- A policy as it was loaded from its bytes, and the file that such bytes come from


@immutable
class LoadedPolicy:
    """A policy that can be used here: its bytes, what they say, and the plugins that they name."""

    source: str
    """Where the bytes came from, such as a file's path."""
    content: bytes
    policy: Policy
    custom: tuple[CustomPolicy, ...] = ()

    @property
    def sha256(self) -> str:
        """The sha256 of the bytes."""
        return sha256_hex(self.content)


def load_content(content: bytes, source: str) -> LoadedPolicy:
    """A policy from its bytes. Raises PolicyInvalid."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable(source, f"its byte {error.start} is not text in UTF-8") from None
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
    """A value that changes with the file; None: the file is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _unreadable(source: str, why: str) -> PolicyInvalid:
    return PolicyInvalid(
        f"The policy {source} cannot be read: {why}.",
        remedy="It must be a file in TOML, such as the policy.toml that `serve` writes into a new data directory.",
    )
