"""What a policy says of requests, plan mode, and how both count in its version."""

from typing import Any

import pytest

from orchestrator.core.policy import (
    BUILT_IN_CATALOG,
    PLAN_MODE,
    Effect,
    FunctionCall,
    Policy,
    PolicyContext,
    PolicyRule,
    RequestRules,
    RiskLevel,
    default_policy,
    evaluate,
    load_policy,
)
from tests.core.policies import policy, rule, write

ARGS = {
    "cc_run_program": {"path": "a"},
    "cc_shell": {"command": "ls"},
}


def test_the_defaults_of_requests() -> None:
    """What a file without the table means: reads go on, nothing is lost, high risks expire within the hour."""
    rules = default_policy().requests
    assert rules == RequestRules() == load_policy("rules = []").requests
    assert (rules.siblings, rules.partial, rules.on_reject, rules.on_timeout) == (
        "reads",
        "at_end",
        None,
        "stay_paused",
    )
    assert (rules.max_rejections, rules.release_on_relax) == (3, False)
    assert (rules.remind_before_s, rules.approval_valid_s) == (600, 900)
    assert {risk.value: rules.expires_s(risk) for risk in RiskLevel} == {
        "low": 86_400,
        "medium": 86_400,
        "high": 3_600,
        "critical": 3_600,
        "unknown": 3_600,
    }


def test_requests_are_read_from_the_file() -> None:
    """Each key of the table, and a table of deadlines that is filled up with the defaults."""
    loaded = load_policy(
        """rules = []
        [requests]
        siblings = "hold"
        partial = "at_once"
        on_reject = "continue"
        max_rejections = 0
        release_on_relax = true
        on_timeout = "cancel"
        remind_before_s = 0
        approval_valid_s = 60
        expires_s = { low = 0, high = 120 }
        """
    ).requests
    assert (loaded.siblings, loaded.partial, loaded.on_reject) == ("hold", "at_once", "continue")
    assert (loaded.max_rejections, loaded.release_on_relax, loaded.on_timeout) == (0, True, "cancel")
    assert (loaded.remind_before_s, loaded.approval_valid_s) == (0, 60)
    deadlines = [loaded.expires_s(risk) for risk in (RiskLevel.LOW, RiskLevel.MEDIUM, RiskLevel.HIGH)]
    assert deadlines == [0, 86_400, 120]


def test_p12_unknown_risk_waits_as_high_does() -> None:
    """Unless the file gives it a time of its own."""
    high = load_policy("rules = []\nrequests.expires_s = { high = 7, low = 1 }").requests
    assert high.expires_s(RiskLevel.UNKNOWN) == 7
    own = load_policy("rules = []\nrequests.expires_s = { high = 7, unknown = 5 }").requests
    assert own.expires_s(RiskLevel.UNKNOWN) == 5


@pytest.mark.parametrize("by_file", [True, False])
def test_p18_plan_mode_denies_whatever_changes_something(by_file: bool) -> None:
    """Each mutating tool, whatever allows it, for this very reason; looking goes on, and talking does."""
    rules = policy(rule("allow", tools=("*",)), mode="plan" if by_file else "normal")
    context = PolicyContext(plan=not by_file)
    for name, spec in BUILT_IN_CATALOG.items():
        judged = evaluate(FunctionCall(tool=name, args=ARGS.get(name, {})), policy=rules, context=context)
        if spec.governance.mutates:
            assert (judged.effect, judged.reason) == (Effect.DENY, "plan_mode")
        else:
            assert judged.effect is Effect.ALLOW


def test_p18_plan_mode_has_the_last_word() -> None:
    """Over rules that deny, paths that cannot be, and tools that nobody knows."""
    context = PolicyContext(plan=True)
    denied = policy(rule("deny", reason="never", risk="critical"), unknown_tool="ask")
    for call in (write(), write("../x"), FunctionCall(tool="rm_rf")):
        judged = evaluate(call, policy=denied, context=context)
        assert (judged.effect, judged.reason) == (Effect.DENY, PLAN_MODE)
    assert evaluate(write(), policy=denied, context=context).risk is RiskLevel.CRITICAL
    read = FunctionCall(tool="cc_read", args={"path": "a"})
    assert evaluate(read, context=context).effect is Effect.ALLOW


# -- versions and digests -------------------------------------------------------------------

OLD_RULE = PolicyRule(
    id="r",
    effect=Effect.DENY,
    tools=("cc_shell", "cc_run_program"),
    programs=("rom/**",),
    computers=("turtle-*",),
    families=("turtle",),
    risk=RiskLevel.HIGH,
    reason="x",
)


def test_p15_what_the_first_release_hashed_is_hashed_as_it_was() -> None:
    """A decision of an earlier version stays bound: predicates that a rule does not have are not in its digest."""
    old = Policy(rules=(OLD_RULE,))
    assert old.digest_of((OLD_RULE,)) == "b5da3b4faf8de6c129cfd07216e6fe67459b6d5c78a1b24507d67302b5e0d659"
    assert old.version == "14adb8535b33fb2b"
    boot = next(one for one in default_policy().rules if one.id == "boot-files")
    first = tuple(path for path in boot.paths or () if path != "startup_own*.lua")
    digest = default_policy().digest_of((boot.model_copy(update={"paths": first}),))
    assert digest == "bcc6868b822460420883c74e1a524be2c2f9f5f5f2df603fb6e5486046d1d292"


def test_p11_each_new_setting_is_in_the_version_and_each_new_predicate_in_the_digest() -> None:
    """Whatever a person changes in the file gives another version; what a rule says, another digest."""
    settings = (
        "",
        'unknown_tool = "ask"',
        'mode = "plan"',
        'custom = ["a"]',
        "requests.max_rejections = 1",
        "requests.expires_s.low = 1",
        'examples = [{ call = { tool = "cc_read" }, expect = "deny" }]',
    )
    versions = {load_policy(f"{text}\nrules = []").version for text in settings}
    assert len(versions) == len(settings)
    plain = OLD_RULE.model_dump()
    more: list[dict[str, Any]] = [
        {"labels": ("a",)},
        {"roles": ("a",)},
        {"risks": ("low",)},
        {"args": ({"pointer": "/command", "eq": "a"},)},
        {"args": ({"pointer": "/command", "regex": "a"},)},
    ]
    rules = [OLD_RULE, *(PolicyRule.model_validate({**plain, **one}) for one in more)]
    assert len({Policy(rules=(one,)).digest_of((one,)) for one in rules}) == len(rules)


def test_a_copy_of_a_policy_is_checked_and_remembers_nothing() -> None:
    """Neither the version nor the rules of the one it was copied from."""
    first = policy(rule("allow"))
    assert evaluate(write(), policy=first).effect is Effect.ALLOW
    second = first.model_copy(update={"rules": (rule("deny"),)})
    assert evaluate(write(), policy=second).effect is Effect.DENY
    assert first.version != second.version
    assert first.model_copy() == first
    with pytest.raises(ValueError, match="mode"):
        first.model_copy(update={"mode": "lax"})


def test_verdicts_are_made_once_for_each_case_and_no_more_than_fit() -> None:
    """Two calls alike share one verdict; reasons without an end do not fill the memory."""
    one = policy(rule("allow"))
    assert evaluate(write("a"), policy=one) is evaluate(write("b"), policy=one)
    for number in range(1100):
        one.decision(Effect.ASK, RiskLevel.LOW, str(number), one.rules)
    assert one.decision(Effect.ASK, RiskLevel.LOW, "new", one.rules) is not one.decision(
        Effect.ASK, RiskLevel.LOW, "new", one.rules
    )
