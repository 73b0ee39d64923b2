"""What a frame of a computer means to whoever drives its link."""

from dataclasses import dataclass

from orchestrator.core.wire import wire
from orchestrator.core.wire.wire import RunId, SettledCall


@dataclass(frozen=True)
class Labelled:
    """The computer has another label; answer with ``keep_labels`` once it is kept."""

    n: int
    label: str | None
    """As it is on the wire."""


@dataclass(frozen=True)
class Greeted:
    """The computer said hello; answer with ``welcome`` or ``refuse``."""

    hello: wire.Hello


@dataclass(frozen=True)
class Finished:
    """A call ended."""

    run_id: RunId
    result: wire.Result
    body: bytes


@dataclass(frozen=True)
class Moved:
    """The computer took another frame of the bodies that go out in parts."""


@dataclass(frozen=True)
class Coming:
    """A part of a call's outcome came, and more has to."""

    run_id: RunId


@dataclass(frozen=True)
class Lost:
    """The outcome of a call came broken; a settle can ask for it again."""

    run_id: RunId
    reason: str


@dataclass(frozen=True)
class Output:
    """What a running program wrote; parts may be missing."""

    run_id: RunId
    offset: int
    """Bytes that the program had written before these."""
    data: bytes


@dataclass(frozen=True)
class DeskAsked:
    """A player at this computer wants something; ``body`` is what they typed, nothing more than data."""

    request: wire.Desk
    body: bytes


@dataclass(frozen=True)
class Mirrored:
    """What a computer says of its screens, or of keys that were typed from here; nothing more than data."""

    message: wire.Picture | wire.Unseen | wire.Screens | wire.Keyed
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
class Alive:
    """The Lua program answered the last :meth:`ComputerLink.probe`."""


@dataclass(frozen=True)
class Ticked:
    """The computer told the time of its game, in milliseconds since it started; paused, that stands still."""

    clock_ms: int


@dataclass(frozen=True)
class Ended:
    """The link is over; the connection should be closed."""

    reason: str


LinkEvent = (
    Greeted
    | Labelled
    | Finished
    | Moved
    | Coming
    | Lost
    | Output
    | DeskAsked
    | Mirrored
    | Declined
    | SettledAll
    | Complained
    | Alive
    | Ticked
    | Ended
)
