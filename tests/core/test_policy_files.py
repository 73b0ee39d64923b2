"""Policy files: what is refused, with the file, the place and the reason, and what is loaded."""

import re

import pytest

from orchestrator.core.errors import PolicyInvalid
from orchestrator.core.policy import CustomPolicy, CustomVerdict, Effect, Quota, evaluate, load_policy, parse_policy
from tests.core.policies import write

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
         ["my.toml", "rule 2 (b)", "effect", "'allow', 'ask', 'hint' or 'deny'"]),
        ('[[rules]]\neffect = "deny"\ntools = ["cc_read"]', ["my.toml", "rule 1", "id", "is missing"]),
        ('[[rules]]\nid = ""\neffect = "deny"\ntools = ["cc_read"]', ["my.toml", "rule 1", "id"]),
        ('[[rules]]\nid = "b"\neffect = "deny"', ["rule 1 (b)", "tools", "is missing"]),
        ('[[rules]]\nid = "b"\neffect = "deny"\ntools = []', ["rule 1 (b)", "tools"]),
        ('[[rules]]\nid = "b"\neffect = "deny"\ntools = ["*", "cc_read"]', ["rule 1 (b)", "'*' must be alone"]),
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
        ('[[rules]]\nid = "b"\neffect = "allow"\ntools = ["cc_peripheral_call"]\nreads = true',
         ["rule 1 (b)", "reads belongs to a rule that allows and says by args"]),
        ('[[rules]]\nid = "b"\neffect = "ask"\ntools = ["cc_peripheral_call"]\nreads = true\n'
         'args = [{ pointer = "/method", eq = "list" }]', ["rule 1 (b)", "reads belongs to a rule that allows"]),
        ('[[rules]]\nid = "b"\neffect = "allow"\ntools = ["cc_write"]\nreads = true\n'
         'args = [{ pointer = "/content", eq = "x" }]', ["rule 1 (b)", "reads is only for", "cc_peripheral_call"]),
        ('[[rules]]\nid = "b"\neffect = "allow"\ntools = ["*"]\nreads = true\n'
         'args = [{ pointer = "/method", eq = "list" }]', ["rule 1 (b)", "reads is only for", "cc_peripheral_call"]),
        ('[[rules]]\nid = "b"\neffect = "allow"\ntools = ["cc_peripheral_call"]\nreads = false\n'
         'args = [{ pointer = "/method", eq = "list" }]', ["rule 1 (b)", "reads"]),
        ('[[rules]]\nid = "b"\neffect = "deny"\ntools = ["*"]\n[[rules]]\nid = "b"\neffect = "ask"\ntools = ["*"]',
         ["my.toml", "two rules", "'b'"]),
    ],
)  # fmt: skip
def test_p9_a_file_that_cannot_be_used_is_refused_whole(text: str, words: list[str]) -> None:
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


def test_a_file_says_what_becomes_of_changes() -> None:
    """What it says of them counts in its version, unless it is what every file meant before it could say so."""
    rules = 'rules = [{ id = "all", effect = "allow", tools = ["*"] }]\n'
    offers, undoes = load_policy(f'undo = "offer"\n{rules}'), load_policy(f'undo = "auto"\n{rules}')
    assert (load_policy(rules).undo, undoes.undo) == ("offer", "auto")
    assert load_policy(rules).version == offers.version != undoes.version


def test_p9_a_rule_for_a_tool_that_does_not_exist_fails_the_load() -> None:
    """A typo in a deny rule must not become a rule that never matches: file, rule and tools are named."""
    text = 'rules = [{ id = "no-deleting", effect = "deny", tools = ["cc_delte"] }]'
    with pytest.raises(PolicyInvalid, match=r"mine\.toml: rule 1 \(no-deleting\): no such tool: 'cc_delte'.*cc_delete"):
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
def test_p9_a_rule_that_can_never_match_its_tool_fails_the_load(rest: str, why: str) -> None:
    """A predicate that a tool cannot meet would look like protection and be none; `*` stands for all and is fine."""
    with pytest.raises(PolicyInvalid, match=rf"rule 1 \(r\): {why}"):
        load_policy(f'rules = [{{ id = "r", effect = "deny", {rest} }}]')
    everything = re.sub(r"tools = \[.*?\]", 'tools = ["*"]', rest)
    assert load_policy(f'rules = [{{ id = "r", effect = "deny", {everything} }}]').rules


def a_rule(rest: str, effect: str = "deny", tool: str = "cc_write") -> str:
    """A file of one rule, the second one."""
    return (
        'rules = [{ id = "a", effect = "allow", tools = ["*"] }, '
        f'{{ id = "r", effect = "{effect}", tools = ["{tool}"], {rest} }}]'
    )


def an_arg(rest: str, effect: str = "deny", tool: str = "cc_write") -> str:
    """A file with a rule of one test of an argument."""
    return a_rule(f"args = [{{ {rest} }}]", effect, tool)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        # predicates
        (a_rule("labels = []"), "rule 2 (r): labels must not be empty."),
        (a_rule('labels = "x"'), "rule 2 (r): labels must be a list."),
        (a_rule("labels = [5]"), "rule 2 (r): labels 1 must be text."),
        (a_rule("roles = []"), "rule 2 (r): roles must not be empty."),
        (a_rule("risks = []"), "rule 2 (r): risks must not be empty."),
        (a_rule('risks = ["huge"]'), "rule 2 (r): risks 1 must be 'low', 'medium', 'high', 'critical' or 'unknown'."),
        (a_rule("args = []"), "rule 2 (r): args must not be empty."),
        (a_rule('families = ["turtle", "cow"]'), "rule 2 (r): families 2 must be"),
        (a_rule("risk = 5"), "rule 2 (r): risk must be"),
        (a_rule('label = ["x"]'), "rule 2 (r): label is not known."),
        (a_rule('labels = ["x"]', tool="local_write"), "rule 2 (r): local_write touches no computer"),
        (a_rule('risks = ["low"], risk = "high"', "allow"), "rule 2 (r): a rule that allows by risks cannot raise"),
        # arguments
        (an_arg('eq = "x"'), "rule 2 (r): args 1.pointer is missing."),
        (an_arg('pointer = "content", eq = "x"'), "rule 2 (r): args 1: the pointer 'content' names no argument"),
        (an_arg('pointer = "/", eq = "x"'), "rule 2 (r): args 1: the pointer '/' names no argument"),
        (
            an_arg('pointer = "/content"'),
            "rule 2 (r): args 1: the test of /content has no test; write exactly one of eq",
        ),
        (an_arg('pointer = "/content", eq = "x", regex = "x"'), "args 1: the test of /content has eq and regex; write"),
        (
            an_arg('pointer = "/contents", eq = "x"'),
            "cc_write has no argument 'contents'; it has: computer, path, content",
        ),
        (
            an_arg('pointer = "/computer", eq = "3"'),
            "the computer is not an argument once a call is judged; use computers",
        ),
        (an_arg('pointer = "/content/0", eq = "x"'), "there is nothing at /content/0 in the arguments of cc_write"),
        (an_arg('pointer = "/args/x", eq = "x"', tool="cc_run_program"), "there is nothing at /args/x"),
        (an_arg('pointer = "/args/0/0", eq = "x"', tool="cc_run_program"), "there is nothing at /args/0/0"),
        (an_arg('pointer = "/content", eq = 5'), "/content of cc_write is never a number, so its test eq never holds"),
        (an_arg('pointer = "/content", in = ["a", true]'), "/content of cc_write is never true or false"),
        (an_arg('pointer = "/content", in = []'), "rule 2 (r): args 1.in must not be empty."),
        (an_arg('pointer = "/content", eq = [1]'), "args 1.eq: a value must be text, a number, true or false"),
        (an_arg('pointer = "/content", eq = nan'), "args 1.eq: a value must be text, a number, true or false"),
        (
            an_arg('pointer = "/content", over_number = 1'),
            "/content of cc_write is never a number, so its test over_number",
        ),
        (an_arg('pointer = "/max_lines", over_length = 1', tool="cc_read"), "/max_lines of cc_read is never a text"),
        (
            an_arg('pointer = "/max_lines", over_number = inf', tool="cc_read"),
            "args 1.over_number must be a finite number.",
        ),
        (an_arg('pointer = "/content", over_length = -1'), "args 1.over_length must be at least 0."),
        (an_arg('pointer = "/content", over_length = "5"'), "args 1.over_length must be a whole number."),
        (
            an_arg('pointer = "/content", max_length = 5'),
            "a rule that denies has no max_length; write over_length instead",
        ),
        (
            an_arg('pointer = "/content", max_number = 5', "ask"),
            "a rule that asks has no max_number; write over_number",
        ),
        (
            an_arg('pointer = "/content", over_length = 5', "allow"),
            "a rule that allows has no over_length; write max_length",
        ),
        (an_arg('pointer = "/content", regex = "(a"'), "the regex '(a' cannot be used: there is a ) missing."),
        (an_arg("pointer = '/content', regex = '(a)\\1'"), "cannot be used: \\1 cannot be used."),
        (an_arg('pointer = "/path", eq = "/farm/"'), "no canonical path is '/farm/'"),
        (an_arg('pointer = "/path", in = ["farm", "../x"]'), "no canonical path is '../x'"),
        (an_arg('pointer = "/wall", eq = "x"', tool="*"), "rule 2 (r): no tool has an argument 'wall'."),
        (an_arg('pointer = "/max_lines", eq = "x"', tool="*"), "/max_lines of cc_read is never a text"),
        # the rest of the file
        (
            'rules = [{ id = "custom:x", effect = "deny", tools = ["*"] }]',
            "rule 1 (custom:x): ids that begin with 'custom:'",
        ),
        ('mode = "lax"\nrules = []', "my.toml: mode must be 'normal' or 'plan'."),
        ('undo = "always"\nrules = []', "my.toml: undo must be 'offer' or 'auto'."),
        ('custom = [""]\nrules = []', "my.toml: custom 1 must not be empty."),
        ("requests = 5\nrules = []", "my.toml: requests must be"),
        ('requests.siblings = "none"\nrules = []', "my.toml: requests.siblings must be 'reads', 'hold' or 'run_safe'."),
        ('requests.partial = "later"\nrules = []', "my.toml: requests.partial must be"),
        ('requests.on_timeout = "approve"\nrules = []', "my.toml: requests.on_timeout must be"),
        ('requests.on_reject = "ignore"\nrules = []', "my.toml: requests.on_reject must be"),
        ("requests.max_rejections = -1\nrules = []", "my.toml: requests.max_rejections must be at least 0."),
        ("requests.max_rejections = true\nrules = []", "my.toml: requests.max_rejections must be a whole number."),
        ("requests.release_on_relax = 1\nrules = []", "my.toml: requests.release_on_relax must be true or false."),
        ("requests.expires_s = 5\nrules = []", "my.toml: requests.expires_s must be"),
        ("requests.expires_s.low = -5\nrules = []", "my.toml: requests.expires_s.low must be at least 0."),
        ("requests.expires_s.high = 1e9\nrules = []", "my.toml: requests.expires_s.high must be a whole number."),
        (
            "requests.expires_s.high = 999999999\nrules = []",
            "my.toml: requests.expires_s.high must be at most 31536000.",
        ),
        ("requests.expires_s.huge = 1\nrules = []", "my.toml: requests.expires_s.huge is not known."),
        ("requests.expiry = {}\nrules = []", "my.toml: requests.expiry is not known."),
        ("requests.approve_on_timeout = true\nrules = []", "my.toml: requests.approve_on_timeout is not known."),
        ('[[examples]]\nexpect = "ask"', "my.toml: rules is missing."),
        ('rules = []\n[roles.Tutor]\nmay = ["view"]', "my.toml: roles: a role has up to 32 of a-z, 0-9, - and _"),
        ('rules = []\n[roles.admin]\nmay = ["view"]', "my.toml: roles: every installation has the role admin"),
        ('rules = []\n[roles.tutor]\nmay = ["everything"]', "my.toml: roles.tutor.may"),
        ("rules = []\n[roles.tutor]\nmay = []", "my.toml: roles.tutor.may"),
        ('self_approval = "yes"\nrules = []', "my.toml: self_approval must be true or false."),
        ('rules = []\n[[examples]]\nexpect = "ask"', "my.toml: example 1: call is missing."),
        ('rules = []\n[[examples]]\ncall = { tool = "cc_read" }', "my.toml: example 1: expect is missing."),
        ('rules = []\n[[examples]]\ncall = {}\nexpect = "ask"', "my.toml: example 1: call.tool is missing."),
        (
            'rules = []\n[[examples]]\ncall = { tool = "x" }\nexpect = "no"',
            "example 1: expect must be 'allow', 'ask', 'hint' or 'deny'.",
        ),
        (
            'rules = []\n[[examples]]\ncall = { tool = "x", whose = "a" }\nexpect = "ask"',
            "example 1: call.whose is not known.",
        ),
        ("examples = [5]\nrules = []", "my.toml: example 1:"),
    ],
)
def test_p9_the_refusal_says_where_and_why(text: str, sentence: str) -> None:
    """File, rule by its number and id, and the reason, as one sentence of our own."""
    with pytest.raises(PolicyInvalid) as refused:
        load_policy(text, source="my.toml")
    assert refused.value.message.startswith("my.toml: ")
    assert sentence in refused.value.message
    assert refused.value.message.endswith(".")
    assert "Input should" not in refused.value.message


@pytest.mark.parametrize(
    "text",
    [
        an_arg('pointer = "/pattern", eq = "**"', tool="*"),
        an_arg('pointer = "/max_lines", in = [1, 2]', tool="cc_read"),
        an_arg('pointer = "/args/0", regex = "^-"', tool="cc_run_program"),
        an_arg('pointer = "/path", regex = "x"', tool="*"),
        a_rule('labels = ["x"], roles = ["kid"], risks = ["low"]', tool="cc_shell"),
    ],
)
def test_p9_what_can_match_is_loaded(text: str) -> None:
    """The checks refuse nothing that makes sense."""
    assert len(load_policy(text).rules) == 2


# -- examples ------------------------------------------------------------------------------


EXAMPLES = """
rules = [
    { id = "ask", effect = "ask", tools = ["cc_write", "cc_shell"] },
    { id = "kids", effect = "deny", tools = ["*"], roles = ["kid"] },
    { id = "reactor", effect = "deny", tools = ["*"], labels = ["reactor*"], reason = "Hands off." },
    { id = "list", effect = "allow", tools = ["cc_run_program"], programs = ["rom/programs/list.lua"] },
]
[[examples]]
call = { tool = "cc_write", args = { path = "a" }, computer = "3", family = "computer", label = "farm", roles = [] }
expect = "ask"
[[examples]]
call = { tool = "cc_read", args = { path = "a" } }
expect = "deny"
[[examples]]
call = { tool = "cc_run_program", args = { path = "a" }, program = "rom/programs/list.lua", roles = [], label = "x" }
expect = "allow"
[[examples]]
call = { tool = "cc_run_program", args = { path = "a" }, plan = true, stated_risk = "high" }
expect = "deny"
[[examples]]
call = { tool = "no_such_tool", args = { x = 1 } }
expect = "deny"
"""


def test_p10_examples_that_hold_are_loaded() -> None:
    """Everything that is known around a call may stand in one."""
    assert len(load_policy(EXAMPLES).examples) == 5


@pytest.mark.parametrize(
    ("example", "sentence"),
    [
        (
            'call = { tool = "cc_write", args = { path = "a" }, label = "Reactor 1", roles = [] }\nexpect = "ask"',
            "my.toml: example 6 (cc_write): it expects 'ask', but the verdict is 'deny' by ask, reactor: Hands off.",
        ),
        (
            'call = { tool = "cc_read", args = { path = "a" }, roles = [] }\nexpect = "allow"',
            "my.toml: example 6 (cc_read): it expects 'allow', but the verdict is 'deny': No rule allows this call.",
        ),
        (
            'call = { tool = "cc_write", args = { file = "a" } }\nexpect = "deny"',
            "my.toml: example 6 (cc_write): cc_write has no argument 'file'.",
        ),
    ],
)
def test_p10_an_example_that_comes_out_otherwise_refuses_the_file(example: str, sentence: str) -> None:
    """It says which one, what was expected, what came out, and by which rules."""
    with pytest.raises(PolicyInvalid) as refused:
        load_policy(f"{EXAMPLES}[[examples]]\n{example}", source="my.toml")
    assert refused.value.message == sentence
    assert refused.value.remedy


def test_p10_examples_are_checked_with_the_plugins() -> None:
    """What a plugin makes stricter may be expected."""
    text = """custom = ["night"]
    rules = [{ id = "a", effect = "allow", tools = ["*"] }]
    examples = [{ call = { tool = "cc_list", args = { path = "" } }, expect = "deny" }]"""
    night = CustomPolicy("night", lambda call, context: CustomVerdict(effect=Effect.DENY))
    assert load_policy(text, custom=[night]).custom == ("night",)
    with pytest.raises(PolicyInvalid, match=r"'ask' by a, custom:night: .*The plugin night is not loaded"):
        load_policy(text)
    assert parse_policy(text).examples


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = " + "[" * 5000, "nested too deeply"),
        ("x = {" + "b={" * 3000, "nested too deeply"),
        ("x = " + "9" * 5000, ""),
    ],
)
def test_p9_toml_that_overwhelms_its_reader_is_refused(text: str, why: str) -> None:
    """What is nested by the thousand, or a number of thousands of digits, is a broken file and no crash."""
    with pytest.raises(PolicyInvalid, match=f"my.toml is not TOML: .*{why}"):
        load_policy(text, source="my.toml")


def test_quotas_of_groups_stand_before_those_of_all() -> None:
    """A field that no group names is as for all; of several groups the most counts; nothing said is no limit."""
    text = "rules = []\n[quotas]\ntasks = 5\nminutes = 60\n[quotas.groups.a]\nminutes = 90\nweight = 2.0\n"
    quotas = load_policy(text + "[quotas.groups.b]\nminutes = 30\nrunning = 1\n").quotas
    assert quotas.of([]) == Quota(tasks=5, minutes=60)
    assert quotas.of(["b", "c"]) == Quota(tasks=5, minutes=30, running=1)
    assert quotas.of(["a", "b"]) == Quota(tasks=5, minutes=90, running=1, weight=2.0)
    assert load_policy("rules = []").quotas.of(["a"]) == Quota()


@pytest.mark.parametrize("odd", ["tasks = 0", "weight = 0.0", "tokens = 1.5", 'minutes = "1"', "hours = 1"])
def test_a_quota_that_says_nothing_is_refused(odd: str) -> None:
    """Such as one of no task at all: a role without the right to submit says so."""
    with pytest.raises(PolicyInvalid, match="quotas"):
        load_policy(f"rules = []\n[quotas]\n{odd}\n")


def test_a_review_in_the_game_is_off_until_the_policy_names_computers_and_people() -> None:
    """By a PIN, unless it says ``paired``; letter case counts, as for all that allows."""
    rules = '[[rules]]\nid = "all"\neffect = "ask"\ntools = ["*"]'
    plain = load_policy(rules)
    text = f'[in_game_review]\ncomputers = ["lectern-*"]\npeople = ["ann"]\nroles = ["tutor"]\n{rules}'
    review = load_policy(text).in_game_review
    assert plain.in_game_review is None
    assert review is not None
    assert (review.proof, load_policy(text).version != plain.version) == ("pin", True)
    assert [review.at(name) for name in ("lectern-1", "Lectern-1", "farm")] == [True, False, False]
    assert [review.by("ann", ()), review.by("bob", ("tutor",)), review.by("bob", ("viewer",))] == [True, True, False]


@pytest.mark.parametrize(
    "review", ['computers = ["*"]', 'people = ["ann"]', 'computers = []\npeople = ["ann"]', 'proof = "word"']
)
def test_a_review_in_the_game_names_computers_and_people(review: str) -> None:
    """Silence never allows."""
    with pytest.raises(PolicyInvalid, match="in_game_review"):
        load_policy(f'[in_game_review]\n{review}\n[[rules]]\nid = "all"\neffect = "ask"\ntools = ["*"]')
