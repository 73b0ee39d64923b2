"""Tasks of the user's own, read from TOML files (docs/eval.md); each error names file, line and what to type."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, ValidationError

from orchestrator.core.errors import InvalidRequest, NotFound, UnsafePath
from orchestrator.core.evidence.user_checks import checks_of, read_check
from orchestrator.core.text.paths import canonical_path
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.evaluation.cases import Check, EvalTask, Machine
from orchestrator.terminal.evaluation.checks import OWN, Says, UserCheck

_HELP: Final = "docs/eval.md has the format."
_NAME: Final = r"[A-Za-z0-9_-]([A-Za-z0-9_.-]{0,62}[A-Za-z0-9_-])?"
_Name = Annotated[str, Field(pattern=f"^{_NAME}$")]
_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Family = Literal["computer", "advanced", "turtle", "advanced-turtle", "pocket", "advanced-pocket", "command"]
_KINDS: Final = {
    "extra_forbidden": "there is no such key",
    "missing": "it is missing",
    "string_too_short": "it is empty",
    "string_pattern_mismatch": "use letters, digits and the signs - _ . in it, at most 64 in all",
}


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Copied(_Strict):
    file: str
    """A file of this host, from the directory of the TOML file on."""


class _Computer(_Strict):
    name: _Name
    family: Family = "advanced"
    files: dict[str, str | _Copied] = {}
    world: dict[str, JsonValue] = {}


class _Task(_Strict):
    name: _Name
    prompt: _Text
    family: Family = "advanced"
    files: dict[str, str | _Copied] = {}
    world: dict[str, JsonValue] = {}
    computers: list[_Computer] = []
    """Empty: one computer with the name of the task."""
    checks: list[str] = []
    answer: list[_Text] = []
    """Texts that the answer must have, letter case aside."""
    steps: Annotated[int, Field(ge=0)] = 0
    """Replies of the model that are enough; 0: nobody said."""
    max_steps: Annotated[int, Field(ge=1, le=1000)] = 20
    question: bool = False
    read_only: bool = False
    possible: bool = True


class _File(_Strict):
    tasks: Annotated[list[_Task], Field(min_length=1)]


def tasks_in(place: Path) -> tuple[EvalTask, ...]:
    """The tasks of a file, or of all TOML files of a directory, by name. Raises NotFound, InvalidRequest."""
    if not place.exists():
        raise NotFound(f"There is no {place}.", remedy=f"Name a TOML file or a directory of them. {_HELP}")
    files = sorted(place.glob("*.toml")) if place.is_dir() else [place]
    if not files:
        raise InvalidRequest(f"There is no .toml file in {place}.", remedy=f"Name another directory. {_HELP}")
    found: list[EvalTask] = []
    for path in files:
        source = _Source(path)
        for number, task in enumerate(source.read()):
            read = source.task(number, task)
            source.must_be_new(number, read, found)
            found.append(read)
    return tuple(found)


class _Source:
    """One file, with its text, to say where in it something is wrong."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            # With the mark at its beginning that some editors of Windows write.
            self._text = path.read_text("utf-8-sig")
        except OSError as error:
            raise InvalidRequest(
                f"{path} cannot be read: {error.strerror or error}.", remedy="Let this user read it, or name another."
            ) from None
        except UnicodeDecodeError:
            raise InvalidRequest(f"{path} is not UTF-8.", remedy="Save it as UTF-8.") from None

    def read(self) -> Sequence[_Task]:
        """The tasks as they are written down. Raises InvalidRequest."""
        try:
            return _File.model_validate(tomllib.loads(self._text)).tasks
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            loc = tuple(one for one in first["loc"] if one not in ("str", "_Copied"))
            said = _KINDS.get(first["type"], one_line(first["msg"], limit=200))
            if loc == ("tasks",):
                self._refuse(loc, "there is no task in it", f"Begin each task with the line [[tasks]]. {_HELP}")
            self._refuse(loc, f"{_shown(loc)}: {said}", _HELP)
        except tomllib.TOMLDecodeError as error:
            line = re.search(r"line (\d+)", str(error))
            where = f"{self._path}, line {line[1]}" if line else str(self._path)
            raise InvalidRequest(f"{where}: {one_line(str(error))}.", remedy="Write it as TOML has it.") from None

    def task(self, number: int, task: _Task) -> EvalTask:
        """One task. Raises InvalidRequest."""
        own = [name for name in ("files", "family", "world") if name in task.model_fields_set]
        if task.computers and own:
            self._refuse(
                ("tasks", number, own[0]),
                f"{own[0]} belongs to a computer, and this task has computers of its own",
                f"Move it into one of [[tasks.computers]]. {_HELP}",
            )
        if not (task.checks or task.answer) and task.possible:
            self._refuse(
                ("tasks", number),
                f"nothing is checked after the task '{task.name}'",
                'Add a line such as checks = ["runs farm.lua"]',
            )
        computers = task.computers or [
            _Computer(name=task.name, family=task.family, files=task.files, world=task.world)
        ]
        machines = tuple(self._machine(number, one) for one in computers)
        lines = self._checks(number, task, [one.name for one in machines])
        checks: list[Check] = [UserCheck(read_check(line), tuple(map(read_check, lines))) for line in lines]
        if task.answer:
            checks.append(Says(tuple((text,) for text in task.answer)))
        return EvalTask(
            name=task.name,
            prompt=task.prompt,
            machines=machines,
            optimal=(),
            checks=tuple(checks),
            touches=frozenset({"*"}),
            question=task.question,
            read_only=task.read_only,
            possible=task.possible,
            max_steps=task.max_steps,
            enough=task.steps,
        )

    def must_be_new(self, number: int, task: EvalTask, others: Sequence[EvalTask]) -> None:
        """Raises InvalidRequest for a name that another task has: all computers are on one server."""
        names = [one.name for one in task.machines]
        twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
        if twice is not None:
            self._refuse(
                ("tasks", number), f"the task '{task.name}' has two computers '{twice}'", "Rename one of them."
            )
        for other in others:
            if task.name == other.name:
                self._refuse(("tasks", number, "name"), f"there are two tasks '{task.name}'", "Give one another name.")
            for name in {one.name for one in task.machines} & {one.name for one in other.machines}:
                self._refuse(
                    ("tasks", number, name),
                    f"the task '{other.name}' has a computer '{name}', too",
                    "Give each computer a name of its own.",
                )

    def _checks(self, number: int, task: _Task, computers: Sequence[str]) -> tuple[str, ...]:
        for line in task.checks:
            try:
                checks_of([line], computers, read_only=task.read_only)
            except InvalidRequest as error:
                self._refuse(("tasks", number, line), error.message.rstrip("."), error.remedy or _HELP)
        return checks_of(task.checks, computers, read_only=task.read_only)

    def _machine(self, number: int, computer: _Computer) -> Machine:
        files = {}
        for path, content in computer.files.items():
            try:
                canonical = canonical_path(path)
            except UnsafePath as error:
                self._refuse(("tasks", number, path), error.message.rstrip("."), error.remedy or _HELP)
            if not canonical or canonical.partition("/")[0] == OWN:
                self._refuse(("tasks", number, path), f"'{path}' cannot be a file of the computer", "Name another.")
            files[canonical] = self._content(number, content)
        below = next((path for path in files if any(path.startswith(f"{other}/") for other in files)), None)
        if below is not None:
            self._refuse(
                ("tasks", number), f"'{below}' is in a directory of which there is a file, too", "Rename one of them."
            )
        return Machine(computer.name, files, computer.family, computer.world)

    def _content(self, number: int, content: str | _Copied) -> bytes:
        if isinstance(content, str):
            return content.encode()
        source = self._path.parent / content.file
        try:
            return source.read_bytes()
        except OSError as error:
            self._refuse(
                ("tasks", number, content.file),
                f"{source} cannot be read: {error.strerror or error}",
                "The path is from the directory of this file on.",
            )

    def _refuse(self, loc: tuple[str | int, ...], why: str, remedy: str) -> NoReturn:
        raise InvalidRequest(f"{self._path}, line {_line(self._text, loc)}: {why}.", remedy=remedy)


def _shown(loc: Sequence[str | int]) -> str:
    """``tasks 2, max_steps``: tasks are counted from 1."""
    parts: list[str] = []
    for one in loc:
        if isinstance(one, int) and parts:
            parts[-1] += f" {one + 1}"
        else:
            parts.append(one_line(str(one), limit=80))
    return ", ".join(parts)


def _line(text: str, loc: Sequence[str | int]) -> int:
    """The line of what ``loc`` names: within its ``[[tasks]]`` the first that has each of its words, in this order."""
    lines = text.split("\n")
    at, end = 0, len(lines)
    for place, one in enumerate(loc):
        if isinstance(one, int):
            heads = [n for n in range(at, end) if re.match(rf"\s*\[\[\s*{_header(loc[:place])}\s*\]\]", lines[n])]
            if one < len(heads):
                at, end = heads[one], heads[one + 1] if one + 1 < len(heads) else end
        else:
            at = next((n for n in range(at, end) if _names(lines[n], one)), at)
    return at + 1


def _header(loc: Sequence[str | int]) -> str:
    return r"\s*\.\s*".join(re.escape(one) for one in loc if isinstance(one, str))


def _names(line: str, word: str) -> bool:
    """Whether a line has a word by itself, as a key or quoted; a text counts with its quotes escaped, too."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return any(re.search(rf"(?<![\w-]){re.escape(one)}(?![\w-])", line) for one in (word, escaped))
