"""A node asks the node that has a computer by the store, and that lives, to let it go before it welcomes it."""

from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.computers.nodes import Presence
from orchestrator.computers.nodes.table import GONE_AFTER_S
from orchestrator.core.wire.wire import ComputerId

Session = tuple[str, int]
"""The node that has a computer, and the number of its welcome there."""


class Manners:
    """What one node knew when a computer came, and whom it asked."""

    def __init__(
        self,
        presence: Presence,
        seat_of: Callable[[ComputerId], Session | None],
        wrong: Callable[[str], None],
        time: Callable[[], float],
    ) -> None:
        self._presence = presence
        self._seat_of = seat_of
        """The seat of a computer that has not left it, by the store at this moment."""
        self._wrong = wrong
        self._time = time
        self._came: dict[ComputerId, tuple[Session | None, float]] = {}
        """What was known as a computer came here first since it was welcome last, and when that was."""
        self._asked: set[tuple[ComputerId, Session | None]] = set()

    def comes(self, computer: ComputerId) -> None:
        """A computer connects here."""
        self._came.setdefault(computer, (self._elsewhere(computer), self._time()))

    def requested(self, payload: Mapping[str, Any]) -> None:
        """This node asks another for something."""
        if payload.get("op") == "yield":
            computer = ComputerId(payload["computer"])
            self._asked.add((computer, self._elsewhere(computer)))

    def _asked_about(self, computer: ComputerId, number: int) -> bool:
        """Whether somebody was asked who has this welcome or a later one, which was the end of this one."""
        return any(one == computer and who is not None and who[1] >= number for one, who in self._asked)

    def welcomes(self, computer: ComputerId) -> None:
        """A computer is about to be welcome here: who was known to have it all the while was asked."""
        known, since = self._came.pop(computer, (None, 0.0))
        if known is None or known != self._elsewhere(computer) or self._time() - since > GONE_AFTER_S:
            # It came there, or went, meanwhile; or the other node was taken for dead for a while.
            return
        if not self._asked_about(computer, known[1]):
            self._wrong(f"computer {computer} is welcome, and {known[0]}, which is known to have it, was not asked")

    def _elsewhere(self, computer: ComputerId) -> Session | None:
        seat = self._seat_of(computer)
        return seat if seat is not None and self._presence.table.knows(seat[0]) else None
