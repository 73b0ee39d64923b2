"""The catalog: what the gate knows of each tool before any rule speaks. What is not in it never runs."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from orchestrator.core.policy.verdicts import RiskLevel
from orchestrator.core.values import Value

Recovery = Literal["pure", "by_state", "once"]
"""What a call whose outcome was not heard means: it may run again, its files tell, or nobody knows."""


class Governance(Value):
    """What the catalog says of a tool before any rule speaks."""

    requires_hitl: bool
    """A person decides unless a rule allows."""
    mutates: bool
    """It changes something: held back while a sibling waits for a person."""
    risk: RiskLevel


class ToolSpec(Value):
    """One tool as the gate knows it."""

    name: str
    plugin: Literal["cc", "local", "people"]
    version: int = 1
    """Part of every digest: an upgrade in a pause makes the approval stale."""
    recovery: Recovery
    governance: Governance
    path_args: tuple[str, ...] = ()
    """Arguments that are paths on the computer or, for ``local``, in the workspace."""
    takes_trees: bool = False
    """It takes a directory with all that is in it, so a rule on a path inside counts for it, too."""
    judged_as: str | None = None
    """The tool whose rules speak of it where no rule names it; None: none do."""
    planned: bool = False
    """Only a plan of the orchestrator's own calls it: models are not told of it."""

    @property
    def tool_id(self) -> str:
        """``{plugin}-{function}``, as catalogs of the field write it."""
        return f"{self.plugin}-{self.name}"


def _spec(
    name: str, recovery: Recovery, risk: RiskLevel, *path_args: str, trees: bool = False, judged_as: str | None = None
) -> ToolSpec:
    mutates = recovery != "pure"
    plugin: Any = name.split("_", maxsplit=1)[0] if name.startswith(("cc_", "local_")) else "people"
    governance = Governance(requires_hitl=mutates, mutates=mutates, risk=risk)
    return ToolSpec(
        name=name,
        plugin=plugin,
        recovery=recovery,
        governance=governance,
        path_args=path_args,
        takes_trees=trees,
        judged_as=judged_as,
        planned=judged_as is not None,
    )


ToolCatalog = Mapping[str, ToolSpec]

BUILT_IN_CATALOG: Final[ToolCatalog] = {
    spec.name: spec
    for spec in (
        _spec("send_status", "pure", RiskLevel.LOW),
        _spec("ask_user", "pure", RiskLevel.LOW),
        _spec("cc_read", "pure", RiskLevel.LOW, "path"),
        _spec("cc_list", "pure", RiskLevel.LOW, "path"),
        _spec("cc_find", "pure", RiskLevel.LOW),
        _spec("cc_info", "pure", RiskLevel.LOW),
        _spec("cc_docs", "pure", RiskLevel.LOW),
        _spec("cc_screen", "pure", RiskLevel.LOW),
        _spec("cc_peripheral_call", "once", RiskLevel.MEDIUM),
        _spec("cc_write", "by_state", RiskLevel.MEDIUM, "path"),
        _spec("cc_edit", "by_state", RiskLevel.MEDIUM, "path"),
        _spec("cc_move", "by_state", RiskLevel.MEDIUM, "path", "to", trees=True),
        _spec("cc_mkdir", "by_state", RiskLevel.LOW, "path"),
        _spec("cc_delete", "by_state", RiskLevel.HIGH, "path", trees=True),
        _spec("cc_restore", "by_state", RiskLevel.MEDIUM, "path", trees=True, judged_as="cc_write"),
        _spec("cc_run_program", "once", RiskLevel.MEDIUM, "path"),
        _spec("cc_shell", "once", RiskLevel.HIGH),
        _spec("cc_stop", "once", RiskLevel.MEDIUM),
        _spec("local_read", "pure", RiskLevel.LOW, "path"),
        _spec("local_write", "by_state", RiskLevel.MEDIUM, "path"),
        _spec("local_patch", "by_state", RiskLevel.MEDIUM, "path"),
        _spec("local_restore", "by_state", RiskLevel.MEDIUM, "path", judged_as="local_write"),
    )
}


def tools_of_models(catalog: ToolCatalog) -> tuple[str, ...]:
    """The names of the tools that a model may call, sorted."""
    return tuple(sorted(spec.name for spec in catalog.values() if not spec.planned))


MIXED: Final = frozenset({"cc_peripheral_call"})
"""The tools of which some calls only read; which, a rule says (``reads``)."""
RUNNERS: Final = frozenset({"cc_run_program", "cc_shell"})
"""The tools that run a program."""
