"""Each predicate of a rule: what it matches, what it misses, and what it says of what is not known."""

from typing import Any

import pytest

from orchestrator.core.policy import MAX_FORMER_LABELS, Effect, FunctionCall, PolicyContext, RiskLevel, evaluate
from orchestrator.core.policy.match import MAX_TEXT_CHARS
from tests.core.policies import effect_of, hits, policy, rule, run, shell, write

LOOSE = ("deny", "ask")


def test_p4_labels_are_globs_on_the_label() -> None:
    """To ask or deny in any letter case and over any text, to allow as it is written."""
    for effect in LOOSE:
        assert hits(rule(effect, labels=("Reactor*",)), write(), label="reactor/main\n2")
        assert hits(rule(effect, labels=("farm ?",)), write(), label="FARM 1")
        assert not hits(rule(effect, labels=("reactor*",)), write(), label="the reactor")
        assert not hits(rule(effect, labels=("*",)), write())
    assert hits(rule("allow", labels=("farm*",)), write(), label="farm 1")
    assert not hits(rule("allow", labels=("farm*",)), write(), label="Farm 1")
    assert not hits(rule("allow", labels=("farm*",)), write(), label="farm/../reactor")
    assert hits(rule("allow", labels=("farm**",)), write(), label="farm/1")
    assert not hits(rule("allow", labels=("*",)), write())
    assert not hits(rule("allow", labels=("farm?",)), write(), label="farm/")


def test_p4_labels_that_a_computer_had_count_as_well() -> None:
    """To ask or deny one of them is enough, to allow all have to match: renaming gains nothing."""
    for effect in LOOSE:
        one = rule(effect, labels=("reactor*",))
        assert hits(one, write(), label="farm", former_labels=("", "Reactor 1"))
        assert hits(one, write(), label=None, former_labels=("Reactor 1",))
        assert not hits(one, write(), label="farm", former_labels=("", "house"))
    allowing = rule("allow", labels=("farm*",))
    assert hits(allowing, write(), label="farm 1", former_labels=("farm 2",))
    for former in (("",), ("reactor",)):
        assert not hits(allowing, write(), label="farm 1", former_labels=former)


def test_p4_labels_are_compared_as_a_reader_sees_them() -> None:
    """What prints as nothing, and blanks at the ends, escape no rule that asks or denies; to allow they count."""
    for label in ("\x00reactor", " reactor 1", "rea\x07ctor", "re\xadactor", "reac\u200btor", "\xa0reactor"):
        for effect in LOOSE:
            assert hits(rule(effect, labels=("reactor*",)), write(), label=label)
            assert hits(rule(effect, labels=("reactor*",)), write(), label="farm", former_labels=(label,))
        assert not hits(rule("allow", labels=("reactor*",)), write(), label=label)
    assert hits(rule("deny", labels=("?reactor",)), write(), label="\x00reactor")
    assert not hits(rule("deny", labels=("*",)), write(), label="")


def test_p4_a_computer_with_more_labels_than_are_kept_may_be_any() -> None:
    """Then each rule by label that asks or denies matches, none that allows does, and the verdict says why."""
    many = tuple(f"farm {n}" for n in range(MAX_FORMER_LABELS))
    loose = [policy(rule("allow", "all"), rule(effect, "by-label", labels=("reactor*",))) for effect in LOOSE]
    tried = [(one, Effect(effect), Effect.ALLOW) for one, effect in zip(loose, LOOSE, strict=True)]
    tried += [(policy(rule("allow", labels=("farm*",))), Effect.ASK, Effect.ALLOW)]
    for tried_policy, full, fewer in tried:
        for former, effect in ((many, full), (many[1:], fewer)):
            context = PolicyContext(computer="3", family="turtle", label="farm", former_labels=former)
            verdict = evaluate(write(), policy=tried_policy, context=context)
            assert verdict.effect is effect
            assert ("confirm-label" in verdict.reason) is (former == many)
    context = PolicyContext(computer="3", family="turtle", label="farm", former_labels=many)
    assert "label" not in evaluate(write(), policy=policy(rule("allow", "all")), context=context).reason


def test_p4_computers_are_globs_on_the_name() -> None:
    """As labels are."""
    assert hits(rule("deny", computers=("turtle*",)), write(), computer="Turtle/8")
    assert not hits(rule("deny", computers=("turtle*",)), write(), computer="my turtle")
    assert hits(rule("allow", computers=("turtle ? 8",)), write(), computer="turtle \u00b7 8")
    assert not hits(rule("allow", computers=("turtle*",)), write(), computer="Turtle")


@pytest.mark.parametrize("extra", [{"computers": ("3",)}, {"labels": ("x",)}, {"families": ("turtle",)}])
def test_what_is_not_known_of_a_computer_yet_asks(extra: dict[str, Any]) -> None:
    """A rule that denies may apply: no call is allowed past it, and none is denied for ever."""
    allow, deny = rule("allow", tools=("*",)), rule("deny", reason="Not there.", risk="critical", **extra)
    judged = evaluate(write(), policy=policy(allow, deny))
    assert (judged.effect, judged.matched_rules, judged.risk) == (Effect.ASK, ("allow", "deny"), RiskLevel.MEDIUM)
    assert judged.reason == "Rule deny may apply; it is not known yet whether it does. Not there."
    assert effect_of(write(), allow, deny, computer="4", family="computer") is Effect.ALLOW
    assert not hits(rule("allow", **extra), write(), computer=None, family=None)
    local = FunctionCall(tool="local_write", args={"path": "a", "content": ""})
    assert effect_of(local, allow, rule("deny", tools=("*",), **extra)) is Effect.ALLOW


def test_a_rule_that_may_apply_changes_nothing_where_somebody_is_asked_anyway() -> None:
    """Its id and its risk stay out, so that nothing that a person saw goes stale when more is known."""
    asks, deny = rule("ask"), rule("deny", families=("command",), risk="critical")
    assert evaluate(write(), policy=policy(asks, deny)) == evaluate(
        write(), policy=policy(asks, deny), context=PolicyContext(computer="3", family="turtle")
    )


def test_p4_roles() -> None:
    """One of the requester's roles is enough; where nobody knows them, deny and ask match and allow does not."""
    for effect in ("allow", *LOOSE):
        one = rule(effect, roles=("guest", "kid"))
        assert hits(one, write(), roles=("kid", "admin"))
        assert not hits(one, write(), roles=("admin",))
        assert not hits(one, write(), roles=("Kid",))
        assert not hits(one, write(), roles=())
        assert hits(one, write()) is (effect != "allow")


def test_p4_people_and_owners() -> None:
    """The requester, their groups, the owner of the computer: in this letter case; unknown ones as with roles."""
    for effect in ("allow", *LOOSE):
        by_user, by_group = rule(effect, users=("ann", "bob")), rule(effect, groups=("class",))
        by_owner = rule(effect, owners=("ann", "group:class"))
        assert hits(by_user, write(), user="bob")
        assert not hits(by_user, write(), user="Bob")
        assert hits(by_group, write(), groups=("class", "club"))
        assert not hits(by_group, write(), groups=())
        assert hits(by_owner, write(), owners=("group:class",))
        assert not hits(by_owner, write(), owners=("class",))
        for one in (by_user, by_group, by_owner):
            assert hits(one, write()) is (effect != "allow")


def test_p4_risks_are_those_before_the_rules() -> None:
    """What other rules raise it to does not count."""
    raised = rule("ask", risk="critical")
    assert evaluate(write(), policy=policy(raised, rule("deny", risks=("critical",)))).effect is Effect.ASK
    assert hits(rule("deny", risks=("low", "medium")), write())
    assert not hits(rule("deny", risks=("low", "high")), write())
    assert hits(rule("allow", risks=("medium",)), write())
    assert not hits(rule("allow", risks=("low", "high")), write())


def test_p4_a_raised_risk_counts_at_each_level_that_it_passed() -> None:
    """Stating another risk walks around no rule that denies, and into none that allows."""
    for raise_by in ("stated_risk", "analysed_risk"):
        assert hits(rule("deny", risks=("medium",)), write(), **{raise_by: "critical"})
        assert hits(rule("deny", risks=("high",)), write(), **{raise_by: "unknown"})
        assert not hits(rule("deny", risks=("critical",)), write(), **{raise_by: "unknown"})
        assert not hits(rule("allow", risks=("medium",)), write(), **{raise_by: "high"})
        assert not hits(rule("allow", risks=("high",)), write(), **{raise_by: "high"})
        assert hits(rule("allow", risks=("medium", "high")), write(), **{raise_by: "high"})


# -- paths ---------------------------------------------------------------------------------


def move(path: str, to: str) -> FunctionCall:
    return FunctionCall(tool="cc_move", args={"path": path, "to": to})


def delete(path: str) -> FunctionCall:
    return FunctionCall(tool="cc_delete", args={"path": path})


def test_p4_a_rule_that_allows_needs_every_path() -> None:
    """Out of the farm into the startup is not inside of the farm; for a rule that denies one end is enough."""
    allow = rule("allow", tools=("cc_move",), paths=("farm/**",))
    assert hits(allow, move("farm/a", "farm/b"))
    assert not hits(allow, move("farm/a", "startup.lua"))
    assert not hits(allow, move("startup.lua", "farm/a"))
    deny = rule("deny", tools=("cc_move",), paths=("startup.lua",))
    assert hits(deny, move("farm/a", "startup.lua"))
    assert hits(deny, move("startup.lua", "farm/a"))
    assert not hits(rule("allow", tools=("*",), paths=("**",)), shell("ls"))


@pytest.mark.parametrize(
    ("glob", "path", "effect"),
    [
        ("farm/keys.lua", "farm", "deny"),
        ("farm/keys.lua", "", "deny"),
        ("farm/*/keys", "FARM", "deny"),
        ("disk*/keys", "disk2", "ask"),
        ("**/keys", "farm", "ask"),
        ("farm/**/keys", "farm/a/b", "ask"),
        ("farm/keys.lua", "barn", "allow"),
        ("farm/keys.lua", "farm/keys.lua/x", "allow"),
        ("farm/keys.lua", "farm/other", "allow"),
    ],
)
def test_p5_who_takes_a_directory_takes_what_is_in_it(glob: str, path: str, effect: str) -> None:
    """Deleting or moving a directory is deleting or moving the file that a rule protects; a pattern asks."""
    for call in (delete(path), move(path, "zoo"), move("zoo", path)):
        rules = (rule("allow", tools=("*",)), rule("deny", tools=("*",), paths=(glob,)))
        assert effect_of(call, *rules, computer="3", family="turtle") == effect
    assert effect_of(write(path or "x"), *rules) is Effect.ALLOW


@pytest.mark.parametrize(
    "path", ["startup.lua.", "startup.lua..", "Startup.lua.../", "a./../startup.lua. ", "b/startup./x"]
)
def test_p5_dots_at_the_end_of_a_name_hide_nothing(path: str) -> None:
    """A Windows host drops them, so a rule that denies sees the name without them, too."""
    assert hits(rule("deny", paths=("startup.lua", "b/startup/*")), write(path))
    assert not hits(rule("allow", paths=("startup.lua", "b/startup/*")), write(path))


def test_p5_what_a_path_of_a_program_resolves_to_is_its_path_too() -> None:
    """With ``.lua``, and by an alias of the user's own, which may lead anywhere."""
    deny = rule("deny", tools=("cc_run_program",), paths=("secret.lua",))
    assert hits(deny, run("secret"))
    assert not hits(deny, run("secret"), program="secret")
    assert hits(deny, run("farm"), program="Secret.lua")
    assert not hits(deny, run("farm"))
    allow = rule("allow", tools=("cc_run_program",), paths=("farm", "farm.lua"))
    assert hits(allow, run("farm"))
    assert hits(allow, run("farm"), program="farm.lua")
    assert not hits(allow, run("farm"), program="rom/programs/shell.lua")
    assert hits(rule("allow", tools=("cc_run_program",), paths=("farm",)), run("farm"), program="farm.lua")


# -- arguments -----------------------------------------------------------------------------


def args_rule(effect: str, pointer: str, tool: str = "cc_write", **test: Any) -> Any:
    return rule(effect, tools=(tool,), args=({"pointer": pointer, **test},))


@pytest.mark.parametrize(
    ("pointer", "test", "match", "miss"),
    [
        ("/content", {"eq": "a"}, write(content="a"), write(content="b")),
        ("/content", {"in": ("a", "b")}, write(content="b"), write(content="c")),
        ("/content", {"regex": "a+"}, write(content="aaa"), write(content="bbb")),
        ("/path", {"eq": "farm/a"}, write("/farm//x/../a"), write("farm/b")),
        ("/path", {"regex": "farm/.*"}, write("\\farm\\a"), write("barn")),
    ],
)
def test_p4_arguments_match_and_miss(
    pointer: str, test: dict[str, Any], match: FunctionCall, miss: FunctionCall
) -> None:
    """Every test, for every effect; a path is tested as the canonical one."""
    for effect in ("allow", *LOOSE):
        assert hits(args_rule(effect, pointer, **test), match)
        assert not hits(args_rule(effect, pointer, **test), miss)


def test_p4_lengths_and_numbers() -> None:
    """To allow: at most so much; to ask or deny: more than that."""

    def lines(count: object) -> FunctionCall:
        return FunctionCall(tool="cc_read", args={"path": "a", "max_lines": count})

    for size, at_most in ((3, True), (4, False)):
        assert hits(args_rule("allow", "/content", max_length=3), write(content="x" * size)) is at_most
        assert hits(args_rule("deny", "/content", over_length=3), write(content="x" * size)) is not at_most
        assert hits(args_rule("allow", "/max_lines", "cc_read", max_number=3), lines(size)) is at_most
        assert hits(args_rule("deny", "/max_lines", "cc_read", over_number=3.0), lines(size)) is not at_most
    assert hits(args_rule("allow", "/max_lines", "cc_read", eq=3), lines(3))
    assert not hits(args_rule("allow", "/max_lines", "cc_read", eq=3), lines(True))


def test_p4_several_tests_all_have_to_hold() -> None:
    """Each entry of ``args`` narrows the rule."""
    both = rule("deny", args=({"pointer": "/content", "regex": "rm"}, {"pointer": "/path", "eq": "farm"}))
    assert hits(both, write("farm", "rm"))
    assert not hits(both, write("farm", "ls"))
    assert not hits(both, write("barn", "rm"))


def test_p6_arguments_and_letter_case() -> None:
    """Deny and ask ignore it, allow does not."""
    for test in ({"eq": "Rm"}, {"in": ("Rm",)}, {"regex": "Rm"}):
        assert hits(args_rule("deny", "/content", **test), write(content="rM"))
        assert not hits(args_rule("allow", "/content", **test), write(content="rM"))


def test_p4_a_regex_is_anywhere_to_deny_and_everything_to_allow() -> None:
    """An allowed line is the whole text; a denied one may stand in any line of it."""
    assert hits(args_rule("deny", "/content", regex="^os.shutdown"), write(content="a\nos.shutdown()"))
    assert not hits(args_rule("allow", "/content", regex="ls"), write(content="ls; rm"))
    assert not hits(args_rule("allow", "/content", regex="ls$"), write(content="ls\n"))


def test_p4_the_entries_of_a_list() -> None:
    """One is enough to ask or deny, all are needed to allow; an index names one of them."""
    for effect, one_of_two in (("deny", True), ("allow", False)):
        any_arg = args_rule(effect, "/args", "cc_run_program", eq="a")
        assert hits(any_arg, run("farm", "a", "b")) is one_of_two
        assert hits(any_arg, run("farm", "a", "a"))
        assert not hits(any_arg, run("farm"))
        second = args_rule(effect, "/args/1", "cc_run_program", eq="a")
        assert hits(second, run("farm", "b", "a"))
        assert not hits(second, run("farm", "a"))


def test_p4_an_argument_that_is_left_out_is_its_default() -> None:
    """``cc_find`` without a pattern looks everywhere, and a rule sees that; null is left out, too."""
    everywhere = args_rule("deny", "/pattern", "cc_find", eq="**")
    for args in ({}, {"pattern": None}, {"pattern": "**"}):
        assert hits(everywhere, FunctionCall(tool="cc_find", args=args))
    assert not hits(everywhere, FunctionCall(tool="cc_find", args={"pattern": "*.lua"}))


@pytest.mark.parametrize("args", [{}, {"content": None}, {"path": "x"}])
def test_p4_an_argument_that_is_not_there_does_not_apply(args: dict[str, Any]) -> None:
    """Neither a rule that denies nor one that allows matches on it."""
    for effect in ("allow", *LOOSE):
        for test in ({"eq": "a"}, {"regex": ".*"}):
            assert not hits(args_rule(effect, "/content", **test), FunctionCall(tool="cc_write", args=args))
    assert not hits(args_rule("deny", "/content/0", eq="a"), write(content="a"))


@pytest.mark.parametrize("value", [5, 5.5, True, {"a": 1}, [["a"]], float("nan"), "x" * (MAX_TEXT_CHARS + 1)])
def test_p4_a_value_that_a_test_cannot_judge_fails_closed(value: Any) -> None:
    """A rule that asks or denies matches it, a rule that allows does not."""
    call = FunctionCall(tool="cc_write", args={"path": "a", "content": value})
    for effect in LOOSE:
        assert hits(args_rule(effect, "/content", regex="abc"), call)
    assert not hits(args_rule("allow", "/content", regex="(?:.|\n)*"), call)
    if not isinstance(value, str):
        assert hits(args_rule("deny", "/content", over_length=10), call)
        assert hits(args_rule("deny", "/content", eq="a"), call)
        assert not hits(args_rule("allow", "/content", max_length=10), call)
    if value not in (5, 5.5):
        assert hits(args_rule("deny", "/content", over_number=10), call)
        assert not hits(args_rule("allow", "/content", max_number=10), call)


def test_p4_pointers_are_json_pointers() -> None:
    """``~1`` is a slash, ``~0`` a tilde; they lead through objects as well."""
    call = FunctionCall(tool="cc_write", args={"path": "a", "x/y": {"~": "deep"}})
    assert hits(args_rule("deny", "/x~1y/~0", eq="deep"), call)
    assert not hits(args_rule("deny", "/x~1y/z", eq="deep"), call)
    assert hits(args_rule("deny", "/x", "my_tool_of_cc", eq="deep"), call) is False
