"""One connection of one computer: the calls that wait on it, and its only writer."""

import asyncio
import json
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final, cast

from pydantic_core import to_json

from orchestrator.computers.hub.socket import DirectSocket, GameClock, Socket, Sweeper, Traffic, Wait
from orchestrator.core.errors import CallLost, ComputerFailed
from orchestrator.core.ports import CallResult
from orchestrator.core.ports.computers import OWN_TOKEN, OnOutput
from orchestrator.core.wire import wire
from orchestrator.core.wire.link import ComputerLink, LinkState
from orchestrator.core.wire.own_token import Watched
from orchestrator.core.wire.wire import ComputerId, RunId

# -- A computer's own token in what the computer says: it stays where it comes in --------
#
# The output of a program is changed here, character for character, so that all positions in it stay. The bytes of a
# file must stay as they are, since a change of the file begins with them. A result names the pieces of the token in
# them, and code that makes a text of the bytes leaves these pieces out.

_ESCAPED: Final = re.compile(r"\\(?:u[0-9a-f]{4}|.)")
_AT_ONCE: Final = 64 * 1024
"""Bytes that are looked through on the event loop: some milliseconds."""


class Secrecy:
    """What one computer says, without its token."""

    __slots__ = ("_clean", "_printed", "_streamed")

    def __init__(self, token: str) -> None:
        self._clean = ""
        """The sha256 of the last body in which no piece was: files are read again, in parts, and after a change."""
        self._printed = Watched(token)
        """What its programs printed, call after call."""
        self._streamed = Watched(token)
        """The same while they ran."""

    def part(self, data: bytes) -> bytes:
        """A part of what a running program wrote."""
        return _starred(self._streamed, data)

    def of_hello(self, hello: wire.Hello) -> wire.Hello:
        """An introduction: any program can set the label that is in it."""
        label, host = self.of_label(hello.label), self._printed.starred(hello.host)
        if (label, host) == (hello.label, hello.host):
            return hello
        return hello.model_copy(update={"label": label, "host": host})

    def of_label(self, label: str | None) -> str | None:
        """A label that is told later."""
        return None if label is None else self._printed.starred(label)

    def of_typed(self, body: bytes) -> bytes:
        """The text of an in-game command."""
        return self._printed.starred(body.decode("latin-1")).encode("latin-1")

    async def of_result(self, result: CallResult) -> CallResult:
        """What a computer answered."""
        data, body = await self._without(result.data, result.body, result.sha256)
        return result if data is result.data else CallResult(data, body)

    async def of_failure(self, error: ComputerFailed) -> ComputerFailed:
        """What a computer failed with."""
        message = self._printed.starred(error.message)
        data, body = await self._without(error.data, error.body)
        if message == error.message and data is error.data:
            return error
        return ComputerFailed(error.reason, message, data, body)

    async def _without(self, data: dict[str, Any], body: bytes, sha256: str = "") -> tuple[dict[str, Any], bytes]:
        """The same where nothing of the token is in it; of the data another object where something is.

        ``sha256`` is of the body; empty: not known.
        """
        if len(body) <= _AT_ONCE:
            return self._looked(data, body, sha256)
        return await asyncio.to_thread(self._looked, data, body, sha256)

    def _looked(self, data: dict[str, Any], body: bytes, sha256: str) -> tuple[dict[str, Any], bytes]:
        pieces = self._printed.pieces(_told(data))
        if "ended" in data:
            # Only a program ends, and its body is for people and the model alone.
            printed = _starred(self._printed, body)
            if printed != body or pieces:
                return {**data, OWN_TOKEN: list(pieces)}, printed
            return data, body
        pieces += self._in_bytes(body, sha256)
        if "height" in data:
            pieces += self._printed.pieces(_rows(body))
        return ({**data, OWN_TOKEN: list(pieces)}, body) if pieces or OWN_TOKEN in data else (data, body)

    def _in_bytes(self, body: bytes, sha256: str) -> tuple[str, ...]:
        if sha256 and sha256 == self._clean:
            return ()
        pieces = self._printed.pieces(body.decode("latin-1"))
        if not pieces:
            self._clean = sha256
        return pieces


def _told(data: dict[str, Any]) -> str:
    """All that an answer says beside its body, without the letters that JSON puts between."""
    text = to_json(data).decode()
    return _ESCAPED.sub(" ", text) if "\\" in text else text


def _rows(body: bytes) -> str:
    """The text of a screen, row by row; empty where this is not a text of a screen."""
    try:
        return "\n".join(row["text"] for row in json.loads(body))
    except (ValueError, TypeError, KeyError):
        return ""


def _starred(watched: Watched, data: bytes) -> bytes:
    return watched.starred(data.decode("latin-1"), follows=True).encode("latin-1")


# -- One connection of one computer: who waits for what on it, and the one who writes

STALL_S: Final = 60.0
"""A body in parts that gets no further for so long counts as lost."""
FAREWELL_S: Final = 5.0
"""Seconds that a connection gets at its end to take the last frames, such as the reason."""

BATCH_BYTES: Final = 64 * 1024
"""Frames written at one go; after so many bytes the connection is asked again whether it keeps up."""


class Session:
    """One connection of one computer, from its opening to its end."""

    __slots__ = (
        "_background",
        "_game",
        "_lock",
        "_loop",
        "_soon",
        "_sweeper",
        "_tick",
        "computer",
        "direct",
        "due",
        "fingerprint",
        "life",
        "link",
        "now",
        "opened",
        "place",
        "room",
        "runs",
        "secrecy",
        "sending",
        "settles",
        "socket",
        "traffic",
    )  # fmt: skip

    def __init__(
        self,
        computer: ComputerId,
        socket: Socket,
        place: int,
        sweeper: Sweeper,
        tick: "Callable[[Session, float], None]",
        traffic: Traffic,
        fingerprint: str,
        token: str,
    ) -> None:
        self.computer = computer
        self.fingerprint = fingerprint
        """A hash of the token by which it came in; empty: not known."""
        self.secrecy = Secrecy(token)
        self.socket = socket
        self.traffic = traffic
        self.direct = cast("DirectSocket", socket) if hasattr(socket, "listen") else None
        self.place = place
        """Its place among all connections of this hub: of two, the newer one counts."""
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time
        """The loop's clock."""
        self.opened = self.now()
        self.link = ComputerLink(self.now())
        self.room = asyncio.Semaphore(wire.MAX_OPEN_CALLS)
        self.runs: dict[RunId, list[Wait]] = {}
        """The waits for the outcome of a run.

        A call that lost its lease and the settle of the next holder may wait for one run; the end of one wait does not
        end the other.
        """
        self.sending: dict[RunId, Wait] = {}
        """The calls that go in parts and are not handed to the socket whole."""
        self.settles: dict[int, Wait] = {}
        self.life: Wait | None = None
        """The wait for a sign that the Lua program is alive; None: nobody waits."""
        self._lock = asyncio.Lock()
        self._soon = False
        """Whether a turn of the loop is asked for in which what is outgoing is written."""
        self._sweeper = sweeper
        self._tick = tick
        self._background: set[asyncio.Task[None]] | None = None
        self._game = GameClock()
        self.due = math.inf
        self.watch()

    # -- writing -------------------------------------------------------------------------

    async def flush(self) -> None:
        """Write what is outgoing, in order; a broken connection ends the session.

        A writer that is canceled in the middle of a frame cannot know whether it was written: the session ends.
        """
        await self._lock.acquire()
        try:
            while (frame := self.link.next_frame()) is not None:
                await self.socket.send(frame)
                self.traffic.went((frame,))
                if self.sending:
                    self._handed()
        except (OSError, RuntimeError) as error:
            self.end(f"writing failed: {error}")
        except asyncio.CancelledError:
            self.end("writing was cut off")
            raise
        finally:
            self._lock.release()

    def write_soon(self) -> None:
        """Write for a caller that must not wait for the socket; the next frames of this turn of the loop go with it."""
        if self._soon or self._lock.locked() or not self.link.has_outgoing():
            return
        if self.direct is None:
            self.spawn(self.flush())
        else:
            self._soon = True
            self._loop.call_soon(self._write_later)

    def _write_later(self) -> None:
        self._soon = False
        if not self.write_now():
            self.spawn(self.flush())

    def write_now(self) -> bool:
        """Write the outgoing bytes; False: that takes a :meth:`flush`.

        A writer that already writes takes them along.
        """
        if self._lock.locked():
            return True
        if self.direct is None:
            return False
        try:
            while self.link.has_outgoing():
                if not self.direct.takes_more():
                    return False
                frames = self.link.next_frames(BATCH_BYTES)
                self.direct.write(frames)
                self.traffic.went(frames)
                if self.sending:
                    self._handed()
        except OSError as error:
            self.end(f"writing failed: {error}")
        return True

    def spawn(self, work: Any) -> None:
        """Run something beside; asyncio holds tasks only weakly, so the session holds it."""
        task: asyncio.Task[None] = self._loop.create_task(work)
        if self._background is None:
            self._background = set()
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def farewell(self) -> None:
        """Write the last frames, if the other side still takes them."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_S):
                await self.flush()

    def _handed(self) -> None:
        now = self.now()
        for run_id in self.link.handed():
            wait = self.sending.pop(run_id, None)
            if wait is not None:
                wait.bound(now, wait.within_s, "did not answer")
                self._sweeper.add(wait)

    # -- waiting -------------------------------------------------------------------------

    def expect(
        self, run_id: RunId, within_s: float, on_output: OnOutput | None = None, *, in_game: bool = False
    ) -> Wait:
        """Wait for the outcome of a run, until :meth:`leave`; ``in_game``: for so much time of the game."""
        wait = Wait(self.computer, within_s, on_output, loop=self._loop, game=self._game if in_game else None)
        self.runs.setdefault(run_id, []).append(wait)
        self._sweeper.add(wait)
        if in_game:
            self._hurry(on=True)
        return wait

    def _hurry(self, *, on: bool) -> None:
        self.link.hurry(on=on)
        self.watch()

    def ticked(self, clock_ms: int) -> None:
        """The computer told the time of its game; a follower of a program hears when it stands still."""
        noticed = self._game.tell(clock_ms, self.now())
        for wait in [one for one in chain(*self.runs.values()) if one.game is not None]:
            wait.ticked(clock_ms)
            if noticed:
                wait.told(wait.heard, b"")

    def send_in_parts(self, run_id: RunId, wait: Wait) -> None:
        """The call goes in parts: its own time begins when the last one is handed to the socket."""
        self.sending[run_id] = wait
        self.moved()

    def leave(self, run_id: RunId, wait: Wait) -> None:
        """Nobody looks at this wait any more."""
        self._sweeper.discard(wait)
        if self.sending.pop(run_id, None) is not None:
            self.link.drop(run_id)
        waits = self.runs.get(run_id)
        if waits is not None and wait in waits:
            waits.remove(wait)
            if not waits:
                del self.runs[run_id]
            if wait.game is not None and not any(one.game for one in chain(*self.runs.values())):
                self._hurry(on=False)

    def extend(self, wait: Wait, span: float, what: str) -> None:
        """Give a wait ``span`` seconds from now."""
        wait.bound(self.now(), span, what)
        self._sweeper.add(wait)

    def moved(self) -> None:
        """What goes out in parts got further."""
        for wait in self.sending.values():
            self.extend(wait, STALL_S, "took no part of the call")

    def coming(self, run_id: RunId) -> None:
        """A part of an outcome came: the rest has time."""
        for wait in self.runs.get(run_id, ()):
            self.extend(wait, STALL_S, "sent no part of its answer")

    def outcome(self, run_id: RunId, outcome: Any) -> None:
        """The outcome of a run came: all who wait for it have it."""
        for wait in self.runs.get(run_id, ()):
            wait.resolve(outcome)

    def told(self, run_id: RunId, offset: int, data: bytes) -> None:
        """A program wrote something."""
        for wait in self.runs.get(run_id, ()):
            wait.told(offset, data)

    @property
    def log_extra(self) -> dict[str, str]:
        """The fields of a log record that is made where a socket calls and no field is set."""
        return {"computer": self.computer}

    # -- what is said beside calls -------------------------------------------------------

    @property
    def capabilities(self) -> Sequence[str]:
        """The capabilities that the client named; nothing before ``hello``."""
        return () if self.link.hello is None else self.link.hello.capabilities

    def tell(self, message: wire.Told | wire.Watch | wire.Look | wire.Keys, body: bytes = b"") -> None:
        """Answer a player at the computer, or ask for its screens; nothing goes to one that is gone."""
        self.link.tell(message, body)
        self.write_soon()

    def keeps_up(self) -> bool:
        """Whether what was sent before is on its way."""
        return not self.link.has_outgoing() and (self.direct is None or self.direct.takes_more())

    # -- time and end --------------------------------------------------------------------

    async def lives(self, within_s: float) -> bool:
        """Whether the Lua program answers a ping within ``within_s`` seconds."""
        wait = self.life = Wait(self.computer, within_s, loop=self._loop)
        self._sweeper.add(wait)
        self.link.probe(self.now())
        if not self.write_now():
            self.write_soon()
        try:
            await wait.future
        except CallLost:
            return False
        else:
            return True
        finally:
            self._sweeper.discard(wait)
            self.life = None

    def watch(self) -> None:
        """Let the sweeper come when the link wants it, as the link stands now."""
        timer = self.link.next_timer()
        if timer is not None:
            self.due = timer
            self._sweeper.add(self)

    def overdue(self, now: float) -> None:
        """Ping the computer, or give it up."""
        self.due = math.inf
        self._tick(self, now)
        if self.link.state is not LinkState.CLOSED:
            self.watch()
            self.write_soon()

    def end(self, reason: str) -> None:
        """Nothing more is heard here: every wait ends with CallLost."""
        self.link.close()
        self._sweeper.discard(self)
        lives = () if self.life is None else (self.life,)
        for wait in [*chain(*self.runs.values()), *self.settles.values(), *lives]:
            wait.resolve(CallLost(f"The connection of computer {self.computer} ended: {reason}."))
        self.runs.clear()
        self.settles.clear()
        self.sending.clear()
