"""Stacks of items, and the slots that hold them."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

STACK: Final = 64
FUEL: Final = {
    "minecraft:coal": 80,
    "minecraft:charcoal": 80,
    "minecraft:coal_block": 800,
    "minecraft:lava_bucket": 1000,
    "minecraft:oak_planks": 15,
    "minecraft:oak_log": 15,
    "minecraft:stick": 5,
}
"""Moves that one item is worth (its burning time divided by 20)."""


class WorldError(Exception):
    """The world refuses; the text is the sentence that Lua sees."""


@dataclass(frozen=True)
class Stack:
    """Some items of one kind."""

    name: str
    count: int = 1

    def basic(self) -> dict[str, Any]:
        """What ``list`` tells of it."""
        return {"name": self.name, "count": self.count}

    def detail(self) -> dict[str, Any]:
        """What ``getItemDetail`` tells of it."""
        words = self.name.partition(":")[2].replace("_", " ").title()
        return self.basic() | {"displayName": words, "maxCount": STACK, "tags": {}}


@dataclass
class Slots:
    """A row of slots, numbered from 1."""

    size: int
    _stacks: dict[int, Stack] = field(default_factory=dict)

    def get(self, slot: int) -> Stack | None:
        """What is in a slot."""
        return self._stacks.get(slot)

    def put(self, slot: int, stack: Stack | None) -> None:
        """Fill or empty a slot."""
        if stack is None or stack.count <= 0:
            self._stacks.pop(slot, None)
        else:
            self._stacks[slot] = stack

    def items(self) -> Iterator[tuple[int, Stack]]:
        """The slots that are not empty, in order."""
        return iter(sorted(self._stacks.items()))

    def take(self, slot: int, count: int) -> Stack | None:
        """At most so many out of a slot."""
        stack = self.get(slot)
        if stack is None or count <= 0:
            return None
        taken = min(count, stack.count)
        self.put(slot, replace(stack, count=stack.count - taken))
        return replace(stack, count=taken)

    def add(self, stack: Stack, only: int | None = None, first: int = 1) -> int:
        """Put items where they fit, from slot ``first`` on, or into slot ``only``; how many fitted."""
        every = [(first - 1 + offset) % self.size + 1 for offset in range(self.size)] if only is None else [only]
        # Those that have some already come first.
        every.sort(key=lambda slot: self.get(slot) is None)
        left = stack.count
        for slot in every:
            there = self.get(slot)
            if there is None or there.name == stack.name:
                fits = min(left, STACK - (there.count if there else 0))
                if fits > 0:
                    self.put(slot, Stack(stack.name, fits + (there.count if there else 0)))
                    left -= fits
        return stack.count - left

    def check(self, slot: object, sentence: str = "Slot out of range (%s)") -> int:
        """A slot's number. Raises WorldError for one that is not there."""
        if not isinstance(slot, int | float) or isinstance(slot, bool):
            raise WorldError("bad argument #1 (number expected)")
        if not 1 <= slot <= self.size:
            raise WorldError(sentence % f"expected {int(slot)} to be within 1 and {self.size}")
        return int(slot)


def move(source: Slots, slot: int, target: Slots, to_slot: int | None, limit: int) -> int:
    """Move items from a slot to other slots; how many were moved."""
    stack = source.take(slot, limit)
    if stack is None:
        return 0
    moved = target.add(stack, to_slot)
    if moved < stack.count:
        source.add(Stack(stack.name, stack.count - moved), slot)
    return moved
