"""The record of one tool: all that is known of it before anything runs, each part said once.

The registry of functions (``orchestrator.tools.registry``) binds the record to its function. The record gives the text
for models, the shipped policy, the requirement on a computer's client, the words of an undo and of folded steps, and
the dry run of the page.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from orchestrator.core.policy.verdicts import RiskLevel
from orchestrator.core.values import Value

Recovery = Literal["pure", "by_state", "once"]
"""The meaning of a call whose outcome was not heard: it may run again, its files tell, or nobody knows."""
Shows = Literal["nothing", "surroundings", "wanted", "content"]
"""What a look shows for the finding: nothing of the task, what is around, what was wanted, or a file's content."""


class ToolArgs(BaseModel):
    """The arguments of a tool; the docstring of each model is the tool's line in the prompt."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class OnComputer(ToolArgs):
    """The arguments of a tool that works on a computer."""

    computer: str | None = None
    """Which computer; None where the task has exactly one."""


class Governance(Value):
    """What the catalog says of a tool before any rule speaks."""

    requires_hitl: bool
    """A person decides unless a rule allows."""
    mutates: bool
    """It changes something: held back while a sibling waits for a person."""
    risk: RiskLevel


class ToolSpec(Value):
    """One tool as everything but its function knows it."""

    name: str
    plugin: Literal["cc", "local", "people"]
    version: int = 1
    """Part of every digest: an upgrade in a pause makes the approval stale."""
    args: type[BaseModel]
    """The model of its arguments."""
    example: Mapping[str, Any] = {}
    """Arguments of a call as a model makes it: a dry run begins with them."""
    recovery: Recovery
    governance: Governance
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


def shown_args(model: type[BaseModel], *, one_computer: bool) -> tuple[str, ...]:
    """The arguments of a tool that a model is told of.

    ``one_computer``: the task has one computer or none, so ``computer`` is left out. A call that names the one
    computer all the same is taken.
    """
    hidden = "computer" if one_computer and issubclass(model, OnComputer) else None
    return tuple(name for name in model.model_fields if name != hidden)
