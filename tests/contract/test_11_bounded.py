"""No effect is tried for ever: whatever fails in it, the task ends with a reason, or a person is asked."""

import errno
from collections.abc import Callable
from typing import Any, get_args

import pytest

from orchestrator import workers
from orchestrator.actor import TaskActor
from orchestrator.core import effects as todo
from orchestrator.core.errors import InvalidRequest, ToolFailed, UnsafePath
from orchestrator.core.wire import RunId
from tests.contract.house import CHANGING, LOOKING, WRITE, House, Playing, call, final, policy, says

FAULTS: dict[str, Callable[[], Exception]] = {
    "defect": lambda: KeyError("nothing of the kind"),
    "full": lambda: OSError(errno.ENOSPC, "No space left on device"),
    "link": lambda: UnsafePath("'notes/a' goes through the symbolic link 'notes', and links are not followed."),
    "invalid": lambda: InvalidRequest("That is no path."),
    "failed": lambda: ToolFailed("The tool broke."),
}
WAITS = {todo.AwaitReview, todo.AwaitAnswer, todo.AwaitRuns, todo.Rest}
READ = call("cc_read", path="a.lua")
STEPS: dict[type, dict[str, Any]] = {
    todo.AskModel: {},
    todo.LookFirst: {"checks": ["unchanged a.lua"]},
    todo.Observe: {"script": WRITE},
    todo.RunTool: {"script": READ},
    todo.Settle: {"script": READ},
}
"""What makes a task perform each effect."""
SAME_PLACE = {todo.PlanRestoration, todo.BeginUndo, todo.EvaluatePolicy}
"""Effects of a task that restores, of one that is over, and of one whose actor was killed: what fails in them takes
the same way through the worker."""


def test_each_effect_has_a_case() -> None:
    assert {*STEPS, *SAME_PLACE, *WAITS} == set(get_args(todo.Effect))


def failing(monkeypatch: pytest.MonkeyPatch, kind: type, fault: Callable[[], Exception]) -> list[todo.Effect]:
    """Let this kind of effect fail each time; what was tried comes here."""
    tried: list[todo.Effect] = []
    does = TaskActor._do

    async def fails(self: TaskActor, effect: todo.Effect) -> Any:
        if kind is todo.Settle and isinstance(effect, todo.RunTool):
            # Its start is recorded, and nobody hears of its end.
            monkeypatch.setattr(self._world, "run", _lost)
        if isinstance(effect, kind):
            tried.append(effect)
            raise fault()
        return await does(self, effect)

    monkeypatch.setattr(TaskActor, "_do", fails)
    monkeypatch.setattr(workers, "_POSTPONED_S", 0.0)
    return tried


async def _lost(*_: Any, **__: Any) -> RunId:
    raise ConnectionError("nobody heard of it")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", STEPS, ids=lambda one: one.__name__)
async def test_what_cannot_be_done_ends_with_a_reason(
    house: House, monkeypatch: pytest.MonkeyPatch, kind: type, fault: str
) -> None:
    """After five times, and not before; the reason says what happened."""
    wanted = STEPS[kind]
    model = Playing(says(wanted["script"]), final()) if "script" in wanted else Playing(final())
    tried = failing(monkeypatch, kind, FAULTS[fault])
    async with house.open(model, policy=policy(LOOKING, CHANGING)) as server:
        task_id = await server.submit(checks=wanted.get("checks", []))
        await server.ended(task_id)
        task = await server.task(task_id)
    assert (task["status"], task["status_reason"]) == ("Failed", "stuck")
    # The run whose end nobody heard of failed first.
    assert len(tried) == workers.MAX_FAILED - (kind is todo.Settle)
    said = FAULTS[fault]()
    words = "met a defect" if fault in ("defect", "full") else said.message  # type: ignore[attr-defined]
    assert words in str(task)
