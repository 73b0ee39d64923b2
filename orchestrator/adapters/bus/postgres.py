"""The bus of several nodes that share a PostgreSQL: LISTEN and NOTIFY, and three tables of the moment beside them."""

import asyncio
import contextlib
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from itertools import count
from typing import Any, Final
from uuid import uuid4

from orchestrator.adapters.bus.postgres_messages import (
    NO_SIGN_S,
    Frame,
    GivenBack,
    Outbox,
    Outgoing,
    Serves,
    Waiting,
    Working,
    heard,
    said,
    spilled,
)
from orchestrator.adapters.bus.postgres_session import LOSSES, Identity, Session, away
from orchestrator.adapters.bus.remote import RemoteBus
from orchestrator.core.errors import InvalidRequest, NobodyServes, RequestLost
from orchestrator.core.ports.bus import Answer
from orchestrator.runtime.clock import steady_s

# -- A node on the PostgreSQL bus: what it says and hears, over one connection after another

logger = logging.getLogger(__name__)

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0
"""Between attempts to connect again, doubling: a database that starts takes about a second."""
_TRIES: Final = 3
"""A request that is given back by a node that serves no longer is sent so often in all."""
_FAREWELL_S: Final = 3.0
"""A bus that is closed waits so long for what was published to be sent."""

Hears = Callable[[str, bytes], None]


class PostgresNetwork:
    """Carries notifications and requests of this node and theirs to it; connects again by itself, for ever.

    ``hears``: gets the notifications of other nodes; ``serves``: answers their requests; ``served``: their subjects.
    """

    def __init__(
        self, url: str, *, node: str, hears: Hears, serves: Serves, served: Callable[[], Collection[str]]
    ) -> None:
        self._url = url
        self._me = Identity(uuid4().hex[:16], node)
        self._hears = hears
        self._served = served
        self._ids = count()
        self._outbox = Outbox()
        self._waiting = Waiting()
        self._working = Working(serves)
        self._late: deque[Frame] = deque()
        self._session: Session | None = None
        self._running: asyncio.Task[None] | None = None
        self._closing = False
        self._aside: set[asyncio.Task[None]] = set()

    # -- its life -------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect. Raises BusAway or InvalidRequest, with what to do about it."""
        try:
            session = await self._connected()
        except (*LOSSES, ValueError) as error:
            raise away(self._url, error) from None
        self._running = asyncio.create_task(self._run(session))

    async def close(self, give_up: Callable[[], Awaitable[None]]) -> None:
        """Take nothing new, ``give_up`` what is worked on, say so, send what was published, and let go.

        Twice is harmless.
        """
        running, self._running = self._running, None
        if running is None:
            return
        self._closing, self._served = True, tuple
        self.declare()
        self._waiting.lose_all("This bus was closed.")
        await give_up()
        with contextlib.suppress(TimeoutError, RequestLost, *LOSSES):
            async with asyncio.timeout(_FAREWELL_S):
                await self._working.ended()
                await self.flush()
                if self._session is not None:
                    await self._session.leave()
        running.cancel()
        await self._working.give_up()
        await asyncio.gather(running, *self._aside, return_exceptions=True)

    @property
    def connected(self) -> bool:
        """Whether there is a connection that answered lately."""
        return self._session is not None

    async def _run(self, session: Session) -> None:
        while True:
            try:
                await session.run(self._outbox, self._served, self._each_beat)
            except* LOSSES as lost:
                said = away(self._url, lost.exceptions[0], connecting=False)
                logger.warning("the bus lost its database and connects again: %s", said)
            except* Exception:
                logger.exception("the bus connects again after a mistake of its own")
            finally:
                self._lost(session)
            session = await self._again()
            logger.info("the bus is connected to the database again")

    async def _connected(self) -> Session:
        session = Session(self._url, self._me, self._heard)
        try:
            await session.open()
            self._session = session
            await session.declare(self._served())
        except BaseException:
            self._lost(session)
            raise
        return session

    async def _again(self) -> Session:
        pause, told = _FIRST_PAUSE_S, ""
        while True:
            await asyncio.sleep(pause * random.uniform(0.5, 1))
            try:
                return await self._connected()
            except (*LOSSES, ValueError) as error:
                said = str(away(self._url, error))
                if said != told:
                    logger.warning("the bus has no database: %s", said)
                told = said
            except Exception:
                # A bus that gave up would stay away until the next start of the node.
                logger.exception("the bus connects again after a mistake of its own")
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _lost(self, session: Session) -> None:
        session.close()
        self._session = None
        self._outbox.refuse_requests()
        self._waiting.lose_all("The connection to the database was lost.")

    def _each_beat(self) -> None:
        for node, requests in self._working.signs():
            self._say(Frame("busy", self._me.key, self._new_id(), {"requests": requests}), node)
        self._waiting.give_up_silent()

    # -- what it says ---------------------------------------------------------------------

    def tell(self, subject: str, data: bytes) -> None:
        """Send a notification to the other nodes, as soon as may be."""
        frame = Frame("hint", self._me.key, self._new_id(), {"subject": subject}, data)
        text = said(frame)
        self._outbox.put(Outgoing(text or "", hint=True, large=frame if text is None else None))

    def declare(self) -> None:
        """What is served has changed: say so before what is sent after."""
        self._outbox.news.set()

    async def flush(self) -> None:
        """All of that was said. Raises RequestLost where that cannot be known."""
        if self._session is None:
            raise RequestLost("The database of the bus cannot be reached.")
        try:
            await self._sent(Outgoing())
        except NobodyServes as error:
            raise RequestLost(error.message) from None

    async def ask(self, subject: str, payload: Mapping[str, Any], body: bytes, within_s: float) -> Answer:
        """Ask one of the nodes that serve it. Raises NobodyServes and RequestLost as the port says."""
        until = steady_s() + within_s
        try:
            async with asyncio.timeout(within_s):
                for _ in range(_TRIES):
                    with contextlib.suppress(GivenBack):
                        return await self._ask_one({"subject": subject, "payload": payload}, body, until)
        except TimeoutError:
            raise RequestLost(f"{subject} did not answer within {within_s:g} s.") from None
        raise NobodyServes(f"Nobody serves {subject}.")

    async def _ask_one(self, head: Mapping[str, Any], body: bytes, until: float) -> Answer:
        request = self._new_id()
        answer = self._waiting.begin(request)
        try:
            session = await self._send_request(request, head, body, until)
            if session is not self._session:
                raise RequestLost("The connection to the database was lost.")
            self._waiting.sent(request)
            return await answer
        finally:
            self._waiting.end(request)

    async def _send_request(self, request: str, head: Mapping[str, Any], body: bytes, until: float) -> Session:
        """Send it to one who serves it; answers the connections by which its answer will come."""
        session = self._session
        if session is None:
            raise NobodyServes("The database of the bus cannot be reached.")
        # Of what is not begun by then, no sign of life comes in time: it is given up here.
        by = session.clock.earliest(min(until, steady_s() + NO_SIGN_S))
        head = {**head, "until": session.clock.earliest(until)}
        frame = Frame("ask", self._me.key, request, head, body, by)
        short = said(frame)
        try:
            text = short or spilled(frame, await session.spill(frame))
        except LOSSES:
            raise NobodyServes("The database of the bus went away.") from None
        if await self._sent(Outgoing(text, subject=head["subject"])) is None:
            if short is None:
                self._go_aside(session.drop(frame))
            raise NobodyServes(f"Nobody serves {head['subject']}.")
        return session

    async def _sent(self, message: Outgoing) -> str | None:
        message.sent = asyncio.get_running_loop().create_future()
        self._outbox.put(message)
        return await message.sent

    def _say(self, frame: Frame, node: str) -> None:
        text = said(frame)
        assert text is not None
        self._outbox.put(Outgoing(text, node=node))

    # -- what it hears --------------------------------------------------------------------

    def _heard(self, text: str) -> None:
        try:
            frame = heard(text)
        except (ValueError, KeyError, TypeError):
            logger.warning("something else than this bus speaks on its channel")
            return
        if frame.sender == self._me.key and frame.kind == "hint":
            return
        match frame.kind:
            case "hint":
                self._heard_hint(frame)
            case "ask" if self._closing:
                self._give_back(frame)
            case "ask":
                self._working.begin(frame, self._work(frame))
            case "answer" if frame.parts:
                self._go_aside(self._fetch_answer(frame))
            case "answer":
                self._waiting.answered(frame)
            case "busy":
                self._waiting.worked_on(frame.head["requests"])

    def _heard_hint(self, frame: Frame) -> None:
        # Notifications keep their order, so what comes after one that has to be fetched waits for it.
        if not frame.parts and not self._late:
            self._hears(frame.head["subject"], frame.body)
            return
        self._late.append(frame)
        if len(self._late) == 1:
            self._go_aside(self._hear_late())

    async def _hear_late(self) -> None:
        while self._late:
            try:
                frame = await self._whole(self._late[0])
                if frame is not None:
                    self._hears(frame.head["subject"], frame.body)
            except (ValueError, KeyError, TypeError):
                logger.warning("a hint could not be read")
            finally:
                self._late.popleft()

    async def _fetch_answer(self, frame: Frame) -> None:
        whole = await self._whole(frame)
        self._waiting.answered(whole or Frame("answer", frame.sender, frame.id, {"not": "there"}))

    async def _work(self, frame: Frame) -> None:
        whole = None if await self._is_over(frame.by) else await self._whole(frame)
        if whole is None or await self._is_over(whole.head["until"]):
            self._give_back(frame)
            return
        answer = await self._working.answer(whole, self._me.key)
        try:
            text = said(answer)
            if text is None and self._session is not None:
                text = spilled(answer, await self._session.spill(answer))
        except (TypeError, ValueError):
            logger.exception("%s answered what is no JSON", whole.head["subject"])
            text = said(Frame("answer", self._me.key, frame.id, {"not": "done"}))
        except LOSSES:
            return
        if text is not None:
            self._outbox.put(Outgoing(text, node=frame.sender))

    def _give_back(self, request: Frame) -> None:
        """Say that it was not begun here and will not be."""
        self._say(Frame("answer", self._me.key, request.id, {"not": "served"}), request.sender)

    async def _whole(self, frame: Frame) -> Frame | None:
        """The frame with what was spilled of it, or None where that cannot be had any more."""
        if not frame.parts:
            return frame
        try:
            return await self._session.fetch(frame) if self._session else None
        except LOSSES:
            return None

    async def _is_over(self, until: float) -> bool:
        """Whether the time of a request may be over, by the database's clock."""
        session = self._session
        if session is None:
            return True
        if not session.clock.fresh(steady_s()):
            try:
                await session.beat()
            except LOSSES:
                return True
        return session.clock.latest(steady_s()) >= until

    def _go_aside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(_unless_lost(work))
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    def _new_id(self) -> str:
        return f"{self._me.key}.{next(self._ids)}"


async def _unless_lost(work: Awaitable[None]) -> None:
    with contextlib.suppress(*LOSSES):
        await work


# -- The bus of several nodes that share a PostgreSQL: LISTEN and NOTIFY, and three tables of the moment beside
# them

MAX_BODY_BYTES: Final = 64 << 20
"""Of a request or an answer: more would be a transfer, and it would go through the database's memory whole."""
_AS_LONG_AS_IT_TAKES_S: Final = 86_400.0
"""What was begun for another node is finished, whoever still waits for it."""


class PostgresBus(RemoteBus):
    """A node on the bus of one database and schema, not open yet.

    ``url``: ``postgresql://…``; ``?search_path=NAME`` in it names the schema, which tells installations in one
    database apart. It takes two connections, and a third once something large is sent.
    """

    def __init__(self, url: str, *, node: str) -> None:
        super().__init__(node=node)
        self._network = PostgresNetwork(
            url, node=self.id, hears=self._hear_wanted, serves=self._serve, served=self._served_subjects.keys
        )

    async def open(self) -> None:
        """Connect. Raises BusAway and InvalidRequest, with what to do about it."""
        await self._network.open()

    async def close(self) -> None:
        """Send what was published, and let go."""
        await self._network.close(self._local.close)

    @property
    def connected(self) -> bool:
        """Whether there is a connection that answered lately."""
        return self._network.connected

    async def flush(self) -> None:
        """What was said before is on its way to every node. Raises RequestLost where that cannot be known."""
        await self._network.flush()

    def _tell(self, subject: str, data: bytes) -> None:
        self._network.tell(subject, data)

    async def _ask(self, subject: str, payload: Mapping[str, Any], body: bytes, within_s: float) -> Answer:
        if len(body) > MAX_BODY_BYTES:
            raise InvalidRequest(
                f"The bus carries {MAX_BODY_BYTES >> 20} MiB with a request; these are {len(body) >> 20} MiB.",
                remedy="Send it in parts.",
            )
        return await self._network.ask(subject, payload, body, within_s)

    def _listen(self, subject: str) -> None:
        """All nodes hear all notifications."""

    def _unlisten(self, subject: str) -> None:
        """All nodes hear all notifications."""

    def _offer(self, subject: str) -> None:
        self._network.declare()

    def _withdraw(self, subject: str) -> None:
        self._network.declare()

    def _hear_wanted(self, subject: str, data: bytes) -> None:
        if self._heard_subjects[subject]:
            self._hear(subject, data)

    async def _serve(self, subject: str, payload: Mapping[str, Any], body: bytes) -> Answer:
        answer = await self._local.request(subject, payload, body, within_s=_AS_LONG_AS_IT_TAKES_S)
        if len(answer.body) > MAX_BODY_BYTES:
            raise RequestLost(f"The answer of {subject} is too large for the bus: {len(answer.body)} bytes.")
        return answer
