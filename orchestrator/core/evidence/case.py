"""One claimed success: the task's words, the final's claims, and the facts that both are compared with."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from orchestrator.core.evidence.claims import claims
from orchestrator.core.evidence.evidence import ABSENT, Change, Evidence, Run, Spot, stem
from orchestrator.core.evidence.questions import asks_only, only_lists, says_nothing
from orchestrator.core.evidence.wanted import Program, Target, named_in, wanted
from orchestrator.core.evidence.words import Deed, files, readable, sentences
from orchestrator.core.reply.response import FinalResult

OTHERWISE: Final = "If it cannot be done, send a final with success false that says why."
OR_SAY: Final = "or say in your final that you did not"
_BROKEN: Final = re.compile(
    r"\b(?:broken|crash\w*|errors?|bugs?|fails?|kaputt|stürzt|fehler|cassée?|plante|erreurs?|rot[oa]|fall[ao]|(?:does\s+not|doesn't)\s+work"
    r"|funktioniert\s+nicht|ne\s+(?:marche|fonctionne)\s+pas|no\s+funciona)\b",
    re.IGNORECASE,
)
"""Words of a task that orders a repair."""
_OR: Final = re.compile(r"\b(?:or|oder|ou|o)\b", re.IGNORECASE)
_REMOVES: Final = re.compile(
    r"\b(?:delete|remove|drop|shorten|shorter|clean\w*|simplif\w*|lösch\w*|entfern\w*|weg|kürz\w*|aufräum\w*|supprim\w*|enlev\w*|retir\w*|raccourci\w*"
    r"|nettoi\w*|borr\w*|elimin\w*|quit\w*|acort\w*|limpi\w*|fix|repair|repar\w*|rewrite|move\w*|rename\w*)\b",
    re.IGNORECASE,
)
_COMMENT_WANTED: Final = re.compile(r"\b(?:comments?|kommentare?|commentaires?|comentarios?)\b", re.IGNORECASE)
_COMMENTS: Final = re.compile(
    r"\b(?:comment\w*|header|document\w*|doc|format\w*|indent\w*|blank|empty\s+lines?|kommentar\w*|kommentier\w*|leerzeilen?"
    r"|einrück\w*|comentari\w*|comenta\w*|en-tête|encabezado|author|licen[cs]e|todo|typo|tippfehler|faute|errata)\b",
    re.IGNORECASE,
)
"""Words of a task to which a change of comments alone may be the answer."""
_IN_FILES: Final = re.compile(
    r"\b(?:which|what|any|welche[mrs]?|quels?|lequel|lesquels|qu[eé]|cu[aá]l(?:es)?)\s+(?:(?:of|von|de)\s+)?(?:\w+\s+){0,2}?"
    r"(?:files?|programs?|scripts?|datei(?:en)?|programme?n?|skripte?|fichiers?|programmes?|archivos?|ficheros?|programas?)\b(?![^?\n]{0,60}\b(?:are\s+(?:there|on|in)|sind|sont|están"
    r"|have|exist|installed|gibt|habe|existieren|liegen|hay|tengo|existen|y\s+a-t-il|ai-je|existent|newest|biggest|largest|oldest|empty|folder|ordner|dossier|carpeta)\b)",
    re.IGNORECASE,
)
"""Questions about the content of files, which a list does not answer."""


class Case:
    """What the rules of a verdict look at.

    ``computers``: the names of the task's computers; ``asks``: nothing is to be done.
    """

    def __init__(
        self, evidence: Evidence, final: FinalResult, prompt: str, computers: Sequence[str], *, read_only: bool
    ) -> None:
        prompt = readable(prompt)
        self.evidence, self.final, self.prompt, self.computers = evidence, final, prompt, computers
        self.message, self.explanation = readable(final.message), readable(final.explanation)
        got = frozenset(one for run in evidence.runs.values() for one in run.given)
        self.said = claims(f"{self.message}\n{self.explanation}", computers, got)
        self.task = wanted(prompt, computers, got)
        made = any(change.before == ABSENT and spot.path in prompt for spot, change in evidence.net.items())
        self.only_asks = (asks_only(prompt) and not made) or (self.task.keeps_all and not self.task.runs)
        self.asks = self.only_asks or read_only
        self.net = evidence.net

    def touched(self, names: tuple[str, ...]) -> bool:
        """Whether one of these files was changed or run; where something is broken, its removal repairs nothing."""
        broken = _BROKEN.search(self.prompt) is not None
        spots = [*(spot for spot, one in self.net.items() if one.is_there or not broken), *self.evidence.runs]
        return any(is_path(spot, name) for spot in spots for name in names)

    @property
    def is_choice(self) -> bool:
        """Whether the task leaves a choice between its files."""
        return _OR.search(self.prompt) is not None

    def is_extra(self, spot: Spot, change: Change) -> bool:
        """Whether a change is one that the task rules out: nothing else than a file, or than its comments."""
        if not self.task.keeps_rest or change.before == ABSENT:
            return False
        lost = change.plus is not None and change.minus is not None and change.minus > change.plus
        if lost and change.is_there and not self._removes():
            return True
        named = any(is_path(spot, name) for name in files(self.prompt))
        comments = _COMMENT_WANTED.search(self.prompt) is not None and spot.path.endswith(".lua")
        return not named or (comments and not change.only_comments)

    def _removes(self) -> bool:
        """Whether the task wants something removed or shorter, so that lines may go."""
        return _REMOVES.search(self.prompt) is not None

    def is_stale(self, spot: Spot) -> bool:
        """Whether a program was changed after its last run."""
        change = self.net.get(spot)
        return change is not None and change.at > self.evidence.runs[spot].at

    def strangers(self) -> Iterator[str]:
        """The files that the final tells of and that no step, and no text of the task, has."""
        evidence = self.evidence
        known = [*evidence.changes, *evidence.runs, *evidence.seen, *(Spot("", path) for path in evidence.unseen)]
        texts = evidence.texts
        told = () if texts is None else (name for name in self.said.told_of if name not in self.said.kept)
        for name in told:
            if stem(name) not in f"{texts}{self.prompt}".lower() and not any(is_path(spot, name) for spot in known):
                yield name

    def unread(self) -> str | None:
        """A file that a question is about, and whose contents were not seen; None: there is none."""
        if only_lists(self.prompt):
            return None
        if (
            not files(self.prompt)
            and _IN_FILES.search(self.prompt)
            and not (self.evidence.seen or self.evidence.found or self.evidence.runs or self.net)
        ):
            return "the files that the answer is about"
        where = {name: named_in(one, self.computers) for one in sentences(self.prompt) for name in files(one)}
        for name, computers in where.items():
            if self.said.not_there and any(is_path(Spot("", path), name) for path in self.evidence.unseen):
                continue
            known = [spot for spot in (*self.evidence.seen, *self.evidence.runs, *self.net) if is_path(spot, name)]
            if not known and name.lower() not in self.evidence.found.lower():
                return name
            apart = next((one for one in computers if known and all(spot.computer != one for spot in known)), None)
            if apart is not None:
                return f"{name} on {apart}"
        return None

    def only_tells_of_itself(self, message: str) -> bool:
        """Whether the one look was a program of the task's own, and the message has none of its output."""
        own = [run for spot, run in self.evidence.runs.items() if spot in self.net]
        if not own or len(own) < len(self.evidence.runs):
            return False
        rest = " ".join(
            part for part in re.split(r"[.!?;:\n]+|\band\b|\bund\b|\bet\b|\by\b", message) if not _about_itself(part)
        )
        told = set(re.findall(r"\w{4,}|\d+", rest.lower()))
        return not told & {word for run in own for word in re.findall(r"\w{4,}|\d+", run.text.lower())}

    def is_met(self, target: Target) -> bool:
        """Whether one of the files of a target ended in its state."""
        if target.is_state:
            return self._is_so(target)
        spots = {spot: one for spot, one in self._changes_of(target).items() if one.is_net}
        match target.deed:
            case Deed.DELETE:
                return any(not one.is_there for one in spots.values())
            case Deed.FIX:
                return self._is_other(spots) or self._fixed_elsewhere(target.names)
            case Deed.COPY:
                stems = [stem(name) for name in target.names]
                found = [
                    (spot, one)
                    for spot, one in self.net.items()
                    if one.is_there and spot.computer in (target.computers or (spot.computer,))
                ]
                is_far = len(self.computers) > 1 and bool(target.computers)
                return all(one.is_there for one in spots.values()) and any(
                    (is_far or one.before == ABSENT) and any(part in spot.path.lower() for part in stems)
                    for spot, one in found
                )
            case Deed.CHANGE:
                return self._is_other(spots)
            case Deed.ENSURE:
                runs = self.evidence.runs.items()
                well = any(run.went_well and is_path(spot, name) for spot, run in runs for name in target.names)
                return well or any(one.is_there for one in spots.values())
            case _:
                new = any(one.before == ABSENT and one.is_there for one in spots.values())
                return new or self._is_other(spots)

    def _is_so(self, target: Target) -> bool:
        """Whether it is as the final says, by what the task did or by what was there before."""
        if target.deed is Deed.CHANGE:
            return bool(self.net or self.evidence.runs)
        own = self._changes_of(target).values()
        if own:
            return any(one.is_there is (target.deed is not Deed.DELETE) for one in own)
        evidence = self.evidence
        known = any(is_path(spot, name) for spot in (*evidence.seen, *evidence.runs) for name in target.names)
        listed = any(all(part in evidence.shown.lower() for part in name.lower().split("/")) for name in target.names)
        lost = any(is_path(Spot("", path), name) for path in evidence.unseen for name in target.names)
        return (known or (listed and not lost)) is (target.deed is not Deed.DELETE)

    def _is_other(self, spots: Mapping[Spot, Change]) -> bool:
        """Whether one of these files is other than before, in more than its comments where those were not asked for."""
        comments = _COMMENTS.search(self.prompt) is not None
        return any(one.is_there and (comments or not one.only_comments) for one in spots.values())

    def wrote_and_ran(self, target: Target) -> bool:
        """Whether a file to be made got the very bytes that it had before the task, and then ran well."""
        written = self._changes_of(replace(target, computers=())).items()
        return target.deed is Deed.MAKE and any(one.is_there and self.is_covered(spot, one) for spot, one in written)

    def made_for_a_time(self, target: Target) -> bool:
        """Whether a file that the final names was made and then deleted, and the final tells that."""
        own = self._changes_of(target).values()
        gone = bool(own) and all(one.before == ABSENT and not one.is_there for one in own)
        return target.deed in (Deed.MAKE, Deed.DELETE) and gone and self.said.deleted

    def tells_undone(self, target: Target) -> bool:
        """Whether the final says that this was not done, where something else was."""
        changes = {Deed.CHANGE, Deed.FIX}
        same = changes if target.deed in changes else {target.deed}
        return bool(self.net) and any(deed in same and name in target.names for deed, name in self.said.undone)

    def _changes_of(self, target: Target) -> dict[Spot, Change]:
        """What the task did to the files of a target, undone or not."""
        return {
            spot: one
            for spot, one in self.evidence.changes.items()
            if any(is_path(spot, name) for name in target.names)
            and spot.computer in (target.computers or (spot.computer,))
        }

    def _fixed_elsewhere(self, names: tuple[str, ...]) -> bool:
        """Whether one of these programs ran well after another file was changed."""
        others = (one for one in self.net.values() if not one.only_comments)
        last = max((one.at for one in others), default=None)
        runs = (run for spot, run in self.evidence.runs.items() if any(is_path(spot, name) for name in names))
        return last is not None and any(run.went_well and run.at > last for run in runs)

    def not_run(self, program: Program) -> str | None:
        """What a run of this program lacks; None: it ran well since it was changed, or its error is told."""
        lacks = (self._not_run_on(program.name, (computer,)) for computer in program.computers)
        return next((lack for lack in lacks if lack), None) or self._not_run_on(program.name, ())

    def _not_run_on(self, name: str, computers: tuple[str, ...]) -> str | None:
        changed = {spot: one for spot, one in self.evidence.programs.items() if is_path(spot, name)}
        all_runs = self.evidence.runs.items()
        runs = {
            spot: run
            for spot, run in all_runs
            if is_path(spot, name) and spot.computer in (computers or (spot.computer,))
        }
        if computers and not runs:
            return f"{name} was not run on {computers[0]}: run it there, {OR_SAY}."
        if computers:
            changed = {spot: one for spot, one in changed.items() if spot.computer in computers}
        if not runs and any(run.went_well and _credits(spot, run, name) for spot, run in all_runs):
            return None
        if not runs:
            return f"{name} was not run: run it, {OR_SAY}."
        for spot, one in changed.items():
            if not self.is_covered(spot, one):
                return f"{spot.path} was changed after its last run: run it, {OR_SAY}."
        if any(run.went_well for run in runs.values()) or (self.said.failed and not changed):
            return None
        return f"You say success, but {name} did not run to a good end. {OTHERWISE}"

    def idle(self, computers: Sequence[str]) -> str | None:
        """The first of these computers on which nothing was run."""
        return next((one for one in computers if all(spot.computer != one for spot in self.evidence.runs)), None)

    def not_given(self, given: Sequence[str]) -> str | None:
        """The missing part of a run that should have got these arguments.

        None: nothing is missing, or another program may have given them.
        """
        got = {one for run in self.evidence.runs.values() for one in run.given}
        missing = next((one for one in given if one not in got), None)
        if missing is None or not self.evidence.runs or self._is_given_by_another(missing):
            return None
        return f"No run got {missing}: run it with that, {OR_SAY}."

    def _is_given_by_another(self, text: str) -> bool:
        """Whether a program that loads or runs others has a text in it, as far as that is known."""
        written = [one.text for spot, one in self.net.items() if self.evidence.loads.get(spot)]
        return any(one is None or has(one, text) for one in written)

    def said_given(self) -> list[str]:
        """The arguments that the final says programs got: after a preposition, or behind their names in quotes."""
        names = "|".join(re.escape(stem(spot.path)) for spot in self.evidence.runs)
        calls = re.findall(rf"`\s*(?:{names})\s+([\w .-]+?)\s*`", self.said.run_text) if names else []
        told = [call for call in calls if not is_printed([*self.evidence.runs.values()], call)]
        return [*self.said.given, *(word for call in told for word in call.split())]

    def not_tested(self, why: str) -> str | None:
        """What a claim of a run lacks that names no program."""
        for spot, one in self.evidence.programs.items():
            if not self.is_covered(spot, one):
                ran = any(run.ran.path == spot.path for run in self.evidence.runs.values())
                how = "was changed after its last run" if ran else "was not run since it was changed"
                return f"{why}, but {spot.path} {how}: run it, {OR_SAY}."
        runs = self.evidence.runs.values()
        if any(run.went_well for run in runs) or (runs and self.said.failed):
            return None
        return f"{why}, but nothing was run to a good end: run it, {OR_SAY}."

    def is_covered(self, spot: Spot, change: Change) -> bool:
        """Whether a program ran well after its last change: itself, or one that loads it."""
        return any(
            run.went_well and one.computer == spot.computer and self._shows(one, run, spot, change)
            for one, run in self.evidence.runs.items()
        )

    def _shows(self, one: Spot, run: Run, spot: Spot, change: Change) -> bool:
        """Whether a run shows a change: by the bytes that ran, or by a later run of what loads it or was asked for."""
        if one == spot:
            return run.at > change.at or run.ran.sha256 == change.now
        asked = any(is_path(one, program.name) for program in self.task.programs)
        return run.at > change.at and not stumbled(run, spot.path) and (asked or _credits(one, run, spot.path))

    def was_so(self, names: Sequence[str] = ()) -> bool:
        """Whether the final says that there was nothing to do, and something was looked at: these files, if any."""
        if not (self.said.no_need and self.evidence.sight):
            return False
        evidence = self.evidence
        looked = [*evidence.seen, *evidence.runs]
        texts = f"{evidence.shown}{evidence.found}".lower()
        return not names or any(
            any(is_path(spot, name) for spot in looked) or name.lower().rpartition("/")[2] in texts for name in names
        )


def is_path(spot: Spot, name: str) -> bool:
    """Whether a name in a text means this path: with its directories, or its last part alone."""
    path, name = spot.path.lower(), name.lower().strip("/")
    return path.endswith(name) and re.search(r"[\w.-]\Z", path[: -len(name)]) is None


_STARTERS: Final = frozenset({"bg", "fg"})
"""Programs of the game that start another one and end before it does."""


def _credits(one: Spot, run: Run, path: str) -> bool:
    """Whether the run of one program shows how another one ran that it loaded or was given."""
    return stem(path) in run.about and stem(one.path) not in _STARTERS and not stumbled(run, path)


def stumbled(run: Run, path: str) -> bool:
    """Whether the output of a run has an error of this program: its name with a line number."""
    name = re.escape(path.rpartition("/")[2].removesuffix(".lua"))
    return re.search(rf"(?<![\w-]){name}(?:\.lua)?:\d+:", run.text) is not None


def has(written: str, text: str) -> bool:
    """Whether a text is in the written texts; a number as a whole one."""
    if re.fullmatch(r"-?\d+(?:[.,]\d+)?", text):
        number = re.escape(text.replace(",", "."))
        return re.search(rf"(?<![\d.]){number}(?![\d])", written) is not None
    return _plain(text) in _plain(written)


def has_letters(texts: str, text: str) -> bool:
    """Whether the parts of a quotation without its numbers are in the written texts: they may be computed."""
    parts = [part for part in re.split(r"[\d.,]+", text) if part.strip()]
    return all(_plain(part) in _plain(texts) for part in parts)


def is_printed(runs: Sequence[Run], text: str) -> bool:
    """Whether one of the runs printed a text."""
    return any(has(run.told, text) for run in runs)


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
