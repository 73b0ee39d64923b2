"""All that is below a path of a computer; its bytes are put where their hash finds them."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from json import loads
from math import inf
from typing import Any, Final

from orchestrator.core.errors import ComputerFailed, FrameRefused, ToolFailed
from orchestrator.core.model_view.cuts import head_of, tail_of
from orchestrator.core.model_view.rows import rest_of
from orchestrator.core.ports import CallResult
from orchestrator.core.text.paths import MAX_PATH_BYTES
from orchestrator.core.undo.plan import Listed, Listing
from orchestrator.core.undo.touches import ABSENT, DIRECTORY, NO_HASH, escaped
from orchestrator.core.wire.wire import is_sha256, sha256_hex
from orchestrator.tools.computer.commands import READ_WAIT_S, ask, channel_of, name_of, sentence, unreachable_in
from orchestrator.tools.computer.observation import Changed, is_name, keep_file, manifest_lines, too_long, unreadable
from orchestrator.tools.deps import (
    MAX_RESULT_CHARS,
    CCAgentDeps,
    byte_string,
    capped,
    numbered_lines,
    shown_name,
    shown_part,
)
from orchestrator.tools.stub import StubComputer

# -- The ``cc_*`` tools that only look: a file, a directory, a search --------------------

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
    # The player's files come first: the game's own programs are many, and the same everywhere.
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


# -- All that is below a path of a computer, and its bytes put where they are found by their hash

_AT_ONCE: Final = 4
"""Reads at one time: half of the calls that a computer takes."""
_LOOKS: Final = 3
"""Looks at a file that changes meanwhile."""
MAX_ENTRIES: Final = 20_000
"""Bytes of one listing: ten times the size of a disk by the mod's own settings. A computer may say anything."""
MAX_DEPTH: Final = 100
"""Directories in one another that are looked at each by itself."""
_MAX_LOOKS: Final = 2 * MAX_ENTRIES
"""Where each entry is looked at by itself, and every one is a directory."""


Sizes = Callable[[Sequence[str]], Awaitable[Mapping[str, int]]]
"""The sizes in bytes of those blobs of these that are kept, and that stay so for now since they are counted on."""


@dataclass(frozen=True)
class Kept:
    """A listing of which every file's bytes are kept."""

    listed: Listed
    bytes: int
    """Of all its files."""
    new_bytes: int
    """What of it was not kept before."""


async def list_tree(deps: CCAgentDeps, name: str = "") -> Listed:
    """All that is at a canonical path and below it, except the client's own files and other disks.

    Raises ToolFailed.
    """
    listing = _Listing(deps)
    await listing.add(byte_string(name))
    return Listed(Listing(listing.states), listing.skipped)


OnRead = Callable[[int, int, int], None]
"""Is told of files that were read, of how many that are to be read, and the bytes so far."""


def nobody_waits(files: int, of_files: int, size: int) -> None:
    """A listener that drops all."""
    del files, of_files, size


async def keep_tree(
    deps: CCAgentDeps, listed: Listed, sizes: Sizes, *, most: float = inf, on_read: OnRead = nobody_waits
) -> Kept:
    """Keep the bytes of every file of a listing, except for those that are kept already.

    A file that changes meanwhile is listed as it is when it is read. Once ``most`` new bytes were read, others are
    skipped. Raises ToolFailed.
    """
    states, skipped = dict(listed.listing.states), dict(listed.skipped)
    known = dict(await sizes(sorted(set(listed.listing.files.values()))))
    new: dict[str, int] = {}
    slots = asyncio.Semaphore(_AT_ONCE)

    async def keep(paths: Sequence[str]) -> None:
        async with slots:
            for path in paths:
                try:
                    if sum(new.values()) >= most and states[path] not in {**known, **new}:
                        raise ToolFailed(f"More than {most:.0f} bytes there were not kept yet.")
                    states[path] = await _kept(deps, path, states[path], known, new)
                except ToolFailed as error:
                    skipped[path] = str(error)
                if states[path] == ABSENT or path in skipped:
                    del states[path]
            through.append(paths[0])
            on_read(len(through), len(twins), sum(new.values()))

    # Files with the same bytes one after the other, so that these are read once.
    twins: dict[str, list[str]] = {}
    through: list[str] = []
    for path, sha256 in listed.listing.files.items():
        if sha256 not in known:
            twins.setdefault(sha256, []).append(path)
    on_read(0, len(twins), 0)
    await asyncio.gather(*(keep(paths) for paths in twins.values()))
    kept = Listing(states)
    total = sum({**known, **new}[sha256] for sha256 in kept.files.values())
    return Kept(Listed(kept, skipped), total, sum(new.values()))


async def _kept(deps: CCAgentDeps, path: str, sha256: str, known: Mapping[str, int], new: dict[str, int]) -> str:
    """The state of a file whose bytes are kept. Raises ToolFailed when it does not stand still."""
    for _ in range(_LOOKS):
        if sha256 in known or sha256 in new or sha256 == ABSENT:
            return sha256
        try:
            new[sha256] = len(await keep_file(deps, byte_string(path), sha256, path) or b"")
        except Changed:
            sha256 = str((await _ask(deps, "fs_stat", byte_string(path))).data.get("sha256", ABSENT))
    raise ToolFailed(f"{path} changes while it is looked at.", remedy="Try again when nothing writes there.")


@dataclass
class _Listing:
    """A listing that grows; its paths come as byte strings."""

    deps: CCAgentDeps
    states: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    looks: int = 0

    async def add(self, wire: str, depth: int = 0) -> None:
        """Add what is at a path and below it, in several looks where one would be too large. Raises ToolFailed."""
        shown = shown_name(wire) or "/"
        if depth > MAX_DEPTH:
            raise ToolFailed(f"{shown} is too deep: at most {MAX_DEPTH} directories in one another are looked at.")
        try:
            looked = await self._look("fs_stat", wire)
        except ComputerFailed as error:
            if error.reason == "too_large":
                await self._in_parts(wire, depth, error)
            elif not (error.reason == "access_denied" and wire):
                raise ToolFailed(sentence(error, shown)) from error
            return
        if looked.data.get("mount") and wire:
            return
        if looked.data.get("kind") == "file":
            sha256 = looked.data.get("sha256")
            if not wire or not isinstance(sha256, str) or not is_sha256(sha256):
                raise unreadable(shown)
            self._put(wire, sha256)
        elif looked.data.get("kind") == "directory":
            if sha256_hex(looked.body) != looked.data.get("sha256"):
                raise unreadable(shown)
            self._put(wire, DIRECTORY)
            for path, sha256 in manifest_lines(looked.body, shown):
                self._put(_joined(wire, path), DIRECTORY if sha256 == NO_HASH else sha256)
            self._leave_out(wire, looked)
        elif not wire:
            # Taken for an empty computer, all that is on it would look new the next time.
            raise ToolFailed("The computer does not tell what is on it.")

    async def _in_parts(self, wire: str, depth: int, too_large: ComputerFailed) -> None:
        """Look at each entry of a directory; a file that is too large is skipped."""
        try:
            listed = await self._look("fs_list", wire)
        except ComputerFailed:
            self.skipped[escaped(wire)] = sentence(too_large, shown_name(wire))
            return
        self._put(wire, DIRECTORY)
        self._leave_out(wire, listed)
        for name in names_in(listed.body, shown_name(wire) or "/"):
            # The game's own files, too large for one look where they are a mount among others.
            if wire or name != "rom":
                await self.add(_joined(wire, name), depth + 1)

    def _leave_out(self, wire: str, looked: CallResult) -> None:
        """Skip what the game lists there and cannot reach."""
        unreachable = unreachable_in(looked.data)
        for name in unreachable.names:
            self.skipped[escaped(_joined(wire, name))] = unreachable.why

    def _put(self, wire: str, state: str) -> None:
        if wire:
            self.states[escaped(wire)] = state
        if len(self.states) > MAX_ENTRIES:
            raise _too_much()

    async def _look(self, method: str, wire: str) -> CallResult:
        self.looks += 1
        if self.looks > _MAX_LOOKS:
            raise _too_much()
        return await _ask(self.deps, method, wire)


def names_in(body: bytes, shown: str) -> list[str]:
    """The names of what is in a directory, as byte strings, by the answer to ``fs_list``. Raises ToolFailed."""
    try:
        entries = loads(body)
    except (ValueError, RecursionError) as error:
        raise unreadable(shown) from error
    if not isinstance(entries, list):
        raise unreadable(shown)
    if len(entries) > MAX_ENTRIES:
        raise _too_much()
    names = [entry.get("name") if isinstance(entry, dict) else None for entry in entries]
    if not all(map(is_name, names)):
        raise unreadable(shown)
    return [str(name) for name in names]


def _too_much() -> ToolFailed:
    return ToolFailed(f"There is more on the computer than the {MAX_ENTRIES} files and directories that are listed.")


async def _ask(deps: CCAgentDeps, method: str, wire: str) -> CallResult:
    # The path is a byte string already; call_cc_command would encode it once more.
    channel = channel_of(deps)
    if channel is None:
        raise ToolFailed("There is no computer to look at.", remedy="Name one that is connected.")
    try:
        return await channel.call(method, {"path": wire}, None, READ_WAIT_S)
    except FrameRefused as error:
        raise too_long(shown_name(wire)) from error


def _joined(above: str, below: str) -> str:
    return f"{above}/{below}" if above else below


# -- The other disks of a computer: what a listing of all that is on it leaves out without a word

_GAME: Final = "rom"
"""The game's own files, on every computer the same."""


async def other_disks(deps: CCAgentDeps, listed: Listed) -> dict[str, str]:
    """The entries of the root that are in no listing since they are another disk, each with a sentence.

    Raises ToolFailed.
    """
    channel = channel_of(deps)
    if channel is None:
        return {}
    try:
        root = await channel.call("fs_list", {"path": ""}, None, READ_WAIT_S)
    except ComputerFailed as error:
        raise ToolFailed(sentence(error, "/")) from error
    found: dict[str, str] = {}
    for wire in names_in(root.body, "/"):
        name = escaped(wire)
        if name in listed.listing.states or name in listed.skipped or name == _GAME:
            continue
        try:
            shown = await channel.call("fs_stat", {"path": wire}, None, READ_WAIT_S)
        except ComputerFailed as error:
            if error.reason != "too_large":
                continue  # The client's own files, or it is gone by now.
            found[name] = "It is another disk."
        else:
            if shown.data.get("mount"):
                found[name] = "It is another disk."
    return found
