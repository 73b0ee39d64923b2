"""The set itself: its tasks are sound, and what must hold does not hold before anything is done."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import NotFound
from orchestrator.core.evidence.questions import asks_only
from orchestrator.core.reply.response import FinalResult, read_reply
from orchestrator.core.task import facts
from orchestrator.terminal.evaluation import TASKS, EvalTask, tasks_named
from orchestrator.terminal.evaluation.cases import Machine, Seen, Tried
from orchestrator.terminal.evaluation.checks import files_of, wrong
from tests import ROOT
from tests.harness.personas import HOPELESS, MENDED

IDS = [task.name for task in TASKS]


@dataclass
class Untouched:
    """A computer on which nobody has done anything, and where nothing prints anything."""

    machine: Machine
    disk: Path

    def read(self, path: str) -> bytes | None:
        file = self.disk / path
        return file.read_bytes() if file.is_file() else None

    def do(self, command: str) -> Any:
        return dict(self.machine.world.get("turtle", {})) if command == "get turtle" else "minecraft:stone"

    def run(self, program: str, args: Sequence[str] = (), typed: Sequence[str] = ()) -> str:
        return self.tried(program, args, typed).printed

    def tried(self, program: str, args: Sequence[str] = (), typed: Sequence[str] = ()) -> Tried:
        del program, args, typed
        return Tried("", well=True)


def before(task: EvalTask, home: Path) -> dict[str, Untouched]:
    """The computers of a task as they are made."""
    computers = {}
    for machine in task.machines:
        disk = home / machine.name
        disk.mkdir()
        for path, content in machine.files.items():
            (disk / path).parent.mkdir(parents=True, exist_ok=True)
            (disk / path).write_bytes(content)
        computers[machine.name] = Untouched(machine, disk)
    return computers


def claims(*, success: bool = True) -> facts.TaskEnded:
    """The end that says that all is done, and nothing else."""
    return facts.TaskEnded(
        status="Completed" if success else "Failed",
        status_reason="final",
        message="Done.",
        verified=True if success else None,
    )


def test_there_are_enough_tasks_and_each_has_its_own_names() -> None:
    """A computer's name comes once: all of them are on one server, one task after the other."""
    machines = [machine.name for task in TASKS for machine in task.machines]
    assert len(TASKS) >= 20
    assert len(set(IDS)) == len(IDS)
    assert len(set(machines)) == len(machines)
    assert sum(len(task.machines) > 1 for task in TASKS) >= 1


@pytest.mark.parametrize("task", TASKS, ids=IDS)
def test_the_perfect_replies_can_be_read_and_end_as_they_should(task: EvalTask) -> None:
    *calls, end = [read_reply(json.dumps(one)) for one in task.optimal]
    assert isinstance(end, FinalResult)
    assert end.success is task.possible
    assert not any(isinstance(one, FinalResult) for one in calls)
    assert task.steps <= task.max_steps


@pytest.mark.parametrize("task", TASKS, ids=IDS)
def test_the_guards_take_it_for_what_it_is(task: EvalTask) -> None:
    """A question is told from work by its words, so that looking is enough evidence for the one only."""
    assert asks_only(task.prompt) is (task.question or task.read_only)


@pytest.mark.parametrize("task", TASKS, ids=IDS)
def test_a_claim_alone_passes_nothing(task: EvalTask, tmp_path: Path) -> None:
    """Nothing was done, and the model says that it is done: each task's own checks deny it."""
    seen = Seen(before(task, tmp_path), (), claims())
    assert wrong(task, seen)


@pytest.mark.parametrize("task", [task for task in TASKS if task.possible], ids=lambda task: task.name)
def test_no_check_is_passed_by_giving_up(task: EvalTask, tmp_path: Path) -> None:
    assert any("It ended Failed" in one for one in wrong(task, Seen(before(task, tmp_path), (), claims(success=False))))


def test_what_cannot_be_done_is_done_by_saying_so(tmp_path: Path) -> None:
    (task,) = tasks_named(["cannot"])
    computers = before(task, tmp_path)
    assert wrong(task, Seen(computers, (), claims(success=False))) == []
    (tmp_path / "cannot" / "reactor.lua").write_text("-- as if")
    told = wrong(task, Seen(computers, (), claims(success=False)))
    assert told == ["reactor.lua is new, and the task did not ask for that."]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda disk: (disk / "backup1.lua").unlink(), "backup1.lua is gone"),
        (lambda disk: (disk / "backup3.lua").write_text("x"), "backup3.lua was changed"),
        (lambda disk: (disk / "notes.txt").write_text("x"), "notes.txt is new"),
    ],
    ids=["gone", "changed", "new"],
)
def test_what_the_task_did_not_ask_for_is_noticed(change: Any, told: str, tmp_path: Path) -> None:
    """The right file is deleted, and something else besides."""
    (task,) = tasks_named(["delete-one"])
    computers = before(task, tmp_path)
    disk = computers["delete-one"].disk
    (disk / "backup2.lua").unlink()
    assert wrong(task, Seen(computers, (), claims())) == []
    change(disk)
    assert wrong(task, Seen(computers, (), claims())) == [f"{told}, and the task did not ask for that."]


def test_what_the_client_keeps_is_no_file_of_the_player(tmp_path: Path) -> None:
    (tmp_path / ".cc-orchestrator").mkdir()
    (tmp_path / ".cc-orchestrator" / "connection").write_text("secret")
    (tmp_path / "a.lua").write_text("x")
    assert files_of(tmp_path) == {"a.lua": b"x"}


def test_a_name_that_is_no_task_is_refused_with_those_that_are() -> None:
    with pytest.raises(NotFound, match="quarry-question"):
        tasks_named(["quary"])


def test_every_behaviour_has_its_own_name() -> None:
    assert len({*MENDED, *HOPELESS}) == len(MENDED) + len(HOPELESS) == 12


def test_the_page_has_the_numbers_of_the_set() -> None:
    page = (ROOT / "docs" / "eval.md").read_text("utf-8")
    assert f"plays {len(TASKS)} tasks" in page
    assert f"passed of {len(TASKS)} | steps ({sum(task.steps for task in TASKS)} are enough)" in page
