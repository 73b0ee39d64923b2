"""The catalog and the shipped policy: what must not drift."""

from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.core.policy import (
    BUILT_IN_CATALOG,
    Effect,
    FunctionCall,
    Governance,
    PolicyContext,
    RiskLevel,
    ToolSpec,
    default_policy,
    evaluate,
    load_policy,
    told_of_gaps,
    told_of_roles,
    tools_without_a_rule,
)
from orchestrator.core.policy.load import DEFAULT_POLICY_TOML
from orchestrator.core.policy.rules import content_of
from orchestrator.core.policy.tool_args import CcLabelArgs
from orchestrator.core.reply.response import TOOL_ARGS
from tests.core.policies import judge, policy, rule

# -- the catalog --------------------------------------------------------------------------


def test_the_catalog_says_what_each_tool_is() -> None:
    """Plugin, recovery class and id of every tool: what may be run again after a crash must not drift."""
    table = {name: (spec.plugin, spec.recovery, spec.governance.mutates) for name, spec in BUILT_IN_CATALOG.items()}
    assert table == table | {
        "send_status": ("people", "pure", False),
        "ask_user": ("people", "pure", False),
        "cc_read": ("cc", "pure", False),
        "cc_list": ("cc", "pure", False),
        "cc_find": ("cc", "pure", False),
        "cc_info": ("cc", "pure", False),
        "cc_docs": ("cc", "pure", False),
        "cc_screen": ("cc", "pure", False),
        "cc_peripheral_call": ("cc", "once", True),
        "cc_write": ("cc", "by_state", True),
        "cc_edit": ("cc", "by_state", True),
        "cc_move": ("cc", "by_state", True),
        "cc_mkdir": ("cc", "by_state", True),
        "cc_delete": ("cc", "by_state", True),
        "cc_restore": ("cc", "by_state", True),
        "cc_run_program": ("cc", "once", True),
        "cc_shell": ("cc", "once", True),
        "cc_stop": ("cc", "once", True),
        "local_read": ("local", "pure", False),
        "local_write": ("local", "by_state", True),
        "local_patch": ("local", "by_state", True),
        "local_restore": ("local", "by_state", True),
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
TURTLE = PolicyContext(computer="3", family="turtle")
READ_ONLY = PolicyContext(computer="3", family="turtle", plan=True)


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
        ("cc_info", {}, COMMAND, "allow", "low"),
        ("cc_screen", {"of": "program"}, None, "allow", "low"),
        ("cc_peripheral_call", {"name": "left", "method": "list"}, TURTLE, "allow", "medium"),
        ("cc_peripheral_call", {"name": "left", "method": "list"}, READ_ONLY, "allow", "medium"),
        ("cc_peripheral_call", {"name": "left", "method": "LIST"}, TURTLE, "ask", "medium"),
        ("cc_peripheral_call", {"name": "left", "method": "pushItems"}, TURTLE, "ask", "medium"),
        ("cc_peripheral_call", {"name": "left", "method": "pushItems"}, READ_ONLY, "deny", "medium"),
        ("cc_peripheral_call", {"name": "left", "method": "list"}, None, "ask", "medium"),
        ("cc_peripheral_call", {"name": "left", "method": "list"}, COMMAND, "deny", "critical"),
        ("cc_write", {"path": "farm"}, READ_ONLY, "deny", "medium"),
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
    assert named == set(TOOL_ARGS)


# -- files that are older than a tool ------------------------------------------------------


def test_a_file_that_is_older_than_a_tool_says_what_becomes_of_its_calls() -> None:
    """What such a file does not name is denied if it only looks, and asks if it changes something."""
    old = policy(rule("allow", tools=tuple(sorted(set(BUILT_IN_CATALOG) - {"cc_info", "cc_screen"}))))
    unnamed = tools_without_a_rule(one.tools for one in old.rules)
    assert unnamed == ("cc_info", "cc_screen")
    denied, remedy = told_of_gaps(unnamed)
    assert denied == "No rule names cc_info, cc_screen: these calls are denied."
    assert "docs/policy.md" in remedy
    info = FunctionCall(tool="cc_info", args={})
    assert evaluate(info, policy=old).effect is Effect.DENY
    older = policy(rule("allow", tools=tuple(sorted(set(BUILT_IN_CATALOG) - {"cc_peripheral_call"}))))
    asked, _ = told_of_gaps(tools_without_a_rule(one.tools for one in older.rules))
    assert asked == "No rule names cc_peripheral_call: these calls wait for a person."
    call = FunctionCall(tool="cc_peripheral_call", args={"name": "left", "method": "list"})
    assert evaluate(call, policy=older).effect is Effect.ASK


def test_a_file_that_names_every_tool_has_no_gap() -> None:
    """Neither the shipped file has one, nor one that says something of all tools."""
    assert tools_without_a_rule(one.tools for one in default_policy().rules) == ()
    assert tools_without_a_rule([("*",)]) == ()
    assert told_of_gaps(()) == ()


def test_plan_mode_allows_what_a_rule_says_only_reads() -> None:
    """A rule that allows without saying so leaves the call denied, and a stricter one beats it."""
    pointer = ({"pointer": "/method", "eq": "list"},)
    reads = rule("allow", id="reads", tools=("cc_peripheral_call",), args=pointer, reads=True)
    plain = rule("allow", id="plain", tools=("cc_peripheral_call",), args=pointer)
    asks = rule("ask", id="asks", tools=("cc_peripheral_call",), args=pointer)
    call = FunctionCall(tool="cc_peripheral_call", args={"name": "left", "method": "list"})
    for rules, effect in (((reads,), "allow"), ((plain,), "deny"), ((reads, plain), "allow"), ((reads, asks), "deny")):
        for planned in (policy(*rules), policy(*rules, mode="plan")):
            judged = evaluate(call, policy=planned, context=READ_ONLY)
            assert (judged.effect, judged.reason == "plan_mode") == (effect, effect == "deny")


def test_a_rule_without_reads_is_hashed_as_before() -> None:
    """The digest of a rule that does not say `reads` is what it was before there was such a thing."""
    assert "reads" not in content_of(rule("allow", tools=("cc_read",)))


def test_a_role_that_nobody_has_is_named() -> None:
    """A rule for it looks like protection and is none."""
    (said,) = told_of_roles([("kids", ("guest", "admin")), ("all", ()), ("own", ("submitter",))])
    assert said == "Rule kids names guest: nobody can have this role. The roles are viewer, submitter, reviewer, admin."


@pytest.mark.parametrize("odd", ["gr\u00fcn", "a\nb", "x" * 33])
def test_a_label_that_the_game_would_change_is_refused_before_anybody_is_asked(odd: str) -> None:
    with pytest.raises(ValidationError):
        CcLabelArgs(label=odd)
