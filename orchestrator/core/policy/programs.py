"""Rules on programs: which programs a call would run, and whether a glob means one of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.core.errors import UnsafePath
from orchestrator.core.policy.command_line import (
    CommandLine,
    may_mean,
    names_program,
    read_line,
    read_words,
    split_words,
    targets,
)
from orchestrator.core.policy.spelling import spellings
from orchestrator.core.text.paths import canonical_path, path_matches

NOTHING_RUNS = CommandLine(plain=True)
UNCLEAR = CommandLine(unclear=True)


@dataclass(frozen=True)
class Runs:
    """What a call runs."""

    first: str | None
    """The word that names its program; None: it names none."""
    resolved: str | None
    """What the computer made of that word; None: nobody has looked."""
    line: CommandLine


def resolved_program(program: str | None) -> str | None:
    """What the computer made of a program's name, canonical; None: nobody has looked, or it is no path."""
    try:
        return None if program is None else canonical_path(program)
    except UnsafePath:
        return None


def runs_of(tool: str, args: Mapping[str, Any], program: str | None) -> Runs:
    """What a call runs; ``program``: what the computer said that its word means, None if nobody has looked."""
    resolved = resolved_program(program)
    if resolved is None and program is not None:
        return Runs(None, None, UNCLEAR)
    match tool, args:
        case "cc_shell", {"command": str(command)}:
            return Runs(next(iter(split_words(command)), None), resolved, read_line(command, resolved))
        case "cc_run_program", {"path": str(path)} if _are_words(words := args.get("args", [])):
            return Runs("/" + path, resolved, read_words(("/" + path, *words), resolved))
        case "cc_shell" | "cc_run_program", _:
            pass
        case _:
            return Runs(None, resolved, NOTHING_RUNS)
    return Runs(None, resolved, UNCLEAR)


def runs_one_program(tool: str, args: Mapping[str, Any], program: str | None) -> bool:
    """Whether a call runs no program but ``program``, as ``shell p`` and ``bg p`` do; true where it runs none."""
    return runs_of(tool, args, program).line.plain


def _are_words(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(word, str) for word in value)


def is_allowed(runs: Runs, globs: tuple[str, ...]) -> bool:
    """Whether a rule that allows speaks of a call: of one program, no wrapper, and known by its path (P7, P8)."""
    path = runs.resolved
    return path is not None and runs.line.plain and any(path_matches(glob, path, ignore_case=False) for glob in globs)


def is_hit(runs: Runs, globs: tuple[str, ...]) -> bool | None:
    """Whether a rule that asks or denies speaks of a call; None: it depends on which program its word means."""
    if runs.line.unclear or any(_may_mean(glob, word) for word in runs.line.wrapped for glob in globs):
        return True
    if runs.resolved is not None:
        return any(path_matches(glob, one, ignore_case=True) for glob in globs for one in spellings(runs.resolved))
    if runs.first is None:
        return False
    meant = targets(runs.first)
    possible = [(glob, target) for glob in globs for target in meant or () if may_mean(glob, target)]
    if any(names_program(glob) or not target.anywhere for glob, target in possible):
        return True
    return None if possible or meant is None else False


def _may_mean(glob: str, word: str) -> bool:
    meant = targets(word)
    return meant is None or any(may_mean(glob, target) for target in meant)
