"""Calls, settles and acknowledgements on the sessions of one node's computers: that part of the port ``Computers``."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from orchestrator.computers.hub.known_computers import printable
from orchestrator.computers.hub.session import Session
from orchestrator.computers.hub.socket import Sweeper, Wait
from orchestrator.core.errors import CallLost, CallVoid, ComputerAway, ComputerFailed
from orchestrator.core.ports import CallResult, Settlement
from orchestrator.core.ports.computers import NOBODY, OnOutput
from orchestrator.core.wire import link_events as events
from orchestrator.core.wire import wire
from orchestrator.core.wire.link import LinkState
from orchestrator.core.wire.wire import ComputerId, RunId

# -- What comes over a link, for those who wait for it -----------------------------------

logger = logging.getLogger(__name__)

SETTLE_WITHIN_S = 60.0
"""A settle is answered from the journal at once; a run that still goes on is asked about again."""


def deliver(session: Session, event: events.LinkEvent) -> None:
    """Let those who wait know what an event of the link means for them."""
    match event:
        case events.Finished():
            session.outcome(event.run_id, _outcome(event))
        case events.Output():
            session.told(event.run_id, event.offset, session.secrecy.part(event.data))
        case events.Moved():
            session.moved()
        case events.Alive() if session.life is not None:
            session.life.resolve(None)
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
            said = printable(event.message)
            logger.warning(
                "computer %s complains: %s (%s)", session.computer, said, event.code, extra=session.log_extra
            )
            if event.run_id is not None:
                session.outcome(event.run_id, CallLost(f"Computer {session.computer}: {event.message}"))
        case _:
            pass


async def settlement(session: Session, call: wire.SettledCall, wait: Wait) -> Settlement:
    """The result of a settle for one run. A result still in memory comes before the answer that names it finished."""
    heard = wait.future.done() or session.link.receiving(RunId(call.call_id))
    if call.state not in ("running", "finished") or (call.state == "finished" and not heard):
        return Settlement(call=call)
    session.extend(wait, SETTLE_WITHIN_S, f"did not finish {call.call_id}")
    try:
        result: CallResult | Exception = await session.secrecy.of_result(await wait.future)
    except ComputerFailed as error:
        result = await session.secrecy.of_failure(error)
    ok = isinstance(result, CallResult)
    return Settlement(call=call.model_copy(update={"state": "finished", "ok": ok}), result=result)


def _outcome(event: events.Finished) -> CallResult | Exception:
    data = {key: wire.from_wire(value) if isinstance(value, str) else value for key, value in event.result.data.items()}
    if event.result.ok:
        return CallResult(data, event.body, "" if event.result.body is None else event.result.body.sha256)
    code = event.result.code or "internal"
    message = wire.from_wire(event.result.message or "") or f"The computer answered {code}."
    return ComputerFailed(code, message, data, event.body)


# -- Calls, settles and acknowledgements on the sessions of one node's computers: that part of the port
# ``Computers``

UNHURRIED_S: Final = 0.05
"""How long an acknowledgement waits for a frame to go with: a tick of the game.

Nobody waits for it, and a write costs more than it. The call of the next step goes within this time where the model is
a fast one, and where a tool makes several calls.
"""


class Calls:
    """Calls to the computers that are connected; the hub knows which computers come and go."""

    def __init__(self) -> None:
        self._sessions: dict[ComputerId, Session] = {}
        self._sweeper = Sweeper()
        self._unhurried: dict[Session, None] = {}
        """The sessions with acknowledgements that wait for the next frame, or for the timer."""
        self._timer: asyncio.TimerHandle | None = None

    def here(self, computer: ComputerId) -> bool:
        """Whether a call can be made on a session of this node."""
        session = self._sessions.get(computer)
        return session is not None and session.link.state is LinkState.READY

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
        on_output: OnOutput | None = None,
    ) -> CallResult:
        """Write the call's frames, once, and wait for its outcome.

        ``wait_s`` counts from when the last frame was handed to the socket; a call in parts may take as long as it
        makes progress.
        """
        session = self._session(computer)
        await session.room.acquire()
        wait = None
        try:
            if session.link.state is not LinkState.READY:
                raise _away(computer)
            # A program's time is time of the game, and so is what is waited for it.
            wait = session.expect(run_id, wait_s, on_output, in_game="timeout_s" in params)
            in_parts = session.link.call(
                run_id=run_id, task_id=task_id, number=number, method=method, params=params, body=body
            )
            if in_parts:
                session.send_in_parts(run_id, wait)
                session.write_soon()
            elif not session.write_now():
                await session.flush()
            return await session.secrecy.of_result(await wait.future)
        except ComputerFailed as error:
            raise await session.secrecy.of_failure(error) from None
        finally:
            session.room.release()
            if wait is not None:
                session.leave(run_id, wait)

    async def settle(
        self,
        computer: ComputerId,
        *,
        run_ids: Sequence[RunId],
        number: int,
        on_output: Mapping[RunId, OnOutput] = NOBODY,
    ) -> dict[RunId, Settlement]:
        """Raise the computer's fence and ask what became of runs; waits for those still running."""
        session = self._session(computer)
        answer = session.settles[number] = Wait(computer, SETTLE_WITHIN_S, what="did not settle")
        self._sweeper.add(answer)
        waits = {
            run_id: session.expect(run_id, SETTLE_WITHIN_S, told := on_output.get(run_id), in_game=told is not None)
            for run_id in run_ids
        }
        try:
            session.link.settle(number=number, run_ids=run_ids)
            if not session.write_now():
                await session.flush()
            settled = {RunId(one.call_id): one for one in await answer.future}
            missing = [run_id for run_id in run_ids if run_id not in settled]
            if missing:
                raise CallLost(f"Computer {computer} did not say what became of {', '.join(missing)}.")
            return {run_id: await settlement(session, settled[run_id], wait) for run_id, wait in waits.items()}
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

    def hurry_no_more(self) -> None:
        """Write no acknowledgement later, for a clean stop."""
        if self._timer is not None:
            self._timer.cancel()

    def _session(self, computer: ComputerId) -> Session:
        session = self._sessions.get(computer)
        if session is None or session.link.state is not LinkState.READY:
            raise _away(computer)
        return session


def _away(computer: ComputerId) -> ComputerAway:
    return ComputerAway(
        f"Computer {computer} is away.",
        remedy="Its chunk may be unloaded or it may be off; what needs it waits.",
    )
