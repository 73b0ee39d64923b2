"""``cc_restore``: a path of the computer into an earlier state, as one command and to the byte."""

from typing import Final, Literal

from orchestrator.core.errors import ToolFailed
from orchestrator.core.task.facts import Observed
from orchestrator.core.text.paths import spelled
from orchestrator.core.undo.touches import DIRECTORY
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.tools.computer.commands import ask, changed_name, read_bytes
from orchestrator.tools.computer.observation import Found, look_and_keep, missing_above, place_of, what_is
from orchestrator.tools.deps import ABSENT, CCAgentDeps, Encoding, earlier_bytes
from orchestrator.tools.text import change_of

_CHANGED: Final = "{} is not what it was when this was planned."
_EMPTY_DIRECTORY: Final = sha256_hex(b"")
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
    deps.after[name] = _EMPTY_DIRECTORY if to == DIRECTORY else to
    told = spelled(place_of(path, encoding))
    return f"Removed {told}" if to == ABSENT else f"Put {told} back"


async def observe_restore(
    deps: CCAgentDeps, *, path: str, to: str, found: str, replaces: _Replaced = "", encoding: Encoding = "utf-8"
) -> Observed:
    """What is there now, and the diff to what was. Raises ToolFailed unless it is what the plan found."""
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
