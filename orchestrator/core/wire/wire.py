r"""The messages of the computer channel: one frame, one message, one model.

A frame is binary: one line of ASCII JSON (the header), ``\n``, and the raw body. Strings in
a header are *byte strings*: character U+00XX stands for byte XX, so every byte of a
ComputerCraft name survives both ways; :func:`to_wire` and :func:`from_wire` translate. What
can grow (file bytes, listings, arguments, output) is the body and never JSON text of the
header; a body over one frame travels in parts (``orchestrator.core.wire.link_events``).
docs/protocol.md is the prose; tests/golden/computer holds one frame of each message, read by
Python and by Lua.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic_core import to_json

from orchestrator.core.errors import FrameRefused
from orchestrator.core.values import ComputerId, RunId, sha256_hex
from orchestrator.core.wire.messages import (
    CELLS,
    CHUNKS,
    CLOCK,
    COMPUTER_SUBPROTOCOL,
    DESK,
    FIRST_METHODS,
    HELLO_WITHIN_S,
    INPUT,
    LABELS,
    MAX_BODY_BYTES,
    MAX_DESK_BYTES,
    MAX_FRAME_BYTES,
    MAX_HEADER_BYTES,
    MAX_OPEN_CALLS,
    MAX_OUTPUT_BYTES,
    MAX_UNACKNOWLEDGED,
    MAX_WHOLE_BYTES,
    NEWS,
    OBSERVE,
    PING_EVERY_S,
    PROTOCOL_VERSION,
    REVIEW,
    RUN_PING_EVERY_S,
    SCREEN_OF,
    SILENCE_S,
    UNDO,
    UPDATE,
    WHERE,
    WINDOW_FRAMES,
    Ack,
    Call,
    CallRefused,
    Cell,
    Chunk,
    ChunkAck,
    Client,
    Complaint,
    Desk,
    Family,
    FromComputer,
    Hello,
    Label,
    LabelKept,
    Message,
    Output,
    Ping,
    Place,
    Pong,
    Refused,
    Result,
    ResultAck,
    Settle,
    Settled,
    SettledCall,
    ToComputer,
    Told,
    Welcome,
)
from orchestrator.core.wire.screen_messages import (
    KEYS,
    MAX_CALL_ID_CHARS,
    MAX_COLUMNS,
    MAX_COUNTER,
    MAX_PICTURE_BYTES,
    MAX_ROWS,
    MAX_SCREENS,
    MIRROR,
    Body,
    CallIdString,
    Counter,
    Keyed,
    Keys,
    Look,
    Picture,
    Screens,
    ScreenSize,
    ShortString,
    Unseen,
    Watch,
    WireString,
)

__all__ = [
    "CELLS", "CHUNKS", "CLOCK", "COMPUTER_SUBPROTOCOL", "DESK", "FIRST_METHODS", "HELLO_WITHIN_S", "INPUT", "KEYS",
    "LABELS", "MAX_BODY_BYTES",
    "MAX_CALL_ID_CHARS", "MAX_COLUMNS", "MAX_COUNTER", "MAX_DESK_BYTES", "MAX_FRAME_BYTES", "MAX_HEADER_BYTES",
    "MAX_OPEN_CALLS", "MAX_OUTPUT_BYTES", "MAX_PICTURE_BYTES", "MAX_ROWS", "MAX_SCREENS",
    "MAX_UNACKNOWLEDGED", "MAX_WHOLE_BYTES", "MIRROR", "NEWS", "OBSERVE", "PING_EVERY_S", "PROTOCOL_VERSION", "REVIEW",
    "RUN_PING_EVERY_S", "SCREEN_OF",
    "SILENCE_S", "UNDO", "UPDATE", "WHERE", "WINDOW_FRAMES",
    "Ack", "Body", "Call", "CallIdString", "CallRefused", "Cell", "Chunk", "ChunkAck", "Client", "Complaint",
    "ComputerId", "Counter",
    "Desk", "Family", "FromComputer", "Hello", "Keyed", "Keys", "Label", "LabelKept", "Look", "Message",
    "Output", "Picture", "Ping", "Place", "Pong", "Refused", "Result", "ResultAck", "RunId", "ScreenSize",
    "Screens", "Settle",
    "Settled", "SettledCall", "ShortString", "ToComputer", "Told", "Unseen", "Watch", "Welcome", "WireString", "call",
    "check_body", "decode", "decode_any", "decode_screens", "decode_settled", "encode", "from_wire", "read",
    "read_any", "result_ack", "sha256_hex", "to_wire", "whole",
]  # fmt: skip

_FROM_COMPUTER: TypeAdapter[Any] = TypeAdapter(FromComputer)
_SETTLED_CALLS: TypeAdapter[tuple[SettledCall, ...]] = TypeAdapter(tuple[SettledCall, ...])
_SCREENS: TypeAdapter[tuple[ScreenSize, ...]] = TypeAdapter(
    Annotated[tuple[ScreenSize, ...], Field(max_length=MAX_SCREENS)]
)
_ANY: TypeAdapter[Any] = TypeAdapter(Message)
_CALL_ID: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_CALL_ID_CHARS}}}")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.-]{1,32}")
_SHA256: Final = re.compile("[0-9a-f]{64}")
_ODD: Final = re.compile(rb"[^\x20-\x7e]|null|NaN|Infinity")
"""What :func:`encode` writes in another way."""
_MAX_PLAIN_BYTES: Final = 2048
"""Arguments that surely fit a header."""


def is_sha256(text: str) -> bool:
    """Whether that is written as :func:`sha256_hex` writes it."""
    return _SHA256.fullmatch(text) is not None


def to_wire(text: str) -> str:
    """Text as a byte string of the header: each byte of its UTF-8 as one character."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def from_wire(value: str) -> str:
    """A byte string of the header as text: UTF-8 where it is valid, else latin-1."""
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return value


def whole(body: bytes) -> Body:
    """The descriptor of a whole body, as its first frame carries it."""
    return Body(offset=0, total=len(body), sha256=sha256_hex(body))


def encode(message: BaseModel, body: bytes = b"") -> bytes:
    """One frame. Raises FrameRefused when the header or the body is over its limit."""
    header = message.__pydantic_serializer__.to_json(message, exclude_none=True, ensure_ascii=True)
    if b"\x7f" in header:
        header = header.replace(b"\x7f", b"\\u007f")
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
    return header + b"\n" + body


def result_ack(call_id: str, number: int) -> bytes:
    """The frame of a :class:`ResultAck`, just as :func:`encode` makes it: every call ends with one."""
    if _CALL_ID.fullmatch(call_id) is None or not 0 <= number <= MAX_COUNTER:
        return encode(ResultAck(call_id=call_id, number=number))
    return b'{"type":"result_ack","call_id":"%b","number":%d}\n' % (call_id.encode(), number)


def call(call_id: str, task: str, number: int, method: str, params: Mapping[str, Any]) -> bytes:
    """The frame of a :class:`Call` without a body, just as :func:`encode` makes it, in half the time."""
    told = to_json(dict(params))
    plain = _CALL_ID.fullmatch(call_id) and _PLAIN.fullmatch(task) and _PLAIN.fullmatch(method)
    if not plain or not 0 <= number <= MAX_COUNTER or len(told) > _MAX_PLAIN_BYTES or _ODD.search(told):
        return encode(Call(call_id=call_id, task=task, number=number, method=method, params=dict(params)))
    return b'{"type":"call","call_id":"%b","task":"%b","number":%d,"method":"%b","params":%b}\n' % (
        call_id.encode(),
        task.encode(),
        number,
        method.encode(),
        told,
    )


def decode(frame: bytes) -> tuple[Any, bytes]:
    """A frame from a computer as (message, body). Raises FrameRefused with the reason."""
    message, body = read(frame)
    check_body(message, body)
    return message, body


def decode_any(frame: bytes) -> tuple[Any, bytes]:
    """A frame of either direction as (message, body), for clients and golden files."""
    message, body = read_any(frame)
    check_body(message, body)
    return message, body


def decode_settled(body: bytes) -> tuple[SettledCall, ...]:
    """The body of a ``settled`` message. Raises FrameRefused with the reason."""
    try:
        return _SETTLED_CALLS.validate_json(body)
    except ValidationError as error:
        raise FrameRefused(f"The settled calls cannot be read: {_first(error)}.") from None


def decode_screens(body: bytes) -> tuple[ScreenSize, ...]:
    """The body of a ``screens`` message. Raises FrameRefused with the reason."""
    try:
        return _SCREENS.validate_json(body)
    except ValidationError as error:
        raise FrameRefused(f"The screens cannot be read: {_first(error)}.") from None


def read(frame: bytes) -> tuple[Any, bytes]:
    """A frame from a computer without a look at its body: see :func:`check_body`. Raises FrameRefused."""
    return _read(frame, _FROM_COMPUTER.validator)


def read_any(frame: bytes) -> tuple[Any, bytes]:
    """The same for a frame of either direction."""
    return _read(frame, _ANY.validator)


def _read(frame: bytes, reader: Any) -> tuple[Any, bytes]:
    if len(frame) > MAX_FRAME_BYTES:
        raise FrameRefused(f"The frame has {len(frame)} bytes, over {MAX_FRAME_BYTES}.")
    line, newline, body = frame.partition(b"\n")
    if not newline or len(line) > MAX_HEADER_BYTES:
        raise FrameRefused(f"The frame has no header line within {MAX_HEADER_BYTES} bytes.")
    if not line.isascii():
        raise FrameRefused("The header has bytes outside ASCII.", remedy="Write them as \\u00XX.")
    try:
        message = reader.validate_json(line)
    except ValidationError as error:
        raise FrameRefused(f"The header cannot be read: {_first(error)}.") from None
    return message, body


def check_body(message: Any, body: bytes) -> None:
    """Whether the bytes are those that the header names, as far as one frame tells. Raises FrameRefused."""
    # Half the messages have no such field, and pydantic takes its time to say so.
    described: Body | None = vars(message).get("body")
    if described is None:
        if body:
            raise FrameRefused(f"A {message.type} frame carries {len(body)} bytes that its header does not name.")
    elif message.type == "chunk":
        _check_part(described, body)
    elif message.type == "output":
        if described.offset + len(body) != described.total or len(body) > MAX_OUTPUT_BYTES:
            raise FrameRefused(_MISPLACED)
        _check_sha256(described, body)
    elif described.offset != 0 or (message.type == "picture" and described.total > MAX_PICTURE_BYTES):
        raise FrameRefused(_MISPLACED)
    elif described.total > MAX_BODY_BYTES and message.type in ("call", "result"):
        _check_part(described, body)
    elif len(body) != described.total:
        raise FrameRefused(_MISPLACED)
    else:
        _check_sha256(described, body)


_MISPLACED: Final = "The body does not fit the place that the header names."


def _check_part(described: Body, body: bytes) -> None:
    if described.total > MAX_WHOLE_BYTES:
        raise FrameRefused(f"The whole body has {described.total} bytes, over {MAX_WHOLE_BYTES}.")
    if described.total <= MAX_BODY_BYTES or len(body) != min(MAX_BODY_BYTES, described.total - described.offset):
        raise FrameRefused(_MISPLACED)


def _check_sha256(described: Body, body: bytes) -> None:
    if described.sha256 != sha256_hex(body):
        raise FrameRefused("The body does not have the sha256 that the header names.")


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])
