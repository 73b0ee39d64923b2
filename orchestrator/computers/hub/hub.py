"""The hub: drives one link per connection and is the port ``Computers``.

Theory. A computer has at most one session; a newer connection replaces the older, unless it comes
from another boot while the older still answers: then two computers live with one identity, and both
are turned away until a person decides (:mod:`orchestrator.core.wire.identity`). A call's frames are
written once, on the session that is there when the call is made; when the session ends, its waits
end with ``CallLost`` and only a settle, on a later session, can tell what became of them. The same holds
among several nodes: who comes here while another node still has a session is asked about there
(``Elsewhere``), and where two nodes welcomed at once, the welcome with the higher number counts. The hub
knows nothing of tasks: what hello means for the journal is asked of ``Greeter``. An idle computer
costs no task of its own but the one that reads its socket: every deadline is the sweeper's.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import count

from orchestrator.computers.hub.admission import Admission
from orchestrator.computers.hub.calls import Calls, deliver
from orchestrator.computers.hub.known_computers import (
    JOURNAL_FAILED,
    MAKE_ROOM,
    Elsewhere,
    Greeter,
    Known,
    Met,
    Refusal,
    Refusals,
    Refused,
    Rival,
    Visitor,
    Yielded,
    copied_refusal,
    frozen_refusal,
    printable,
    refusal,
)
from orchestrator.computers.hub.mirror import Mirror
from orchestrator.computers.hub.session import Session
from orchestrator.computers.hub.socket import Socket, Traffic
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import ComputerInfo, PlayersDesk
from orchestrator.core.task.system_facts import ComputerFrozen
from orchestrator.core.wire import link_events as events
from orchestrator.core.wire import wire
from orchestrator.core.wire.identity import Heard, key_of, signed
from orchestrator.core.wire.link import LinkState
from orchestrator.core.wire.wire import ComputerId, RunId
from orchestrator.runtime.logs import about

logger = logging.getLogger(__name__)

ALIVE_WITHIN_S = 3.0
"""How long a computer may take to answer when another comes in its name: a few ticks of a lagging game."""
COMPUTER_PATH = "/computer"
_HUNG_UP = "the computer hung up"
_STOPS = "the orchestrator stops"
_REFUSED = "the computer was refused, and told why"


class Hub(Calls):
    """All connected computers of this node."""

    def __init__(
        self,
        greeter: Greeter,
        *,
        alive_within_s: float = ALIVE_WITHIN_S,
        client: wire.Client | None = None,
        update_secret: str = "",
        elsewhere: Elsewhere | None = None,
        players: Callable[[], PlayersDesk | None] = lambda: None,
        cell: wire.Cell | None = None,
    ) -> None:
        super().__init__()
        self._greeter = greeter
        self._elsewhere = elsewhere
        """The other nodes; None: there are none."""
        self._client = client
        """The Lua client that this server hands out; None: computers are not told of one."""
        self._update_secret = update_secret
        """The secret for the keys that prove this server to computers; empty: updates are not signed."""
        self._cell = cell
        """Where computers may dial this server without a router; None: it is no cell."""
        self.known = Known(greeter)
        """What each computer said, whether or not it is connected."""
        self._alive_within_s = alive_within_s
        self.refusals = Refusals()
        """The connections that were turned away last, with those that the endpoint adds."""
        self.admission = Admission()
        self.traffic = Traffic()
        self._players = players
        """Gives what answers the commands of players at the computers, once a computer comes; None: nobody does."""
        self.mirror = Mirror()
        """The screens that people watch."""
        self._places = count(1)
        self._greeting: defaultdict[ComputerId, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Two connections of one computer are greeted one after the other, or the dead one could win."""
        self._overtaken: dict[ComputerId, int] = {}
        """The numbers of welcomes elsewhere that were heard of while the computer was being greeted here."""
        self._greets_nobody = False
        """Whether the journal could not be asked the last time; that is logged once, however many dial."""

    # -- the port ------------------------------------------------------------------------

    def info(self, computer: ComputerId) -> ComputerInfo | None:
        """The known facts of a computer."""
        return self.known.info(computer, online=self.here(computer))

    @asynccontextmanager
    async def pinned(self, computers: Collection[ComputerId]) -> AsyncIterator[None]:
        """Nothing: a hub knows its own computers."""
        del computers
        yield

    async def find(self, computers: Collection[ComputerId]) -> None:
        """Nothing: a hub knows its own computers."""

    def list_computers(self) -> list[ComputerInfo]:
        """All computers that said hello since this node started."""
        return [info for computer in self.known.computers() if (info := self.info(computer)) is not None]

    def heard(self, computer: ComputerId) -> Heard:
        """The ``journal_seq`` that the computer has named."""
        session, heard = self._sessions.get(computer), self.known.heard(computer)
        if session is None:
            return heard
        boot = wire.from_wire(self.known.hello(computer).boot)
        return Heard(max(heard.journal_seq, session.link.journal_seq), boot)

    # -- the socket ----------------------------------------------------------------------

    async def serve(
        self, computer: ComputerId, socket: Socket, *, fingerprint: str = "", peer: str = "", token: str = ""
    ) -> None:
        """Serve one connection whose token belongs to ``computer``, until it is over.

        ``fingerprint``: a hash of that token, ``peer``: the address it comes from, ``token``: the token itself, which
        is left out of all that the computer says; empty: it is not known.
        """
        with about(computer=computer):
            await self._serve(computer, socket, fingerprint, peer, token)

    async def _serve(self, computer: ComputerId, socket: Socket, fingerprint: str, peer: str, token: str) -> None:
        session = Session(
            computer, socket, next(self._places), self._sweeper, self._tick, self.traffic, fingerprint, token
        )
        link, reason, listening = session.link, _HUNG_UP, False
        try:
            while listening or link.state is not LinkState.CLOSED:
                frame = await socket.receive()
                if frame is None:
                    break
                event = self._take(session, frame)
                if isinstance(event, events.Greeted):
                    await self._greet_or_refuse(
                        session, Visitor(computer, session.secrecy.of_hello(event.hello), fingerprint, peer)
                    )
                    reason = _REFUSED if link.state is LinkState.CLOSED else reason
                elif isinstance(event, events.Ended):
                    reason = event.reason
                session.write_soon()
                if link.state is LinkState.READY and session.direct is not None:
                    # Only a hello takes time, and a connection has one: the frames after it are dealt with at once.
                    # What comes here now is the end, perhaps in days: nothing of the hello is kept until then.
                    listening, frame, event = True, b"", None
                    session.direct.listen(partial(self._hear, session))
            else:
                self._gone(session, reason)
                await session.farewell()
        finally:
            self._gone(session, reason)
            await socket.close(1000 if reason == _HUNG_UP else 1008, reason[:100])

    async def close(self) -> None:
        """End every session, for a clean stop."""
        self.hurry_no_more()
        self.mirror.close()
        sessions = list(self._sessions.values())
        for session in sessions:
            session.write_now()
            self._gone(session, _STOPS)
        # All at once: one that takes nothing any more has some seconds.
        await asyncio.gather(*(session.socket.close(1001, _STOPS) for session in sessions))
        await self.known.kept()

    def _hear(self, session: Session, frame: bytes | str) -> None:
        """A frame of a computer that is welcome, handed over by its socket."""
        if session.link.state is LinkState.CLOSED:
            return
        event = self._take(session, frame)
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

    # -- hello ---------------------------------------------------------------------------

    async def _greet_or_refuse(self, session: Session, visitor: Visitor) -> None:
        """Greet a visitor; where the journal cannot be asked, it is turned away and dials again soon."""
        try:
            await self._greet(session, visitor)
        except OrchestratorError as error:
            self._refuse(session, Refusal(error.code, error.message, error.remedy), visitor.peer)
            if not self._greets_nobody:
                logger.warning("no computer can be greeted now: %s", error)
            self._greets_nobody = True
        else:
            self._greets_nobody = False

    async def _greet(self, session: Session, visitor: Visitor) -> None:
        computer, hello = visitor.computer, visitor.hello
        refused = refusal(hello)
        if refused is not None:
            self._refuse(session, refused, visitor.peer)
            return
        if self._elsewhere is not None:
            visitor = self._elsewhere.seat(visitor, self.known.coming(visitor))
        async with self._greeting[computer]:
            met = await self._meet(session, visitor)
            if met is None:
                return
            if met.copy_of is not None:
                self._refuse(session, copied_refusal(computer, met.copy_of, hello.computer_id), visitor.peer)
                return
            if met.frozen is not None:
                self._refuse(session, frozen_refusal(met.frozen), visitor.peer)
                return
            session.link.welcome(number=met.number, computer=computer, client=self._offer(visitor), cell=self._cell)
            session.watch()
            self._sessions[computer] = session
            self.known.welcomed(visitor, met)
            if session.link.state is LinkState.READY:
                # At once: a person who sees it online can watch it.
                self.mirror.opened(session)
            self._changed(computer)
            if self._overtaken.pop(computer, 0) > met.number:
                self._end_soon(session)
                return
        for run_id in await self._greeter.closed_runs(computer, [RunId(one) for one in hello.calls]):
            session.link.acknowledge(run_id=run_id, number=await self._greeter.number(computer))
        await session.flush()
        logger.info("computer %s is connected: %s, %s", computer, printable(wire.from_wire(hello.host)), hello.family)
        if met.renamed:
            await self._greeter.rejudge()
        await self._greeter.arrived(computer)
        players = self._players()
        if players is not None and wire.DESK in hello.capabilities and session.link.state is LinkState.READY:
            players.opened(session)

    def _offer(self, visitor: Visitor) -> wire.Client | None:
        """The client as it is offered to a visitor: signed for this very boot."""
        if self._client is None or not self._update_secret or not visitor.token:
            return self._client
        return signed(self._client, key_of(self._update_secret, visitor.token), wire.from_wire(visitor.hello.boot))

    async def _meet(self, session: Session, visitor: Visitor) -> Met | None:
        """The verdict on a visitor; None: a newer connection of the same computer is there already."""
        other = self._sessions.get(visitor.computer)
        if (copy_of := await self._copy_of(other, visitor)) is not None:
            return Met(copy_of=copy_of)
        if other is not None and self._may_be_two(other, session, visitor) and await other.lives(self._alive_within_s):
            frozen = await self._greeter.copied(visitor)
            self._turn_away(other, frozen_refusal(frozen))
            return Met(frozen=frozen)
        if not await self._replace(session):
            return None
        heard = self.known.heard(visitor.computer)
        if self._elsewhere is not None:
            there = await self._elsewhere.yields(visitor, session.now() - session.opened)
            if there.lives:
                frozen = await self._greeter.copied(visitor)
                await self._elsewhere.turn_away(frozen)
                return Met(frozen=frozen)
            if there.newer:
                await self._end_older(session)
                return None
            heard = there.heard if there.heard.boot else heard
        return await self._greeter.meet(visitor, heard=heard)

    async def _copy_of(self, other: Session | None, visitor: Visitor) -> int | None:
        """The id of the computer of which the visitor is a copy; asked first where that one may have a session.

        Without this the copy would replace the session before the journal judges it.
        """
        alone = other is None and self._elsewhere is None
        return None if alone else await self._greeter.copy_of(visitor)

    def _may_be_two(self, other: Session, session: Session, visitor: Visitor) -> bool:
        """Whether another boot of the same id comes while ``other`` is connected.

        A reboot looks the same until ``other`` is asked. Another id is judged by what the journal knows: a copied
        folder is turned away before.
        """
        hello = visitor.hello
        boot = wire.from_wire(hello.boot)
        return self._other_boot(visitor.computer, hello.computer_id, boot) and other.place < session.place

    def _other_boot(self, computer: ComputerId, computer_id: int, boot: str) -> bool:
        """Whether these are of another boot of the same id than the one that was welcome here last."""
        known = self.known.hello(computer)
        return known.computer_id == computer_id and wire.from_wire(known.boot) != boot

    def _refuse(self, session: Session, why: Refusal, peer: str) -> None:
        now = datetime.now(UTC)
        self.refusals.add(Refused(now, peer, COMPUTER_PATH, why.code, why.message, session.computer, why.remedy))
        session.link.refuse(code=why.code, message=why.message, remedy=why.remedy, cell=why.cell)

    def _turn_away(self, session: Session, why: Refusal) -> None:
        """End a session that was welcome."""
        session.link.refuse(code=why.code, message=why.message, remedy=why.remedy, cell=why.cell)
        self._gone(session, _REFUSED)
        session.spawn(self._hang_up(session, _REFUSED))

    async def _replace(self, session: Session) -> bool:
        """End the other session of this computer; False: the other is the newer, and this one ends."""
        other = self._sessions.get(session.computer)
        if other is None:
            return True
        older = session if other.place > session.place else other
        await self._end_older(older)
        return older is other

    async def _end_older(self, session: Session) -> None:
        self._gone(session, "a newer connection of the same computer replaced it")
        await session.socket.close(1008, "replaced by a newer connection")

    def _changed(self, computer: ComputerId) -> None:
        if self._elsewhere is not None:
            self._elsewhere.changed(computer)

    # -- what other nodes ask ------------------------------------------------------------

    async def yield_to(self, rival: Rival) -> Yielded:
        """End this node's session of a computer that came to another node; the facts that were heard are kept first.

        Nothing is locked meanwhile, or two nodes that greet one computer could wait for each other: where both
        welcome it, the number of the welcome decides (:meth:`drop`).
        """
        session = self._sessions.get(rival.computer)
        if session is not None:
            if session.now() - session.opened < rival.age_s:
                return Yielded(newer=True)
            other = self._other_boot(rival.computer, rival.computer_id, rival.boot)
            if other and await session.lives(self._alive_within_s):
                return Yielded(lives=True)
            self._end_soon(session)
        await self.known.kept()
        return Yielded(heard=self.known.heard(rival.computer))

    def turn_away(self, fact: ComputerFrozen) -> None:
        """A computer was frozen at another node.

        A computer that is connected here under its name is told so, and goes.
        """
        session = self._sessions.get(fact.computer)
        if session is not None:
            self._turn_away(session, frozen_refusal(fact))

    def drop(self, computer: ComputerId, number: int) -> None:
        """A computer was welcomed elsewhere with this number: a session here from before that is over."""
        session = self._sessions.get(computer)
        if session is not None and self.known.number(computer) < number:
            self._end_soon(session)
        elif session is None and self._greeting[computer].locked():
            # Its welcome may be on its way here, with a lower number.
            self._overtaken[computer] = max(number, self._overtaken.get(computer, 0))

    def greeting(self, computer: ComputerId) -> asyncio.Lock:
        """Held while a computer is being welcomed here: under it, the store and this node agree on a welcome."""
        return self._greeting[computer]

    def _end_soon(self, session: Session) -> None:
        self._gone(session, "a newer connection of the same computer at another node replaced it")
        session.spawn(session.socket.close(1008, "replaced by a newer connection"))

    def _gone(self, session: Session, reason: str) -> None:
        if self._sessions.get(session.computer) is session:
            del self._sessions[session.computer]
            logger.info("computer %s is gone: %s", session.computer, printable(reason), extra=session.log_extra)
            self.known.left(session.computer, session.link.journal_seq)
            # Before others are told, or what they have to show would be taken for this one's.
            self.mirror.closed(session)
            # First: a task that hears from the journal that it left asks any node whether it is there.
            self._changed(session.computer)
            self._greeter.left(session.computer)
        session.end(reason)
        if (players := self._players()) is not None:
            players.closed(session)

    def _take(self, session: Session, frame: bytes | str) -> events.Greeted | events.Ended | None:
        """Deal with one frame; a frame that concerns more than the session is answered."""
        answer = None
        self.traffic.came(frame)
        for event in session.link.receive(frame, session.now()):
            if isinstance(event, events.Greeted | events.Ended):
                answer = event
            elif isinstance(event, events.DeskAsked):
                self._ask_desk(session, event)
            elif isinstance(event, events.Labelled):
                self._labelled(session, event)
            elif isinstance(event, events.Mirrored):
                self.mirror.told(session, event.message, event.body)
            elif isinstance(event, events.Ticked):
                session.ticked(event.clock_ms)
            elif isinstance(event, events.Stands):
                if self.known.stands(session.computer, event):
                    self._changed(session.computer)
            elif isinstance(event, events.Complained) and event.code == JOURNAL_FAILED and event.run_id is None:
                self._writes_nothing(session, event)
            else:
                deliver(session, event)
        return answer

    def _labelled(self, session: Session, event: events.Labelled) -> None:
        """A computer has another label: the next call is judged by it, and what waits once it is kept."""
        self.known.labelled(session.computer, session.secrecy.of_label(event.label))
        self._changed(session.computer)
        session.spawn(self._keep_label(session, event.n))

    async def _keep_label(self, session: Session, n: int) -> None:
        computer = session.computer
        try:
            async with self._greeting[computer]:
                await self._greeter.labelled(computer, *self.known.labels(computer))
        except OrchestratorError as error:
            # The computer tells it again in its next session.
            logger.warning("a label of computer %s was not kept: %s", computer, error, extra=session.log_extra)
            return
        session.link.keep_labels(n)
        session.write_soon()

    def confirm_label(self, computer: ComputerId, label: str) -> None:
        """An admin confirmed a computer's label, and the store knows it."""
        self.known.confirmed(computer, label)
        if self.here(computer):
            self._changed(computer)

    def _writes_nothing(self, session: Session, event: events.Complained) -> None:
        """A computer that cannot write down its welcome hangs up and dials again, for ever: a person is told why."""
        said = printable(event.message)
        self.refusals.add(Refused(datetime.now(UTC), "", COMPUTER_PATH, event.code, said, session.computer, MAKE_ROOM))
        deliver(session, event)

    def _ask_desk(self, session: Session, event: events.DeskAsked) -> None:
        """Hand over an in-game command; one that fails is not felt by the link."""
        if (players := self._players()) is not None:
            try:
                players.asked(session, event.request, session.secrecy.of_typed(event.body))
            except Exception:
                logger.exception("an in-game command of computer %s failed", session.computer, extra=session.log_extra)
            else:
                return
        sentence = "Nobody can ask in the game here now. The orchestrator's log may say why."
        session.tell(wire.Told(desk=event.request.desk, ok=False, done=True, code="no_desk", message=sentence))
