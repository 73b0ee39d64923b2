"""A move of computers from one cell to another: the two stores, opened beside the nodes that work on them."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple

from orchestrator.adapters.store import open_store
from orchestrator.core.errors import Conflict
from orchestrator.core.ports import Store
from orchestrator.core.task.facts import TaskId
from orchestrator.core.wire.cells import MOVED
from orchestrator.core.wire.wire import ComputerId
from orchestrator.runtime.cells import CellRow
from orchestrator.runtime.clock import SystemClock


class Moved(NamedTuple):
    """What a move did."""

    computers: tuple[ComputerId, ...]
    tasks: tuple[TaskId, ...]
    """The tasks that went along."""
    staying: tuple[TaskId, ...]
    """Ended tasks that stay, because they are of other computers as well."""
    before: bool = False
    """Whether an earlier move had brought all of them there, so that this one did nothing."""


async def move(here: CellRow, there: CellRow, names: Sequence[str]) -> Moved:
    """Move computers, whole or not at all; a move that was interrupted goes on where it was.

    Raises what the stores' ``Moves`` raise, and StoreBusy where a server has a store for itself.
    """
    async with AsyncExitStack() as stack:
        stores = []
        # The other store first: what keeps it from being used shows before anything leaves this one.
        for row in (there, here):
            stores.append(open_store(row.store, clock=SystemClock()))
            stack.push_async_callback(stores[-1].close)
        target, source = stores
        wanted = [ComputerId(name) for name in names]
        taken = {one.name for one in await target.list_tokens() if one.kind == "computer" and not one.revoked}
        there_already = [name for name in wanted if name in taken]
        if others := [name for name in there_already if not await _is_there(source, name, there.name)]:
            raise Conflict(
                f"There is a computer {others[0]} in the cell {there.name} already.",
                remedy="Revoke that one there, or pair it under another name.",
            )
        if there_already == wanted:
            return Moved(tuple(wanted), (), (), before=True)
        departed = await source.depart_computers(wanted, there.name, there.place.url)
        bundle = await source.get_blob(departed.bundle)
        came = await target.arrive_computers(bundle, here.name)
        await source.forget_departure(departed.bundle)
    return Moved(departed.computers, tuple(TaskId(one) for one in came.tasks), departed.staying)


async def _is_there(source: Store, name: ComputerId, cell: str) -> bool:
    """Whether a computer left for this cell before."""
    frozen = (await source.computer(name)).frozen
    return frozen is not None and (frozen.reason, frozen.cell) == (MOVED, cell)
