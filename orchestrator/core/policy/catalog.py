"""The catalog: one record per tool, with all that is known of it before anything runs, each part said once.

A tool outside of it never runs. ``tool_args`` has what a call of a tool takes, and the registry of functions
(``orchestrator.tools.registry``) binds the record to its function. The record gives the shipped policy, the requirement
on a computer's client, the words of an undo and of folded steps, and the dry run of the page.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from orchestrator.core.policy.verdicts import RiskLevel

# -- The record of one tool

Recovery = Literal["pure", "by_state", "once"]
"""The meaning of a call whose outcome was not heard: it may run again, its files tell, or nobody knows."""
Shows = Literal["nothing", "surroundings", "wanted", "content"]
"""What a look shows for the finding: nothing of the task, what is around, what was wanted, or a file's content."""


class Governance(NamedTuple):
    """What the catalog says of a tool before any rule speaks."""

    requires_hitl: bool
    """A person decides unless a rule allows."""
    mutates: bool
    """It changes something: held back while a sibling waits for a person."""
    risk: RiskLevel


class ToolSpec(NamedTuple):
    """One tool as everything but its function knows it."""

    name: str
    plugin: Literal["cc", "local", "people"]
    recovery: Recovery
    governance: Governance
    version: int = 1
    """Part of every digest: an upgrade in a pause makes the approval stale."""
    example: Mapping[str, Any] = MappingProxyType({})
    """Arguments of a call as a model makes it: a dry run begins with them."""
    path_args: tuple[str, ...] = ()
    """Arguments that are paths on the computer or, for ``local``, in the workspace."""
    text_args: tuple[str, ...] = ()
    """Arguments that are the text of a change, which a grant may leave open."""
    edits: str = ""
    """The one argument that is a text to edit by itself; empty: there is none."""
    takes_trees: bool = False
    """It takes a directory with all that is in it, so a rule on a path inside counts for it, too."""
    runs: bool = False
    """It runs a program."""
    mixed: bool = False
    """Some of its calls only read; which ones, a rule says (``reads``)."""
    judged_as: str | None = None
    """The tool whose rules speak of it where no rule names it; None: none do."""
    planned: bool = False
    """Only a plan of the orchestrator's own calls it: models are not told of it."""
    rule: str = ""
    """Its own rule of the shipped policy, as TOML; empty: the rule of all tools of its kind."""
    methods: tuple[str, ...] = ()
    """The methods on the wire by which it acts. A client needs a capability for each later than the first ones."""
    undo: str = ""
    """A sentence of why an undo does not take back what it did; empty: it is taken back, or a program did it."""
    fails_midway: bool = False
    """A call that failed may have done a part, so an undo speaks of it as well."""
    shows: Shows = "wanted"
    deed: str = "written"
    """The change that it made to a path, in a word."""
    done: str = ""
    """The result of a call in a folded step; empty: the first line of its result."""
    rest: str = ""
    """How to ask for what a cut leaves out of its result; empty: there is no way."""

    @property
    def tool_id(self) -> str:
        """``{plugin}-{function}``, as catalogs of the field write it."""
        return f"{self.plugin}-{self.name}"

    @property
    def changes_files(self) -> bool:
        """Whether its calls name the files that they change."""
        return self.recovery == "by_state"


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


def _tool(name: str, recovery: Recovery, risk: RiskLevel, *path_args: str, **more: Any) -> ToolSpec:
    mutates = recovery != "pure"
    plugin: Any = name.split("_", maxsplit=1)[0] if name.startswith(("cc_", "local_")) else "people"
    return ToolSpec(
        name=name,
        plugin=plugin,
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
            "send_status", "pure", _LOW,
            example={"message": "I read the program."}, shows="nothing", done="sent",
        ),
        _tool("ask_user", "pure", _LOW, example={"question": "Which chest?"}, shows="surroundings"),
        _tool(
            "cc_read", "pure", _LOW, "path",
            example={"path": "startup.lua"}, methods=("fs_read",), shows="content",
        ),
        _tool(
            "cc_list", "pure", _LOW, "path",
            example={"path": ""}, methods=("fs_list",), shows="surroundings",
            rest="list a directory in it, or use cc_find",
        ),
        _tool(
            "cc_find", "pure", _LOW,
            example={"pattern": "**"}, methods=("fs_find",), rest="give cc_find a narrower pattern",
        ),
        _tool("cc_info", "pure", _LOW, methods=("info",), shows="surroundings"),
        _tool(
            "cc_docs", "pure", _LOW,
            example={"query": "turtle"}, shows="surroundings", rest="ask cc_docs for one name",
        ),
        _tool("cc_screen", "pure", _LOW, example={"of": ""}, methods=("screen",), shows="surroundings"),
        _tool(
            "cc_peripheral_call", "once", _MEDIUM,
            example={"name": "left", "method": "list", "args": []}, methods=("peripheral_call",),
            mixed=True, rule=_PERIPHERAL_READS, fails_midway=True,
            undo="A peripheral was called: items that it moved stay where they are.",
        ),
        _tool(
            "cc_label", "once", _MEDIUM,
            example={"label": "farm"}, methods=("label",), mixed=True, rule=_LABEL_READS,
            undo="The label was read or set: a new one stays, and the result of the call names the old one.",
        ),
        _tool(
            "cc_write", "by_state", _MEDIUM, "path",
            example={"path": "startup.lua", "content": _HELLO}, text_args=("content",), edits="content",
            methods=("fs_write",),
        ),
        _tool(
            "cc_edit", "by_state", _MEDIUM, "path",
            example={"path": "startup.lua", "old": "hello", "new": "bye"}, text_args=("old", "new"), edits="new",
            methods=("fs_edit",), deed="edited",
        ),
        _tool(
            "cc_move", "by_state", _MEDIUM, "path", "to",
            example={"path": "a.lua", "to": "b.lua"}, takes_trees=True, methods=("fs_move",),
            deed="moved", done="moved",
        ),
        _tool(
            "cc_mkdir", "by_state", _LOW, "path",
            example={"path": "lib"}, methods=("fs_mkdir",), deed="made", done="made",
        ),
        _tool(
            "cc_delete", "by_state", _HIGH, "path",
            example={"path": "old.lua"}, takes_trees=True, methods=("fs_delete",), deed="deleted", done="deleted",
        ),
        _tool(
            "cc_restore", "by_state", _MEDIUM, "path",
            example={"path": "old.lua", **_BACK}, takes_trees=True, judged_as="cc_write",
            methods=("fs_write", "fs_delete", "fs_mkdir"),
        ),
        _tool(
            "cc_run_program", "once", _MEDIUM, "path",
            example={"path": "count.lua", "args": []}, runs=True, methods=("run_program",), rest=_LESS_OUTPUT,
        ),
        _tool(
            "cc_shell", "once", _HIGH,
            example={"command": "ls"}, edits="command", runs=True, methods=("shell",), rest=_LESS_OUTPUT,
        ),
        _tool(
            "cc_stop", "once", _MEDIUM,
            example={"tab": "tab-1"}, methods=("terminate",), rule=_STOPPING,
            undo="A program was stopped: it does not run again by itself.",
        ),
        _tool("local_read", "pure", _LOW, "path", example={"path": "notes.txt"}, shows="content"),
        _tool(
            "local_write", "by_state", _MEDIUM, "path",
            example={"path": "notes.txt", "content": ""}, text_args=("content",), edits="content",
        ),
        _tool(
            "local_patch", "by_state", _MEDIUM, "path",
            example={"path": "notes.txt", "patch": ""}, text_args=("patch",), edits="patch",
            deed="edited",
        ),
        _tool(
            "local_restore", "by_state", _MEDIUM, "path",
            example={"path": "notes.txt", **_BACK}, judged_as="local_write",
        ),
    )
}  # fmt: skip


def tools_of_models(catalog: ToolCatalog) -> tuple[str, ...]:
    """The names of the tools that a model may call, sorted."""
    return tuple(sorted(spec.name for spec in catalog.values() if not spec.planned))


def _named(wanted: str) -> frozenset[str]:
    return frozenset(spec.name for spec in BUILT_IN_CATALOG.values() if getattr(spec, wanted))


MIXED: Final = _named("mixed")
"""The tools of which some calls only read; which, a rule says (``reads``)."""
RUNNERS: Final = _named("runs")
"""The tools that run a program."""
