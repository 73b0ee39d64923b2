"""How each finished call changes the evidence of a task: changes, runs, looks and failures."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from orchestrator.core.evidence.evidence import (
    ABSENT,
    DIRECTORY,
    TEXT_CHARS,
    UNKNOWN,
    Change,
    Evidence,
    Over,
    Run,
    Spot,
    stem,
)
from orchestrator.core.policy import BUILT_IN_CATALOG, RUNNERS
from orchestrator.core.task.facts import Ran
from orchestrator.core.task.states import CallState
from orchestrator.core.values import changed

_SHOWN_CHARS: Final = 160
_MAX_PATHS: Final = 1000
_MAX_MENTIONS: Final = 64
_WRITERS: Final = frozenset({"cc_write", "cc_edit"})
_NOTHING_FOUND: Final = "[0 "
"""How the result of a search begins that found nothing."""
_LISTING: Final = frozenset(
    {"ls", "list", "dir", "type", "id", "help", "about", "programs", "apis", "time", "drives", "motd"}
)
"""Programs of the game that only show something."""
_GONE: Final = frozenset({"delete", "rm", "move", "mv", "rename"})
"""Programs of the game that remove their first argument; those with two arguments make the second."""
_MADE: Final = frozenset({"move", "mv", "rename", "copy", "cp"})
_LOADS: Final = re.compile(
    r"\b(?:require|dofile|loadfile|loadAPI|run|execute|openTab|launch|open)\s*\(?\s*[\"'\[]+([\w./ -]{1,100})"
)
"""How a program names another one that it loads."""
_LOAD_STEMS: Final = ("require", "dofile", "load", "run", "execute", "open", "launch")
_TELL_TABS: Final = frozenset({"cc_stop", "cc_info"})
_TAB_OVER: Final = re.compile(
    r"^(?:- )?(tab-[0-9]+)(?:: .*,)? (?:ended|was stopped)(?:\.| after | with an error)", re.MULTILINE
)
"""How they say that the program of a tab is over."""


def after(evidence: Evidence, calls: Iterable[Over]) -> Evidence:
    """The evidence once these calls of one step are over, in the order of the reply."""
    done: set[str] = set()
    failed: dict[str, str] = {}
    for record in calls:
        evidence = _with_tabs(evidence, record)
        if record.state is CallState.DENIED and record.call.call_digest in done:
            # The same call was twice in the reply, and the first one counted.
            continue
        evidence = _writing(_after(evidence, record), record)
        if record.ok:
            done.add(record.call.call_digest)
            failed.pop(_path(record), None)
        elif record.state in _FAILURES and record.call.tool in BUILT_IN_CATALOG and _changes(record):
            failed[_path(record)] = _named(record)
    if failed:
        # A success beside it does not make up for it.
        evidence = changed(evidence, effect=False, failure=[*failed.values()][-1])
    return evidence


def _writing(evidence: Evidence, record: Over) -> Evidence:
    """The files after a write: with the old file where it did not happen, without it where it did."""
    if record.call.tool not in _WRITERS:
        return evidence
    spot = {_spot(record, _path(record))}
    if record.ok:
        return changed(evidence, unwritten=evidence.unwritten - spot)
    return changed(evidence, unwritten=evidence.unwritten | spot) if record.state in _FAILURES else evidence


def checked(evidence: Evidence, calls: Iterable[Over]) -> Evidence:
    """The evidence once the orchestrator made calls for checks: their runs count for what the task changed.

    They are not work of the model: they show nothing of other programs, and they make up for no failure.
    """
    for record in calls:
        if record.ran is None:
            continue
        evidence = _with_tabs(evidence, record)
        shown = _with_run(changed(evidence, calls=evidence.calls + 1), record)
        spot = _spot(record, record.ran.path)
        loaded = shown.runs[spot].about
        if any(one == spot or (one.computer == spot.computer and stem(one.path) in loaded) for one in evidence.net):
            evidence = shown
    return evidence


_FAILURES: Final = frozenset({CallState.FAILED, CallState.DENIED, CallState.SUPERSEDED})
"""Ends of a call that nothing beside it makes up for; what a person rejected they know of."""


def _after(evidence: Evidence, record: Over) -> Evidence:
    tool = record.call.tool
    if tool not in BUILT_IN_CATALOG or BUILT_IN_CATALOG[tool].shows == "nothing":
        return evidence
    if not _changes(record):
        return _looked(evidence, record)
    if record.state is CallState.ANSWERED:
        # What a person gave instead of a result changed nothing.
        return evidence
    evidence = changed(evidence, calls=evidence.calls + 1)
    if tool in RUNNERS:
        evidence = _with_run(evidence, record)
    if not record.ok:
        # A change that a program made before it failed is a change all the same.
        changes = _with_unknown(dict(evidence.changes), record, record.changed, evidence.calls)
        evidence = changed(evidence, changes=changes)
        denied = evidence.denied or record.state is CallState.DENIED
        return changed(evidence, effect=False, failure=_named(record), denied=denied)
    evidence = _with_changes(evidence, record)
    about = {str(record.call.args[name]) for name in ("path", "to") if record.call.args.get(name)} | {*record.changed}
    left = tuple(one for one in evidence.unseen if one not in about)
    return changed(evidence, effect=True, failure="", gap="", denied=False, unseen=left)


def _looked(evidence: Evidence, record: Over) -> Evidence:
    path = _path(record)
    others = tuple(one for one in evidence.unseen if one != path)
    if not record.ok:
        return changed(evidence, gap=_named(record), unseen=(*others, path) if path else others)
    result = record.result or ""
    shows = BUILT_IN_CATALOG[record.call.tool].shows
    closes = shows != "surroundings" and not result.startswith(_NOTHING_FOUND)
    shown = f"{evidence.shown}\n{result}"[-TEXT_CHARS:]
    evidence = changed(evidence, sight=True, gap="" if closes else evidence.gap, unseen=others, shown=shown)
    if shows == "content":
        spot = _spot(record, path)
        return _loading(changed(evidence, seen=evidence.seen | {spot}), spot, result)
    if record.call.tool == "cc_find" and closes and record.call.args.get("contains"):
        return changed(evidence, found=(evidence.found + result)[-TEXT_CHARS:])
    return evidence


# -- changes --------------------------------------------------------------------------------


def _with_changes(evidence: Evidence, record: Over) -> Evidence:
    before = dict(record.before or {})
    changes = dict(evidence.changes)
    plus, minus = record.lines or (None, None)
    for path, now in _left(record).items():
        spot = _spot(record, path)
        was = before.get(path, UNKNOWN)
        _below(changes, spot, now, evidence.calls)
        state = DIRECTORY if record.call.tool == "cc_mkdir" else now
        change = _changed(changes.get(spot), was, state, evidence.calls, plus, minus)
        changes[spot] = _written(change, changes.get(spot), record)
    source, target = record.call.args.get("path"), record.call.args.get("to")
    if record.call.tool == "cc_move" and isinstance(source, str) and isinstance(target, str):
        _move(changes, _spot(record, source), _spot(record, target), evidence.calls)
    _with_unknown(changes, record, (*record.changed, *_of_shell(record)), evidence.calls)
    evidence = changed(evidence, changes=dict([*changes.items()][-_MAX_PATHS:]))
    text = record.call.args.get("content") or record.call.args.get("new")
    return _loading(evidence, _spot(record, _path(record)), text) if isinstance(text, str) else evidence


def _left(record: Over) -> Mapping[str, str]:
    """The state that a call left at each path.

    For a call that a person says was done, the state that it should leave.
    """
    if record.after or not record.note or record.call.tool in RUNNERS:
        return record.after
    gone = _path(record) if record.call.tool in ("cc_delete", "cc_move") else None
    return {path: ABSENT if path == gone else UNKNOWN for path in record.before or {}}


def _with_unknown(changes: dict[Spot, Change], record: Over, paths: Iterable[str], at: int) -> dict[Spot, Change]:
    """With paths that a program changed in an unknown way; a path that is gone begins with a minus."""
    for path in paths:
        spot = _spot(record, path.lstrip("-"))
        now = ABSENT if path.startswith("-") else UNKNOWN
        changes[spot] = _changed(changes.get(spot), UNKNOWN, now, at, None, None)
    return changes


def _changed(old: Change | None, was: str, now: str, at: int, plus: int | None, minus: int | None) -> Change:
    if old is None:
        return Change(was, now, at, plus, minus)
    if None in (old.plus, old.minus, plus, minus):
        return changed(old, now=now, at=at, plus=None, minus=None)
    return changed(old, now=now, at=at, plus=(old.plus or 0) + (plus or 0), minus=(old.minus or 0) + (minus or 0))


def _written(change: Change, old: Change | None, record: Over) -> Change:
    """The change with the text that the call wrote, and with whether it is of comments only."""
    text = record.call.args.get("content") or record.call.args.get("new")
    before = old.text if old is not None else ""
    known = isinstance(text, str) and before is not None and record.call.tool in _WRITERS
    only_comments = record.only_comments and (old is None or old.only_comments)
    return changed(change, text=f"{before}\n{text}"[-TEXT_CHARS:] if known else None, only_comments=only_comments)


def _below(changes: dict[Spot, Change], spot: Spot, now: str, at: int) -> None:
    """A directory that is gone takes along what the task changed in it."""
    if now == ABSENT:
        for one, change in [*changes.items()]:
            if one.computer == spot.computer and one.path.startswith(f"{spot.path}/"):
                changes[one] = changed(change, now=ABSENT, at=at)


def _move(changes: dict[Spot, Change], source: Spot, target: Spot, at: int) -> None:
    """What the task changed in a directory is, after the directory moved, in the other place."""
    for one, change in [*changes.items()]:
        if one.computer == source.computer and one.path.startswith(f"{source.path}/") and change.at == at:
            there = Spot(target.computer, target.path + one.path.removeprefix(source.path))
            changes[there] = Change(ABSENT, UNKNOWN, at, None, None)


def _of_shell(record: Over) -> list[str]:
    """The paths that a program of the game changed by its arguments; a path that is gone begins with a minus."""
    words = str(record.call.args.get("command") or "").split() if record.call.tool == "cc_shell" else []
    if len(words) < 2 or (record.ran is not None and not record.ran.path.startswith("rom/")):
        return []
    name, paths = stem(words[0]), words[1:3]
    gone = [f"-{paths[0]}"] if name in _GONE else []
    return gone + (paths[1:] if name in _MADE else [])


# -- runs -----------------------------------------------------------------------------------


def _with_run(evidence: Evidence, record: Over) -> Evidence:
    ran = record.ran or _as_before(record)
    if ran is None:
        return evidence
    spot = _spot(record, ran.path)
    if record.observed is not None and record.observed.source:
        evidence = _loading(evidence, spot, record.observed.source)
    words = [*record.call.args.get("args", ()), *str(record.call.args.get("command") or "").split()[1:]]
    typed = str(record.call.args.get("input") or "").splitlines()
    earlier = evidence.runs.get(spot)
    run = Run(
        ran=ran,
        at=evidence.calls,
        text=_kept(record.result or ""),
        about=_closure(evidence, spot) | {stem(word) for word in words},
        given=frozenset([*words, *typed]) | (earlier.given if earlier is not None else frozenset()),
        told=_kept(f"{earlier.told if earlier is not None else ''}\n{record.result or ''}"),
        times=1 + (earlier.times if earlier is not None else 0),
    )
    return changed(evidence, runs={**evidence.runs, spot: run})


def _with_tabs(evidence: Evidence, record: Over) -> Evidence:
    """With the tabs that a call left in the background, without those that it showed to be over."""
    started, over = (record.ran.tabs if record.ran is not None else ()), list[str]()
    if record.ok and record.call.tool in _TELL_TABS:
        over = _TAB_OVER.findall(record.result or "")
    if not started and not over:
        return evidence
    tabs = {spot: by for spot, by in evidence.tabs.items() if spot.path not in over or spot != _spot(record, spot.path)}
    by = record.ran.path if record.ran is not None else ""
    return changed(evidence, tabs=tabs | {_spot(record, tab): by for tab in started})


def _as_before(record: Over) -> Ran | None:
    """The run of an item of version 0.6, which names no program; None: nothing ran."""
    path, sha256 = next(iter((record.before or {}).items()), ("", ABSENT))
    if sha256 == ABSENT or record.state not in (CallState.EXECUTED, CallState.FAILED):
        return None
    return Ran(path=path, sha256=sha256, ended="finished" if record.ok else "error")


def _loading(evidence: Evidence, spot: Spot, text: str) -> Evidence:
    text = text[:TEXT_CHARS]
    found = (
        {stem(one.split(" ")[0]) for one in _LOADS.findall(text)}
        if any(one in text for one in _LOAD_STEMS)
        else set[str]()
    )
    if not found - evidence.loads.get(spot, frozenset()):
        return evidence
    known = sorted(found | evidence.loads.get(spot, frozenset()))[:_MAX_MENTIONS]
    return changed(evidence, loads={**evidence.loads, spot: frozenset(known)})


def _closure(evidence: Evidence, spot: Spot) -> frozenset[str]:
    """The names of what a program loads, and what that loads in turn."""
    by_stem: dict[str, set[str]] = {}
    for one, names in evidence.loads.items():
        if one.computer == spot.computer:
            by_stem.setdefault(stem(one.path), set()).update(names)
    found, ahead = set[str](), [*evidence.loads.get(spot, ())]
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += by_stem.get(name, ())
    return frozenset(found)


def _kept(text: str) -> str:
    half = TEXT_CHARS // 2
    return text if len(text) <= TEXT_CHARS else f"{text[:half]}\n{text[-half:]}"


# -- calls ----------------------------------------------------------------------------------


def _path(record: Over) -> str:
    return str(record.call.args.get("path", ""))


def _spot(record: Over, path: str) -> Spot:
    return Spot(record.call.computer or "", "/".join(part for part in path.split("/") if part not in ("", ".")))


def _changes(record: Over) -> bool:
    """Whether a call changes or runs something; a listing program is only looked at."""
    named = str(record.call.args.get("command") or "") if record.call.tool == "cc_shell" else ""
    word = named.split()[0].rpartition("/")[2].removesuffix(".lua") if named.split() else ""
    return record.mutates and word not in _LISTING


def _named(record: Over) -> str:
    said = (record.result or "").strip().partition("\n")[0][:_SHOWN_CHARS].rstrip()
    return f"{record.call.tool}: {said}{'' if said.endswith(('.', '!', '?')) else '.'}"
