"""Grants: what they cover and what they never do, and how a decision gives them."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from orchestrator.core.approval.decision import grant_covers, granted, released
from orchestrator.core.approval.grants import (
    MAX_SESSION_S,
    SESSION_S,
    Grant,
    GrantSpec,
    GrantState,
    covers,
    first_covering,
    fixed_args,
    own_paths,
)
from orchestrator.core.errors import InvalidDecision
from orchestrator.core.policy import Effect, PolicyDecision, RiskLevel
from orchestrator.core.task import facts
from orchestrator.core.task.facts import ToolCall
from orchestrator.core.task.system_facts import GrantId
from tests.core.journal import NOW, verdict
from tests.core.persons import bound, real, shown

FOUND = {"bin/tool": "0" * 64}
WRITE = real("c1", path="farm/a", content="x")
MOVE = real("c1", "cc_move", path="a", to="b")
RUN = real("c1", "cc_run_program", path="dig", args=["1"])
SHELL = real("c1", "cc_shell", command='dig 1; echo "x"')


def given_by_alice(call: ToolCall, found: dict[str, str] | None = None, **spec: Any) -> Grant:
    """The grant that alice gives with her decision on the call."""
    story = shown(call, found=found)
    decision = facts.Decision(call_id=call.call_id, action="approve", action_digest="d")
    return granted(
        story.task,
        decision,
        GrantSpec.model_validate({"scope": "task", **spec}),
        by="alice",
        now=NOW,
        new_id=lambda: GrantId("g1"),
    )


def stands_for(
    grant: Grant, call: ToolCall, found: dict[str, str] | None = None, judged: PolicyDecision | None = None
) -> bool:
    """Whether the grant covers a call that was found and judged so."""
    return covers(
        grant,
        tool=call.tool,
        computer=call.computer,
        args=call.args,
        call_digest=call.call_digest,
        state=bound(call, found).observed.state,
        identity=bound(call, found).observed.identity,
        verdict=judged or verdict(),
    )


# -- never wider than the call ------------------------------------------------------------


@pytest.mark.parametrize("scope", ["call", "task", "session"])
@pytest.mark.parametrize("call", [WRITE, MOVE, RUN, SHELL], ids=lambda call: call.tool)
def test_G1_a_grant_covers_the_call_that_it_came_from(call: ToolCall, scope: str) -> None:
    """Of whatever scope it is."""
    assert stands_for(given_by_alice(call, scope=scope), call)


@pytest.mark.parametrize(
    ("call", "other"),
    [
        (WRITE, real("c2", path="farm/b", content="x")),
        (WRITE, real("c2", path="farm/A", content="x")),
        (WRITE, real("c2", path="farm", content="x")),
        (WRITE, real("c2", path="farm/a/b", content="x")),
        (WRITE, real("c2", path="farm/a", content="y")),
        (WRITE, real("c2", path="farm/a", content="x", computer="4")),
        (WRITE, real("c2", "cc_edit", path="farm/a", old="x", new="y")),
        (real("c1", "cc_edit", path="a", old="x", new="y"), real("c2", "cc_edit", path="a", old="y", new="x")),
        (MOVE, real("c2", "cc_move", path="b", to="a")),
        (MOVE, real("c2", "cc_move", path="a", to="a")),
        (MOVE, real("c2", "cc_move", path="b", to="b")),
        (MOVE, real("c2", "cc_move", path="a", to="c")),
        (RUN, real("c2", "cc_run_program", path="dig", args=["2"])),
        (RUN, real("c2", "cc_run_program", path="dig")),
        (RUN, real("c2", "cc_run_program", path="dog", args=["1"])),
        (SHELL, real("c2", "cc_shell", command="dig 1")),
        (SHELL, real("c2", "cc_shell", command='dig 1; echo  "x"')),
        (real("c1", "cc_find", pattern="*"), real("c2", "cc_find", pattern="*", contains="x")),
        (real("c1", "cc_read", path="a", start_line=1), real("c2", "cc_read", path="a")),
        (real("c1", "local_write", computer=None, path="a", content="x"), real("c2", path="a", content="x")),
    ],
)
@pytest.mark.parametrize("scope", ["call", "task", "session"])
def test_G2_a_grant_that_nobody_widened_is_no_wider_than_its_call(call: ToolCall, other: ToolCall, scope: str) -> None:
    """Another path, text, computer, tool, direction, argument or line is another call (G3: lines are exact)."""
    assert not stands_for(given_by_alice(call, scope=scope), other)


PATHS = st.sampled_from(["a", "b", "a/b", "A"])
TEXTS = st.sampled_from(["", "x", "y"])
CALLS = st.one_of(
    st.builds(
        lambda path, text, on: real("c1", path=path, content=text, computer=on), PATHS, TEXTS, st.sampled_from("34")
    ),
    st.builds(lambda path, to: real("c1", "cc_move", path=path, to=to), PATHS, PATHS),
    st.builds(lambda path, arg: real("c1", "cc_run_program", path=path, args=[arg]), PATHS, TEXTS),
    st.builds(lambda line: real("c1", "cc_shell", command=line), TEXTS),
    st.builds(lambda path: real("c1", "cc_delete", path=path), PATHS),
)


@given(call=CALLS, other=CALLS, scope=st.sampled_from(["call", "task", "session"]))
def test_G2_what_a_grant_covers_unwidened_is_the_same_call(call: ToolCall, other: ToolCall, scope: str) -> None:
    """Of any two calls: covered exactly if they are the same."""
    assert stands_for(given_by_alice(call, FOUND, scope=scope), other, FOUND) is (call.call_digest == other.call_digest)


def test_G2_spellings_of_one_path_are_one_path() -> None:
    """As rules of the policy and digests see it."""
    other = real("c2", path="/farm//a", content="x")
    assert stands_for(given_by_alice(WRITE), other)
    assert stands_for(given_by_alice(WRITE, scope="call"), other)


def test_G2_the_proposed_pattern_is_the_paths_of_the_call() -> None:
    """Canonical and without a star, so that what is shown is what is granted; a line and a question have none."""
    assert own_paths("cc_move", {"path": "/a//b/", "to": "c*"}) == ("a/b", "c")
    assert own_paths("cc_shell", {"command": "dig"}) == ()
    assert given_by_alice(WRITE).paths == ("farm/a",)
    assert given_by_alice(SHELL).args == SHELL.args


# -- widened before their eyes ------------------------------------------------------------


def test_G2_a_person_may_widen_the_paths() -> None:
    """Each path of a call then has to match a glob; letters count as they are."""
    grant = given_by_alice(WRITE, paths=["farm/**", "barn/?"])
    for path, fits in (("farm/a", True), ("farm/b/c", True), ("barn/1", True), ("barn/12", False), ("Farm/a", False)):
        assert stands_for(grant, real("c2", path=path, content="x")) is fits
    assert not stands_for(grant, real("c2", path="farm/b", content="y"))


def test_G2_a_move_between_widened_places() -> None:
    """Two globs: from the one to the other; one: both ends in it."""
    there = given_by_alice(real("c1", "cc_move", path="in/x", to="out/x"), paths=["in/*", "out/*"])
    inside = there.model_copy(update={"paths": ("in/*",)})
    anywhere = there.model_copy(update={"paths": ("in/*", "out/*", "x")})
    for path, to, fits in (
        ("in/a", "out/a", (True, False, True)),
        ("out/a", "in/a", (False, False, True)),
        ("in/a", "in/b", (False, True, True)),
        ("in/a", "b", (False, False, False)),
    ):
        move = real("c2", "cc_move", path=path, to=to)
        assert tuple(stands_for(grant, move) for grant in (there, inside, anywhere)) == fits


@pytest.mark.parametrize("paths", [["startup.lua"], ["zzz"], ["["], ["a/*", "b"]])
def test_G3_paths_that_do_not_cover_the_call_are_refused(paths: list[str]) -> None:
    """They would stand for nothing that the person saw."""
    with pytest.raises(InvalidDecision, match="does not cover"):
        given_by_alice(MOVE, paths=paths)


@pytest.mark.parametrize(
    ("call", "loose"),
    [
        (WRITE, {"content"}),
        (real("c1", "cc_edit", path="a", old="x", new="y"), {"old", "new"}),
        (real("c1", "local_write", computer=None, path="a", content="x"), {"content"}),
        (real("c1", "local_patch", computer=None, path="a", patch="x"), {"patch"}),
        (RUN, set()),
        (SHELL, set()),
    ],
)
def test_G3_only_the_text_of_a_change_may_be_left_open(call: ToolCall, loose: set[str]) -> None:
    """A command line and the arguments of a program stay exact whatever a person says."""
    tight = fixed_args(call.tool, call.args, any_content=False)
    assert set(tight) - set(fixed_args(call.tool, call.args, any_content=True)) == loose
    grant = given_by_alice(call, any_content=True)
    assert stands_for(grant, call)
    for name in loose:
        assert stands_for(grant, call.model_copy(update={"args": {**call.args, name: "another"}}))
    if call is SHELL:
        assert not stands_for(grant, real("c2", "cc_shell", command="rm *"))


@pytest.mark.parametrize("glob", ["farm/", "./farm", "a//b", "../x", "farm\\b", "a/../b"])
def test_G2_a_glob_that_can_match_nothing_is_refused(glob: str) -> None:
    """With the glob in the refusal, so that nobody relies on it."""
    with pytest.raises(ValidationError, match="no canonical path can match"):
        GrantSpec(scope="task", paths=("farm/**", glob))


@pytest.mark.parametrize(
    "spec",
    [
        {"scope": "forever"},
        {"scope": "task", "paths": []},
        {"scope": "task", "expires_s": 0},
        {"scope": "task", "expires_s": MAX_SESSION_S + 1},
        {"scope": "task", "expires_s": float("inf")},
        {"scope": "task", "max_uses": 0},
        {"scope": "task", "computer": "4"},
        {},
    ],
)
def test_G1_a_grant_has_a_scope_and_an_end(spec: dict[str, Any]) -> None:
    """There is none for ever, of no use, or for another computer."""
    with pytest.raises(ValidationError):
        GrantSpec.model_validate(spec)


def test_a_call_without_a_path_has_none_to_widen() -> None:
    """Refused, for what would it mean."""
    with pytest.raises(InvalidDecision, match="cc_shell has no path to widen"):
        given_by_alice(SHELL, paths=["**"])


# -- what stands above it -----------------------------------------------------------------


@pytest.mark.parametrize("scope", ["call", "task", "session"])
def test_G5_denials_and_critical_risk_ignore_grants(scope: str) -> None:
    """A grant stands in for a person where the policy asks, and nowhere else."""
    grant = given_by_alice(WRITE, scope=scope)
    for effect in Effect:
        for risk in RiskLevel:
            wanted = effect is Effect.ASK and risk in (RiskLevel.LOW, RiskLevel.MEDIUM)
            assert stands_for(grant, WRITE, judged=verdict(effect.value, risk)) is wanted


def test_G5_a_grant_covers_no_path_that_another_rule_guards() -> None:
    """Where a rule that names paths matches, it has to have matched the call that the grant came from."""
    guarded = verdict().model_copy(update={"guards": ("a" * 64, "b" * 64)})
    grant = given_by_alice(WRITE, paths=["**"]).model_copy(update={"guards": ("a" * 64,)})
    assert not stands_for(grant, WRITE, judged=guarded)
    assert stands_for(grant, WRITE, judged=guarded.model_copy(update={"guards": ("a" * 64,)}))
    assert stands_for(grant.model_copy(update={"guards": guarded.guards}), WRITE, judged=guarded)


@pytest.mark.parametrize(("tool", "least"), [("cc_write", RiskLevel.MEDIUM), ("cc_gone", RiskLevel.LOW)])
def test_G5_a_grant_of_an_earlier_release_covers_the_least_risk_of_its_tool(tool: str, least: RiskLevel) -> None:
    """It does not say at which risk it was given; what it released then was in order."""
    old = given_by_alice(WRITE).model_copy(update={"risk": None, "tool": tool})
    assert old.bounded.risk is least
    assert old.bounded.bounded is not old
    kept = given_by_alice(WRITE).model_copy(update={"risk": None})
    assert stands_for(kept, WRITE, judged=verdict(risk=RiskLevel.HIGH)), "a use in an old journal"
    call: dict[str, Any] = {"tool": WRITE.tool, "computer": WRITE.computer, "args": WRITE.args}
    call |= {"call_digest": WRITE.call_digest, "state": {}, "identity": "here"}
    states = [GrantState(grant=kept)]
    assert first_covering(states, NOW, **call, verdict=verdict()) is not None
    assert first_covering(states, NOW, **call, verdict=verdict(risk=RiskLevel.HIGH)) is None


@pytest.mark.parametrize("scope", ["call", "task", "session"])
@pytest.mark.parametrize("call", [RUN, SHELL], ids=lambda call: call.tool)
def test_G7_a_grant_for_a_program_is_void_when_its_file_changes(call: ToolCall, scope: str) -> None:
    """Another text, another place, gone, or not looked at."""
    grant = given_by_alice(call, FOUND, scope=scope)
    assert grant.files == FOUND
    assert stands_for(grant, call, FOUND)
    for other in ({"bin/tool": "1" * 64}, {"bin/toll": "0" * 64}, {"bin/tool": "absent"}, {}):
        assert not stands_for(grant, call, other)


def test_G7_a_grant_for_a_file_does_not_hang_on_its_text() -> None:
    """It is the very thing that such a call changes."""
    grant = given_by_alice(WRITE, {"farm/a": "0" * 64})
    assert grant.files == {}
    assert stands_for(grant, WRITE, {"farm/a": "1" * 64})


# -- its end ------------------------------------------------------------------------------


def test_G6_a_grant_expires() -> None:
    """A session's within hours unless said; a task's with the task; at its very end it stands no more."""
    ends = {
        (scope, s): given_by_alice(WRITE, scope=scope, expires_s=s).expires_at
        for scope in ("task", "session")
        for s in (None, 60)
    }
    assert ends == {
        ("task", None): None,
        ("task", 60): NOW + timedelta(seconds=60),
        ("session", None): NOW + timedelta(seconds=SESSION_S),
        ("session", 60): NOW + timedelta(seconds=60),
    }
    state = GrantState(grant=given_by_alice(WRITE, expires_s=60))
    assert state.usable(NOW + timedelta(seconds=59))
    assert not state.usable(NOW + timedelta(seconds=60))
    assert GrantState(grant=given_by_alice(WRITE)).usable(NOW + timedelta(days=999))


def test_G8_a_grant_may_have_a_number_of_uses() -> None:
    """After the last it stands no more; and one that was revoked never does (G6)."""
    state = GrantState(grant=given_by_alice(WRITE, max_uses=2))
    assert [state.model_copy(update={"uses": uses}).usable(NOW) for uses in (0, 1, 2, 3)] == [True, True, False, False]
    assert not state.model_copy(update={"revoked": True}).usable(NOW)
    assert GrantState(grant=given_by_alice(WRITE), uses=10**6).usable(NOW)


def test_the_first_grant_that_stands_and_covers_is_taken() -> None:
    """Those that are over or of something else are passed by; None means that a person decides."""
    stands, spent, other = given_by_alice(WRITE), given_by_alice(WRITE, max_uses=1), given_by_alice(SHELL)
    call: dict[str, Any] = {
        "tool": WRITE.tool,
        "computer": WRITE.computer,
        "args": WRITE.args,
        "call_digest": WRITE.call_digest,
        "state": {},
        "identity": "here",
        "verdict": verdict(),
    }
    states = [GrantState(grant=other), GrantState(grant=spent, uses=1), GrantState(grant=stands)]
    assert first_covering(states, NOW, **call) == stands
    assert first_covering(states[:2], NOW, **call) is None
    assert first_covering([], NOW, **call) is None


def test_B6_a_grant_is_for_the_computer_that_was_seen() -> None:
    """Another computer under the same name is not covered, however alike the call."""
    call: dict[str, Any] = {
        "tool": WRITE.tool,
        "computer": WRITE.computer,
        "args": WRITE.args,
        "call_digest": WRITE.call_digest,
        "state": {},
        "verdict": verdict(),
    }
    grant = given_by_alice(WRITE)
    assert covers(grant, **call, identity="here")
    assert not covers(grant, **call, identity="there")


def test_this_very_call_has_no_pattern_to_widen() -> None:
    """What would be ignored silently is refused."""
    for wider in ({"paths": ("**",)}, {"any_content": True}):
        with pytest.raises(ValidationError, match="no pattern to widen"):
            GrantSpec.model_validate({"scope": "call", **wider})


# -- given with a decision ----------------------------------------------------------------


def test_G1_a_grant_says_where_it_comes_from() -> None:
    """Whose tasks it covers, who gave it, on which call, when."""
    grant = given_by_alice(WRITE, scope="session", paths=["farm/*"], any_content=True, max_uses=3)
    assert grant == Grant(
        grant_id=GrantId("g1"),
        scope="session",
        task_id="t1",
        session_id="s1",
        user_id="alice",
        granted_by="alice",
        tool="cc_write",
        computer=WRITE.computer,
        identity="here",
        call_digest=WRITE.call_digest,
        paths=("farm/*",),
        any_content=True,
        created_at=NOW,
        expires_at=NOW + timedelta(seconds=SESSION_S),
        max_uses=3,
        risk=RiskLevel.MEDIUM,
    )


def test_G2_a_grant_with_an_edit_is_of_what_was_edited() -> None:
    """What runs is what is remembered; what nobody saw yet is not."""
    story = shown(WRITE)
    edited: dict[str, Any] = {"path": "farm/a", "content": "y"}
    decision = facts.Decision(
        call_id=WRITE.call_id,
        action="edit",
        action_digest="d",
        args=edited,
        call_digest="e" * 64,
        evaluation=verdict(),
        runs_digest="f" * 64,
    )

    def give(decision: facts.Decision) -> Grant:
        spec = GrantSpec(scope="task")
        return granted(story.task, decision, spec, by="bob", now=NOW, new_id=lambda: GrantId("g1"))

    grant = give(decision)
    assert (grant.call_digest, grant.args, grant.granted_by) == ("e" * 64, {"content": "y"}, "bob")
    assert stands_for(grant, real("c2", **edited))
    assert not stands_for(grant, WRITE)
    with pytest.raises(InvalidDecision, match="not shown yet"):
        give(decision.model_copy(update={"runs_digest": ""}))
    critical = decision.model_copy(update={"evaluation": verdict(risk=RiskLevel.CRITICAL)})
    with pytest.raises(InvalidDecision, match="critical"):
        give(critical)


def test_G4_only_what_waits_and_matches_is_released() -> None:
    """A denied or allowed sibling, one decided in the same breath and one of other arguments are not."""
    same: dict[str, Any] = {"path": "farm/a", "content": "x"}
    calls = [
        real("c1", **same),
        real("c2", index=1, **same),
        real("c3", index=2, path="farm/b", content="x"),
        real("c4", index=3, **same),
        real("c5", index=4, **same),
    ]
    story = shown(*calls, effects=("ask", "ask", "ask", "allow", "ask"))
    one, five = (facts.Decision(call_id=calls[n].call_id, action="reject", action_digest="d") for n in (0, 4))
    grant = given_by_alice(WRITE)
    (free,) = released(story.task, [one, five], [grant])
    assert (free.call_id, free.action, free.grant_id) == ("c2", "approve", "g1")
    assert free.action_digest == story.record("c2").action_digest
    assert released(story.task, [one, five], []) == ()
    assert not grant_covers(grant, story.record("c4"))
