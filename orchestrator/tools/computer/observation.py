"""The observation before a change on a computer: the diff for a reviewer, and the old bytes for an undo."""

import re
from dataclasses import dataclass, replace
from typing import Final, Literal

from orchestrator.core.errors import ComputerFailed, FrameRefused, ToolFailed
from orchestrator.core.task.facts import Observed
from orchestrator.core.text.binary import is_binary
from orchestrator.core.undo.plan import MAX_TREE_BYTES, MAX_TREE_FILES
from orchestrator.core.undo.touches import NO_HASH, escaped
from orchestrator.core.wire.wire import MAX_WHOLE_BYTES, is_sha256, sha256_hex
from orchestrator.tools.computer.commands import (
    READ_WAIT_S,
    ask,
    changed_name,
    channel_of,
    doubts,
    must_parse,
    named,
    read_bytes,
    sentence,
    unreachable_in,
)
from orchestrator.tools.computer.edit import edited
from orchestrator.tools.deps import (
    ABSENT,
    CCAgentDeps,
    Encoding,
    byte_string,
    capped,
    change_of,
    decode_text,
    encoding_of,
    fits_latin1,
    shown_name,
)

# -- What is in a place that a call would change, and its bytes put where an undo finds them
#
# The bytes that are kept are the very ones that the shown hash is taken over, or nothing goes on: a computer is
# in use while somebody looks at it, so what was read is compared with what the stat said, and looked at again
# where they differ.

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
    """For a directory: what is below it, directories with a slash."""
    inside: tuple[str, ...] = ()
    """The same, as places have paths."""
    unreachable: str = ""
    """The first name in it that the game cannot reach, as a byte string; empty: there is none."""
    data: bytes | None = None
    """For a file: its bytes; None: they were not read."""


class Changed(Exception):
    """The file that was read is not the one that was looked at before."""


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
    """The content of a place, for a person: a directory with its entries."""
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


# -- What a reviewer is shown before a change on a computer, and the old bytes put where an undo finds them

_DISK: Final = re.compile(r"(disk[0-9]*)/")


async def observe_write(deps: CCAgentDeps, *, path: str, content: str) -> Observed:
    """The present file, and the unified diff to the new one."""
    name = changed_name(path)
    must_fit(content.encode())
    await must_parse(deps, name, content)
    old = await read_bytes(deps, name, path)
    doubt = await doubts(deps, name, content)
    if old is None:
        note = _sentences("A new file.", doubt)
        made = await missing_above(deps, name)
        diff = change_of(name, None, content.encode(), typed=content).diff
        return Observed(state={name: ABSENT}, diff=diff, made=made, note=note)
    await _keep(deps, old)
    notes = [doubt] if decode_text(old) != content else ["The file has this very text already.", doubt]
    encoding: Encoding = "utf-8"
    if encoding_of(old) == "latin-1":
        encoding = "latin-1" if fits_latin1(content) else "utf-8"
        notes.append(f"The file is latin-1; it is written as {encoding}.")
    change = change_of(name, old, content.encode(encoding), typed=content)
    if change.binary:
        notes = [f"{change.binary}.", *notes]
    return Observed(state={name: sha256_hex(old)}, diff=change.diff, encoding=encoding, note=_sentences(*notes))


async def observe_edit(deps: CCAgentDeps, *, path: str, old: str, new: str) -> Observed:
    """The present file, and the unified diff of the edit. Raises ToolFailed unless ``old`` occurs exactly once."""
    name = changed_name(path)
    data = await read_bytes(deps, name, path)
    if data is None:
        raise ToolFailed(f"There is no {path} on the computer.", remedy="Use cc_write for a new file.")
    after, encoding = edited(data, old, new, path)
    must_fit(after)
    await must_parse(deps, name, after.decode(encoding), before=data.decode(encoding))
    await _keep(deps, data)
    # Both are shown in the file's own encoding.
    typed = None if is_binary(name, after) else after.decode(encoding)
    change = change_of(name, data, after, typed=typed)
    note = _sentences(f"{change.binary}." if change.binary else "", await doubts(deps, name, after.decode(encoding)))
    return Observed(state={name: sha256_hex(data)}, diff=change.diff, encoding=encoding, note=note)


async def observe_move(deps: CCAgentDeps, *, path: str, to: str) -> Observed:
    """The entry that would be moved, and that its destination is free."""
    name, target = changed_name(path), changed_name(to)
    if name == target:
        raise ToolFailed(f"{path} and {to} are the same place.")
    if target.casefold().startswith(f"{name}/".casefold()):  # the same place on a host that knows no letter case
        raise ToolFailed(f"{to} is inside of {path}, which cannot be moved into itself.")
    place = await look(deps, target, to)
    if place.kind == "directory":
        inside = f"{target}/{name.rsplit('/', maxsplit=1)[-1]}"
        raise ToolFailed(f"{to} is a directory already.", remedy=f"Name the whole new path, such as {inside}.")
    if place.kind == "file":
        raise ToolFailed(f"There is a file {to} already.", remedy="Choose another name, or delete it first.")
    found = await look_and_keep(deps, name, path)
    if found.kind == "absent":
        raise ToolFailed(f"There is no {path} on the computer.")
    for one, shown in ((found, path), (place, to)):
        if one.read_only:
            raise ToolFailed(f"{shown} is read-only.")
    notes = [what_is(found), f"Nothing is at {target}."]
    if _disk(name) != _disk(target):
        notes.append(f"It goes from {_disk(name)} to {_disk(target)}.")
    directories = (name,) if found.kind == "directory" else ()
    made = await missing_above(deps, target)
    state = {name: found.sha256, target: ABSENT}
    return Observed(state=state, directories=directories, made=made, note="\n".join(notes))


async def observe_mkdir(deps: CCAgentDeps, *, path: str) -> Observed:
    """The answer that there is nothing in the place of the new directory."""
    name = changed_name(path)
    found = await look(deps, name, path)
    if found.kind != "absent":
        raise ToolFailed(f"{path} is a {found.kind} already.")
    if found.read_only:
        raise ToolFailed(f"{path} is read-only.")
    return Observed(state={name: ABSENT}, made=await missing_above(deps, name), note="A new directory.")


async def observe_delete(deps: CCAgentDeps, *, path: str) -> Observed:
    """The entry that would be deleted; for a file as the unified diff to nothing."""
    name = changed_name(path)
    found = await look_and_keep(deps, name, path)
    if found.kind == "absent":
        if deps.mode == "stub":  # which invents files that are read: it cannot say that one is not there
            return Observed(state={name: ABSENT}, note="Nothing is there.")
        raise ToolFailed(f"There is no {path} on the computer.")
    if found.read_only:
        raise ToolFailed(f"{path} is read-only.")
    if found.kind == "directory":
        return Observed(state={name: found.sha256}, directories=(name,), note=what_is(found))
    lost = change_of(name, found.data, None)
    note = _sentences(what_is(found), f"{lost.binary}." if lost.binary else "")
    return Observed(state={name: found.sha256}, diff=lost.diff, note=note)


def must_fit(data: bytes) -> None:
    """Raises ToolFailed when a file would be larger than what can be sent and read again."""
    if len(data) > MAX_WHOLE_BYTES:
        raise ToolFailed(
            f"The file would have {len(data)} bytes; {MAX_WHOLE_BYTES} are the most that can be sent.",
            remedy="Split it into several files.",
        )


def shown_path(path: str) -> str:
    """A path for a result: as the model wrote it and, where that differs, as the computer reads it."""
    return named(path, changed_name(path))


async def _keep(deps: CCAgentDeps, data: bytes) -> None:
    if deps.keep is not None:
        await deps.keep(data)


def _sentences(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _disk(name: str) -> str:
    """The disk that a path is on, as far as its name tells."""
    inserted = _DISK.match(name)
    return f"the disk in /{inserted.group(1)}" if inserted else "the computer's own disk"
