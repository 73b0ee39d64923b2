r"""Which programs a command line would run, read as the shell of CC: Tweaked reads it.

Facts (rom/programs/shell.lua, rom/startup.lua and the programs themselves, 1.113.1): words are
split on blanks and tabs, ``"`` groups, an open quote ends with the line. The first word is looked
up among the aliases; with a ``/`` or a ``\`` in it, it is a path from the shell's directory (from
the root if it begins with one), otherwise a name in each directory of the shell's path. In both
cases the file itself comes first, then the one with ``.lua``. ``shell``, ``bg`` and ``fg`` join
their arguments and read them as a line again; ``monitor`` runs its second argument.

What cannot be known from here: aliases that somebody made, what a program calls by itself, and a
first line ``#!…``. The computer resolves the first word, and the gate judges what it said.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from orchestrator.core.errors import UnsafePath
from orchestrator.core.text.paths import canonical_path, path_matches
from orchestrator.core.values import immutable

# -- Further spellings of a canonical path, for rules that must not be walked around -----


def spellings(canonical: str) -> tuple[str, ...]:
    """The path, and, if it is another one, what a Windows host makes of it: dots at the end of a name fall away."""
    if "./" not in f"{canonical}/":
        return (canonical,)
    bare = [part.rstrip(". ") for part in canonical.split("/")]
    return (canonical, "/".join(part for part in bare if part))


# -- Which programs a command line would run, read as the shell of CC: Tweaked reads it

ALIASES: Final[Mapping[str, str]] = {
    "ls": "list",
    "dir": "list",
    "cp": "copy",
    "mv": "move",
    "rm": "delete",
    "clr": "clear",
    "rs": "redstone",
    "sh": "shell",
    "background": "bg",
    "foreground": "fg",
}
"""The aliases that every computer starts with."""

_READ_AGAIN: Final = frozenset({"shell", "bg", "fg"})
_OPAQUE: Final = frozenset({"lua", "exec", "import", "multishell"})
"""They run programs that no argument names."""
_OPAQUE_WITH_RUN: Final = frozenset({"wget", "pastebin"})
_MAX_READINGS: Final = 64
"""Lines within lines; deeper nesting hides something."""
_NOWHERE: Final = "\ue000"
"""Stands for a directory that nobody knows; a private character, which no name in the game has."""


@immutable
class CommandLine:
    """The programs that a line would run."""

    wrapped: tuple[str, ...] = ()
    """The words that name programs inside of wrappers, as they are written."""
    plain: bool = False
    """It is one program and nothing that runs another: a rule that allows may speak."""
    unclear: bool = False
    """The line cannot be read for certain: a rule that asks or denies takes it for a match."""


@immutable
class Target:
    """A file that a word may mean."""

    path: str
    anywhere: bool
    """In any directory, since nobody knows which one is meant."""


def split_words(line: str) -> list[str]:
    """The words of a line, as the CC shell splits it."""
    words: list[str] = []
    for number, part in enumerate(line.split('"')):
        if number % 2:
            words.append(part)
        else:
            words.extend(word for word in part.replace("\t", " ").split(" ") if word)
    return words


def read_line(line: str, program: str | None = None) -> CommandLine:
    """The programs that a line would run.

    ``program``: the program that its first word was resolved to, None if nobody has looked.
    """
    outside = "".join(line.split('"')[::2])
    odd = {char for char in outside if char.isspace() and char not in " \t"}
    found = read_words(split_words(line), program)
    if not odd:
        return found
    # Another reader may split there, so both readings count.
    as_blanks = line.translate({ord(char): " " for char in odd})
    other = read_words(split_words(as_blanks), program)
    first = split_words(as_blanks)[:1]
    return CommandLine((*found.wrapped, *first, *other.wrapped), False, found.unclear or other.unclear)


def read_words(words: Sequence[str], program: str | None = None) -> CommandLine:
    """The programs that a program with its arguments would run: only the arguments of a wrapper are a command line."""
    if not words:
        return CommandLine(unclear=True)
    try:
        inside = _inside(words, program)
        return CommandLine(plain=True) if inside is None else CommandLine(_all_inside(inside))
    except UnsafePath:
        return CommandLine(unclear=True)


def targets(word: str) -> tuple[Target, ...] | None:
    """Every file that a word may mean, with and without ``.lua``; None: it cannot be told, so it may be any."""
    found: list[Target] = []
    for name in dict.fromkeys((word, ALIASES.get(word.casefold(), word))):
        anywhere = name[:1] not in ("/", "\\")
        try:
            path = _from_nowhere(name) if anywhere else canonical_path(name)
        except UnsafePath:
            return None
        if not path:
            return None
        found += [Target(one + end, anywhere) for one in spellings(path) for end in ("", ".lua")]
    return tuple(found)


def may_mean(glob: str, target: Target) -> bool:
    """Whether a glob matches a target, in any directory where it may be; letter case does not count."""
    if not target.anywhere:
        return path_matches(glob, target.path, ignore_case=True)
    segments, parts = glob.lstrip("/").split("/"), target.path.split("/")
    while segments and parts:
        segment, part = segments.pop(), parts.pop()
        free = "**" in segment
        if not path_matches("*" + segment.rpartition("**")[2] if free else segment, part, ignore_case=True):
            return False
        if free:
            return True
    return not parts


def names_program(glob: str) -> bool:
    """Whether a glob names a program, or all of them, rather than the programs of some directory."""
    return not set("*?") & set(glob.rpartition("/")[2]) or (set(glob) <= {"*", "/"} and "**" in glob)


# -- inside ------------------------------------------------------------------------------


def _all_inside(inside: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """Every word that names a program, wrappers in wrappers too. Raises UnsafePath."""
    readings, seen = list(inside), set[tuple[str, ...]]()
    while readings:
        one = readings.pop()
        if not one or one in seen:
            continue
        if len(seen) >= _MAX_READINGS:
            raise UnsafePath("Too many command lines are inside of each other.")
        seen.add(one)
        readings.extend(_inside(one, None) or ())
    return tuple(sorted({one[0] for one in seen}))


def _inside(words: Sequence[str], program: str | None) -> tuple[tuple[str, ...], ...] | None:
    """The programs with their arguments that a wrapper runs; None: it is not a wrapper. Raises UnsafePath."""
    names = {_base_name(words[0]), ALIASES.get(words[0].casefold(), ""), _base_name(program or "")}
    args = words[1:]
    if "monitor" in names:
        return (tuple(args[1:]), tuple(split_words(" ".join(args[1:]))))
    if names & _READ_AGAIN:
        once = split_words(" ".join(args))
        return (tuple(once), tuple(split_words(" ".join(once))))
    if names & _OPAQUE or (names & _OPAQUE_WITH_RUN and args and args[0].casefold() == "run"):
        return ()
    return None


def _base_name(word: str) -> str:
    return _from_nowhere(word).rpartition("/")[2].casefold().removesuffix(".lua")


def _from_nowhere(word: str) -> str:
    """The part of a relative path that is certain, whatever directory it is counted from. Raises UnsafePath."""
    climbs = word.count("..")
    path = canonical_path(f"{_NOWHERE}/" * climbs + word)
    known = [part for part in path.split("/") if part != _NOWHERE]
    return "/".join(known)


# -- Rules on programs: which programs a call would run, and whether a glob means one of them

NOTHING_RUNS = CommandLine(plain=True)
UNCLEAR = CommandLine(unclear=True)


@immutable
class Runs:
    """What a call runs."""

    first: str | None
    """The word that names its program; None: it names none."""
    resolved: str | None
    """What the computer made of that word; None: nobody has looked."""
    line: CommandLine


def resolved_program(program: str | None) -> str | None:
    """What the computer made of a program's name, canonical; None: nobody has looked, or it is not a path."""
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
    """Whether an allow rule covers a call: one program, no wrapper, known by its path (promises P7, P8)."""
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
