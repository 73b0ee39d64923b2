"""All parts of one running orchestrator, made from its settings and put together."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from orchestrator.app.about import about, node_name, started
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
from orchestrator.policy_keeping import PolicyKeeper, first_file
from orchestrator.ports import Bus, ChatModel, Clock, Store
from orchestrator.prompts import in_force
from orchestrator.pruning import Pruner, Rule
from orchestrator.rehearsing import Copying, Rehearsals
from orchestrator.runner import Workers
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
from orchestrator.world import World

logger = logging.getLogger(__name__)


@dataclass
class Orchestrator:
    """The parts of one running orchestrator."""

    settings: Settings
    store: Store
    service: TaskService
    hub: Hub
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
    model: ChatModel | None = None,
    bus: Bus | None = None,
) -> AsyncIterator[Orchestrator]:
    """All parts of an orchestrator, its workers at work; nothing listens yet.

    ``wrap_store``, ``model`` and ``bus`` let tests stand between; None: what the settings say.
    """
    check_approvers(settings.approvers)
    node = node_name()
    models = Models(model, lambda: ollama_options(settings))
    first = prepare(settings)
    file = first_file(settings.policy_path, shared=not settings.embedded)
    watching = Watching()
    clock = clock or SystemClock()
    store = watching.over(wrap_store(open_store(settings.store_url, clock=clock)), os.environ)
    try:
        authorizer = TokenAuthorizer(store, approvers=settings.approvers)
        law = PolicyInForce()
        service = TaskService(
            store=store,
            bus=bus or open_bus(settings.bus),
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
        hub = Hub(JournalGreeter(service), client=client_offered())
        workspace = await workspace_of(store, settings.workspace_path)
        if isinstance(workspace, RefusedWorkspace):
            logger.warning("%s", workspace.why)
        world = World(store=store, computers=hub, workspace=workspace)
        law.context = world.context
        undoing = Undoing(service, world)
        # What changed while nothing ran is judged before anybody can decide.
        await policy.judge()
        looking = await models.begin(settings.model)
        keeper = CheckpointKeeper(service, Checkpoints(settings.data_dir))
        doors = Doors(
            service=service,
            authorizer=authorizer,
            computers=hub,
            defaults=Defaults(settings.model, settings.max_steps, settings.max_wall_s, settings.max_tokens),
            check_model=models.open,
            undoing=undoing,
            pruner=Pruner(service, Rule(settings.retain_days or None, settings.retain_bytes or None)),
            rehearsals=_rehearsals(settings, undoing, law, authorizer),
            metrics=lambda: watching.scrape(service, hub),
            policy=policy,
            checkpoints=keeper.checkpoints,
            about=about(settings, workspace),
            remote_keys=settings.remote_keys,
        )
        workers = _workers(settings, undoing, models)
        workers.may_act = lambda: policy.unusable is None
        orchestrator = Orchestrator(settings, store, service, hub, workers, doors, doors.rehearsals, token)
        async with _at_work(orchestrator, keeper, watching, looking):
            if first:
                logger.info("a new data directory: %s", settings.data_dir)
            yield orchestrator
    finally:
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
    settings, doors = parts.settings, parts.doors
    parts.hub.desk = desk = Desk(
        doors.undoing,
        new_task=NewTask(settings.model, settings.max_steps, settings.max_wall_s, settings.max_tokens),
        approvers=settings.approvers,
        refused=doors.attempts.refused_at,
    )
    background = [
        asyncio.create_task(parts.workers.work()),
        asyncio.create_task(doors.policy.watch()),
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
        await keeper.stopped()
        await watching.close()
