"""The workers of a node go on, whatever one task of theirs comes to."""

from orchestrator.core.facts import TaskId
from orchestrator.core.task import AgentTask
from orchestrator.core.task_states import TaskStatus
from tests.nodes.two_nodes import SharedStore, houses
from tests.shell.support import Listening, final
from tests.shell.test_actor import ALICE


class Unfoldable(SharedStore):
    """A store with a task whose items this version takes for others than they are."""

    unfoldable: TaskId | None = None

    async def load(self, task_id: TaskId) -> AgentTask | None:
        if task_id == self.unfoldable:
            raise KeyError("a phase that is none")
        return await super().load(task_id)


async def test_a_task_that_cannot_even_be_given_back_costs_no_worker() -> None:
    """What cannot be loaded is left to the end of its lease, and the only worker takes the next task."""
    store = Unfoldable()
    async with houses(store=store) as house:
        service = house.open("alpha", Listening(final("done")), count=1).service
        first = await service.submit("first", user=ALICE, model="m")
        store.unfoldable = first.task_id
        await house.ledger.held_by("alpha", first.task_id)
        second = await service.submit("second", user=ALICE, model="m")
        ended = await house.until(second.task_id, lambda task: task.ended is not None)
        assert ended.status is TaskStatus.COMPLETED
