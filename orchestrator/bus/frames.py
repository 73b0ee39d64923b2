"""A letter of the bus as bytes: what it says as JSON, and the bytes beside it."""

import json
from collections.abc import Mapping
from struct import Struct
from typing import Any, Final, NamedTuple

from pydantic_core import from_json, to_json

_LENGTH: Final = Struct(">I")


class Letter(NamedTuple):
    """What goes from one node to another."""

    says: Mapping[str, Any]
    body: bytes = b""


def packed(letter: Letter) -> bytes:
    """The letter as bytes: the length of its JSON in four bytes, the JSON, the body. Raises ValueError, TypeError."""
    try:
        says = to_json(letter.says)
    except ValueError:
        # Half a pair of surrogates has no form in UTF-8; in ASCII it is escaped.
        says = json.dumps(letter.says, separators=(",", ":")).encode("ascii")
    return b"".join((_LENGTH.pack(len(says)), says, letter.body))


def unpacked(data: bytes) -> Letter:
    """The letter; raises ValueError where it is none."""
    if len(data) < _LENGTH.size:
        raise ValueError("A letter is cut off.")
    end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
    if end > len(data):
        raise ValueError("A letter is cut off.")
    try:
        says = from_json(data[_LENGTH.size : end])
    except ValueError:
        says = json.loads(data[_LENGTH.size : end])
    if not isinstance(says, dict):
        raise ValueError("A letter says nothing.")  # noqa: TRY004 - what the peer wrote, no type of ours
    return Letter(says, data[end:])
