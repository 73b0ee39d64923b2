"""What a turtle carries: its slots, the one that is selected, and its fuel."""

from dataclasses import dataclass, field
from typing import Any, Final

from cc_client.simulator.world.items import FUEL, STACK, Slots, Stack, WorldError
from cc_client.simulator.world.peripherals import number

SLOTS: Final = 16
Result = tuple[Any, ...]
DONE: Final[Result] = (True,)


def failed(why: str) -> Result:
    """What a command answers that was not done."""
    return (False, why)


def read_count(value: object) -> int:
    """A number of items, a whole stack for nil. Raises WorldError."""
    count = number(value, STACK)
    if not 0 <= count <= STACK:
        raise WorldError(f"Item count {count} out of range")
    return count


@dataclass
class Hold:
    """The slots of a turtle, and its fuel.

    Attributes:
        fuel: What is left, or None where turtles need none.
    """

    fuel: int | None = 1000
    fuel_limit: int = 20_000
    slots: Slots = field(default_factory=lambda: Slots(SLOTS))
    selected: int = 1

    def select(self, slot: object) -> Result:
        """Choose a slot."""
        self.selected = self.slot(slot)
        return DONE

    def slot(self, value: object) -> int:
        """A slot's number, the selected one's for nil. Raises WorldError."""
        chosen = number(value, self.selected)
        if not 1 <= chosen <= SLOTS:
            raise WorldError(f"Slot number {chosen} out of range")
        return chosen

    def item_count(self, slot: object = None) -> int:
        """How many items are in a slot."""
        stack = self.slots.get(self.slot(slot))
        return 0 if stack is None else stack.count

    def item_detail(self, slot: object = None, detailed: object = None) -> dict[str, Any] | None:
        """What is in a slot."""
        stack = self.slots.get(self.slot(slot))
        if stack is None:
            return None
        return stack.detail() if detailed else stack.basic()

    def transfer(self, slot: object, count: object = None) -> Result:
        """Move selected items to another slot."""
        goal = self.slot(slot)
        stack = self.slots.take(self.selected, read_count(count))
        if stack is None:
            return DONE
        moved = self.slots.add(stack, goal)
        self.slots.add(Stack(stack.name, stack.count - moved), self.selected)
        return DONE if moved else failed("No space for items")

    def compare_to(self, slot: object) -> Result:
        """Whether another slot holds the same kind."""
        one, other = self.slots.get(self.selected), self.slots.get(self.slot(slot))
        return ((one.name if one else None) == (other.name if other else None),)

    def refuel(self, count: object = None) -> Result:
        """Burn selected items."""
        wanted = number(count, STACK)
        if wanted < 0:
            raise WorldError(f"Refuel count {wanted} out of range")
        stack = self.slots.get(self.selected)
        if stack is None:
            return failed("No items to combust")
        if stack.name not in FUEL:
            return failed("Items not combustible")
        burned = self.slots.take(self.selected, wanted)
        if burned is not None and self.fuel is not None:
            self.fuel = min(self.fuel_limit, self.fuel + burned.count * FUEL[burned.name])
        return DONE
