"""What the tests of the policy are made of: rules, policies and calls in one line each."""

from typing import Any

from orchestrator.core.policy import (
    Effect,
    FunctionCall,
    Policy,
    PolicyContext,
    PolicyDecision,
    PolicyRule,
    evaluate,
)


def rule(effect: str, name: str = "", **rest: Any) -> PolicyRule:
    """A rule for ``cc_write`` unless it says otherwise."""
    return PolicyRule.model_validate({"id": name or effect, "effect": effect, "tools": ("cc_write",), **rest})


def policy(*rules: PolicyRule, **rest: Any) -> Policy:
    """A policy of these rules."""
    return Policy(rules=rules, **rest)


def write(path: str = "farm", content: str = "x") -> FunctionCall:
    """A call that changes a file."""
    return FunctionCall(tool="cc_write", args={"path": path, "content": content})


def shell(command: str) -> FunctionCall:
    """A call that runs a line."""
    return FunctionCall(tool="cc_shell", args={"command": command})


def run(path: str, *args: str) -> FunctionCall:
    """A call that runs a program."""
    return FunctionCall(tool="cc_run_program", args={"path": path, "args": list(args)})


def judge(tool: str, context: PolicyContext | None = None, **args: Any) -> PolicyDecision:
    """The shipped policy's verdict."""
    return evaluate(FunctionCall(tool=tool, args=args), context=context)


def effect_of(call: FunctionCall, *rules: PolicyRule, **context: Any) -> Effect:
    """The effect of these rules on a call."""
    return evaluate(call, policy=policy(*rules), context=PolicyContext(**context)).effect


def hits(one: PolicyRule, call: FunctionCall, **context: Any) -> bool:
    """Whether a rule matches a call, certainly: seen through what it does to a policy that allows or asks otherwise."""
    context.setdefault("computer", "3")
    context.setdefault("family", "computer")
    if one.effect is Effect.ALLOW:
        return effect_of(call, one, **context) is Effect.ALLOW
    everything = PolicyRule(id="everything", effect=Effect.ALLOW, tools=("*",))
    return effect_of(call, everything, one, **context) is one.effect
