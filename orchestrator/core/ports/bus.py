"""The port between the parts of one node and of several: notifications, and requests to the server of a subject.

The truth is in the store. A lost notification costs latency; nobody knows the outcome of a lost request, and the
sender has to find it out in another way.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol

# -- The port of time --------------------------------------------------------------------


class Clock(Protocol):
    """Where time comes from: the system, the server of a store, or a test."""

    def now(self) -> datetime:
        """The present time, aware, in UTC."""


# -- The port between the parts of one node and of several: notifications, and requests to the server of a
# subject


class Answer(NamedTuple):
    """What is answered to a request: JSON, and bytes of any length beside it."""

    payload: Mapping[str, Any]
    body: bytes = b""


Hear = Callable[[Mapping[str, Any]], None]
"""Takes a notification. An error that it raises is logged and has no other effect."""
Serve = Callable[[Mapping[str, Any], bytes], Awaitable[Answer]]
"""Takes a request, its JSON and its bytes. Where it raises, the asker gets RequestLost."""
End = Callable[[], None]
"""Ends a subscription, or that something is served; ending it twice is harmless."""


class Bus(Protocol):
    """Notifications and requests. Subjects are words of ``[a-zA-Z0-9_-]`` with dots between, payloads JSON objects."""

    async def open(self) -> None:
        """Connect, if that is needed; what was subscribed and served before holds from now on. Raises BusAway.

        Once open it connects again by itself, for ever, and what was subscribed and served holds again then.
        """

    async def close(self) -> None:
        """Send what was published, then let go. Requests that wait get RequestLost. Safe to call twice."""

    @property
    def connected(self) -> bool:
        """Whether the other nodes can be reached now, as far as is known."""

    async def flush(self) -> None:
        """What was subscribed, served and published before holds, or is on its way to every node, when it returns.

        Raises RequestLost where that cannot be known.
        """

    def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
        """Tell the listeners; never blocks, never fails.

        The handlers of this very bus object are called before it returns; those of other nodes soon, at most once,
        in the order in which one node published. Nobody hears it twice.
        """

    def subscribe(self, subject: str, handler: Hear) -> End:
        """Call ``handler`` with each payload; the answer ends the subscription."""

    async def request(self, subject: str, payload: Mapping[str, Any], body: bytes = b"", *, within_s: float) -> Answer:
        """Ask one of those who serve ``subject``, once, and wait up to ``within_s`` seconds for its answer.

        Raises NobodyServes (nobody got it and nobody will: at once where that is known), RequestLost (it may have
        been got: the time is over, the one who got it failed or went away, or the connection did).
        """

    def serve(self, subject: str, handler: Serve) -> End:
        """Answer requests; of several who serve a subject each request goes to one. They are answered side by side.

        A node that serves a subject itself may be preferred for its own requests; the others have no such wish.

        Requests whose time is over are not begun. The answer ends it for new requests; those begun are finished.
        """
