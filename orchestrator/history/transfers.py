"""What is being read from computers now, such as for a backup: how far it has come, for whoever waits for it."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

from orchestrator.core.ports import Clock
from orchestrator.core.wire.wire import ComputerId

What = Literal["backup", "rehearsal"]


@dataclass
class Transfer:
    """One that goes on."""

    transfer_id: str
    what: What
    computer: ComputerId
    began_at: datetime
    files: int = 0
    """Files that were read, those with the same bytes once."""
    of_files: int | None = None
    """So many have to be read; None: it is not known yet what there is."""
    bytes: int = 0
    """Read so far."""

    def told(self, files: int, of_files: int, size: int) -> None:
        """How far it has come now."""
        self.files, self.of_files, self.bytes = files, of_files, size


@dataclass
class Transfers:
    """Those that go on at this node."""

    clock: Clock
    _now: dict[str, Transfer] = field(default_factory=dict)

    @contextmanager
    def begin(self, what: What, computer: ComputerId) -> Iterator[Transfer]:
        """One, as long as the block lasts."""
        transfer = Transfer(f"x-{secrets.token_hex(6)}", what, computer, self.clock.now())
        self._now[transfer.transfer_id] = transfer
        try:
            yield transfer
        finally:
            del self._now[transfer.transfer_id]

    def rows(self) -> list[dict[str, Any]]:
        """All of them as people see them, the oldest first."""
        return [{**asdict(one), "began_at": one.began_at.isoformat()} for one in self._now.values()]
