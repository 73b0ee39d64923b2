"""What all other parts stand on: the store and the bus, open, the tasks over both, and the policy in force."""

import asyncio
import contextlib
import logging
import os
import platform
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from orchestrator.adapters.bus import InstallationBus, installation_of, open_bus
from orchestrator.adapters.store import open_store
from orchestrator.app.first_start import started
from orchestrator.app.observability import Watching
from orchestrator.computers.nodes import new_node_id
from orchestrator.core.errors import BusAway
from orchestrator.core.policy import PolicyContext
from orchestrator.core.ports import Bus, Clock, Identity, Store
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.active_policy import NodePolicy
from orchestrator.engine.tasks import TaskService
from orchestrator.history.audit import Checkpoints
from orchestrator.history.policy_store import PolicyKeeper, first_file
from orchestrator.runtime.clock import SystemClock
from orchestrator.runtime.prompts import in_force
from orchestrator.runtime.settings import Settings
from orchestrator.web.auth import TokenAuthorizer

logger = logging.getLogger(__name__)

_BUS_WITHIN_S: Final = 10.0
"""How long a start waits for the bus's server: as long as for that of the store."""
_BUS_AGAIN_S: Final = 1.0


@dataclass(frozen=True)
class Foundation:
    """What stands while anything else does."""

    settings: Settings
    node: str
    """The id of this node for this start."""
    watching: Watching
    authorizer: TokenAuthorizer
    guests: dict[str, Identity]
    """By the hash of its token: each copy of a rehearsal that may come in."""
    active_policy: NodePolicy
    service: TaskService
    policy: PolicyKeeper

    @property
    def store(self) -> Store:
        """The store, as it is watched."""
        return self.service.store


@contextlib.asynccontextmanager
async def open_ground(
    settings: Settings,
    *,
    clock: Clock | None,
    wrap_store: Callable[[Store], Store],
    wrap_bus: Callable[[Bus], Bus],
    context: Callable[[ComputerId | None], PolicyContext],
) -> AsyncIterator[Foundation]:
    """The ground of one start, its policy in force and the start recorded; closed after the block, however that ends.

    ``context``: what is known of a computer; it is asked from the first verdict on, not before.
    Raises BusAway, PolicyInvalid, InvalidRequest, and what opening a store raises.
    """
    node, watching = new_node_id(name_of(settings)), Watching()
    file = first_file(settings.policy_path, shared=not settings.embedded)
    async with contextlib.AsyncExitStack() as closing:
        store = watching.over(wrap_store(open_store(settings.store_url, clock=clock or SystemClock())), os.environ)
        closing.push_async_callback(store.close)
        line = wrap_bus(open_bus(settings.bus, node=node))
        closing.push_async_callback(line.close)
        guests: dict[str, Identity] = {}
        authorizer = TokenAuthorizer(store, settings.approvers, guests)
        # The keeper of the policy records with the service, and the service judges by the policy.
        active_policy = NodePolicy(lambda: policy.usable(), context, lambda: policy.custom)  # noqa: PLW0108 - see above
        service = TaskService(
            store=store,
            bus=await _reached(line, settings, store),
            clock=store.clock,
            authorizer=authorizer,
            observer=watching.observe,
            active_policy=active_policy,
            prompt=in_force(settings.data_dir),
            node=node,
            model_wait_s=settings.model_wait_s,
        )
        policy = PolicyKeeper(service, settings.policy_path, file, Checkpoints(settings.data_dir))
        await policy.begin()
        await service.record(started(settings, policy.policy, node))
        yield Foundation(settings, node, watching, authorizer, guests, active_policy, service, policy)


def name_of(settings: Settings) -> str:
    """What people call this node."""
    return settings.node or platform.node()


async def _reached(line: Bus, settings: Settings, store: Store) -> Bus:
    """This store's part of the bus, open; one whose server just starts again is waited for. Raises BusAway."""
    alone = settings.bus == "local:"
    bus = line if alone else InstallationBus(line, await installation_of(store), node=name_of(settings))
    loop = asyncio.get_running_loop()
    until = loop.time() + _BUS_WITHIN_S
    while True:
        try:
            await bus.open()
        except BusAway as away:
            if loop.time() > until:
                raise
            logger.warning("%s It is tried again.", away.message)
            await asyncio.sleep(_BUS_AGAIN_S)
        else:
            return bus
