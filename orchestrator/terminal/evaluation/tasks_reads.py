"""Tasks that only ask: nothing may be written or run for them."""

from typing import Final

from orchestrator.terminal.evaluation.cases import EvalTask, Machine, call, final, text, tool
from orchestrator.terminal.evaluation.checks import Says

_QUARRY = text(
    "local depth = 12",
    "local file = fs.open('quarry.cfg', 'r')",
    "local settings = textutils.unserialize(file.readAll())",
    "file.close()",
    "for level = 1, settings.depth or depth do",
    "  print('digging level ' .. level)",
    "end",
)

LOOKING: Final[tuple[EvalTask, ...]] = (
    EvalTask(
        name="quarry-question",
        prompt="Why does my quarry program crash at startup?",
        machines=(
            Machine("quarry-question", {"startup.lua": text("shell.run('quarry')"), "quarry.lua": _QUARRY}, "turtle"),
        ),
        optimal=(
            tool("I look at the files and the program.", call("cc_list", path="/"), call("cc_read", path="quarry.lua")),
            final(
                "quarry.lua opens quarry.cfg, and there is no such file: fs.open gives nil, and file.readAll() "
                "then fails with an attempt to index a nil value. Make quarry.cfg, or check for nil."
            ),
        ),
        checks=(Says((("quarry.cfg",),)),),
        question=True,
    ),
    EvalTask(
        name="find-uses",
        prompt="In which files is the function openGate called?",
        machines=(
            Machine(
                "find-uses",
                {
                    "gates.lua": text("function openGate(side)", "  redstone.setOutput(side, true)", "end"),
                    "night.lua": text("dofile('gates.lua')", "if os.time() > 19 then", "  openGate('left')", "end"),
                    "lib/tour.lua": text("local function tour()", "  openGate('back')", "end", "return tour"),
                    "clock.lua": text("print(os.time())"),
                },
            ),
        ),
        optimal=(
            tool("I search for the name.", call("cc_find", pattern="**/*.lua", contains="openGate")),
            final("night.lua and lib/tour.lua call openGate; gates.lua defines it."),
        ),
        checks=(Says((("night.lua",), ("tour.lua",))),),
        question=True,
    ),
    EvalTask(
        name="chest-question",
        prompt="How many pieces of coal are in the chest on the left side of this computer?",
        machines=(
            Machine(
                "chest-question",
                world={
                    "peripherals": {
                        "left": {
                            "type": "minecraft:chest",
                            "size": 27,
                            "items": {"1": "minecraft:coal*30", "4": "minecraft:dirt*12", "9": "minecraft:coal*7"},
                        }
                    }
                },
            ),
        ),
        optimal=(
            tool("I list the chest.", call("cc_peripheral_call", name="left", method="list")),
            final("There are 37 pieces of coal: 30 in slot 1 and 7 in slot 9."),
        ),
        checks=(Says((("37",),)),),
        question=True,
    ),
    EvalTask(
        name="fuel-question",
        prompt="How much fuel does this turtle have left?",
        machines=(Machine("fuel-question", {}, "turtle", {"turtle": {"fuel": 742}}),),
        optimal=(tool("I look at the turtle.", call("cc_info")), final("It has fuel for 742 moves.")),
        checks=(Says((("742",),)),),
        question=True,
    ),
    EvalTask(
        name="redstone-question",
        prompt="How strong is the redstone signal that comes in at the front?",
        machines=(Machine("redstone-question", world={"redstone": {"front": 11}}),),
        optimal=(tool("I look at the sides.", call("cc_info")), final("The signal at the front has strength 11.")),
        checks=(Says((("11",),)),),
        question=True,
    ),
    EvalTask(
        name="read-only",
        prompt="Which line of lamp.lua has the mistake?",
        machines=(
            Machine(
                "read-only",
                {
                    "lamp.lua": text(
                        "local on = redstone.getInput('top')",
                        "if on",
                        "  redstone.setOutput('bottom', true)",
                        "end",
                    )
                },
            ),
        ),
        optimal=(
            tool("I read it.", call("cc_read", path="lamp.lua")),
            final("Line 2: the word then is missing after `if on`."),
        ),
        checks=(Says((("2", "two", "second"), ("then",))),),
        read_only=True,
    ),
    EvalTask(
        name="cannot",
        prompt="Fix the crash in reactor.lua.",
        machines=(Machine("cannot", {"farm.lua": text("print('farming')")}),),
        optimal=(
            tool("I look for it.", call("cc_find", pattern="**/reactor*")),
            final("There is no reactor.lua on this computer, so there is nothing to fix.", success=False),
        ),
        possible=False,
    ),
)
"""Questions, a task that may only look, and one that cannot be done."""
