"""The checks of a task: lines of a small language about the state at the end of the task.

``runs PROGRAM [ARGS]``, ``prints TEXT``, ``file PATH contains TEXT``, ``file PATH exists``, ``unchanged PATH``.
``@COMPUTER`` in front names the computer, where a task has several. Words are split on blanks, and ``"`` groups, as
in the game's shell. TEXT is the rest of the line; one pair of quotes around the whole of it is taken off.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, Literal

from orchestrator.core.errors import InvalidRequest, UnsafePath
from orchestrator.core.text.paths import canonical_path
from orchestrator.core.values import immutable

CheckKind = Literal["runs", "prints", "contains", "exists", "unchanged"]

MAX_CHECKS: Final = 20
MAX_CHECK_BYTES: Final = 500
"""Bytes of one check: an approval request shows all of them uncut, and a computer looks for no longer text."""
OBSERVE_S: Final = 10
"""Seconds that the program of a ``runs`` check is watched: one that never ends has run well if no error came."""
FORMS: Final = "runs PROGRAM [ARGS], prints TEXT, file PATH contains TEXT, file PATH exists, unchanged PATH"
_SHOWN_CHARS: Final = 80
_REMEDY: Final = f"Type one of: {FORMS}."


@immutable
class Check:
    """One check, read from its line."""

    text: str
    """The line as it was typed, without blanks around it: people and results call the check so."""
    kind: CheckKind
    computer: str = ""
    """The name after ``@``; empty: the one computer of the task, and for ``prints`` any."""
    path: str = ""
    """The path of the program or the file, canonical; empty for ``prints``."""
    args: tuple[str, ...] = ()
    """The arguments of the program."""
    wanted: str = ""
    """The text that must be printed, or be in the file."""

    @property
    def call(self) -> tuple[str, dict[str, Any]] | None:
        """The tool and the arguments by which the check is made; None: it needs no call."""
        if self.kind == "runs":
            return "cc_run_program", {"path": self.path, "args": list(self.args), "observe_s": OBSERVE_S}
        if self.kind == "contains":
            return "cc_find", {"pattern": self.path, "contains": self.wanted}
        return ("cc_find", {"pattern": self.path}) if self.kind == "exists" else None


@lru_cache(maxsize=1024)
def read_check(line: str) -> Check:
    """The check that a line says. Raises InvalidRequest with what to type instead."""
    text = line.strip()
    if not text.isprintable():
        raise _unreadable(text, "it has a line end or another control character")
    if len(text.encode()) > MAX_CHECK_BYTES:
        raise _unreadable(text, f"it has more than {MAX_CHECK_BYTES} bytes")
    named, rest = _taken(text) if text.startswith("@") else ("", text)
    if named == "@":
        raise _unreadable(text, "the computer's name after @ is missing")
    kind, said = _taken(rest)
    match kind:
        case "runs":
            return _runs(text, named[1:], said)
        case "prints":
            return Check(text, "prints", named[1:], wanted=_quoted(text, said))
        case "file":
            return _file(text, named[1:], said)
        case "unchanged":
            path, more = _taken(said)
            if more:
                raise _unreadable(text, f"{more!r} stands behind the path")
            return Check(text, "unchanged", named[1:], _path(text, path))
    raise _unreadable(text, f"{kind!r} is not a kind of check" if kind else "it is empty")


def checks_of(lines: Sequence[str], computers: Sequence[str], *, read_only: bool = False) -> tuple[str, ...]:
    """The checks of a new task, each once and as it is recorded.

    ``computers``: the names of the task's computers. ``read_only``: the task may only look, so nothing may be run.
    Raises InvalidRequest for a check that cannot be read or cannot be made in this task.
    """
    if len(lines) > MAX_CHECKS:
        raise _refused(f"A task has at most {MAX_CHECKS} checks, not {len(lines)}.", "Leave some out.")
    checks = [read_check(line) for line in lines]
    for check in checks:
        _must_fit(check, computers, read_only=read_only)
    return tuple(dict.fromkeys(check.text for check in checks))


def _must_fit(check: Check, computers: Sequence[str], *, read_only: bool) -> None:
    if not computers:
        raise _refused(
            f"The check {check.text!r} needs a computer, and this task has none.",
            "Choose a computer for the task (`run --computer NAME`).",
        )
    if check.computer and check.computer not in computers:
        raise _refused(
            f"The check {check.text!r} names {check.computer!r}, which is not a computer of this task.",
            f"Type one of: {', '.join(f'@{name}' for name in computers)}.",
        )
    if not check.computer and len(computers) > 1 and check.kind != "prints":
        raise _refused(
            f"The check {check.text!r} does not say on which of the task's {len(computers)} computers.",
            f"Put the computer's name in front, such as: @{computers[0]} {check.text}",
        )
    if read_only and check.kind == "runs":
        raise _refused(
            f"The check {check.text!r} runs a program, and this task may only look.",
            "Leave out the check, or let the task do more than look.",
        )


def _runs(text: str, computer: str, said: str) -> Check:
    words: list[str] = []
    while said:
        word, said = _taken(said)
        words.append(word)
    if not words:
        raise _unreadable(text, "the program is missing")
    return Check(text, "runs", computer, _path(text, words[0]), tuple(words[1:]))


def _file(text: str, computer: str, said: str) -> Check:
    path, rest = _taken(said)
    verb, wanted = _taken(rest)
    if verb == "exists" and not wanted:
        return Check(text, "exists", computer, _path(text, path))
    if verb != "contains":
        raise _unreadable(text, "after the path of a file comes contains TEXT, or exists")
    return Check(text, "contains", computer, _path(text, path), wanted=_quoted(text, wanted))


def _taken(said: str) -> tuple[str, str]:
    """The first word, its quotes taken off, and the rest. An open quote ends with the line."""
    said = said.lstrip()
    if said.startswith('"'):
        word, _, rest = said[1:].partition('"')
    else:
        word, _, rest = said.partition(" ")
    return word, rest.lstrip()


def _quoted(text: str, said: str) -> str:
    """TEXT without the one pair of quotes around it."""
    wanted = said.strip()
    if len(wanted) > 1 and wanted[0] == wanted[-1] == '"' and wanted.count('"') == 2:
        wanted = wanted[1:-1]
    if not wanted:
        raise _unreadable(text, "the text is missing")
    return wanted


def _path(text: str, path: str) -> str:
    try:
        canonical = canonical_path(path)
    except UnsafePath as error:
        raise _unreadable(text, error.message.rstrip(".")) from None
    if not canonical:
        raise _unreadable(text, "the path is missing")
    return canonical


def _unreadable(text: str, why: str) -> InvalidRequest:
    return _refused(f"The check {text[:_SHOWN_CHARS]!r} cannot be read: {why}.", _REMEDY)


def _refused(message: str, remedy: str) -> InvalidRequest:
    """A refusal that a form can show beside its field for checks."""
    return InvalidRequest(message, remedy=remedy, details={"field": "checks"})
