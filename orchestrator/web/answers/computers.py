"""What the doors of computers answer."""

from typing import Literal

from pydantic import AwareDatetime

from orchestrator.core.task.system_facts import ComputerSide, FreezeReason
from orchestrator.web.answers.base import AnswerModel


class FrozenAnswer(AnswerModel):
    """Why a computer is frozen."""

    reason: FreezeReason
    since: AwareDatetime | None
    message: str
    """What happened, as a sentence."""
    remedy: str
    """What a person does about it."""
    facts: dict[str, int]
    """What was compared: ``heard`` and ``number`` of the store, ``found_seq`` and ``highest`` of the computer."""
    sides: list[ComputerSide]
    """Who was welcome last, if anybody was, then who came."""


class ComputerAnswer(AnswerModel):
    """A computer that has a token; only one that said hello since this start says more of itself."""

    computer: str
    online: bool
    state: Literal["online", "away", "frozen"]
    frozen: FrozenAnswer | None
    """null: it is not frozen."""
    owner: str | None
    """Who paired it; null: nobody that is known."""
    seen_at: AwareDatetime | None
    """When it was connected last; null: it is now, or never was."""
    node: str | None = None
    """The name of the node that it is connected to; null: to the one that answers, or to none."""
    label: str | None = None
    former_labels: tuple[str, ...] = ()
    """Other labels that it had since it was paired; an empty one: it had none. Rules by label look at them, too."""
    host: str = ""
    family: str = ""
    computer_id: int | None = None
    client: str = ""
    """The version of its client."""


class ComputerLong(ComputerAnswer):
    """One computer."""

    last: ComputerSide | None
    """Who was welcome last; null: nobody since a release that keeps it."""
    released: bool
    """A person let it come back, and it has not come yet."""


class ComputerFreed(AnswerModel):
    """Whether this request released the computer; false: it was not frozen."""

    computer: str
    released: bool


class LabelDone(AnswerModel):
    """The label that is confirmed; ``confirmed`` false: the computer had no other."""

    computer: str
    label: str
    confirmed: bool


class ComputerList(AnswerModel):
    """All computers that have a token."""

    computers: list[ComputerAnswer]


class NodeAnswer(AnswerModel):
    """A server of several that share one store and one bus."""

    node: str
    """Its id, another one at each start."""
    name: str
    version: str
    """Empty: it does not know."""
    started_at: AwareDatetime
    url: str
    """Where it listens; empty: it does not say."""
    draining: bool
    """Whether it takes no new work and sends its computers elsewhere."""
    tasks: int
    """How many tasks it acts for now."""
    clock_ahead_s: float
    """By how much its machine's clock is ahead of the store's, by which all of them go."""
    computers: int
    """How many computers are connected to it."""
    here: bool
    """Whether it is the one that answers."""


class NodeList(AnswerModel):
    """The nodes that are heard now, the one that answers first."""

    nodes: list[NodeAnswer]
    connected: bool
    """Whether the one that answers can reach others now, as far as it knows."""
    alerts: list[str]
    """What is wrong between the nodes, as far as the one that answers sees it, as sentences."""
    apart: list[str]
    """Nodes on the same bus that work with another store, and so not with these."""
