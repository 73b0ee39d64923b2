"""The ``cc_*`` tools that only look: a file, a directory, a search."""

import json
from typing import Any, Final

from orchestrator.core.errors import ToolFailed
from orchestrator.core.model_view.cuts import head_of, tail_of
from orchestrator.core.model_view.rows import rest_of
from orchestrator.core.ports import CallResult
from orchestrator.core.text.paths import MAX_PATH_BYTES
from orchestrator.tools.computer.commands import READ_WAIT_S, ask, name_of
from orchestrator.tools.computer.unreachable import unreachable_in
from orchestrator.tools.deps import CCAgentDeps, byte_string
from orchestrator.tools.stub import StubComputer
from orchestrator.tools.text import (
    MAX_RESULT_CHARS,
    capped,
    numbered_lines,
    shown_name,
    shown_part,
)

_MAX_FOUND: Final = 1000
"""The most that a computer answers: /rom alone has some 300 files, and what is cut cannot be put behind."""
_PART: Final = 200
"""Bytes of a line that it answers at most; of a longer line it answers ..."""
_PART_BEFORE: Final = 80
"""... so many before what is wanted."""


async def cc_read(deps: CCAgentDeps, *, path: str, start_line: int | None = None, max_lines: int | None = None) -> str:
    """The text of a file on the computer, or some of its lines, each with its number before it."""
    name = name_of(path)
    if deps.mode == "stub" and StubComputer(deps.file_cache).kind(name) == "absent":
        deps.file_cache[name] = f"-- Stub content for {path}\n"
    data = (await ask(deps, "fs_read", {"path": name}, path, wait_s=READ_WAIT_S)).body
    return numbered_lines(data, path, start_line, max_lines)


async def cc_list(deps: CCAgentDeps, *, path: str) -> str:
    """The entries of a directory on the computer, one a line."""
    result = await ask(deps, "fs_list", {"path": name_of(path)}, path, wait_s=READ_WAIT_S)
    entries = capped("\n".join(_entry(one, one["name"]) for one in _entries(result, "name")), rest_of("cc_list"))
    return "\n".join(filter(None, (entries or "(empty)", unreachable_in(result.data).told)))


async def cc_find(deps: CCAgentDeps, *, pattern: str = "**", contains: str = "") -> str:
    """The files and directories that a glob from the root matches, with the lines that hold a text."""
    glob = pattern.replace("\\", "/").strip("/") or "**"
    for what, value in (("pattern", glob), ("text to find", contains)):
        if len(value.encode()) > MAX_PATH_BYTES:
            raise ToolFailed(f"The {what} has more than {MAX_PATH_BYTES} bytes.", remedy="Give a shorter one.")
    params = {"path": "", "pattern": glob, "max": _MAX_FOUND}
    if contains:
        params["contains"] = contains
    result = await ask(deps, "fs_find", params, pattern, wait_s=READ_WAIT_S)
    # What the player wrote comes first: the game's own programs are many, and the same everywhere.
    found = sorted(_entries(result, "path"), key=lambda one: one["path"].startswith("rom/"))
    count = max(int(result.data.get("count", 0)), len(found))
    blocks = [_found(one, byte_string(contains)) for one in found]
    shown = _how_many_fit(blocks)
    if shown == count:
        head = "[1 match]" if count == 1 else f"[{count} matches]"
    else:
        head = f"[{count} matches, {shown} of them shown: give a narrower pattern to see the others]"
    return "\n".join(filter(None, [head, *blocks[:shown], unreachable_in(result.data).told]))


def _found(one: dict[str, Any], wanted: str) -> str:
    lines = [
        f"  {line['line']}: {shown_part(_whole_words(line['text'], wanted)).rstrip()}" for line in one.get("lines", ())
    ]
    return "\n".join([_entry(one, one["path"]), *lines])


def _whole_words(part: str, wanted: str) -> str:
    """A part of a line, which its computer cuts anywhere, without a piece of a word before or behind what is wanted."""
    before, found, after = part.partition(wanted)
    if len(before) == _PART_BEFORE:
        before = tail_of(before)
    return f"{before}{found}{head_of(after) if len(part) == _PART else after}"


def _how_many_fit(blocks: list[str]) -> int:
    room = MAX_RESULT_CHARS
    for number, block in enumerate(blocks):
        room -= len(block) + 1
        if room < 0:
            return number
    return len(blocks)


def _entry(one: dict[str, Any], name: str) -> str:
    return f"{shown_name(name)}/" if one["dir"] else f"{shown_name(name)}  {one['size']}"


def _entries(result: CallResult, key: str) -> list[dict[str, Any]]:
    """The entries of a listing. Raises ToolFailed when the computer sent something else."""
    try:
        listed: list[dict[str, Any]] = list(json.loads(result.body or b"[]", strict=False))
        for one in listed:
            _check(one, key)
    except (ValueError, TypeError, KeyError) as error:
        raise ToolFailed("The listing that the computer sent cannot be read.") from error
    return listed


def _check(one: dict[str, Any], key: str) -> None:
    texts = [one[key], *(line["text"] for line in one.get("lines", ()))]
    numbers = [one["size"], one["dir"], *(line["line"] for line in one.get("lines", ()))]
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(number, int) for number in numbers):
        raise TypeError(key)
