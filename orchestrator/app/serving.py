"""The port: the listening sockets, until a signal comes."""

import asyncio
import contextlib
import errno
import gc
import logging
import math
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from orchestrator.app.orchestrator import Orchestrator, open_orchestrator
from orchestrator.computers.hub.hub import COMPUTER_PATH
from orchestrator.core.errors import InvalidRequest
from orchestrator.core.ports import ChatModel, Store
from orchestrator.core.wire.wire import MAX_FRAME_BYTES
from orchestrator.runtime.settings import LOOPBACK, Settings
from orchestrator.web.connections import BoundedProtocol
from orchestrator.web.peers import RESERVE, Peers, networks_of, raise_file_limit, room_for
from orchestrator.web.sockets import FrameProtocol

# -- uvicorn as this program needs it: it accepts connections itself, leaves signals alone, and stops at once

logger = logging.getLogger(__name__)

_TICK_S: Final = 1.0
"""The date in an answer has whole seconds."""
_GONE_S: Final = 0.005
"""How long the end of a connection that was just closed takes to be noticed."""
_ACCEPTS: Final = 32
"""Connections that are accepted in one turn of the loop, unless files are few."""
_TURNS: Final = 8
"""A connection for which there is no room is closed some turns of the loop after it was accepted."""
_AGAIN_ACCEPT_S: Final = 0.1
"""When accepting is tried again that failed, for lack of files or memory."""


class PortServer(uvicorn.Server):
    """uvicorn without its signal handlers, since the composition root decides when to stop.

    It accepts connections itself: uvloop accepts one in each turn of the loop, and turns are long in a flood. A
    new connection would then wait behind all others that wait. ``spare``: open files that are not for connections.
    """

    def __init__(self, config: uvicorn.Config, spare: int = _ACCEPTS * _TURNS) -> None:
        super().__init__(config)
        self._accepts = max(min(_ACCEPTS, spare // _TURNS), 1)
        self._stopped = asyncio.Event()
        self._arriving: set[asyncio.Task[Any]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept."""
        loop = asyncio.get_running_loop()
        try:
            for listener in sockets or ():
                listener.setblocking(False)
                loop.add_reader(listener, self._accept, listener)
        except NotImplementedError:
            # The loop of Windows: it accepts many itself.
            await super().startup(sockets)
            return
        self.servers = []
        self.started = True

    def _accept(self, listener: socket.socket) -> None:
        """Take in connections that wait, as many as are served well in one turn."""
        loop = asyncio.get_running_loop()
        for _ in range(self._accepts - len(self._arriving)):
            try:
                own, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                logger.warning("no connection can be accepted now: %s", error.strerror or error)
                loop.remove_reader(listener)
                loop.call_later(_AGAIN_ACCEPT_S, self._accept_again, listener)
                return
            own.setblocking(False)
            with contextlib.suppress(OSError):
                own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            arriving = loop.create_task(self._arrive(own))
            self._arriving.add(arriving)
            arriving.add_done_callback(self._arriving.discard)

    async def _arrive(self, own: socket.socket) -> None:
        protocol: Any = self.config.http_protocol_class
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                lambda: protocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state), own
            )
        except OSError:
            # Its peer is gone again.
            own.close()

    def _accept_again(self, listener: socket.socket) -> None:
        if listener.fileno() >= 0 and not self.should_exit:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def stop(self) -> None:
        """Let `serve` return: at once, where uvicorn looks ten times a second."""
        self.should_exit = True
        self._stopped.set()

    async def main_loop(self) -> None:
        """Renew the date of the answers each second, until the server is stopped."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._stopped.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let go of what listens and of connections; where there are none, without uvicorn's waits for them."""
        for one in sockets or ():
            with contextlib.suppress(NotImplementedError):
                asyncio.get_running_loop().remove_reader(one)
        for listening in (*self.servers, *(sockets or ())):
            listening.close()
        await asyncio.sleep(_GONE_S)
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the composition root."""
        yield


# -- The port: what listens, until a signal comes ----------------------------------------


_COLLECT_AFTER: Final = 10_000
"""New objects after which Python looks for garbage in circles. With its own 700 it looks through all that thousands of
connections hold a dozen times while they are made, which is half of their cost and stops everything for that long."""
_BY_ANY_PEER = ("Invalid HTTP request received.", "Unsupported upgrade request.")
_AGAIN_S = 60.0
_LAST_S = 1.0
"""A client that followed a stream asks again on its connection: it gets an answer, as the last one there."""
_SOCKET_SLACK_BYTES = 78_000
"""Above our own frame limit, so that a frame a little too large gets a sentence, not a closed socket."""
READ_ONCE_READY: Final = "orchestrator.core.evidence.verdict"
"""What only the end of a task needs: its many patterns are read beside the loop, when clients are already served."""


async def serve(
    settings: Settings,
    *,
    ready: Callable[[str, Orchestrator], None],
    wrap_store: Callable[[Store], Store] = lambda store: store,
    model: ChatModel | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; ``ready`` is told the URL once the port listens.

    It stops in this order: the endpoints say that it drains; the tasks are handed over while balancers look elsewhere
    (a second signal ends both at once), rehearsals end, computers, reviewers and streams are told to come again, and
    last goes what listens.
    """
    must_be_safe(settings)
    _must_go_together(settings)
    gc.set_threshold(_COLLECT_AFTER)
    files = raise_file_limit()
    listener = listen(settings)
    host, port = listener.getsockname()[:2]
    with contextlib.closing(listener):
        url = f"http://{_in_url(host)}:{port}"
        async with open_orchestrator(settings, url=url, wrap_store=wrap_store, model=model) as orchestrator:
            most = room_for(files)
            server = server_of(orchestrator, most, files - most)
            stop, at_once = signals()
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            await orchestrator.rehearsals.open(f"ws://{_from_here(host)}:{port}{COMPUTER_PATH}")
            ready(url, orchestrator)
            verdicts = asyncio.create_task(asyncio.to_thread(import_module, READ_ONCE_READY))
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            await verdicts
            await _unless(at_once, orchestrator.drain())
            await orchestrator.rehearsals.close()
            await orchestrator.hub.close()
            await orchestrator.endpoints.close()
            if orchestrator.node.others():
                await _unless(at_once, asyncio.sleep(min(_LAST_S, settings.grace_s)))
            server.stop()
            await serving


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _from_here(host: str) -> str:
    """An address of this host on which a server listens that listens on ``host``."""
    return _in_url({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host))


class _Refusals(logging.Filter):
    """Drops uvicorn's complaint about each refused handshake: the refusal was our answer, and a whole one.

    A message that any peer can cause, as often as it likes, is logged once a minute.
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
Waits = Mapping[bytes, Callable[[float, bool], int]]


def server_of(orchestrator: Orchestrator, most: int = 1024, spare: int = RESERVE) -> PortServer:
    """The server of the endpoints; the numbers are those of :func:`port_server`."""
    waits = {COMPUTER_PATH.encode(): orchestrator.hub.admission.wait_s}
    return port_server(orchestrator.endpoints.app(), orchestrator.settings.proxies, most, spare, waits)


def port_server(app: ASGIApp, proxies: str, most: int, spare: int, waits: Waits | None = None) -> PortServer:
    """A server of an application: frames as large as ours, no compression, no signals of its own.

    ``proxies``: as the setting. ``most``: connections. ``spare``: open files that are not for connections. ``waits``:
    the seconds after which somebody may come again, by path; None: nobody has to.
    """
    # Adding a filter again changes nothing.
    logging.getLogger("uvicorn.error").addFilter(_REFUSALS)
    peers = Peers(most, proxies=networks_of(proxies))
    # uvicorn calls what it is given, and says that it wants a class.
    http: Any = partial(BoundedProtocol, peers=peers, waits=waits or {})
    ws: Any = partial(FrameProtocol, peers=peers)
    config = uvicorn.Config(
        app,
        http=http,
        ws=ws,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies,
        ws_max_size=MAX_FRAME_BYTES + _SOCKET_SLACK_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=None,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    return PortServer(config, spare)


def signals() -> tuple[asyncio.Event, asyncio.Event]:
    """The effect of the first signal, and of each further one."""
    stop, at_once = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def came() -> None:
        (at_once if stop.is_set() else stop).set()

    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, RuntimeError):
            loop.add_signal_handler(number, came)
    return stop, at_once


async def _unless(at_once: asyncio.Event, orderly: Coroutine[Any, Any, None]) -> None:
    """See something through, until somebody cannot wait for it."""
    ending = asyncio.create_task(orderly)
    hurried = asyncio.create_task(at_once.wait())
    await asyncio.wait((ending, hurried), return_when=asyncio.FIRST_COMPLETED)
    hurried.cancel()
    if not ending.done():
        ending.cancel()
    for result in await asyncio.gather(ending, return_exceptions=True):
        if isinstance(result, Exception):
            logger.error("the tasks are not handed over", exc_info=result)


def must_be_safe(settings: Settings) -> None:
    """Raises InvalidRequest for an address beyond loopback that nobody said is safe."""
    if settings.host not in LOOPBACK and not settings.insecure_bind:
        raise InvalidRequest(
            f"{settings.host} is not loopback, and without TLS tokens would travel in clear.",
            remedy="Put a TLS proxy in front and bind to 127.0.0.1, or say --insecure-bind on a network you trust.",
        )


def _must_go_together(settings: Settings) -> None:
    if settings.embedded and settings.bus != "local:":
        raise InvalidRequest(
            f"A bus is for several nodes, and the store {settings.store_url.partition(':')[0]}: is one node's own.",
            remedy="Say --store postgresql://USER:PASSWORD@HOST/DATABASE too, the same on all nodes, after "
            "`cc-orchestrator store migrate --to` that; or leave --bus away.",
        )


def listen(settings: Settings) -> socket.socket:
    """The socket that the settings name, listening. Raises InvalidRequest when that cannot be had."""
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
