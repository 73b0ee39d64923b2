"""What the model may discover by itself and what a person is asked about, by the shipped policy."""

from orchestrator.testing.stub_programs import StubPeripheral
from tests.contract.parts import Playing
from tests.harness.support import call, final, says
from tests.harness.whole_server import Installation

CHEST = StubPeripheral(
    ("minecraft:chest", "inventory"),
    {"list": lambda: {"1": {"name": "minecraft:coal", "count": 3}}, "pushItems": lambda *_: 3},
)
INFO = call("cc_info")
LIST = call("cc_peripheral_call", name="left", method="list")
PUSH = call("cc_peripheral_call", name="left", method="pushItems", args=["right", 1])
BURN = call("cc_peripheral_call", name="left", method="burn")


async def test_reading_is_free_and_moving_items_asks(installation: Installation) -> None:
    """Facts and the methods on the list come at once; another method is shown with what the peripheral is."""
    model = Playing(says(INFO), says(LIST), says(PUSH), final("moved"))
    async with installation.open(model, family="turtle") as server:
        await server.connect("3", peripherals={"left": CHEST}, family="turtle", computer_id=3)
        task_id, request = await server.asked()
        told = "\n".join(message.content for message in model.asked[-1])
        assert "- left: minecraft:chest, inventory\n  methods: list, pushItems" in told
        assert "minecraft:coal" in told
        (one,) = request["tool_calls"]
        assert one["args"] == {"name": "left", "method": "pushItems", "args": ["right", 1]}
        assert one["observed"]["note"].startswith("left is: minecraft:chest, inventory.")
        await server.decide(request, "approve")
        task = await server.ended(task_id)
        assert task["result"]["message"] == "moved"
        assert "left.pushItems returned:\n3" in model.told


async def test_what_cannot_work_asks_nobody(installation: Installation) -> None:
    """A method that is not there is told to the model, with those that are."""
    model = Playing(says(BURN), final("no"))
    async with installation.open(model, family="turtle") as server:
        await server.connect("3", peripherals={"left": CHEST}, family="turtle", computer_id=3)
        task_id = await server.submit()
        await server.ended(task_id)
        assert "left has no method burn. Its methods: list, pushItems." in model.told
        assert not await server.items(task_id, "review_requested")


async def test_a_read_only_task_reads_peripherals_and_calls_no_other_method(installation: Installation) -> None:
    """What the policy says only reads is allowed in plan mode; the rest is denied, and nobody is asked."""
    model = Playing(says(LIST), says(PUSH), final("looked"))
    async with installation.open(model, family="turtle") as server:
        await server.connect("3", peripherals={"left": CHEST}, family="turtle", computer_id=3)
        task_id = await server.submit(read_only=True)
        await server.ended(task_id)
        assert "minecraft:coal" in "\n".join(message.content for message in model.asked[1])
        assert "plan_mode" in model.told
        assert not await server.items(task_id, "review_requested")
