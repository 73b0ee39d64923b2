"""What comes over a link, for those who wait for it."""

import logging

from orchestrator.computers.hub.compatibility import printable
from orchestrator.computers.hub.session import Session
from orchestrator.computers.hub.waiters import Wait
from orchestrator.core.errors import CallLost, CallVoid, ComputerFailed
from orchestrator.core.ports import CallResult, Settlement
from orchestrator.core.wire import link_events as events
from orchestrator.core.wire import wire
from orchestrator.core.wire.wire import RunId

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
    """What a settle says of one run. A result still in memory comes before the answer that names it finished."""
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
        return CallResult(data=data, body=event.body)
    code = event.result.code or "internal"
    message = wire.from_wire(event.result.message or "") or f"The computer answered {code}."
    return ComputerFailed(code, message, data, event.body)
