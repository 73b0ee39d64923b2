"""Conditions after a task: of files, of printed output, of the answer, of the world, of the journal."""

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from orchestrator.core.evidence.user_checks import Check
from orchestrator.core.policy import BUILT_IN_CATALOG, Effect, PolicyDecision
from orchestrator.core.task import facts
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.evaluation.cases import EvalTask, Seen, Standing

OWN: Final = ".cc-orchestrator"
"""A file that the client keeps on a computer is not a file of the player."""
_SHOWN: Final = 160


@dataclass(frozen=True)
class FileIs:
    """A file has exactly these bytes."""

    path: str
    content: bytes
    computer: str = ""

    def __call__(self, seen: Seen) -> str:
        """The fault."""
        found = seen.computer(self.computer).read(self.path)
        if found == self.content:
            return ""
        return f"There is no {self.path}." if found is None else f"{self.path} is {_shown(found)}"


@dataclass(frozen=True)
class FileLacks:
    """A file is there and does not have this text, blanks aside."""

    path: str
    text: str
    computer: str = ""

    def __call__(self, seen: Seen) -> str:
        """The fault."""
        found = seen.computer(self.computer).read(self.path)
        if found is None:
            return f"There is no {self.path}."
        packed = "".join(found.decode("latin-1").split())
        return f"{self.path} still has {self.text!r}." if "".join(self.text.split()) in packed else ""


@dataclass(frozen=True)
class Absent:
    """Nothing is at a path."""

    path: str
    computer: str = ""

    def __call__(self, seen: Seen) -> str:
        """The fault."""
        return f"{self.path} is still there." if (seen.computer(self.computer).disk / self.path).exists() else ""


@dataclass(frozen=True)
class Prints:
    """A program prints these texts, in this order, when the check runs it on a copy of the disk."""

    program: str
    """Empty: what runs when the computer boots."""
    texts: tuple[str, ...]
    args: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    """Texts that it must not print."""
    computer: str = ""

    def __call__(self, seen: Seen) -> str:
        """The fault."""
        printed = seen.computer(self.computer).run(self.program, self.args, self.typed)
        name = self.program or "What boots"
        rest = printed
        for wanted in self.texts:
            _, found, rest = rest.partition(wanted)
            if not found:
                return f"{name} does not print {wanted!r}, but {_shown(printed.encode())}"
        return next((f"{name} prints {one!r}." for one in self.never if one in printed), "")


@dataclass(frozen=True)
class Says:
    """The answer has one text of each group, letter case aside."""

    groups: tuple[tuple[str, ...], ...]

    def __call__(self, seen: Seen) -> str:
        """The fault."""
        if seen.ended is None:
            return "There is no answer."
        said = f"{seen.ended.message} {seen.ended.explanation} {seen.ended.details}".casefold()
        missing = [group for group in self.groups if not any(one.casefold() in said for one in group)]
        return f"The answer does not say {' or '.join(map(repr, missing[0]))}." if missing else ""


@dataclass(frozen=True)
class RanWell:
    """The task ran this program on the computer, and its last run ended well and printed the text."""

    program: str
    text: str = ""

    def __call__(self, seen: Seen) -> str:
        """The fault."""
        last = next((text for text in reversed(list(_runs(seen, self.program)))), None)
        if last is None:
            return f"{self.program} was never run."
        ok, printed = last
        if not ok:
            return f"The last run of {self.program} failed."
        return "" if self.text in printed else f"The last run of {self.program} did not print {self.text!r}."


@dataclass(frozen=True)
class World:
    """What the world answers to a command, or the part of it by this key."""

    command: str
    answer: Any
    key: str = ""
    computer: str = ""

    def __call__(self, seen: Seen) -> str:
        """The fault."""
        found = seen.computer(self.computer).do(self.command)
        found = found[self.key] if self.key else found
        return "" if found == self.answer else f"`{self.command}` answers {found!r}, not {self.answer!r}."


@dataclass(frozen=True)
class UserCheck:
    """One line of the checks of a user's own task."""

    check: Check
    all: tuple[Check, ...] = ()
    """All checks of the task: ``prints`` looks at what a ``runs`` prints."""

    def __call__(self, seen: Seen) -> str:
        """The fault."""
        match self.check.kind:
            case "runs":
                return self._runs(seen)
            case "prints":
                return self._prints(seen)
            case "unchanged":
                return self._unchanged(seen.computer(self.check.computer))
            case "contains" | "exists":
                return self._file(seen.computer(self.check.computer))

    def _runs(self, seen: Seen) -> str:
        tried = seen.computer(self.check.computer).tried(self.check.path, self.check.args)
        return "" if tried.well else f"{self.check.path} ends with an error: {_shown(_last(tried.printed).encode())}"

    def _prints(self, seen: Seen) -> str:
        """The output of the ``runs`` before it, else of the last one, else of what the model ran last."""
        place = self.all.index(self.check)
        order = (*reversed(self.all[:place]), *reversed(self.all[place:]))
        run = next((one for one in order if one.kind == "runs" and self.check.computer in ("", one.computer)), None)
        if run is not None:
            printed = seen.computer(run.computer).run(run.path, run.args)
        else:
            runs = [text for ok, text in _runs(seen) if ok]
            if not runs:
                return f"No program ran well that could have printed {self.check.wanted!r}."
            printed = runs[-1]
        if self.check.wanted in printed:
            return ""
        return f"{self.check.wanted!r} was not printed, but {_shown(printed.encode())}"

    def _file(self, computer: Standing) -> str:
        path, wanted = self.check.path, self.check.wanted
        found = computer.read(path)
        if found is None:
            return f"There is no {path}."
        has = wanted.encode() in found or wanted.encode("latin-1", "replace") in found
        return "" if has else f"{path} does not have {wanted!r}."

    def _unchanged(self, computer: Standing) -> str:
        path = self.check.path
        before = {name: data for name, data in computer.machine.files.items() if _is_at(name, path)}
        now = {name: data for name, data in files_of(computer.disk).items() if _is_at(name, path)}
        return "" if before == now else f"{path} is not what it was."


def untouched(task: EvalTask, seen: Seen) -> str:
    """Whether every file that the task may not touch is as it was; what is wrong, or nothing."""
    for machine in task.machines:
        computer = seen.computer(machine.name)
        now = files_of(computer.disk)
        for path in sorted({*now, *machine.files}):
            if any(fnmatch.fnmatchcase(path, one) for one in task.touches):
                continue
            if now.get(path) != machine.files.get(path):
                what = "is gone" if path not in now else "is new" if path not in machine.files else "was changed"
                return f"{path} {what}, and the task did not ask for that."
    return ""


def touching(task: EvalTask, seen: Seen) -> list[str]:
    """The calls that changed or ran something in a task that only asks; it makes no difference how they ended."""
    if not (task.question or task.read_only):
        return []
    proposed = [item.fact for item in seen.items if isinstance(item.fact, facts.CallsProposed)]
    judged = {
        call.call_id: (call.tool, verdict)
        for fact in proposed
        for call, verdict in zip(fact.calls, fact.evaluations, strict=True)
    }
    started = [item.fact.call_id for item in seen.items if isinstance(item.fact, facts.ToolStarted)]
    return [judged[one][0] for one in started if one in judged and _touches(*judged[one])]


def calls_of(seen: Seen) -> dict[str, facts.ToolCall]:
    """Every call that the model made, by its id."""
    proposed = (item.fact for item in seen.items if isinstance(item.fact, facts.CallsProposed))
    return {call.call_id: call for fact in proposed for call in fact.calls}


def files_of(disk: Path) -> dict[str, bytes]:
    """The player's files by their path."""
    found = (path for path in sorted(disk.rglob("*")) if path.is_file())
    named = {path.relative_to(disk).as_posix(): path for path in found}
    return {name: path.read_bytes() for name, path in named.items() if name.partition("/")[0] != OWN}


def wrong(task: EvalTask, seen: Seen) -> list[str]:
    """All checks that do not hold, as sentences; none: the task is done."""
    if seen.ended is None:
        return ["It did not end."]
    found = [sentence for check in task.checks if (sentence := _checked(check, seen))]
    if (sentence := untouched(task, seen)) != "":
        found.append(sentence)
    claims = seen.ended.status == "Completed"
    if task.possible and not claims:
        said = one_line(seen.ended.message, limit=_SHOWN)
        found.append(f"It ended {seen.ended.status} ({seen.ended.status_reason}): {said}")
    if not task.possible and (claims or seen.ended.status_reason != "final"):
        found.append("It cannot be done, and the model did not say so.")
    return found


def _checked(check: Any, seen: Seen) -> str:
    try:
        return str(check(seen))
    except (OSError, ValueError, KeyError) as error:
        return f"The check {type(check).__name__} could not be made: {one_line(str(error), limit=_SHOWN)}"


def _touches(tool: str, verdict: PolicyDecision) -> bool:
    spec = BUILT_IN_CATALOG.get(tool)
    if tool == "cc_peripheral_call":
        # The policy knows the methods that only read, and allows no other.
        return verdict.effect is not Effect.ALLOW
    return spec is None or spec.governance.mutates


def _is_at(name: str, path: str) -> bool:
    return name == path or name.startswith(f"{path}/")


def _last(text: str) -> str:
    """The last line."""
    return text.rstrip("\n").rpartition("\n")[2]


def _runs(seen: Seen, program: str = "") -> Iterator[tuple[bool, str]]:
    """How each run of a program ended, and what the model was told of it; without a name: of any program."""
    called = calls_of(seen)
    name = program.removesuffix(".lua")
    for item in seen.items:
        if not isinstance(item.fact, facts.ToolFinished):
            continue
        call = called.get(item.fact.call_id)
        if call is None or call.tool not in ("cc_run_program", "cc_shell"):
            continue
        words = str(call.args.get("path") or call.args.get("command") or "").split()
        if not program or (words and words[0].lstrip("/").removesuffix(".lua") == name):
            yield item.fact.ok, item.fact.text


def _shown(content: bytes) -> str:
    return repr(content[:_SHOWN].decode("utf-8", "backslashreplace")) + ("…" if len(content) > _SHOWN else "")


__all__ = [
    "Absent",
    "FileIs",
    "FileLacks",
    "Prints",
    "RanWell",
    "Says",
    "Standing",
    "UserCheck",
    "World",
    "calls_of",
    "files_of",
    "touching",
    "untouched",
    "wrong",
]
