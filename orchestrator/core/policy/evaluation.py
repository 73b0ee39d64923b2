"""The gate's one question, with the shipped policy as default."""

import logging
from collections.abc import Sequence
from functools import cache
from typing import Final

from orchestrator.core.policy.catalog import BUILT_IN_CATALOG, ToolCatalog
from orchestrator.core.policy.document import Policy
from orchestrator.core.policy.judgement import CustomPolicy, judge
from orchestrator.core.policy.load import DEFAULT_POLICY_TOML, load_policy
from orchestrator.core.policy.match import AnyCall, FunctionCall
from orchestrator.core.policy.verdicts import Effect, PolicyContext, PolicyDecision

logger = logging.getLogger("orchestrator.core.policy")

NO_CONTEXT: Final = PolicyContext.of_defaults()


@cache
def default_policy() -> Policy:
    """The policy that is shipped: safe for a newcomer, without pestering."""
    return load_policy(DEFAULT_POLICY_TOML, source="the shipped policy")


def evaluate(
    call: AnyCall,
    *,
    policy: Policy | None = None,
    context: PolicyContext | None = None,
    catalog: ToolCatalog = BUILT_IN_CATALOG,
    custom: Sequence[CustomPolicy] = (),
) -> PolicyDecision:
    """The verdict on a call: a pure function of call, context, catalog, plugins and policy (None: the shipped one)."""
    return judge(call, policy=policy or default_policy(), context=context or NO_CONTEXT, catalog=catalog, custom=custom)


def check_for_intervention(
    tool_call: AnyCall,
    *,
    policy: Policy | None = None,
    context: PolicyContext | None = None,
    custom: Sequence[CustomPolicy] = (),
) -> bool:
    """Whether a person has to decide: the effect is ``ask``, or ``hint``. A denied call needs nobody."""
    call = FunctionCall(tool=tool_call.tool, args=dict(tool_call.args))
    logger.info("HITL Check: Intercepted call to %s.%s", call.plugin_name, call.function_name)
    return evaluate(call, policy=policy, context=context, custom=custom).effect in (Effect.ASK, Effect.HINT)
