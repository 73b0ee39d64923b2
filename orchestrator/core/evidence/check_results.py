"""Each check judged by what is recorded of its calls, and what the model and people are told of that."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from orchestrator.core.evidence.checks import Checking, Done, Due, Printed, output_of, ran_well
from orchestrator.core.model_view.cuts import parts
from orchestrator.core.task.call_states import CallState
from orchestrator.core.task.facts import CheckResult

NO_PROGRAM: Final = "no_program"
"""Code of a run whose program is not there, whether somebody would have been asked about it or not."""
_NONE_FOUND: Final = "[0 "
"""How the result of a search begins that found nothing."""
_WHY_CHARS: Final = 200
_Judged = tuple[bool | None, str]


def judged(checking: Checking, due: Sequence[Due], now: Mapping[str, str]) -> tuple[CheckResult, ...]:
    """What came of each check; ``now``: by the line of an ``unchanged`` check what is at its path, where known."""
    made = {one.digest: one.done for one in checking.made}
    results: list[CheckResult] = []
    for place, one in enumerate(due):
        call = made.get(one.digest)
        item = call.item if call is not None else 0
        match one.check.kind:
            case "prints":
                (holds, why), item = _prints(checking, due, place)
            case "unchanged":
                holds, why = _unchanged((checking.found or {}).get(one.line), now.get(one.line))
            case "runs":
                holds, why = _runs(call) if call is not None else _NOT_MADE
            case _:
                holds, why = _looked(one.check.kind, call) if call is not None else _NOT_MADE
        items = (item,) if item else ()
        results.append(CheckResult(check=one.line, holds=holds, why=why, items=items, by_policy=one.by_policy))
    return tuple(results)


_NOT_MADE: Final[_Judged] = (None, "It was not made.")
_STALE: Final = "It held when success was claimed last. Since then something was changed or run."


def so_far(checking: Checking) -> tuple[CheckResult, ...]:
    """What came of the checks at the last claim of success; what held then may not hold after a later change."""
    if not checking.results:
        begun = checking.step or checking.made
        why = "It was begun, and not judged." if begun else "It was not made: no success was claimed."
        return tuple(CheckResult(check=line, holds=None, why=why) for line in checking.wanted)
    if not checking.moved:
        return checking.results
    stale = {"holds": None, "why": _STALE}
    return tuple(one.model_copy(update=stale) if one.holds else one for one in checking.results)


def failing(results: Iterable[CheckResult]) -> tuple[str, ...]:
    """The checks that do not hold."""
    return tuple(one.check for one in results if one.holds is False)


def told_failing(results: Sequence[CheckResult]) -> str:
    """What the model is told where checks do not hold; the results of their calls follow it as data."""
    lines = [f"- {one.check}: {one.why}" for one in results if one.holds is False]
    return "\n".join(("You say success, but these checks of the user do not hold:", *lines, _GO_ON))


def said_failing(results: Sequence[CheckResult]) -> str:
    """The same for people, as one sentence; empty: none failed."""
    lines = [f"{one.check} ({one.why.rstrip('.')})" for one in results if one.holds is False]
    if not lines:
        return ""
    verb = "This check does" if len(lines) == 1 else f"{len(lines)} of {len(results)} checks do"
    return f"{verb} not hold: {'; '.join(lines)}."


def said_unknown(results: Sequence[CheckResult]) -> str:
    """Of which checks nobody knows whether they hold, as one sentence."""
    lines = [f"{one.check} ({one.why.rstrip('.')})" for one in results if one.holds is None]
    return f"Nobody knows whether these checks hold: {'; '.join(lines)}."


def calls_of_failing(checking: Checking) -> tuple[Done, ...]:
    """The calls that show why checks do not hold."""
    lines = set(failing(checking.results))
    items = {item for one in checking.results if one.holds is False for item in one.items}
    return tuple(one.done for one in checking.made if one.line in lines or one.done.item in items)


_GO_ON: Final = (
    "Change or run what is needed, then send the final again: all checks are then made anew. "
    "Without a change or a run they are not, and the final ends the task as failed. "
    "If it cannot be done, send a final with success false that says why."
)


def _prints(checking: Checking, due: Sequence[Due], place: int) -> tuple[_Judged, int]:
    """Whether a text was printed: by the ``runs`` check before it, else the last, else the model's last good run.

    With the number of the item that tells it.
    """
    made = {one.digest: one.done for one in checking.made}
    wanted = due[place].computer
    runs = [one for one in (*due[place + 1 :], *due[:place]) if one.check.kind == "runs" and one.digest in made]
    fitting = [one for one in runs if wanted in (None, one.computer)]
    printed = checking.printed
    if fitting:
        run, call = fitting[-1], made[fitting[-1].digest]
        known, why = _runs(call)
        if known is None:
            return (None, f"Nobody knows what {run.check.path} prints. {why}"), call.item
        printed = Printed(run.check.path, output_of(call.result), run.computer, call.item)
    elif printed is None or wanted not in (None, printed.computer):
        return (False, "No program was run whose output could have it."), 0
    return _printed(due[place].check.wanted, printed), printed.item


def _printed(wanted: str, output: Printed) -> _Judged:
    if output.text is None:
        return None, f"Nobody knows what {output.program} prints. Its output was lost."
    kept = parts(output.text)
    if any(wanted in part for part in kept):
        return True, f"It is in the output of {output.program}."
    if len(kept) > 1:
        return None, f"It is not in the part of the output of {output.program} that was kept."
    return False, f"It is not in the output of {output.program}."


def _unchanged(before: str | None, now: str | None) -> _Judged:
    if before is None or now is None:
        when = "when the task began" if before is None else "now"
        return None, f"It could not be looked at {when}."
    return (True, "It is as it was.") if before == now else (False, "It is not what it was when the task began.")


def _runs(call: Done) -> _Judged:
    """Whether a run of a check ended well."""
    if call.code == NO_PROGRAM:
        return False, "There is no such program."
    never_began = call.state is CallState.FAILED and call.ran is None
    if call.state not in (CallState.EXECUTED, CallState.FAILED) or never_began or call.original or call.note:
        return None, _not_run(call)
    if not ran_well(call):
        is_error = call.ran is not None and call.ran.ended == "error"
        return False, "It ended with an error." if is_error else "It did not end well."
    if call.ran is None or call.ran.ended == "finished":
        return True, "It ran to its end."
    return True, f"It ran {call.ran.seconds:.0f} s without an error, and was stopped."


def _not_run(call: Done) -> str:
    if call.note:
        return "Nobody knows how it ended."
    if call.original is not None:
        return "A person edited the run, so another one was made."
    why = _NOT_RUN.get(call.state) or _shortened(call.result)
    return f"It was not run: {why}" if call.state is CallState.FAILED else why


_NOT_RUN: Final = {
    CallState.REJECTED: "It was not run: a person rejected it.",
    CallState.ANSWERED: "It was not run: a person answered in its place.",
    CallState.CANCELED: "It was not run: the task ended first.",
}


def _looked(kind: str, call: Done) -> _Judged:
    """Whether a file is there, or has a text."""
    if call.state is not CallState.EXECUTED or not call.ok or call.original is not None:
        return None, f"It could not be looked at: {_shortened(call.result)}"
    lines = (call.result or "").split("\n")
    if lines[0].startswith(_NONE_FOUND):
        return (
            False,
            "There is no such file." if kind == "exists" else "No line of it has the text, or it is not there.",
        )
    if kind == "exists":
        return (False, "It is a directory.") if lines[1].endswith("/") else (True, "It is there.")
    return True, f"Line {lines[2].partition(':')[0].strip()} has it."


def _shortened(result: str | None) -> str:
    first = (result or "Nobody knows why.").strip().partition("\n")[0]
    return first if len(first) <= _WHY_CHARS else f"{first[:_WHY_CHARS]}…"
