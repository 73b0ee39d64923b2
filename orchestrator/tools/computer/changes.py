"""The ``cc_*`` tools that change files: one command each, bound to the bytes that were seen before.

A function makes exactly one call with an effect, so that one bracket in the journal stands for one command. The state
that it must find there travels with it (``if_hash``): the computer compares and acts in one step.
"""

from collections.abc import Mapping
from typing import Final, Literal

from orchestrator.core.errors import ToolFailed
from orchestrator.core.task.facts import Observed
from orchestrator.core.text.paths import spelled
from orchestrator.core.undo.touches import DIRECTORY
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.tools.computer.commands import ask, changed_name, doubts, read_bytes
from orchestrator.tools.computer.observation import (
    Found,
    look_and_keep,
    missing_above,
    must_fit,
    observe_delete,
    observe_edit,
    observe_mkdir,
    observe_move,
    observe_write,
    place_of,
    shown_path,
    what_is,
)
from orchestrator.tools.deps import ABSENT, CCAgentDeps, Encoding, change_of, earlier_bytes

# -- The ``cc_*`` tools that change files: one command each, bound to what was found before it

_EMPTY_DIRECTORY = sha256_hex(b"")


async def cc_write(deps: CCAgentDeps, *, path: str, content: str) -> str:
    """Write a file on the computer, whole; the old bytes stay unless they are the expected ones."""
    name = changed_name(path)
    expected, encoding = deps.expected, deps.encoding
    if expected is None:
        observed = await observe_write(deps, path=path, content=content)
        expected, encoding = observed.state, encoding or observed.encoding
    body = content.encode(encoding or "utf-8")
    must_fit(body)
    result = await ask(deps, "fs_write", {"path": name, "if_hash": _hash(expected, name)}, path, body)
    deps.after[name] = sha256_hex(body)
    wrote = f"Wrote {result.data.get('size', len(body))} bytes to {shown_path(path)}"
    return _lines(wrote, await doubts(deps, name, content))


async def cc_edit(deps: CCAgentDeps, *, path: str, old: str, new: str) -> str:
    """Replace the one place of a file on the computer that has this text."""
    name = changed_name(path)
    expected, doubt = deps.expected, deps.noted
    encoding: Encoding = deps.encoding or "utf-8"
    if expected is None:
        observed = await observe_edit(deps, path=path, old=old, new=new)
        expected, encoding, doubt = observed.state, observed.encoding, observed.note
    before, after = old.encode(encoding), new.encode(encoding)
    params = {"path": name, "if_hash": _hash(expected, name), "old_size": len(before)}
    result = await ask(deps, "fs_edit", params, path, before + after)
    if isinstance(result.data.get("sha256"), str):
        deps.after[name] = result.data["sha256"]
    edited = f"Edited {shown_path(path)}: {len(before)} bytes became {len(after)}"
    return _lines(edited, doubt)


async def cc_move(deps: CCAgentDeps, *, path: str, to: str) -> str:
    """Move a file or directory on the computer to a place where nothing is."""
    name, target = changed_name(path), changed_name(to)
    expected = deps.expected
    if expected is None:
        expected = (await observe_move(deps, path=path, to=to)).state
    found = _hash(expected, name)
    params = {"path": name, "if_hash": found, "to": target, "if_to": _hash(expected, target)}
    await ask(deps, "fs_move", params, path)
    deps.after.update({name: ABSENT, target: found})
    return f"Moved {shown_path(path)} to {shown_path(to)}"


async def cc_mkdir(deps: CCAgentDeps, *, path: str) -> str:
    """Make a directory on the computer where nothing is."""
    name = changed_name(path)
    expected = deps.expected
    if expected is None:
        expected = (await observe_mkdir(deps, path=path)).state
    await ask(deps, "fs_mkdir", {"path": name, "if_hash": _hash(expected, name)}, path)
    deps.after[name] = _EMPTY_DIRECTORY
    return f"Made the directory {shown_path(path)}"


async def cc_delete(deps: CCAgentDeps, *, path: str) -> str:
    """Delete a file or directory on the computer, if it is still the expected one."""
    name = changed_name(path)
    expected = deps.expected
    if expected is None:
        expected = (await observe_delete(deps, path=path)).state
    await ask(deps, "fs_delete", {"path": name, "if_hash": _hash(expected, name)}, path)
    deps.after[name] = ABSENT
    return f"Deleted {shown_path(path)}"


def _lines(*parts: str) -> str:
    return "\n".join(part for part in parts if part)


def _hash(expected: Mapping[str, str], name: str) -> str:
    found = expected.get(name)
    if found is None:
        raise ToolFailed(f"Nothing is known of {name}; look at it first.")
    return found


# -- ``cc_restore``: a path of the computer into an earlier state, as one command and to the byte

_CHANGED: Final = "{} is not what it was when this was planned."
_RESTORE_EMPTY_DIRECTORY: Final = sha256_hex(b"")
_Replaced = Literal["", "file", "directory"]
"""The kind of what is replaced by another kind; empty: by none."""


async def cc_restore(
    deps: CCAgentDeps, *, path: str, to: str, found: str, replaces: _Replaced = "", encoding: Encoding = "utf-8"
) -> str:
    """Bring a path of the computer into an earlier state: a file by its sha256, ``absent`` or ``directory``."""
    name = changed_name(path)
    if deps.expected is None:
        raise ToolFailed(f"Nothing is known of {name}; look at it first.")
    if deps.expected[name] != found:
        raise ToolFailed(_CHANGED.format(path))
    params = {"path": place_of(name, encoding), "if_hash": found} | ({"replaces": replaces} if replaces else {})
    if to == ABSENT:
        await ask(deps, "fs_delete", params, path)
    elif to == DIRECTORY:
        await ask(deps, "fs_mkdir", params, path)
    else:
        await ask(deps, "fs_write", params, path, await earlier_bytes(deps, path, to))
    deps.after[name] = _RESTORE_EMPTY_DIRECTORY if to == DIRECTORY else to
    told = spelled(place_of(path, encoding))
    return f"Removed {told}" if to == ABSENT else f"Put {told} back"


async def observe_restore(
    deps: CCAgentDeps, *, path: str, to: str, found: str, replaces: _Replaced = "", encoding: Encoding = "utf-8"
) -> Observed:
    """The present state, and the diff to the earlier one. Raises ToolFailed unless it is what the plan found."""
    name = changed_name(path)
    place = place_of(name, encoding)
    there = await look_and_keep(deps, place, path)
    if there.sha256 != found:
        raise ToolFailed(_CHANGED.format(path))
    _must_be_possible(there, path, to, replaces)
    made = await missing_above(deps, name, encoding) if there.kind == "absent" else ()
    directories = (name,) if there.kind == "directory" else ()
    before = await read_bytes(deps, place, path) if there.kind == "file" else None
    after = None if to in (ABSENT, DIRECTORY) else await earlier_bytes(deps, path, to)
    change = change_of(name, before, after)
    return Observed(
        state={name: there.sha256},
        directories=directories,
        diff=change.diff,
        made=made,
        note=_note(there, to, before, after, change.binary),
    )


def _must_be_possible(there: Found, path: str, to: str, replaces: _Replaced) -> None:
    """Raises ToolFailed where one kind would become another that the plan did not know of, or nothing can be changed.

    An empty file and an empty directory have the same hash.
    """
    if there.read_only:
        raise ToolFailed(f"{path} is read-only.")
    if replaces and there.kind != replaces:
        raise ToolFailed(_CHANGED.format(path))
    if there.kind == "directory" and to != ABSENT and not replaces:
        raise ToolFailed(f"{path} is a directory.", remedy="It has to be removed first.")
    if there.kind == "file" and to == DIRECTORY and not replaces:
        raise ToolFailed(f"{path} is a file.", remedy="It has to be removed first.")


def _note(there: Found, to: str, before: bytes | None, after: bytes | None, binary: str) -> str:
    if there.kind == "directory":
        # Only what comes: it is told by itself what goes.
        what = binary.partition(" -> ")[2] or (f"a file with {len(after)} bytes" if after is not None else "")
        going = f"It goes, and this takes its place: {what}. " if what else ""
        return going + what_is(there)
    if to == DIRECTORY and before is None:
        return "A new directory."
    instead = " A directory takes its place." if to == DIRECTORY else ""
    if binary:
        return f"{binary}.{instead}"
    if after is None:
        return f"The file is removed.{instead}"
    if before is None:
        return f"The file comes with {len(after)} bytes."
    return f"It has {len(before)} bytes, and gets {len(after)}."
