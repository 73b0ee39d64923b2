"""A turtle: where it stands, and what its commands do to the blocks around it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from cc_client.simulator.world.blocks import HEADINGS, LIQUID, UNBREAKABLE, Block, Blocks, Place, beyond, opposite
from cc_client.simulator.world.hold import DONE, Hold, Result, failed, read_count
from cc_client.simulator.world.items import Stack, WorldError
from cc_client.simulator.world.peripherals import number

ANIMATION_TICKS: Final = 8
"""What a move, a turn, digging and placing take."""
UP: Final[Place] = (0, 1, 0)
DOWN: Final[Place] = (0, -1, 0)


@dataclass
class Turtle(Hold):
    """The turtle of a computer of that family.

    Attributes:
        tool: Whether it can dig and attack.
    """

    blocks: Blocks = field(default_factory=Blocks)
    place: Place = (0, 64, 0)
    heading: str = "north"
    tool: bool = True

    def told(self) -> dict[str, Any]:
        """Where it is, what it has, for whoever watches."""
        items = {slot: stack.basic() for slot, stack in self.slots.items()}
        return {"position": self.place, "facing": self.heading, "fuel": self.fuel, "items": items}

    def directions(self) -> dict[str, Place]:
        """Which way each of the three directions goes."""
        return {"": HEADINGS[self.heading], "Up": UP, "Down": DOWN}

    def command(self, name: str) -> tuple[Callable[..., Result], int]:
        """The function behind a command of the API, and the ticks that it takes. Raises WorldError."""
        for suffix, step in self.directions().items():
            verb = name.removesuffix(suffix) if suffix else name
            if suffix and verb == name:
                continue
            about = _AROUND.get(verb)
            if about is not None:
                return partial(getattr(self, about[0]), step), about[1]
        own = _OWN.get(name)
        if own is None:
            raise WorldError(f"No such command {name}")
        return getattr(self, own[0]), own[1]

    def check(self, name: str, arguments: tuple[object, ...]) -> None:
        """Look at the arguments before the turtle takes its turn. Raises WorldError."""
        first = arguments[0] if arguments else None
        if name in {"select", "transferTo", "compareTo"}:
            number(first)
            self.slot(first)
        elif name.startswith(("drop", "suck")):
            read_count(first)

    # -- moving --------------------------------------------------------------------------

    def forward(self) -> Result:
        """Go one block ahead."""
        return self._go(HEADINGS[self.heading])

    def back(self) -> Result:
        """Go one block back, facing the same way."""
        return self._go(opposite(HEADINGS[self.heading]))

    def rise(self) -> Result:
        """Go up."""
        return self._go(UP)

    def sink(self) -> Result:
        """Go down."""
        return self._go(DOWN)

    def turn_left(self) -> Result:
        """Face the next heading to the left."""
        return self._turn(-1)

    def turn_right(self) -> Result:
        """Face the next heading to the right."""
        return self._turn(1)

    def _go(self, step: Place) -> Result:
        goal = beyond(self.place, step)
        if self.blocks.stands_in_the_way(goal):
            return failed("Movement obstructed")
        if self.fuel is not None and self.fuel < 1:
            return failed("Out of fuel")
        if self.fuel is not None:
            self.fuel -= 1
        self.place = goal
        return DONE

    def _turn(self, by: int) -> Result:
        names = list(HEADINGS)
        self.heading = names[(names.index(self.heading) + by) % len(names)]
        return DONE

    # -- what is around ------------------------------------------------------------------

    def dig(self, step: Place, side: object = None) -> Result:
        """Break a block and take what it drops."""
        del side
        there = beyond(self.place, step)
        block = self.blocks.blocks.get(there)
        if not self.tool:
            return failed("No tool to dig with")
        if block is None or block.name in LIQUID:
            return failed("Nothing to dig here")
        if block.name in UNBREAKABLE:
            return failed("Cannot break unbreakable block")
        del self.blocks.blocks[there]
        gained = [Stack(block.drops or block.name)]
        if block.inventory is not None:
            gained += [stack for _, stack in block.inventory.slots.items()]
        for stack in gained:
            self._keep(stack, there)
        return DONE

    def attack(self, step: Place, side: object = None) -> Result:
        """Hit what is there: nothing lives here."""
        del step, side
        return failed("Nothing to attack here" if self.tool else "No tool to attack with")

    def place_block(self, step: Place, *words: object) -> Result:
        """Put the selected item there as a block."""
        del words
        there = beyond(self.place, step)
        stack = self.slots.get(self.selected)
        if stack is None:
            return failed("No items to place")
        if self.blocks.stands_in_the_way(there):
            return failed("Cannot place block here")
        self.slots.take(self.selected, 1)
        self.blocks.blocks[there] = Block(stack.name)
        return DONE

    def detect(self, step: Place) -> Result:
        """Whether a block is there."""
        return (self.blocks.stands_in_the_way(beyond(self.place, step)),)

    def inspect(self, step: Place) -> Result:
        """What block is there."""
        block = self.blocks.blocks.get(beyond(self.place, step))
        return failed("No block to inspect") if block is None else (True, block.told())

    def compare(self, step: Place) -> Result:
        """Whether the block there is what is selected."""
        block = self.blocks.blocks.get(beyond(self.place, step))
        stack = self.slots.get(self.selected)
        return ((block.name if block else None) == (stack.name if stack else None),)

    def drop(self, step: Place, count: object = None) -> Result:
        """Put selected items into the inventory there, or on the ground."""
        there, wanted = beyond(self.place, step), read_count(count)
        if wanted == 0:
            return DONE
        stack = self.slots.take(self.selected, wanted)
        if stack is None:
            return failed("No items to drop")
        block = self.blocks.blocks.get(there)
        if block is None or block.inventory is None:
            self.blocks.dropped.setdefault(there, []).append(stack)
            return DONE
        moved = block.inventory.slots.add(stack)
        self.slots.add(Stack(stack.name, stack.count - moved), self.selected)
        return DONE if moved else failed("No space for items")

    def suck(self, step: Place, count: object = None) -> Result:
        """Take items out of the inventory there, or from the ground."""
        there, wanted = beyond(self.place, step), read_count(count)
        if wanted == 0:
            return DONE
        block = self.blocks.blocks.get(there)
        if block is not None and block.inventory is not None:
            first = next(iter(block.inventory.slots.items()), None)
            stack = None if first is None else block.inventory.slots.take(first[0], wanted)
        else:
            stack = _pick_up(self.blocks.dropped.get(there, []), wanted)
        if stack is None:
            return failed("No items to take")
        fitted = self.slots.add(stack, first=self.selected)
        left = Stack(stack.name, stack.count - fitted)
        if left.count and block is not None and block.inventory is not None:
            block.inventory.slots.add(left)
        elif left.count:
            self.blocks.dropped.setdefault(there, []).append(left)
        return DONE if fitted else failed("No space for items")

    def _keep(self, stack: Stack, there: Place) -> None:
        left = stack.count - self.slots.add(stack, first=self.selected)
        if left:
            self.blocks.dropped.setdefault(there, []).append(Stack(stack.name, left))

    def equip(self) -> Result:
        """Change the tool: no other is known here."""
        return failed("Not a valid upgrade")


def _pick_up(lying: list[Stack], count: int) -> Stack | None:
    if not lying:
        return None
    stack = lying.pop(0)
    if stack.count > count:
        lying.insert(0, Stack(stack.name, stack.count - count))
        return Stack(stack.name, count)
    return stack


_AROUND: Final = {
    "dig": ("dig", ANIMATION_TICKS),
    "attack": ("attack", ANIMATION_TICKS),
    "place": ("place_block", ANIMATION_TICKS),
    "detect": ("detect", 1),
    "inspect": ("inspect", 1),
    "compare": ("compare", 1),
    "drop": ("drop", ANIMATION_TICKS),
    "suck": ("suck", ANIMATION_TICKS),
}
_OWN: Final = {
    "forward": ("forward", ANIMATION_TICKS),
    "back": ("back", ANIMATION_TICKS),
    "up": ("rise", ANIMATION_TICKS),
    "down": ("sink", ANIMATION_TICKS),
    "turnLeft": ("turn_left", ANIMATION_TICKS),
    "turnRight": ("turn_right", ANIMATION_TICKS),
    "select": ("select", 1),
    "transferTo": ("transfer", 1),
    "compareTo": ("compare_to", 1),
    "refuel": ("refuel", 1),
    "equipLeft": ("equip", 1),
    "equipRight": ("equip", 1),
}
