"""The arguments of each tool, as a model may give them: the docstring of each is the tool's line in the prompt.

They are apart from the records of the tools: most of what reads a record looks at no arguments.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, field_validator

from orchestrator.core.task.choices import MAX_CHARS, MAX_CHOICES, checked


class ToolArgs(BaseModel):
    """The arguments of a tool; the docstring of each model is the tool's line in the prompt."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class OnComputer(ToolArgs):
    """The arguments of a tool that works on a computer."""

    computer: str | None = None
    """Which computer; None where the task has exactly one."""


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


ALL_TOOL_ARGS: Final[Mapping[str, type[ToolArgs]]] = {
    "send_status": SendStatusArgs,
    "ask_user": AskUserArgs,
    "cc_read": CcReadArgs,
    "cc_list": CcListArgs,
    "cc_find": CcFindArgs,
    "cc_info": CcInfoArgs,
    "cc_docs": CcDocsArgs,
    "cc_screen": CcScreenArgs,
    "cc_peripheral_call": CcPeripheralCallArgs,
    "cc_label": CcLabelArgs,
    "cc_write": CcWriteArgs,
    "cc_edit": CcEditArgs,
    "cc_move": CcMoveArgs,
    "cc_mkdir": CcMkdirArgs,
    "cc_delete": CcDeleteArgs,
    "cc_restore": CcRestoreArgs,
    "cc_run_program": CcRunProgramArgs,
    "cc_shell": CcShellArgs,
    "cc_stop": CcStopArgs,
    "local_read": LocalReadArgs,
    "local_write": LocalWriteArgs,
    "local_patch": LocalPatchArgs,
    "local_restore": LocalRestoreArgs,
}
"""The built-in tools, in the order of the catalog, and their arguments."""


def shown_args(model: type[BaseModel], *, one_computer: bool) -> tuple[str, ...]:
    """The arguments of a tool that a model is told of.

    ``one_computer``: the task has one computer or none, so ``computer`` is left out. A call that names the one
    computer all the same is taken.
    """
    hidden = "computer" if one_computer and issubclass(model, OnComputer) else None
    return tuple(name for name in model.model_fields if name != hidden)
