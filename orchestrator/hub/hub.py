"""The hub: drives one link per connection and is the port ``Computers``.

Theory. A computer has at most one session; a newer connection replaces the older. A call's
frames are written once, on the session that is there when the call is made; when the session
ends, its waits end with ``CallLost`` and only a settle, on a later session, can tell what
became of them. The hub knows nothing of tasks: what hello means for the journal is asked of
``Greeter``. An idle computer costs no task of its own but the one that reads its socket: every
deadline is the sweeper's.
"""

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, Protocol

from orchestrator.core import link_events as events
from orchestrator.core import wire
from orchestrator.core.errors import CallLost, CallVoid, ComputerAway, ComputerFailed
from orchestrator.core.link import LinkState
from orchestrator.core.wire import ComputerId, RunId
from orchestrator.hub.manners import printable, refusal
from orchestrator.hub.session import Session, Socket, Wait
from orchestrator.hub.sweeper import Sweeper
from orchestrator.ports import CallResult, ComputerInfo, Settlement

logger = logging.getLogger(__name__)

_SETTLE_WITHIN_S = 60.0
"""A settle is answered from the journal at once; a run that still goes on is asked about again."""
UNHURRIED_S = 0.005
"""How long an acknowledgement waits for a frame to go with: nobody waits for it, and a write costs more than it."""
_HUNG_UP = "the computer hung up"


class Greeter(Protocol):
    """What the journal has to say when a computer comes or goes."""

    async def number(self, computer: ComputerId, *, at_least: int = 0) -> int:
        """A newly allotted number of the computer."""

    async def closed_runs(self, computer: ComputerId, run_ids: Sequence[RunId]) -> list[RunId]:
        """Those of the runs in a computer's journal that nobody waits for any more."""

    async def arrived(self, computer: ComputerId) -> None:
        """The computer is connected and welcome: wake what waited for it."""


class Hub:
    """All connected computers of this node."""

    def __init__(self, greeter: Greeter) -> None:
        self._greeter = greeter
        self._sessions: dict[ComputerId, Session] = {}
        self._known: dict[ComputerId, wire.Hello] = {}
        self._fingerprints: dict[ComputerId, str] = {}
        """A hash of the token with which each computer came last."""
        self._heard: dict[ComputerId, int] = {}
        """The highest ``journal_seq`` that each computer named; of a socket that hands frames over, at its end."""
        self._doubtful: dict[ComputerId, int] = {}
        self._places = count(1)
        self._unhurried: dict[Session, None] = {}
        """The sessions with acknowledgements that wait for the next frame, or for the timer."""
        self._timer: asyncio.TimerHandle | None = None
        self._sweeper = Sweeper()
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
            identity=wire.sha256_hex(f"{self._fingerprints.get(computer, '')} {hello.computer_id}".encode())[:16],
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
        on_output: Callable[[int, bytes], None] | None = None,
    ) -> CallResult:
        """Write the call's frames, once, and wait for its outcome.

        ``wait_s`` counts from when the last frame was handed to the socket; what goes in parts may take as
        long as it gets on.
        """
        session = self._session(computer)
        await session.room.acquire()
        wait = None
        try:
            if session.link.state is not LinkState.READY:
                raise _away(computer)
            wait = session.expect(run_id, wait_s, on_output)
            in_parts = session.link.call(
                run_id=run_id, task_id=task_id, number=number, method=method, params=params, body=body
            )
            if in_parts:
                session.send_in_parts(run_id, wait)
                session.write_soon()
            elif not session.write_now():
                await session.flush()
            result: CallResult = await wait.future
            return result
        finally:
            session.room.release()
            if wait is not None:
                session.leave(run_id, wait)

    async def settle(self, computer: ComputerId, *, run_ids: Sequence[RunId], number: int) -> dict[RunId, Settlement]:
        """Raise the computer's fence and ask what became of runs; waits for those still running."""
        session = self._session(computer)
        answer = session.settles[number] = Wait(computer, _SETTLE_WITHIN_S)
        answer.what = "did not settle"
        self._sweeper.add(answer)
        waits = {run_id: session.expect(run_id, math.inf) for run_id in run_ids}
        try:
            session.link.settle(number=number, run_ids=run_ids)
            if not session.write_now():
                await session.flush()
            settled = {RunId(one.call_id): one for one in await answer.future}
            missing = [run_id for run_id in run_ids if run_id not in settled]
            if missing:
                raise CallLost(f"Computer {computer} did not say what became of {', '.join(missing)}.")
            return {run_id: await _settlement(session, settled[run_id], wait) for run_id, wait in waits.items()}
        finally:
            self._sweeper.discard(answer)
            session.settles.pop(number, None)
            for run_id, wait in waits.items():
                session.leave(run_id, wait)

    def acknowledge(self, computer: ComputerId, run_id: RunId, number: int) -> None:
        """Let the computer forget an outcome; when it is away, its next hello asks again."""
        session = self._sessions.get(computer)
        if session is not None:
            session.link.acknowledge(run_id=run_id, number=number)
            if session.direct is None:
                session.write_soon()
                return
            self._unhurried[session] = None
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(UNHURRIED_S, self._write_unhurried)

    def _write_unhurried(self) -> None:
        sessions, self._unhurried, self._timer = self._unhurried, {}, None
        for session in sessions:
            session.write_soon()

    # -- the socket ----------------------------------------------------------------------

    async def serve(self, computer: ComputerId, socket: Socket, *, fingerprint: str = "") -> None:
        """Serve one connection whose token belongs to ``computer``, until it is over.

        ``fingerprint``: a hash of that token; empty: it is not known.
        """
        session = Session(computer, socket, next(self._places), self._sweeper, self._tick)
        link, reason, listening = session.link, _HUNG_UP, False
        try:
            while listening or link.state is not LinkState.CLOSED:
                frame = await socket.receive()
                if frame is None:
                    break
                event = _take(session, frame)
                if isinstance(event, events.Greeted):
                    self._fingerprints[computer] = fingerprint
                    await self._greet(session, event.hello)
                elif isinstance(event, events.Ended):
                    reason = event.reason
                self._note(session)
                session.write_soon()
                if link.state is LinkState.READY and session.direct is not None:
                    # Only a hello takes time, and there is one on a connection: what follows it is dealt with at once.
                    listening = True
                    session.direct.listen(partial(self._hear, session))
            else:
                self._gone(session, reason)
                await session.farewell()
        finally:
            self._gone(session, reason)
            await socket.close(1000 if reason == _HUNG_UP else 1008, reason[:100])

    async def close(self) -> None:
        """End every session, for a clean stop."""
        if self._timer is not None:
            self._timer.cancel()
        for session in list(self._sessions.values()):
            session.write_now()
            self._gone(session, "the orchestrator stops")
            await session.socket.close(1001, "the orchestrator stops")

    def _hear(self, session: Session, frame: bytes | str) -> None:
        """A frame of a computer that is welcome, handed over by its socket."""
        if session.link.state is LinkState.CLOSED:
            return
        event = _take(session, frame)
        session.write_soon()
        if isinstance(event, events.Ended):
            self._gone(session, event.reason)
            session.spawn(self._hang_up(session, event.reason))

    async def _hang_up(self, session: Session, reason: str) -> None:
        await session.farewell()
        await session.socket.close(1008, reason[:100])

    def _tick(self, session: Session, now: float) -> None:
        for event in session.link.tick(now):
            if isinstance(event, events.Ended):
                self._gone(session, event.reason)
                session.spawn(session.socket.close(1008, event.reason[:100]))

    async def _greet(self, session: Session, hello: wire.Hello) -> None:
        computer = session.computer
        refused = refusal(hello)
        if refused is not None:
            session.link.refuse(code=refused.code, message=refused.message, remedy=refused.remedy)
            return
        async with self._greeting[computer]:
            if not await self._replace(session):
                return
            number = await self._greeter.number(computer, at_least=hello.highest + 1)
            if self._journal_lost(computer, hello, number):
                logger.warning("computer %s lost its journal: what ran there before is not known", computer)
                self._doubtful[computer] = number
            session.link.welcome(number=number, computer=computer)
            session.watch()
            self._sessions[computer] = session
            self._known[computer] = hello
        for run_id in await self._greeter.closed_runs(computer, [RunId(one) for one in hello.calls]):
            session.link.acknowledge(run_id=run_id, number=await self._greeter.number(computer))
        await session.flush()
        logger.info("computer %s is connected: %s, %s", computer, printable(wire.from_wire(hello.host)), hello.family)
        await self._greeter.arrived(computer)

    def _journal_lost(self, computer: ComputerId, hello: wire.Hello, number: int) -> bool:
        """Whether a boot found a journal older than one we heard of, or none where numbers were allotted before."""
        if hello.found_seq is None:
            return False
        return hello.found_seq < self._heard.get(computer, 0) or (hello.found_seq == 0 and number > 1)

    async def _replace(self, session: Session) -> bool:
        """End the other session of this computer; False: the other is the newer, and this one ends."""
        other = self._sessions.get(session.computer)
        if other is None:
            return True
        older = session if other.place > session.place else other
        self._gone(older, "a newer connection of the same computer replaced it")
        await older.socket.close(1008, "replaced by a newer connection")
        return older is other

    def _session(self, computer: ComputerId) -> Session:
        session = self._sessions.get(computer)
        if session is None or session.link.state is not LinkState.READY:
            raise _away(computer)
        return session

    def _gone(self, session: Session, reason: str) -> None:
        if self._sessions.get(session.computer) is session:
            del self._sessions[session.computer]
            logger.info("computer %s is gone: %s", session.computer, printable(reason))
            self._note(session)
        session.end(reason)

    def _note(self, session: Session) -> None:
        self._heard[session.computer] = max(self._heard.get(session.computer, 0), session.link.journal_seq)


def _away(computer: ComputerId) -> ComputerAway:
    return ComputerAway(
        f"Computer {computer} is not connected.",
        remedy="Its chunk may be unloaded or it may be off; what needs it waits.",
    )


def _take(session: Session, frame: bytes | str) -> events.Greeted | events.Ended | None:
    """Deal with one frame; what is more than the session's own business is answered."""
    answer = None
    for event in session.link.receive(frame, session.now()):
        if isinstance(event, events.Greeted | events.Ended):
            answer = event
        else:
            _handle(session, event)
    return answer


def _handle(session: Session, event: events.LinkEvent) -> None:
    match event:
        case events.Finished():
            session.outcome(event.run_id, _outcome(event))
        case events.Output():
            session.told(event.run_id, event.offset, event.data)
        case events.Moved():
            session.moved()
        case events.Coming():
            session.coming(event.run_id)
        case events.Declined():
            session.outcome(event.run_id, CallVoid(event.code, event.message or event.code))
        case events.Lost():
            session.outcome(event.run_id, CallLost(f"The answer of computer {session.computer}: {event.reason}"))
        case events.SettledAll():
            if event.number in session.settles:
                session.settles[event.number].resolve(event.calls)
        case events.Complained():
            logger.warning("computer %s complains: %s (%s)", session.computer, printable(event.message), event.code)
            if event.run_id is not None:
                session.outcome(event.run_id, CallLost(f"Computer {session.computer}: {event.message}"))
        case _:
            pass


async def _settlement(session: Session, call: wire.SettledCall, wait: Wait) -> Settlement:
    """What a settle says of one run. A result still in memory comes before the answer that names it finished."""
    heard = wait.future.done() or session.link.receiving(RunId(call.call_id))
    if call.state not in ("running", "finished") or (call.state == "finished" and not heard):
        return Settlement(call=call)
    session.extend(wait, _SETTLE_WITHIN_S, f"did not finish {call.call_id}")
    try:
        result: CallResult | Exception = await wait.future
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
