"""The sans-I/O session of one computer connection: frames in, events out, time as an argument.

Theory. A link lives for one connection and is never used again: a reconnect is a new link. It
is ``greeting`` until hello, ``judging`` until it is welcomed or refused, then ``ready``, and
``closed`` for good. :data:`LINK_TABLE` says which message may come in which state; anything
else is answered with ``error`` and the link lives, up to :data:`MAX_COMPLAINTS`. The link
pings after each silence of ``PING_EVERY_S`` and ends after ``SILENCE_S``: a protocol ping is
answered by the game even when Lua hangs, so only frames count as life.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from orchestrator.core import wire
from orchestrator.core.errors import FrameRefused
from orchestrator.core.wire import RunId, SettledCall

MAX_COMPLAINTS: Final = 16
"""Broken frames in one connection: more is a broken client, not an accident."""


class LinkState(StrEnum):
    """Where a connection stands."""

    GREETING = "greeting"
    JUDGING = "judging"
    READY = "ready"
    CLOSED = "closed"


LINK_TABLE: Final[Mapping[LinkState, Mapping[str, LinkState]]] = {
    LinkState.GREETING: {"hello": LinkState.JUDGING, "error": LinkState.GREETING},
    LinkState.JUDGING: {"error": LinkState.JUDGING},
    LinkState.READY: dict.fromkeys(("ack", "result", "call_refused", "settled", "pong", "error"), LinkState.READY),
    LinkState.CLOSED: {},
}
"""State to message type to state; a missing key is a message out of order."""


@dataclass(frozen=True)
class Greeted:
    """The computer said hello; answer with ``welcome`` or ``refuse``."""

    hello: wire.Hello


@dataclass(frozen=True)
class Taken:
    """A call is on the computer's disk and runs."""

    run_id: RunId


@dataclass(frozen=True)
class Finished:
    """A call ended."""

    run_id: RunId
    result: wire.Result
    body: bytes


@dataclass(frozen=True)
class Declined:
    """A call was refused unrun."""

    run_id: RunId
    code: str
    message: str


@dataclass(frozen=True)
class SettledAll:
    """The answer to a settle."""

    number: int
    calls: tuple[SettledCall, ...]


@dataclass(frozen=True)
class Complained:
    """The computer says that we broke the protocol."""

    code: str
    message: str
    run_id: RunId | None


@dataclass(frozen=True)
class Ended:
    """The link is over; the connection should be closed."""

    reason: str


LinkEvent = Greeted | Taken | Finished | Declined | SettledAll | Complained | Ended


class ComputerLink:
    """One connection of one computer. ``now`` is seconds of any monotonic clock."""

    def __init__(self, now: float) -> None:
        self.state = LinkState.GREETING
        self.hello: wire.Hello | None = None
        self.journal_seq = 0
        """The highest ``journal_seq`` heard on this link."""
        self._out: list[bytes] = []
        self._opened = now
        self._heard = now
        self._pinged = now
        self._pings = 0
        self._complaints = 0

    # -- in ------------------------------------------------------------------------------

    def receive(self, frame: bytes | str, now: float) -> list[LinkEvent]:
        """What one frame means; a broken frame is answered with ``error`` and means nothing."""
        if self.state is LinkState.CLOSED:
            return []
        self._heard = now
        if isinstance(frame, str):
            return self._complain("bad_frame", "The frame is text. Send binary frames.")
        try:
            message, body = wire.decode(frame)
        except FrameRefused as error:
            if len(frame) > wire.MAX_FRAME_BYTES:
                return self._complain("frame_too_large", str(error), fatal=True)
            return self._complain("bad_frame", str(error))
        target = LINK_TABLE[self.state].get(message.type)
        if target is None:
            return self._complain("out_of_order", f"A {message.type} cannot come while the link is {self.state.value}.")
        self.state = target
        self.journal_seq = max(self.journal_seq, getattr(message, "journal_seq", None) or 0)
        return self._event(message, body)

    def tick(self, now: float) -> list[LinkEvent]:
        """Ping or give up when the time for it has come; see :meth:`next_timer`."""
        if self.state is LinkState.CLOSED:
            return []
        if self.state is not LinkState.READY:
            if now - self._opened >= wire.HELLO_WITHIN_S:
                missing = "hello" if self.state is LinkState.GREETING else "welcome"
                return self._end(f"No {missing} within {wire.HELLO_WITHIN_S:.0f} s.")
            return []
        if now - self._heard >= wire.SILENCE_S:
            return self._end(f"The computer said nothing for {wire.SILENCE_S:.0f} s.")
        if now - self._pinged >= wire.PING_EVERY_S:
            self._pings += 1
            self._pinged = now
            self._send(wire.Ping(n=self._pings))
        return []

    def next_timer(self) -> float | None:
        """When :meth:`tick` wants to be called next; None: never again."""
        if self.state is LinkState.CLOSED:
            return None
        if self.state is not LinkState.READY:
            return self._opened + wire.HELLO_WITHIN_S
        return min(self._heard + wire.SILENCE_S, self._pinged + wire.PING_EVERY_S)

    # -- out -----------------------------------------------------------------------------

    def outgoing(self) -> list[bytes]:
        """The frames to write, in order; each is handed out once."""
        out, self._out = self._out, []
        return out

    def welcome(self, *, number: int, computer: str) -> None:
        """Take the computer in; its fence goes to ``number``. A link that closed meanwhile stays closed."""
        if self.state is LinkState.CLOSED:
            return
        self.state = LinkState.READY
        self._send(wire.Welcome(number=number, computer=wire.to_wire(computer)))

    def refuse(self, *, code: str, message: str, remedy: str) -> None:
        """Turn the computer away; the connection should be closed after what is outgoing."""
        self._send(wire.Refused(code=code, message=wire.to_wire(message)[:512], remedy=wire.to_wire(remedy)[:512]))
        self.state = LinkState.CLOSED

    def call(
        self,
        *,
        run_id: RunId,
        task_id: str,
        number: int,
        method: str,
        params: Mapping[str, Any],
        body: bytes | None = None,
    ) -> None:
        """Queue a call's frame; ``body`` None: it has none. Raises FrameRefused and queues nothing when too large."""
        described = None if body is None else wire.whole(body)
        message = wire.Call(
            call_id=run_id, task=task_id, number=number, method=method, params=dict(params), body=described
        )
        self._out.append(wire.encode(message, body or b""))

    def settle(self, *, number: int, run_ids: Sequence[RunId]) -> None:
        """Ask what became of runs."""
        self._send(wire.Settle(number=number, call_ids=tuple(run_ids)))

    def acknowledge(self, *, run_id: RunId, number: int) -> None:
        """Let the computer forget an outcome."""
        self._send(wire.ResultAck(call_id=run_id, number=number))

    def close(self) -> None:
        """The connection is gone, or should be."""
        self.state = LinkState.CLOSED

    # -- inside --------------------------------------------------------------------------

    def _event(self, message: Any, body: bytes) -> list[LinkEvent]:
        match message:
            case wire.Hello():
                self.hello = message
                return [Greeted(message)]
            case wire.Ack():
                return [Taken(RunId(message.call_id))]
            case wire.Result():
                return [Finished(RunId(message.call_id), message, body)]
            case wire.CallRefused():
                return [Declined(RunId(message.call_id), message.code, wire.from_wire(message.message))]
            case wire.Settled():
                return self._settled(message, body)
            case wire.Complaint():
                run_id = RunId(message.call_id) if message.call_id else None
                return [Complained(message.code, wire.from_wire(message.message), run_id)]
            case _:
                return []

    def _settled(self, message: wire.Settled, body: bytes) -> list[LinkEvent]:
        try:
            return [SettledAll(message.number, wire.decode_settled(body))]
        except FrameRefused as error:
            return self._complain("bad_frame", str(error))

    def _complain(self, code: str, message: str, *, fatal: bool = False) -> list[LinkEvent]:
        self._complaints += 1
        self._send(wire.Complaint(code=code, message=wire.to_wire(message)[:512]))
        if fatal or self._complaints > MAX_COMPLAINTS:
            return self._end(f"Too many broken frames; the last: {message}")
        return []

    def _end(self, reason: str) -> list[LinkEvent]:
        self.state = LinkState.CLOSED
        return [Ended(reason)]

    def _send(self, message: Any) -> None:
        self._out.append(wire.encode(message))
