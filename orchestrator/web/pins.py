"""PINs of people: how one is kept, how one is checked, and how often a wrong one is taken.

Theory. A PIN is short, and typed in the game. So it opens no endpoint: it only proves who reviews at a computer where
the policy allows that. The store has it as a token of the kind ``pin``: a salt of 128 random bits and 128 bits of
scrypt, in place of a hash. An item has only a hash over both. The salt is in no item, so nobody can try PINs against
the audit.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from math import ceil
from typing import Final

from starlette.requests import Request

from orchestrator.core.errors import InvalidRequest, OrchestratorError
from orchestrator.core.ports import Identity, TokenRow
from orchestrator.core.task.system_facts import TokenIssued, TokenRevoked
from orchestrator.engine.tasks import TaskService, person
from orchestrator.web.answers.base import PinAnswer
from orchestrator.web.base import Room
from orchestrator.web.bodies import PinBody, read_body

_SALT_BYTES: Final = 16
_LEAST, _MOST = 6, 12
"""Digits of a PIN."""
WRONG_PINS: Final = 5
"""Wrong PINs for one person at one computer, before none is looked at for a while."""
WRONG_PINS_WITHIN: Final = timedelta(minutes=15)
_KEPT: Final = 10_000
"""People and computers that are remembered; the one that tried longest ago makes room."""


class TooManyPins(OrchestratorError):
    """Too many wrong PINs: none is looked at now."""

    code = "too_many_pins"
    http_status = 429


def kept_pin(pin: str, salt: bytes | None = None) -> str:
    """What is kept of a PIN, as 64 hex digits: the salt, then the slow hash. It takes about 50 ms."""
    salt = secrets.token_bytes(_SALT_BYTES) if salt is None else salt
    return (salt + hashlib.scrypt(pin.encode(), salt=salt, n=2**14, r=8, p=1, dklen=16)).hex()


def is_pin(pin: str, kept: str) -> bool:
    """Whether this is the PIN of which ``kept`` is kept."""
    return hmac.compare_digest(kept_pin(pin, bytes.fromhex(kept)[:_SALT_BYTES]), kept)


def check_new(pin: str) -> None:
    """Raises InvalidRequest for what is no PIN, or one that everybody tries first."""
    if not (pin.isascii() and pin.isdecimal() and _LEAST <= len(pin) <= _MOST):
        raise InvalidRequest(f"A PIN has {_LEAST} to {_MOST} digits.", remedy="Choose digits that nobody guesses.")
    steps = {int(after) - int(before) for before, after in pairwise(pin)}
    if len(steps) == 1 or len(set(pin)) < 3:
        raise InvalidRequest("Everybody would try this PIN first.", remedy="Choose digits that nobody guesses.")


async def pin_of(service: TaskService, name: str) -> TokenRow | None:
    """The PIN of a person as it is kept; None: they have none."""
    rows = await service.store.list_tokens()
    return next((row for row in rows if (row.kind, row.name, row.revoked) == ("pin", name, False)), None)


@dataclass
class WrongPins:
    """The wrong PINs of each person at each computer, as far as they count still."""

    _times: dict[tuple[str, str], deque[datetime]] = field(default_factory=dict)

    async def check(self, pin: str, kept: str, *, name: str, computer: str, now: datetime) -> bool:
        """Whether it is the PIN. Raises TooManyPins, without a look at it.

        It counts as wrong from the first moment: those that are sent at once have no more tries.
        """
        times = self._times.pop((name, computer), deque())
        while times and now - times[0] >= WRONG_PINS_WITHIN:
            times.popleft()
        self._times[name, computer] = times
        if len(self._times) > _KEPT:
            del self._times[next(iter(self._times))]
        if len(times) >= WRONG_PINS:
            minutes = ceil((times[0] + WRONG_PINS_WITHIN - now).total_seconds() / 60)
            raise TooManyPins(f"{WRONG_PINS} PINs were wrong here.", remedy=f"Try again in {minutes} min.")
        times.append(now)
        is_right = await asyncio.to_thread(is_pin, pin, kept)
        if is_right:
            times.clear()
        return is_right


class PinEndpoints(Room):
    """``/v1/pin``: everybody's own, and nobody else's."""

    async def set_pin(self, request: Request) -> PinAnswer:
        """``POST /v1/pin``: the PIN that one types in the game; one that was set before counts no more."""
        identity = await self.who(request)
        pin = (await read_body(request, PinBody)).pin
        check_new(pin)
        await self._remove(identity)
        kept = await asyncio.to_thread(kept_pin, pin)
        note = self.service.draft(TokenIssued(holder_kind="pin", name=identity.name), person(identity))
        row = TokenRow(token_hash=kept, kind="pin", name=identity.name, created_at=note.at)
        await self.service.store.add_token(row, note=note)
        return PinAnswer(set=True)

    async def remove_pin(self, request: Request) -> PinAnswer:
        """``DELETE /v1/pin``: nobody reviews in the game by it any more."""
        await self._remove(await self.who(request))
        return PinAnswer(set=False)

    async def _remove(self, identity: Identity) -> None:
        note = self.service.draft(TokenRevoked(holder_kind="pin", name=identity.name, count=0), person(identity))
        await self.service.store.revoke_tokens("pin", identity.name, note=note)
