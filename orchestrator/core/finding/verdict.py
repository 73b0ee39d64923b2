"""What a claimed success lacks, judged by the words of the task and of the final against the facts of the journal.

Each rule is a row of the table in docs/design.md. A rule gives one sentence for the model that names the one missing
step. Where the words leave something open, nothing is required.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from orchestrator.core.finding.asking import asks_only, claims_change, is_knowledge, only_lists, says_nothing
from orchestrator.core.finding.claimed import Claims, claims
from orchestrator.core.finding.evidence import Change, Evidence, Run, Spot, stem
from orchestrator.core.finding.wanted import Target, Wanted, wanted
from orchestrator.core.finding.words import Deed, files
from orchestrator.core.response import FinalResult

_OTHERWISE: Final = "If it cannot be done, send a final with success false that says why."
_OR_SAY: Final = "or say in your final that you did not"
_BROKEN: Final = re.compile(
    r"\b(?:broken|crash\w*|errors?|bugs?|fails?|kaputt|stürzt|fehler|cassée?|plante|erreurs?|rot[oa]|fall[ao]|(?:does\s+not|doesn't)\s+work"
    r"|funktioniert\s+nicht|ne\s+(?:marche|fonctionne)\s+pas|no\s+funciona)\b",
    re.IGNORECASE,
)
"""Words of a task that has something repaired."""
_CUT: Final = re.compile(r"left out|\[\.\.\.|omitted")


def doubt(
    evidence: Evidence, final: FinalResult, *, prompt: str, read_only: bool, computers: Sequence[str] = ()
) -> str | None:
    """What a claimed success lacks, as a sentence for the model; None: the journal supports it.

    ``computers``: the names of the task's computers, of which its words may choose one.
    """
    said = claims(f"{final.message}\n{final.explanation}")
    asks = asks_only(prompt)
    task = wanted(prompt, computers) if not (asks or read_only) else Wanted()
    judge = _Judge(evidence, said, task, prompt, asks=asks or read_only)
    if read_only and evidence.denied and not asks:
        return f"You say success, but you may only look, and a change was denied. {_OTHERWISE}"
    rules: tuple[Callable[[], str | None], ...]
    if read_only or asks:
        rules = (judge.gap, judge.failed_program, lambda: judge.unanswered(final), judge.claimed_run, judge.printed)
    else:
        rules = (
            judge.gap, judge.failed_program, judge.nothing_done, judge.target, judge.wanted_run, judge.claimed_files,
            judge.claimed_run, judge.printed,
        )  # fmt: skip
    return next((sentence for rule in rules if (sentence := rule())), None)


def is_answer(evidence: Evidence, final: FinalResult, *, prompt: str) -> bool:
    """Whether a success is the answer to a plain question, for which nothing on a computer had to be looked at."""
    return (
        is_knowledge(prompt)
        and not evidence.sight
        and not evidence.calls
        and not (says_nothing(final.message) and says_nothing(final.explanation))
        and not claims(f"{final.message}\n{final.explanation}").runs
        and not claims_change(final.message)
    )


class _Judge:
    """The rules over one task and one final."""

    def __init__(self, evidence: Evidence, said: Claims, task: Wanted, prompt: str, *, asks: bool) -> None:
        self._evidence, self._said, self._task, self._prompt, self._asks = evidence, said, task, prompt, asks
        self._net = evidence.net

    # -- what failed ------------------------------------------------------------------------

    def gap(self) -> str | None:
        """A look that failed, and nothing made up for it."""
        evidence = self._evidence
        if self._asks and self._said.not_there and evidence.unseen:
            # A question about a file that is not there is answered by that.
            return None
        if evidence.gap:
            return f"You say success, but this failed and nothing made up for it: {evidence.gap} {_OTHERWISE}"
        unseen = next((path for path in evidence.unseen if path.lower() in self._prompt.lower()), None)
        return f"You say success, but {unseen} could not be read. {_OTHERWISE}" if unseen is not None else None

    def failed_program(self) -> str | None:
        """The last run of a program that the task changed ended with an error; removing or restoring it clears that."""
        programs = self._evidence.programs
        for spot, run in self._evidence.runs.items():
            if not run.failed or spot not in programs:
                continue
            if programs[spot].at < run.at:
                return (
                    f"You say success, but {spot.path} ended with an error when it ran last. Fix it and run it again."
                )
            if not self._said.not_run:
                return (
                    f"You say success, but {spot.path} ended with an error when it ran last. "
                    f"It was changed after that: run it again, {_OR_SAY}."
                )
        return None

    # -- what the task asks for -------------------------------------------------------------

    def nothing_done(self) -> str | None:
        """Work without any change or run that succeeded."""
        evidence = self._evidence
        if evidence.effect or self._was_so():
            return None
        if evidence.failure:
            # A program that was to be run, and whose error the final tells.
            told = self._task.runs and self._said.failed and evidence.runs and not self._net
            return (
                None if told else f"You say success, but the last change or run failed: {evidence.failure} {_OTHERWISE}"
            )
        return f"You say success, but nothing was changed or run. Do what the task asks for first. {_OTHERWISE}"

    def target(self) -> str | None:
        """A file that the task names as one to make, change, delete or move, and that is not so."""
        missing = (
            one for one in self._task.targets if not (self._is_met(one) or self._wrote_and_ran(one) or self._was_so())
        )
        if self._task.named and not self._was_so() and not self._touched(self._task.named):
            return f"You say success, but {' or '.join(self._task.named)} was neither changed nor run. {_OTHERWISE}"
        return next((f"You say success, but {_lacks(one)}. {_OTHERWISE}" for one in missing), None)

    def _touched(self, names: tuple[str, ...]) -> bool:
        """Whether one of these files was changed or run; where something is broken, its removal repairs nothing."""
        broken = _BROKEN.search(self._prompt) is not None
        spots = [*(spot for spot, one in self._net.items() if one.is_there or not broken), *self._evidence.runs]
        return any(_is(spot, name) for spot in spots for name in names)

    def wanted_run(self) -> str | None:
        """The task asks for a run or a test, and what was changed was not run after that."""
        if not self._task.runs or self._said.not_run:
            return None
        for name in self._task.programs:
            if (lack := self._not_run(name)) is not None:
                return lack
        return self._not_tested("The task asks for a run")

    # -- what the final says ----------------------------------------------------------------

    def claimed_files(self) -> str | None:
        """A file that the final says was made, changed, deleted or moved, and that is not so."""
        missing = (
            one
            for one in self._said.targets
            if not (self._is_met(one) or self._said.no_need or self._wrote_and_ran(one))
        )
        found = next(missing, None)
        if found is not None:
            return f"You say that you did, but {_lacks(found)}. Do it, {_OR_SAY}."
        if self._said.fixed and not (self._net or self._said.no_need):
            return f"You say that you repaired something, but no file was changed. Do it, {_OR_SAY}."
        return None

    def claimed_run(self) -> str | None:
        """The final says that something ran, was tested or works, and no run shows it."""
        for name in self._said.ran:
            if (lack := self._not_run(name)) is not None:
                return lack
        if self._asks and self._said.runs and not self._evidence.runs:
            return f"You say that something ran, but nothing was run: run it, {_OR_SAY}."
        does_work = not self._asks or bool(self._net)
        if does_work and (self._said.works or (self._said.runs and not self._said.ran)):
            return self._not_tested("You say that it ran" if self._said.runs else "You say that it works")
        return None

    def printed(self) -> str | None:
        """The final says what a program printed, and no run printed that."""
        runs = [*self._evidence.runs.values()]
        if not runs or any(_CUT.search(run.text) for run in runs):
            return None
        printed = " ".join(_plain(run.text) for run in runs)
        said = (*self._said.printed, *self._said.prints)
        missing = next((text for text in said if _plain(text) not in printed), None)
        if missing is None:
            return None
        return f"You say that it printed {missing}, but no run printed that. Say what was printed."

    def unanswered(self, final: FinalResult) -> str | None:
        """A question without a look, with a claim of a change that never was, or without an answer."""
        evidence = self._evidence
        unread = self._unread()
        if not evidence.sight and not evidence.calls:
            return f"You say success, but you have looked at nothing. Look at what your answer rests on. {_OTHERWISE}"
        if unread is not None:
            return f"You say success, but you have not read {unread}. Read it before you answer. {_OTHERWISE}"
        if not self._net and not evidence.effect and (claims_change(final.message) or claims_change(final.explanation)):
            return (
                f"You say that you changed something, but nothing was changed or run. Say what you found. {_OTHERWISE}"
            )
        if says_nothing(final.message) and says_nothing(final.explanation) and not final.details:
            return f"You say success, but your message has no answer in it. Say what you found. {_OTHERWISE}"
        if not evidence.sight and self._only_tells_of_itself(final.message):
            return f"You say success, but you have not looked at what the task asks about. Look at it. {_OTHERWISE}"
        return None

    # -- inside -----------------------------------------------------------------------------

    def _unread(self) -> str | None:
        """A file that a question is about, and whose contents were not seen; None: there is none."""
        if only_lists(self._prompt):
            return None
        for name in files(self._prompt):
            if self._said.not_there and any(_is(Spot("", path), name) for path in self._evidence.unseen):
                continue
            known = [*self._evidence.seen, *self._evidence.runs, *self._net]
            if not any(_is(spot, name) for spot in known) and name.lower() not in self._evidence.found.lower():
                return name
        return None

    def _only_tells_of_itself(self, message: str) -> bool:
        """Whether the one look was a program of the task's own, and the message has none of its output."""
        own = [run for spot, run in self._evidence.runs.items() if spot in self._net]
        if not own or len(own) < len(self._evidence.runs):
            return False
        rest = " ".join(
            part for part in re.split(r"[.!?;:\n]+|\band\b|\bund\b|\bet\b|\by\b", message) if not _about_itself(part)
        )
        told = set(re.findall(r"\w{4,}|\d+", rest.lower()))
        return not told & {word for run in own for word in re.findall(r"\w{4,}|\d+", run.text.lower())}

    def _is_met(self, target: Target) -> bool:
        spots = {
            spot: one
            for spot, one in self._net.items()
            if any(_is(spot, name) for name in target.names) and spot.computer in (target.computers or (spot.computer,))
        }
        match target.deed:
            case Deed.DELETE:
                return any(not one.is_there for one in spots.values())
            case Deed.FIX:
                return any(one.is_there for one in spots.values()) or self._fixed_elsewhere(target.names)
            case Deed.COPY:
                stems = [stem(name) for name in target.names]
                return any(
                    one.is_there and any(part in spot.path.lower() for part in stems) for spot, one in self._net.items()
                )
            case _:
                return any(one.is_there for one in spots.values())

    def _wrote_and_ran(self, target: Target) -> bool:
        """Whether a file to be made got the very bytes that it had before the task, and then ran well."""
        written = [
            (spot, one) for spot, one in self._evidence.changes.items() if any(_is(spot, name) for name in target.names)
        ]
        return target.deed is Deed.MAKE and any(one.is_there and self._covered(spot, one) for spot, one in written)

    def _fixed_elsewhere(self, names: tuple[str, ...]) -> bool:
        """Whether one of these programs ran well after another file was changed."""
        last = max((one.at for one in self._net.values()), default=None)
        runs = (run for spot, run in self._evidence.runs.items() if any(_is(spot, name) for name in names))
        return last is not None and any(run.went_well and run.at > last for run in runs)

    def _not_run(self, name: str) -> str | None:
        """What a run of this program lacks; None: it ran well since it was changed, or its error is told."""
        changed = {spot: one for spot, one in self._evidence.programs.items() if _is(spot, name)}
        runs = {spot: run for spot, run in self._evidence.runs.items() if _is(spot, name)}
        if not runs and any(stem(name) in run.about and run.went_well for run in self._evidence.runs.values()):
            return None
        if not runs:
            return f"{name} was not run: run it, {_OR_SAY}."
        for spot, one in changed.items():
            if not self._covered(spot, one):
                return f"{spot.path} was changed after its last run: run it, {_OR_SAY}."
        if any(run.went_well for run in runs.values()) or (self._said.failed and not changed):
            return None
        return f"You say success, but {name} did not run to a good end. {_OTHERWISE}"

    def _not_tested(self, why: str) -> str | None:
        """What a claim of a run lacks that names no program."""
        for spot, one in self._evidence.programs.items():
            if not self._covered(spot, one):
                ran = any(run.ran.path == spot.path for run in self._evidence.runs.values())
                how = "was changed after its last run" if ran else "was not run since it was changed"
                return f"{why}, but {spot.path} {how}: run it, {_OR_SAY}."
        runs = self._evidence.runs.values()
        if any(run.went_well for run in runs) or (runs and self._said.failed):
            return None
        return f"{why}, but nothing was run to a good end: run it, {_OR_SAY}."

    def _covered(self, spot: Spot, change: Change) -> bool:
        """Whether a program ran well after its last change: itself, or one that loads it."""
        return any(
            run.went_well and one.computer == spot.computer and self._shows(one, run, spot, change)
            for one, run in self._evidence.runs.items()
        )

    def _shows(self, one: Spot, run: Run, spot: Spot, change: Change) -> bool:
        """Whether a run shows a change: by the bytes that ran, or by a later run of what loads it or was asked for."""
        if one == spot:
            return run.at > change.at or run.ran.sha256 == change.now
        asked = any(_is(one, name) for name in self._task.programs)
        return run.at > change.at and (asked or stem(spot.path) in run.about)

    def _was_so(self) -> bool:
        """Whether the final says that there was nothing to do, and something was looked at."""
        return self._said.no_need and self._evidence.sight


def _lacks(target: Target) -> str:
    name = " or ".join(target.names)
    return {
        Deed.MAKE: f"{name} was not made or changed",
        Deed.COPY: f"{name} was not copied",
        Deed.DELETE: f"{name} is not gone",
    }.get(target.deed, f"{name} was not changed")


def _is(spot: Spot, name: str) -> bool:
    """Whether a name in a text means this path: with its directories, or its last part alone."""
    path, name = spot.path.lower(), name.lower().strip("/")
    return path.endswith(name) and re.search(r"[\w.-]\Z", path[: -len(name)]) is None


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).strip(" .!")


def _about_itself(part: str) -> bool:
    told = claims(part)
    return (
        told.changed
        or told.runs
        or told.works
        or says_nothing(part)
        or re.search(r"\bprint|\bprogram", part.lower()) is not None
    )
