"""What keeps a model honest and short: success needs evidence, and the same call is not made for ever."""

from typing import Any

import pytest

from orchestrator.core.errors import ModelFailed
from orchestrator.core.ports import ModelReply
from orchestrator.core.task import facts
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.task import AgentTask
from tests.engine.test_actor import ALICE, FARM, Bench, rules
from tests.harness.support import WRITE, Listening, call, final, says

RUN = call("cc_run_program", path="a.lua")
READ = call("cc_read", path="a.lua")
MISSING = call("cc_read", path="quarry.lua")


async def played(*script: Any, prompt: str = "", **more: Any) -> tuple[Bench, AgentTask]:
    """A task from its prompt to its end, with everything allowed."""
    bench = Bench(Listening(*script), policy=rules())
    if prompt:
        await bench.service.submit(prompt, user=ALICE, computers=[FARM], model="m", **more)
    else:
        await bench.submit(**more)
    return bench, await bench.act()


def verdict(task: AgentTask) -> tuple[str, str, bool | None]:
    assert task.ended is not None
    return task.ended.status, task.ended.status_reason, task.ended.verified


async def test_an_empty_success_is_refused_once_and_then_recorded_as_unverified() -> None:
    """The model hears what is missing; said again it is kept, and is no success for anybody."""
    bench, task = await played(final("all done"), final("really done"))
    assert verdict(task) == ("Completed", "unverified", False)
    (refused,) = await bench.happened(task.task_id, "reply_refused")
    assert refused.because == "unproven"
    assert refused.reason.startswith("You say success, but nothing was changed or run.")
    assert isinstance(bench.model, Listening)
    assert bench.model.told == refused.reason
    assert task.ended is not None
    assert task.ended.message == "really done"
    assert task.refusals == 0


async def test_a_success_that_was_refused_is_one_once_the_work_is_done() -> None:
    _, task = await played(final("all done"), says(WRITE), final("now it is"))
    assert verdict(task) == ("Completed", "final", True)


@pytest.mark.parametrize("script", [(says(WRITE),), (says(RUN),), (says(READ), says(WRITE), says(RUN))])
async def test_a_change_or_run_that_succeeded_is_evidence(script: tuple[Any, ...]) -> None:
    _, task = await played(*script, final())
    assert verdict(task) == ("Completed", "final", True)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ((says(READ),), "nothing was changed or run"),
        ((says(WRITE), says(MISSING)), "this failed and nothing made up for it: cc_read:"),
        ((says(MISSING),), "this failed and nothing made up for it: cc_read:"),
        ((says(WRITE), says(call("cc_delete", path="b.lua"))), "the last change or run failed: cc_delete:"),
        ((says(call("cc_format", disk="/")),), "nothing was changed or run"),
    ],
    ids=["only looked", "a look failed last", "only a look that failed", "a change failed last", "no such tool"],
)
async def test_without_evidence_there_is_no_success(script: tuple[Any, ...], why: str) -> None:
    bench, task = await played(*script, final())
    assert verdict(task) == ("Completed", "unverified", False)
    (refused,) = await bench.happened(task.task_id, "reply_refused")
    assert why in refused.reason


async def test_a_question_is_answered_by_looking() -> None:
    """And not by looking at what is not there."""
    question = "Why does a.lua crash?"
    assert verdict((await played(says(READ), final(), prompt=question))[1]) == ("Completed", "final", True)
    assert verdict((await played(says(MISSING), final(), prompt=question))[1]) == ("Completed", "unverified", False)
    assert verdict((await played(final(), prompt=question))[1]) == ("Completed", "unverified", False)


async def test_a_task_that_may_only_look_needs_no_change_and_cannot_make_one() -> None:
    """A look is enough, unless it asked for work that was denied and says that all is done."""
    _, task = await played(says(READ), final(), read_only=True)
    assert verdict(task) == ("Completed", "final", True)
    bench, task = await played(says(WRITE), says(READ), final(), final(), read_only=True)
    assert verdict(task) == ("Completed", "unverified", False)
    assert bench.disk.files == {"a.lua": b"old\n"}


async def test_a_failure_is_taken_at_its_word() -> None:
    _, task = await played(final("cannot", success=False))
    assert verdict(task) == ("Failed", "final", None)


async def test_at_the_last_step_an_empty_success_is_kept_as_unverified() -> None:
    """There is no step left in which to do better, and what it says is not lost."""
    _, task = await played(final("all done"), max_steps=1)
    assert verdict(task) == ("Completed", "unverified", False)


async def test_a_refused_success_is_kept_when_the_model_cannot_be_asked_again() -> None:
    _, task = await played(final("all done"), ModelFailed("It is gone.", lasting=True))
    assert verdict(task) == ("Completed", "unverified", False)
    assert task.ended is not None
    assert task.ended.message == "all done"


async def test_the_same_call_again_is_told_at_the_third_time_and_ends_the_task_at_the_sixth() -> None:
    """The sixth is not made."""
    bench, task = await played(*[says(READ)] * 9)
    assert task.ended is not None
    assert verdict(task) == ("Failed", "repeats", None)
    assert "asked for the same call of cc_read 6 times" in task.ended.message
    assert len(await bench.happened(task.task_id, "tool_finished")) == 5
    assert isinstance(bench.model, Listening)
    told = [asked[-1].content for asked in bench.model.asked]
    assert ["this very call" in one for one in told] == [False, False, False, True, True, True]


def writes(content: str) -> Any:
    return says(call("cc_write", path="a.lua", content=content))


@pytest.mark.parametrize(
    ("script", "steps", "why"),
    [
        ([writes("-- a\n"), writes("-- b\n")] * 9, 5, "3 times in a row, what it had changed was again as it had been"),
        ([says(call("cc_write", path="t", content="x")), says(call("cc_delete", path="t"))] * 9, 4, "3 times in a row"),
        ([says(call("send_status", message=f"Still at {number}.")) for number in range(9)], 6, "only sent messages"),
        ([says(call("cc_read", path=f"f{number}")) for number in range(12)], 8, "8 calls in a row failed"),
        (
            [says(call("cc_find", contains="q" * number)) for number in range(1, 12)],
            6,
            "6 calls of cc_find",
        ),
    ],
    ids=["two versions", "there and back", "messages", "failures", "growth"],
)
async def test_a_task_that_goes_round_is_warned_and_then_ended(script: list[Any], steps: int, why: str) -> None:
    """The end says how it went round; a step before it the model was told."""
    bench, task = await played(*script, max_steps=0)
    assert task.ended is not None
    assert verdict(task) == ("Failed", "repeats", None)
    assert why in task.ended.message
    assert task.steps == steps
    assert isinstance(bench.model, Listening)
    assert "the task ends. Try another way" in bench.model.told


async def test_a_look_whose_answer_changes_may_be_taken_as_often_as_it_takes() -> None:
    """Between the looks something works on: they are no repetition of one look."""

    class Meanwhile(Listening):
        async def reply(self, *args: Any, **more: Any) -> ModelReply:
            bench.disk.files["a.lua"] = f"{len(self.asked)} of 11\n".encode()
            return await super().reply(*args, **more)

    bench = Bench(Meanwhile(*[says(READ)] * 12, final("It is there."), final("It is.")), policy=rules())
    await bench.submit(max_steps=0)
    task = await bench.act()
    assert task.status is TaskStatus.COMPLETED
    assert task.steps > 12


async def test_a_program_is_run_again_after_each_change_as_often_as_it_takes() -> None:
    script = [
        one
        for number in range(8)
        for one in (says(call("cc_write", path="a.lua", content=f"return {number}\n")), says(RUN))
    ]
    _, task = await played(*script, final(), max_steps=0)
    assert task.status is TaskStatus.COMPLETED
    assert verdict(task) == ("Completed", "final", True)


async def test_three_replies_in_a_row_that_cannot_be_read_end_the_task() -> None:
    """A success that was refused is readable: it breaks the row."""
    bench, task = await played("no", "no", final(), "no", "no", "no")
    assert verdict(task) == ("Failed", "model_output", None)
    assert [one.because for one in await bench.happened(task.task_id, "reply_refused")] == [
        *["unreadable"] * 2,
        "unproven",
        *["unreadable"] * 3,
    ]
    assert isinstance((await bench.happened(task.task_id, "limit_reached"))[0], facts.LimitReached)
