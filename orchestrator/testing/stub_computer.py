"""A computer in pure Python: for tests, for trying the server without the game, for authors of clients.

It speaks the whole protocol of docs/protocol.md section 1 over a real WebSocket, with a journal, files and
programs in memory. It runs no Lua: see :mod:`orchestrator.testing.stub_programs`.
"""

import asyncio
import json
import logging
import random
import secrets
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from orchestrator.core.errors import FrameRefused
from orchestrator.core.wire import wire
from orchestrator.core.wire.link import MAX_COMPLAINTS
from orchestrator.core.wire.link_events import Inbox, Outbox
from orchestrator.core.wire.wire import RunId, to_wire
from orchestrator.testing.stub_calls import StubCalls
from orchestrator.testing.stub_disk import CAPACITY_BYTES, Answer, StubDisk
from orchestrator.testing.stub_programs import Program, StubPeripheral, StubPeripherals, StubPrograms, StubScreen

logger = logging.getLogger(__name__)

FIRST_DELAY_S: Final = 1.0
LONGEST_DELAY_S: Final = 12.0
_EARLY: Final = ("welcome", "refused", "ping", "error")
"""Messages that may come before ``welcome``."""


class StubComputer:
    """One stub: :meth:`run` keeps it connected. ``url`` is the server's, with or without ``/computer``."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        files: Mapping[str, bytes] | None = None,
        computer_id: int = 1,
        label: str | None = None,
        family: wire.Family = "computer",
        programs: Mapping[str, Program] | None = None,
        peripherals: Mapping[str, StubPeripheral] | None = None,
    ) -> None:
        self._url = f"{url.replace('http', 'ws', 1).rstrip('/').removesuffix('/computer')}/computer"
        self._token = token
        self._computer_id = computer_id
        self._label = label
        self._renamed = 0
        self._family = family
        self._boot = secrets.token_hex(8)
        self._booted = time.monotonic()
        self._connection: _Connection | None = None
        self._running: set[asyncio.Task[None]] = set()
        self.disk = StubDisk({to_wire(path): data for path, data in (files or {}).items()})
        runs = StubPrograms(self.disk, {to_wire(path): program for path, program in (programs or {}).items()})
        self._peripherals = StubPeripherals(peripherals or {})
        self.calls = StubCalls(self, self.disk, runs, self._peripherals, {"info": self._info, "label": self._label_of})
        self.screen = StubScreen()
        """Its terminal, which people can watch and type at."""
        self.welcomed = asyncio.Event()
        """Set while the computer is connected and welcome."""
        self.refused = False
        """Whether the server refused the computer the last time; it tries again at the longest delay."""
        self._again_s: int | None = None
        """After how many seconds the server told it to dial again; None: it told nothing."""

    async def run(self) -> None:
        """Stay connected until canceled, dialing again after 1 s, doubling to 12 s, with full jitter.

        After a refusal that says when to come again it dials then, a second sooner or later.
        """
        delay = FIRST_DELAY_S
        try:
            while True:
                if await self._once():
                    delay = FIRST_DELAY_S
                elif self.refused:
                    delay = LONGEST_DELAY_S
                if self._again_s is not None:
                    await asyncio.sleep(random.uniform(max(0, self._again_s - 1), self._again_s + 1))
                    continue
                await asyncio.sleep(random.uniform(0, delay))
                delay = min(delay * 2, LONGEST_DELAY_S)
        finally:
            for task in self._running:
                task.cancel()

    def send(self, message: Any, body: bytes = b"") -> None:
        """Send on the present connection; without one it is lost, and a settle asks again."""
        if self._connection is not None:
            self._connection.send(message, body)

    def rename(self, label: str | None) -> None:
        """Set the label and tell it; None: it has none."""
        self._label = label
        self._renamed += 1
        told = None if label is None else to_wire(label)
        self.send(wire.Label(journal_seq=self.calls.seq, n=self._renamed, label=told))

    def start(self, call: wire.Call, body: bytes | None) -> None:
        """Take a call; a run goes on when the connection ends."""
        task = asyncio.get_running_loop().create_task(self.calls.take(call, body))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _once(self) -> bool:
        """One connection, to its end; whether it was welcomed."""
        welcome, self._again_s = False, None
        try:
            async with connect(
                f"{self._url}?n={secrets.token_hex(8)}",
                additional_headers={"Authorization": f"Bearer {self._token}"},
                subprotocols=[Subprotocol(wire.COMPUTER_SUBPROTOCOL)],
                compression=None,
                ping_interval=None,
                proxy=None,
            ) as socket:
                self._connection = _Connection(self, socket, self.hello())
                await self._connection.serve()
        except (OSError, WebSocketException, TimeoutError) as error:
            told = error.response.headers.get("Retry-After", "") if isinstance(error, InvalidStatus) else ""
            self._again_s = int(told) if told.isdecimal() else None
            logger.info("stub computer %s: %s", self._computer_id, str(error) or type(error).__name__)
        finally:
            welcome = self.welcomed.is_set()
            self.welcomed.clear()
            self._connection = None
            self.screen.disconnected()
        return welcome

    def hello(self) -> wire.Hello:
        """How the computer introduces itself now."""
        return wire.Hello(
            protocol=wire.PROTOCOL_VERSION,
            computer_id=self._computer_id,
            label=None if self._label is None else to_wire(self._label),
            host="stub",
            family=self._family,
            boot=self._boot,
            client="stub",
            capabilities=(
                wire.CHUNKS,
                wire.INPUT,
                wire.KEYS,
                wire.MIRROR,
                wire.OBSERVE,
                wire.SCREEN_OF,
                "label",
                "peripheral_call",
            ),
            highest=self.calls.highest,
            journal_seq=self.calls.seq,
            found_seq=self.calls.found_seq,
            calls=tuple(self.calls.entries),
        )

    def _info(self, params: dict[str, Any]) -> Answer:
        del params
        up = time.monotonic() - self._booted
        data: dict[str, Any] = {"free": self.disk.free(), "capacity": CAPACITY_BYTES, "uptime_s": int(up)}
        data |= {"id": self._computer_id, "family": self._family, "host": "stub"}
        data |= {"day": 1 + int(up) // 1200, "time": int(up * 1.2) % 1440}
        if self._family == "turtle":
            data |= {"fuel": -1, "fuel_limit": 20000, "selected": 1}
        if self._label is not None:
            data["label"] = to_wire(self._label)
        return Answer(data, json.dumps(self._peripherals.entries(), separators=(",", ":")).encode("ascii"))

    def _label_of(self, params: dict[str, Any]) -> Answer:
        """Read the label, or set it and tell the new one first, as the client does."""
        before = {} if self._label is None else {"before": to_wire(self._label)}
        if "name" in params:
            self.rename(params["name"])
        return Answer(before)


class _Connection:
    """One connection of a stub: frames in and out, bodies in parts both ways."""

    def __init__(self, computer: StubComputer, socket: ClientConnection, hello: wire.Hello) -> None:
        self._computer = computer
        self._calls = computer.calls
        self._socket = socket
        self._out: deque[bytes] = deque([wire.encode(hello)])
        self._outbox, self._inbox = Outbox(), Inbox()
        self._settled: list[tuple[set[RunId], bytes]] = []
        """Answers to settles, and the calls whose results have to be out before."""
        self._wake = asyncio.Event()
        self._broken = 0
        self._silence_s = wire.SILENCE_S

    async def serve(self) -> None:
        """Talk until the connection is over; raises whatever ended it."""
        writer = asyncio.get_running_loop().create_task(self._write())
        try:
            while self._broken <= MAX_COMPLAINTS:
                async with asyncio.timeout(self._silence_s):
                    frame = await self._socket.recv()
                self._receive(frame)
        finally:
            writer.cancel()

    def send(self, message: Any, body: bytes = b"") -> None:
        """Queue a message, in parts where its body is large."""
        if len(body) > wire.MAX_BODY_BYTES:
            if not self._outbox.has(message.call_id):
                self._outbox.add(message, body)
        else:
            self._out.append(wire.encode(message, body))
        self._wake.set()

    # -- writing -------------------------------------------------------------------------

    async def _write(self) -> None:
        while True:
            self._release()
            frame = self._out.popleft() if self._out else self._outbox.next_frame()
            if frame is None:
                self._wake.clear()
                await self._wake.wait()
            else:
                await self._socket.send(frame)

    def _release(self) -> None:
        """Queue the answers to settles whose results are out."""
        ready = [frame for ids, frame in self._settled if not any(self._outbox.has(one) for one in ids)]
        if ready:
            self._settled = [one for one in self._settled if one[1] not in ready]
            self._out.extend(ready)

    # -- reading -------------------------------------------------------------------------

    def _receive(self, frame: bytes | str) -> None:
        if isinstance(frame, str):
            self._complain("bad_frame", "A frame must be binary.")
            return
        call_id = None
        try:
            message, body = wire.read_any(frame)
            call_id = getattr(message, "call_id", None)
            if not self._computer.welcomed.is_set() and message.type not in _EARLY:
                self._complain("not_welcomed", f"A {message.type} came before welcome.", call_id)
                return
            wire.check_body(message, body)
            self._handle(message, body)
        except FrameRefused as error:
            self._complain("bad_frame", error.message, call_id)

    def _handle(self, message: Any, body: bytes) -> None:
        match message:
            case wire.Call():
                self._call(message, body)
            case wire.Chunk():
                self._chunk(message, body)
            case wire.ChunkAck():
                self._outbox.acknowledged(RunId(message.call_id))
                self._wake.set()
            case wire.Settle():
                self._settle(message)
            case wire.ResultAck():
                self._acknowledged(message)
            case wire.Watch() | wire.Look() | wire.Keys():
                self._computer.screen.take(self._computer, message, body, self._calls.seq)
            case wire.LabelKept():
                pass  # The next session tells the label anyway.
            case wire.Ping():
                self.send(wire.Pong(journal_seq=self._calls.seq, n=message.n))
            case wire.Welcome():
                self._calls.raise_fence(message.number)
                self._calls.found_seq = None
                self._silence_s = max(1, message.silence_s)
                self._computer.refused = False
                self._computer.welcomed.set()
            case wire.Refused():
                logger.warning("stub computer refused: %s %s", message.message, message.remedy)
                self._computer.refused = True
            case wire.Complaint():
                logger.warning("the orchestrator says %s: %s", message.code, message.message)
            case _:
                raise FrameRefused(f"A {message.type} is not for a computer.")

    def _acknowledged(self, message: wire.ResultAck) -> None:
        self._outbox.drop(RunId(message.call_id))
        if not self._calls.acknowledge(message):
            self._complain("not_forgotten", "This call is still running.", message.call_id)

    def _call(self, call: wire.Call, body: bytes) -> None:
        if call.body is None or call.body.total <= wire.MAX_BODY_BYTES:
            self._computer.start(call, body if call.body is not None else None)
            return
        self._took(call.call_id, len(body))
        self._inbox.begin(call, body)

    def _chunk(self, chunk: wire.Chunk, body: bytes) -> None:
        self._took(chunk.call_id, chunk.body.offset + len(body))
        whole = self._inbox.go_on(chunk, body)
        if whole is not None:
            self._computer.start(whole.message, whole.body)

    def _took(self, call_id: str, offset: int) -> None:
        self.send(wire.ChunkAck(journal_seq=self._calls.seq, call_id=call_id, offset=offset))

    def _settle(self, settle: wire.Settle) -> None:
        settled, body = self._calls.settle(settle)
        finished = {RunId(one) for one in settle.call_ids if self._calls.finished(RunId(one))}
        for one in settle.call_ids:
            self._inbox.drop(one)
        for run_id in finished:
            self._calls.say(run_id)
        self._settled.append((finished, wire.encode(settled, body)))
        self._wake.set()

    def _complain(self, code: str, message: str, call_id: str | None = None) -> None:
        self._broken += 1
        self.send(wire.Complaint(code=code, message=to_wire(message)[:512], call_id=call_id))
