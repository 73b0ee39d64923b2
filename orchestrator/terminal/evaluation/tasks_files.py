"""Tasks about files: one word or one number changed, and nothing else."""

from typing import Final

from orchestrator.terminal.evaluation.cases import EvalTask, Machine, call, final, text, tool
from orchestrator.terminal.evaluation.checks import Absent, FileIs, Prints

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
