"""All parts of one running orchestrator, made from its settings and put together."""

import asyncio
import contextlib
import logging
import os
import platform
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from orchestrator.app.about import about, started, version
from orchestrator.app.first_start import admin_token, prepare
from orchestrator.app.models import Models, ollama_options
from orchestrator.audit import Checkpoints
from orchestrator.bus import InstallationBus, installation_of, open_bus
from orchestrator.checkpoints import CheckpointKeeper
from orchestrator.clock import SystemClock, ahead_s
from orchestrator.core.errors import BusAway
from orchestrator.desk import Desk, NewTask
from orchestrator.greeting import JournalGreeter
from orchestrator.hub import Hub
from orchestrator.law import PolicyInForce
from orchestrator.nodes import MeetingElsewhere, Node, Presence, join, new_node_id
from orchestrator.policy_keeping import PolicyKeeper, first_file
from orchestrator.ports import Bus, ChatModel, Clock, Store
from orchestrator.prompts import in_force, shipped
from orchestrator.pruning import Pruner, Rule
from orchestrator.rehearsing import Copying, Rehearsals
from orchestrator.settings import Settings
from orchestrator.store import open_store
from orchestrator.tasks import TaskService
from orchestrator.tools.shared_workspace import RefusedWorkspace, workspace_of
from orchestrator.transfers import Transfers
from orchestrator.undoing import Undoing
from orchestrator.watching import Watching
from orchestrator.web.app import Doors
from orchestrator.web.auth import TokenAuthorizer, check_approvers
from orchestrator.web.base import Defaults
from orchestrator.web.install import client_offered
from orchestrator.workers import Workers
from orchestrator.world import World

logger = logging.getLogger(__name__)

_BUS_WITHIN_S: Final = 10.0
"""How long a start waits for the bus's server: as long as for that of the store."""
_BUS_AGAIN_S: Final = 1.0

ALONE_S = 2.0
"""How long calls on computers are waited for where no other node is there: longer feels as if Ctrl-C did nothing."""


@dataclass
class Orchestrator:
    """The parts of one running orchestrator."""

    settings: Settings
    store: Store
    service: TaskService
    hub: Hub
    node: Node
    """This node as the others see it, and the computers of all."""
    workers: Workers
    doors: Doors
    rehearsals: Rehearsals
    admin_token: str | None
    """Only when this start made it."""

    async def drain(self) -> None:
        """Have load balancers and computers look elsewhere, and the tasks handed over; canceled, let them go at once.

        Alone, nobody goes on before the next start: who stops the server does not wait for a model then, whose reply
        is asked for again, and only shortly for calls, whose outcome is known more surely now than later. With others
        the doors go on answering until the load balancers have seen that they are to send nobody any more.
        """
        self.doors.draining = self.node.presence.draining = True
        self.node.presence.say()
        alone = not self.node.others()
        within_s = min(self.settings.drain_s, ALONE_S) if alone else self.settings.drain_s
        handing_over = self.workers.drain(within_s, cut_models=alone)
        await asyncio.gather(handing_over, asyncio.sleep(0 if alone else self.settings.grace_s))


@contextlib.asynccontextmanager
async def open_orchestrator(
    settings: Settings,
    *,
    clock: Clock | None = None,
    wrap_store: Callable[[Store], Store] = lambda store: store,
    wrap_bus: Callable[[Bus], Bus] = lambda bus: bus,
    model: ChatModel | None = None,
) -> AsyncIterator[Orchestrator]:
    """All parts of an orchestrator, its workers at work; nothing listens yet.

    ``wrap_store``, ``wrap_bus`` and ``model`` let tests stand between; None: what the settings say.
    """
    check_approvers(settings.approvers)
    node = new_node_id(_name(settings))
    models = Models(model, lambda: ollama_options(settings))
    first = prepare(settings)
    file = first_file(settings.policy_path, shared=not settings.embedded)
    watching = Watching()
    store = watching.over(wrap_store(open_store(settings.store_url, clock=clock or SystemClock())), os.environ)
    clock = store.clock
    line = wrap_bus(open_bus(settings.bus, node=node))
    try:
        bus = await _reached(line, settings, store)
        authorizer = TokenAuthorizer(store, approvers=settings.approvers)
        law = PolicyInForce()
        service = TaskService(
            store=store,
            bus=bus,
            clock=clock,
            authorizer=authorizer,
            observer=watching.observe,
            law=law,
            prompt=in_force(settings.data_dir),
            node=node,
        )
        policy = PolicyKeeper(service, settings.policy_path, file)
        law.policy, law.custom = policy.usable, lambda: policy.custom
        await policy.begin()
        await service.record(started(settings, policy.policy, node))
        token = await admin_token(service, settings)
        workspace = await workspace_of(store, settings.workspace_path)
        if isinstance(workspace, RefusedWorkspace):
            # Who named none wants none: local_* say so when somebody uses them.
            logger.log(logging.INFO if settings.workspace is None else logging.WARNING, "%s", workspace.why)
        world = World(store=store, workspace=workspace)
        hub, here = _joined(settings, service, world, node)
        law.context = world.context
        undoing = Undoing(service, world)
        # What changed while nothing ran is judged before anybody can decide.
        await policy.judge()
        looking = await models.begin(settings.model)
        keeper = CheckpointKeeper(service, Checkpoints(settings.data_dir))
        doors = Doors(
            service=service,
            authorizer=authorizer,
            computers=here.fleet,
            nodes=here.seen,
            transfers=here.readings.everywhere,
            defaults=Defaults(settings.model, settings.max_steps, settings.max_wall_s, settings.max_tokens),
            check_model=models.open,
            undoing=undoing,
            pruner=Pruner(service, Rule(settings.retain_days or None, settings.retain_bytes or None)),
            rehearsals=_rehearsals(settings, undoing, law, authorizer, here),
            metrics=lambda: watching.scrape(service, hub),
            policy=policy,
            checkpoints=keeper.checkpoints,
            about=about(settings, workspace),
            remote_keys=settings.remote_keys,
        )
        workers = _workers(settings, undoing, models, node)
        here.presence.tasks = lambda: workers.at_work
        here.presence.clock_ahead_s = lambda: ahead_s(clock.now()) if store.shared else 0.0
        workers.may_act = lambda: policy.unusable is None
        orchestrator = Orchestrator(settings, store, service, hub, here, workers, doors, doors.rehearsals, token)
        async with _at_work(orchestrator, keeper, watching, looking):
            if first:
                logger.info("a new data directory: %s", settings.data_dir)
            yield orchestrator
    finally:
        await line.close()
        await store.close()


async def _reached(line: Bus, settings: Settings, store: Store) -> Bus:
    """This store's part of the bus, open; one whose server just starts again is waited for. Raises BusAway."""
    alone = settings.bus == "local:"
    bus = line if alone else InstallationBus(line, await installation_of(store), node=_name(settings))
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


def _name(settings: Settings) -> str:
    return settings.node or platform.node()


def _joined(settings: Settings, service: TaskService, world: World, node: str) -> tuple[Hub, Node]:
    """The computers of this node, and this node among the others; the world works with the computers of all."""
    presence = Presence(service.bus, node, name=_name(settings), version=version(), url=settings.public_url)
    elsewhere = MeetingElsewhere(presence)
    hub = Hub(JournalGreeter(service), client=client_offered(), elsewhere=elsewhere)
    here = join(hub, elsewhere, presence, service.store, world.awaited)
    here.alike.say(_to_be_alike(settings))
    if isinstance(service.bus, InstallationBus):
        here.apart = service.bus.list_others
    world.computers = here.fleet
    return hub, here


def _to_be_alike(settings: Settings) -> dict[str, str]:
    """What all nodes of one store have to have in common, by the names of the settings."""
    prompt = in_force(settings.data_dir)
    return {
        "approvers": settings.approvers,
        "remote_keys": settings.remote_keys,
        "lease_s": f"{settings.lease_s:g}",
        "retain_days": f"{settings.retain_days:g}",
        "retain_bytes": f"{settings.retain_bytes}",
        # That of another version of the program is another text, and no fault.
        "prompt.md": "none" if prompt is shipped() else prompt.version,
    }


def _workers(settings: Settings, undoing: Undoing, models: Models, node: str) -> Workers:
    return Workers(
        service=undoing.service,
        world=undoing.world,
        model_for=models.of_task,
        holder=node,
        count=settings.workers,
        lease_s=settings.lease_s,
    )


def _rehearsals(
    settings: Settings, undoing: Undoing, law: PolicyInForce, authorizer: TokenAuthorizer, here: Node
) -> Rehearsals:
    transfers = Transfers(undoing.service.clock)
    here.readings.here = transfers.rows
    copying = Copying(undoing.service.store, undoing.world, law.may_read, transfers)
    rehearsals = Rehearsals(undoing, copying, settings.rehearsals_path.absolute(), settings.rehearsals)
    authorizer.guest = rehearsals.guest
    return rehearsals


@contextlib.asynccontextmanager
async def _at_work(
    parts: Orchestrator, keeper: CheckpointKeeper, watching: Watching, looking: Sequence[asyncio.Task[None]]
) -> AsyncIterator[None]:
    """Everything that goes on by itself, begun, and ended in order: what serves first, then what works."""
    settings, doors = parts.settings, parts.doors
    parts.hub.desk = desk = Desk(
        doors.undoing,
        new_task=NewTask(settings.model, settings.max_steps, settings.max_wall_s, settings.max_tokens),
        approvers=settings.approvers,
        refused=doors.attempts.refused_at,
    )
    parts.node.open()
    background = [
        asyncio.create_task(parts.workers.work()),
        asyncio.create_task(doors.policy.watch()),
        asyncio.create_task(keeper.keep()),
        asyncio.create_task(doors.pruner.keep()),
        asyncio.create_task(parts.node.unheard.keep()),
        asyncio.create_task(doors.sockets.watch(parts.store, doors.browsers.standing)),
        *watching.keep(),
        *looking,
    ]
    try:
        yield
    finally:
        await parts.rehearsals.close()
        desk.close()
        await parts.hub.close()
        await doors.close()
        for part in background:
            part.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await parts.node.close()
        await keeper.stopped()
        await watching.close()
