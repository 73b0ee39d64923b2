"""All that is below a path of a computer, and its bytes put where they are found by their hash."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from json import loads
from typing import Final

from orchestrator.core.errors import ComputerFailed, ToolFailed
from orchestrator.core.restoring.listings import Listed, Listing
from orchestrator.core.restoring.touches import ABSENT, DIRECTORY
from orchestrator.ports import CallResult
from orchestrator.tools.computer.asking import READ_WAIT_S, channel_of, sentence
from orchestrator.tools.computer.keeping import Changed, keep_file, manifest_lines
from orchestrator.tools.deps import CCAgentDeps

_AT_ONCE: Final = 4
"""Reads at one time: half of the calls that a computer takes."""
_LOOKS: Final = 3
"""Looks at a file that changes meanwhile."""

Sizes = Callable[[Sequence[str]], Awaitable[Mapping[str, int]]]
"""The sizes in bytes of those blobs of these that are kept."""


@dataclass(frozen=True)
class Kept:
    """A listing of which every file's bytes are kept."""

    listed: Listed
    bytes: int
    """Of all its files."""
    new_bytes: int
    """What of it was not kept before."""


async def list_tree(deps: CCAgentDeps, name: str = "") -> Listed:
    """All that is at a canonical path and below it; the client's own files and other disks are left out.

    Raises ToolFailed.
    """
    listing = _Listing(deps)
    await listing.add(_wire(name))
    return Listed(Listing(listing.states), listing.skipped)


async def keep_tree(deps: CCAgentDeps, listed: Listed, sizes: Sizes) -> Kept:
    """Keep the bytes of every file of a listing, but for those that are kept already.

    A file that changes meanwhile is listed as it is when it is read. Raises ToolFailed.
    """
    states, skipped = dict(listed.listing.states), dict(listed.skipped)
    known = dict(await sizes(sorted(set(listed.listing.files.values()))))
    new: dict[str, int] = {}
    slots = asyncio.Semaphore(_AT_ONCE)

    async def keep(paths: Sequence[str]) -> None:
        async with slots:
            for path in paths:
                try:
                    states[path] = await _kept(deps, path, states[path], known, new)
                except ToolFailed as error:
                    skipped[path] = str(error)
                if states[path] == ABSENT or path in skipped:
                    del states[path]

    # Files with the same bytes one after the other, so that these are read once.
    twins: dict[str, list[str]] = {}
    for path, sha256 in listed.listing.files.items():
        twins.setdefault(sha256, []).append(path)
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
            new[sha256] = await keep_file(deps, _wire(path), sha256, path)
        except Changed:
            sha256 = str((await _ask(deps, "fs_stat", _wire(path))).data.get("sha256", ABSENT))
    raise ToolFailed(f"{path} changes while it is looked at.", remedy="Try again when nothing writes there.")


@dataclass
class _Listing:
    """A listing that grows; its paths come as byte strings."""

    deps: CCAgentDeps
    states: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    async def add(self, wire: str) -> None:
        """Add what is at a path and below it, in several looks where one would be too large. Raises ToolFailed."""
        try:
            shown = await _ask(self.deps, "fs_stat", wire)
        except ComputerFailed as error:
            if error.reason == "too_large":
                await self._in_parts(wire, error)
            elif not (error.reason == "access_denied" and wire):
                raise ToolFailed(sentence(error, _text(wire) or "/")) from error
            return
        if shown.data.get("mount") and wire:
            return
        if shown.data.get("kind") == "file":
            self.states[_text(wire)] = str(shown.data["sha256"])
        elif shown.data.get("kind") == "directory":
            self._directory(wire)
            for path, sha256 in manifest_lines(shown.body, _text(wire)):
                self.states[_text(_joined(wire, path))] = DIRECTORY if sha256 == "-" else sha256

    async def _in_parts(self, wire: str, too_large: ComputerFailed) -> None:
        """Look at each entry of a directory; a file that is too large is skipped."""
        try:
            listed = await _ask(self.deps, "fs_list", wire)
        except ComputerFailed:
            self.skipped[_text(wire)] = sentence(too_large, _text(wire))
            return
        self._directory(wire)
        for entry in loads(listed.body):
            # The game's own files, too large for one look where they are a mount among others.
            if wire or entry["name"] != "rom":
                await self.add(_joined(wire, entry["name"]))

    def _directory(self, wire: str) -> None:
        if wire:
            self.states[_text(wire)] = DIRECTORY


async def _ask(deps: CCAgentDeps, method: str, wire: str) -> CallResult:
    # The path is a byte string already; call_cc_command would encode it once more.
    channel = channel_of(deps)
    if channel is None:
        raise ToolFailed("There is no computer to look at.", remedy="Name one that is connected.")
    return await channel.call(method, {"path": wire}, None, READ_WAIT_S)


def _joined(above: str, below: str) -> str:
    return f"{above}/{below}" if above else below


def _wire(path: str) -> str:
    """A path as the byte string that the computer takes, also where it is no UTF-8."""
    return path.encode("utf-8", "surrogateescape").decode("latin-1")


def _text(wire: str) -> str:
    return wire.encode("latin-1").decode("utf-8", "surrogateescape")
