"""The ``cc_*`` tools that change files: one command each, bound to what was found before it.

A function makes exactly one call with an effect, so that one bracket in the journal stands for
one command. What it must find there travels with it (``if_hash``): the computer compares and
acts in one step.
"""

from collections.abc import Mapping

from orchestrator.core.errors import ToolFailed
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.tools.computer.commands import ask, changed_name
from orchestrator.tools.computer.lua_text import doubts
from orchestrator.tools.computer.observation import (
    must_fit,
    observe_delete,
    observe_edit,
    observe_mkdir,
    observe_move,
    observe_write,
    shown_path,
)
from orchestrator.tools.deps import ABSENT, CCAgentDeps, Encoding

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
