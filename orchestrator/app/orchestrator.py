"""All parts of one running orchestrator, made from its settings and put together."""

import asyncio
import contextlib
import logging
import os
import platform
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from orchestrator.app.about import about, started, version
from orchestrator.app.first_start import admin_token, prepare
from orchestrator.app.models import Models, ollama_options
from orchestrator.audit import Checkpoints
from orchestrator.bus import open_bus
from orchestrator.checkpoints import CheckpointKeeper
from orchestrator.clock import SystemClock
from orchestrator.desk import Desk, NewTask
from orchestrator.greeting import JournalGreeter
from orchestrator.hub import Hub
from orchestrator.law import PolicyInForce
from orchestrator.nodes import MeetingElsewhere, Node, Presence, join, new_node_id
from orchestrator.policy_file import PolicyFile
from orchestrator.ports import Bus, ChatModel, Clock, Store
from orchestrator.prompts import in_force
from orchestrator.pruning import Pruner, Rule
from orchestrator.rehearsing import Copying, Rehearsals
from orchestrator.runner import Workers
from orchestrator.settings import Settings
from orchestrator.store import open_store
from orchestrator.tasks import TaskService
from orchestrator.tools.workspace import DirectoryWorkspace
from orchestrator.transfers import Transfers
from orchestrator.undoing import Undoing
from orchestrator.watching import Watching
from orchestrator.web.app import Doors
from orchestrator.web.auth import TokenAuthorizer, check_approvers
from orchestrator.web.base import Defaults
from orchestrator.web.install import client_offered
from orchestrator.world import World

logger = logging.getLogger(__name__)


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
    models = Models(model, lambda: ollama_options(settings))
    first = prepare(settings)
    policy = PolicyFile(settings.policy_path)
    watching = Watching()
    clock = clock or SystemClock()
    store = watching.over(wrap_store(open_store(settings.store_url, clock=clock)), os.environ)
    name = settings.node or platform.node()
    node_id = new_node_id(name)
    bus = wrap_bus(open_bus(settings.bus, node=node_id))
    try:
        await bus.open()
        authorizer = TokenAuthorizer(store, approvers=settings.approvers)
        law = PolicyInForce(lambda: policy.policy, custom=lambda: policy.custom)
        service = TaskService(
            store=store,
            bus=bus,
            clock=clock,
            authorizer=authorizer,
            observer=watching.observe,
            law=law,
            prompt=in_force(settings.data_dir),
        )
        await service.record(started(settings, policy.policy))
        await service.record(policy.loaded, content=policy.content)
        token = await admin_token(service, settings)
        presence = Presence(bus, node_id, name=name, version=version(), url=settings.public_url)
        elsewhere = MeetingElsewhere(presence)
        hub = Hub(JournalGreeter(service), client=client_offered(), elsewhere=elsewhere)
        world = World(store=store, workspace=DirectoryWorkspace(settings.workspace))
        node = join(hub, elsewhere, presence, store, world.awaited)
        world.computers = node.fleet
        law.context = world.context
        undoing = Undoing(service, world)
        # What changed while nothing ran is judged before anybody can decide.
        await service.rejudge()
        looking = await models.begin(settings.model)
        keeper = CheckpointKeeper(service, Checkpoints(settings.data_dir))
        doors = Doors(
            service=service,
            authorizer=authorizer,
            computers=node.fleet,
            nodes=node.nodes,
            defaults=Defaults(settings.model, settings.max_steps, settings.max_wall_s, settings.max_tokens),
            check_model=models.open,
            undoing=undoing,
            pruner=Pruner(service, Rule(settings.retain_days or None, settings.retain_bytes or None)),
            rehearsals=_rehearsals(settings, undoing, law, authorizer),
            metrics=lambda: watching.scrape(service, hub),
            policy=policy,
            checkpoints=keeper.checkpoints,
            about=about(settings),
            remote_keys=settings.remote_keys,
        )
        workers = _workers(settings, undoing, models)
        orchestrator = Orchestrator(settings, store, service, hub, node, workers, doors, doors.rehearsals, token)
        async with _at_work(orchestrator, keeper, watching, looking):
            if first:
                logger.info("a new data directory: %s", settings.data_dir)
            yield orchestrator
    finally:
        await bus.close()
        await store.close()


def _workers(settings: Settings, undoing: Undoing, models: Models) -> Workers:
    return Workers(
        service=undoing.service,
        world=undoing.world,
        model_for=models.of_task,
        holder=f"pid-{os.getpid()}",
        count=settings.workers,
    )


def _rehearsals(settings: Settings, undoing: Undoing, law: PolicyInForce, authorizer: TokenAuthorizer) -> Rehearsals:
    copying = Copying(undoing.service.store, undoing.world, law.may_read, Transfers(undoing.service.clock))
    rehearsals = Rehearsals(undoing, copying, settings.rehearsals_path.absolute(), settings.rehearsals)
    authorizer.guest = rehearsals.guest
    return rehearsals


@contextlib.asynccontextmanager
async def _at_work(
    parts: Orchestrator, keeper: CheckpointKeeper, watching: Watching, looking: Sequence[asyncio.Task[None]]
) -> AsyncIterator[None]:
    """Everything that goes on by itself, begun, and ended in order: what serves first, then what works."""
    settings, service, doors = parts.settings, parts.service, parts.doors
    parts.hub.desk = desk = Desk(
        doors.undoing,
        new_task=NewTask(settings.model, settings.max_steps, settings.max_wall_s, settings.max_tokens),
        approvers=settings.approvers,
        refused=doors.attempts.refused_at,
    )
    parts.node.open()
    background = [
        asyncio.create_task(parts.workers.work()),
        asyncio.create_task(doors.policy.watch(service.record, service.rejudge)),
        asyncio.create_task(keeper.keep()),
        asyncio.create_task(doors.pruner.keep()),
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
