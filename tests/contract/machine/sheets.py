"""The policies of the machine, each as a sheet that says in a table what the file says in rules.

What the machine holds a run against is the table: it is not read by the product.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from orchestrator.core.policy import Policy, load_policy
from tests.contract.parts import policy, rule

READS = ("cc_read", "cc_list")
CHANGES = ("cc_write", "cc_edit", "cc_delete")
RUNS = ("cc_run_program", "cc_shell")
SPEAKING = ("send_status", "ask_user")
_STRICT = ("allow", "ask", "deny")
_NEVER_S = 10**9


@dataclass(frozen=True, eq=False, repr=False)
class Sheet:
    """One policy: an effect for each kind of call, and for changes of single paths."""

    name: str
    reads: str = "allow"
    changes: str = "ask"
    runs: str = "ask"
    paths: Mapping[str, str] = field(default_factory=dict)
    """Path to the effect of a change there, where that is stricter."""
    risk: str = ""
    """Of changes, where it is raised."""
    expires_s: int = 3_600
    valid_s: int = 900
    requests: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def effect(self, tool: str, args: Mapping[str, Any]) -> str:
        """What a call comes to."""
        if tool in CHANGES:
            return max(self.changes, self.paths.get(args["path"], "allow"), key=_STRICT.index)
        if tool in RUNS:
            return self.runs
        return self.reads if tool in READS else "allow"

    @property
    def releases(self) -> bool:
        """Whether what is pending runs once it is allowed."""
        return bool(self.requests.get("release_on_relax"))

    @property
    def valid_for_s(self) -> float:
        """Seconds until an approval is over."""
        return self.valid_s or _NEVER_S

    @cached_property
    def policy(self) -> Policy:
        """The same as the product reads it."""
        changes: dict[str, Any] = {"risk": self.risk} if self.risk else {}
        risks = ("low", "medium", "high", "critical", "unknown")
        return load_policy(
            policy(
                rule("reads", self.reads, READS, reason=f"Sheet {self.name}."),
                rule("speaking", "allow", SPEAKING),
                rule("changes", self.changes, CHANGES, **changes),
                rule("runs", self.runs, RUNS),
                *(rule(f"path {path}", effect, CHANGES, paths=[path]) for path, effect in self.paths.items()),
                requests={
                    "expires_s": dict.fromkeys(risks, self.expires_s),
                    "approval_valid_s": self.valid_s,
                    **self.requests,
                },
            )
        )


SHEETS: tuple[Sheet, ...] = (
    Sheet("usual"),
    Sheet("neutral", requests={"remind_before_s": 30}),
    Sheet("careful", reads="ask", risk="high"),
    Sheet("critical", risk="critical"),
    Sheet("b denied", paths={"b.lua": "deny"}, requests={"on_reject": "continue"}),
    Sheet("no changes", changes="deny"),
    Sheet("no runs", runs="deny", requests={"on_reject": "continue", "max_rejections": 2}),
    Sheet("trusting", changes="allow", runs="allow", paths={"b.lua": "ask"}, requests={"siblings": "run_safe"}),
    Sheet("releasing", changes="allow", runs="allow", requests={"release_on_relax": True}),
    Sheet("holding", paths={"a.lua": "ask"}, requests={"siblings": "hold", "partial": "at_once"}),
    Sheet("hasty", expires_s=60, valid_s=40, requests={"on_timeout": "continue", "max_rejections": 1}),
    Sheet("strict", expires_s=60, valid_s=0, requests={"on_timeout": "cancel"}),
    Sheet("patient", expires_s=0, valid_s=20, requests={"partial": "at_once", "siblings": "run_safe"}),
)
