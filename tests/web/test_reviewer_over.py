"""What a reviewer is told as they come of tasks that were over by then and had left something changed."""

from collections.abc import Sequence

from orchestrator.core.task.facts import TaskId
from orchestrator.core.undo.wanted import Restoration
from orchestrator.engine.undo import Undoing
from orchestrator.web.reviewer import MAX_TOLD, TOLD_FOR, left_lately
from tests.engine.test_actor import ALICE, FARM, Bench, rules
from tests.harness.support import Disk, FakeComputers, Listening, call, final, says

READ = call("cc_read", path="a.txt")
CANNOT = final("it does not run", success=False)


def bench(*contents: str) -> Bench:
    """For one failing task of each content, which it writes; empty: it only reads."""
    script = [
        one
        for content in contents
        for one in (says(call("cc_write", path="a.txt", content=content) if content else READ), CANNOT)
    ]
    return Bench(Listening(*script), policy=rules(), computers=FakeComputers({FARM: Disk({"a.txt": b"old\n"})}))


async def failed(at: Bench) -> TaskId:
    task_id = await at.submit()
    while (await at.act()).ended is None:
        pass
    at.clock.advance(1)
    return task_id


async def told(at: Bench, *, mine: Sequence[TaskId] | None = None) -> list[str]:
    undoing = Undoing(at.service, at.world)
    lately = await left_lately(undoing, lambda task: mine is None or task.task_id in mine)
    return [one["task_id"] for one in lately]


async def test_the_newest_first_and_only_so_many() -> None:
    at = bench(*(f"{number}\n" for number in range(MAX_TOLD + 2)))
    tasks = [await failed(at) for _ in range(MAX_TOLD + 2)]
    assert await told(at) == tasks[:1:-1]
    assert await told(at, mine=tasks[:1]) == tasks[:1]


async def test_what_changed_nothing_is_taken_back_or_long_over_is_not_told() -> None:
    at = bench("", "new\n", "newer\n")
    await failed(at)
    undone, left = await failed(at), await failed(at)
    assert await told(at) == [left, undone]
    await Undoing(at.service, at.world).submit(Restoration(task_id=undone), ALICE)
    assert await told(at) == [left]
    at.clock.advance(TOLD_FOR.total_seconds() - 60)
    assert await told(at) == [left]
    at.clock.advance(60)
    assert await told(at) == []
