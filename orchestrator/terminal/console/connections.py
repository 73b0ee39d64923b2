"""The connections of one reviewer, one after another: what is lost is opened again, for as long as they are patient."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.client import Attempts, Client, ServerRefused, ServerUnreachable

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

_FAULT = 500
"""An HTTP status from here on is the server's own trouble, or that of something before it, and may pass."""


@dataclass
class Connections:
    """Opens the reviewers' socket, and opens it again where a server was there and went away."""

    client: Client
    tell: Callable[[str], None]
    patience_s: float
    """Seconds in which the server is looked for; 0: it is not."""
    _stood: bool = False
    _attempts: Attempts = field(init=False)

    def __post_init__(self) -> None:
        self._attempts = Attempts(self.patience_s)

    def stands(self) -> bool:
        """The server has told what waits; whether it had been away."""
        self._stood = True
        return self._attempts.back()

    async def serve(self, over: "Callable[[ClientConnection], Awaitable[None]]") -> None:
        """Do something over a connection until it is done. Raises ServerRefused, ServerUnreachable."""
        while True:
            self._attempts.begin()
            try:
                async with self.client.reviewer() as socket:
                    return await over(socket)
            except (ServerUnreachable, ServerRefused) as lost:
                refused = isinstance(lost, ServerRefused) and lost.status < _FAULT
                if refused or not self._stood or not self.patience_s:
                    raise
                if self._attempts.lost():
                    self.tell(f"The server went away. Trying again for {self.patience_s:.0f} s; Ctrl-C leaves.")
                await asyncio.sleep(self._attempts.delay(lost))
