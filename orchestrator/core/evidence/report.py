"""The short report from the journal, for the end of every task and for every surface."""

import re
from collections.abc import Sequence
from typing import Final, Literal

from orchestrator.core.evidence.evidence import ABSENT, Change, Evidence, Run, Spot, stem
from orchestrator.core.task.facts import CheckResult, FileFound, Finding, RunFound, TaskEnded, ToolCall
from orchestrator.core.text.paths import spelled
from orchestrator.core.text.visible import one_line
from orchestrator.core.values import ComputerId

_FILES: Final = 50
_SAID_CHARS: Final = 160
_MODELS: Final = frozenset({"final", "unverified", "answered"})
"""Reasons of an end whose message a model wrote."""
_RESTORED: Final = frozenset({"restored", "conflicts", "not_restored"})
"""Reasons of the end of an undo, which changes programs and runs none."""
UNVERIFIED: Final = "Unverified, because the journal does not support it. The model says: "
"""The text before the message of such an end where it is shown without its report."""
_FAILED: Final = re.compile(r"\A(?:Program|Command) .*? failed \(\w+\): ")
"""What a tool says before the error of a program; the report has said it."""
_STEP: Final = re.compile(
    r"(?:(?<=[.!?]) (?:Do|Fix|Look|Put|Read|Run|Say|Write|If it cannot)\b|(?:\A|:) ?run it(?: again)?, or\b).*\Z",
    re.DOTALL,
)
"""The step that the model was told to take next."""


def finding(
    evidence: Evidence,
    checks: Sequence[CheckResult] = (),
    *,
    unknown: Sequence[ToolCall] = (),
    several: bool = False,
) -> Finding:
    """What the journal shows of a task.

    Args:
        evidence: What its finished calls show.
        checks: What came of its checks.
        unknown: The calls that began to change or run something, and whose outcome is not known.
        several: Whether it has several computers.
    """
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
        runs=tuple(_run(spot, run, programs.get(spot), _tabs(evidence, spot)) for spot, run in evidence.runs.items()),
        not_run=tuple(_place(_computer(spot), spot.path, several=several) for spot in not_run[:_FILES]),
        unknown=tuple(_called(call, several=several) for call in unknown),
        checks=tuple(checks),
        looked=bool(evidence.sight or evidence.calls or unknown),
        several=several,
    )


def report(ended: TaskEnded) -> list[str]:
    """The lines of the report; empty where version 0.6 recorded the end, or there is nothing to tell."""
    found = ended.finding
    if found is None:
        return []
    lines = [_told_file(one, several=found.several) for one in found.files]
    lines += [f"and {found.more_files} more files"] if found.more_files else []
    lines += [_told_run(one, several=found.several) for one in found.runs]
    lines += [f"without a result when the task ended: {one_line(name)}" for name in found.unknown]
    if ended.status_reason not in _RESTORED:
        lines += [f"not run since it was changed: {one_line(name)}" for name in found.not_run]
    lines += [_told_check(one) for one in found.checks]
    if ended.status_reason == "answered" and not found.looked:
        lines.append("nothing was looked at: the model answered from what it knows")
    elif not lines:
        lines.append("nothing was changed or run")
    if ended.doubt:
        lines.append(f"unverified: {one_line(_for_people(ended.doubt))}")
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


def _tabs(evidence: Evidence, program: Spot) -> list[str]:
    """The tabs in which something may still run that a program started."""
    return [tab for (computer, tab), by in evidence.tabs.items() if (computer, by) == program]


def _run(spot: Spot, run: Run, change: Change | None, tabs: Sequence[str]) -> RunFound:
    lines = _FAILED.sub("", run.text.strip()).splitlines()
    return RunFound(
        computer=_computer(spot),
        path=spot.path,
        ended=run.ran.ended,
        seconds=run.ran.seconds,
        stale=change is not None and change.at > run.at,
        said=lines[0][:_SAID_CHARS] if run.failed and lines else "",
        times=run.times,
        background=", ".join(tabs),
    )


def _loads(run: Run, spot: Spot) -> bool:
    return stem(spot.path) in run.about


def _computer(spot: Spot) -> ComputerId | None:
    return ComputerId(spot.computer) if spot.computer else None


def _place(computer: ComputerId | None, path: str, *, several: bool) -> str:
    """A path, with its computer where the task has several, as an undo spells it."""
    return f"{computer or 'workspace'}:{spelled(path)}" if several else spelled(path)


def _called(call: ToolCall, *, several: bool) -> str:
    """A call by its tool and by the path or the command that it is about."""
    path = call.args.get("path")
    about = _place(call.computer, path, several=several) if isinstance(path, str) else call.args.get("command", "")
    return f"{call.tool} {about}".rstrip()


def _for_people(doubt: str) -> str:
    """Why a success is not supported, out of the sentence that tells the model so and what to do next."""
    head, colon, quoted = doubt.partition(": ")
    head = re.sub(r"\AYou say success, but ", "", _STEP.sub("", head))
    head = re.sub(r"\AYou say", "the model says", head)
    for yours, its in (("your", "the model's"), ("you have", "the model has"), ("you", "it")):
        head = re.sub(rf"\b{yours}\b", its, head)
    quoted = _STEP.sub("", quoted)
    head = head.replace("The task", "the task")
    return f"{head}{colon if quoted else ''}{quoted}".rstrip(".")


def _told_file(one: FileFound, *, several: bool) -> str:
    lines = "" if one.plus is None or one.minus is None else f"  +{one.plus} -{one.minus}"
    return f"{one.change} {one_line(_place(one.computer, one.path, several=several))}{lines}"


def _told_check(one: CheckResult) -> str:
    how = {True: "holds", False: "does not hold", None: "not known"}[one.holds]
    why = f": {one_line(one.why)}" if one.why and not one.holds else ""
    return f"check {one_line(one.check)}: {how}{why}"


def _told_run(one: RunFound, *, several: bool) -> str:
    for_s = f" {one.seconds:.0f} s" if one.seconds else ""
    how = {
        "finished": "ended without an error",
        "error": f"ended with an error: {one_line(one.said)}" if one.said else "ended with an error",
        "observed": f"ran{for_s} without an error, then was stopped",
        "timed_out": f"ran{for_s} without an error, then was stopped at its time limit",
        "stopped": "was stopped by a person",
        "abandoned": "could not be stopped",
    }[one.ended]
    stale = " (changed since)" if one.stale else ""
    background = (
        f"; what it started may still run in the background: {one_line(one.background)}" if one.background else ""
    )
    return f"ran {one_line(_place(one.computer, one.path, several=several))}: {how}{stale}{background}"
