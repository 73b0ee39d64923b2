"""Messages between nodes. Two versions run side by side during an upgrade, so unknown fields are ignored."""

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from orchestrator.core.errors import InvalidRequest, said_of
from orchestrator.core.ports import Answer, ComputerInfo, SeatRow
from orchestrator.core.task.system_facts import ComputerFrozen
from orchestrator.core.wire import wire
from orchestrator.core.wire.identity import former_of
from orchestrator.core.wire.wire import ComputerId, RunId

# -- What nodes say to each other. Two versions run side by side during an upgrade: unknown fields are passed over

BEAT: Final = "nodes.beat"
"""The subject on which every node says each second that it is there."""
COMPUTERS: Final = "nodes.computers"
"""The subject of each change of a node's computers."""
GOODBYE: Final = "nodes.goodbye"


def requests_to(node: str) -> str:
    """The subject of requests to one node."""
    return f"node.{node}"


def acks_to(node: str) -> str:
    """The subject of acknowledgements, which are notifications, to one node's computers."""
    return f"acks.{node}"


def output_of(run_id: str) -> str:
    """The subject of what a run writes; an id of a run has a dot, which would part the subject."""
    return f"run.{run_id.replace('.', '-')}"


Ops = dict[str, Callable[[Mapping[str, Any], bytes], Awaitable[Answer]]]
"""Requests that other nodes can send, by name."""


class Said(BaseModel):
    """What one node tells others."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> Self:
        """What a payload says. Raises InvalidRequest."""
        try:
            return cls.model_validate(payload)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise InvalidRequest(f"Another node's {cls.__name__} cannot be read: {said_of(first, where)}.") from None

    def told(self) -> dict[str, Any]:
        """The message as a payload."""
        return self.model_dump(mode="json")


class Beat(Said):
    """A node says that it is there."""

    node: str
    """Its id, another one at each start."""
    name: str = ""
    version: str = ""
    """Empty: it is not known."""
    at: AwareDatetime
    """The time of this beat, by the node's own clock."""
    started_at: AwareDatetime
    url: str = ""
    """Where it listens; empty: it does not say."""
    draining: bool = False
    """Whether it takes no new work and sends its computers elsewhere."""
    tasks: int = 0
    """How many tasks it acts for now."""
    rev: int = 0
    """How often its table of computers has changed."""
    computers: int = 0
    """How many computers are connected there."""
    clock_ahead_s: float = 0.0
    """By how much its machine's clock is ahead of the store's."""
    facts: dict[str, Any] = Field(default_factory=dict)
    """Its other facts: plain JSON."""


class Seat(Said):
    """A computer as one node knows it."""

    computer: ComputerId
    online: bool
    number: int = 0
    """The number of its last welcome there: of two nodes the one with the higher number has it."""
    boot: str = ""
    label: str | None = None
    host: str = ""
    family: str = "computer"
    computer_id: int | None = None
    identity: str = ""
    client: str = ""
    left_at: AwareDatetime | None = None
    former_labels: tuple[str, ...] = ()
    fuel: int | None = None
    fuel_limit: int | None = None
    place: tuple[int, int, int] | None = None
    placed_at: AwareDatetime | None = None
    shows: tuple[str, ...] = ()
    """The capabilities of its client for requests of other nodes about its screens."""
    rev: int = 0
    """The change of its node's table that says this; 0: the welcome itself."""

    @property
    def order(self) -> tuple[int, int]:
        """Of two of one computer the one with the higher order is the later one: no two nodes have one number."""
        return self.number, self.rev

    @property
    def info(self) -> ComputerInfo:
        """What people are told of it."""
        return ComputerInfo(**self.model_dump(exclude={"number", "boot", "shows", "rev"}))

    @classmethod
    def of(cls, info: ComputerInfo, *, number: int, boot: str, shows: Sequence[str] = ()) -> Self:
        """What a node tells of a computer of its own."""
        return cls(number=number, boot=boot, shows=tuple(shows), **vars(info))

    @classmethod
    def kept(cls, row: SeatRow) -> Self:
        """What a row of the store says. Raises InvalidRequest.

        A label may be kept in the computer's record before it is in the row, or after it: none of them is left out.
        """
        try:
            seat = cls.model_validate_json(row.said)
        except ValidationError:
            raise InvalidRequest(f"The seat of computer {row.computer} cannot be read.") from None
        changed: dict[str, Any] = {"number": row.number, "online": row.left_at is None, "left_at": row.left_at}
        if (known := row.known) is not None:
            label = seat.label or ""
            others = () if known.label == label else (known.label, *seat.former_labels)
            changed["former_labels"] = former_of(label, (*known.former_labels, *others))
        return seat.model_copy(update={**changed, "computer": row.computer})


class Delta(Said):
    """One change of a node's computers."""

    node: str
    rev: int
    seat: Seat
    came: bool = True
    """Whether the computer was welcomed with it; nodes of before 0.7 do not say."""
    computers: int = 0
    """How many are connected there now."""


class Goodbye(Said):
    """A node stops."""

    node: str


class TableAnswer(Said):
    """All computers of a node, as they are at ``rev`` of its beat: nodes of before 0.7 ask for them."""

    beat: Beat
    seats: tuple[Seat, ...] = ()


CallAsked = tuple[ComputerId, RunId, str, int, str, dict[str, Any], bool, float, bool]
"""A call to a computer of the node that is asked, its body beside it; ``_CALL`` says where each part is."""
_CALL: Final[Mapping[str, type | tuple[type, ...]]] = {
    "computer": str,
    "run_id": str,
    "task_id": str,
    "number": int,
    "method": str,
    "params": dict,
    "has_body": bool,
    "wait_s": (float, int),
    "output": bool,  # whether somebody wants to hear what it writes
}
_values_of_call: Final[Callable[[Mapping[str, Any]], CallAsked]] = itemgetter(*_CALL)


def call_asked(payload: Mapping[str, Any]) -> CallAsked:
    """The call that a payload asks for. Raises InvalidRequest.

    Every call between nodes is read here, so it is made no model: that would cost more than all else of the reading.
    """
    try:
        values = _values_of_call(payload)
    except KeyError as missing:
        raise InvalidRequest(f"Another node's call cannot be read: {missing.args[0]} is missing.") from None
    if not all(map(isinstance, values, _CALL.values())):
        raise InvalidRequest("Another node's call cannot be read: something in it is of another kind.")
    return values


class SettleAsked(Said):
    """A settle of runs on a computer of the node that is asked."""

    computer: ComputerId
    run_ids: tuple[RunId, ...]
    number: int
    output: tuple[RunId, ...] = ()
    """The runs whose output is to be told."""


def acks_of(payload: Mapping[str, Any]) -> list[tuple[ComputerId, RunId, int]]:
    """The acknowledgements in a payload: of which computer, run and number each is. Raises InvalidRequest.

    They come with nearly every call, so they are read as calls are.
    """
    acks = []
    try:
        for one in payload["acks"]:
            computer, run_id, number = one["computer"], one["run_id"], one["number"]
            if not (isinstance(computer, str) and isinstance(run_id, str) and isinstance(number, int)):
                raise TypeError
            acks.append((ComputerId(computer), RunId(run_id), number))
    except (KeyError, TypeError):
        raise InvalidRequest("Another node's acknowledgements cannot be read.") from None
    return acks


class OutputTold(Said):
    """Where in its output a run wrote something, and what, in base 64."""

    offset: int
    data: str


class YieldAsked(Said):
    """A computer came to another node: whose is it?"""

    computer: ComputerId
    computer_id: int
    boot: str
    age_s: float
    """How long the connection there has been open, in seconds."""


class YieldAnswer(Said):
    """The outcome of the session that the asked node had."""

    outcome: Literal["ended", "newer", "lives"] = "ended"
    """``ended``, or there was none; ``newer``: it is the newer connection and stays; ``lives``: another boot answers
    there, so there are two computers."""
    heard: int = 0
    boot: str = ""
    """The boot of the computer that was heard."""


class FrozenTold(Said):
    """A computer was frozen while the asked node has a session of it."""

    fact: ComputerFrozen


class LabelConfirmed(Said):
    """An admin confirmed the label of a computer that the asked node has a session of."""

    computer: ComputerId
    label: str


class Failure(Said):
    """Why a request came to nothing, or to an error of the computer."""

    kind: Literal["away", "void", "lost", "failed", "refused", "unknown"] = "unknown"
    message: str = ""
    remedy: str = ""
    reason: str = ""
    data: dict[str, Any] = Field(default_factory=dict)


def as_json(said: Said) -> bytes:
    """What may be longer than a payload."""
    return said.model_dump_json().encode()


# -- What nodes say to each other about screens and keys: the messages of the wire, with who says it and of whom

ANSWER_WITHIN_S: Final = 5.0
"""What another node gets for a look or keys: its computer waits for its own queue for 3 s."""


def watches_to(node: str) -> str:
    """The subject of watches of one node's computers."""
    return f"watches.{node}"


def pictures_to(node: str) -> str:
    """The subject of pictures that one node watches."""
    return f"pictures.{node}"


class WatchTold(Said):
    """A node watches a screen of the other's computer for as long as the watch says."""

    node: str
    """The node that watches."""
    computer: ComputerId
    watch: int
    """Drawn by the watcher: with another number it is another watch, and begins with the whole picture."""
    of: str = ""
    """The name of a monitor; empty: the computer's own terminal."""
    lease_s: int
    heard: int = 0
    """The ``n`` of the last picture that has come."""


class PictureTold(Said):
    """A part of what a watched screen shows."""

    node: str
    """The node that has the computer."""
    computer: ComputerId
    watch: int
    n: int
    """Counts the pictures of a watch from 1, without gaps."""
    whole: bool
    width: int
    height: int
    x: int
    y: int
    blink: bool
    palette: str | None = None
    rows: str = ""
    """The rows as in the body of a picture, in base 64."""

    @property
    def message(self) -> wire.Picture:
        """As a computer of this node would have sent it. Raises ValueError where none could."""
        fields = ("watch", "n", "whole", "width", "height", "x", "y", "blink", "palette")
        return wire.Picture(journal_seq=0, **{name: getattr(self, name) for name in fields})

    @property
    def body(self) -> bytes:
        """The rows. Raises InvalidRequest."""
        try:
            return base64.b64decode(self.rows, validate=True)
        except binascii.Error:
            raise InvalidRequest("Another node's rows are not base 64.") from None


class UnseenTold(Said):
    """A watched screen cannot be read, until a picture says otherwise."""

    node: str
    computer: ComputerId
    watch: int
    unseen: str


class ScreensAsked(Said):
    """Asks which screens a computer of the other node has."""

    computer: ComputerId


class ScreensTold(Said):
    """The answer."""

    screens: tuple[wire.ScreenSize, ...] = ()


class KeysAsked(Said):
    """Types at a computer of the other node, once; the key events go beside it as JSON."""

    computer: ComputerId


class KeysTold(Said):
    """The outcome of keys."""

    delivered: bool | None
    message: str = ""
