"""Tasks of a user's own: how they are read, what is told of a mistake, and how their checks look at a computer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import InvalidRequest, NotFound
from orchestrator.core.evidence.user_checks import read_check
from orchestrator.terminal.evaluation import tasks_in
from orchestrator.terminal.evaluation.cases import Machine, Seen, Tried
from orchestrator.terminal.evaluation.checks import UserCheck, wrong
from tests import ROOT
from tests.harness.support import call, final, says
from tests.terminal.evaluation.test_scoring import WRITE, journal
from tests.terminal.evaluation.test_set import before, claims

WHOLE = """\
# My own tasks.
[[tasks]]
name = "farm-fix"
prompt = "farm.lua crashes. Fix it and run it."
checks = [
  "runs farm.lua",
  "prints done",
  'file farm.lua contains print',
  "unchanged belt.cfg",
]
answer = ["prnt"]
steps = 4
max_steps = 10

[tasks.files]
"farm.lua" = "prnt('done')\\n"
"lib/belt.cfg" = { file = "belt.cfg" }

[[tasks]]
name = "two"
prompt = "Copy radio.cfg from base to barn."
checks = ["@barn file radio.cfg exists"]

[[tasks.computers]]
name = "base"
files = { "radio.cfg" = "channel = 42\\n" }

[[tasks.computers]]
name = "barn"
family = "turtle"
world = { turtle = { fuel = 10 } }

[[tasks]]
name = "cannot"
prompt = "Fix reactor.lua."
possible = false
"""


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(WHOLE, "utf-8")
    (tmp_path / "belt.cfg").write_bytes(b"speed = \xff\n")
    farm, two, cannot = tasks_in(tmp_path / "mine.toml")
    assert (farm.name, farm.steps, farm.max_steps, len(farm.checks)) == ("farm-fix", 4, 10, 5)
    assert farm.machines == (Machine("farm-fix", {"farm.lua": b"prnt('done')\n", "lib/belt.cfg": b"speed = \xff\n"}),)
    assert [(one.name, one.family) for one in two.machines] == [("base", "advanced"), ("barn", "turtle")]
    assert (cannot.possible, cannot.checks, cannot.steps) == (False, (), 0)
    assert tasks_in(tmp_path) == (farm, two, cannot)


def test_the_example_of_the_page_is_read(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "eval.md").read_text("utf-8")
    (tmp_path / "mine.toml").write_text(page.partition("```toml\n")[2].partition("```")[0], "utf-8")
    (tmp_path / "map.nfp").write_bytes(b"")
    assert [one.name for one in tasks_in(tmp_path)] == ["farm-fix", "copy-radio"]


def broken(old: str, new: str) -> str:
    """The whole file with one mistake."""
    assert WHOLE.count(old) >= 1
    return WHOLE.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        (broken("steps = 4", "steps = = 4"), 12, "Invalid value"),
        (broken("steps = 4", "step = 4"), 12, "tasks 1, step: there is no such key"),
        (broken("max_steps = 10", "max_steps = 0"), 13, "tasks 1, max_steps: Input should be greater"),
        (broken('prompt = "Copy radio.cfg from base to barn."', ""), 19, "tasks 2, prompt: it is missing"),
        (broken('name = "farm-fix"', 'name = "farm fix"'), 3, "name: use letters, digits and the signs"),
        (broken('"unchanged belt.cfg"', '"unchange belt.cfg"'), 9, "'unchange' is not a kind of check"),
        (broken("'file farm.lua contains print'", "'file farm.lua has \"print\"'"), 8, "cannot be read"),
        (broken('"@barn file', '"file'), 22, "does not say on which of the task's 2 computers"),
        (broken('name = "two"', 'name = "farm-fix"'), 20, "there are two tasks 'farm-fix'"),
        (broken('name = "base"', 'name = "farm-fix"'), 25, "the task 'farm-fix' has a computer 'farm-fix', too"),
        (broken('family = "turtle"', 'family = "rabbit"'), 30, "tasks 2, computers 2, family: Input should be"),
        (broken('name = "two"', 'name = "two"\nworld = {}'), 21, "world belongs to a computer"),
        (broken("possible = false", ""), 33, "nothing is checked after the task 'cannot'"),
        (broken('"lib/belt.cfg"', '"../belt.cfg"'), 17, "belt.cfg"),
        (broken('"lib/belt.cfg"', '".cc-orchestrator/x"'), 17, "cannot be a file of the computer"),
        (broken('file = "belt.cfg"', 'file = "none.cfg"'), 17, "none.cfg cannot be read: No such file"),
        (broken('"lib/belt.cfg"', '"farm.lua/belt.cfg"'), 2, "'farm.lua/belt.cfg' is in a directory of which there is"),
        (broken('name = "base"', 'name = "barn"'), 19, "the task 'two' has two computers 'barn'"),
        (broken('prompt = "Copy radio.cfg from base to barn."', 'prompt = " "'), 21, "tasks 2, prompt: it is empty"),
        ("tasks = []\n", 1, "there is no task in it"),
        ("[[task]]\n", 1, "there is no task in it"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) and "\n" not in value else "",
)
def test_a_mistake_is_told_with_its_line_and_what_to_type(text: str, line: int, told: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, "utf-8")
    (tmp_path / "belt.cfg").write_bytes(b"")
    with pytest.raises(InvalidRequest) as caught:
        tasks_in(path)
    assert caught.value.message.startswith(f"{path}, line {line}: "), caught.value.message
    assert told in caught.value.message
    assert caught.value.remedy


def test_what_is_no_file_of_tasks_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"There is no .*none"):
        tasks_in(tmp_path / "none")
    with pytest.raises(InvalidRequest, match=r"no \.toml file"):
        tasks_in(tmp_path)
    (tmp_path / "a.toml").write_bytes(b"\xff")
    with pytest.raises(InvalidRequest, match="is not UTF-8"):
        tasks_in(tmp_path)
    (tmp_path / "b.toml").mkdir()
    (tmp_path / "a.toml").write_text(WHOLE.partition("[tasks.files]")[0], "utf-8")
    with pytest.raises(InvalidRequest, match=r"b\.toml cannot be read: Is a directory"):
        tasks_in(tmp_path)


# -- the checks --------------------------------------------------------------------------


@dataclass
class Ends:
    """A computer whose programs print and end as is laid out for them."""

    machine: Machine
    disk: Path
    tries: Mapping[str, Tried]

    def read(self, path: str) -> bytes | None:
        file = self.disk / path
        return file.read_bytes() if file.is_file() else None

    def do(self, command: str) -> Any:
        raise AssertionError(command)

    def run(self, program: str, args: Sequence[str] = (), typed: Sequence[str] = ()) -> str:
        return self.tried(program, args, typed).printed

    def tried(self, program: str, args: Sequence[str] = (), typed: Sequence[str] = ()) -> Tried:
        del typed
        return self.tries[" ".join((program, *args))]


BEFORE = Machine("3", {"a.lua": b"old", "data/x": b"1", "data/y": b"2"})
TRIES = {"a.lua 7": Tried("7 bales\n", True), "b.lua": Tried("one\nb.lua:1: broken\n", False)}


def found(disk: Path, *lines: str, at: int = -1, items: Sequence[Any] = ()) -> str:
    """What the last of these checks says, or another."""
    for path, content in {"a.lua": b"print('gr\xfcn')", "data/x": b"1", "data/y": b"2"}.items():
        (disk / path).parent.mkdir(exist_ok=True)
        (disk / path).write_bytes(content)
    every = tuple(map(read_check, lines))
    return UserCheck(every[at], every)(Seen({"3": Ends(BEFORE, disk, TRIES)}, items, claims()))


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["runs a.lua 7"], ""),
        (["runs b.lua"], "b.lua ends with an error: 'b.lua:1: broken'"),
        (["runs a.lua 7", "prints 7 bales"], ""),
        (["runs b.lua", "runs a.lua 7", "prints one"], "'one' was not printed, but '7 bales\\n'"),
        (["prints one"], "No program ran well that could have printed 'one'."),
        (["file a.lua contains grün"], ""),
        (["file a.lua contains blue"], "a.lua does not have 'blue'."),
        (["file a.lua exists"], ""),
        (["file c.lua exists"], "There is no c.lua."),
        (["unchanged a.lua"], "a.lua is not what it was."),
        (["unchanged data"], ""),
        (["unchanged none.lua"], ""),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_each_kind_of_check_looks_at_the_computer(lines: list[str], told: str, tmp_path: Path) -> None:
    assert found(tmp_path, *lines) == told


def test_what_is_printed_is_the_output_of_the_run_beside_it(tmp_path: Path) -> None:
    """The one before the line; where there is none, the last, as with a check of a task."""
    assert found(tmp_path, "prints bales", "runs b.lua", "runs a.lua 7", at=0) == ""
    assert found(tmp_path, "prints one", "runs b.lua", "runs a.lua 7", at=0) != ""


async def test_without_a_run_among_the_checks_the_output_is_the_models(tmp_path: Path) -> None:
    items = await journal(says(WRITE), says(call("cc_run_program", path="a.lua")), final())
    assert found(tmp_path, "prints Hello, world!", items=items) == ""
    assert "was not printed" in found(tmp_path, "prints Goodbye", items=items)


def test_a_task_of_ones_own_is_judged_by_its_checks(tmp_path: Path) -> None:
    """Other files may change, as only a check forbids it."""
    (tmp_path / "mine.toml").write_text(
        '[[tasks]]\nname = "t"\nprompt = "p"\nchecks = ["file a.txt contains 8", "unchanged b.txt"]\n'
        'files = { "a.txt" = "4", "b.txt" = "b" }\n'
    )
    (task,) = tasks_in(tmp_path)
    computers = before(task, tmp_path)
    assert wrong(task, Seen(computers, (), claims())) == ["a.txt does not have '8'."]
    (computers["t"].disk / "a.txt").write_text("8")
    (computers["t"].disk / "c.txt").write_text("new")
    assert wrong(task, Seen(computers, (), claims())) == []
    (computers["t"].disk / "b.txt").unlink()
    assert wrong(task, Seen(computers, (), claims())) == ["b.txt is not what it was."]
