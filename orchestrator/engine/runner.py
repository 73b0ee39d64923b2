"""One task at work: ``process_task`` acts for a leased task until it waits or is over.

:mod:`orchestrator.engine.workers` does so for each due task of a node.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from orchestrator.core.errors import Conflict, OrchestratorError, StoreAway
from orchestrator.core.ports import ChatModel, Lease, Store
from orchestrator.core.task.task import AgentTask
from orchestrator.engine.actor import Leaving, TaskActor
from orchestrator.engine.tasks import TaskService, patiently
from orchestrator.tools.environment import World

LEASE_S = 30.0
"""How long a dead actor's task waits for another, where nobody sets it; renewed three times in it."""
_PATIENCE_LEASES = 2.0
"""Lease times that an actor asks a store again that is away: it may well be nobody else's until then."""
GIVE_BACK_S = 2.0
"""What giving a lease back may take: if it takes longer, the lease ends by itself."""


async def process_task(
    lease: Lease,
    *,
    service: TaskService,
    world: World,
    model_for: Callable[[AgentTask], ChatModel],
    leaving: Leaving | None = None,
    lease_s: float = LEASE_S,
) -> AgentTask:
    """Act for a leased task until it waits, is over or, when the node is left, handed over.

    Raises LeaseLost when another actor has it. A node that does not reach the store does not stop what it is at:
    nothing new begins without the store, what is under way is known to nobody else, and whoever took the lease
    meanwhile is told of by the first answer.
    """
    task = await service.load(lease.task_id)
    leaving = leaving or Leaving()
    patience_s = _PATIENCE_LEASES * lease_s
    actor = TaskActor(
        lease=lease,
        service=service,
        world=world,
        model=model_for(task),
        task=task,
        leaving=leaving,
        patience_s=patience_s,
    )
    renewing = asyncio.create_task(_renew(service.store, lease, lease_s, patience_s))
    acting = asyncio.create_task(actor.run())
    try:
        with leaving.letting_go(acting.cancel):
            await asyncio.wait((renewing, acting), return_when=asyncio.FIRST_COMPLETED)
        if renewing.done() and not acting.done():
            await renewing
        if acting.cancelled():
            if leaving.over:
                return await give_back(service, lease)
            # Nobody canceled this wait: passed on as it is, it would end the worker.
            raise OrchestratorError("What the task was at was canceled from within.")
        return await acting
    finally:
        for part in (renewing, acting):
            part.cancel()
        await asyncio.gather(renewing, acting, return_exceptions=True)


async def give_back(service: TaskService, lease: Lease, pause_s: float = 0.0) -> AgentTask:
    """The task as it stands, its lease given back and due again after a pause. Raises LeaseLost, StoreAway.

    An append that is still on its way is fenced by it, or is seen by the next look.
    """
    try:
        async with asyncio.timeout(GIVE_BACK_S):
            while True:
                task = await service.load(lease.task_id)
                try:
                    await service.store.park(lease, task.version, due=service.clock.now() + timedelta(seconds=pause_s))
                except Conflict:
                    continue
                service.falls_due(task.task_id)
                return task
    except TimeoutError:
        raise StoreAway(f"The lease on task {lease.task_id} could not be given back; it ends by itself.") from None


async def _renew(store: Store, lease: Lease, lease_s: float, patience_s: float) -> None:
    """Hold on to the lease; ends only by raising LeaseLost, or why the store was away for all of the patience."""
    while True:
        await asyncio.sleep(lease_s / 3)
        await patiently(lambda: store.renew(lease, lease_s), for_s=patience_s)
