"""The gate's rules: fail closed, strictest wins, letter case, risk, plan mode."""

import itertools
import logging
from types import ModuleType
from typing import Any

import pytest

import orchestrator.core.policy
import orchestrator.core.ports
from orchestrator.core.errors import PolicyInvalid
from orchestrator.core.policy import (
    BUILT_IN_CATALOG,
    Effect,
    FunctionCall,
    PolicyContext,
    RiskLevel,
    check_for_intervention,
    default_policy,
    evaluate,
    load_policy,
    severity,
    stricter,
)
from orchestrator.core.policy.rules import content_of
from orchestrator.core.policy.verdicts import digest_of
from tests.core.journal import call, verdict
from tests.core.policies import policy, rule, write

# -- how rules are put together -----------------------------------------------------------


def test_the_shipped_policy_is_read_once() -> None:
    """When it is first asked for; it is always the same."""
    default_policy.cache_clear()
    shipped = default_policy()
    assert shipped is default_policy()
    assert evaluate(write()) == evaluate(write(), policy=shipped)


def test_p1_a_tool_outside_the_catalog_is_denied_and_the_tools_are_named() -> None:
    """An unknown tool runs under no policy, however permissive its rules, and the model is told what there is."""
    wide_open = policy(rule("allow", tools=("*",)))
    for one in (default_policy(), wide_open):
        verdict = evaluate(FunctionCall(tool="rm_rf"), policy=one)
        assert (verdict.effect, verdict.risk, verdict.matched_rules) == (Effect.DENY, RiskLevel.UNKNOWN, ())
        assert "'rm_rf'" in verdict.reason
        named = verdict.reason.partition("The tools are: ")[2].rstrip(".").split(", ")
        assert named == [name for name in sorted(BUILT_IN_CATALOG) if name not in ("cc_restore", "local_restore")]


def restore(path: str, to: str = "0" * 64) -> FunctionCall:
    return FunctionCall(tool="cc_restore", args={"path": path, "to": to})


def test_a_tool_of_plans_is_judged_like_the_one_that_does_the_same() -> None:
    """By its rules, deny and path rules among them: what removes is judged as a delete, what makes as a mkdir."""
    like = policy(rule("allow", "w", tools=("cc_write",)), rule("deny", "s", tools=("cc_write",), paths=("secret/**",)))
    assert [evaluate(restore(one), policy=like).effect for one in ("a", "secret/a")] == [Effect.ALLOW, Effect.DENY]
    assert evaluate(restore("a", "absent"), policy=like).effect is Effect.ASK
    other = policy(*like.rules, rule("deny", "d", tools=("cc_delete",)), rule("allow", "m", tools=("cc_mkdir",)))
    assert evaluate(restore("a", "absent"), policy=other).effect is Effect.DENY
    assert evaluate(restore("a", "directory"), policy=other).effect is Effect.ALLOW
    nothing = policy(rule("allow", "l", tools=("cc_list",)))
    assert evaluate(restore("a"), policy=nothing).effect is Effect.ASK


def test_what_replaces_another_kind_is_judged_as_what_removes_that_too() -> None:
    """Both have to allow it, whichever the file is: what comes, and what goes."""

    def said(*effects: str, to: str = "0" * 64) -> tuple[Effect, tuple[str, ...]]:
        names = ("cc_mkdir" if to == "directory" else "cc_write", "cc_delete")
        rules = (rule(effect, name, tools=(name,)) for effect, name in zip(effects, names, strict=False))
        args = {"path": "a", "to": to, "replaces": "file" if to == "directory" else "directory"}
        decided = evaluate(FunctionCall(tool="cc_restore", args=args), policy=policy(*rules))
        return decided.effect, decided.matched_rules

    assert said("allow", "allow") == (Effect.ALLOW, ("cc_write", "cc_delete"))
    assert said("allow", "deny") == said("deny", "allow") == (Effect.DENY, ("cc_write", "cc_delete"))
    assert said("allow") == (Effect.ASK, ("cc_write",))
    assert said("allow", "ask", to="directory") == (Effect.ASK, ("cc_mkdir", "cc_delete"))
    risky = policy(rule("allow", "w", tools=("cc_write",)), rule("allow", "d", tools=("cc_delete",), risk="high"))
    call = FunctionCall(tool="cc_restore", args={"path": "a", "to": "0" * 64, "replaces": "directory"})
    assert evaluate(call, policy=risky).risk is RiskLevel.HIGH


def test_a_rule_that_names_a_tool_of_plans_takes_the_place_of_what_is_said_in_general() -> None:
    """What is denied, or asked for in some places, stays so: however narrow, no rule switches others off (P3)."""
    general = (
        rule("ask", "w", tools=("cc_write",)),
        rule("deny", "s", tools=("cc_write",), paths=("secret/**",)),
        rule("ask", "b", tools=("cc_write",), paths=("startup.lua",)),
        rule("allow", "l", tools=("cc_write",), labels=("farm",)),
    )
    named = policy(*general, rule("allow", "r", tools=("cc_restore",)))
    effects = {one: evaluate(restore(one), policy=named).effect for one in ("a", "secret/a", "startup.lua")}
    assert effects == {"a": Effect.ALLOW, "secret/a": Effect.DENY, "startup.lua": Effect.ASK}
    never = policy(rule("deny", "n", tools=("cc_write",)), rule("allow", "r", tools=("cc_restore",)))
    assert evaluate(restore("a"), policy=never).effect is Effect.DENY
    shipped = policy(*default_policy().rules, rule("allow", "r", tools=("cc_restore",)))
    here = PolicyContext(computer="3", family="advanced", label="")
    places = ("a", "startup.lua", ".cc-orchestrator/x")
    judged = {one: evaluate(restore(one), policy=shipped, context=here).effect for one in places}
    assert judged == {"a": Effect.ALLOW, "startup.lua": Effect.ASK, ".cc-orchestrator/x": Effect.DENY}


def test_p1_an_unknown_tool_may_ask_where_the_file_says_so() -> None:
    """``unknown_tool`` may ask a person; it cannot allow."""
    asking = load_policy('unknown_tool = "ask"\nrules = []')
    assert evaluate(FunctionCall(tool="rm_rf"), policy=asking).effect is Effect.ASK
    with pytest.raises(PolicyInvalid, match="unknown_tool"):
        load_policy('unknown_tool = "allow"\nrules = []')


@pytest.mark.parametrize("order", list(itertools.permutations(["allow", "ask", "deny"])))
def test_p3_strictest_wins(order: tuple[str, ...]) -> None:
    """Deny beats ask beats allow in every order of the rules and for every subset of them."""
    strictness = ["allow", "ask", "deny"]
    for size in (1, 2, 3):
        some = order[:size]
        decided = evaluate(write(), policy=policy(*(rule(effect) for effect in some)))
        assert decided.effect == max(some, key=strictness.index)
        assert decided.matched_rules == some


def test_p3_a_specific_allow_does_not_beat_a_general_deny() -> None:
    """How narrow a rule is does not matter."""
    rules = policy(rule("allow", paths=("farm",), computers=("3",)), rule("deny", tools=("*",)))
    assert evaluate(write(), policy=rules, context=PolicyContext(computer="3")).effect is Effect.DENY


def test_the_reason_is_that_of_the_strictest_rule() -> None:
    """The verdict tells why in the words of the rule that decided, or names it where it has none."""
    rules = (rule("allow", reason="fine"), rule("ask", reason="show me"))
    assert evaluate(write(), policy=policy(*rules)).reason == "show me"
    assert evaluate(write(), policy=policy(rule("ask", "quiet"))).reason == "Rule quiet."


def test_what_no_rule_covers_is_denied_or_asks() -> None:
    """Silence never allows: a reading call is denied, one that the catalog wants reviewed asks."""
    nothing = policy()
    read = evaluate(FunctionCall(tool="cc_read", args={"path": "a"}), policy=nothing)
    assert (read.effect, read.risk, read.reason) == (Effect.DENY, RiskLevel.LOW, "No rule allows this call.")
    written = evaluate(write(), policy=nothing)
    assert (written.effect, written.risk) == (Effect.ASK, RiskLevel.MEDIUM)
    assert "governance" in written.reason


def test_p4_each_predicate_narrows_a_rule() -> None:
    """Tool, path, computer, family and program each have to match where a rule names them."""
    context = PolicyContext(computer="turtle-8", family="turtle", program="/rom/programs/dig.lua")
    matching: list[dict[str, Any]] = [
        {},
        {"tools": ("*",)},
        {"tools": ("cc_read", "cc_write")},
        {"paths": ("other", "f*")},
        {"computers": ("turtle-*",)},
        {"families": ("computer", "turtle")},
        {"programs": ("rom/programs/*", "/rom/**")},
    ]
    missing: list[dict[str, Any]] = [
        {"tools": ("cc_read",)},
        {"paths": ("other",)},
        {"computers": ("reactor",)},
        {"families": ("computer",)},
        {"programs": ("home/*",)},
    ]
    for extra in matching:
        programs_differ = extra.get("programs") is not None
        seen = context.model_copy(update={"program": "rom/programs/dig.lua"}) if programs_differ else context
        assert evaluate(write(), policy=policy(rule("deny", **extra)), context=seen).effect is Effect.DENY, extra
    for extra in missing:
        assert evaluate(write(), policy=policy(rule("deny", **extra)), context=context).effect is Effect.ASK, extra


def test_a_predicate_on_what_is_not_known_does_not_match() -> None:
    """Without a computer, a family, a program or a path, rules on them are silent and the rest decides."""
    unknown: list[dict[str, Any]] = [{"computers": ("**",)}, {"programs": ("**",)}, {"families": ("turtle",)}]
    for extra in unknown:
        assert evaluate(write(), policy=policy(rule("allow", **extra))).effect is Effect.ASK
    shell = FunctionCall(tool="cc_shell", args={"command": "ls"})
    assert evaluate(shell, policy=policy(rule("allow", tools=("*",), paths=("**",)))).effect is Effect.ASK


@pytest.mark.parametrize("spelling", ["/rom/x", "rom//x", "\\rom\\x", "a/../rom/x", "r?om/x", " rom /x", "./rom/.../x"])
def test_p5_a_path_rule_sees_the_canonical_path(spelling: str) -> None:
    """Every spelling of a path gets the verdict of the file that it reaches."""
    assert evaluate(write(spelling), policy=policy(rule("deny", paths=("rom/**",)))).effect is Effect.DENY


def test_p6_letter_case() -> None:
    """Deny and ask match in any letter case, since the game does; allow only as it is written."""
    for effect in ("deny", "ask"):
        rules = policy(rule("allow", "all"), rule(effect, paths=("Rom/**",)))
        assert evaluate(write("rOM/x"), policy=rules).effect == effect
    allowing = policy(rule("allow", paths=("Rom/**",)))
    assert evaluate(write("rom/x"), policy=allowing).effect is Effect.ASK
    assert evaluate(write("Rom/x"), policy=allowing).effect is Effect.ALLOW


@pytest.mark.parametrize("path", ["../x", "a/../../x", "x" * 600, 5, None, ["a"]])
def test_a_path_that_cannot_be_made_canonical_is_denied(path: Any) -> None:
    """A path out of the computer, or none at all, is denied under the most permissive policy."""
    one = FunctionCall(tool="cc_read", args={"path": path})
    judged = evaluate(one, policy=policy(rule("allow", tools=("*",))))
    assert (judged.effect, judged.risk) == (Effect.DENY, RiskLevel.HIGH)
    assert "path" in judged.reason


def test_p11_the_verdict_is_a_pure_function_of_its_arguments() -> None:
    """Twice the same question, twice the same answer, with the version and the rules' digest of the policy."""
    rules = policy(rule("ask", risk="high"), rule("allow"))
    first, second = evaluate(write(), policy=rules), evaluate(write(), policy=rules)
    assert first == second
    assert (first.matched_rules, first.risk, first.policy_version) == (("ask", "allow"), RiskLevel.HIGH, rules.version)


def test_p12_risk_is_raised_by_rules_and_never_lowered() -> None:
    """The highest risk of the catalog and of every matching rule counts, whichever rule decides."""
    for risk in RiskLevel:
        judged = evaluate(write(), policy=policy(rule("ask"), rule("allow", risk=risk)))
        assert judged.risk is max(risk, RiskLevel.MEDIUM, key=severity)
    unmatched = policy(rule("ask"), rule("deny", paths=("other",), risk="critical"))
    assert evaluate(write(), policy=unmatched).risk is RiskLevel.MEDIUM


def test_p12_unknown_risk_stands_above_high() -> None:
    """The order on risks: low, medium, high, unknown, critical."""
    order = [RiskLevel.LOW, RiskLevel.MEDIUM, RiskLevel.HIGH, RiskLevel.UNKNOWN, RiskLevel.CRITICAL]
    assert sorted(RiskLevel, key=severity) == order


def test_p15_the_digest_of_the_rules_is_that_of_the_matched_ones() -> None:
    """A neutral edit changes the version but not the digest; an edit of a matched rule changes both."""
    before = policy(rule("ask"))
    neutral = policy(rule("ask"), rule("deny", paths=("elsewhere",)))
    edited = policy(rule("ask", reason="because"))
    one, two, three = (evaluate(write(), policy=which) for which in (before, neutral, edited))
    assert len({one.policy_version, two.policy_version, three.policy_version}) == 3
    assert one.rules_digest == two.rules_digest != three.rules_digest


def test_a_verdict_that_was_given_before_is_that_of_the_same_rules_and_tool() -> None:
    """Verdicts are kept: neither two rules of one name nor two tools of different risk may share one."""
    tools = ("cc_read", "cc_delete")
    twins = policy(
        rule("allow", "twin", paths=("own/**",)), rule("ask", "twin", paths=("farm/**",)), rule("allow", tools=tools)
    )
    for _ in range(2):
        effects = [evaluate(write(path), policy=twins).effect for path in ("own/a", "farm/a")]
        assert effects == [Effect.ALLOW, Effect.ASK]
        risks = [evaluate(FunctionCall(tool=name), policy=twins).risk for name in tools]
        assert risks == [BUILT_IN_CATALOG[name].governance.risk for name in tools]


@pytest.mark.parametrize("effect", ["allow", "ask", "deny"])
def test_p17_check_for_intervention_is_ask(effect: str, caplog: pytest.LogCaptureFixture) -> None:
    """Only what asks needs a person: a denied call never reaches one. Each look is logged under its seed's words."""
    with caplog.at_level(logging.INFO, "orchestrator.core.policy"):
        assert check_for_intervention(write(), policy=policy(rule(effect))) is (effect == "ask")
    assert caplog.messages == ["HITL Check: Intercepted call to cc.cc_write"]


def test_p17_without_a_policy_the_shipped_one_counts() -> None:
    """None means the shipped default, for any value that names a tool and its arguments, in its context."""
    assert check_for_intervention(FunctionCall(tool="cc_write", args={"path": "a"}))
    assert not check_for_intervention(FunctionCall(tool="cc_read", args={"path": "a"}))
    assert check_for_intervention(call("c1", "cc_shell", command="ls"))
    command = PolicyContext(family="command")
    assert not check_for_intervention(call("c1", "cc_shell", command="ls"), context=command)


def test_stricter_of_two_verdicts() -> None:
    """The stricter effect wins whichever verdict came first; of two alike the later one counts."""
    for one, two in itertools.product(("allow", "ask", "deny"), repeat=2):
        earlier, later = verdict(one, reason="earlier"), verdict(two, reason="later")
        expected = earlier if ["allow", "ask", "deny"].index(one) > ["allow", "ask", "deny"].index(two) else later
        assert stricter(earlier, later) is expected


def test_a_call_names_its_plugin_and_function() -> None:
    """``plugin_name`` and ``function_name`` of both kinds of call; a stranger's plugin is unknown."""
    for one in (FunctionCall(tool="local_patch"), call("c1", "local_patch")):
        assert (one.plugin_name, one.function_name) == ("local", "local_patch")
    for one in (FunctionCall(tool="rm_rf"), call("c1", "rm_rf")):
        assert (one.plugin_name, one.function_name) == ("unknown", "rm_rf")


def test_g5_a_verdict_names_the_rules_that_guard_some_calls() -> None:
    """Rules that ask, or may, for some calls of a tool; not those that allow, or that speak of each call."""
    rules = (
        rule("ask", "general"),
        rule("ask", "own", paths=("farm/**",)),
        rule("ask", "tested", args=[{"pointer": "/path", "regex": "farm"}]),
        rule("ask", "text", args=[{"pointer": "/content", "regex": "x"}]),
        rule("allow", "open", paths=("**",)),
        rule("deny", "within", tools=("cc_delete",), paths=("farm/*/keys",)),
        rule("ask", "deleting", tools=("cc_delete",)),
    )
    one = policy(*rules)
    digests = {each.id: digest_of(content_of(each)) for each in rules}

    def guards(call: FunctionCall) -> set[str]:
        return set(evaluate(call, policy=one).guards)

    text = {digests["text"]}
    assert guards(write("farm/a")) == {digests["own"], digests["tested"], *text}
    assert guards(write("house")) == text
    assert guards(FunctionCall(tool="cc_delete", args={"path": "farm/x"})) == {digests["within"]}
    allowing = policy(rule("allow", "all"), rule("ask", "far", paths=("far",)))
    assert evaluate(write("near"), policy=allowing).guards == ()
    at_path = [{"pointer": "/path", "regex": "farm"}]
    turtles = (
        rule("ask", "by path", families=("turtle",), args=at_path),
        rule("ask", "all of them", families=("turtle",)),
    )
    may = evaluate(write("farm/a"), policy=policy(rule("ask", "general"), *turtles))
    assert set(may.guards) == {digest_of(content_of(turtles[0]))}


@pytest.mark.parametrize("package", [orchestrator.core.policy, orchestrator.core.ports])
def test_the_package_has_its_own_names_only(package: ModuleType) -> None:
    """A name is imported when it is used; one that is not there is refused as Python refuses it."""
    assert all(getattr(package, name) is not None for name in package.__all__)
    with pytest.raises(AttributeError, match=f"'{package.__name__}' has no attribute 'nothing'"):
        _ = package.nothing
