"""What the hub asks of the journal when a computer comes or goes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from orchestrator.core.task.system_facts import ComputerFrozen
from orchestrator.core.wire import wire
from orchestrator.core.wire.identity import NOTHING_HEARD, Heard
from orchestrator.core.wire.wire import ComputerId, RunId

# -- What the hub asks of the journal when a computer comes or goes ----------------------


@dataclass(frozen=True)
class Visitor:
    """Who said hello."""

    computer: ComputerId
    """Whose token it is."""
    hello: wire.Hello
    token: str = ""
    """The token's hash; empty: it is not known."""
    peer: str = ""
    """The address it came from; empty: it is not known."""


@dataclass(frozen=True)
class Met:
    """What becomes of a visitor."""

    number: int = 0
    """Newly allotted, for the welcome."""
    fresh: bool = False
    """Whether what was heard from the computer before counts no more."""
    frozen: ComputerFrozen | None = None
    """Why it is turned away, before this or now; None: it is welcome."""
    copy_of: int | None = None
    """It has a copied token and is turned away: the id in the game of the computer whose token that is."""
    former_labels: tuple[str, ...] = ()
    """As ``ComputerSide`` has it."""
    renamed: bool = False
    """Whether it comes with a label that it had not had before."""


class Greeter(Protocol):
    """What the journal has to say when a computer comes or goes."""

    async def meet(self, visitor: Visitor, *, heard: Heard) -> Met:
        """Welcome a visitor, or freeze the computer; ``heard``: what was heard from it since the journal was told."""

    async def copy_of(self, visitor: Visitor) -> int | None:
        """The id of the computer of which this visitor has a copy of the folder; None: that cannot be told."""

    async def copied(self, visitor: Visitor) -> ComputerFrozen:
        """Freeze the computer: who was welcome last still lives while this visitor comes."""

    async def heard(self, computer: ComputerId, heard: Heard) -> None:
        """Keep what was heard from a computer that has gone."""

    async def number(self, computer: ComputerId) -> int:
        """A newly allotted number of the computer."""

    async def closed_runs(self, computer: ComputerId, run_ids: Sequence[RunId]) -> list[RunId]:
        """Those of the runs in a computer's journal that nobody waits for any more."""

    async def labelled(self, computer: ComputerId, label: str, former_labels: tuple[str, ...]) -> None:
        """Keep the label that a computer has, beside the former ones; what waits is judged by a new one."""

    async def rejudge(self) -> None:
        """Judge what waits for a person: a computer came with a new label."""

    async def arrived(self, computer: ComputerId) -> None:
        """The computer is connected and welcome: wake what waited for it."""

    def left(self, computer: ComputerId) -> None:
        """The computer is not connected any more; nothing may be waited for here."""


# -- What the hub of one node asks of the others when a computer comes or goes -----------


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
