"""The ``local_*`` tools: files of one workspace directory on this host.

A change is staged (its new bytes under the run's name, before the bracket opens) and then
committed in one rename, which spares what somebody saved since it was shown. The code that settles
an interrupted run takes the staged file away: got it, the change was not done, for good; gone,
it was done (DESIGN section 2).
"""

import asyncio
from typing import Final

from orchestrator.core.errors import ComputerFailed, ToolFailed
from orchestrator.core.ports import Workspace
from orchestrator.core.task.facts import Observed
from orchestrator.core.text.patch import apply_patch
from orchestrator.core.undo.touches import DIRECTORY
from orchestrator.core.wire.wire import RunId, sha256_hex
from orchestrator.tools.deps import ABSENT, CCAgentDeps, change_of, earlier_bytes

_EMPTY_DIRECTORY: Final = sha256_hex(b"")


async def local_read(deps: CCAgentDeps, *, path: str) -> str:
    """The text of a file of the workspace."""
    data = await asyncio.to_thread(_workspace(deps).read_bytes, path)
    if data is None:
        raise ToolFailed(f"There is no {path} in the workspace.")
    return _text(data, path)


async def local_write(deps: CCAgentDeps, *, path: str, content: str) -> str:
    """Write a file of the workspace, whole."""
    data = content.encode()
    await _change(deps, path, data)
    return f"Wrote {len(data)} bytes to {path}"


async def local_patch(deps: CCAgentDeps, *, path: str, patch: str) -> str:
    """Apply a unified diff to a file of the workspace, exactly."""
    before = await asyncio.to_thread(_workspace(deps).read_bytes, path)
    if deps.run_id is not None:
        await _must_be_expected(deps, path, before)
    await _change(deps, path, _patched(path, before, patch))
    return f"Patched {path}"


async def observe_write(deps: CCAgentDeps, *, path: str, content: str) -> Observed:
    """The present file, and the unified diff to the new one."""
    before = await asyncio.to_thread(_workspace(deps).read_bytes, path)
    return await _observed(deps, path, before, content)


async def observe_patch(deps: CCAgentDeps, *, path: str, patch: str) -> Observed:
    """The present file, and the diff of the patch."""
    before = await asyncio.to_thread(_workspace(deps).read_bytes, path)
    return await _observed(deps, path, before, _patched(path, before, patch).decode())


async def prepare_write(deps: CCAgentDeps, *, path: str, content: str) -> None:
    """Stage the new bytes under the run's name."""
    del path
    await asyncio.to_thread(_workspace(deps).stage, _run(deps), content.encode())


async def prepare_patch(deps: CCAgentDeps, *, path: str, patch: str) -> None:
    """Stage the patched bytes under the run's name."""
    before = await asyncio.to_thread(_workspace(deps).read_bytes, path)
    await asyncio.to_thread(_workspace(deps).stage, _run(deps), _patched(path, before, patch))


async def local_restore(deps: CCAgentDeps, *, path: str, to: str, found: str) -> str:
    """Bring a path of the workspace into an earlier state: a file by its sha256, ``absent`` or ``directory``."""
    workspace = _workspace(deps)
    if found == DIRECTORY:
        # Files that are in it by now concern only the removal, which refuses it.
        _must_be(path, await _state(deps, path), found)
    else:
        await _must_be_expected(deps, path, await asyncio.to_thread(workspace.read_bytes, path))
    if to == ABSENT:
        await asyncio.to_thread(workspace.remove, _run(deps), path, found)
    else:
        await asyncio.to_thread(workspace.commit, _run(deps), path, found)
    deps.after |= await left_by_restore(deps, path=path, to=to, found=found)
    return f"Removed {path}" if to == ABSENT else f"Put {path} back"


async def observe_restore(deps: CCAgentDeps, *, path: str, to: str, found: str) -> Observed:
    """The present state, and the diff to the earlier one. Raises ToolFailed unless it is what the plan found."""
    workspace = _workspace(deps)
    _must_be(path, await _state(deps, path), found)
    if found == DIRECTORY:
        if to != ABSENT:
            raise ToolFailed(f"{path} is a directory.", remedy="It has to be removed first.")
        await _keep(deps, b"")
        note = "A directory; it is removed when nothing is in it any more."
        return Observed(state={path: _EMPTY_DIRECTORY}, directories=(path,), note=note)
    made = await asyncio.to_thread(workspace.missing_above, path) if found == ABSENT else ()
    if to == DIRECTORY:
        if found != ABSENT:
            raise ToolFailed(f"{path} is a file.", remedy="It has to be removed first.")
        return Observed(state={path: ABSENT}, made=made, note="A new directory.")
    before = await asyncio.to_thread(workspace.read_bytes, path)
    await _keep(deps, before)
    after = None if to == ABSENT else await earlier_bytes(deps, path, to)
    change = change_of(path, before, after)
    return Observed(state={path: _hash(before)}, diff=change.diff, made=made, note=change.binary)


async def prepare_restore(deps: CCAgentDeps, *, path: str, to: str, found: str) -> None:
    """Stage the earlier bytes under the run's name, or an empty directory, or a mark that something is to go."""
    del found
    data = None if to == DIRECTORY else b"" if to == ABSENT else await earlier_bytes(deps, path, to)
    await asyncio.to_thread(_workspace(deps).stage, _run(deps), data)


async def settle(deps: CCAgentDeps, run_id: RunId) -> bool:
    """Take the staged file of a run away; whether it was still there, so that the run never happened."""
    return await asyncio.to_thread(_workspace(deps).discard, run_id)


async def left_by_write(deps: CCAgentDeps, *, path: str, content: str) -> dict[str, str]:
    """The files that a finished write left there, of which nobody heard."""
    del deps
    return {path: sha256_hex(content.encode())}


async def left_by_patch(deps: CCAgentDeps, *, path: str, patch: str) -> dict[str, str]:
    """The files that a finished patch left there. Raises ToolFailed when the bytes before it are not in the store."""
    found = (deps.expected or {}).get(path, ABSENT)
    before = None if found == ABSENT else await earlier_bytes(deps, path, found)
    return {path: sha256_hex(_patched(path, before, patch))}


async def left_by_restore(deps: CCAgentDeps, *, path: str, to: str, found: str) -> dict[str, str]:
    """The files that a finished restoration left there."""
    del deps, found
    return {path: _EMPTY_DIRECTORY if to == DIRECTORY else to}


async def _change(deps: CCAgentDeps, path: str, data: bytes) -> None:
    """Put the bytes in the file's place; in a bracket they were staged before it opened."""
    workspace = _workspace(deps)
    if deps.run_id is None:
        await asyncio.to_thread(workspace.stage, "by-hand", data)
        await asyncio.to_thread(workspace.commit, "by-hand", path)
    else:
        found = await asyncio.to_thread(workspace.read_bytes, path)
        await _must_be_expected(deps, path, found)
        await asyncio.to_thread(workspace.commit, deps.run_id, path, _hash(found))
    deps.after[path] = sha256_hex(data)


async def _must_be_expected(deps: CCAgentDeps, path: str, before: bytes | None) -> None:
    """Raises ComputerFailed ``stale``, with nothing left staged, unless the file is the one that was shown."""
    expected, found = (deps.expected or {}).get(path), _hash(before)
    if expected is None or found != expected:
        await asyncio.to_thread(_workspace(deps).discard, _run(deps))
        raise ComputerFailed("stale", f"{path} is not what it was when it was shown.", {"actual": found})


def _patched(path: str, before: bytes | None, patch: str) -> bytes:
    after = apply_patch(None if before is None else _text(before, path), patch)
    if after is None:
        raise ToolFailed(f"The patch would delete {path}; local_patch only changes files.")
    return after.encode()


async def _observed(deps: CCAgentDeps, path: str, before: bytes | None, after: str) -> Observed:
    if before is not None:
        # A file that is not text is not overwritten by a text.
        _text(before, path)
    await _keep(deps, before)
    made = await asyncio.to_thread(_workspace(deps).missing_above, path) if before is None else ()
    change = change_of(path, before, after.encode(), typed=after)
    return Observed(state={path: _hash(before)}, diff=change.diff, made=made, note=change.binary)


async def _keep(deps: CCAgentDeps, data: bytes | None) -> None:
    if data is not None and deps.keep is not None:
        await deps.keep(data)


async def _state(deps: CCAgentDeps, path: str) -> str:
    """What is at a path of the workspace: the sha256 of a file, ``directory`` or ``absent``."""
    workspace = _workspace(deps)
    if await asyncio.to_thread(workspace.inside, path) is not None:
        return DIRECTORY
    return _hash(await asyncio.to_thread(workspace.read_bytes, path))


def _must_be(path: str, state: str, found: str) -> None:
    if state != found:
        raise ToolFailed(f"{path} is not what it was when this was planned.")


def _hash(data: bytes | None) -> str:
    return ABSENT if data is None else sha256_hex(data)


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ToolFailed(f"{path} is not UTF-8 text.") from None


def _workspace(deps: CCAgentDeps) -> Workspace:
    if deps.workspace is None:
        raise ToolFailed("There is no workspace, so local_* cannot be used.", remedy="Name a workspace directory.")
    return deps.workspace


def _run(deps: CCAgentDeps) -> RunId:
    if deps.run_id is None:
        raise ToolFailed("This change has no run to be staged for.")
    return deps.run_id
