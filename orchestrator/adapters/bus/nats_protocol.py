"""The NATS protocol of clients, without a connection: what a server says as events, and what it is told as bytes.

A line ends with CRLF; a message has its lengths on its line, and its bytes after it. What the bus does not use, such as
sending headers, is not here.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

LINE_BYTES: Final = 1024 * 1024
"""The longest line of a server: its INFO lists all servers of a cluster."""
MOST_BYTES: Final = 128 * 1024 * 1024
"""The longest message: a server can be told to take 64 MiB, and headers are counted with it."""

PING: Final = b"PING\r\n"
PONG: Final = b"PONG\r\n"

_END: Final = b"\r\n"


class NotNats(ValueError):
    """What came is nothing that a NATS server says."""


class Message(NamedTuple):
    """A message of a subscription."""

    subject: str
    reply: str
    """Where its answer goes; empty: nowhere."""
    data: bytes
    headers: bytes = b""


class Info(NamedTuple):
    """What the server says of itself."""

    says: Mapping[str, Any]


class Trouble(NamedTuple):
    """What the server complains of."""

    why: str


Event = Message | Info | Trouble | Literal["PING", "PONG", "+OK"]


class Parser:
    """Makes events of bytes, however they are cut."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._needed = 0
        """Before so many bytes are there, there is no use in looking."""

    def alone(self, data: bytes) -> Message | None:
        """The message, where ``data`` is one, whole, and nothing else; None: :meth:`receive` has to look at it.

        That is what comes while little is going on, and whoever asked another node waits for it.
        """
        if self._kept or not data.startswith(b"MSG ") or not data.endswith(_END):
            return None
        end = data.find(_END)
        words, size = data[:end].split(), len(data) - end - 4
        if size < 0 or len(words) not in (4, 5) or words[-1] != b"%d" % size:
            return None
        reply = words[3].decode("utf-8", "replace") if len(words) == 5 else ""
        return Message(words[1].decode("utf-8", "replace"), reply, data[end + 2 : -2])

    def receive(self, data: bytes) -> Iterator[Event]:
        """What has come whole by now. Raises NotNats, and is of no use after that."""
        if self._kept:
            self._kept += data
            if len(self._kept) < self._needed:
                return
            data = bytes(self._kept)
            self._kept.clear()
        at = 0
        while (end := data.find(_END, at)) >= 0:
            words = data[at:end].split()
            op = words[0].upper() if words else b""
            if op not in (b"MSG", b"HMSG"):
                yield _event(op, data[at:end].strip()[len(op) :].strip())
                at = end + 2
                continue
            subject, reply, headers, size = _lengths(op, words)
            body = end + 2
            after = body + size
            if len(data) < after + 2:
                self._needed = after + 2 - at
                break
            if data[after : after + 2] != _END:
                raise NotNats("A message is longer than it says.")
            at = after + 2
            yield Message(subject, reply, data[body + headers : after], data[body : body + headers])
        else:
            self._needed = 0
            if len(data) - at > LINE_BYTES:
                raise NotNats("A line has no end.")
        self._kept += data[at:]


def _lengths(op: bytes, words: Sequence[bytes]) -> tuple[str, str, int, int]:
    """Subject, where the answer goes, and the bytes of headers, and of all."""
    numbers = 1 if op == b"MSG" else 2
    answered = len(words) == 4 + numbers
    if not (answered or len(words) == 3 + numbers) or not b"".join(words[-numbers:]).isdigit():
        raise NotNats("The line of a message cannot be read.")
    reply = words[3].decode("utf-8", "replace") if answered else ""
    headers, size = int(words[-2][:20]) if numbers == 2 else 0, int(words[-1][:20])
    if not headers <= size <= MOST_BYTES:
        raise NotNats(f"A message of {size} bytes with {headers} of headers is none.")
    return words[1].decode("utf-8", "replace"), reply, headers, size


def _event(op: bytes, said: bytes) -> Event:
    match op:
        case b"PING":
            return "PING"
        case b"PONG":
            return "PONG"
        case b"+OK":
            return "+OK"
        case b"-ERR":
            return Trouble(said.decode("utf-8", "replace").strip(" '"))
        case b"INFO":
            try:
                says = json.loads(said)
            except (ValueError, RecursionError):
                says = None
            if not isinstance(says, dict):
                raise NotNats("What the server says of itself cannot be read.")
            return Info(says)
        case _:
            raise NotNats(f"{op[:20]!r} is nothing that a server says.")


def connect(says: Mapping[str, Any]) -> bytes:
    """Who the client is, and what it understands."""
    understands = {"verbose": False, "pedantic": False, "lang": "python", "protocol": 1}
    # Without headers the server could not say that nobody is there to answer.
    understands |= {"headers": True, "no_responders": True}
    return b"CONNECT %b\r\n" % json.dumps({**understands, **says}).encode()


def publish(subject: str, reply: str, data: bytes) -> bytes:
    """A message; an empty ``reply``: nobody waits for an answer."""
    return b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply.encode(), len(data), data)


def subscribe(subject: str, queue: str, number: int) -> bytes:
    """Messages of a subject are wanted; of a ``queue`` only one member gets each."""
    return b"SUB %b %b %d\r\n" % (subject.encode(), queue.encode(), number)


def unsubscribe(number: int) -> bytes:
    """They are no longer wanted."""
    return b"UNSUB %d\r\n" % number
