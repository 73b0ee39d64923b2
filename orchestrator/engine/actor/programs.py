"""Programs are watched: the files that the policy names are listed before and after, with their old bytes kept."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from orchestrator.core.approval.command import ActivePolicy
from orchestrator.core.errors import CallVoid, ComputerFailed, NotFound, ToolFailed
from orchestrator.core.policy import RUNNERS
from orchestrator.core.policy.verdicts import is_watched, watched_roots
from orchestrator.core.task.facts import ToolCall, Watched
from orchestrator.core.task.task import CallRecord
from orchestrator.core.undo.plan import Listed, Listing, read_listing
from orchestrator.core.undo.touches import ABSENT, DIRECTORY, differing, named, places_of
from orchestrator.core.wire.own_token import hidden
from orchestrator.core.wire.wire import ComputerId, sha256_hex
from orchestrator.tools.environment import Environment

WITHIN_S: Final = 20.0
"""The longest that a program's start, or what it came to, waits for a look: a full disk of a computer takes a few."""
MAX_NEW_BYTES: Final = 2_000_000
"""The most bytes that one program's start keeps: two disks as the game has them."""
_Looked = TypeVar("_Looked")
_MAX_CHANGED: Final = 50
_TOLD: Final = 10
_REASONS: Final = 2
_LOOK_AGAIN_S: Final = 0.2


@dataclass(frozen=True)
class Seen:
    """A look after a program."""

    watched: Watched | None = None
    """None: nothing was watched."""
    told: str = ""
    """The changes and the unknown places, as sentences; empty: nothing changed, or nothing is watched."""


UNSEEN: Final = Seen()
"""Where nothing was watched."""


@dataclass(frozen=True)
class Programs:
    """Looks at what is watched around the programs of one task."""

    world: Environment
    active_policy: ActivePolicy

    def note(self, call: ToolCall) -> str:
        """The note for a reviewer about it; empty: the call runs no program."""
        if call.tool not in RUNNERS or self.world.computers is None:
            return ""
        globs = self._globs(call)
        places = f"What it changes {places_of(globs)} is watched and can be put back."
        if not globs:
            places = "Nothing is watched while it runs: what it changes cannot be put back."
        return f"{self._time(call)} {places}"

    def limit_s(self, call: ToolCall) -> int | None:
        """Seconds of the game that a program may run: as the call says, the policy, or the setting.

        None: the call runs no program.
        """
        if call.tool not in RUNNERS:
            return None
        of_policy = None if call.computer is None else self.active_policy.run_timeout_s(call.computer)
        limit = call.args.get("timeout_s") or of_policy or self.world.run_timeout_s
        return max(int(limit), int(call.args.get("observe_s") or 0))

    def _time(self, call: ToolCall) -> str:
        """The time that it may run, as a sentence for the reviewer."""
        watched = call.args.get("observe_s")
        if watched:
            return f"It is watched for {watched} s of game time and then stopped."
        return f"It may run for {self.limit_s(call)} s of game time."

    async def before(self, call: ToolCall) -> Watched | None:
        """The listings before a program is started, its bytes in the store; None: nothing is watched.

        It is said, and stops no program, where nobody could look, or where that is too much. Raises ComputerAway,
        CallLost.
        """
        globs, computer = self._globs(call), call.computer
        if computer is None or not globs:
            return None
        until = asyncio.get_running_loop().time() + WITHIN_S
        listed = await self._listed(computer, globs, until)
        if isinstance(listed, str):
            return Watched(globs=globs, why=listed)
        kept = await _patiently(partial(self.world.kept, computer, listed, until=until, most=MAX_NEW_BYTES), until)
        if isinstance(kept, str):
            return Watched(globs=globs, why=kept)
        unkept = {path: listed.listing.state(path) for path in kept.listed.skipped}
        states = {**kept.listed.listing.states, **{path: one for path, one in unkept.items() if one != ABSENT}}
        why = _reasons(kept.listed.skipped)
        gaps = await self._keep(unkept) if unkept else ""
        return Watched(globs=globs, listing=await self._keep(states), gaps=gaps, why=why)

    async def after(self, record: CallRecord, when: str) -> Seen:
        """The listings after a program; ``when`` begins the sentence. Raises ComputerAway, CallLost."""
        before, computer = record.watched, record.call.computer
        if before is None or computer is None:
            return UNSEEN
        if not before.listing:
            return Seen(told=_unknown("before it was started", before.why))
        until = asyncio.get_running_loop().time() + WITHIN_S
        listed = await self._listed(computer, before.globs, until)
        if isinstance(listed, str):
            return Seen(Watched(why=listed), _unknown("afterwards", listed))
        gaps = await self._keep(dict.fromkeys(listed.skipped, ABSENT)) if listed.skipped else ""
        now = await self._keep(listed.listing.states)
        try:
            unseen = await self._unseen(before, listed)
            changed = await self._changed(before, listed, unseen) if now != before.listing else {}
        except NotFound as gone:
            return Seen(Watched(why=gone.message), _unknown("afterwards", gone.message))
        watched = Watched(
            listing=now,
            gaps=gaps,
            changed=tuple(hidden(_shown(path), listed.pieces) for path in list(changed)[:_MAX_CHANGED]),
            why=_reasons(listed.skipped),
        )
        lacking = f"What it did to {named(unseen)} is not known: {before.why or watched.why}" if unseen else ""
        told = " ".join(filter(None, (_told(changed, when), lacking)))
        return Seen(watched, hidden(told, listed.pieces))

    def _globs(self, call: ToolCall) -> tuple[str, ...]:
        """Where the policy watches a call: only programs of computers that are connected here."""
        return self.active_policy.watch if call.tool in RUNNERS and self.world.computers is not None else ()

    async def _listed(self, computer: ComputerId, globs: Sequence[str], until: float) -> Listed | str:
        """The content of the watched places, or the reason why nobody can say, as a sentence."""
        states: dict[str, str] = {}
        skipped: dict[str, str] = {}
        pieces: frozenset[str] = frozenset()
        for root in watched_roots(globs):
            listed = await _patiently(partial(self.world.listed, computer, root, until=until), until)
            if isinstance(listed, str):
                return listed
            states |= {path: state for path, state in listed.listing.states.items() if is_watched(globs, path)}
            skipped |= listed.skipped
            pieces |= listed.pieces
        return Listed(Listing(states), skipped, pieces)

    async def _unseen(self, before: Watched, now: Listed) -> list[str]:
        """The paths that one of the looks did not reach. Raises NotFound."""
        gaps = read_listing(await self.world.store.get_blob(before.gaps)).states if before.gaps else {}
        return sorted({*now.skipped, *(path for path, state in gaps.items() if state == ABSENT)})

    async def _changed(self, before: Watched, now: Listed, unseen: Sequence[str]) -> dict[str, tuple[str, str]]:
        """The present differences, except for paths in ``unseen``. Raises NotFound."""
        was = read_listing(await self.world.store.get_blob(before.listing))
        return differing(was.states, now.listing.states, unseen)

    async def _keep(self, states: Mapping[str, str]) -> str:
        lines = Listing(states).lines
        await self.world.store.put_blob(lines)
        return sha256_hex(lines)


def with_told(text: str, told: str) -> str:
    """A result with what is told beside it."""
    return "\n".join(filter(None, (text.removesuffix("\n"), told))) if told else text


async def _patiently(look: Callable[[], Awaitable[_Looked]], until: float) -> _Looked | str:
    """The listing of a look, or the reason why it failed; a computer that refuses it is asked again."""
    while True:
        try:
            return await look()
        except (ToolFailed, ComputerFailed) as error:
            return error.message
        except CallVoid as void:
            if asyncio.get_running_loop().time() + _LOOK_AGAIN_S >= until:
                return void.message
        await asyncio.sleep(_LOOK_AGAIN_S)


def _told(changed: Mapping[str, tuple[str, str]], when: str) -> str:
    """What changed, for the model: files, and the directories in which no file did."""
    above = {path.rpartition("/")[0] for path in changed}
    leaves = {path: states for path, states in changed.items() if path not in above or not _only_directory(states)}
    if not leaves:
        return ""
    shown = [_word(path, *states) for path, states in list(leaves.items())[:_TOLD]]
    more = f" and {len(leaves) - _TOLD} more" if len(leaves) > _TOLD else ""
    return f"{when}, these files changed: {', '.join(shown)}{more}."


def _reasons(skipped: Mapping[str, str]) -> str:
    """Why something is in no listing: the first reasons, where there are several."""
    return " ".join(list(dict.fromkeys(skipped.values()))[:_REASONS])


def _unknown(when: str, why: str) -> str:
    """The text for the model where a look failed."""
    return (
        f"Which files it changed is not known, and cannot be put back: nobody could look {when} at the files that are "
        f"watched: {why}"
    )


def _word(path: str, was: str, now: str) -> str:
    slash = "/" if _only_directory((was, now)) else ""
    word = " (new)" if was == ABSENT else " (gone)" if now == ABSENT else ""
    return f"{_shown(path)}{slash}{word}"


def _only_directory(states: tuple[str, str]) -> bool:
    """Whether a directory was made or removed, and nothing else took or had its place."""
    return set(states) == {DIRECTORY, ABSENT}


def _shown(path: str) -> str:
    return named([path])
