"""The sans-I/O session of one computer connection: frames in, events out, time as an argument.

Theory. A link lives for one connection and is never used again: a reconnect is a new link. It
is ``greeting`` until hello, ``judging`` until it is welcomed or refused, then ``ready``, and
``closed`` for good. :data:`LINK_TABLE` says which message may come in which state; anything
else is answered with ``error`` and the link lives, up to :data:`MAX_COMPLAINTS`. The link
pings after each silence of ``PING_EVERY_S`` and ends after ``SILENCE_S``: a protocol ping is
answered by the game even when Lua hangs, so only frames count as life. Bodies over one frame
wait in a queue of their own (:mod:`orchestrator.core.wire.link_events`), and every other message
overtakes them.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Literal

from orchestrator.core.errors import FrameRefused
from orchestrator.core.wire import wire
from orchestrator.core.wire.link_events import (
    Alive,
    Coming,
    Complained,
    Declined,
    DeskAsked,
    Ended,
    Finished,
    Greeted,
    Inbox,
    Labelled,
    LinkEvent,
    Lost,
    Mirrored,
    Moved,
    Outbox,
    Output,
    SettledAll,
    Stands,
    Ticked,
)
from orchestrator.core.wire.wire import RunId

MAX_COMPLAINTS: Final = 16
"""Broken frames in one connection: more is a broken client, not an accident."""
_NEEDS: Final[Mapping[str, str]] = {
    "input_size": wire.INPUT,
    "observe_s": wire.OBSERVE,
    "of": wire.SCREEN_OF,
}
"""Parameters that older clients do not have, each with the capability of those that do."""
MAX_UNTAKEN: Final = 256
"""Frames that wait to be written: more than all calls and outcomes of a computer that reads what it is sent."""


class LinkState(StrEnum):
    """Where a connection stands."""

    GREETING = "greeting"
    JUDGING = "judging"
    READY = "ready"
    CLOSED = "closed"


LINK_TABLE: Final[Mapping[LinkState, Mapping[str, LinkState]]] = {
    LinkState.GREETING: {"hello": LinkState.JUDGING, "error": LinkState.GREETING},
    LinkState.JUDGING: {"error": LinkState.JUDGING},
    LinkState.READY: dict.fromkeys(
        (
            *("ack", "result", "call_refused", "settled", "chunk", "chunk_ack", "output", "desk"),
            *("picture", "unseen", "screens", "keyed", "label", "pong", "error"),
        ),
        LinkState.READY,
    ),
    LinkState.CLOSED: {},
}
"""State to message type to state; a missing key is a message out of order."""
_WHEN_READY: Final = LINK_TABLE[LinkState.READY]
"""Every frame of a busy link asks for this row, and the hash of an enum is slow."""


class ComputerLink:
    """One connection of one computer. ``now`` is seconds of any monotonic clock."""

    def __init__(self, now: float) -> None:
        self.state = LinkState.GREETING
        self.hello: wire.Hello | None = None
        self.journal_seq = 0
        """The highest ``journal_seq`` heard on this link since the welcome.

        That of the hello does not count: a computer that never got the welcome still names, at its next
        boot, the lowest it has found since the one before, which is then no sign of a lost journal.
        """
        self._out: list[bytes] = []
        self._outbox: Outbox | None = None
        self._inbox: Inbox | None = None
        self._opened = now
        self._heard = now
        self._pinged = now
        self._pings = 0
        self._every = wire.PING_EVERY_S
        self._probe: int | None = None
        """The ping that was sent to see whether somebody lives; None: there was none."""
        self._complaints = 0

    # -- in ------------------------------------------------------------------------------

    def receive(self, frame: bytes | str, now: float) -> list[LinkEvent]:
        """What one frame means; a broken frame is answered with ``error`` and means nothing."""
        if self.state is LinkState.CLOSED:
            return []
        self._heard = now
        if len(self._out) > MAX_UNTAKEN:
            return self._end("The computer does not take its answers.")
        if isinstance(frame, str):
            return self._complain("bad_frame", "The frame is text. Send binary frames.")
        try:
            message, body = wire.read(frame)
        except FrameRefused as error:
            if len(frame) > wire.MAX_FRAME_BYTES:
                return self._complain("frame_too_large", str(error), fatal=True)
            return self._complain("bad_frame", str(error))
        target = (_WHEN_READY if self.state is LinkState.READY else LINK_TABLE[self.state]).get(message.type)
        try:
            wire.check_body(message, body)
        except FrameRefused as error:
            in_order = target is not None
            return self._refuse_body(message, body, error) if in_order else self._complain("bad_frame", str(error))
        if target is None:
            return self._complain("out_of_order", f"A {message.type} cannot come while the link is {self.state.value}.")
        self.state = target
        if target is LinkState.READY:
            self.journal_seq = max(self.journal_seq, vars(message).get("journal_seq") or 0)
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
        if now - self._pinged >= self._every:
            self._ping(now)
        return []

    def hurry(self, *, on: bool) -> None:
        """While a program runs, ping more often: so the time of the game is known, and that it stands still."""
        self._every = wire.RUN_PING_EVERY_S if on else wire.PING_EVERY_S

    def _ping(self, now: float) -> None:
        self._pings += 1
        self._pinged = now
        tells = self.hello is not None and wire.CLOCK in self.hello.capabilities
        where = self.hello is not None and wire.WHERE in self.hello.capabilities
        self._send(wire.Ping(n=self._pings, clock=True if tells else None, where=True if where else None))

    def probe(self, now: float) -> None:
        """Ping now: the answer is told as ``Alive``. Frames that were under way do not count as an answer."""
        if self.state is LinkState.READY:
            self._ping(now)
            self._probe = self._pings

    def next_timer(self) -> float | None:
        """When :meth:`tick` wants to be called next; None: never again."""
        if self.state is LinkState.CLOSED:
            return None
        if self.state is not LinkState.READY:
            return self._opened + wire.HELLO_WITHIN_S
        return min(self._heard + wire.SILENCE_S, self._pinged + self._every)

    # -- out -----------------------------------------------------------------------------

    def next_frame(self) -> bytes | None:
        """The next frame to write, handed out once; None: nothing goes now."""
        if self._out:
            return self._out.pop(0)
        if self._outbox is not None and self.state is not LinkState.CLOSED:
            return self._outbox.next_frame()
        return None

    def next_frames(self, size: int) -> list[bytes]:
        """The next frames, in order, until they have ``size`` bytes or more; of bodies in parts no more than that."""
        frames, self._out = self._out, []
        size -= sum(map(len, frames))
        while size > 0 and (frame := self.next_frame()) is not None:
            frames.append(frame)
            size -= len(frame)
        return frames

    def outgoing(self) -> list[bytes]:
        """All frames that may be written now, in order."""
        return list(iter(self.next_frame, None))

    def has_outgoing(self) -> bool:
        """Whether :meth:`next_frame` would answer a frame."""
        if self._out:
            return True
        return self._outbox is not None and self.state is not LinkState.CLOSED and self._outbox.ready()

    def handed(self) -> list[RunId]:
        """The calls in parts whose last frame was handed out since this was asked last."""
        return self._outbox.handed() if self._outbox is not None else []

    def receiving(self, run_id: RunId) -> bool:
        """Whether the result of this call has half come."""
        return self._inbox is not None and self._inbox.has(run_id)

    def drop(self, run_id: RunId) -> None:
        """Nobody waits for this call here any more: send no more parts of it."""
        if self._outbox is not None:
            self._outbox.drop(run_id)

    def welcome(
        self, *, number: int, computer: str, client: wire.Client | None = None, cell: wire.Cell | None = None
    ) -> None:
        """Take the computer in; its fence goes to ``number``. A link that closed meanwhile stays closed.

        ``client`` is told to a computer that replaces its client by itself, and to no other; ``cell``, where this one
        is, to a computer that dials cells.
        """
        if self.state is LinkState.CLOSED:
            return
        self.state = LinkState.READY
        can = () if self.hello is None else self.hello.capabilities
        offered = client if wire.UPDATE in can else None
        labels: Literal[True] | None = True if wire.LABELS in can else None
        self._send(
            wire.Welcome(
                number=number,
                computer=wire.to_wire(computer),
                labels=labels,
                client=offered,
                cell=cell if wire.CELLS in can else None,
            )
        )

    def refuse(self, *, code: str, message: str, remedy: str, cell: wire.Cell | None = None) -> None:
        """Turn the computer away, a welcome one too; the connection should be closed after what is outgoing.

        ``cell``: where it is served instead, which is told to a computer that dials cells.
        """
        can = () if self.hello is None else self.hello.capabilities
        shown, place = wire.to_wire(message)[:512], cell if wire.CELLS in can else None
        self._send(wire.Refused(code=code, message=shown, remedy=wire.to_wire(remedy)[:512], cell=place))
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
    ) -> bool:
        """Queue a call; ``body`` None: it has none. True: it goes in parts, see :meth:`handed`.

        Raises FrameRefused and queues nothing when the call is too large, or too large or too new for this computer.
        """
        self._check_known(method, params)
        if body is None:
            self._out.append(wire.call(run_id, task_id, number, method, params))
            return False
        message = wire.Call(
            call_id=run_id, task=task_id, number=number, method=method, params=dict(params), body=wire.whole(body)
        )
        if len(body) <= wire.MAX_BODY_BYTES:
            self._out.append(wire.encode(message, body))
            return False
        if self.hello is None or wire.CHUNKS not in self.hello.capabilities:
            raise FrameRefused(
                f"The body has {len(body)} bytes; the client on this computer takes {wire.MAX_BODY_BYTES} at most.",
                remedy="Install the client on it again from this orchestrator: newer ones take up to 2 MiB.",
            )
        if self._outbox is None:
            self._outbox = Outbox()
        self._outbox.add(message, body)
        return True

    def _check_known(self, method: str, params: Mapping[str, Any]) -> None:
        """Raises FrameRefused for what an older client does not have."""
        needed = {_NEEDS[name] for name in params if name in _NEEDS} | {method} - wire.FIRST_METHODS
        if not needed.issubset(() if self.hello is None else self.hello.capabilities):
            raise FrameRefused(
                "The client on this computer is too old for this: it was not sent.",
                remedy="Its user can update it: install it again from this orchestrator.",
            )

    def settle(self, *, number: int, run_ids: Sequence[RunId]) -> None:
        """Ask what became of runs; of calls among them that are half sent, no more is sent."""
        for run_id in run_ids:
            self.drop(run_id)
        self._send(wire.Settle(number=number, call_ids=tuple(run_ids)))

    def acknowledge(self, *, run_id: RunId, number: int) -> None:
        """Let the computer forget an outcome."""
        self._out.append(wire.result_ack(run_id, number))

    def keep_labels(self, n: int) -> None:
        """Let the computer forget the labels that it told up to this one: they are durable."""
        if self.state is LinkState.READY:
            self._send(wire.LabelKept(n=n))

    def tell(self, message: wire.Told | wire.Watch | wire.Look | wire.Keys, body: bytes = b"") -> None:
        """Answer a player at the computer, or ask for its screens; ``message`` describes ``body``."""
        if self.state is LinkState.READY:
            self._out.append(wire.encode(message, body))

    def close(self) -> None:
        """The connection is gone, or should be."""
        self.state = LinkState.CLOSED

    # -- inside --------------------------------------------------------------------------

    def _event(self, message: Any, body: bytes) -> list[LinkEvent]:
        match message:
            case wire.Result():
                return self._result(message, body)
            case wire.Ack():
                return []
            case wire.Chunk():
                return self._chunk(message, body)
            case wire.Settled():
                return self._settled(message, body)
            case wire.Complaint():
                return self._complained(message)
            case wire.Pong():
                return self._answered(message)
            case _:
                event = self._plain(message, body)
                return [] if event is None else [event]

    def _plain(self, message: Any, body: bytes) -> LinkEvent | None:
        """The meaning of a message that needs no answer and cannot be wrong."""
        event: LinkEvent | None = None
        match message:
            case wire.ChunkAck() if self._outbox is not None:
                event = Moved() if self._outbox.acknowledged(RunId(message.call_id)) else None
            case wire.Output():
                event = Output(RunId(message.call_id), message.body.offset, body)
            case wire.Desk():
                event = DeskAsked(message, body)
            case wire.Picture() | wire.Unseen() | wire.Screens() | wire.Keyed():
                event = Mirrored(message, body)
            case wire.Hello():
                self.hello = message
                event = Greeted(message)
            case wire.Label(n=n, label=label):
                event = Labelled(n, label)
            case wire.CallRefused():
                self.drop(RunId(message.call_id))
                event = Declined(RunId(message.call_id), message.code, wire.from_wire(message.message))
            case _:
                pass
        return event

    def _answered(self, message: wire.Pong) -> list[LinkEvent]:
        told: list[LinkEvent] = [Alive()] if message.n == self._probe else []
        if message.clock_ms is not None:
            told.append(Ticked(message.clock_ms))
        if message.fuel is not None or message.at is not None:
            told.append(Stands(message.fuel, message.fuel_limit, message.at, message.at_age_s or 0))
        return told

    def _result(self, message: wire.Result, body: bytes) -> list[LinkEvent]:
        run_id = RunId(message.call_id)
        if self._outbox is not None:
            self._outbox.drop(run_id)
        if message.body is None or message.body.total <= wire.MAX_BODY_BYTES:
            if self._inbox is not None:
                self._inbox.drop(run_id)
            return [Finished(run_id, message, body)]
        if self._inbox is None:
            self._inbox = Inbox()
        self._send(wire.ChunkAck(call_id=run_id, offset=len(body)))
        try:
            self._inbox.begin(message, body)
        except FrameRefused as error:
            return self._broken_result(run_id, error)
        return [Coming(run_id)]

    def _chunk(self, message: wire.Chunk, body: bytes) -> list[LinkEvent]:
        run_id = RunId(message.call_id)
        self._send(wire.ChunkAck(call_id=run_id, offset=message.body.offset + len(body)))
        if self._inbox is None:
            return []
        try:
            whole = self._inbox.go_on(message, body)
        except FrameRefused as error:
            return self._broken_result(run_id, error)
        if whole is not None:
            return [Finished(run_id, whole.message, whole.body)]
        return [Coming(run_id)] if self._inbox.has(run_id) else []

    def _settled(self, message: wire.Settled, body: bytes) -> list[LinkEvent]:
        try:
            return [SettledAll(message.number, wire.decode_settled(body))]
        except FrameRefused as error:
            return self._complain("bad_frame", str(error))

    def _complained(self, message: wire.Complaint) -> list[LinkEvent]:
        run_id = RunId(message.call_id) if message.call_id else None
        if run_id is not None:
            self.drop(run_id)
        return [Complained(message.code, wire.from_wire(message.message), run_id)]

    def _refuse_body(self, message: Any, body: bytes, error: FrameRefused) -> list[LinkEvent]:
        """The header is sound and the body is not: the complaint names the call, and its sender's window moves."""
        if message.type not in ("result", "chunk"):
            return self._complain("bad_frame", str(error), run_id=getattr(message, "call_id", None))
        described: wire.Body | None = message.body
        if described is not None and (message.type == "chunk" or described.total > wire.MAX_BODY_BYTES):
            self._send(wire.ChunkAck(call_id=message.call_id, offset=described.offset + len(body)))
        return self._broken_result(RunId(message.call_id), error)

    def _broken_result(self, run_id: RunId, error: FrameRefused) -> list[LinkEvent]:
        if self._inbox is not None:
            self._inbox.drop(run_id)
        return [*self._complain("bad_frame", str(error), run_id=run_id), Lost(run_id, str(error))]

    def _complain(
        self, code: str, message: str, *, run_id: RunId | None = None, fatal: bool = False
    ) -> list[LinkEvent]:
        self._complaints += 1
        self._send(wire.Complaint(code=code, message=wire.to_wire(message)[:512], call_id=run_id))
        if fatal or self._complaints > MAX_COMPLAINTS:
            return self._end(f"Too many broken frames; the last: {message}")
        return []

    def _end(self, reason: str) -> list[LinkEvent]:
        self.state = LinkState.CLOSED
        return [Ended(reason)]

    def _send(self, message: Any) -> None:
        self._out.append(wire.encode(message))
