r"""The messages of the computer channel: one frame, one message, one model.

A frame is binary: one line of ASCII JSON (the header), ``\n``, and the raw body. Strings in
a header are *byte strings*: character U+00XX stands for byte XX, so every byte of a
ComputerCraft name survives both ways; :func:`to_wire` and :func:`from_wire` translate. What
can grow (file bytes, listings, arguments, output) is the body and never JSON text of the
header. docs/protocol.md is the prose; tests/golden/computer holds one frame of each message,
read by Python and by Lua.
"""

import hashlib
import json
from typing import Annotated, Any, Final, Literal, NewType

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from orchestrator.core.errors import FrameRefused

PROTOCOL_VERSION: Final = 1
COMPUTER_SUBPROTOCOL: Final = "cc-orchestrator.v1"
REVIEWER_SUBPROTOCOL: Final = "cc-orchestrator.review.v1"

MAX_HEADER_BYTES: Final = 4096
"""The header line without its newline: small enough to parse char by char in Lua in 2 ms."""
MAX_BODY_BYTES: Final = 48 * 1024
"""One body chunk: with the header far under the mod's 128 KiB per message."""
MAX_FRAME_BYTES: Final = MAX_HEADER_BYTES + 1 + MAX_BODY_BYTES
MAX_OPEN_CALLS: Final = 8
"""Calls a computer runs at once: each is at most one event in the mod's queue of 256."""
MAX_UNACKNOWLEDGED: Final = 64
"""Outcomes a computer keeps until ``result_ack``: what fits its 8 KiB journal slot."""
MAX_CALL_ID_CHARS: Final = 24
PING_EVERY_S: Final = 20.0
"""One ping and one pong in 20 s: the idle budget of one frame in 10 s."""
SILENCE_S: Final = 45.0
"""Two lost pings and some lag: a computer that says nothing for longer is gone."""
HELLO_WITHIN_S: Final = 15.0
"""A fresh client reads its disk before hello; a stranger must not hold a socket for long."""

ComputerId = NewType("ComputerId", str)
RunId = NewType("RunId", str)

Method = Literal["fs_list", "fs_read", "fs_stat", "fs_write", "fs_delete", "run_program", "shell"]
Family = Literal["computer", "advanced", "turtle", "pocket", "command"]

WireString = Annotated[str, Field(pattern="^[\u0000-\u00ff]*$")]
"""A byte string: every character is one byte."""
ShortString = Annotated[WireString, Field(max_length=256)]
CallIdString = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=MAX_CALL_ID_CHARS)]
Counter = Annotated[int, Field(ge=0, le=10**13)]
"""A number that survives Lua's ``%.14g``."""


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Body(_Message):
    """Where the body of this frame belongs: ``offset`` in a whole of ``total`` bytes."""

    offset: Counter = 0
    total: Counter
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """Of the whole, not of this frame's part."""


class Hello(_Message):
    """The computer introduces itself; nothing else is heard before it."""

    type: Literal["hello"] = "hello"
    protocol: Counter
    computer_id: Counter
    """``os.getComputerID()``: shown, never a credential."""
    label: ShortString | None = None
    host: ShortString
    """``_HOST``, such as ``ComputerCraft 1.113.1 (Minecraft 1.20.1)``."""
    family: Family
    boot: ShortString
    """Drawn anew at each boot: tells a reconnect from a reboot."""
    client: ShortString
    """The client's version."""
    capabilities: tuple[ShortString, ...] = ()
    highest: Counter
    """The highest number this computer has seen."""
    journal_seq: Counter
    found_seq: Counter | None = None
    """The lowest ``journal_seq`` found at a boot since the last welcome; None: no boot since."""
    calls: tuple[CallIdString, ...] = Field(default=(), max_length=MAX_OPEN_CALLS + MAX_UNACKNOWLEDGED)
    """Every run id in the computer's journal."""


class Ack(_Message):
    """The call was taken: its ``started`` record is on the computer's disk."""

    type: Literal["ack"] = "ack"
    journal_seq: Counter
    call_id: CallIdString


class Result(_Message):
    """The outcome of a call; small facts in ``data``, bytes in the body."""

    type: Literal["result"] = "result"
    journal_seq: Counter
    call_id: CallIdString
    ok: bool
    code: ShortString | None = None
    """None when ok; else the client's error code, such as ``stale``."""
    message: Annotated[WireString, Field(max_length=512)] | None = None
    data: dict[str, bool | int | WireString | None] = {}
    body: Body | None = None


class CallRefused(_Message):
    """The call never ran and never will (below the fence, busy, no journal)."""

    type: Literal["call_refused"] = "call_refused"
    journal_seq: Counter
    call_id: CallIdString
    code: ShortString
    message: Annotated[WireString, Field(max_length=512)] = ""


class Settled(_Message):
    """The fence stands at ``number``; the body is a JSON list of :class:`SettledCall`."""

    type: Literal["settled"] = "settled"
    journal_seq: Counter
    number: Counter
    body: Body


class SettledCall(_Message):
    """What became of one call, as the computer's journal has it."""

    call_id: CallIdString
    state: Literal["finished", "running", "interrupted", "unknown", "void"]
    """``unknown``: finished by its swap files at boot, but somebody had taken the place."""
    ok: bool | None = None
    code: ShortString | None = None
    sha256: ShortString | None = None
    """Hash after the change (or ``absent``), as the journal kept it; None: not a change."""


class Pong(_Message):
    """Answers a ping: the Lua program is alive, not only its socket."""

    type: Literal["pong"] = "pong"
    journal_seq: Counter
    n: Counter


class Complaint(_Message):
    """The other side broke the protocol; says how. Either side may send it."""

    type: Literal["error"] = "error"
    journal_seq: Counter | None = None
    code: ShortString
    message: Annotated[WireString, Field(max_length=512)]
    call_id: CallIdString | None = None


class Welcome(_Message):
    """The computer is known; its fence goes to ``number`` before anything else."""

    type: Literal["welcome"] = "welcome"
    number: Counter
    computer: ShortString
    """The name this computer has with the orchestrator."""
    silence_s: Counter = int(SILENCE_S)
    """Seconds without a frame after which the computer should dial again."""


class Refused(_Message):
    """The connection is refused; ``remedy`` says what a person can do."""

    type: Literal["refused"] = "refused"
    code: ShortString
    message: Annotated[WireString, Field(max_length=512)]
    remedy: Annotated[WireString, Field(max_length=512)] = ""


class Call(_Message):
    """Do ``method``; the number must not be below the fence."""

    type: Literal["call"] = "call"
    call_id: CallIdString
    task: ShortString
    number: Counter
    method: str = Field(max_length=32)
    params: dict[str, Any] = {}
    body: Body | None = None


class Settle(_Message):
    """Raise the fence to ``number``, then say what became of ``call_ids``."""

    type: Literal["settle"] = "settle"
    number: Counter
    call_ids: tuple[CallIdString, ...]


class ResultAck(_Message):
    """The outcome is durable here; the computer may forget it and notes ``number``."""

    type: Literal["result_ack"] = "result_ack"
    call_id: CallIdString
    number: Counter


class Ping(_Message):
    """Asks the Lua program for a sign of life."""

    type: Literal["ping"] = "ping"
    n: Counter


FromComputer = Annotated[Hello | Ack | Result | CallRefused | Settled | Pong | Complaint, Field(discriminator="type")]
ToComputer = Annotated[Welcome | Refused | Call | Settle | ResultAck | Ping | Complaint, Field(discriminator="type")]
Message = Annotated[
    Hello
    | Ack
    | Result
    | CallRefused
    | Settled
    | Pong
    | Complaint
    | Welcome
    | Refused
    | Call
    | Settle
    | ResultAck
    | Ping,
    Field(discriminator="type"),
]

_FROM_COMPUTER: TypeAdapter[Any] = TypeAdapter(FromComputer)
_SETTLED_CALLS: TypeAdapter[tuple[SettledCall, ...]] = TypeAdapter(tuple[SettledCall, ...])
_ANY: TypeAdapter[Any] = TypeAdapter(Message)


def sha256_hex(data: bytes) -> str:
    """The sha256 of ``data`` in lowercase hex, as both sides write it."""
    return hashlib.sha256(data).hexdigest()


def to_wire(text: str) -> str:
    """Text as a byte string of the header: each byte of its UTF-8 as one character."""
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def from_wire(value: str) -> str:
    """A byte string of the header as text: UTF-8 where it is valid, else latin-1."""
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return value


def whole(body: bytes) -> Body:
    """The descriptor of a body that fits one frame."""
    return Body(offset=0, total=len(body), sha256=sha256_hex(body))


def encode(message: BaseModel, body: bytes = b"") -> bytes:
    """One frame. Raises FrameRefused when the header or the body is over its limit."""
    header = json.dumps(message.model_dump(exclude_none=True), ensure_ascii=True, separators=(",", ":"))
    if len(header) > MAX_HEADER_BYTES:
        raise FrameRefused(
            f"The header has {len(header)} bytes, over {MAX_HEADER_BYTES}.",
            remedy="Shorten the path or the arguments.",
        )
    if len(body) > MAX_BODY_BYTES:
        raise FrameRefused(
            f"The body has {len(body)} bytes, over {MAX_BODY_BYTES} of one frame.",
            remedy="Work on a smaller file or in smaller parts.",
        )
    return header.encode("ascii") + b"\n" + body


def decode(frame: bytes) -> tuple[Any, bytes]:
    """A frame from a computer as (message, body). Raises FrameRefused with the reason."""
    return _decode(frame, _FROM_COMPUTER)


def decode_any(frame: bytes) -> tuple[Any, bytes]:
    """A frame of either direction as (message, body), for clients and golden files."""
    return _decode(frame, _ANY)


def decode_settled(body: bytes) -> tuple[SettledCall, ...]:
    """The body of a ``settled`` message. Raises FrameRefused with the reason."""
    try:
        return _SETTLED_CALLS.validate_json(body)
    except ValidationError as error:
        raise FrameRefused(f"The settled calls cannot be read: {_first(error)}.") from None


def _decode(frame: bytes, adapter: TypeAdapter[Any]) -> tuple[Any, bytes]:
    if len(frame) > MAX_FRAME_BYTES:
        raise FrameRefused(f"The frame has {len(frame)} bytes, over {MAX_FRAME_BYTES}.")
    line, newline, body = frame.partition(b"\n")
    if not newline or len(line) > MAX_HEADER_BYTES:
        raise FrameRefused(f"The frame has no header line within {MAX_HEADER_BYTES} bytes.")
    if not line.isascii():
        raise FrameRefused("The header has bytes outside ASCII.", remedy="Write them as \\u00XX.")
    try:
        message = adapter.validate_json(line, strict=True)
    except ValidationError as error:
        raise FrameRefused(f"The header cannot be read: {_first(error)}.") from None
    _check_body(message, body)
    return message, body


def _check_body(message: Any, body: bytes) -> None:
    described: Body | None = getattr(message, "body", None)
    if described is None:
        if body:
            raise FrameRefused(f"A {message.type} frame carries {len(body)} bytes that its header does not name.")
        return
    if described.offset != 0 or len(body) != described.total:
        raise FrameRefused("The body does not fit the place that the header names.")
    if described.sha256 != sha256_hex(body):
        raise FrameRefused("The body does not have the sha256 that the header names.")


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])
