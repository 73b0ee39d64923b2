"""The parts of a policy that items keep: the limits of a role, and who undoes.

They stand apart from the file: an item is read also where no policy is.
"""

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from orchestrator.core.policy.verdicts import OneOrMore, RiskLevel, severity
from orchestrator.core.text.paths import can_match, path_matches
from orchestrator.core.values import Value

Undo = Literal["offer", "auto"]
"""What happens to the changes of a task that failed or was canceled: people may take them back, or it is done."""


class RoleRights(Value):
    """What a role of the policy's own may do: one entry of ``[roles]``."""

    may: Annotated[tuple[Literal["view", "submit", "decide", "freeze", "pair", "audit"], ...], Field(min_length=1)]
    max_risk: RiskLevel | None = None
    """The highest risk of calls that the role decides; None: any. As the two below it is about ``decide`` alone."""
    computers: OneOrMore | None = None
    """Globs on the names of the computers whose calls it decides."""
    paths: OneOrMore | None = None
    """Globs on paths: it decides only calls with paths, all of which match."""

    @model_validator(mode="after")
    def _limits_what_it_has(self) -> Self:
        if not self.is_unlimited and "decide" not in self.may:
            raise ValueError("max_risk, computers and paths are about decide, which the role may not")
        dead = [glob for glob in self.paths or () if not can_match(glob)]
        if dead:
            raise ValueError(f"no canonical path can match: {', '.join(map(repr, dead))}")
        return self

    @property
    def is_unlimited(self) -> bool:
        """Whether the role decides every call that its holder reaches, if it decides at all."""
        return self.max_risk is None and self.computers is None and self.paths is None

    def covers(self, risk: RiskLevel, computer: str | None, paths: Sequence[str]) -> bool:
        """Whether the role decides a call of this risk, on this computer, with these paths."""
        if self.max_risk is not None and severity(risk) > severity(self.max_risk):
            return False
        if self.computers is not None and not _is_among(self.computers, computer or ""):
            return False
        return self.paths is None or (bool(paths) and all(_is_among(self.paths, path) for path in paths))

    def __str__(self) -> str:
        """The limits in words that end a sentence; empty: there are none."""
        told = [f" up to {self.max_risk.value} risk"] if self.max_risk is not None else []
        told += [f" on {' or '.join(self.computers)}"] if self.computers is not None else []
        told += [f" in {' or '.join(self.paths)}"] if self.paths is not None else []
        return "".join(told)


def _is_among(globs: Sequence[str], name: str) -> bool:
    return any(path_matches(glob, name, ignore_case=False) for glob in globs)
