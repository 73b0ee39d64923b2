"""The port ``Computers`` over all nodes: this node's own sockets first, else the node that has the computer.

Theory. A call's frame is written to a socket at most once, also among several nodes. A request on the bus is sent
once, to the node that presence names. That node writes the frame, or says that the computer is not there, and only
then, or where nobody got the request at all (``NobodyServes``), another node is asked or the call counts as away: no
frame was written. Whatever else goes wrong (``RequestLost``, a node that is gone, an answer that cannot be read) is
``CallLost``, and only a settle can tell what became of the run. A request that comes late, after its asker gave up, is
a frame that comes late: the settle that followed raised the computer's fence above its number, so the client refuses
it; and where nobody has settled yet, the settle that will finds the run in the computer's journal, as it would have
had the answer been lost on the way. A look outside any bracket changes nothing whenever it comes.
"""

import asyncio
import base64
import binascii
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar

from orchestrator.computers.hub import Hub, Socket
from orchestrator.computers.hub.calls import UNHURRIED_S
from orchestrator.computers.nodes.messages import (
    LabelConfirmed,
    OutputTold,
    SettleAsked,
    acks_to,
    output_of,
    requests_to,
)
from orchestrator.computers.nodes.screens import Screens
from orchestrator.computers.nodes.seats import Found, Seats
from orchestrator.computers.nodes.server import answered, called, settled_of
from orchestrator.computers.nodes.table import Event, NodeWent, Presence
from orchestrator.core.errors import (
    CallLost,
    CallVoid,
    ComputerAway,
    InvalidRequest,
    NobodyServes,
    OrchestratorError,
    RequestLost,
)
from orchestrator.core.ports import Answer, CallResult, ComputerInfo, Settlement
from orchestrator.core.ports.bus import End
from orchestrator.core.ports.computers import NOBODY, OnOutput
from orchestrator.core.wire.identity import NOTHING_HEARD, Heard
from orchestrator.core.wire.wire import ComputerId, RunId

SLACK_S: Final = 120.0
"""Beyond what the computer gets: bodies go and come in parts, each of which may take a minute. A node that is gone is
noticed within seconds all the same."""
IN_GAME_S: Final = 86_400.0
"""How long the run of a program is waited for: the node that has the computer counts its limit in time of the game,
which may be paused. A node that is gone is noticed here, too."""
HELD_EVERY_S: Final = 60.0
"""How often a node is asked whether it has a program that is waited for. A bus may lose a request, or its answer."""
HELD_WITHIN_S: Final = 10.0
CONFIRM_WITHIN_S: Final = 5.0
"""A node only notes it."""
SETTLE_WITHIN_S: Final = 60.0
"""As a hub waits for a settle; runs that still go on extend it there, and what takes longer is asked again."""


T = TypeVar("T")
Read = Callable[[Answer], tuple[T, Heard]]
"""Reads another node's answer, and what that node has heard of the computer; raises what it came to."""


class Fleet:
    """The computers of all nodes."""

    def __init__(self, hub: Hub, presence: Presence, seats: Seats) -> None:
        self.hub = hub
        self.seats = seats
        """Where the computers are."""
        self.mirror = hub.mirror
        """The screens that people watch here, wherever the computers are."""
        self.refusals = hub.refusals
        """The connections that this node turned away."""
        self.admission = hub.admission
        self._presence = presence
        self._bus = presence.bus
        self._heard: dict[ComputerId, Heard] = {}
        """What came with the answers of other nodes, of computers that are pinned."""
        self._asking: dict[asyncio.Task[Any], str] = {}
        """The waiting requests, each with its node; when a node is gone, its waits are taken out and cancelled."""
        self._acks: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        """What goes with the next request to each node, or when the timer comes: a message of its own costs as much
        as a call. Each as `acks_of` reads it."""
        self._timer: asyncio.TimerHandle | None = None
        presence.on_event(self._happened)
        self.screens = Screens(hub, presence, self.request)
        """How :attr:`mirror` sees the computers of other nodes."""

    async def serve(
        self, computer: ComputerId, socket: Socket, *, fingerprint: str = "", peer: str = "", token: str = ""
    ) -> None:
        """Serve one connection of a computer at this node, as its hub does."""
        await self.hub.serve(computer, socket, fingerprint=fingerprint, peer=peer, token=token)

    # -- what is known -------------------------------------------------------------------

    def info(self, computer: ComputerId) -> ComputerInfo | None:
        """The known facts of a computer of this node, or of a pinned one, wherever it is or was last."""
        mine = self.hub.info(computer)
        if mine is not None and mine.online:
            return mine
        place = self._presence.table.place(computer)
        if place is None:
            return mine
        latest = mine is None or place.seat.number > self.hub.known.number(computer)
        return self._presence.table.info(place) if latest else mine

    @asynccontextmanager
    async def pinned(self, computers: Collection[ComputerId]) -> AsyncIterator[None]:
        """Know where these computers are while this is open. Raises StoreAway."""
        try:
            async with self.seats.pinned(computers):
                yield
        finally:
            for one in computers:
                if not self._presence.table.is_pinned(one):
                    self._heard.pop(one, None)

    async def find(self, computers: Collection[ComputerId]) -> None:
        """Read anew where these pinned computers are. Raises StoreAway."""
        await self.seats.find([one for one in computers if not self.hub.here(one)])

    async def look(self, computers: Collection[ComputerId]) -> dict[ComputerId, Found]:
        """What is known of these computers now, pinned or not. Raises StoreAway."""
        return await self.seats.look(computers)

    def heard(self, computer: ComputerId) -> Heard:
        """The highest ``journal_seq`` that the computer has named, as far as this node has heard."""
        return self.hub.heard(computer) if self.hub.here(computer) else self._heard.get(computer, NOTHING_HEARD)

    async def confirm_label(self, computer: ComputerId, label: str) -> None:
        """An admin confirmed a computer's label, and the store knows it: so does the node that has it from here on.

        A node that cannot be asked goes on with the former labels until the computer says hello again.
        """
        self.hub.confirm_label(computer, label)
        async with self.pinned([computer]):
            place = None if self.hub.here(computer) else self._presence.table.connected(computer)
            if place is not None:
                payload = {"op": "confirm_label", **LabelConfirmed(computer=computer, label=label).told()}
                with suppress(NobodyServes, RequestLost, InvalidRequest):
                    await self.request(place.node, payload, within_s=CONFIRM_WITHIN_S)

    # -- what is asked -------------------------------------------------------------------

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
        """Have the call's frame written, once, wherever the computer is, and wait for its outcome."""
        here = partial(
            self.hub.call,
            computer,
            run_id=run_id,
            task_id=task_id,
            number=number,
            method=method,
            params=params,
            body=body,
            wait_s=wait_s,
            on_output=on_output,
        )
        if self.hub.here(computer):
            return await here()
        # As `call_asked` reads it.
        asked = {
            "op": "call",
            "computer": computer,
            "run_id": run_id,
            "task_id": task_id,
            "number": number,
            "method": method,
            "params": params,
            "has_body": body is not None,
            "wait_s": wait_s,
            "output": on_output is not None,
        }
        ended = self._hear_output(run_id, on_output) if on_output is not None else None
        try:
            if "timeout_s" in params:
                there = await self._ask_for_program(computer, run_id, asked, body or b"")
            else:
                there = await self._ask_holder(computer, called, asked, body or b"", wait_s + SLACK_S)
        finally:
            if ended is not None:
                ended()
        return await here() if there is None else there

    async def settle(
        self,
        computer: ComputerId,
        *,
        run_ids: Sequence[RunId],
        number: int,
        on_output: Mapping[RunId, OnOutput] = NOBODY,
    ) -> dict[RunId, Settlement]:
        """Have the computer's fence raised, wherever it is, and hear what became of runs."""
        there = None
        if not self.hub.here(computer):
            settle = SettleAsked(computer=computer, run_ids=tuple(run_ids), number=number, output=tuple(on_output))
            asked = {"op": "settle", **settle.told()}
            ends = [self._hear_output(run_id, told) for run_id, told in on_output.items()]
            try:
                there = await self._ask_holder(computer, settled_of, asked, b"", SETTLE_WITHIN_S + SLACK_S)
            except (CallVoid, InvalidRequest) as refused:
                raise CallLost(f"The node that has computer {computer} could not settle: {refused.message}") from None
            finally:
                for end in ends:
                    end()
        if there is None:
            return await self.hub.settle(computer, run_ids=run_ids, number=number, on_output=on_output)
        missing = [run_id for run_id in run_ids if run_id not in there]
        if missing:
            raise CallLost(f"Another node did not say what became of {', '.join(missing)}.")
        return there

    def acknowledge(self, computer: ComputerId, run_id: RunId, number: int) -> None:
        """Let the computer forget an outcome; a notification, and when it is lost its next hello asks again."""
        place = None if self.hub.here(computer) else self._presence.table.connected(computer)
        if place is None:
            self.hub.acknowledge(computer, run_id, number)
        else:
            self._acks[place.node].append({"computer": computer, "run_id": run_id, "number": number})
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(UNHURRIED_S, self._send_acks)

    # -- inside --------------------------------------------------------------------------

    async def _ask_holder(
        self, computer: ComputerId, read: Read[T], asked: Mapping[str, Any], body: bytes, within_s: float
    ) -> T | None:
        """The answer of the node that has a computer that is not here; None: now it is, and no other was given a frame.

        Raises ComputerAway, CallVoid, ComputerFailed, CallLost.
        """
        async with self.pinned([computer]):
            return await self._asked(computer, read, asked, body, within_s)

    async def _asked(
        self, computer: ComputerId, read: Read[T], asked: Mapping[str, Any], body: bytes, within_s: float
    ) -> T | None:
        tried: set[tuple[str, int]] = set()
        while (place := self._presence.table.connected(computer)) is not None:
            at = (place.node, place.seat.number)
            if at in tried:
                break
            tried.add(at)
            try:
                told, self._heard[computer] = read(await self.request(place.node, asked, body, within_s=within_s))
            except (ComputerAway, NobodyServes):
                # Not there: no frame was written. Meanwhile the store may know it somewhere else.
                self._presence.absent(place.node, computer, place.seat.number)
                with suppress(OrchestratorError):
                    await self.seats.find([computer])
            except RequestLost as lost:
                raise CallLost(f"The node that has computer {computer} did not answer: {lost.message}") from lost
            else:
                return told
            if self.hub.here(computer):
                return None
        raise ComputerAway(
            f"Computer {computer} is away.",
            remedy="Its chunk may be unloaded or it may be off; what needs it waits.",
        )

    async def _ask_for_program(
        self, computer: ComputerId, run_id: RunId, asked: Mapping[str, Any], body: bytes
    ) -> CallResult | None:
        """As `_ask_holder`, for as long as a program may run, and no longer than its node has it."""
        asking = asyncio.ensure_future(self._ask_holder(computer, called, asked, body, IN_GAME_S))
        missed = 0
        try:
            while not (await asyncio.wait([asking], timeout=HELD_EVERY_S))[0]:
                missed = 0 if await self._is_held(computer, run_id) else missed + 1
                # Once may be an answer that is on its way.
                if missed > 1 and not asking.done():
                    raise CallLost(f"The node that has computer {computer} does not have this call, or has it no more.")
            return asking.result()
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _is_held(self, computer: ComputerId, run_id: RunId) -> bool:
        """Whether the node that has a computer waits for a run of it, as far as it can be asked."""
        place = self._presence.table.connected(computer)
        if place is None:
            return True
        try:
            payload = {"op": "held", "run_id": run_id}
            return bool(answered(await self.request(place.node, payload, within_s=HELD_WITHIN_S)).data.get("held"))
        except OrchestratorError:
            # An older node does not know the question.
            return True

    async def request(self, node: str, payload: Mapping[str, Any], body: bytes = b"", *, within_s: float) -> Answer:
        """Ask a node, for as long as it is there. Raises NobodyServes, RequestLost."""
        acks = self._acks.pop(node, None)
        if acks:
            payload = {**payload, "acks": acks}
        task = asyncio.current_task()
        assert task is not None
        others = task.cancelling()
        self._asking[task] = node
        try:
            return await self._bus.request(requests_to(node), payload, body, within_s=within_s)
        except asyncio.CancelledError:
            if task in self._asking or task.uncancel() > others:
                raise
            raise RequestLost(f"Node {node} is gone.") from None
        finally:
            self._asking.pop(task, None)

    def _send_acks(self) -> None:
        waiting, self._timer = dict(self._acks), None
        self._acks.clear()
        for node, acks in waiting.items():
            self._bus.publish(acks_to(node), {"acks": acks})

    def _happened(self, event: Event) -> None:
        if isinstance(event, NodeWent):
            for task in [task for task, node in self._asking.items() if node == event.node]:
                del self._asking[task]
                task.cancel()

    def _hear_output(self, run_id: RunId, on_output: OnOutput) -> End:
        def heard(payload: Mapping[str, Any]) -> None:
            try:
                told = OutputTold.read(payload)
                data = base64.b64decode(told.data, validate=True)
            except (InvalidRequest, binascii.Error):
                return
            on_output(told.offset, data)

        return self._bus.subscribe(output_of(run_id), heard)
