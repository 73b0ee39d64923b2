"""The whole set, from the easiest on."""

from collections.abc import Sequence
from typing import Final

from orchestrator.core.errors import NotFound
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.evaluation.cases import EvalTask, Machine, call, final, text, tool
from orchestrator.terminal.evaluation.checks import Absent, FileIs, Prints, Says
from orchestrator.terminal.evaluation.tasks_programs import PROGRAMS

# -- Tasks about files: one word or one number changed, and nothing else -----------------

_GREET = text("-- Greets whoever stands before the door.", "print('Helo, stranger!')", "print('Come in.')")
_BELT = text("-- the conveyor belt", "speed = 4", "length = 16", "items = 64")
_MINER = text("for n = 1, 3 do", "  print('mining ' .. n)", "end")
_DOORS = b"name=main gate\r\nopen=false\r\nside=left\r\n"
_SIGN = "Willkommen in Zürich\nFür Gäste: links\n".encode("latin-1")
_SIGN_AFTER = "Willkommen in Genève\nFür Gäste: links\n".encode("latin-1")
_CLOCK = text("print('clock started')")
_LIGHTS = text("print('lights on')")
_BEFORE = text("-- my startup", "shell.run('lights')")
_BASE = text("channel = 42", "relay = true")

FILES: Final[tuple[EvalTask, ...]] = (
    EvalTask(
        name="fix-typo",
        prompt="greet.lua writes Helo instead of Hello. Fix the typo and change nothing else.",
        machines=(Machine("fix-typo", {"greet.lua": _GREET}),),
        optimal=(
            tool("I read it.", call("cc_read", path="greet.lua")),
            tool("One word.", call("cc_edit", path="greet.lua", old="Helo", new="Hello")),
            final("greet.lua says Hello now."),
        ),
        checks=(FileIs("greet.lua", _GREET.replace(b"Helo", b"Hello")),),
        touches=frozenset({"greet.lua"}),
    ),
    EvalTask(
        name="edit-number",
        prompt="Set the speed in belt.cfg to 8. Leave everything else in it as it is.",
        machines=(Machine("edit-number", {"belt.cfg": _BELT}),),
        optimal=(
            tool("I read it.", call("cc_read", path="belt.cfg")),
            tool("One number.", call("cc_edit", path="belt.cfg", old="speed = 4", new="speed = 8")),
            final("The speed is 8."),
        ),
        checks=(FileIs("belt.cfg", _BELT.replace(b"speed = 4", b"speed = 8")),),
        touches=frozenset({"belt.cfg"}),
    ),
    EvalTask(
        name="rename",
        prompt="Rename old.lua to miner.lua.",
        machines=(Machine("rename", {"old.lua": _MINER, "other.lua": _CLOCK}),),
        optimal=(
            tool("I move it.", call("cc_move", path="old.lua", to="miner.lua")),
            final("old.lua is miner.lua now."),
        ),
        checks=(FileIs("miner.lua", _MINER), Absent("old.lua")),
        touches=frozenset({"old.lua", "miner.lua"}),
    ),
    EvalTask(
        name="delete-one",
        prompt="Delete backup2.lua. Keep the other backups.",
        machines=(Machine("delete-one", {f"backup{n}.lua": text(f"print({n})") for n in (1, 2, 3)}),),
        optimal=(
            tool("Only this one.", call("cc_delete", path="backup2.lua")),
            final("backup2.lua is deleted."),
        ),
        checks=(Absent("backup2.lua"),),
        touches=frozenset({"backup2.lua"}),
    ),
    EvalTask(
        name="into-folder",
        prompt="Make a folder tools and move dig.lua, fell.lua and wall.lua into it.",
        machines=(Machine("into-folder", {f"{n}.lua": text(f"print('{n}')") for n in ("dig", "fell", "wall", "map")}),),
        optimal=(
            tool("First the folder.", call("cc_mkdir", path="tools")),
            tool(
                "Then all three.",
                *(call("cc_move", path=f"{n}.lua", to=f"tools/{n}.lua") for n in ("dig", "fell", "wall")),
            ),
            final("The three programs are in tools."),
        ),
        checks=tuple(FileIs(f"tools/{n}.lua", text(f"print('{n}')")) for n in ("dig", "fell", "wall")),
        touches=frozenset({f"{folder}{n}.lua" for folder in ("", "tools/") for n in ("dig", "fell", "wall")}),
    ),
    EvalTask(
        name="crlf",
        prompt="Change open=false to open=true in doors.cfg. Keep its line ends as they are.",
        machines=(Machine("crlf", {"doors.cfg": _DOORS}),),
        optimal=(
            tool("I read it.", call("cc_read", path="doors.cfg")),
            tool("One word.", call("cc_edit", path="doors.cfg", old="open=false", new="open=true")),
            final("The door is open in doors.cfg."),
        ),
        checks=(FileIs("doors.cfg", _DOORS.replace(b"false", b"true")),),
        touches=frozenset({"doors.cfg"}),
    ),
    EvalTask(
        name="latin-1",
        prompt="Replace Zürich by Genève in sign.txt.",
        machines=(Machine("latin-1", {"sign.txt": _SIGN}),),
        optimal=(
            tool("I read it.", call("cc_read", path="sign.txt")),
            tool("One word.", call("cc_edit", path="sign.txt", old="Zürich", new="Genève")),
            final("The sign says Genève."),
        ),
        checks=(FileIs("sign.txt", _SIGN_AFTER),),
        touches=frozenset({"sign.txt"}),
    ),
    EvalTask(
        name="startup",
        prompt="Make this computer run clock.lua too when it boots. What startup.lua does today must go on.",
        machines=(Machine("startup", {"startup.lua": _BEFORE, "lights.lua": _LIGHTS, "clock.lua": _CLOCK}),),
        optimal=(
            tool("I read it.", call("cc_read", path="startup.lua")),
            tool(
                "I add a line.",
                call(
                    "cc_edit",
                    path="startup.lua",
                    old="shell.run('lights')\n",
                    new="shell.run('lights')\nshell.run('clock')\n",
                ),
            ),
            final("startup.lua runs lights and then clock."),
        ),
        checks=(Prints("", ("lights on",)), Prints("", ("clock started",))),
        touches=frozenset({"startup.lua", "startup/*"}),
    ),
    EvalTask(
        name="two-computers",
        prompt="Copy the file radio.cfg of the computer base to the computer farm, under the same name.",
        machines=(Machine("base", {"radio.cfg": _BASE}), Machine("farm", {"farm.lua": _MINER})),
        optimal=(
            tool("I read it there.", call("cc_read", path="radio.cfg", computer="base")),
            tool("I write it here.", call("cc_write", path="radio.cfg", content=_BASE.decode(), computer="farm")),
            final("farm has the same radio.cfg as base."),
        ),
        checks=(FileIs("radio.cfg", _BASE, "farm"), FileIs("radio.cfg", _BASE, "base")),
        touches=frozenset({"radio.cfg"}),
    ),
)
"""Changes of files that are there, and what must stay."""


# -- Tasks that only ask: nothing may be written or run for them -------------------------

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


# -- The whole set, from the easiest on --------------------------------------------------

TASKS: Final[tuple[EvalTask, ...]] = (*PROGRAMS, *FILES, *LOOKING)


def tasks_named(names: Sequence[str], tasks: Sequence[EvalTask] = TASKS) -> tuple[EvalTask, ...]:
    """The tasks of these names, in the order of the set; all for no name. Raises NotFound."""
    known = {task.name for task in tasks}
    for name in names:
        if name not in known:
            raise NotFound(
                f"There is no task '{one_line(name)}' in the evaluation.",
                remedy=f"There are {', '.join(sorted(known))}.",
            )
    return tuple(task for task in tasks if not names or task.name in names)
