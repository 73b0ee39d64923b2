"""A process that is a newer version of the program: it writes one kind of fact more, which is made up.

Everything else is this version's. Each task that is submitted to it gets such a fact as its second item, and each
that is pinned there gets one beside that.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, cast

from pydantic import Field, TypeAdapter

from orchestrator.core.ports import Store
from orchestrator.core.task import facts, fold, items
from orchestrator.core.task.items import SYSTEM, AgentTaskItem, Draft
from orchestrator.core.task.system_facts import SystemFact
from orchestrator.core.values import Value, changed


class Dreamt(Value):
    """The kind that only newer versions know."""

    kind: Literal["dreamt"] = "dreamt"
    of: str


def become_newer() -> None:
    """From now on this process knows of dreams."""
    known = fold._evolved
    AgentTaskItem.model_fields["fact"].annotation = cast(
        "Any", Annotated[facts.TaskFact | SystemFact | Dreamt, Field(discriminator="kind")]
    )
    AgentTaskItem.model_rebuild(force=True)
    items._ITEM = TypeAdapter(AgentTaskItem)

    def evolved(task: Any, fact: Any, *more: Any) -> Any:
        return changed(task, version=task.version + 1) if isinstance(fact, Dreamt) else known(task, fact, *more)

    fold._evolved = evolved  # type: ignore[assignment]


class Dreaming:
    """A store whose new tasks begin with a dream."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def create(self, task_id: facts.TaskId, drafts: Sequence[Draft]) -> list[AgentTaskItem]:
        """The port's ``create``, and a dream; and one that belongs to no task."""
        dream = _dream(drafts[0])
        await self._store.record([dream])
        return await self._store.create(task_id, [*drafts, dream])

    async def append(
        self, task_id: facts.TaskId, version: int, drafts: Sequence[Draft], **more: Any
    ) -> list[AgentTaskItem]:
        """The port's ``append``, and a dream where somebody pins the task."""
        beside = [_dream(drafts[0])] if drafts[0].fact.kind == "task_pinned" else []
        return await self._store.append(task_id, version, [*drafts, *beside], **more)


def _dream(beside: Draft) -> Draft:
    return Draft(items.ItemId(f"dream-{beside.item_id}"), beside.at, SYSTEM, cast("Any", Dreamt(of="sheep")))


def newer(store: Store) -> Store:
    """The store of a node of the newer version, which its process is from now on."""
    become_newer()
    return cast("Store", Dreaming(store))
