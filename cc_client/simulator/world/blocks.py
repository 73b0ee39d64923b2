"""The blocks around a turtle."""

from dataclasses import dataclass, field
from typing import Any, Final

from cc_client.simulator.world.items import Stack
from cc_client.simulator.world.peripherals import Inventory

Place = tuple[int, int, int]
UNBREAKABLE: Final = frozenset({"minecraft:bedrock", "minecraft:barrier"})
LIQUID: Final = frozenset({"minecraft:water", "minecraft:lava"})
HEADINGS: Final[dict[str, Place]] = {"north": (0, 0, -1), "east": (1, 0, 0), "south": (0, 0, 1), "west": (-1, 0, 0)}
"""Which way each heading goes, in the order of right turns."""


@dataclass
class Block:
    """One block.

    Attributes:
        name: Such as ``minecraft:stone``.
        state: What ``inspect`` tells of it besides.
        drops: What digging it gives; None: itself.
        inventory: What it holds, where it is a chest or the like.
    """

    name: str
    state: dict[str, Any] = field(default_factory=dict)
    drops: str | None = None
    inventory: Inventory | None = None

    def told(self) -> dict[str, Any]:
        """What ``inspect`` tells."""
        return {"name": self.name, "state": self.state, "tags": {}}


@dataclass
class Blocks:
    """All blocks that are not air, and the items that lie about."""

    blocks: dict[Place, Block] = field(default_factory=dict)
    dropped: dict[Place, list[Stack]] = field(default_factory=dict)

    def stands_in_the_way(self, place: Place) -> bool:
        """Whether nobody can go there."""
        block = self.blocks.get(place)
        return block is not None and block.name not in LIQUID


def beyond(place: Place, step: Place) -> Place:
    """The next place in a direction."""
    return (place[0] + step[0], place[1] + step[1], place[2] + step[2])


def opposite(step: Place) -> Place:
    """The other way."""
    return (-step[0], -step[1], -step[2])
