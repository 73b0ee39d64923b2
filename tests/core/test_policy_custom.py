"""Plugins and stated risk: they make the gate stricter, never looser, and a plugin that fails does too."""

import logging
from typing import Any

import pytest

from orchestrator.core.policy import (
    CustomPolicy,
    CustomVerdict,
    Effect,
    FunctionCall,
    Policy,
    PolicyContext,
    RiskLevel,
    check_for_intervention,
    default_policy,
    evaluate,
    severity,
)
from tests.core.policies import policy, rule, write

ALLOW = policy(rule("allow"))
ASK = policy(rule("ask", reason="Show me."))


def plugin(name: str = "night", **verdict: Any) -> CustomPolicy:
    """A plugin that always says the same; nothing where it is given nothing."""
    return CustomPolicy(name, lambda call, context: CustomVerdict(**verdict) if verdict else None)


def test_p12_what_a_plugin_says_is_one_more_rule() -> None:
    """The strictest effect and the highest risk count, and its id stands among the matched ones."""
    asks = evaluate(write(), policy=ALLOW, custom=[plugin(effect="ask", risk="critical", reason="It is night.")])
    assert (asks.effect, asks.risk, asks.reason) == (Effect.ASK, RiskLevel.CRITICAL, "It is night.")
    assert asks.matched_rules == ("allow", "custom:night")
    two = evaluate(write(), policy=ASK, custom=[plugin("a", effect="deny"), plugin("b", effect="ask", reason="b asks")])
    assert (two.effect, two.reason) == (Effect.DENY, "The plugin custom:a says so. b asks")
    assert two.matched_rules == ("ask", "custom:a", "custom:b")


def test_p12_a_plugin_cannot_loosen() -> None:
    """Its ``allow`` and its low risk change neither what rules say nor what nobody covers."""
    lax = [plugin(effect="allow", risk="low")]
    for rules in (ASK, policy(rule("deny")), policy()):
        judged, without = evaluate(write(), policy=rules, custom=lax), evaluate(write(), policy=rules)
        assert (judged.effect, judged.risk) == (without.effect, without.risk)
    nobody = FunctionCall(tool="cc_read", args={"path": "a"})
    assert evaluate(nobody, policy=policy(), custom=lax).effect is Effect.DENY


def test_p12_a_plugin_with_nothing_to_say_leaves_no_trace() -> None:
    """None is as if it were not there."""
    assert evaluate(write(), policy=ALLOW, custom=[plugin()]) == evaluate(write(), policy=ALLOW)


def test_p12_its_risk_counts_for_rules_on_risks() -> None:
    """An analyser is one that only has a risk to say; rules may ask about it."""
    rules = policy(rule("allow"), rule("ask", risks=("high",)))
    assert evaluate(write(), policy=rules, custom=[plugin(risk="high")]).matched_rules == (
        "allow",
        "ask",
        "custom:night",
    )
    assert evaluate(write(), policy=rules).effect is Effect.ALLOW


def _fails(call: FunctionCall, context: PolicyContext) -> CustomVerdict | None:
    raise RuntimeError("boom")


def _talks(call: FunctionCall, context: PolicyContext) -> Any:
    return "allow"


@pytest.mark.parametrize(("judge", "words"), [(_fails, "failed"), (_talks, "gave no verdict")])
def test_p12_a_plugin_that_fails_asks_at_high_risk(judge: Any, words: str, caplog: pytest.LogCaptureFixture) -> None:
    """An analyser that raises yields high; the reason names it, and the log has the fault."""
    custom = [CustomPolicy("night", judge)]
    with caplog.at_level(logging.ERROR):
        judged = evaluate(write(), policy=ALLOW, custom=custom)
    assert (judged.effect, judged.risk) == (Effect.ASK, RiskLevel.HIGH)
    assert judged.reason == f"The plugin night {words}, so a person decides."
    assert ("boom" in caplog.text) is (words == "failed")
    both = evaluate(write(), policy=ASK, custom=custom)
    assert both.reason == f"Show me. The plugin night {words}, so a person decides."
    assert evaluate(write(), policy=policy(rule("deny")), custom=custom).effect is Effect.DENY


def test_p12_a_plugin_that_is_named_and_not_there_asks_at_high_risk() -> None:
    """The file counted on it, so nothing is allowed without it."""
    named = policy(rule("allow"), custom=("night",))
    judged = evaluate(write(), policy=named)
    assert (judged.effect, judged.risk, judged.matched_rules) == (Effect.ASK, RiskLevel.HIGH, ("allow", "custom:night"))
    assert "night is not loaded" in judged.reason
    assert evaluate(write(), policy=named, custom=[plugin()]).effect is Effect.ALLOW


def test_p12_a_plugin_cannot_change_the_call() -> None:
    """It is given a copy."""

    def meddles(call: FunctionCall, context: PolicyContext) -> None:
        call.args["path"] = "elsewhere"

    call = write("farm")
    evaluate(call, policy=ALLOW, custom=[CustomPolicy("m", meddles)])
    assert call.args["path"] == "farm"


def test_p11_a_decision_is_bound_to_what_plugins_said_and_not_to_their_words() -> None:
    """Another effect or risk is another digest; another reason is the same."""
    said = [
        evaluate(write(), policy=ALLOW, custom=[plugin(**verdict)])
        for verdict in (
            {"effect": "ask", "reason": "at 10:00"},
            {"effect": "ask", "reason": "at 11:00"},
            {"effect": "ask", "risk": "critical"},
            {"effect": "deny"},
        )
    ]
    digests = [one.rules_digest for one in said]
    assert digests[0] == digests[1]
    assert len({*digests, evaluate(write(), policy=ALLOW).rules_digest}) == 4


def test_p1_a_stranger_is_judged_by_plugins_too() -> None:
    """Where unknown tools ask, a plugin may deny one."""
    asking = policy(unknown_tool="ask")
    strange = FunctionCall(tool="rm_rf")
    assert evaluate(strange, policy=asking, custom=[plugin(effect="deny")]).effect is Effect.DENY
    assert evaluate(strange, policy=asking, custom=[plugin(effect="allow")]).effect is Effect.ASK


def test_p17_check_for_intervention_hears_plugins() -> None:
    """As ``evaluate`` does."""
    assert check_for_intervention(write(), policy=ALLOW, custom=[plugin(effect="ask")])
    assert not check_for_intervention(write(), policy=ALLOW, custom=[plugin(effect="deny")])


RAISING = policy(rule("allow", risk="high", paths=("a",)), rule("ask", "b", risk="critical", paths=("b",)))
ROOM = policy(rule("allow"), rule("ask", "away", families=("turtle",)))


@pytest.mark.parametrize(
    ("chosen", "path", "heard", "context", "words"),
    [
        (RAISING, "a", None, {"stated_risk": "critical"}, "Rule allow. The model says: critical risk."),
        (RAISING, "a", None, {"stated_risk": "high"}, "Rule allow."),
        (RAISING, "b", None, {"stated_risk": "critical"}, "Rule b."),
        (RAISING, "c", None, {"stated_risk": "high"}, "for a person. The model says: high risk."),
        (RAISING, "c", None, {"stated_risk": "medium"}, "for a person."),
        (RAISING, "c", None, {"stated_risk": "high", "analysed_risk": "high"}, "for a person."),
        (RAISING, "c", "high", {"stated_risk": "high"}, "Hm."),
        (RAISING, "c", "high", {"stated_risk": "critical"}, "a person. Hm. The model says: critical risk."),
        (ROOM, "c", None, {"stated_risk": "high"}, "whether it does. The model says: high risk."),
    ],
)
def test_p13_who_decides_is_told_that_the_model_raised_the_risk(
    chosen: Policy, path: str, heard: str | None, context: dict[str, str], words: str
) -> None:
    """The reason says so where the risk stands as high by the model's word alone, and not where it only agrees."""
    custom = () if heard is None else (plugin(risk=heard, reason="Hm."),)
    known = PolicyContext.model_validate({"computer": "3", **context})
    assert evaluate(write(path), policy=chosen, context=known, custom=custom).reason.endswith(words)
    if words.endswith("critical risk."):
        denied = evaluate(write(path), policy=chosen, context=known, custom=[plugin(effect="deny", reason="Not now.")])
        assert denied.reason == "Not now. The model says: critical risk."


@pytest.mark.parametrize("name", ["stated_risk", "analysed_risk"])
def test_p13_a_stated_risk_raises_and_never_lowers(name: str) -> None:
    """The highest of the catalog's, the stated, the analysed and the rules' risk counts."""
    for risk in RiskLevel:
        context = PolicyContext(computer="3", family="turtle").model_copy(update={name: risk})
        judged = evaluate(write(), context=context)
        assert judged.risk is max(risk, RiskLevel.MEDIUM, key=severity)
        assert judged.effect is Effect.ASK
        boot = evaluate(write("startup.lua"), context=context, policy=default_policy())
        assert boot.risk is max(risk, RiskLevel.HIGH, key=severity)


def test_g5_a_plugin_that_asks_guards_the_call() -> None:
    """A grant that was given without it does not answer for a person; one that only speaks of the risk is no guard."""
    asks = evaluate(write(), policy=ASK, custom=[plugin(effect="ask"), plugin("b", risk="medium")])
    assert asks.guards == ("custom:night",)
    denies = evaluate(write(), policy=ASK, custom=[plugin(effect="ask"), plugin("b", effect="deny")])
    assert (denies.effect, denies.guards) == (Effect.DENY, ())
