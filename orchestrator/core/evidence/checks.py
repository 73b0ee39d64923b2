"""The state of a task's checks: approved, made for the present claim, and their results.

Theory. The model claims success; the orchestrator proposes the calls of the checks, first the runs, then the looks at
files; when all are over, each check is judged by what is recorded. A run of a check that the policy asks about needs
no second question where a person approved the check with an earlier request of this task and the bytes that would run
are *seen*: they were there, untouched by this task, when the check was shown, or calls that people approved wrote them
(``cc_write`` whole, ``cc_edit`` on top of seen bytes). All other bytes are shown in a request of their own.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from orchestrator.core.evidence.evidence import Over
from orchestrator.core.evidence.user_checks import Check, read_check
from orchestrator.core.model_view.cuts import parts
from orchestrator.core.policy import RUNNERS, Effect, PolicyDecision, RiskLevel, severity
from orchestrator.core.task.facts import CheckResult, Observed, Ran, RequestId, ShownCheck, ToolCall
from orchestrator.core.task.states import CallState
from orchestrator.core.values import ComputerId, immutable

# -- How far the checks of a task are: what was approved, what was made for the present claim, and what came of it

_SHOWS_CONTENT: Final = frozenset({"cc_write", "cc_edit"})
"""The changes whose text a person has seen when they approved it."""
_ENDED_WELL: Final = frozenset({"finished", "observed", "timed_out"})
_OUTPUT: Final = "\nOutput:\n"
BY_JOURNAL: Final = ": the computer's journal says so."
"""The first line about a run of which only the outcome is known, and not the output."""
_BESIDE: Final = ("\nWhile it ran, these files changed: ", "\nSince it was started, these files changed: ")
"""What begins the sentence behind an output that says which files changed."""

_NOTES: Final = re.compile(
    r"(?:\n\[(?:[0-9]+ bytes of (?:the input were not read|output were left out on the computer)"
    r"|(?:Runs on in the background|The game was paused or slow): .*)\])+\Z"
)
"""What a computer says of a run behind its output."""


_Place = tuple[ComputerId, str]
"""A path on a computer; that of a directory ends in a slash."""


class Done(Over, Protocol):
    """A call that is over, as the fold keeps it."""

    @property
    def original(self) -> ToolCall | None:
        """The call before a person edited it; None: nobody did."""

    @property
    def before(self) -> Mapping[str, str] | None:
        """What its run found, path to sha256."""

    @property
    def after(self) -> Mapping[str, str]:
        """What its run left, path to sha256."""

    @property
    def directories(self) -> tuple[str, ...]:
        """The paths of ``before`` that are directories."""

    @property
    def approved_by(self) -> str:
        """The person who decided that it may run; empty: nobody did."""

    @property
    def ran(self) -> Ran | None:
        """The program that it ran."""

    @property
    def code(self) -> str | None:
        """Why it failed or did not run, in a word."""

    @property
    def item(self) -> int:
        """The number of the item with its outcome."""


@immutable
class Made:
    """A call that was made for a check of the present claim."""

    line: str
    digest: str
    """The digest of the call as it was proposed."""
    done: Done


@immutable
class Allowed:
    """A check that a person approved with a request."""

    shown: ShownCheck
    request_id: RequestId


@immutable
class Printed:
    """What a program printed that ran well."""

    program: str
    text: str | None
    """None: it was lost."""
    computer: ComputerId | None
    item: int

    def is_old(self, changed: Iterable[_Place]) -> bool:
        """Whether the program, or a directory that it is in, is among what was changed."""
        mine = (path for computer, path in changed if computer == self.computer)
        return any(path == self.program or (path.endswith("/") and self.program.startswith(path)) for path in mine)


@immutable
class Due:
    """A check that has to hold at the present claim."""

    check: Check
    line: str
    """Its name in results."""
    computer: ComputerId | None
    """None: ``prints`` of any computer."""
    digest: str = ""
    """The digest of the call by which it is made; empty: it needs no call."""
    by_policy: str = ""


@immutable
class Checking:
    """The checks of one task as far as its items tell."""

    wanted: tuple[str, ...] = ()
    """The lines that the user gave."""
    found: Mapping[str, str] | None = None
    """What was there before the first request to the model; None: nobody has looked."""
    step: tuple[str, ...] = ()
    """The lines that the calls of the present step are made for; empty: it is a step of the model."""
    made: tuple[Made, ...] = ()
    results: tuple[CheckResult, ...] = ()
    """The results for the last claim that was checked."""
    judged: bool = False
    """Whether the results are of the present reply."""
    moved: bool = True
    """Whether something changed or ran since; else they would be the same again."""
    approved: tuple[Allowed, ...] = ()
    seen: frozenset[tuple[str, str, str]] = frozenset()
    """(computer, path, sha256) of bytes that people saw, see the theory above."""
    touched: bool = False
    """Whether the task began to change or run anything."""
    changed: tuple[_Place, ...] = ()
    """The paths on computers that its own calls changed."""
    printed: Printed | None = None
    """The output of the last run of the model that ended well, while its program is as it was.

    None: there is no such run.
    """

    @property
    def needs_a_look(self) -> bool:
        """Whether something must be looked at before the model begins."""
        return self.found is None and any(read_check(line).kind == "unchanged" for line in self.wanted)

    @property
    def fails(self) -> bool:
        """Whether checks of the present reply do not hold."""
        return self.judged and any(one.holds is False for one in self.results)

    def allowed(self, checks: Iterable[ShownCheck], request_id: RequestId) -> "Checking":
        """With checks that a person approved together with a call."""
        shown = tuple(checks)
        new = tuple(Allowed(one, request_id) for one in shown)
        bytes_seen = {(one.computer, one.program, one.sha256) for one in shown if one.sha256}
        return replace(self, approved=(*self.approved, *new), seen=self.seen | bytes_seen)

    def covering(self, call: ToolCall, observed: Observed, verdict: PolicyDecision) -> RequestId | None:
        """The request with which a person approved a run of a check as it was found; None: they have to be asked."""
        if verdict.effect is not Effect.ASK or verdict.risk is RiskLevel.CRITICAL or len(observed.state) != 1:
            return None
        (bound,) = observed.state.items()
        for one in self.approved:
            same = (one.shown.call_digest, one.shown.identity) == (call.call_digest, observed.identity)
            covered = same and severity(verdict.risk) <= severity(one.shown.risk)
            if covered and (str(call.computer), *bound) in self.seen:
                return one.request_id
        return None

    def begun(self, call: Done) -> "Checking":
        """A call that began to run makes old results old, whatever becomes of it: it may have changed their files."""
        return replace(self, touched=True, moved=True) if call.mutates else self

    def in_doubt(self, call: Done) -> "Checking":
        """When nobody can say what a run did, its targets count as changed, and earlier output is old."""
        if self.step or not call.mutates:
            return self
        return replace(self, changed=self._changed_by(_places(call, call.before or ())), printed=None)

    def after(self, calls: Sequence[Done]) -> "Checking":
        """Once the calls of a step are over, in the order of the reply."""
        checking = self
        for call in calls:
            checking = checking._after_one(call)
        if not self.step:
            return checking
        pairs = zip(self.step, calls, strict=False)
        made = (Made(line, (one.original or one.call).call_digest, one) for line, one in pairs)
        return replace(checking, made=(*self.made, *made), step=())

    def _after_one(self, call: Done) -> "Checking":
        if not call.mutates or call.state not in (CallState.EXECUTED, CallState.FAILED):
            return self
        computer = str(call.call.computer)
        seen = {(computer, path, sha256) for path, sha256 in call.after.items() if self._was_shown(call, path)}
        new = _places(call, (*call.after, *call.changed))
        printed = None if self.printed is not None and self.printed.is_old(new) else self.printed
        if call.call.tool in RUNNERS and not self.step:
            printed = _printed(call) if ran_well(call) else None
        changed = self.changed if self.step else self._changed_by(new)
        return replace(self, seen=self.seen | seen, changed=changed, printed=printed)

    def _changed_by(self, new: Iterable[_Place]) -> tuple[_Place, ...]:
        return tuple(dict.fromkeys((*self.changed, *new)))

    def _was_shown(self, call: Done, path: str) -> bool:
        """Whether a person saw the bytes that a call left at a path."""
        if not call.approved_by or call.call.tool not in _SHOWS_CONTENT or call.state is not CallState.EXECUTED:
            return False
        base = (call.before or {}).get(path, "")
        return call.call.tool == "cc_write" or (str(call.call.computer), path, base) in self.seen


NO_CHECKS: Final = Checking()
"""The checks of a task of which nothing is known yet."""


def _places(call: Done, paths: Iterable[str]) -> tuple[_Place, ...]:
    computer, end = call.call.computer, "/" if call.directories else ""
    return tuple((computer, f"{path}{end}") for path in paths) if computer else ()


def ran_well(call: Done) -> bool:
    """Whether a run ended well: it returned, or nothing went wrong for as long as it was watched."""
    return bool(call.ok) if call.ran is None else call.ran.ended in _ENDED_WELL


def output_of(result: str | None) -> str | None:
    """What a program printed, out of what the model was told of its run; None: that is not known."""
    if result is None or BY_JOURNAL in result.partition("\n")[0]:
        return None
    output = result.partition(_OUTPUT)[2]
    for beside in _BESIDE:
        output = output.rpartition(beside)[0] or output
    return _NOTES.sub("", output)


def _printed(call: Done) -> Printed:
    program = call.ran.path if call.ran is not None else str(call.call.args.get("path", ""))
    return Printed(program, output_of(call.result), call.call.computer, call.item)


# -- Each check judged by what is recorded of its calls, and what the model and people are told of that

NO_PROGRAM: Final = "no_program"
"""Code of a run whose program is not there, whether somebody would have been asked about it or not."""
_NONE_FOUND: Final = "[0 "
"""How the result of a search begins that found nothing."""
_WHY_CHARS: Final = 200
_Judged = tuple[bool | None, str]


def judged(checking: Checking, due: Sequence[Due], now: Mapping[str, str]) -> tuple[CheckResult, ...]:
    """The result of each check; ``now``: by the line of an ``unchanged`` check what is at its path, where known."""
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
    """The results of the checks at the last claim of success; a later change may have made them wrong."""
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
    """The text that the model gets when checks do not hold; the results of their calls follow it as data."""
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
    """The checks of which nobody knows whether they hold, as one sentence."""
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
    return _check_result_printed(due[place].check.wanted, printed), printed.item


def _check_result_printed(wanted: str, output: Printed) -> _Judged:
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
