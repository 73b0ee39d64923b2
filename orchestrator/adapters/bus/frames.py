"""A letter of the bus as bytes: what it says as JSON, and the bytes beside it."""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pydantic_core import from_json, to_json

_LENGTH_BYTES: Final = 4


class Letter(NamedTuple):
    """What goes from one node to another."""

    says: Mapping[str, Any]
    body: bytes = b""


def packed(says: Mapping[str, Any], body: bytes = b"") -> bytes:
    """A letter as bytes: the length of its JSON in four bytes, the JSON, the body. Raises ValueError, TypeError."""
    try:
        told = to_json(says)
    except ValueError:
        # Half a pair of surrogates has no form in UTF-8; in ASCII it is escaped.
        told = json.dumps(says, separators=(",", ":")).encode("ascii")
    return len(told).to_bytes(_LENGTH_BYTES, "big") + told + body


def unpacked(data: bytes) -> Letter:
    """The letter; raises ValueError where it is none."""
    end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "big")
    if end > len(data):
        raise ValueError("A letter is cut off.")
    try:
        # Most strings come once: pydantic's cache of them would only be one more thing to be fetched from memory.
        says = from_json(data[_LENGTH_BYTES:end], cache_strings="none")
    except ValueError:
        says = json.loads(data[_LENGTH_BYTES:end])
    if not isinstance(says, dict):
        raise ValueError("A letter says nothing.")  # noqa: TRY004 - what the peer wrote, no type of ours
    return Letter(says, data[end:])
