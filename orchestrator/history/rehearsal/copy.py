"""Taking the copy: all that is on a real computer, its bytes in the store, and what of it may be in the copy."""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from orchestrator.core.errors import (
    CallLost,
    CallVoid,
    ComputerAway,
    ComputerFailed,
    InvalidRequest,
    OrchestratorError,
    ToolFailed,
)
from orchestrator.core.policy import PolicyContext
from orchestrator.core.ports import ComputerInfo, Store
from orchestrator.core.task.rehearsal import Rehearsal, copy_name
from orchestrator.core.undo.listings import Listed, Listing
from orchestrator.core.wire.wire import ComputerId
from orchestrator.history.rehearsal.disk import MAX_BYTES, MAX_FILES
from orchestrator.history.transfers import Transfer, Transfers
from orchestrator.tools.environment import World

CAPACITY_BYTES: Final = 1_000_000
"""What a computer has by the mod's own settings, where it does not say."""
COPY_WITHIN_S: Final = 60.0
"""Each file is a command of its own, some 30 ms; whoever asked waits for the answer."""
_NAMED: Final = 20
"""Paths that are not in the copy and are recorded by name."""
_LOOKS: Final = 2
"""Looks at a computer that goes away or is busy meanwhile."""
_NOT_READABLE: Final = "The policy does not let this task read it."


class CannotRehearse(OrchestratorError):
    """There can be no rehearsal now: the computer is away, or too many go on."""

    code = "cannot_rehearse"
    http_status = 409


@dataclass(frozen=True)
class Copying:
    """Copies real computers into the store."""

    store: Store
    world: World
    may_read: Callable[[PolicyContext, str], bool]
    """Whether the policy lets a task read a file without a question: a program in the copy reads what is there."""
    transfers: Transfers

    async def copied(self, info: ComputerInfo, roles: tuple[str, ...]) -> Rehearsal:
        """All of a computer that a task of these roles may read, in the store.

        Raises CannotRehearse, InvalidRequest.
        """
        try:
            with self.transfers.begin("rehearsal", info.computer) as transfer:
                async with asyncio.timeout(COPY_WITHIN_S):
                    return await self._tried(info, roles, transfer)
        except TimeoutError:
            raise CannotRehearse(
                f"Computer {info.computer} was not copied within {COPY_WITHIN_S:.0f} s.",
                remedy="Try again: what was read by now is kept and not read again.",
            ) from None

    async def _tried(self, info: ComputerInfo, roles: tuple[str, ...], transfer: Transfer) -> Rehearsal:
        for left in reversed(range(_LOOKS)):
            try:
                return await self._copied(info, roles, transfer)
            except (ComputerAway, CallLost, CallVoid, ComputerFailed, ToolFailed) as error:
                if not left:
                    raise CannotRehearse(
                        f"Computer {info.computer} could not be copied: {error}", remedy="Try again soon."
                    ) from error
        raise AssertionError("the last look answers or raises")

    async def _copied(self, info: ComputerInfo, roles: tuple[str, ...], transfer: Transfer) -> Rehearsal:
        computer = info.computer
        context = PolicyContext(
            computer=computer, family=info.family, label=info.label, former_labels=info.former_labels, roles=roles
        )
        listed = await self.world.listed(computer)
        _must_fit(computer, len(listed.listing.states), 0)
        allowed, hidden = self._readable(listed, context)
        kept = await self.world.kept(computer, allowed, on_read=transfer.told)
        _must_fit(computer, len(kept.listed.listing.states), kept.bytes)
        base = await self.store.put_blob(kept.listed.listing.lines)
        capacity = await self.world.capacity(computer) or CAPACITY_BYTES
        return Rehearsal(
            computer=computer,
            base=base.sha256,
            family=info.family,
            label=info.label,
            former_labels=info.former_labels,
            computer_id=info.computer_id or 0,
            host=info.host,
            capacity=min(capacity, MAX_BYTES),
            left_out=_named({**kept.listed.skipped, **hidden}),
        )

    def _readable(self, listed: Listed, context: PolicyContext) -> tuple[Listed, dict[str, str]]:
        """What of a listing may be in the copy, and what may not with why."""
        hidden = {path: _NOT_READABLE for path in listed.listing.files if not self.may_read(context, path)}
        states = {path: state for path, state in listed.listing.states.items() if path not in hidden}
        return Listed(Listing(states), listed.skipped), hidden


def new_copy_name(computer: ComputerId) -> ComputerId:
    """A name for a copy that nothing else has."""
    return copy_name(computer, secrets.token_hex(4))


def _must_fit(computer: ComputerId, count: int, size: int) -> None:
    if count > MAX_FILES or size > MAX_BYTES:
        raise InvalidRequest(
            f"There is too much on {computer} for a rehearsal: at most {MAX_FILES} files of {MAX_BYTES} bytes.",
            remedy="Run it without --rehearse; each change is then asked for.",
        )


def _named(left_out: dict[str, str]) -> dict[str, str]:
    """The first of what is left out; names on a computer are bytes, and what is no text in them is shown as such."""
    shown = {path.encode(errors="replace").decode(): why for path, why in sorted(left_out.items())}
    named = dict(list(shown.items())[:_NAMED])
    if len(shown) > _NAMED:
        named["…"] = f"And {len(shown) - _NAMED} more."
    return named
