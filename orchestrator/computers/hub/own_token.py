"""A computer's own token in what the computer says: it stays where it comes in.

What a program printed is changed here, character for character, so that all places in it stay. The bytes of files must
stay what they are, since a change of the file begins with them: they go on with the pieces that stand in them, and
whoever makes a text of them leaves those out (``world``).
"""

import asyncio
import json
from typing import Any, Final

from orchestrator.core.errors import ComputerFailed
from orchestrator.core.ports import CallResult
from orchestrator.core.ports.computers import OWN_TOKEN
from orchestrator.core.wire.own_token import Watched

_AT_ONCE: Final = 64 * 1024
"""Bytes that are looked through on the event loop: some milliseconds."""


class Secrecy:
    """What one computer says, without its token."""

    __slots__ = ("_printed", "_streamed")

    def __init__(self, token: str) -> None:
        self._printed = Watched(token)
        """What its programs printed, call after call."""
        self._streamed = Watched(token)
        """The same while they ran."""

    def part(self, data: bytes) -> bytes:
        """A part of what a running program wrote."""
        return _starred(self._streamed, data)

    async def of_result(self, result: CallResult) -> CallResult:
        """What a computer answered."""
        data, body = await self._without(result.data, result.body)
        return result if data is result.data else CallResult(data, body)

    async def of_failure(self, error: ComputerFailed) -> ComputerFailed:
        """What a computer failed with."""
        message = self._printed.starred(error.message)
        data, body = await self._without(error.data, error.body)
        if message == error.message and data is error.data:
            return error
        return ComputerFailed(error.reason, message, data, body)

    async def _without(self, data: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        """The same where nothing of the token is in it; of the data another object where something is."""
        if len(body) <= _AT_ONCE:
            return self._looked(data, body)
        return await asyncio.to_thread(self._looked, data, body)

    def _looked(self, data: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        pieces = self._printed.pieces(json.dumps(data))
        if "ended" in data:
            # Only a program ends, and its body is for people and the model alone.
            printed = _starred(self._printed, body)
            if printed != body or pieces:
                return {**data, OWN_TOKEN: list(pieces)}, printed
            return data, body
        pieces += self._printed.pieces(body.decode("latin-1"))
        if "height" in data:
            pieces += self._printed.pieces(_rows(body))
        return ({**data, OWN_TOKEN: list(pieces)}, body) if pieces or OWN_TOKEN in data else (data, body)


def _rows(body: bytes) -> str:
    """The text of a screen, row by row; empty where it is none."""
    try:
        return "\n".join(row["text"] for row in json.loads(body))
    except (ValueError, TypeError, KeyError):
        return ""


def _starred(watched: Watched, data: bytes) -> bytes:
    return watched.starred(data.decode("latin-1"), follows=True).encode("latin-1")
