"""Verdicts of plugins: Python functions that may make the gate stricter, never looser."""

import logging
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Final

from orchestrator.core.policy.calls import AnyCall, FunctionCall, PolicyContext
from orchestrator.core.policy.rules import CUSTOM_PREFIX
from orchestrator.core.policy.verdicts import Effect, RiskLevel
from orchestrator.core.values import Value

logger = logging.getLogger(__name__)


class CustomVerdict(Value):
    """What a plugin says of a call; ``allow`` changes nothing, since only a rule of the file can allow."""

    effect: Effect | None = None
    """None: it only has something to say of the risk."""
    risk: RiskLevel | None = None
    """Raises the risk; never lowers it."""
    reason: str = ""


CustomJudge = Callable[[FunctionCall, PolicyContext], CustomVerdict | None]
"""Judges one call; None: nothing to say. It has to be quick, and to say the same of the same call."""

_FAILED: Final = CustomVerdict(effect=Effect.ASK, risk=RiskLevel.HIGH)


@dataclass(frozen=True)
class CustomPolicy:
    """A plugin by the name under which a policy asks for it."""

    name: str
    judge: CustomJudge

    @property
    def id(self) -> str:
        """How it stands among the matched rules."""
        return f"{CUSTOM_PREFIX}{self.name}"


@dataclass(frozen=True)
class Heard:
    """What one plugin said."""

    id: str
    verdict: CustomVerdict


def hear(
    custom: Sequence[CustomPolicy], named: Sequence[str], call: AnyCall, context: PolicyContext
) -> tuple[Heard, ...]:
    """What the plugins say, those that a policy named but that are not there included (hitl.md P12)."""
    given = {rule.name for rule in custom}
    missing = [
        Heard(f"{CUSTOM_PREFIX}{name}", _FAILED.model_copy(update={"reason": f"The plugin {name} is not loaded."}))
        for name in named
        if name not in given
    ]
    said = ((rule, _said(rule, call, context)) for rule in custom)
    return (*(Heard(rule.id, verdict) for rule, verdict in said if verdict is not None), *missing)


def _said(rule: CustomPolicy, call: AnyCall, context: PolicyContext) -> CustomVerdict | None:
    why = "failed"
    try:
        verdict: object = rule.judge(FunctionCall(tool=call.tool, args=deepcopy(dict(call.args))), context)
        if verdict is None or isinstance(verdict, CustomVerdict):
            return verdict
        why = "gave no verdict"
    except Exception:
        logger.exception("The plugin %s failed on a call of %s", rule.name, call.tool)
    return _FAILED.model_copy(update={"reason": f"The plugin {rule.name} {why}, so a person decides."})
