"""What is in a place that a call would change, and its bytes put where an undo finds them.

The bytes that are kept are the very ones that the shown hash is taken over, or nothing goes on:
a computer is in use while somebody looks at it, so what was read is compared with what the stat
said, and looked at again where they differ.
"""

from dataclasses import dataclass, replace
from typing import Final, Literal

from orchestrator.core.errors import ComputerFailed, FrameRefused, ToolFailed
from orchestrator.core.undo.plan import MAX_TREE_BYTES, MAX_TREE_FILES
from orchestrator.core.undo.touches import NO_HASH, escaped
from orchestrator.core.wire.wire import is_sha256, sha256_hex
from orchestrator.tools.computer.commands import READ_WAIT_S, ask, channel_of, read_bytes, sentence
from orchestrator.tools.computer.unreachable import unreachable_in
from orchestrator.tools.deps import ABSENT, CCAgentDeps, Encoding, byte_string
from orchestrator.tools.text import capped, shown_name

_LOOKS: Final = 3
"""Looks at a place that changes meanwhile."""

_SHOWN: Final = 80
"""Characters that are shown of a path that is too long."""

Kind = Literal["file", "directory", "absent"]


@dataclass(frozen=True)
class Found:
    """What is in a place."""

    kind: Kind
    sha256: str = ABSENT
    size: int = 0
    """Bytes; of a directory those of all files in it, where they were read."""
    read_only: bool = False
    entries: tuple[str, ...] = ()
    """Of a directory: what is below it, directories with a slash."""
    inside: tuple[str, ...] = ()
    """The same, as places have paths."""
    unreachable: str = ""
    """The first name in it that the game cannot reach, as a byte string; empty: there is none."""
    data: bytes | None = None
    """Of a file: its bytes; None: they were not read."""


class Changed(Exception):
    """What was read is not what was looked at before."""


async def look(deps: CCAgentDeps, name: str, shown: str) -> Found:
    """What is in a place, without keeping it. Raises ToolFailed."""
    return (await _stat(deps, name, shown))[0]


async def look_and_keep(deps: CCAgentDeps, name: str, shown: str) -> Found:
    """What is in a place, its bytes kept by the hash (``deps.keep`` None: only looked at).

    Raises ToolFailed when it is too large to keep, changes while it is looked at, or holds what cannot be reached.
    """
    for _ in range(_LOOKS):
        found, manifest = await _stat(deps, name, shown)
        if found.unreachable:
            refused = ComputerFailed("unreachable", "", {"name": found.unreachable})
            raise ToolFailed(sentence(refused, shown))
        if deps.keep is None or found.kind == "absent":
            return found
        try:
            if found.kind == "file":
                return replace(found, data=await keep_file(deps, byte_string(name), found.sha256, shown))
            return await _keep_directory(deps, name, found, manifest, shown)
        except Changed:
            continue
    raise ToolFailed(f"{shown} changes while it is looked at.", remedy="Try again when nothing writes there.")


def what_is(found: Found) -> str:
    """What is in a place, for a person: a directory with what is in it."""
    if found.kind == "file":
        return f"A file of {found.size} bytes."
    if not found.entries:
        return "An empty directory."
    size = f" of {found.size} bytes" if found.size else ""
    count = f"{len(found.entries)} entries" if len(found.entries) > 1 else "one entry"
    listed = "\n".join(found.entries)
    return f"A directory with {count}{size} in it:\n{capped(listed)}"


async def missing_above(deps: CCAgentDeps, name: str, encoding: Encoding = "utf-8") -> tuple[str, ...]:
    """The directories above a path that are not there, the highest first: a write makes them.

    ``encoding``: how the bytes of the path are written as text.
    """
    missing: list[str] = []
    above = name.rpartition("/")[0]
    while above and await _is_absent(deps, place_of(above, encoding)):
        missing.insert(0, above)
        above = above.rpartition("/")[0]
    return tuple(missing)


async def _is_absent(deps: CCAgentDeps, name: str) -> bool:
    """Whether nothing is in a place; a directory says so without all that is in it being hashed."""
    try:
        return await read_bytes(deps, name, name) is None
    except ToolFailed:
        return False


def place_of(name: str, encoding: Encoding) -> str:
    """A path as places have it: the bytes of names on a computer are not always UTF-8."""
    return escaped(name) if encoding == "latin-1" else name


async def _stat(deps: CCAgentDeps, name: str, shown: str) -> tuple[Found, bytes]:
    result = await ask(deps, "fs_stat", {"path": name}, shown, wait_s=READ_WAIT_S)
    kind = result.data.get("kind")
    read_only = bool(result.data.get("read_only", False))
    sha256, size = str(result.data.get("sha256", ABSENT)), result.data.get("size", 0)
    if kind == "file":
        if not is_sha256(sha256) or not isinstance(size, int):
            raise unreadable(shown)
        return Found("file", sha256, size, read_only), b""
    if kind == "directory":
        lines = manifest_lines(result.body, shown)
        entries = tuple(f"{shown_name(path)}{'/' if sha == '-' else ''}" for path, sha in lines)
        inside = tuple(escaped(path) for path, _ in lines)
        unreachable = next(iter(unreachable_in(result.data).names), "")
        return Found("directory", sha256, 0, read_only, entries, inside, unreachable), result.body
    return Found("absent", read_only=read_only), b""


async def keep_file(deps: CCAgentDeps, wire_path: str, sha256: str, shown: str) -> bytes | None:
    """Keep a file's bytes; None: they are not kept here. Raises Changed unless they have this hash."""
    channel = channel_of(deps)
    if channel is None or deps.keep is None:
        return None
    try:
        # The path comes from the computer byte for byte; call_cc_command would encode it once more.
        data = (await channel.call("fs_read", {"path": wire_path}, None, READ_WAIT_S)).body
    except ComputerFailed as error:
        if error.reason in ("not_found", "is_directory"):
            raise Changed from error
        raise ToolFailed(sentence(error, shown)) from error
    except FrameRefused as error:
        raise too_long(shown) from error
    if sha256_hex(data) != sha256:
        raise Changed
    await deps.keep(data)
    return data


async def _keep_directory(deps: CCAgentDeps, name: str, found: Found, manifest: bytes, shown: str) -> Found:
    if sha256_hex(manifest) != found.sha256:
        if not manifest:
            raise ToolFailed(
                f"The client on this computer is too old to tell what is in {shown}.",
                remedy="Its user can update it; delete single files until then.",
            )
        raise Changed
    files = {sha: path for path, sha in manifest_lines(manifest, shown) if sha != "-"}
    if len(files) > MAX_TREE_FILES:
        raise _too_large(shown, f"{len(files)} different files, and at most {MAX_TREE_FILES} are kept for an undo")
    parent = byte_string(name)
    sizes: dict[str, int] = {}
    for sha, path in files.items():
        sizes[sha] = len(await keep_file(deps, f"{parent}/{path}", sha, shown) or b"")
        if sum(sizes.values()) > MAX_TREE_BYTES:
            raise _too_large(shown, f"more than the {MAX_TREE_BYTES} bytes that are kept for an undo")
    if deps.keep is not None:
        await deps.keep(manifest)
    size = sum(sizes.get(sha, 0) for _, sha in manifest_lines(manifest, shown))
    return replace(found, size=size)


def manifest_lines(manifest: bytes, shown: str) -> list[tuple[str, str]]:
    """(path as a byte string, sha256 or ``-``) of each entry. Raises ToolFailed when it is something else."""
    *whole, rest = manifest.decode("latin-1").split("\n")
    lines = [line.split("\0") for line in whole]
    if rest or not all(len(parts) == 3 and _is_entry(parts[0], parts[2]) for parts in lines):
        raise unreadable(shown)
    return [(parts[0], parts[2]) for parts in lines]


def _is_entry(path: str, sha256: str) -> bool:
    return all(map(is_name, path.split("/"))) and (sha256 == NO_HASH or is_sha256(sha256))


def is_name(name: object) -> bool:
    """Whether that is a name as something on a computer can have it, as a byte string."""
    if not isinstance(name, str) or name in ("", ".", ".."):
        return False
    return not any(one in "/\0\n" or one > "\xff" for one in name)


def too_long(shown: str) -> ToolFailed:
    """A computer says that it has a path that no command to it can have."""
    return unreadable(f"{shown[:_SHOWN]}…")


def unreadable(shown: str) -> ToolFailed:
    """A computer says of a place what no computer can say."""
    return ToolFailed(f"What the computer says of {shown} cannot be read.")


def _too_large(shown: str, why: str) -> ToolFailed:
    return ToolFailed(f"{shown} is too large to keep for undo: it has {why}.", remedy="Do it in smaller parts.")
