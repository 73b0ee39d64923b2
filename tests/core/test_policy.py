"""The gate's rules: fail closed, strictest wins, letter case, risk, and files that are refused with the reason."""

import itertools
import logging
import re
from typing import Any

import pytest

from orchestrator.core.default_policy import DEFAULT_POLICY_TOML
from orchestrator.core.errors import PolicyInvalid
from orchestrator.core.policy import (
    BUILT_IN_CATALOG,
    Effect,
    FunctionCall,
    Governance,
    Policy,
    PolicyContext,
    PolicyDecision,
    PolicyRule,
    RiskLevel,
    ToolSpec,
    check_for_intervention,
    default_policy,
    evaluate,
    load_policy,
    severity,
    stricter,
)
from orchestrator.core.response import TOOL_ARGS
from tests.core.journal import call, verdict


def rule(effect: str, name: str = "", **rest: Any) -> PolicyRule:
    """A rule for ``cc_write`` unless it says otherwise."""
    return PolicyRule.model_validate({"id": name or effect, "effect": effect, "tools": ("cc_write",), **rest})


def policy(*rules: PolicyRule, **rest: Any) -> Policy:
    """A policy of these rules."""
    return Policy(rules=rules, **rest)


def write(path: str = "farm") -> FunctionCall:
    """A call that changes a file."""
    return FunctionCall(tool="cc_write", args={"path": path, "content": "x"})


def judge(tool: str, context: PolicyContext | None = None, **args: Any) -> PolicyDecision:
    """The shipped policy's verdict."""
    return evaluate(FunctionCall(tool=tool, args=args), context=context)


# -- how rules are put together -----------------------------------------------------------


def test_P1_a_tool_outside_the_catalog_is_denied_and_the_tools_are_named() -> None:
    """An unknown tool runs under no policy, however permissive its rules, and the model is told what there is."""
    wide_open = policy(rule("allow", tools=("*",)))
    for one in (default_policy(), wide_open):
        verdict = evaluate(FunctionCall(tool="rm_rf"), policy=one)
        assert (verdict.effect, verdict.risk, verdict.matched_rules) == (Effect.DENY, RiskLevel.UNKNOWN, ())
        assert "'rm_rf'" in verdict.reason
        assert all(name in verdict.reason for name in BUILT_IN_CATALOG)


def test_P1_an_unknown_tool_may_ask_where_the_file_says_so() -> None:
    """``unknown_tool`` may ask a person; it cannot allow."""
    asking = load_policy('unknown_tool = "ask"\nrules = []')
    assert evaluate(FunctionCall(tool="rm_rf"), policy=asking).effect is Effect.ASK
    with pytest.raises(PolicyInvalid, match="unknown_tool"):
        load_policy('unknown_tool = "allow"\nrules = []')


@pytest.mark.parametrize("order", list(itertools.permutations(["allow", "ask", "deny"])))
def test_P3_strictest_wins(order: tuple[str, ...]) -> None:
    """Deny beats ask beats allow in every order of the rules and for every subset of them."""
    strictness = ["allow", "ask", "deny"]
    for size in (1, 2, 3):
        some = order[:size]
        decided = evaluate(write(), policy=policy(*(rule(effect) for effect in some)))
        assert decided.effect == max(some, key=strictness.index)
        assert decided.matched_rules == some


def test_P3_a_specific_allow_does_not_beat_a_general_deny() -> None:
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


def test_P4_each_predicate_narrows_a_rule() -> None:
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
def test_P5_a_path_rule_sees_the_canonical_path(spelling: str) -> None:
    """Every spelling of a path gets the verdict of the file that it reaches."""
    assert evaluate(write(spelling), policy=policy(rule("deny", paths=("rom/**",)))).effect is Effect.DENY


def test_P6_letter_case() -> None:
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


def test_P11_the_verdict_is_a_pure_function_of_its_arguments() -> None:
    """Twice the same question, twice the same answer, with the version and the rules' digest of the policy."""
    rules = policy(rule("ask", risk="high"), rule("allow"))
    first, second = evaluate(write(), policy=rules), evaluate(write(), policy=rules)
    assert first == second
    assert (first.matched_rules, first.risk, first.policy_version) == (("ask", "allow"), RiskLevel.HIGH, rules.version)


def test_P12_risk_is_raised_by_rules_and_never_lowered() -> None:
    """The highest risk of the catalog and of every matching rule counts, whichever rule decides."""
    for risk in RiskLevel:
        judged = evaluate(write(), policy=policy(rule("ask"), rule("allow", risk=risk)))
        assert judged.risk is max(risk, RiskLevel.MEDIUM, key=severity)
    unmatched = policy(rule("ask"), rule("deny", paths=("other",), risk="critical"))
    assert evaluate(write(), policy=unmatched).risk is RiskLevel.MEDIUM


def test_P12_unknown_risk_stands_above_high() -> None:
    """The order on risks: low, medium, high, unknown, critical."""
    order = [RiskLevel.LOW, RiskLevel.MEDIUM, RiskLevel.HIGH, RiskLevel.UNKNOWN, RiskLevel.CRITICAL]
    assert sorted(RiskLevel, key=severity) == order


def test_P15_the_digest_of_the_rules_is_that_of_the_matched_ones() -> None:
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
def test_P17_check_for_intervention_is_ask(effect: str, caplog: pytest.LogCaptureFixture) -> None:
    """Only what asks needs a person: a denied call never reaches one. Each look is logged under its seed's words."""
    with caplog.at_level(logging.INFO, "orchestrator.core.policy"):
        assert check_for_intervention(write(), policy=policy(rule(effect))) is (effect == "ask")
    assert caplog.messages == ["HITL Check: Intercepted call to cc.cc_write"]


def test_P17_without_a_policy_the_shipped_one_counts() -> None:
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


# -- the catalog --------------------------------------------------------------------------


def test_the_catalog_and_the_arguments_know_the_same_tools() -> None:
    """Each built-in tool has a spec and an args model, and its path arguments are arguments that it takes."""
    assert set(BUILT_IN_CATALOG) == set(TOOL_ARGS)
    for name, spec in BUILT_IN_CATALOG.items():
        assert spec.name == name
        assert set(spec.path_args) <= set(TOOL_ARGS[name].model_fields)
        assert ("path" in TOOL_ARGS[name].model_fields) == ("path" in spec.path_args)


def test_the_catalog_says_what_each_tool_is() -> None:
    """Plugin, recovery class and id of every tool: what may be run again after a crash must not drift."""
    table = {name: (spec.plugin, spec.recovery, spec.governance.mutates) for name, spec in BUILT_IN_CATALOG.items()}
    assert table == {
        "send_status": ("people", "pure", False),
        "ask_user": ("people", "pure", False),
        "cc_read": ("cc", "pure", False),
        "cc_list": ("cc", "pure", False),
        "cc_find": ("cc", "pure", False),
        "cc_write": ("cc", "by_state", True),
        "cc_edit": ("cc", "by_state", True),
        "cc_move": ("cc", "by_state", True),
        "cc_mkdir": ("cc", "by_state", True),
        "cc_delete": ("cc", "by_state", True),
        "cc_run_program": ("cc", "once", True),
        "cc_shell": ("cc", "once", True),
        "local_read": ("local", "pure", False),
        "local_write": ("local", "by_state", True),
        "local_patch": ("local", "by_state", True),
    }
    assert all(spec.governance.requires_hitl == spec.governance.mutates for spec in BUILT_IN_CATALOG.values())
    assert BUILT_IN_CATALOG["cc_write"].tool_id == "cc-cc_write"


def test_a_catalog_may_be_brought_along() -> None:
    """A tool of one's own is judged by its own path arguments and governance."""
    spec = ToolSpec(
        name="cc_move",
        plugin="cc",
        recovery="by_state",
        governance=Governance(requires_hitl=False, mutates=True, risk=RiskLevel.LOW),
        path_args=("path", "to"),
    )
    move = FunctionCall(tool="cc_move", args={"path": "a", "to": "ROM/x"})
    rules = policy(rule("deny", tools=("cc_move",), paths=("rom/**",)))
    assert evaluate(move, policy=rules, catalog={"cc_move": spec}).effect is Effect.DENY
    away = FunctionCall(tool="cc_move", args={"path": "a", "to": "b"})
    assert evaluate(away, policy=rules, catalog={"cc_move": spec}).reason == "No rule allows this call."


# -- the shipped policy -------------------------------------------------------------------

COMMAND = PolicyContext(computer="3", family="command")


@pytest.mark.parametrize(
    ("tool", "args", "context", "effect", "risk"),
    [
        ("cc_read", {"path": "startup.lua"}, None, "allow", "low"),
        ("cc_list", {"path": "/"}, None, "allow", "low"),
        ("cc_find", {"pattern": "**/*.lua", "contains": "turtle."}, COMMAND, "allow", "low"),
        ("local_read", {"path": "notes"}, None, "allow", "low"),
        ("send_status", {"message": "hm"}, None, "allow", "low"),
        ("ask_user", {"question": "which?"}, None, "allow", "low"),
        ("cc_read", {"path": "rom/help"}, COMMAND, "allow", "low"),
        ("cc_write", {"path": "farm"}, None, "ask", "medium"),
        ("cc_edit", {"path": "farm"}, None, "ask", "medium"),
        ("cc_move", {"path": "farm", "to": "old/farm"}, None, "ask", "medium"),
        ("cc_mkdir", {"path": "lib"}, None, "ask", "low"),
        ("cc_delete", {"path": "farm"}, None, "ask", "high"),
        ("local_write", {"path": "notes"}, None, "ask", "medium"),
        ("local_patch", {"path": "notes"}, None, "ask", "medium"),
        ("cc_run_program", {"path": "farm"}, None, "ask", "medium"),
        ("cc_shell", {"command": "ls"}, None, "ask", "high"),
        ("cc_write", {"path": "/STARTUP.lua"}, None, "ask", "high"),
        ("cc_write", {"path": "startup"}, None, "ask", "high"),
        ("cc_write", {"path": "startup/10_farm.lua"}, None, "ask", "high"),
        ("cc_write", {"path": "disk2/startup"}, None, "ask", "high"),
        ("cc_write", {"path": "disk/startup.lua"}, None, "ask", "high"),
        ("cc_delete", {"path": "disk/startup/a"}, None, "ask", "high"),
        ("cc_write", {"path": "disk/startup/a"}, None, "ask", "high"),
        ("cc_write", {"path": ".settings"}, None, "ask", "high"),
        ("cc_edit", {"path": "/x/../Startup.lua"}, None, "ask", "high"),
        ("cc_move", {"path": "startup.lua", "to": "old"}, None, "ask", "high"),
        ("cc_move", {"path": "farm", "to": "disk/startup"}, None, "ask", "high"),
        ("cc_mkdir", {"path": "startup"}, None, "ask", "high"),
        ("cc_write", {"path": "startups.lua"}, None, "ask", "medium"),
        ("cc_write", {"path": "rom/x"}, None, "deny", "medium"),
        ("cc_delete", {"path": "/ROM"}, None, "deny", "high"),
        ("cc_edit", {"path": "rom/startup.lua"}, None, "deny", "medium"),
        ("cc_move", {"path": "farm", "to": "rom/farm"}, None, "deny", "medium"),
        ("cc_move", {"path": "rom/x", "to": "x"}, None, "deny", "medium"),
        ("cc_mkdir", {"path": "rom/x"}, None, "deny", "low"),
        ("cc_read", {"path": ".cc-orchestrator/token"}, None, "deny", "critical"),
        ("cc_list", {"path": ".CC-Orchestrator"}, None, "deny", "critical"),
        ("cc_write", {"path": "disk3/.cc-orchestrator/x"}, None, "deny", "critical"),
        ("cc_run_program", {"path": ".cc-orchestrator/x"}, None, "deny", "critical"),
        ("cc_edit", {"path": ".cc-orchestrator/token"}, None, "deny", "critical"),
        ("cc_move", {"path": ".cc-orchestrator", "to": "x"}, None, "deny", "critical"),
        ("cc_move", {"path": "x", "to": "disk/.cc-orchestrator"}, None, "deny", "critical"),
        ("cc_mkdir", {"path": "disk2/.cc-orchestrator/x"}, None, "deny", "critical"),
        ("cc_write", {"path": "farm"}, COMMAND, "deny", "critical"),
        ("cc_delete", {"path": "farm"}, COMMAND, "deny", "critical"),
        ("cc_edit", {"path": "farm"}, COMMAND, "deny", "critical"),
        ("cc_move", {"path": "farm", "to": "x"}, COMMAND, "deny", "critical"),
        ("cc_mkdir", {"path": "lib"}, COMMAND, "deny", "critical"),
        ("cc_run_program", {"path": "farm"}, COMMAND, "deny", "critical"),
        ("cc_shell", {"command": "ls"}, COMMAND, "deny", "critical"),
    ],
)
def test_the_shipped_policy(
    tool: str, args: dict[str, Any], context: PolicyContext | None, effect: str, risk: str
) -> None:
    """Looking is free, changing and running ask, boot files are high risk, /rom and command computers are denied."""
    judged = judge(tool, context, **args)
    assert (judged.effect, judged.risk) == (effect, risk)
    assert judged.reason


def test_the_shipped_policy_is_the_text_that_serve_writes() -> None:
    """The text loads to the policy in force, so that what a person edits is what was there before."""
    assert load_policy(DEFAULT_POLICY_TOML) == default_policy()
    assert load_policy(DEFAULT_POLICY_TOML).version == default_policy().version
    named = {name for one in default_policy().rules for name in one.tools}
    assert named == set(BUILT_IN_CATALOG)


# -- files that cannot be used ------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rules = [", ["my.toml", "not TOML", "at end of document"]),
        ("", ["my.toml", "rules", "is missing"]),
        ("rules = 5", ["my.toml", "rules"]),
        ("rules = [5]", ["my.toml", "rule 1"]),
        ("schema_version = 2\nrules = []", ["my.toml", "schema_version"]),
        ("colour = 1\nrules = []", ["my.toml", "colour"]),
        ('[[rules]]\nid = "a"\neffect = "allow"\ntools = ["*"]\n[[rules]]\nid = "b"\neffect = "no"\ntools = ["*"]',
         ["my.toml", "rule 2 (b)", "effect", "'allow', 'ask' or 'deny'"]),
        ('[[rules]]\neffect = "deny"\ntools = ["cc_read"]', ["my.toml", "rule 1", "id", "is missing"]),
        ('[[rules]]\nid = ""\neffect = "deny"\ntools = ["cc_read"]', ["my.toml", "rule 1", "id"]),
        ('[[rules]]\nid = "b"\neffect = "deny"', ["rule 1 (b)", "tools", "is missing"]),
        ('[[rules]]\nid = "b"\neffect = "deny"\ntools = []', ["rule 1 (b)", "tools"]),
        ('[[rules]]\nid = "b"\neffect = "deny"\ntools = ["*", "cc_read"]', ["rule 1 (b)", "'*' stands alone"]),
        ('[[rules]]\nid = "b"\neffect = "deny"\ntools = ["cc_*"]', ["rule 1 (b)", "exact names", "cc_*"]),
        ('[[rules]]\nid = "b"\neffect = "deny"\ntools = [""]', ["rule 1 (b)", "exact names"]),
        ('[[rules]]\nid = "b"\neffect = "deny"\ntools = ["cc_read"]\npath = ["x"]', ["rule 1", "path is not known"]),
        ('[[rules]]\nid = "b"\neffect = "deny"\ntools = ["cc_read"]\npaths = []', ["rule 1 (b)", "paths"]),
        ('[[rules]]\nid = "b"\neffect = "deny"\ntools = ["cc_read"]\nprograms = []', ["rule 1 (b)", "programs"]),
        ('[[rules]]\nid = "b"\neffect = "deny"\ntools = ["cc_read"]\ncomputers = []', ["rule 1 (b)", "computers"]),
        ('[[rules]]\nid = "b"\neffect = "deny"\ntools = ["cc_read"]\nfamilies = []', ["rule 1 (b)", "families"]),
        ('[[rules]]\nid = "b"\neffect = "deny"\ntools = ["cc_read"]\nfamilies = ["cow"]', ["rule 1 (b)", "families"]),
        ('[[rules]]\nid = "b"\neffect = "deny"\ntools = ["cc_read"]\nrisk = "huge"', ["rule 1 (b)", "risk"]),
        ('[[rules]]\nid = "b"\neffect = "deny"\ntools = ["cc_read"]\npaths = ["a", "rom/"]',
         ["rule 1 (b)", "no canonical path can match", "'rom/'"]),
        ('[[rules]]\nid = "b"\neffect = "deny"\ntools = ["cc_shell"]\nprograms = ["a//b"]', ["rule 1 (b)", "'a//b'"]),
        ('[[rules]]\nid = "b"\neffect = "deny"\ntools = ["*"]\n[[rules]]\nid = "b"\neffect = "ask"\ntools = ["*"]',
         ["my.toml", "two rules", "'b'"]),
    ],
)  # fmt: skip
def test_P9_a_file_that_cannot_be_used_is_refused_whole(text: str, words: list[str]) -> None:
    """The refusal names file, rule and reason and says what to do; no malformed rule becomes "no match"."""
    with pytest.raises(PolicyInvalid) as refused:
        load_policy(text, source="my.toml")
    assert not [word for word in words if word not in refused.value.message], refused.value.message
    assert refused.value.remedy


def test_a_file_that_can_be_used() -> None:
    """A file of the user's own loads, and its version is a short hash of its content."""
    loaded = load_policy('[[rules]]\nid = "all"\neffect = "allow"\ntools = ["*"]')
    assert (len(loaded.version), loaded.unknown_tool) == (16, "deny")
    assert evaluate(write(), policy=loaded).effect is Effect.ALLOW
    assert loaded.version != load_policy('[[rules]]\nid = "all"\neffect = "ask"\ntools = ["*"]').version


def test_P9_a_rule_for_a_tool_that_does_not_exist_fails_the_load() -> None:
    """A typo in a deny rule must not become a rule that never matches: file, rule and tools are named."""
    text = 'rules = [{ id = "no-deleting", effect = "deny", tools = ["cc_delte"] }]'
    with pytest.raises(
        PolicyInvalid, match=r"mine\.toml: rule 1 \(no-deleting\): there is no tool 'cc_delte'.*cc_delete"
    ):
        load_policy(text, source="mine.toml")


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        ('tools = ["send_status"], paths = ["x"]', "send_status has no path"),
        ('tools = ["cc_write", "cc_shell"], paths = ["rom/**"]', "cc_shell has no path"),
        ('tools = ["cc_write"], programs = ["x"]', "cc_write runs no program"),
        ('tools = ["local_write"], families = ["command"]', "local_write touches no computer"),
        ('tools = ["local_write"], computers = ["3"]', "local_write touches no computer"),
    ],
)
def test_P9_a_rule_that_can_never_match_its_tool_fails_the_load(rest: str, why: str) -> None:
    """A predicate that a tool cannot meet would look like protection and be none; `*` stands for all and is fine."""
    with pytest.raises(PolicyInvalid, match=rf"rule 1 \(r\): {why}"):
        load_policy(f'rules = [{{ id = "r", effect = "deny", {rest} }}]')
    everything = re.sub(r"tools = \[.*?\]", 'tools = ["*"]', rest)
    assert load_policy(f'rules = [{{ id = "r", effect = "deny", {everything} }}]').rules
