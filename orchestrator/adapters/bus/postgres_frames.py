"""What nodes of the PostgreSQL bus say to each other: JSON with bytes beside it, said in a notification if it is short.

A notification carries less than 8000 bytes. All of it is ASCII, so that its length does not depend on the database's
encoding, and every one has an id of its own: of two that are the same in one transaction PostgreSQL sends one.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

LONGEST: Final = 7999
"""Bytes that a notification carries at most."""

Kind = Literal["hint", "ask", "answer", "busy"]


@dataclass(frozen=True)
class Frame:
    """One message: who sends it, which one it is (an answer has the id of its request), and what it says."""

    kind: Kind
    sender: str
    id: str
    head: Mapping[str, Any] = field(default_factory=dict)
    body: bytes = b""
    by: float = 0.0
    """By the database's clock: a request that is heard later is not begun."""
    parts: int = 0
    """In so many parts the rest of it lies in the database; 0: this is all of it."""

    @property
    def place(self) -> str:
        """Where it lies if it is too large to be said."""
        return f"{self.kind}.{self.id}"


def said(frame: Frame) -> str | None:
    """The notification, or None where it is too large for one."""
    if len(frame.body) > LONGEST:
        return None
    beside = {"body": b64encode(frame.body).decode()} if frame.body else {}
    text = _notification(frame, head=frame.head, **beside)
    return text if len(text) <= LONGEST else None


def large(frame: Frame) -> bytes:
    """What is laid into the database of a frame that is too large."""
    return json.dumps(frame.head).encode() + b"\n" + frame.body


def spilled(frame: Frame, parts: int) -> str:
    """The notification of a frame that lies in the database."""
    return _notification(frame, parts=parts)


def heard(text: str) -> Frame:
    """The frame of a notification. Raises ValueError, KeyError or TypeError for one of somebody else's."""
    got = json.loads(text)
    body = b64decode(got.get("body", ""))
    return Frame(
        got["kind"], got["from"], got["id"], got.get("head", {}), body, got.get("by", 0.0), got.get("parts", 0)
    )


def fetched(frame: Frame, large: bytes) -> Frame:
    """The whole of a frame of which the rest lay in the database."""
    head, _, body = large.partition(b"\n")
    return Frame(frame.kind, frame.sender, frame.id, json.loads(head), body)


def _notification(frame: Frame, **rest: object) -> str:
    by = {"by": frame.by} if frame.by else {}
    return json.dumps({"kind": frame.kind, "from": frame.sender, "id": frame.id, **by, **rest}, separators=(",", ":"))
