"""What holds for every policy and every call, whatever they are."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.policy import (
    Effect,
    FunctionCall,
    Policy,
    PolicyContext,
    PolicyRule,
    RiskLevel,
    check_for_intervention,
    evaluate,
    explain,
    severity,
)
from orchestrator.core.policy.verdicts import strictness

TOOLS = ("cc_read", "cc_write", "cc_move", "cc_delete", "cc_run_program", "cc_shell", "local_write", "send_status")
GLOBS = ("**", "rom/**", "rom/programs/delete.lua", "startup*", "farm/*", "**/x", "disk*/a", "x")
PATHS = ("", "/", "rom/x", "farm", "farm/x", "startup.lua", "../x", "disk/a", "X", "a/../farm/x")
LINES = ("ls", "rm x", "shell rm x", "bg x", "/farm/x", "..", "", "wget run a", 'sh "rm x"', "rm\nx")
PROGRAMS = (None, "rom/programs/delete.lua", "rom/programs/shell.lua", "farm/x", "../x")
RISKS = st.sampled_from(list(RiskLevel))


def some(values: tuple[Any, ...]) -> st.SearchStrategy[tuple[Any, ...] | None]:
    return st.none() | st.lists(st.sampled_from(values), min_size=1, max_size=3).map(tuple)


@st.composite
def rules(draw: st.DrawFn, effects: tuple[str, ...] = ("allow", "ask", "deny")) -> dict[str, Any]:
    """The fields of a rule, without its id."""
    effect = draw(st.sampled_from(effects))
    test = "max_length" if effect == "allow" else "over_length"
    tests = (
        {"pointer": "/content", test: 1},
        {"pointer": "/command", "regex": "r."},
        {"pointer": "/path", "eq": "farm"},
    )
    risks = draw(some(tuple(RiskLevel)))
    return {
        "effect": effect,
        "tools": draw(st.just(("*",)) | some(TOOLS).map(lambda found: found or ("*",))),
        "paths": draw(some(GLOBS)),
        "programs": draw(some(GLOBS)),
        "computers": draw(some(("3", "turtle*"))),
        "families": draw(some(("computer", "turtle"))),
        "labels": draw(some(("farm*", "reactor"))),
        "roles": draw(some(("kid", "admin"))),
        "risks": risks,
        "args": draw(some(tests)),
        "risk": None if effect == "allow" and risks is not None else draw(st.none() | RISKS),
    }


CALLS = st.builds(
    lambda tool, path, to, line: FunctionCall(
        tool=tool, args={"path": path, "to": to, "command": line, "content": line}
    ),
    st.sampled_from((*TOOLS, "rm_rf")),
    st.sampled_from(PATHS),
    st.sampled_from(PATHS),
    st.sampled_from(LINES),
)
CONTEXTS = st.builds(
    PolicyContext,
    computer=st.sampled_from((None, "3", "turtle-8")),
    family=st.sampled_from((None, "computer", "turtle")),
    label=st.sampled_from((None, "farm 1", "Reactor")),
    program=st.sampled_from(PROGRAMS),
    roles=st.sampled_from((None, (), ("kid",))),
    plan=st.booleans(),
    stated_risk=st.none() | RISKS,
)


def made(drawn: list[dict[str, Any]], **rest: Any) -> Policy:
    return Policy(
        rules=tuple(PolicyRule.model_validate({"id": f"r{number}", **one}) for number, one in enumerate(drawn)), **rest
    )


@given(st.lists(rules(), max_size=4), rules(("ask", "deny")), CALLS, CONTEXTS)
def test_p3_one_more_rule_that_asks_or_denies_never_loosens(
    drawn: list[dict[str, Any]], more: dict[str, Any], call: FunctionCall, context: PolicyContext
) -> None:
    """Neither the effect nor the risk; but what nobody covered and asked was no rule's, and may be asked by one."""
    before = evaluate(call, policy=made(drawn), context=context)
    after = evaluate(call, policy=made([*drawn, more]), context=context)
    if before.matched_rules or more["effect"] == "deny":
        assert strictness(after.effect) >= strictness(before.effect)
    assert after.effect is not Effect.ALLOW or before.effect is Effect.ALLOW
    assert severity(after.risk) >= severity(before.risk)


@given(st.lists(rules(), min_size=2, max_size=4), st.randoms(use_true_random=False), CALLS, CONTEXTS)
def test_p3_the_order_of_rules_never_matters(
    drawn: list[dict[str, Any]], dice: Any, call: FunctionCall, context: PolicyContext
) -> None:
    """Effect, risk and the set of matched rules are the same in every order."""
    ordered = made(drawn)
    shuffled = list(ordered.rules)
    dice.shuffle(shuffled)
    one, two = (evaluate(call, policy=which, context=context) for which in (ordered, Policy(rules=tuple(shuffled))))
    assert (one.effect, one.risk, set(one.matched_rules)) == (two.effect, two.risk, set(two.matched_rules))


def spelled(part: str) -> st.SearchStrategy[str]:
    """Another spelling of one name that the computer reads as the same."""
    dropped = st.sampled_from(["", "\x01", ":", "<", "|", "*", "?"])
    blanks = st.sampled_from(["", " ", "\t "])
    return st.tuples(blanks, st.lists(dropped, min_size=len(part), max_size=len(part)), blanks).map(
        lambda found: found[0] + "".join(a + b for a, b in zip(part, found[1], strict=True)) + found[2]
    )


@st.composite
def spellings(draw: st.DrawFn, path: str) -> str:
    """Another spelling of a path."""
    out = draw(st.sampled_from(["", "/", "\\", "./", "a/../", "//", ".../"]))
    for part in path.split("/"):
        out += draw(spelled(part)) + draw(st.sampled_from(["/", "\\", "//", "/./", "/x/../", "/..../"]))
    return out


@given(st.lists(rules(), max_size=4), st.data(), st.sampled_from(["rom/x", "farm/x", "startup.lua", "disk/a"]))
def test_p5_every_spelling_of_a_path_gets_the_same_verdict(
    drawn: list[dict[str, Any]], data: st.DataObject, path: str
) -> None:
    """Whatever the model writes, the file that it reaches is judged."""
    rules_of = made(drawn)
    for tool in ("cc_read", "cc_write", "cc_delete", "cc_run_program"):
        plain = evaluate(FunctionCall(tool=tool, args={"path": path}), policy=rules_of)
        other = data.draw(spellings(path))
        assert evaluate(FunctionCall(tool=tool, args={"path": other}), policy=rules_of) == plain, other


@given(st.lists(rules(), max_size=4), CALLS, CONTEXTS, RISKS)
def test_p13_a_stated_risk_never_lowers(
    drawn: list[dict[str, Any]], call: FunctionCall, context: PolicyContext, risk: RiskLevel
) -> None:
    """Neither the risk nor the effect gets better by anything that the model says of it."""
    silent = evaluate(call, policy=made(drawn), context=context.model_copy(update={"stated_risk": None}))
    stated = evaluate(call, policy=made(drawn), context=context.model_copy(update={"stated_risk": risk}))
    assert severity(stated.risk) >= severity(silent.risk)
    if silent.matched_rules:
        assert stated.effect is not Effect.ALLOW or silent.effect is Effect.ALLOW


@given(st.lists(rules(), max_size=4), CALLS, CONTEXTS)
def test_p19_explain_agrees_with_evaluate(
    drawn: list[dict[str, Any]], call: FunctionCall, context: PolicyContext
) -> None:
    """The same verdict, and its matched rules are those that are reported so; what may apply only asks."""
    told = explain(call, policy=made(drawn), context=context)
    assert told.decision == evaluate(call, policy=made(drawn), context=context)
    matched = {one.id for one in told.rules if one.outcome == "matched"}
    possible = {one.id for one in told.rules if one.outcome == "possible"}
    assert matched <= set(told.decision.matched_rules) <= matched | possible
    assert all((one.outcome == "matched") == (one.missed == "") for one in told.rules)


@given(st.lists(rules(), max_size=4), CALLS, CONTEXTS)
def test_p17_check_for_intervention_equals_ask(
    drawn: list[dict[str, Any]], call: FunctionCall, context: PolicyContext
) -> None:
    """For every call and every policy."""
    asks = evaluate(call, policy=made(drawn), context=context).effect is Effect.ASK
    assert check_for_intervention(call, policy=made(drawn), context=context) is asks


@given(st.lists(rules(), max_size=4), CALLS, CONTEXTS)
def test_p11_the_same_question_has_the_same_answer(
    drawn: list[dict[str, Any]], call: FunctionCall, context: PolicyContext
) -> None:
    """Nothing that was asked before changes an answer."""
    rules_of = made(drawn)
    first = evaluate(call, policy=rules_of, context=context)
    evaluate(FunctionCall(tool="cc_write", args={"path": "other"}), policy=rules_of)
    assert (
        evaluate(call, policy=rules_of, context=context) == first == evaluate(call, policy=made(drawn), context=context)
    )
