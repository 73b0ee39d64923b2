"""Which computers there are, whether they can be reached, and the numbers that their acknowledgements carry."""

from dataclasses import dataclass, field

from orchestrator.core.policy import PolicyContext
from orchestrator.core.ports import Computers, Store
from orchestrator.core.wire.wire import ComputerId, RunId


@dataclass
class Reach:
    """The computers of one orchestrator, and the store that numbers what is said to them."""

    store: Store
    computers: Computers | None = None
    """None: there are none, as in a library call, whose tools bring what they work with."""
    awaited: set[ComputerId] = field(default_factory=set)
    """Computers for which this node let a task sleep: when one comes to another node, which may have woken whoever
    waited for it just before the task slept, they are woken once more."""

    def online(self, computer: ComputerId) -> bool:
        """Whether a call to the computer can be made now."""
        if self.computers is None:
            return True
        info = self.computers.info(computer)
        return info is not None and info.online

    def context(self, computer: ComputerId | None) -> PolicyContext:
        """What the policy may know of a call's computer."""
        info = self.computers.info(computer) if self.computers and computer else None
        if info is None:
            return PolicyContext(computer=computer)
        return PolicyContext(computer=computer, family=info.family, label=info.label, former_labels=info.former_labels)

    def identity(self, computer: ComputerId | None) -> str:
        """Which computer goes by this name now; empty where that is not known, or on this host."""
        info = self.computers.info(computer) if self.computers and computer else None
        return info.identity if info is not None else ""

    async def acknowledge(self, computer: ComputerId | None, run_id: RunId) -> None:
        """Let the computer forget an outcome that is durable here."""
        if computer is not None and self.computers is not None and self.online(computer):
            heard = self.computers.heard(computer)
            self.computers.acknowledge(computer, run_id, await self.store.allot_number(computer, heard=heard))
