"""What the hub of one node asks of the others when a computer comes or goes."""

from dataclasses import dataclass
from typing import Protocol

from orchestrator.computers.hub.greeter import Visitor
from orchestrator.core.task.system_facts import ComputerFrozen
from orchestrator.core.wire.identity import NOTHING_HEARD, Heard
from orchestrator.core.wire.wire import ComputerId


@dataclass(frozen=True)
class Rival:
    """A connection of a computer at another node."""

    computer: ComputerId
    computer_id: int
    boot: str
    age_s: float
    """For how long it has been open."""


@dataclass(frozen=True)
class Yielded:
    """What became of the session that another node had of a computer."""

    newer: bool = False
    """It is the newer connection, and stays."""
    lives: bool = False
    """Another boot of the same computer answers there: there are two."""
    heard: Heard = NOTHING_HEARD
    """What was heard there."""


class Elsewhere(Protocol):
    """The other nodes."""

    async def yields(self, visitor: Visitor, age_s: float) -> Yielded:
        """Ask the node that has a session of a visitor's computer to let it go; it is not waited for long.

        ``age_s``: for how long the visitor's connection has been open. Ages are compared and not times of day, so
        that the clocks of two nodes need not agree; a request that takes long makes the visitor look younger.
        """

    async def turn_away(self, fact: ComputerFrozen) -> None:
        """Tell the node that has a session of a computer that it is frozen."""

    def changed(self, computer: ComputerId) -> None:
        """A computer came to this node, or left it. Nothing of it waits, and nothing raises."""
