"""What a reviewer is shown before a change on a computer, and the old bytes put where an undo finds them."""

import re
from typing import Final

from orchestrator.core.errors import ToolFailed
from orchestrator.core.task.facts import Observed
from orchestrator.core.text.binary import is_binary
from orchestrator.core.wire.wire import MAX_WHOLE_BYTES, sha256_hex
from orchestrator.tools.changes import change_of
from orchestrator.tools.computer.commands import changed_name, named, read_bytes
from orchestrator.tools.computer.edit import edited
from orchestrator.tools.computer.kept_bytes import look, look_and_keep, missing_above, what_is
from orchestrator.tools.computer.lua_text import doubts, must_parse
from orchestrator.tools.deps import ABSENT, CCAgentDeps, Encoding
from orchestrator.tools.text import decode_text, encoding_of, fits_latin1

_DISK: Final = re.compile(r"(disk[0-9]*)/")


async def observe_write(deps: CCAgentDeps, *, path: str, content: str) -> Observed:
    """What is there now, and the unified diff to what would be."""
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
    """What is there now, and the unified diff of the edit. Raises ToolFailed unless ``old`` occurs exactly once."""
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
    """What would be moved, and that its destination is free."""
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
    """That there is nothing in the place of the new directory."""
    name = changed_name(path)
    found = await look(deps, name, path)
    if found.kind != "absent":
        raise ToolFailed(f"{path} is a {found.kind} already.")
    if found.read_only:
        raise ToolFailed(f"{path} is read-only.")
    return Observed(state={name: ABSENT}, made=await missing_above(deps, name), note="A new directory.")


async def observe_delete(deps: CCAgentDeps, *, path: str) -> Observed:
    """What would be deleted; of a file as the unified diff to nothing."""
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
