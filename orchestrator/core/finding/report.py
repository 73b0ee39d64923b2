"""The short report of what the journal shows, for the end of every task and for every surface."""

from collections.abc import Sequence
from typing import Final, Literal

from orchestrator.core.facts import CheckResult, FileFound, Finding, RunFound, TaskEnded
from orchestrator.core.finding.evidence import ABSENT, Change, Evidence, Run, Spot, stem
from orchestrator.core.paths import spelled
from orchestrator.core.visible import one_line
from orchestrator.core.wire import ComputerId

_FILES: Final = 50
_SAID_CHARS: Final = 160
_MODELS: Final = frozenset({"final", "unverified", "answered"})
"""Reasons of an end whose message a model wrote."""


def finding(evidence: Evidence, checks: Sequence[CheckResult] = ()) -> Finding:
    """What the journal shows of a task; ``checks``: what came of its checks."""
    net = sorted(evidence.net.items())
    found = [_file(spot, change) for spot, change in net]
    programs = evidence.programs
    not_run = [
        spot
        for spot, change in sorted(programs.items())
        if not any(run.at > change.at and (one == spot or _loads(run, spot)) for one, run in evidence.runs.items())
    ]
    return Finding(
        files=tuple(found[:_FILES]),
        more_files=max(0, len(found) - _FILES),
        runs=tuple(_run(spot, run, programs.get(spot)) for spot, run in evidence.runs.items()),
        not_run=tuple(_place(spot) for spot in not_run[:_FILES]),
        checks=tuple(checks),
        looked=bool(evidence.sight or evidence.calls),
    )


def report(ended: TaskEnded) -> list[str]:
    """The lines of the report; empty where an earlier version recorded the end, or there is nothing to tell."""
    found = ended.finding
    if found is None:
        return []
    lines = [_told_file(one) for one in found.files]
    lines += [f"and {found.more_files} more files"] if found.more_files else []
    lines += [_told_run(one) for one in found.runs]
    lines += [f"not run since it was changed: {one_line(name)}" for name in found.not_run]
    lines += [_told_check(one) for one in found.checks]
    if ended.status_reason == "answered" and not found.looked:
        lines.append("nothing was looked at: the model answered from what it knows")
    elif not lines and ended.status == "Completed":
        lines.append("nothing was changed or run")
    if ended.doubt:
        lines.append(f"unverified: {one_line(ended.doubt)}")
    return lines


def says_the_model(ended: TaskEnded) -> bool:
    """Whether the message of an end is the sentence of a model."""
    return ended.status_reason in _MODELS and bool(ended.message)


def _file(spot: Spot, change: Change) -> FileFound:
    there = change.is_there
    kind: Literal["new", "changed", "deleted"] = (
        "deleted" if not there else "new" if change.before == ABSENT else "changed"
    )
    plus, minus = change.plus, change.minus
    if plus is not None and minus is not None and change.before == ABSENT:
        plus, minus = max(0, plus - minus), 0
    return FileFound(computer=_computer(spot), path=spot.path, change=kind, plus=plus, minus=minus)


def _run(spot: Spot, run: Run, change: Change | None) -> RunFound:
    lines = run.text.strip().splitlines()
    return RunFound(
        computer=_computer(spot),
        path=spot.path,
        ended=run.ran.ended,
        seconds=run.ran.seconds,
        stale=change is not None and change.at > run.at,
        said=lines[0][:_SAID_CHARS] if run.failed and lines else "",
        times=run.times,
    )


def _loads(run: Run, spot: Spot) -> bool:
    return stem(spot.path) in run.about


def _computer(spot: Spot) -> ComputerId | None:
    return ComputerId(spot.computer) if spot.computer else None


def _place(spot: Spot) -> str:
    return spelled(spot.path)


def _told_file(one: FileFound) -> str:
    lines = "" if one.plus is None or one.minus is None else f"  +{one.plus} -{one.minus}"
    return f"{one.change} {one_line(spelled(one.path))}{lines}"


def _told_check(one: CheckResult) -> str:
    how = {True: "holds", False: "does not hold", None: "not known"}[one.holds]
    why = f": {one_line(one.why)}" if one.why and not one.holds else ""
    return f"check {one_line(one.check)}: {how}{why}"


def _told_run(one: RunFound) -> str:
    for_s = f" {one.seconds:.0f} s" if one.seconds else ""
    how = {
        "finished": "ended without an error",
        "error": f"ended with an error: {one_line(one.said)}" if one.said else "ended with an error",
        "observed": f"ran{for_s} without an error, then was stopped",
        "timed_out": f"ran{for_s} without an error until its limit",
        "stopped": "was stopped by a person",
        "abandoned": "could not be stopped",
    }[one.ended]
    stale = " (changed since)" if one.stale else ""
    return f"ran {one_line(spelled(one.path))}: {how}{stale}"
