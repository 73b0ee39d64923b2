"""The computers' sockets: drives one link per connection and is the port ``Computers``.

Theory. A computer has at most one session; a newer connection replaces the older. A call's
frame is written once, on the session that is there when the call is made; when the session
ends, its waits end with ``CallLost`` and only a settle, on a later session, can tell what
became of them. The hub knows nothing of tasks: what hello means for the journal is asked of
``Greeter``.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from itertools import chain, count
from typing import Any, Protocol

from orchestrator.core import link as events
from orchestrator.core import wire
from orchestrator.core.errors import CallLost, CallVoid, ComputerAway, ComputerFailed
from orchestrator.core.link import ComputerLink, LinkState
from orchestrator.core.wire import ComputerId, RunId
from orchestrator.ports import CallResult, ComputerInfo, Settlement

logger = logging.getLogger(__name__)

_OLDEST_MOD = (1, 95)
"""CC: Tweaked 1.95 (Minecraft 1.16.5): the oldest whose WebSocket and fs the client knows."""


_SETTLE_WITHIN_S = 60.0
"""A settle is answered from the journal at once; a run that still goes on is asked about again."""


class Socket(Protocol):
    """One accepted WebSocket."""

    async def receive(self) -> bytes | str | None:
        """The next frame; None when the connection is over."""

    async def send(self, frame: bytes) -> None:
        """Write one frame. Raises OSError when the connection is over."""

    async def close(self, code: int, reason: str) -> None:
        """Close; closing twice is harmless."""


class Greeter(Protocol):
    """What the journal has to say when a computer comes or goes."""

    async def number(self, computer: ComputerId, *, at_least: int = 0) -> int:
        """A newly allotted number of the computer."""

    async def closed_runs(self, computer: ComputerId, run_ids: Sequence[RunId]) -> list[RunId]:
        """Those of the runs in a computer's journal that nobody waits for any more."""

    async def arrived(self, computer: ComputerId) -> None:
        """The computer is connected and welcome: wake what waited for it."""


class _Session:
    """One connection of one computer, from hello to its end."""

    def __init__(self, computer: ComputerId, socket: Socket, now: float, place: int) -> None:
        self.computer = computer
        self.place = place
        """Its place among all connections of this hub: of two, the newer one counts."""
        self.socket = socket
        self.link = ComputerLink(now)
        self.writing = asyncio.Lock()
        self.room = asyncio.Semaphore(wire.MAX_OPEN_CALLS)
        self.runs: dict[RunId, list[asyncio.Future[CallResult]]] = {}
        """Who waits for the outcome of a run, each with a future of its own: a call that lost its lease
        and the settle of the next holder may wait for one run, and the end of one wait is not the other's."""
        self.settles: dict[int, asyncio.Future[tuple[wire.SettledCall, ...]]] = {}

    async def flush(self) -> None:
        """Write what is outgoing, in order; a broken connection ends the session."""
        async with self.writing:
            for frame in self.link.outgoing():
                try:
                    await self.socket.send(frame)
                except (OSError, RuntimeError) as error:
                    self.end(f"writing failed: {error}")
                    return

    @contextmanager
    def waiting(self, run_id: RunId) -> Iterator[asyncio.Future[CallResult]]:
        """Wait for the outcome of a run while this is open."""
        future: asyncio.Future[CallResult] = asyncio.get_running_loop().create_future()
        self.runs.setdefault(run_id, []).append(future)
        try:
            yield future
        finally:
            left = [other for other in self.runs.pop(run_id, []) if other is not future]
            if left:
                self.runs[run_id] = left

    def outcome(self, run_id: RunId, outcome: CallResult | Exception) -> None:
        """The outcome of a run came: all who wait for it have it."""
        for future in self.runs.get(run_id, ()):
            _resolve(future, outcome)

    def end(self, reason: str) -> None:
        """Nothing more is heard here: every wait ends with CallLost."""
        self.link.close()
        waits: list[asyncio.Future[Any]] = [*chain(*self.runs.values()), *self.settles.values()]
        for wait in waits:
            if not wait.done():
                wait.set_exception(CallLost(f"The connection of computer {self.computer} ended: {reason}."))
                wait.exception()
        self.runs.clear()
        self.settles.clear()


class Hub:
    """All connected computers of this node."""

    def __init__(self, greeter: Greeter) -> None:
        self._greeter = greeter
        self._sessions: dict[ComputerId, _Session] = {}
        self._known: dict[ComputerId, wire.Hello] = {}
        self._heard: dict[ComputerId, int] = {}
        """The highest ``journal_seq`` that each computer named."""
        self._doubtful: dict[ComputerId, int] = {}
        self._places = count(1)
        self._greeting: defaultdict[ComputerId, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Two connections of one computer are greeted one after the other, or the dead one could win."""

    # -- the port ------------------------------------------------------------------------

    def info(self, computer: ComputerId) -> ComputerInfo | None:
        """What is known of a computer."""
        hello = self._known.get(computer)
        if hello is None:
            return None
        return ComputerInfo(
            computer=computer,
            online=computer in self._sessions and self._sessions[computer].link.state is LinkState.READY,
            label=wire.from_wire(hello.label) if hello.label is not None else None,
            host=wire.from_wire(hello.host),
            family=hello.family,
            computer_id=hello.computer_id,
        )

    def list_computers(self) -> list[ComputerInfo]:
        """All that said hello since this node started."""
        return [info for computer in sorted(self._known) if (info := self.info(computer)) is not None]

    def doubtful_below(self, computer: ComputerId) -> int:
        """Calls with a lower number may have run although the computer knows nothing of them."""
        return self._doubtful.get(computer, 0)

    async def call(
        self,
        computer: ComputerId,
        *,
        run_id: RunId,
        task_id: str,
        number: int,
        method: str,
        params: Mapping[str, Any],
        body: bytes | None = None,
        wait_s: float = 60.0,
    ) -> CallResult:
        """Write the call's frame, once, and wait for its outcome."""
        session = self._session(computer)
        async with session.room:
            session = self._session(computer)
            with session.waiting(run_id) as future:
                session.link.call(
                    run_id=run_id, task_id=task_id, number=number, method=method, params=params, body=body
                )
                await session.flush()
                async with _bounded(wait_s, f"Computer {computer} did not answer"):
                    return await future

    async def settle(self, computer: ComputerId, *, run_ids: Sequence[RunId], number: int) -> dict[RunId, Settlement]:
        """Raise the computer's fence and ask what became of runs; waits for those still running."""
        session = self._session(computer)
        answer: asyncio.Future[tuple[wire.SettledCall, ...]] = asyncio.get_running_loop().create_future()
        session.settles[number] = answer
        try:
            with ExitStack() as stack:
                waits = {run_id: stack.enter_context(session.waiting(run_id)) for run_id in run_ids}
                session.link.settle(number=number, run_ids=run_ids)
                await session.flush()
                async with _bounded(_SETTLE_WITHIN_S, f"Computer {computer} did not settle"):
                    settled = {RunId(one.call_id): one for one in await answer}
                missing = [run_id for run_id in run_ids if run_id not in settled]
                if missing:
                    raise CallLost(f"Computer {computer} did not say what became of {', '.join(missing)}.")
                return {run_id: await _settlement(computer, settled[run_id], wait) for run_id, wait in waits.items()}
        finally:
            session.settles.pop(number, None)

    def acknowledge(self, computer: ComputerId, run_id: RunId, number: int) -> None:
        """Let the computer forget an outcome; when it is away, its next hello asks again."""
        session = self._sessions.get(computer)
        if session is not None:
            session.link.acknowledge(run_id=run_id, number=number)
            task = asyncio.get_running_loop().create_task(session.flush())
            _BACKGROUND.add(task)
            task.add_done_callback(_BACKGROUND.discard)

    # -- the socket ----------------------------------------------------------------------

    async def serve(self, computer: ComputerId, socket: Socket) -> None:
        """Serve one connection whose token belongs to ``computer``, until it is over."""
        loop = asyncio.get_running_loop()
        session = _Session(computer, socket, loop.time(), next(self._places))
        ticker = asyncio.create_task(self._tick(session))
        reason = "the computer hung up"
        try:
            while session.link.state is not LinkState.CLOSED:
                frame = await socket.receive()
                if frame is None:
                    break
                for event in session.link.receive(frame, loop.time()):
                    if isinstance(event, events.Ended):
                        reason = event.reason
                    await self._handle(session, event)
                self._heard[computer] = max(self._heard.get(computer, 0), session.link.journal_seq)
                await session.flush()
        finally:
            ticker.cancel()
            self._gone(session, reason)
            await socket.close(1000 if reason == "the computer hung up" else 1008, reason[:100])

    async def close(self) -> None:
        """End every session, for a clean stop."""
        for session in list(self._sessions.values()):
            self._gone(session, "the orchestrator stops")
            await session.socket.close(1001, "the orchestrator stops")

    async def _tick(self, session: _Session) -> None:
        loop = asyncio.get_running_loop()
        while (due := session.link.next_timer()) is not None:
            await asyncio.sleep(max(0.0, due - loop.time()))
            for event in session.link.tick(loop.time()):
                if isinstance(event, events.Ended):
                    self._gone(session, event.reason)
                    await session.socket.close(1008, event.reason[:100])
                    return
            await session.flush()

    async def _handle(self, session: _Session, event: events.LinkEvent) -> None:
        match event:
            case events.Greeted():
                await self._greet(session, event.hello)
            case events.Finished():
                session.outcome(event.run_id, _outcome(event))
            case events.Declined():
                session.outcome(event.run_id, CallVoid(event.code, event.message or event.code))
            case events.SettledAll():
                if event.number in session.settles:
                    _resolve(session.settles[event.number], event.calls)
            case events.Complained():
                logger.warning("computer %s complains: %s (%s)", session.computer, _clean(event.message), event.code)
                if event.run_id is not None:
                    session.outcome(event.run_id, CallLost(f"Computer {session.computer}: {event.message}"))
            case events.Taken() | events.Ended():
                pass

    async def _greet(self, session: _Session, hello: wire.Hello) -> None:
        computer = session.computer
        refusal = _refusal(hello)
        if refusal is not None:
            session.link.refuse(code=refusal[0], message=refusal[1], remedy=refusal[2])
            await session.flush()
            return
        async with self._greeting[computer]:
            if not await self._replace(session):
                return
            number = await self._greeter.number(computer, at_least=hello.highest + 1)
            if self._journal_lost(computer, hello, number):
                logger.warning("computer %s lost its journal: what ran there before is not known", computer)
                self._doubtful[computer] = number
            session.link.welcome(number=number, computer=computer)
            self._sessions[computer] = session
            self._known[computer] = hello
        for run_id in await self._greeter.closed_runs(computer, [RunId(one) for one in hello.calls]):
            session.link.acknowledge(run_id=run_id, number=await self._greeter.number(computer))
        await session.flush()
        logger.info("computer %s is connected: %s, %s", computer, _clean(wire.from_wire(hello.host)), hello.family)
        await self._greeter.arrived(computer)

    def _journal_lost(self, computer: ComputerId, hello: wire.Hello, number: int) -> bool:
        """Whether a boot found a journal older than one we heard of, or none where numbers were allotted before."""
        if hello.found_seq is None:
            return False
        return hello.found_seq < self._heard.get(computer, 0) or (hello.found_seq == 0 and number > 1)

    async def _replace(self, session: _Session) -> bool:
        """End the other session of this computer; False: the other is the newer, and this one ends."""
        other = self._sessions.get(session.computer)
        if other is None:
            return True
        older = session if other.place > session.place else other
        self._gone(older, "a newer connection of the same computer replaced it")
        await older.socket.close(1008, "replaced by a newer connection")
        return older is other

    def _session(self, computer: ComputerId) -> _Session:
        session = self._sessions.get(computer)
        if session is None or session.link.state is not LinkState.READY:
            raise ComputerAway(
                f"Computer {computer} is not connected.",
                remedy="Its chunk may be unloaded or it may be off; what needs it waits.",
            )
        return session

    def _gone(self, session: _Session, reason: str) -> None:
        if self._sessions.get(session.computer) is session:
            del self._sessions[session.computer]
            logger.info("computer %s is gone: %s", session.computer, _clean(reason))
        session.end(reason)


_BACKGROUND: set[asyncio.Task[None]] = set()
"""Keeps acknowledgements alive until they are written; asyncio holds tasks only weakly."""


@asynccontextmanager
async def _bounded(seconds: float, what: str) -> AsyncIterator[None]:
    """A wait with an end: past it the outcome counts as not heard, and a settle asks again."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise CallLost(f"{what} within {seconds:.0f} s.") from None


def _resolve(wait: asyncio.Future[Any], outcome: Any) -> None:
    if wait.done():
        return
    if isinstance(outcome, Exception):
        wait.set_exception(outcome)
        wait.exception()
    else:
        wait.set_result(outcome)


async def _settlement(computer: ComputerId, call: wire.SettledCall, wait: asyncio.Future[CallResult]) -> Settlement:
    """What a settle says of one run. A result still in memory comes before the answer that names it finished."""
    if call.state not in ("running", "finished") or (call.state == "finished" and not wait.done()):
        return Settlement(call=call)
    try:
        async with _bounded(_SETTLE_WITHIN_S, f"Computer {computer} still runs {call.call_id}"):
            result: CallResult | Exception = await wait
    except ComputerFailed as error:
        result = error
    ok = isinstance(result, CallResult)
    return Settlement(call=call.model_copy(update={"state": "finished", "ok": ok}), result=result)


def _outcome(event: events.Finished) -> CallResult | Exception:
    data = {key: wire.from_wire(value) if isinstance(value, str) else value for key, value in event.result.data.items()}
    if event.result.ok:
        return CallResult(data=data, body=event.body)
    code = event.result.code or "internal"
    message = wire.from_wire(event.result.message or "") or f"The computer answered {code}."
    return ComputerFailed(code, message, data, event.body)


def _refusal(hello: wire.Hello) -> tuple[str, str, str] | None:
    if hello.protocol != wire.PROTOCOL_VERSION:
        newer = "newer" if hello.protocol > wire.PROTOCOL_VERSION else "older"
        return (
            f"protocol_too_{'new' if newer == 'newer' else 'old'}",
            f"The client speaks protocol {hello.protocol}, this orchestrator {wire.PROTOCOL_VERSION}.",
            "Update the orchestrator." if newer == "newer" else "Install the client again from this orchestrator.",
        )
    version = _mod_version(hello.host)
    if version is not None and version < _OLDEST_MOD:
        return (
            "mod_too_old",
            f"CC: Tweaked {version[0]}.{version[1]} is older than 1.95.",
            "Update the mod to 1.95 (Minecraft 1.16.5) or newer.",
        )
    return None


def _mod_version(host: str) -> tuple[int, int] | None:
    words = host.split()
    if len(words) < 2 or words[0] != "ComputerCraft":
        return None
    parts = words[1].split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    return int(parts[0]), int(parts[1])


def _clean(text: str) -> str:
    """Text of a peer for a log: printable and short, so that it can inject nothing."""
    return "".join(char if char.isprintable() else "?" for char in text)[:200]
