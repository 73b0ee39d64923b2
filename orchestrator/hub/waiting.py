"""Somebody who waits for something of a computer."""

import asyncio
import math
from collections.abc import Callable
from typing import Any

from orchestrator.core.errors import CallLost
from orchestrator.core.wire import ComputerId

OnOutput = Callable[[int, bytes], None]


class Wait:
    """Somebody waits for something of a computer until ``due``; past it a settle has to ask again."""

    __slots__ = ("computer", "due", "future", "on_output", "span", "what", "within_s")

    def __init__(
        self,
        computer: ComputerId,
        within_s: float,
        on_output: OnOutput | None = None,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        loop = loop or asyncio.get_running_loop()
        self.computer = computer
        self.future: asyncio.Future[Any] = loop.create_future()
        self.on_output = on_output
        self.within_s = within_s
        """Seconds that the computer gets once it has the whole call."""
        self.due, self.span, self.what = loop.time() + within_s, within_s, "did not answer"

    def bound(self, now: float, span: float, what: str) -> None:
        """Wait until ``span`` seconds from now for a computer that otherwise ``what``."""
        self.due, self.span, self.what = now + span, span, what

    def overdue(self, now: float) -> None:
        """It was too long."""
        del now
        self.due = math.inf
        self.resolve(CallLost(f"Computer {self.computer} {self.what} within {self.span:.0f} s."))

    def resolve(self, outcome: Any) -> None:
        """End the wait, with an answer or an exception; it ends once."""
        if self.future.done():
            return
        if isinstance(outcome, Exception):
            self.future.set_exception(outcome)
            self.future.exception()
        else:
            self.future.set_result(outcome)
