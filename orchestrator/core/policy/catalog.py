"""The catalog: one record per tool, with the model of its arguments. A tool outside of it never runs."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, Field, JsonValue, field_validator

from orchestrator.core.policy.tool_spec import Governance, OnComputer, Recovery, ToolArgs, ToolSpec
from orchestrator.core.policy.verdicts import RiskLevel
from orchestrator.core.task.choices import MAX_CHARS, MAX_CHOICES, checked

# -- The arguments, as a model may give them: the docstring of each is the tool's line in the prompt


class SendStatusArgs(ToolArgs):
    """Tell the user how it goes."""

    message: str


class AskUserArgs(ToolArgs):
    """Ask the user a question and wait for the answer; options: at most 6 short ones to choose from."""

    question: str
    options: Annotated[
        list[Annotated[str, Field(max_length=MAX_CHARS)]],
        Field(fail_fast=True, max_length=MAX_CHOICES),
        AfterValidator(checked),
    ] = Field(default=[])
    """Empty: the answer is in the person's own words, as it may also be beside choices."""


class CcReadArgs(OnComputer):
    """Read a file, or max_lines of its lines from start_line on; N| before a line is its number, not in the file."""

    path: str
    start_line: Annotated[int, Field(ge=1)] | None = None
    """None: from the first line on."""
    max_lines: Annotated[int, Field(ge=1)] | None = None
    """None: to the end."""


class CcListArgs(OnComputer):
    """List a directory on the computer."""

    path: str


class CcFindArgs(OnComputer):
    """Find files by a pattern like **/*.lua and, with contains, the lines that have this exact text."""

    pattern: str = "**"
    """A glob on the path from the root of the computer."""
    contains: str = ""
    """Literal text; empty: whatever is in the file."""


class CcInfoArgs(OnComputer):
    """See what the computer is: its disk, peripherals with their methods, redstone, a turtle's fuel and slots."""


class CcDocsArgs(OnComputer):
    """Look up what this computer's Lua has: a name such as turtle.dig, or what you want to do."""

    query: Annotated[str, Field(min_length=1, max_length=300)]


class CcScreenArgs(OnComputer):
    """See a screen: the computer's own, of='program' what the last program showed, of='tab-1' a tab, or a monitor."""

    of: Annotated[str, Field(max_length=100)] = ""
    """Empty: the computer's own; ``program``; the name of a tab that ``cc_info`` lists; or a monitor's name."""


Plain = str | bool | int | Annotated[float, Field(allow_inf_nan=False)]


class CcPeripheralCallArgs(OnComputer):
    """Call one method of a peripheral that cc_info lists, such as name='left', method='list'."""

    name: Annotated[str, Field(max_length=100)]
    method: Annotated[str, Field(max_length=100)]
    args: Annotated[list[Plain | dict[str, JsonValue] | None], Field(fail_fast=True)] = Field(default=[])


class CcLabelArgs(OnComputer):
    """Read the computer's label, or give it another one with label: at most 32 printable ASCII characters."""

    label: Annotated[str, Field(max_length=32)] = ""
    """The new label; empty: it is only read. No call takes the label away: the game loses what has none."""

    @field_validator("label")
    @classmethod
    def _a_label_of_the_game(cls, value: str) -> str:
        # Not a pattern: the grammar of a local engine writes broken JSON for one that allows quotes.
        if not (value.isascii() and value.isprintable()):
            raise ValueError("A label has printable ASCII characters only")
        return value


class CcWriteArgs(OnComputer):
    """Write a file on the computer, whole; use cc_edit to change a part of one."""

    path: str
    content: str


class CcEditArgs(OnComputer):
    """Replace old by new in a file on the computer; old must be copied exactly, without N|, and occur exactly once."""

    path: str
    old: str
    new: str


class CcMoveArgs(OnComputer):
    """Move or rename a file or directory on the computer; to is its whole new path."""

    path: str
    to: str


class CcMkdirArgs(OnComputer):
    """Make a directory on the computer."""

    path: str


class CcDeleteArgs(OnComputer):
    """Delete a file or directory on the computer."""

    path: str


Typed = Annotated[str, Field(max_length=1024)]
"""What a program is typed; each line end is the Enter key."""


Watched = Annotated[int, Field(ge=1, le=3600)]
"""Seconds of the game for which a program is watched before it is stopped."""
Limit = Annotated[int, Field(ge=1, le=86_400)]
"""Seconds of the game that a program may run."""


class CcRunProgramArgs(OnComputer):
    """Run a program and see its output; observe_s=10 stops an endless one after 10 s; input is typed, with Enter."""

    path: str
    args: Annotated[list[str], Field(fail_fast=True)] = Field(default=[])
    input: Typed = ""
    observe_s: Watched | None = None
    """None: it is not stopped before its limit."""
    timeout_s: Limit | None = None
    """None: as the policy says for the computer, or the setting ``run_timeout_s``."""


class CcShellArgs(OnComputer):
    """Run one command line of the computer's shell (no pipes, no &&); input, observe_s as in cc_run_program."""

    command: str
    input: Typed = ""
    observe_s: Watched | None = None
    timeout_s: Limit | None = None
    """Both as of ``cc_run_program``."""


class CcStopArgs(OnComputer):
    """Stop a program that bg or fg started and that still runs; tab is its name in cc_info, such as tab-1."""

    tab: Annotated[str, Field(max_length=20)]


class LocalReadArgs(ToolArgs):
    """Read a file of the workspace on this host."""

    path: str


class LocalWriteArgs(ToolArgs):
    """Write a file of the workspace on this host, whole."""

    path: str
    content: str


class LocalPatchArgs(ToolArgs):
    """Apply a unified diff to a file of the workspace on this host."""

    path: str
    patch: str


class CcRestoreArgs(OnComputer):
    """Bring a path of the computer into an earlier state."""

    path: str
    to: str
    """The sha256 of a file that the store has, ``absent`` or ``directory``."""
    found: str
    """The sha256 of what was there when this was planned, or ``absent``."""
    replaces: Literal["", "file", "directory"] = ""
    """What was there, where the path gets another kind of thing in one step; empty: the same kind, or nothing."""
    encoding: Literal["utf-8", "latin-1"] = "utf-8"
    """How the bytes of the path are read as text."""


class LocalRestoreArgs(ToolArgs):
    """Bring a path of the workspace on this host into an earlier state."""

    path: str
    to: str
    found: str
    """Both as of ``cc_restore``."""


# -- The rules of the shipped policy that speak of one tool alone

_STOPPING: Final = """\
[[rules]]
id = "stopping"
effect = "ask"
tools = ["cc_stop"]
reason = "A program that somebody may need is stopped; a person decides."
"""
_PERIPHERAL_READS: Final = """\
# A call of a peripheral is allowed if its method is in this list; any other one is covered by no rule and asks.
# Add the methods of your own mods that only read. No rule of its own must ask: the strictest one would win.
[[rules]]
id = "peripheral-reads"
effect = "allow"
tools = ["cc_peripheral_call"]
reads = true
reason = "The method only reads."
[[rules.args]]
pointer = "/method"
in = [
    "list", "size", "getItemDetail", "getItemLimit", "tanks", "getEnergy", "getEnergyCapacity",
    "getSize", "getTextScale", "getCursorPos", "getCursorBlink", "isColour", "isColor",
    "getTextColour", "getTextColor", "getBackgroundColour", "getBackgroundColor", "getPaletteColour", "getPaletteColor",
    "getID", "getLabel", "isOn",
    "isDiskPresent", "getDiskLabel", "getDiskID", "hasData", "getMountPath", "hasAudio", "getAudioTitle",
    "getPageSize", "getPaperLevel", "getInkLevel",
    "isOpen", "isWireless", "getNameLocal", "getNamesRemote", "isPresentRemote", "getTypeRemote", "getMethodsRemote",
    "getInput", "getOutput", "getAnalogInput", "getAnalogOutput", "getAnalogueInput", "getAnalogueOutput",
    "getBundledInput", "getBundledOutput", "testBundledInput",
]
"""
_LABEL_READS: Final = """\
# Reading the label is allowed; a call with a new label is covered by no rule and asks.
[[rules]]
id = "label-reads"
effect = "allow"
tools = ["cc_label"]
reads = true
reason = "The call only reads the label."
[[rules.args]]
pointer = "/label"
eq = ""
"""


# -- The records

_LESS_OUTPUT: Final = "print less, or print into a file and read that"


def _tool(
    name: str, args: type[ToolArgs], recovery: Recovery, risk: RiskLevel, *path_args: str, **more: Any
) -> ToolSpec:
    mutates = recovery != "pure"
    plugin: Any = name.split("_", maxsplit=1)[0] if name.startswith(("cc_", "local_")) else "people"
    return ToolSpec(
        name=name,
        plugin=plugin,
        args=args,
        recovery=recovery,
        governance=Governance(requires_hitl=mutates, mutates=mutates, risk=risk),
        path_args=path_args,
        planned="judged_as" in more,
        **more,
    )


_LOW, _MEDIUM, _HIGH = RiskLevel.LOW, RiskLevel.MEDIUM, RiskLevel.HIGH
_HELLO: Final = "print('hello')\n"
_BACK: Final = {"to": "absent", "found": "absent"}

ToolCatalog = Mapping[str, ToolSpec]

BUILT_IN_CATALOG: Final[ToolCatalog] = {
    spec.name: spec
    for spec in (
        _tool(
            "send_status", SendStatusArgs, "pure", _LOW,
            example={"message": "I read the program."}, shows="nothing", done="sent",
        ),
        _tool("ask_user", AskUserArgs, "pure", _LOW, example={"question": "Which chest?"}, shows="surroundings"),
        _tool(
            "cc_read", CcReadArgs, "pure", _LOW, "path",
            example={"path": "startup.lua"}, methods=("fs_read",), shows="content",
        ),
        _tool(
            "cc_list", CcListArgs, "pure", _LOW, "path",
            example={"path": ""}, methods=("fs_list",), shows="surroundings",
            rest="list a directory in it, or use cc_find",
        ),
        _tool(
            "cc_find", CcFindArgs, "pure", _LOW,
            example={"pattern": "**"}, methods=("fs_find",), rest="give cc_find a narrower pattern",
        ),
        _tool("cc_info", CcInfoArgs, "pure", _LOW, methods=("info",), shows="surroundings"),
        _tool(
            "cc_docs", CcDocsArgs, "pure", _LOW,
            example={"query": "turtle"}, shows="surroundings", rest="ask cc_docs for one name",
        ),
        _tool("cc_screen", CcScreenArgs, "pure", _LOW, example={"of": ""}, methods=("screen",), shows="surroundings"),
        _tool(
            "cc_peripheral_call", CcPeripheralCallArgs, "once", _MEDIUM,
            example={"name": "left", "method": "list", "args": []}, methods=("peripheral_call",),
            mixed=True, rule=_PERIPHERAL_READS, fails_midway=True,
            undo="A peripheral was called: items that it moved stay where they are.",
        ),
        _tool(
            "cc_label", CcLabelArgs, "once", _MEDIUM,
            example={"label": "farm"}, methods=("label",), mixed=True, rule=_LABEL_READS,
            undo="The label was read or set: a new one stays, and the result of the call names the old one.",
        ),
        _tool(
            "cc_write", CcWriteArgs, "by_state", _MEDIUM, "path",
            example={"path": "startup.lua", "content": _HELLO}, text_args=("content",), edits="content",
            methods=("fs_write",),
        ),
        _tool(
            "cc_edit", CcEditArgs, "by_state", _MEDIUM, "path",
            example={"path": "startup.lua", "old": "hello", "new": "bye"}, text_args=("old", "new"), edits="new",
            methods=("fs_edit",), deed="edited",
        ),
        _tool(
            "cc_move", CcMoveArgs, "by_state", _MEDIUM, "path", "to",
            example={"path": "a.lua", "to": "b.lua"}, takes_trees=True, methods=("fs_move",),
            deed="moved", done="moved",
        ),
        _tool(
            "cc_mkdir", CcMkdirArgs, "by_state", _LOW, "path",
            example={"path": "lib"}, methods=("fs_mkdir",), deed="made", done="made",
        ),
        _tool(
            "cc_delete", CcDeleteArgs, "by_state", _HIGH, "path",
            example={"path": "old.lua"}, takes_trees=True, methods=("fs_delete",), deed="deleted", done="deleted",
        ),
        _tool(
            "cc_restore", CcRestoreArgs, "by_state", _MEDIUM, "path",
            example={"path": "old.lua", **_BACK}, takes_trees=True, judged_as="cc_write",
            methods=("fs_write", "fs_delete", "fs_mkdir"),
        ),
        _tool(
            "cc_run_program", CcRunProgramArgs, "once", _MEDIUM, "path",
            example={"path": "count.lua", "args": []}, runs=True, methods=("run_program",), rest=_LESS_OUTPUT,
        ),
        _tool(
            "cc_shell", CcShellArgs, "once", _HIGH,
            example={"command": "ls"}, edits="command", runs=True, methods=("shell",), rest=_LESS_OUTPUT,
        ),
        _tool(
            "cc_stop", CcStopArgs, "once", _MEDIUM,
            example={"tab": "tab-1"}, methods=("terminate",), rule=_STOPPING,
            undo="A program was stopped: it does not run again by itself.",
        ),
        _tool("local_read", LocalReadArgs, "pure", _LOW, "path", example={"path": "notes.txt"}, shows="content"),
        _tool(
            "local_write", LocalWriteArgs, "by_state", _MEDIUM, "path",
            example={"path": "notes.txt", "content": ""}, text_args=("content",), edits="content",
        ),
        _tool(
            "local_patch", LocalPatchArgs, "by_state", _MEDIUM, "path",
            example={"path": "notes.txt", "patch": ""}, text_args=("patch",), edits="patch",
            deed="edited",
        ),
        _tool(
            "local_restore", LocalRestoreArgs, "by_state", _MEDIUM, "path",
            example={"path": "notes.txt", **_BACK}, judged_as="local_write",
        ),
    )
}  # fmt: skip


def tools_of_models(catalog: ToolCatalog) -> tuple[str, ...]:
    """The names of the tools that a model may call, sorted."""
    return tuple(sorted(spec.name for spec in catalog.values() if not spec.planned))


def _named(wanted: str) -> frozenset[str]:
    return frozenset(spec.name for spec in BUILT_IN_CATALOG.values() if getattr(spec, wanted))


TOOL_ARGS: Final[Mapping[str, type[BaseModel]]] = {
    spec.name: spec.args for spec in BUILT_IN_CATALOG.values() if not spec.planned
}
"""The built-in tools that models call, and their arguments."""
ALL_TOOL_ARGS: Final[Mapping[str, type[BaseModel]]] = {spec.name: spec.args for spec in BUILT_IN_CATALOG.values()}
"""These, and those that only plans of the orchestrator's own call; the registry binds all of them to functions."""
MIXED: Final = _named("mixed")
"""The tools of which some calls only read; which, a rule says (``reads``)."""
RUNNERS: Final = _named("runs")
"""The tools that run a program."""
