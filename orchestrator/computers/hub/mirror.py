"""The screens that people watch, and the keys that they send: one watch of a screen for all its watchers.

Theory. Nothing is asked of a computer while nobody looks. The first watcher of a screen begins a watch at the computer.
The watch is renewed as long as somebody looks and ends with the last watcher; a computer that hears nothing ends it by
itself. Pictures may be lost: they are counted, and where one is missing the watch begins again with the whole picture.
Pictures beyond the computer's budget are dropped, whatever it says. Keys go out once, on the session that is there.
When that session ends first, nobody knows whether they arrived, and that is the answer.
"""

import asyncio
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Protocol

from orchestrator.computers.hub.view import Gone, Hidden, View, Watcher
from orchestrator.core.errors import ComputerAway, FrameRefused, OrchestratorError
from orchestrator.core.task.limits import Budget
from orchestrator.core.text.visible import one_line
from orchestrator.core.wire import wire
from orchestrator.core.wire.wire import ComputerId

logger = logging.getLogger(__name__)

LEASE_S: Final = 20
RENEW_S: Final = 5.0
"""A few are lost before a watch ends; the computer stops sending when it hears nothing for a little longer."""
ANSWER_WITHIN_S: Final = 5.0
"""What a computer gets to answer a look or keys: it waits for its own queue for 3 s."""
MAX_VIEWS: Final = 8
"""Screens of one computer that are watched at once: as many as its client takes."""
MAX_WATCHERS: Final = 32
"""Those who look at one computer at this node at once: a class, each with an open stream. Another node that shows it
to a node whose people look counts as one for each screen."""
RATE_BYTES: Final = 8000.0
BURST_BYTES: Final = 64_000.0
"""Twice of what a computer may send, and what a line may hold back: more is a computer that does not keep to it."""
AROUND_BYTES: Final = 300
"""The header of a picture, about."""
_TOO_OLD: Final = (
    "The client on this computer is too old to show its screens: it updates itself, or is installed again."
)


class CannotType(OrchestratorError):
    """Nothing can be typed at this computer now."""

    code = "cannot_type"
    http_status = 409


class TooManyWatch(OrchestratorError):
    """A computer is watched by as many as there may be."""

    code = "too_many_watch"
    http_status = 429


class Line(Protocol):
    """One connected computer: a session of this node, or the way to the node that has one."""

    @property
    def computer(self) -> ComputerId:
        """Its name."""

    @property
    def capabilities(self) -> Sequence[str]:
        """The capabilities of its client."""

    def tell(self, message: wire.Watch | wire.Look | wire.Keys, body: bytes = b"") -> None:
        """Send a message soon; nothing is sent to a computer that is gone."""

    def keeps_up(self) -> bool:
        """Whether the watcher takes the pictures that it is sent."""


@dataclass(frozen=True)
class Typed:
    """The outcome of keys."""

    delivered: bool | None
    """None: nobody knows."""
    message: str = ""
    """Why not, or why nobody knows; empty: they were typed."""


@dataclass(eq=False)
class _Open:
    """A computer that is connected, and what is asked of it."""

    line: Line
    budget: Budget
    looks: dict[int, "asyncio.Future[tuple[wire.ScreenSize, ...]]"] = field(default_factory=dict)
    """At most one look: all who ask in that time get its answer."""
    keys: dict[int, "asyncio.Future[Typed]"] = field(default_factory=dict)


class Mirror:
    """All screens that are watched on this node, of whichever node's computers."""

    def __init__(self) -> None:
        self._open: dict[ComputerId, _Open] = {}
        self._views: dict[ComputerId, dict[str, View]] = {}
        self._numbers = count(1)
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    # -- watchers ------------------------------------------------------------------------

    def must_have_room(self, computer: ComputerId, of: str = "") -> None:
        """Raises TooManyWatch unless one more may watch this screen."""
        views = self._views.get(computer, {})
        is_full = of not in views and len(views) >= MAX_VIEWS
        if is_full or sum(len(one.watchers) for one in views.values()) >= MAX_WATCHERS:
            raise TooManyWatch(f"Too many watch computer {computer} now.", remedy="Close another page that shows it.")

    @contextmanager
    def watching(self, computer: ComputerId, of: str = "") -> Iterator[Watcher]:
        """Watch a screen while this is open; ``of`` empty: the terminal. Raises TooManyWatch."""
        self.must_have_room(computer, of)
        views = self._views.setdefault(computer, {})
        view = views.get(of)
        if view is None:
            view = views[of] = View(computer, of)
            self._begin(view)
        watcher = Watcher(view, is_over=self._is_over)
        view.watchers.add(watcher)
        try:
            yield watcher
        finally:
            view.watchers.discard(watcher)
            if not view.watchers:
                self._leave(view)

    def _leave(self, view: View) -> None:
        """Nobody looks any more."""
        views = self._views[view.computer]
        del views[view.of]
        if not views:
            del self._views[view.computer]
        known = self._open.get(view.computer)
        if known is not None and view.number:
            known.line.tell(view.renewed(0))
        if not self._views and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self, view: View) -> None:
        """Ask the computer for the whole picture, if it is there."""
        known = self._open.get(view.computer)
        if known is None:
            view.end(Gone())
        elif wire.MIRROR not in known.line.capabilities:
            view.end(Hidden(_TOO_OLD))
        else:
            watch = view.begin(next(self._numbers))
            known.line.tell(watch.model_copy(update={"lease_s": LEASE_S}))
        if self._timer is None and not self._is_over:
            self._timer = asyncio.get_running_loop().call_later(RENEW_S, self._renew)

    def _renew(self) -> None:
        """Every watch goes on; one of which nothing comes is said to be quiet."""
        self._timer = asyncio.get_running_loop().call_later(RENEW_S, self._renew)
        for view in [one for views in self._views.values() for one in views.values()]:
            known = self._open.get(view.computer)
            if known is not None and view.number and known.line.keeps_up():
                known.line.tell(view.prolonged(LEASE_S))

    # -- asking --------------------------------------------------------------------------

    async def screens(self, computer: ComputerId) -> tuple[wire.ScreenSize, ...]:
        """The screens that a computer has; none where its client is too old to say. Raises ComputerAway."""
        known = self._connected(computer)
        if wire.MIRROR not in known.line.capabilities:
            return ()
        if not known.looks:
            number = next(self._numbers)
            known.looks[number] = asyncio.get_running_loop().create_future()
            known.line.tell(wire.Look(look=number))
        number, answer = next(iter(known.looks.items()))
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                # A watcher who leaves takes the answer from nobody else.
                return await asyncio.shield(answer)
        except TimeoutError:
            known.looks.pop(number, None)
            raise ComputerAway(
                f"Computer {computer} is connected and did not answer.", remedy="It may be busy: try again."
            ) from None

    def must_take_keys(self, computer: ComputerId) -> None:
        """Raises ComputerAway, or CannotType where its client is too old."""
        if wire.KEYS not in self._connected(computer).line.capabilities:
            raise CannotType(
                f"The client on computer {computer} is too old to be typed at.",
                remedy="It updates itself, or install it again from this orchestrator.",
            )

    async def type(self, computer: ComputerId, strokes: Sequence[Mapping[str, str | bool]]) -> Typed:
        """Type at a computer, once; each key event is a ``key``, ``char``, ``paste`` or ``terminate``, in its bytes.

        Raises ComputerAway, CannotType: nothing was sent.
        """
        self.must_take_keys(computer)
        known = self._connected(computer)
        number, answer = next(self._numbers), asyncio.get_running_loop().create_future()
        known.keys[number] = answer
        body = json.dumps(strokes, separators=(",", ":")).replace("\x7f", "\\u007f").encode("ascii")
        known.line.tell(wire.Keys(keys=number, body=wire.whole(body)), body)
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                typed: Typed = await answer
                return typed
        except TimeoutError:
            return Typed(None, "The computer did not answer: whether it was typed is not known.")
        finally:
            known.keys.pop(number, None)

    def _connected(self, computer: ComputerId) -> _Open:
        known = self._open.get(computer)
        if known is None:
            raise ComputerAway(f"Computer {computer} is away.", remedy="Its chunk may be unloaded, or it may be off.")
        return known

    # -- what the hub says ---------------------------------------------------------------

    def opened(self, line: Line) -> None:
        """A computer is connected and welcome."""
        before = self._open.get(line.computer)
        if before is not None:
            self.closed(before.line)
        budget = Budget(RATE_BYTES, BURST_BYTES, time.monotonic())
        self._open[line.computer] = _Open(line, budget)
        for view in self._views.get(line.computer, {}).values():
            self._begin(view)

    def closed(self, line: Line) -> None:
        """A computer is gone, if it is still this connection."""
        known = self._open.get(line.computer)
        if known is None or known.line is not line:
            return
        del self._open[line.computer]
        for look in known.looks.values():
            _resolve(look, ComputerAway(f"Computer {line.computer} went away.", remedy="Try again when it is back."))
        for keys in known.keys.values():
            _resolve(keys, Typed(None, "The connection was lost: whether it was typed is not known."))
        for view in self._views.get(line.computer, {}).values():
            view.end(Gone())

    def told(self, line: Line, message: wire.Picture | wire.Unseen | wire.Screens | wire.Keyed, body: bytes) -> None:
        """A message of a computer; messages that nobody asked for are dropped."""
        known = self._open.get(line.computer)
        if known is None or known.line is not line:
            return
        match message:
            case wire.Picture():
                self._picture(known, message, body)
            case wire.Unseen():
                view = self._view(line.computer, message.watch)
                if view is not None and known.budget.takes(len(message.message) + AROUND_BYTES, time.monotonic()):
                    view.stop(Hidden(one_line(wire.from_wire(message.message), limit=300)))
            case wire.Screens() if message.look in known.looks:
                _resolve(known.looks.pop(message.look), _screens(body))
            case wire.Keyed() if message.keys in known.keys:
                _resolve(known.keys[message.keys], _typed(message))
            case _:
                pass

    def close(self) -> None:
        """End every watch, for a clean stop."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for watcher in [one for views in self._views.values() for view in views.values() for one in view.watchers]:
            watcher.end()

    # -- inside --------------------------------------------------------------------------

    def _view(self, computer: ComputerId, number: int) -> View | None:
        """The view whose watch has this number."""
        found = (one for one in self._views.get(computer, {}).values() if one.number == number)
        return next(found, None)

    def _picture(self, known: _Open, message: wire.Picture, body: bytes) -> None:
        view = self._view(known.line.computer, message.watch)
        if view is None:
            return
        if not known.budget.takes(len(body) + AROUND_BYTES, time.monotonic()):
            # The one that follows is seen to have lost its place.
            return
        try:
            if not view.take(message, body):
                self._begin(view)
        except FrameRefused as error:
            logger.warning("computer %s sent no picture: %s", known.line.computer, error.message)
            if view.may_try_again():
                self._begin(view)
            else:
                view.end(Hidden("The client on this computer sends pictures that cannot be read."))


def _resolve(future: "asyncio.Future[Any]", outcome: Any) -> None:
    if not future.done():
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


def _screens(body: bytes) -> tuple[wire.ScreenSize, ...] | ComputerAway:
    try:
        return wire.decode_screens(body)
    except FrameRefused as error:
        return ComputerAway(f"The computer's answer cannot be read: {error.message}", remedy="Update its client.")


def _typed(message: wire.Keyed) -> Typed:
    if message.ok:
        return Typed(delivered=True)
    sentence = one_line(wire.from_wire(message.message or "Nothing was typed."), limit=300)
    return Typed(None if message.code == "unknown" else False, sentence)
