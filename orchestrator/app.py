"""The composition root: from settings to a running orchestrator in one task group."""

import asyncio
import contextlib
import errno
import logging
import math
import os
import shlex
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata

import uvicorn

from orchestrator.audit import Checkpoints
from orchestrator.bus import open_bus
from orchestrator.checkpoints import CheckpointKeeper
from orchestrator.clock import SystemClock
from orchestrator.core.default_policy import DEFAULT_POLICY_TOML
from orchestrator.core.errors import InvalidRequest, ModelFailed
from orchestrator.core.items import SYSTEM
from orchestrator.core.policy import Policy
from orchestrator.core.system_facts import NodeStarted, TokenIssued
from orchestrator.core.task import AgentTask
from orchestrator.core.wire import MAX_FRAME_BYTES
from orchestrator.desk import Desk, NewTask
from orchestrator.greeting import JournalGreeter
from orchestrator.hub import Hub
from orchestrator.hub.hub import DOOR
from orchestrator.law import PolicyInForce
from orchestrator.model import OllamaOptions, Pool, as_chat_model
from orchestrator.model.options import endpoints_of
from orchestrator.policy_file import PolicyFile
from orchestrator.ports import ChatMessage, ChatModel, Clock, ModelReply, Store
from orchestrator.program import program
from orchestrator.prompts import in_force
from orchestrator.pruning import Pruner, Rule
from orchestrator.rehearsing import Copying, Rehearsals
from orchestrator.runner import Workers
from orchestrator.settings import DEFAULT_URL, ENV_PREFIX, LOOPBACK, Settings
from orchestrator.store import open_store
from orchestrator.tasks import TaskService
from orchestrator.tools.workspace import DirectoryWorkspace
from orchestrator.transfers import Transfers
from orchestrator.undoing import Undoing
from orchestrator.watching import Watching
from orchestrator.web.app import Doors
from orchestrator.web.auth import TokenAuthorizer, check_approvers, issue_token, token_hash
from orchestrator.web.base import Defaults
from orchestrator.web.connections import BoundedProtocol
from orchestrator.web.doctor import About
from orchestrator.web.frames import FrameProtocol
from orchestrator.web.install import client_offered
from orchestrator.world import World

logger = logging.getLogger(__name__)

ADMIN = "admin"
_BY_ANY_PEER = ("Invalid HTTP request received.", "Unsupported upgrade request.")
_AGAIN_S = 60.0
_SOCKET_SLACK_BYTES = 78_000
"""Above our own frame limit, so that a frame a little too large gets a sentence, not a closed socket."""


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
) -> AsyncIterator[Orchestrator]:
    """All parts of an orchestrator, its workers at work; nothing listens yet.

    ``wrap_store`` and ``model`` let tests stand between; None: what the settings say.
    """
    clock = clock or SystemClock()
    check_approvers(settings.approvers)
    models = _Models(model, lambda: _ollama(settings))
    first = _prepare(settings)
    policy = PolicyFile(settings.policy_path)
    watching = Watching()
    store = watching.over(wrap_store(open_store(settings.store_url, clock=clock)), os.environ)
    try:
        authorizer = TokenAuthorizer(store, approvers=settings.approvers)
        law = PolicyInForce(lambda: policy.policy, custom=lambda: policy.custom)
        service = TaskService(
            store=store,
            bus=open_bus(settings.bus),
            clock=clock,
            authorizer=authorizer,
            observer=watching.observe,
            law=law,
            prompt=in_force(settings.data_dir),
        )
        await service.record(_started(settings, policy.policy))
        await service.record(policy.loaded, content=policy.content)
        token = await _admin_token(service, settings)
        hub = Hub(JournalGreeter(service), client=client_offered())
        world = World(store=store, computers=hub, workspace=DirectoryWorkspace(settings.workspace))
        law.context = world.context
        undoing = Undoing(service, world)
        rehearsals = _rehearsals(settings, undoing, law, authorizer)
        # What changed while nothing ran is judged before anybody can decide.
        await service.rejudge()
        workers = Workers(
            service=service,
            world=world,
            model_for=models.of_task,
            holder=f"pid-{os.getpid()}",
            count=settings.workers,
        )
        looking = await models.begin(settings.model)
        keeper = CheckpointKeeper(service, Checkpoints(settings.data_dir))
        pruner = Pruner(service, Rule(settings.retain_days or None, settings.retain_bytes or None))
        doors = Doors(
            service=service,
            authorizer=authorizer,
            computers=hub,
            defaults=Defaults(settings.model, settings.max_steps, settings.max_wall_s, settings.max_tokens),
            check_model=models.open,
            undoing=undoing,
            pruner=pruner,
            rehearsals=rehearsals,
            metrics=lambda: watching.scrape(service, hub),
            policy=policy,
            checkpoints=keeper.checkpoints,
            about=_about(settings),
            remote_keys=settings.remote_keys,
        )
        hub.desk = desk = Desk(
            undoing,
            new_task=NewTask(settings.model, settings.max_steps, settings.max_wall_s, settings.max_tokens),
            approvers=settings.approvers,
            refused=doors.attempts.refused_at,
        )
        background = [
            asyncio.create_task(workers.work()),
            asyncio.create_task(policy.watch(service.record, service.rejudge)),
            asyncio.create_task(keeper.keep()),
            asyncio.create_task(pruner.keep()),
            asyncio.create_task(doors.sockets.watch(store, doors.browsers.standing)),
            *watching.keep(),
            *looking,
        ]
        try:
            if first:
                logger.info("a new data directory: %s", settings.data_dir)
            yield Orchestrator(settings, store, service, hub, workers, doors, rehearsals, token)
        finally:
            await rehearsals.close()
            desk.close()
            await hub.close()
            await doors.close()
            for part in background:
                part.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await keeper.stopped()
            await watching.close()
    finally:
        await store.close()


async def serve(
    settings: Settings,
    *,
    ready: Callable[[str, Orchestrator], None],
    wrap_store: Callable[[Store], Store] = lambda store: store,
    model: ChatModel | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; ``ready`` is told the URL once the port listens."""
    _must_be_safe(settings)
    listener = _listen(settings)
    host, port = listener.getsockname()[:2]
    with contextlib.closing(listener):
        async with open_orchestrator(settings, wrap_store=wrap_store, model=model) as orchestrator:
            server = _Server(_uvicorn(orchestrator))
            stop = _until_signal()
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            await orchestrator.rehearsals.open(f"ws://{_from_here(host)}:{port}{DOOR}")
            ready(f"http://{_in_url(host)}:{port}", orchestrator)
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            await orchestrator.rehearsals.close()
            await orchestrator.hub.close()
            await orchestrator.doors.close()
            server.should_exit = True
            await serving


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _from_here(host: str) -> str:
    """An address of this host on which a server listens that listens on ``host``."""
    return _in_url({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host))


def first_words(settings: Settings, url: str) -> list[str]:
    """What the first start says to its user: where the token is, and what to type next."""
    here = "" if url == DEFAULT_URL else f"{ENV_PREFIX}URL={url} "
    name = program()
    words = [
        f"The admin's token was written to {settings.token_path}. In another terminal:",
        f'  export {here}{ENV_PREFIX}TOKEN="$(cat {shlex.quote(str(settings.token_path))})"',
        f"  {name} pair      # prints the line to type on a computer in the game",
        f'  {name} run "Write a hello world program and run it" --computer NAME',
        f"  {name} review    # shows what waits for you, and asks",
    ]
    if settings.host in ("0.0.0.0", "::") and not settings.public_url:
        words.append(
            "Say --public-url http://ADDRESS:PORT too, so that pairing names an address that the game reaches."
        )
    return words


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the composition root decides when to stop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the composition root."""
        yield


class _Refusals(logging.Filter):
    """Drops uvicorn's complaint about each refused handshake: the refusal was our answer, and a whole one.

    Of what any peer can make it say, as often as it likes, one in a minute is logged.
    """

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[object, float] = {}
        """When each was logged last."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is logged."""
        if record.msg in _BY_ANY_PEER:
            if record.created - self._said.get(record.msg, -math.inf) < _AGAIN_S:
                return False
            self._said[record.msg] = record.created
        return record.msg != "ASGI callable returned without completing handshake."


_REFUSALS = _Refusals()


def _uvicorn(orchestrator: Orchestrator) -> uvicorn.Config:
    # Adding a filter again changes nothing.
    logging.getLogger("uvicorn.error").addFilter(_REFUSALS)
    return uvicorn.Config(
        orchestrator.doors.app(),
        http=BoundedProtocol,
        ws=FrameProtocol,
        ws_max_size=MAX_FRAME_BYTES + _SOCKET_SLACK_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=None,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )


def _until_signal() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, RuntimeError):
            loop.add_signal_handler(number, stop.set)
    return stop


def _version() -> str:
    try:
        return metadata.version("cc-orchestrator")
    except metadata.PackageNotFoundError:
        # Run from a checkout that nobody installed.
        return ""


def _about(settings: Settings) -> About:
    return About(
        version=_version(),
        data_dir=str(settings.data_dir.absolute()),
        host=settings.host,
        public_url=settings.public_url,
        model=settings.model,
        ollama_url=",".join(one.url for one in endpoints_of(_ollama_url(settings), settings.ollama_concurrency)),
        num_ctx=settings.num_ctx,
    )


def _started(settings: Settings, policy: Policy) -> NodeStarted:
    """The start of this node as it is recorded: what differs from the defaults."""
    differs = {
        name: str(value)
        for name, field in Settings.model_fields.items()
        if (value := getattr(settings, name)) != field.default and name != "data_dir"
    }
    return NodeStarted(version=_version(), policy_version=policy.version, settings=differs)


def _prepare(settings: Settings) -> bool:
    """Make the data directory at the first start, with the shipped policy in it; whether this was the first."""
    try:
        first = not settings.data_dir.exists() or not any(settings.data_dir.iterdir())
        settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        settings.workspace.mkdir(exist_ok=True)
        database = settings.data_dir / "orchestrator.db"
        if settings.policy is None and not settings.policy_path.exists() and not database.exists():
            settings.policy_path.write_text(DEFAULT_POLICY_TOML, "utf-8")
    except OSError as error:
        raise InvalidRequest(
            f"The data directory {settings.data_dir} cannot be used: {error}.", remedy="Choose another with --data-dir."
        ) from None
    return first


async def _admin_token(service: TaskService, settings: Settings) -> str | None:
    """Make the admin's token unless its file still fits the store; None: it does."""
    path = settings.token_path
    if path.exists():
        row = await service.store.find_token(token_hash(path.read_text("utf-8", "replace").strip()))
        rows = await service.store.list_tokens()
        others = any("admin" in one.roles and not one.revoked for one in rows)
        # Who was revoked on purpose stays revoked, as long as somebody else can let people in.
        if row is not None and (not row.revoked or others):
            return None
    roles = ("submitter", "reviewer", "admin")
    note = service.draft(TokenIssued(holder_kind="person", name=ADMIN, roles=roles), SYSTEM)
    token = await issue_token(service.store, kind="person", name=ADMIN, roles=roles, at=service.clock.now(), note=note)
    temporary = path.with_suffix(".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(token + "\n")
    temporary.replace(path)
    return token


class _Models:
    """The models of the tasks, opened once each; ``only``: one model for all, whatever they name.

    Those of Ollama share its servers, each of which takes so many requests at once and no more.
    """

    def __init__(self, only: ChatModel | None, ollama: Callable[[], OllamaOptions]) -> None:
        self._only = only
        self._ollama = ollama
        self._pool: Pool | None = None
        self._opened: dict[str, ChatModel] = {}

    def open(self, name: str) -> ChatModel:
        """The model of a name. Raises InvalidRequest when it cannot be used."""
        if self._only is not None:
            return self._only
        if name not in self._opened:
            self._opened[name] = self._of_ollama(name) if name.startswith("ollama:") else as_chat_model(name)
        return self._opened[name]

    def _of_ollama(self, name: str) -> ChatModel:
        options = self._ollama()
        if self._pool is None:
            self._pool = Pool(options.endpoints)
        return as_chat_model(name, options, self._pool)

    async def begin(self, name: str) -> list[asyncio.Task[None]]:
        """Open the model of most tasks, and look at it in the background. Raises InvalidRequest as :meth:`open`."""
        if self._only is not None:
            return []
        await asyncio.to_thread(self.open, name)
        return [asyncio.create_task(self._look(name))]

    async def _look(self, name: str) -> None:
        """Say at once in the log what would keep a model from answering, such as that it is not there."""
        try:
            await self.open(name).window()
        except ModelFailed as error:
            logger.warning("%s", error)

    def of_task(self, task: AgentTask) -> ChatModel:
        """The task's model, or one that says why it cannot be used, so that the task ends honestly."""
        try:
            return self.open(task.model)
        except InvalidRequest as error:
            return _Unusable(task.model, error)


def _ollama_url(settings: Settings) -> str:
    return settings.ollama_url or os.environ.get("OLLAMA_HOST", "")


def _ollama(settings: Settings) -> OllamaOptions:
    """How Ollama is asked. Raises InvalidRequest."""
    return OllamaOptions(
        url=_ollama_url(settings),
        num_ctx=settings.num_ctx,
        num_predict=settings.num_predict,
        temperature=settings.temperature,
        seed=settings.seed,
        keep_alive=settings.keep_alive,
        concurrency=settings.ollama_concurrency,
        think=settings.think,
    )


@dataclass
class _Unusable:
    """Stands for a model that was there when the task was submitted and is no longer."""

    name: str
    why: InvalidRequest

    async def window(self) -> None:
        """None: it has none."""

    async def reply(self, messages: Sequence[ChatMessage], **_: object) -> ModelReply:
        """Raises ModelFailed."""
        raise ModelFailed(self.why.message, remedy=self.why.remedy, lasting=True)


def _rehearsals(settings: Settings, undoing: Undoing, law: PolicyInForce, authorizer: TokenAuthorizer) -> Rehearsals:
    copying = Copying(undoing.service.store, undoing.world, law.may_read, Transfers(undoing.service.clock))
    rehearsals = Rehearsals(undoing, copying, settings.rehearsals_path.absolute(), settings.rehearsals)
    authorizer.guest = rehearsals.guest
    return rehearsals


def _must_be_safe(settings: Settings) -> None:
    if settings.host not in LOOPBACK and not settings.insecure_bind:
        raise InvalidRequest(
            f"{settings.host} is not loopback, and without TLS tokens would travel in clear.",
            remedy="Put a TLS proxy in front and bind to 127.0.0.1, or say --insecure-bind on a network you trust.",
        )


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Named, because asyncio switches Nagle's delay (40 ms on each answer) off only for what says that it is TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            remedy = "Choose another with --port, or stop what listens there."
        else:
            remedy = "Choose an address of this host with --host, and a port above 1023 with --port."
        raise InvalidRequest(
            f"Port {settings.port} of {settings.host} cannot be used: {error.strerror or error}.", remedy=remedy
        ) from None
    listener.listen(1024)
    return listener
