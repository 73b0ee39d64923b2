"""The gaps of a claimed success: the words of the task and of the final against the facts of the journal.

Each rule is a row of the table in docs/design.md. A rule gives one sentence for the model that names the one missing
step. Where the words leave something open, nothing is required.
"""

from collections.abc import Callable, Sequence

from orchestrator.core.evidence.case import OR_SAY, OTHERWISE, Case, has, has_letters, is_path, is_printed, stumbled
from orchestrator.core.evidence.claims import claims
from orchestrator.core.evidence.evidence import CUT, Evidence, Spot, stem
from orchestrator.core.evidence.questions import asks_value, claims_change, is_knowledge, says_nothing
from orchestrator.core.evidence.wanted import Target
from orchestrator.core.evidence.words import Deed, files, readable
from orchestrator.core.reply.response import FinalResult


def doubt(
    evidence: Evidence, final: FinalResult, *, prompt: str, read_only: bool, computers: Sequence[str] = ()
) -> str | None:
    """What a claimed success lacks, as a sentence for the model; None: the journal supports it.

    ``computers``: the names of the task's computers, of which its words may choose one.
    """
    case = Case(evidence, final, prompt, computers, read_only=read_only)
    if read_only and evidence.denied and not case.only_asks:
        return f"You say success, but you may only look, and a change was denied. {OTHERWISE}"
    rules: tuple[Callable[[Case], str | None], ...]
    if case.asks:
        rules = (
            _gap, _failed_program, _unanswered, _kept, _claimed_run,
            _printed, _ends, _not_to_run,
        )  # fmt: skip
    else:
        rules = (
            _gap, _failed_program, _nothing_done, _unwritten, _kept, _target, _value,
            _wanted_run, _claimed_files, _claimed_run, _printed, _ends, _not_to_run,
            _together, _left_out, _unfounded, _stranger,
        )  # fmt: skip
    return next((sentence for rule in rules if (sentence := rule(case))), None)


def is_answer(evidence: Evidence, final: FinalResult, *, prompt: str) -> bool:
    """Whether a success is the answer to a plain question, for which nothing on a computer had to be looked at."""
    if evidence.sight or evidence.calls or not is_knowledge(readable(prompt)):
        return False
    message, explanation = readable(final.message), readable(final.explanation)
    return (
        not (says_nothing(message) and says_nothing(explanation))
        and not claims(f"{message}\n{explanation}").runs
        and not claims_change(message)
    )


def _gap(case: Case) -> str | None:
    """A look that failed, and nothing made up for it."""
    evidence = case.evidence
    if case.asks and case.said.not_there and evidence.unseen:
        # A question about a file that is not there is answered by that.
        return None
    if evidence.gap:
        return f"You say success, but this failed and nothing made up for it: {evidence.gap} {OTHERWISE}"
    unseen = next((path for path in evidence.unseen if path.lower() in case.prompt.lower()), None)
    return f"You say success, but {unseen} could not be read. {OTHERWISE}" if unseen is not None else None


def _failed_program(case: Case) -> str | None:
    """The last run of a program that the task changed ended with an error; removing or restoring it clears that."""
    programs = case.evidence.programs
    for spot, run in case.evidence.runs.items():
        if not run.failed or spot not in programs:
            continue
        if programs[spot].at < run.at:
            return f"You say success, but {spot.path} ended with an error when it ran last. Fix it and run it again."
        if not case.said.not_run:
            return (
                f"You say success, but {spot.path} ended with an error when it ran last. "
                f"It was changed after that: run it again, {OR_SAY}."
            )
    for spot, change in programs.items():
        if not case.is_covered(spot, change) and any(
            one != spot and run.at > change.at and stumbled(run, spot.path) for one, run in case.evidence.runs.items()
        ):
            return (
                f"You say success, but {spot.path} ended with an error when another program ran it. Fix it and run it."
            )
    return None


def _kept(case: Case) -> str | None:
    """A file that the task says to leave as it is, or that the final says was left, and that is not so."""
    for spot, one in case.net.items():
        if case.task.keeps_all or (case.task.deletes_nothing and not one.is_there):
            return f"You say success, but {spot.path} was changed, and the task says to change nothing. Put it back."
        if case.is_extra(spot, one):
            return f"You say success, but {spot.path} was changed in more than the task wants. Put the rest back."
        if any(is_path(spot, name) for name in case.task.kept):
            return f"You say success, but {spot.path} was changed, and the task says to leave it. Put it back."
        if case.said.keeps_all or (case.said.deletes_nothing and not one.is_there):
            return f"You say that nothing was changed, but {spot.path} was. Say what you changed."
        if any(is_path(spot, name) for name in case.said.kept):
            return f"You say that {spot.path} was left as it was, but it was changed. Say so, or put it back."
        if not one.is_there and any(is_path(spot, name) for name in case.task.there):
            return f"You say success, but {spot.path} is gone, and the task wants a copy of it. Put it back."
        if not one.is_there and any(is_path(spot, name) for name in case.said.there):
            return f"You say that {spot.path} is still there, but it is gone. Say so, or put it back."
    return None


def _nothing_done(case: Case) -> str | None:
    """Work without any change or run that succeeded."""
    evidence = case.evidence
    if evidence.effect or case.was_so():
        return None
    if evidence.failure:
        # A program that was to be run, and whose error the final tells.
        told = case.task.runs and case.said.failed and evidence.runs and not case.net
        return None if told else f"You say success, but the last change or run failed: {evidence.failure} {OTHERWISE}"
    return f"You say success, but nothing was changed or run. Do what the task asks for first. {OTHERWISE}"


def _unwritten(case: Case) -> str | None:
    """A file that the task names, whose change was refused or failed, where nothing else was changed."""
    lost = (spot for spot in case.evidence.unwritten if any(is_path(spot, name) for name in files(case.prompt)))
    found = next(lost, None)
    if found is None or case.net or case.said.failed:
        return None
    return f"You say success, but {found.path} was not written, and nothing else was changed. {OTHERWISE}"


def _stranger(case: Case) -> str | None:
    """A file that the final tells of, and that nobody looked at or changed."""
    name = next(case.strangers(), None)
    return f"You tell of {name}, but no step looked at it or changed it. Do that, {OR_SAY}." if name else None


def _target(case: Case) -> str | None:
    """A file that the task names as one to make, change, delete or move, and that is not so."""
    missing = (
        one
        for one in case.task.targets
        if not (case.is_met(one) or case.wrote_and_ran(one) or case.was_so(one.names) or case.tells_undone(one))
    )
    if case.task.named and not case.was_so(case.task.named) and not case.touched(case.task.named):
        return f"You say success, but {' or '.join(case.task.named)} was neither changed nor run. {OTHERWISE}"
    return next((f"You say success, but {_lacks(one)}. {OTHERWISE}" for one in missing), None)


def _value(case: Case) -> str | None:
    """A text that the task wants in a file, where all that was written into that file is known."""
    for names, text in () if case.was_so() else case.task.values:
        written = [
            one.text for spot, one in case.net.items() if one.is_there and any(is_path(spot, name) for name in names)
        ]
        if written and not any(one is None or has(one, text) for one in written):
            return f"You say success, but {text} was not written into {' or '.join(names)}. Write it, {OR_SAY}."
    return None


def _together(case: Case) -> str | None:
    """A file of a list that was not even looked at, while others of the list were changed."""
    written = "\n".join(text or "" for text in case.evidence.written).lower()
    for names in () if case.was_so() else (*case.task.together, *case.said.together):
        changed = [one for spot, one in case.net.items() if any(is_path(spot, name) for name in names)]
        gone = any(not one.is_there for one in changed)
        known = [*case.net] if gone else [*case.net, *case.evidence.runs, *case.evidence.seen]
        spared = (*case.task.kept, *(name for _, name in case.said.undone))
        left = (name for name in names if name not in spared and not any(is_path(spot, name) for spot in known))
        texts = written if names in case.task.together else f"{written}{case.evidence.shown.lower()}"
        apart = next((name for name in left if stem(name) not in texts), None)
        if changed and apart is not None:
            return f"You say success, but {apart} was neither changed nor run. {OTHERWISE}"
    return None


def _left_out(case: Case) -> str | None:
    """A file or a computer of the task that no step touched or looked at, while others were changed."""
    evidence = case.evidence
    if not case.net or case.was_so():
        return None
    on = {spot.computer for spot in (*case.net, *evidence.runs)}
    computer = next((name for name in case.task.each_of if name not in on), None)
    if computer is not None and not case.said.undone:
        return f"You say success, but nothing was changed or run on {computer}. {OTHERWISE}"
    written = "\n".join(text or "" for text in evidence.written).lower()
    known = [*evidence.changes, *evidence.runs, *evidence.seen, *(Spot("", path) for path in evidence.unseen)]
    texts = f"{written}{evidence.shown.lower()}"
    spared = (*case.task.kept, *case.said.kept, *case.said.there, *(name for _, name in case.said.undone))
    for name in () if case.is_choice else case.task.named:
        if name not in spared and stem(name) not in texts and not any(is_path(spot, name) for spot in known):
            return f"You say success, but no step touched or looked at {name}. {OTHERWISE}"
    return None


def _unfounded(case: Case) -> str | None:
    """A quotation of the task, or a number of the final, that is nowhere in the texts that were written or shown."""
    texts = case.evidence.texts
    if texts is None:
        return None
    if case.was_so():
        # A state that is said to exist already has to have been seen.
        state = next((one for one in case.said.states if not case.net and not has(texts, one)), None)
        return f"You say {state}, but nothing that was shown has it. Say what is so." if state else None
    quoted = next((one for one in case.task.quoted if not has_letters(texts, one)), None)
    if quoted is not None:
        return f"You say success, but {quoted} was neither written nor printed. {OTHERWISE}"
    prompt = case.prompt
    pair = next((one for one in case.said.pairs if case.net and not has(texts, one)), None)
    if pair is not None:
        return f"You say {pair}, but nothing that was written or shown has it. Say what is so."
    line = next((one for one in case.said.blocks if case.evidence.runs and not has(texts, one)), None)
    if line is not None:
        return f"You show the line {line}, but nothing that was written or shown has it. Show what is so."
    name, line = next((one for one in case.said.lines if not has_letters(texts + prompt, one[1])), ("", ""))
    if line and case.net:
        return f"You say {line} of {name}, but nothing that was written or shown has it. Say what is so."
    number = next((one for one in case.said.numbers if one not in prompt and not has(texts, one)), None)
    return f"You say {number}, but nothing that was written or shown has it. Say what is so." if number else None


def _not_to_run(case: Case) -> str | None:
    """A program that must not run, or that the final says did not, and that ran."""
    for spot in case.evidence.runs:
        if any(is_path(spot, name) for name in case.task.not_run):
            return f"You say success, but {spot.path} was run, and the task says not to. Say so."
        if any(is_path(spot, name) for name in case.said.not_ran) and not case.is_stale(spot):
            return f"You say that you did not run {spot.path}, but you did. Say so."
    return None


def _wanted_run(case: Case) -> str | None:
    """The task asks for a run or a test, and what was changed was not run after that."""
    if case.said.not_run:
        return None
    if not case.task.runs:
        return case.not_tested("The task asks for a check") if case.task.checks and case.evidence.programs else None
    for program in case.task.programs:
        if (lack := case.not_run(program)) is not None:
            return lack
    if (computer := case.idle(case.task.run_on)) is not None:
        return f"Nothing was run on {computer}: run it there, {OR_SAY}."
    return case.not_given(case.task.given) or case.not_tested("The task asks for a run")


def _claimed_files(case: Case) -> str | None:
    """A file that the final says was made, changed, deleted or moved, and that is not so."""
    missing = (
        one
        for one in case.said.targets
        if not (case.is_met(one) or case.said.no_need or case.wrote_and_ran(one) or case.made_for_a_time(one))
    )
    found = next(missing, None)
    if found is not None:
        return f"You say that you did, but {_lacks(found)}. Do it, {OR_SAY}."
    apart = next((one for one in case.said.changed_on if all(spot.computer != one for spot in case.net)), None)
    if apart is not None and not case.said.no_need:
        return f"You say that you changed something on {apart}, but nothing was changed there. Do it, {OR_SAY}."
    if case.said.fixed and not (case.net or case.said.no_need):
        return f"You say that you repaired something, but no file was changed. Do it, {OR_SAY}."
    return None


def _claimed_run(case: Case) -> str | None:
    """The final says that something ran, was tested or works, and no run shows it."""
    for program in case.said.ran:
        if (lack := case.not_run(program)) is not None:
            return lack
    if (computer := case.idle(case.said.run_on)) is not None:
        return f"You say that it ran on {computer}, but nothing was run there: run it, {OR_SAY}."
    if (lack := case.not_given(case.said_given())) is not None:
        return lack
    if case.asks and case.said.runs and not case.evidence.runs:
        return f"You say that something ran, but nothing was run: run it, {OR_SAY}."
    does_work = not case.asks or bool(case.net) or case.said.works_now
    if does_work and (case.said.works or (case.said.runs and not case.said.ran)):
        return case.not_tested("You say that it ran" if case.said.runs else "You say that it works")
    return None


def _printed(case: Case) -> str | None:
    """The final says what a program printed, and no run printed that."""
    runs = case.evidence.runs
    if not runs or any(CUT.search(run.told) for run in runs.values()):
        return None
    for output in (*case.said.printed, *case.said.prints):
        own = [run for spot, run in runs.items() if output.program and is_path(spot, output.program)]
        if not is_printed(own or [*runs.values()], output.text):
            return f"You say that it printed {output.text}, but no run printed that. Say what was printed."
    wanted = () if case.said.not_run or case.asks else case.task.prints
    missing = next((text for text in wanted if not is_printed([*runs.values()], text)), None)
    return f"The task asks that {missing} is printed, but no run printed that. {OTHERWISE}" if missing else None


def _ends(case: Case) -> str | None:
    """The final says that a program ended by itself, or had no error, and no run or another one shows it."""
    runs = case.evidence.runs.items()
    failed = next((spot.path for spot, run in runs if run.failed), None)
    if case.said.no_error and failed is not None and not any(run.went_well for _, run in runs):
        return f"You say that there was no error, but {failed} ended with an error. Say so."
    if case.said.no_error and case.evidence.programs and not (case.said.not_run or case.asks):
        return case.not_tested("You say that there was no error")
    watched = next((spot.path for spot, run in runs if run.ran.ended in ("observed", "timed_out")), None)
    if case.said.by_itself and watched is not None and not any(run.ran.ended == "finished" for _, run in runs):
        return f"You say that it ended by itself, but {watched} was stopped. Say so."
    return None


def _unanswered(case: Case) -> str | None:
    """A question without a look, with a claim of a change that never was, or without an answer."""
    evidence = case.evidence
    unread = case.unread()
    if not evidence.sight and not evidence.calls:
        return f"You say success, but you have looked at nothing. Look at what your answer rests on. {OTHERWISE}"
    if unread is not None:
        return f"You say success, but you have not read {unread}. Read it before you answer. {OTHERWISE}"
    if not case.net and not case.said.no_need and (claims_change(case.message) or claims_change(case.explanation)):
        return f"You say that you changed something, but nothing was changed. Say what you found. {OTHERWISE}"
    if says_nothing(case.message) and says_nothing(case.explanation) and not case.final.details:
        return f"You say success, but your message has no answer in it. Say what you found. {OTHERWISE}"
    texts = evidence.texts
    cited = next(
        (one for one in case.said.citations if texts is not None and not has_letters(texts + case.prompt, one)), None
    )
    if cited is not None and asks_value(case.prompt):
        return f"You quote {cited}, but nothing that was shown has it. Say what is so."
    if not evidence.sight and case.only_tells_of_itself(case.message):
        return f"You say success, but you have not looked at what the task asks about. Look at it. {OTHERWISE}"
    return None


def _lacks(target: Target) -> str:
    name = " or ".join(target.names)
    return {
        Deed.MAKE: f"{name} was not made or changed",
        Deed.COPY: f"{name} was not copied",
        Deed.DELETE: f"{name} is not gone",
    }.get(target.deed, f"{name} was not changed")
