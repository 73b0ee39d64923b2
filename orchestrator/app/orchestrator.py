"""All parts of one running orchestrator, made from its settings and put together."""

import asyncio
import contextlib
import logging
import os
import platform
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from orchestrator.adapters.bus import InstallationBus, installation_of, open_bus
from orchestrator.adapters.messengers import Messengers
from orchestrator.adapters.store import open_store
from orchestrator.app.admin import admin_token
from orchestrator.app.first_start import (
    Models,
    about,
    ollama_options,
    prepare,
    server_options,
    started,
    to_be_shared,
)
from orchestrator.app.greeter import JournalGreeter
from orchestrator.app.observability import Watching
from orchestrator.computers.hub import Hub
from orchestrator.computers.nodes import MeetingElsewhere, Node, Presence, join, new_node_id
from orchestrator.computers.nodes.node import SETTINGS
from orchestrator.core.audit.shared import UPDATES
from orchestrator.core.errors import BusAway, InvalidRequest, OrchestratorError
from orchestrator.core.policy import PolicyContext
from orchestrator.core.ports import Bus, ChatModel, Clock, Identity, PlayersDesk, Store, Workspace
from orchestrator.core.wire.cells import channel
from orchestrator.core.wire.wire import Cell, ComputerId
from orchestrator.engine.active_policy import NodePolicy
from orchestrator.engine.directory import DirectoryKeeper
from orchestrator.engine.notifications import Notifier
from orchestrator.engine.tasks import TaskService
from orchestrator.engine.tasks.service import MissedHints
from orchestrator.engine.tasks.stored import Pinned
from orchestrator.engine.undo import Undoing
from orchestrator.engine.workers import Workers
from orchestrator.history.audit import Checkpoints, verify_job
from orchestrator.history.audit.background import Background
from orchestrator.history.backups import Transfers
from orchestrator.history.checkpoints import CheckpointKeeper, HeadsAway, places_of
from orchestrator.history.policy_store import PolicyKeeper, first_file
from orchestrator.history.rehearsal import Copying, Rehearsals
from orchestrator.history.retention import Pruner, Rule
from orchestrator.runtime.clock import SystemClock, ahead_s
from orchestrator.runtime.program import version
from orchestrator.runtime.prompts import in_force
from orchestrator.runtime.settings import Settings
from orchestrator.tools.environment import Environment
from orchestrator.tools.workspace import RefusedWorkspace, workspace_of
from orchestrator.web.app import Endpoints
from orchestrator.web.auth import TokenAuthorizer, check_approvers
from orchestrator.web.base import Defaults
from orchestrator.web.in_game import InGameCommands
from orchestrator.web.install import client_offered
from orchestrator.web.oidc import ClaimRules, Provider

# -- What all other parts stand on: the store and the bus, open, the tasks over both, and the active policy

logger = logging.getLogger(__name__)

_BUS_WITHIN_S: Final = 10.0
"""How long a start waits for the bus's server: as long as for that of the store."""
_BUS_AGAIN_S: Final = 1.0


@dataclass(frozen=True)
class Foundation:
    """The foundation for all other parts."""

    settings: Settings
    node: str
    """The id of this node for this start."""
    watching: Watching
    authorizer: TokenAuthorizer
    guests: dict[str, Identity]
    """The copies of rehearsals that may come in, each by the hash of its token."""
    active_policy: NodePolicy
    service: TaskService
    policy: PolicyKeeper
    directory: DirectoryKeeper

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
    pinned: Pinned,
) -> AsyncIterator[Foundation]:
    """The ground of one start, its active policy and the start recorded; closed after the block, however that ends.

    ``context``: what is known of a computer, while it is ``pinned``; both are asked from the first verdict on.
    Raises BusAway, PolicyInvalid, InvalidRequest, and the errors of opening a store.
    """
    node, watching = new_node_id(name_of(settings)), Watching()
    file = first_file(settings.policy_path, shared=not settings.embedded)
    async with contextlib.AsyncExitStack() as closing:
        store = watching.over(wrap_store(open_store(settings.store_url, clock=clock or SystemClock())), os.environ)
        closing.push_async_callback(store.close)
        line = wrap_bus(open_bus(settings.bus, node=node))
        closing.push_async_callback(line.close)
        guests: dict[str, Identity] = {}
        directory = DirectoryKeeper(store)
        await directory.load()
        # The keeper of the policy records with the service, which asks the authorizer.
        authorizer = TokenAuthorizer(
            store,
            settings.approvers,
            guests,
            lambda: policy.usable(),  # noqa: PLW0108 - it is made with the service
            lambda: directory.present,
        )
        # The keeper of the policy records with the service, and the service judges by the policy.
        active_policy = NodePolicy(lambda: policy.usable(), context, lambda: policy.custom, lambda: directory.present)  # noqa: PLW0108
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
            directory=directory,
            pinned=pinned,
        )
        policy = PolicyKeeper(service, settings.policy_path, file, Checkpoints(settings.data_dir))
        await policy.begin()
        await service.record(started(settings, policy.policy, node))
        yield Foundation(settings, node, watching, authorizer, guests, active_policy, service, policy, directory)


def name_of(settings: Settings) -> str:
    """The name that people use for this node."""
    return settings.node or platform.node()


async def _reached(line: Bus, settings: Settings, store: Store) -> Bus:
    """This store's part of the bus, open; it waits for a server that is starting again. Raises BusAway."""
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


# -- All parts of one running orchestrator, made from its settings and put together ------


ALONE_S: Final = 2.0
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
    endpoints: Endpoints
    rehearsals: Rehearsals
    in_game: InGameCommands
    admin_token: str | None
    """Only when this start made it."""
    no_computer_yet: bool
    """Whether no computer had ever connected when it started."""

    async def drain(self) -> None:
        """Have load balancers and computers look elsewhere, and the tasks handed over; canceled, let them go at once.

        Alone, no node goes on before the next start. So a stop does not wait for a model, whose reply is asked for
        again, and waits only shortly for calls, whose outcome is known more surely now than later. With other nodes the
        endpoints go on answering until the load balancers have seen that they must send nobody any more.
        """
        self.endpoints.drain()
        self.node.drain()
        alone = not self.node.others()
        within_s = min(self.settings.drain_s, ALONE_S) if alone else self.settings.drain_s
        handing_over = self.workers.drain(within_s, cut_models=alone)
        await asyncio.gather(handing_over, asyncio.sleep(0 if alone else self.settings.grace_s))


@contextlib.asynccontextmanager
async def open_orchestrator(
    settings: Settings,
    *,
    url: str = "",
    clock: Clock | None = None,
    wrap_store: Callable[[Store], Store] = lambda store: store,
    wrap_bus: Callable[[Bus], Bus] = lambda bus: bus,
    model: ChatModel | None = None,
) -> AsyncIterator[Orchestrator]:
    """All parts of an orchestrator, its workers at work; nothing is answered yet.

    ``url``: where it listens; empty: nowhere. ``wrap_store``, ``wrap_bus`` and ``model`` let tests stand between; None:
    what the settings say.
    """
    check_approvers(settings.approvers)
    models = Models(model, lambda: ollama_options(settings), lambda: server_options(settings))
    first = prepare(settings)
    ground_of = open_ground(
        settings,
        clock=clock,
        wrap_store=wrap_store,
        wrap_bus=wrap_bus,
        context=lambda computer: world.context(computer),  # noqa: PLW0108 - the world is made of what is on this
        pinned=lambda computers: world.pinned(computers),  # noqa: PLW0108 - see above
    )
    async with contextlib.aclosing(models), ground_of as ground:
        token = await admin_token(ground.service, settings)
        await ground.directory.load()
        for lack in ground.authorizer.too_few(ground.policy.policy):
            logger.warning("the policy asks for more people than there are: %s", lack)
        workspace = await _workspace(ground)
        # Drawn at the first start of the store, and the same for all its nodes.
        update_secret = await ground.store.agree(UPDATES, secrets.token_hex(32))
        transfers, awaited = Transfers(ground.service.clock), set[ComputerId]()
        presence = _presence(ground, url, lambda: workers.at_work)
        hub, here = _joined(ground, presence, update_secret, awaited, transfers, lambda: in_game, url)
        world = Environment(ground.store, here.fleet, awaited, workspace, settings.run_timeout_s)
        undoing = Undoing(ground.service, world)
        # Changes that came while nothing ran are judged before anybody can decide.
        await ground.policy.judge()
        looking = await models.begin(settings.model)
        away = HeadsAway(places_of(settings.heads_to, settings.data_dir))
        keeper = CheckpointKeeper(ground.service, Checkpoints(settings.data_dir), away=away)
        background = Background(ground.service, Checkpoints(settings.data_dir))
        page = settings.public_url or url
        notifier = Notifier(ground.service, ground.directory, Messengers(update_secret, page), page)
        endpoints = _endpoints(
            ground, undoing, hub, here, models, keeper, background, transfers, update_secret, notifier
        )
        workers = _workers(ground, undoing, models, hub)
        in_game = InGameCommands(
            undoing, ground.authorizer, defaults=endpoints.defaults, refused=endpoints.attempts.refused_at
        )
        orchestrator = Orchestrator(
            settings, ground.store, ground.service, hub, here, workers, endpoints, endpoints.rehearsals, in_game, token,
            no_computer_yet=not await ground.store.list_computers(),
        )  # fmt: skip
        async with _at_work(orchestrator, keeper, ground.watching, looking):
            if first:
                logger.info("a new data directory: %s", settings.data_dir)
            yield orchestrator


async def _workspace(ground: Foundation) -> Workspace:
    """The workspace of ``local_*``.

    Where it differs from that of the other nodes, the tools refuse, and the log says so.
    """
    settings = ground.settings
    workspace = await workspace_of(ground.store, settings.workspace_path)
    if isinstance(workspace, RefusedWorkspace):
        # A server that named no workspace needs none: the local_* tools say so when they are used.
        logger.log(logging.INFO if settings.workspace is None else logging.WARNING, "%s", workspace.why)
    return workspace


def _presence(ground: Foundation, url: str, tasks: Callable[[], int]) -> Presence:
    """The facts that this node tells the others of itself."""
    service, settings = ground.service, ground.settings
    return Presence(
        service.bus,
        ground.node,
        name=name_of(settings),
        version=version(),
        url=settings.public_url or url,
        tasks=tasks,
        clock_ahead_s=lambda: ahead_s(service.clock.now()) if ground.store.shared else 0.0,
        facts={SETTINGS: to_be_shared(settings, service.prompt)},
    )


def _joined(
    ground: Foundation,
    presence: Presence,
    update_secret: str,
    awaited: set[ComputerId],
    transfers: Transfers,
    players: Callable[[], PlayersDesk],
    url: str,
) -> tuple[Hub, Node]:
    """The computers of this node, and this node among the others."""
    service, elsewhere, settings = ground.service, MeetingElsewhere(presence), ground.settings
    hub = Hub(
        JournalGreeter(service),
        client=client_offered(),
        update_secret=update_secret,
        elsewhere=elsewhere,
        players=players,
        cell=_cell(settings, url),
    )
    apart = service.bus.list_others if isinstance(service.bus, InstallationBus) else list
    return hub, join(hub, elsewhere, presence, service.store, awaited, transfers=transfers.rows, apart=apart)


def _cell(settings: Settings, url: str) -> Cell | None:
    """What computers are told of their cell; None: there is one cell, or nobody knows its address."""
    place = settings.public_url or url
    return Cell(name=settings.cell, url=channel(place)) if settings.cell and place else None


def _endpoints(
    ground: Foundation,
    undoing: Undoing,
    hub: Hub,
    here: Node,
    models: Models,
    keeper: CheckpointKeeper,
    background: Background,
    transfers: Transfers,
    update_secret: str,
    notifier: Notifier,
) -> Endpoints:
    settings, service, watching = ground.settings, ground.service, ground.watching
    copying = Copying(service.store, undoing.world, ground.active_policy.may_read, transfers)
    homes = settings.rehearsals_path.absolute()
    return Endpoints(
        service=service,
        authorizer=ground.authorizer,
        computers=here.fleet,
        nodes=here.seen,
        transfers=here.readings.everywhere,
        defaults=Defaults(settings.model, settings.max_steps, settings.max_wall_s, settings.max_tokens),
        check_model=models.check,
        list_models=models.servers,
        undoing=undoing,
        pruner=Pruner(service, Rule(settings.retain_days or None, settings.retain_bytes or None)),
        rehearsals=Rehearsals(undoing, copying, homes, settings.rehearsals, ground.guests),
        metrics=lambda: watching.scrape(service, hub),
        policy=ground.policy,
        directory=ground.directory,
        notifier=notifier,
        verifying=verify_job(service.store, keeper.checkpoints),
        background=background,
        unsent=lambda: [*keeper.away.alerts(), *background.alerts()],
        about=about(settings, undoing.world.workspace, only_demo=settings.only_demo and models.by_name),
        remote_keys=settings.remote_keys,
        update_secret=update_secret,
        provider=_provider(settings),
        claim_rules=ClaimRules(
            settings.oidc_name_claim, settings.oidc_roles_claim, settings.oidc_roles, settings.oidc_groups
        ),
        by_provider=timedelta(hours=settings.oidc_session_h),
    )


def _provider(settings: Settings) -> Provider | None:
    """The provider at which people sign in; None: only tokens do. Raises InvalidRequest."""
    if not settings.oidc_issuer:
        return None
    for name in ("oidc_client_id", "oidc_roles"):
        if not getattr(settings, name):
            raise InvalidRequest(
                f"oidc_issuer is set, and {name} is not.", remedy="docs/people.md says which settings a provider needs."
            )
    try:
        from orchestrator.web.provider import OidcProvider
    except ImportError:
        raise InvalidRequest(
            "Signing in with a provider needs the package authlib.", remedy="pip install 'cc-orchestrator[oidc]'"
        ) from None
    secret = settings.oidc_client_secret.get_secret_value()
    return OidcProvider(settings.oidc_issuer, settings.oidc_client_id, secret)


def _workers(ground: Foundation, undoing: Undoing, models: Models, hub: Hub) -> Workers:
    return Workers(
        service=undoing.service,
        world=undoing.world,
        model_for=models.of_task,
        holder=ground.node,
        count=ground.settings.workers,
        lease_s=ground.settings.lease_s,
        may_act=lambda: ground.policy.unusable is None,
        here=hub.here if ground.store.shared else None,
    )


@contextlib.asynccontextmanager
async def _at_work(
    parts: Orchestrator, keeper: CheckpointKeeper, watching: Watching, looking: Sequence[asyncio.Task[None]]
) -> AsyncIterator[None]:
    """All background work, begun and ended in order: first the servers, then the workers."""
    endpoints = parts.endpoints
    parts.node.open()
    background = [
        kept_up("the workers", parts.workers.work()),
        kept_up("the look at the policy", endpoints.policy.watch()),
        kept_up("the look at the directory", endpoints.directory.keep(parts.service.bus)),
        kept_up("the keeper of checkpoints", keeper.keep()),
        kept_up("the verification in the background", endpoints.background.keep()),
        kept_up("the pruner", endpoints.pruner.keep()),
        kept_up("the notifications", endpoints.notifier.keep()),
        kept_up("the look for nodes on another bus", parts.node.unheard.keep()),
        kept_up("the look for lost hints", MissedHints(parts.service).keep()),
        kept_up("the count of refusals", endpoints.attempts.keep()),
        kept_up("the look for revoked tokens", endpoints.sockets.watch(parts.store, endpoints.browsers.standing)),
        *watching.keep(),
        *looking,
    ]
    try:
        yield
    finally:
        await parts.rehearsals.close()
        parts.in_game.close()
        await parts.hub.close()
        await endpoints.close()
        for part in background:
            part.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        with contextlib.suppress(OrchestratorError):
            await endpoints.attempts.tell()
        await parts.node.close()
        await keeper.stopped()
        await watching.close()


def kept_up(what: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Something that goes on for as long as the node does; where a defect ends it, the log says so at once."""

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (defect := task.exception()) is not None:
            logger.critical("%s met a defect and does nothing until the next start", what, exc_info=defect)

    task = asyncio.create_task(work)
    task.add_done_callback(ended)
    return task
