"""What is judged: a call, and what is known around it."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from pydantic import Field

from orchestrator.core.policy.catalog import BUILT_IN_CATALOG
from orchestrator.core.policy.verdicts import RiskLevel
from orchestrator.core.values import Value

MAX_FORMER_LABELS: Final = 32
"""Of one computer; where there are as many, each rule by label that asks or denies matches, and none that allows."""


class AnyCall(Protocol):
    """Whatever names a tool and its arguments."""

    @property
    def tool(self) -> str:
        """The tool's full name."""

    @property
    def args(self) -> Mapping[str, Any]:
        """Its arguments."""


class FunctionCall(Value):
    """A call as :func:`check_for_intervention` takes it: a name and arguments."""

    tool: str
    args: dict[str, Any] = Field(default_factory=dict)

    @property
    def plugin_name(self) -> str:
        """The tool's plugin; ``unknown`` for a tool outside the catalog."""
        spec = BUILT_IN_CATALOG.get(self.tool)
        return spec.plugin if spec else "unknown"

    @property
    def function_name(self) -> str:
        """The tool's full name."""
        return self.tool


class PolicyContext(Value):
    """What a call is judged by beside itself.

    What is not known fails closed: no rule that allows matches on it. A rule that asks or denies
    matches on roles that nobody knows; where it will yet be known (the computer, its family and
    label, which program a word means), such a rule asks until then.
    """

    computer: str | None = None
    """None: no computer is touched, or nobody said which."""
    family: str | None = None
    """None: the computer has not said hello yet, so its label is not known either."""
    label: str | None = None
    """None beside a family: the computer has no label."""
    former_labels: tuple[str, ...] = ()
    """Other labels that the computer had since it was paired: no rule is escaped, or reached, by renaming it."""
    program: str | None = None
    """The program that a run resolves to; None while nobody has looked."""
    roles: tuple[str, ...] | None = None
    """The requester's roles; None: nobody knows them."""
    plan: bool = False
    """The task may only look: every tool that changes something is denied (promise P18)."""
    stated_risk: RiskLevel | None = None
    """What the model said of its own call: it can raise the risk, never lower it (promise P13)."""
    analysed_risk: RiskLevel | None = None
    """What an analyser outside of the policy said; as ``stated_risk``."""

    @property
    def had_too_many_labels(self) -> bool:
        """Whether the computer may have had labels that are not kept."""
        return len(self.former_labels) >= MAX_FORMER_LABELS
