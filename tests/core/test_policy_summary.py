"""What the model is told of the policy: tools by what becomes of them, true of every call, short, always the same."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.policy import (
    BUILT_IN_CATALOG,
    Effect,
    FunctionCall,
    Policy,
    PolicyContext,
    default_policy,
    evaluate,
)
from orchestrator.core.policy.explanation import MAX_SUMMARY_CHARS, summary
from orchestrator.core.reply.response import TOOL_ARGS
from tests.core.policies import policy, rule

VERBS = {"run at once": Effect.ALLOW, "wait for a person": Effect.ASK, "are denied": Effect.DENY}


def told(text: str) -> dict[str, set[Effect]]:
    """Each tool and the effects that a summary speaks of."""
    lines = [line.removeprefix("- ").split(": ") for line in text.splitlines()[1:] if ": " in line]
    return {
        name: {effect for verb, effect in VERBS.items() if verb in words}
        for names, words in lines
        if words != "whatever changes something is denied."
        for name in names.split(", ")
    }


def test_l6_the_shipped_policy_in_a_few_lines() -> None:
    """Every tool of the task once, in plain words; no name of a rule, no path and no reason."""
    head, *lines = summary(default_policy(), computers=("3",)).split("\n")
    assert head == "The policy says of your calls now:"
    names, words = zip(*(line.removeprefix("- ").split(": ") for line in lines), strict=True)
    assert words == (
        "run at once",
        "run at once or wait for a person or are denied, which depends on the call",
        "run at once or are denied, which depends on the call",
        "wait for a person",
        "wait for a person or are denied, which depends on the call",
    )
    assert [one.split(", ")[0] for one in names] == [
        "send_status",
        "cc_peripheral_call",
        "cc_read",
        "local_write",
        "cc_write",
    ]
    assert sorted(", ".join(names).split(", ")) == sorted(TOOL_ARGS)


def test_l6_only_the_tools_of_the_task() -> None:
    """Without a computer there are no tools that need one."""
    assert set(told(summary(default_policy()))) == {
        "send_status",
        "ask_user",
        "local_read",
        "local_write",
        "local_patch",
    }


@pytest.mark.parametrize("by_policy", [False, True])
def test_p18_read_only_is_said(by_policy: bool) -> None:
    """Plan mode, of the task or of the policy: what changes something is denied, and that is why."""
    chosen = policy(rule("allow", tools=("*",)), mode="plan" if by_policy else "normal")
    text = summary(chosen, computers=("3",), plan=not by_policy)
    assert "read-only" in text
    for name, effects in told(text).items():
        assert effects == {Effect.DENY if BUILT_IN_CATALOG[name].governance.mutates else Effect.ALLOW}
    assert "read-only" not in summary(chosen.model_copy(update={"mode": "normal"}))


def test_plugins_are_said_to_be_stricter() -> None:
    chosen = policy(rule("allow", tools=("*",)), custom=("night",))
    assert summary(chosen).endswith("\n- Plugins may be stricter.")
    assert "night" not in summary(chosen)


def test_what_becomes_of_the_changes_is_said_where_they_do_not_stay() -> None:
    chosen = policy(rule("allow", tools=("*",)), undo="auto")
    assert summary(chosen).endswith("\n- If the task fails or is canceled, its changes of files are taken back.")
    assert "taken back" not in summary(chosen.model_copy(update={"undo": "offer"}))


@pytest.mark.parametrize(
    ("more", "effects"),
    [
        ({}, {Effect.DENY}),
        ({"paths": ("a",)}, {Effect.ASK, Effect.DENY}),
        ({"computers": ("3", "4")}, {Effect.DENY}),
        ({"computers": ("4",)}, {Effect.ASK}),
        ({"computers": ("farm",)}, {Effect.ASK, Effect.DENY}),
        ({"roles": ("builder",)}, {Effect.DENY}),
        ({"roles": ("admin",)}, {Effect.ASK}),
        ({"risks": ("medium",)}, {Effect.DENY}),
        ({"risks": ("low",)}, {Effect.ASK}),
        ({"families": ("turtle",)}, {Effect.ASK, Effect.DENY}),
        ({"roles": ("admin",), "paths": ("a",)}, {Effect.ASK}),
    ],
)
def test_what_the_task_decides_is_decided(more: dict[str, Any], effects: set[Effect]) -> None:
    """Computers, roles and risks are known, so a rule on them is told as it is; all else depends on the call."""
    chosen = policy(rule("ask"), rule("deny", **more))
    computers = ("3", "farm") if more.get("computers") == ("farm",) else ("3",)
    assert told(summary(chosen, computers=computers, roles=("builder",)))["cc_write"] == effects


def test_silence_denies_or_asks() -> None:
    """A tool that no rule names is denied, or asks if it changes something; a rule on some calls leaves the rest."""
    said = told(summary(policy(rule("allow", tools=("cc_edit", "cc_read"), paths=("a",))), computers=("3",)))
    assert (said["cc_find"], said["cc_write"]) == ({Effect.DENY}, {Effect.ASK})
    assert (said["cc_edit"], said["cc_read"]) == ({Effect.ALLOW, Effect.ASK}, {Effect.ALLOW, Effect.DENY})


def test_a_rule_that_is_no_stricter_changes_nothing() -> None:
    said = told(summary(policy(rule("deny"), rule("allow", paths=("a",)), rule("ask", paths=("b",))), computers=("3",)))
    assert said["cc_write"] == {Effect.DENY}


PREDICATES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "paths": st.sampled_from([("a",), ("**",), ("b/**", "a")]),
        "computers": st.sampled_from([("3",), ("4",), ("*",)]),
        "families": st.sampled_from([("turtle",), ("command", "computer")]),
        "roles": st.sampled_from([("builder",), ("admin",)]),
        "risks": st.sampled_from([("low",), ("medium", "high")]),
        "labels": st.just(("farm*",)),
    },
)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Up to five rules on any tools."""
    tools = st.lists(st.sampled_from(sorted(BUILT_IN_CATALOG)), min_size=1, max_size=6, unique=True).map(tuple)
    made = [
        rule(draw(st.sampled_from(["allow", "ask", "deny"])), f"r{number}", tools=draw(tools | st.just(("*",))), **more)
        for number, more in enumerate(draw(st.lists(PREDICATES, max_size=5)))
    ]
    return policy(*made)


@given(
    policies(),
    st.sampled_from(["cc_read", "cc_write", "cc_delete", "local_write", "cc_find"]),
    st.sampled_from(["a", "b/c", "z"]),
    st.sampled_from(["computer", "turtle", None]),
    st.booleans(),
)
def test_l6_what_is_told_is_true_and_short(
    chosen: Policy, tool: str, path: str, family: str | None, plan: bool
) -> None:
    """Whatever becomes of a call was said of its tool; every tool stands once; the words have their bound."""
    text = summary(chosen, computers=("3",), roles=("builder",), plan=plan)
    place = "3" if tool.startswith("cc_") else None
    context = PolicyContext(computer=place, family=family if place else None, roles=("builder",), plan=plan)
    call = FunctionCall(tool=tool, args={"path": path})
    said = told(text)
    assert evaluate(call, policy=chosen, context=context).effect in said[tool]
    assert set(said) == set(TOOL_ARGS)
    assert len(text) <= MAX_SUMMARY_CHARS
    assert text == summary(chosen, computers=("3",), roles=("builder",), plan=plan)


def test_it_is_made_once_for_tasks_that_are_alike() -> None:
    """Of so many kinds of tasks, for a server may have any number of computers; each kind has its own."""
    chosen = policy(rule(effect="deny", tools=("cc_write",), computers=("east-*",)))
    first = summary(chosen, computers=("east-1",))
    assert summary(chosen, computers=("east-1",)) is first
    others = [summary(chosen, computers=(f"{side}-{number}",)) for number in range(2, 200) for side in ("east", "west")]
    assert set(others) == {first, summary(chosen, computers=("west-1",))}
    late = [summary(chosen, computers=("east-9999",)) for _ in range(2)]
    assert late[0] == late[1] == first
    assert late[0] is not late[1]
