"""The changes of a task, path by path, from its items."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from orchestrator.core.errors import Unreadable
from orchestrator.core.policy import BUILT_IN_CATALOG
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.text.paths import spelled
from orchestrator.core.values import ComputerId, RunId
from orchestrator.core.wire.wire import is_sha256

ABSENT: Final = "absent"
DIRECTORY: Final = "directory"
"""The state of a place where there is a directory; the entries in it are places of their own."""
NO_HASH: Final = "-"
"""Stands for a directory where a file has its hash, in the lines of a directory."""
NEVER_RAN: Final = frozenset({"stale", "refused"})
"""The codes of a program that did not even start."""
_NAMED: Final = 5
WORKSPACE: Final = "workspace"
"""How a place on this host is written, where another has its computer."""


_NOT_HEARD: Final = "Nobody has heard yet how it ended; until then its changes are not known."


@dataclass(frozen=True, order=True)
class Place:
    """One path of one computer, or of the workspace on this host."""

    computer: ComputerId | None
    path: str
    """Names on a computer are bytes: one that is not UTF-8 is escaped here (``surrogateescape``)."""

    def __str__(self) -> str:
        """As a person writes it: ``farm:startup.lua``; no two places are written alike."""
        return f"{self.computer or WORKSPACE}:{shown(self.path)}"


def is_text(path: str) -> bool:
    """Whether the path of a place is UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in path)


def shown(path: str) -> str:
    """The path of a place as text for people."""
    return spelled(path)


def as_argument(path: str) -> str:
    """The path of a place as a call has it: all of it as latin-1 where it is not UTF-8; the call says so then."""
    return path if is_text(path) else path.encode("utf-8", "surrogateescape").decode("latin-1")


def place_of(call: facts.ToolCall) -> Place:
    """Where a call works that has one path."""
    return _place(call.computer, call, call.args["path"])


def escaped(path: str) -> str:
    """The path of a place by its latin-1 text, which :func:`as_argument` gave."""
    return path.encode("latin-1").decode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class Touch:
    """One call's change of one place."""

    step: int
    """The step of the task, from 1."""
    call_id: CallId
    tool: str
    place: Place
    before: str
    """The sha256 of a file, ``absent`` or ``directory``, as the one below."""
    after: str | None
    """None: nobody knows whether the call was done."""


@dataclass(frozen=True)
class Untold:
    """Something that a task did and that no undo takes back, or of which it is not known yet what it did."""

    step: int
    call_id: CallId
    tool: str
    computer: ComputerId | None
    what: str
    """A sentence."""
    unseen: bool = False
    """A program that was to be watched, and before or after which nobody could look."""


@dataclass(frozen=True)
class Changes:
    """The changes of a task, in the order in which it did."""

    touches: tuple[Touch, ...] = ()
    untold: tuple[Untold, ...] = ()
    open: tuple[Untold, ...] = ()
    """Calls that were begun and of which nobody has heard yet how they ended."""
    vain: frozenset[str] = frozenset()
    """The digests of calls that came to nothing, and after which none changed anything."""

    @property
    def unseen(self) -> tuple[Untold, ...]:
        """The programs that were to be watched and of which nobody knows what they changed."""
        return tuple(one for one in self.untold if one.unseen)


def trees_of(items: Iterable[AgentTaskItem]) -> frozenset[str]:
    """The hashes of directories that calls deleted or moved, and of what was watched around programs.

    :func:`changes` needs the lines that they are taken over.
    """
    found: set[str] = set()
    for item in items:
        fact = item.fact
        if isinstance(fact, facts.ToolStarted):
            found |= {fact.before[path] for path in fact.directories if path in fact.before}
        if isinstance(fact, facts.ToolStarted | facts.ToolFinished | facts.ToolSettled) and fact.watched is not None:
            found |= {fact.watched.listing, fact.watched.gaps}
    return frozenset(found - {""})


def changes(items: Iterable[AgentTaskItem], trees: Mapping[str, bytes]) -> Changes:
    """What the items of a task changed; ``trees`` has the lines of each directory that :func:`trees_of` names.

    Raises Unreadable for other lines.
    """
    reading = _Reading(trees)
    for item in items:
        reading.take(item.fact)
    return Changes(tuple(reading.touches), tuple(reading.untold), reading.still_open(), reading.vain())


@dataclass
class _Reading:
    """The items so far."""

    trees: Mapping[str, bytes]
    touches: list[Touch] = field(default_factory=list)
    untold: list[Untold] = field(default_factory=list)
    started: dict[RunId, facts.ToolStarted] = field(default_factory=dict)
    """The calls without an outcome so far."""
    calls: dict[CallId, facts.ToolCall] = field(default_factory=dict)
    done: set[CallId] = field(default_factory=set)
    """The calls that changed something."""
    step: int = 0
    replied: bool = False
    """Whether the present step is a reply of the model that is already counted."""

    def still_open(self) -> tuple[Untold, ...]:
        """As ``Changes.open``."""
        return tuple(
            Untold(self.step, one.call_id, self.calls[one.call_id].tool, one.computer, _NOT_HEARD)
            for one in self.started.values()
        )

    def vain(self) -> frozenset[str]:
        """As ``Changes.vain``: a call that changed something may have made room for those before it."""
        last = max((at for at, call_id in enumerate(self.calls) if call_id in self.done), default=-1)
        return frozenset(call.call_digest for call in list(self.calls.values())[last + 1 :])

    def take(self, fact: facts.Fact) -> None:
        match fact:
            case facts.ModelReplied():
                self.step, self.replied = self.step + 1, True
            case facts.CallsProposed():
                self.step += not self.replied
                self.replied = False
                self.calls.update({call.call_id: call for call in fact.calls})
            case facts.DecisionRecorded():
                again = {one.retry_as: self.calls[one.call_id] for one in fact.decisions if one.retry_as is not None}
                self.calls.update(again)
            case facts.ToolStarted():
                self.started[fact.run_id] = fact
            case facts.ToolFinished() | facts.ToolSettled():
                self._ended(fact)
            case _:
                pass

    def _ended(self, fact: facts.ToolFinished | facts.ToolSettled) -> None:
        started = self.started.pop(fact.run_id, None)
        if started is None:
            return
        known = isinstance(fact, facts.ToolFinished) or fact.state == "finished"
        if isinstance(fact, facts.ToolSettled) and fact.state == "void":
            return
        call = self.calls[started.call_id]
        tool = BUILT_IN_CATALOG[call.tool]
        if tool.runs:
            self._ran(started, call, fact)
        elif not tool.governance.mutates or (known and not fact.ok and not tool.fails_midway):
            return
        elif tool.undo:
            self._cannot(started, call, tool.undo)
        else:
            self.done |= {started.call_id} if known else set()
            self.touches.extend(self._touched(started, call, fact.after if known else None))

    def _cannot(self, started: facts.ToolStarted, call: facts.ToolCall, what: str, *, unseen: bool = False) -> None:
        self.untold.append(Untold(self.step, started.call_id, call.tool, started.computer, what, unseen))

    def _ran(
        self, started: facts.ToolStarted, call: facts.ToolCall, ended: facts.ToolFinished | facts.ToolSettled
    ) -> None:
        """What a program did, as far as it was watched."""
        if ended.code in NEVER_RAN or set(started.before.values()) == {ABSENT}:
            return
        before, after = started.watched, ended.watched
        blind = before is not None and (not before.listing or after is None or not after.listing)
        self._cannot(started, call, _of_program(before, after), unseen=blind)
        if ended.code == "abandoned":
            self._cannot(started, call, "The program could not be stopped: its changes after that are not known.")
        if before is None or after is None or blind:
            return
        # Somebody else may have been there between the end of the program and a later look.
        known = isinstance(ended, facts.ToolFinished)
        lacking, lost = self._states(before.gaps), list[str]()
        unseen = [path for path, state in (lacking | self._states(after.gaps)).items() if state == ABSENT]
        changed = differing(self._states(before.listing), self._states(after.listing), unseen)
        for path, (was, now) in changed.items():
            if path in lacking:
                lost.append(path)
                continue
            place = Place(started.computer, path)
            self.touches.append(Touch(self.step, started.call_id, call.tool, place, was, now if known else None))
        if unseen:
            self._cannot(started, call, f"What it did to {named(unseen)} is not known: {before.why or after.why}")
        if lost:
            self._cannot(started, call, f"It changed {named(lost)}, whose bytes were not kept: {before.why}")

    def _states(self, lines: str) -> dict[str, str]:
        """What is in kept lines, by their hash; empty: nothing."""
        return states_of(self.trees[lines]) if lines else {}

    def _touched(
        self, started: facts.ToolStarted, call: facts.ToolCall, after: Mapping[str, str] | None
    ) -> Iterator[Touch]:
        """The change of a call; ``after`` None: it is not known whether it was made."""
        one = Touch(self.step, started.call_id, call.tool, Place(started.computer, ""), ABSENT, None)
        for path in started.made:
            yield replace(one, place=_place(started.computer, call, path), after=None if after is None else DIRECTORY)
        trees = {path: self._leaves(started.before[path]) for path in started.directories if path in started.before}
        moved = next(iter(trees.values()), None)
        for path, before in started.before.items():
            left = None if after is None else after.get(path)
            if path in trees:
                for below, state in trees[path].items():
                    gone = left if left is None or not below else ABSENT
                    yield replace(one, place=_place(started.computer, call, path, below), before=state, after=gone)
            elif before == ABSENT and moved is not None:
                for below, state in moved.items():
                    yield replace(
                        one, place=_place(started.computer, call, path, below), after=None if left is None else state
                    )
            else:
                made = left is not None and _makes_directory(call)
                yield replace(
                    one, place=_place(started.computer, call, path), before=before, after=DIRECTORY if made else left
                )

    def _leaves(self, tree: str) -> dict[str, str]:
        """What is in a directory, by its path below it, the directory itself as the empty one."""
        return {"": DIRECTORY} | states_of(self.trees[tree])


def differing(
    before: Mapping[str, str], after: Mapping[str, str], unseen: Sequence[str] = ()
) -> dict[str, tuple[str, str]]:
    """The paths whose states differ, sorted, each with what it was and what it is.

    Left out is what is ``unseen``, and what is below that.
    """
    both = ((path, (before.get(path, ABSENT), after.get(path, ABSENT))) for path in sorted({*before, *after}))
    found = {path: (was, now) for path, (was, now) in both if was != now}
    return {path: states for path, states in found.items() if not _is_in(path, unseen)}


def _is_in(path: str, places: Sequence[str]) -> bool:
    return any(f"{path}/".startswith(f"{one}/") for one in places)


def states_of(lines: bytes) -> dict[str, str]:
    """What is in a directory, by the lines that its hash is taken over; a name that is not UTF-8 has surrogates.

    Raises Unreadable.
    """
    *whole, rest = lines.decode("utf-8", "surrogateescape").split("\n")
    parts = [line.split("\0") for line in whole]
    if rest or not all(len(one) == 3 and (one[2] in (NO_HASH, ABSENT) or is_sha256(one[2])) for one in parts):
        raise Unreadable("The record of a directory cannot be read.")
    return {path: DIRECTORY if sha256 == NO_HASH else sha256 for path, _, sha256 in parts}


def _place(computer: ComputerId | None, call: facts.ToolCall, path: str, below: str = "") -> Place:
    """A path of a call as a place: calls on this host keep the spelling of the model."""
    if computer is None:
        path = "/".join(part for part in path.split("/") if part not in ("", "."))
    elif call.args.get("encoding") == "latin-1":
        path = escaped(path)
    return Place(computer, f"{path}/{below}" if below else path)


def _makes_directory(call: facts.ToolCall) -> bool:
    """Whether a call leaves a directory: an empty one has the hash of an empty file."""
    restores = call.tool in ("cc_restore", "local_restore")
    return call.tool == "cc_mkdir" or (restores and call.args.get("to") == DIRECTORY)


def _of_program(before: facts.Watched | None, after: facts.Watched | None) -> str:
    """The effects of a program's run that cannot be taken back."""
    if before is None:
        return "A program ran: what it changed, moved or sent is not known."
    if not before.listing or after is None or not after.listing:
        when = "before" if not before.listing else "afterwards"
        why = before.why if not before.listing else after.why if after is not None else ""
        looked = f"Nobody could look {when} at the files that are watched{f': {why}' if why else '.'}"
        return f"A program ran: what it changed, moved or sent is not known. {looked}"
    where = places_of(before.globs)
    return f"A program ran: which files it changed is known only {where}; what else it changed, moved or sent is not."


def places_of(globs: Sequence[str]) -> str:
    """The places that are watched."""
    return "on the computer's own disk" if "**" in globs else f"in {', '.join(globs)}"


def named(paths: Sequence[str]) -> str:
    """Some paths for a person, the first few by their names."""
    first = [shown(path) for path in paths[:_NAMED]]
    more = len(paths) - len(first)
    return f"{', '.join(first)} and {more} more" if more else ", ".join(first)
