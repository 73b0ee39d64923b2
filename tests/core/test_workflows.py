"""Approval workflows as tables of a policy: which calls they are about, and what a file may not say."""

from typing import Any

import pytest

from orchestrator.core.approval.workflow import PLAIN, Step
from orchestrator.core.audit.check import check
from orchestrator.core.audit.rights import RightsBook
from orchestrator.core.errors import PolicyInvalid
from orchestrator.core.policy import FunctionCall, PolicyContext, RiskLevel, load_policy
from orchestrator.core.policy.approvals import workflows_of
from orchestrator.core.policy.load import DEFAULT_POLICY_TOML
from orchestrator.core.task import facts
from orchestrator.core.task.items import SYSTEM
from orchestrator.core.task.system_facts import DirectoryChanged, GroupValue, TokenIssued
from tests.core.audited import Trail, made, says
from tests.core.journal import person
from tests.core.test_quorum import TUTOR_THEN_ADMIN, noted

KNOWN = PolicyContext(computer="turtle-1", family="turtle", user="sam", groups=("class-7b",))


def by(when: str, tool: str = "cc_write", risk: str = "high", context: PolicyContext = KNOWN, **args: Any) -> list[str]:
    """Whose approval a policy with these tables asks for."""
    tables = f'[[approvals]]\nwhen = {{ {when} }}\nsteps = [{{ by = "role:reviewer" }}, {{ by = "person:ann" }}]\n'
    policy = load_policy(DEFAULT_POLICY_TOML + tables)
    found = workflows_of(policy.approvals, FunctionCall(tool=tool, args=args), context, RiskLevel(risk))
    return [step.by for workflow in found for step in workflow.steps]


@pytest.mark.parametrize(
    ("when", "other"),
    [
        ('tools = ["cc_write"]', {"tool": "cc_delete"}),
        ('paths = ["startup*"]', {"path": "farm.lua"}),
        ('risks = ["high", "critical"]', {"risk": "medium"}),
        ('computers = ["turtle-*"]', {"context": KNOWN.model_copy(update={"computer": "pc"})}),
        ('groups = ["class-7b"]', {"context": KNOWN.model_copy(update={"groups": ()})}),
        ('users = ["sam"]', {"context": KNOWN.model_copy(update={"user": "sue"})}),
        ('tools = ["cc_write"], paths = ["startup*"], users = ["sam"]', {"path": "farm.lua"}),
    ],
)
def test_a_table_is_about_the_calls_that_all_its_predicates_match(when: str, other: dict[str, Any]) -> None:
    """One predicate that does not match is enough to leave it out; without any it is about every call."""
    call: dict[str, Any] = {"path": "startup.lua"}
    assert by(when, **call) == ["role:reviewer", "person:ann"]
    assert by(when, **{**call, **other}) == []
    assert by("", **{**call, **other}) == ["role:reviewer", "person:ann"]


def test_what_is_not_known_yet_counts_as_if_it_matched() -> None:
    """As for rules that ask: a computer that has said nothing, a directory that may hold the file."""
    assert by('computers = ["turtle-*"]', context=PolicyContext(), path="a")
    assert by('paths = ["lib/secret.lua"]', tool="cc_delete", path="lib")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('when = { tools = ["nope"] }', "approval 1: no such tool: 'nope'"),
        ('when = { tools = ["cc_shell"], paths = ["a"] }', "approval 1: cc_shell has no path"),
        ('steps = [{ by = "role:tutr" }]', "approvals name the role 'tutr', and there is none"),
        ('escalate_to = "role:tutr"', "approvals name the role 'tutr', and there is none"),
        ("steps = []", "approval 1: steps must not be empty"),
        ('steps = [{ by = "tutors" }]', "write role:NAME, person:NAME or group:NAME"),
        ('escalate_to = "admin"', "write role:NAME, person:NAME or group:NAME"),
        ('steps = [{ by = "person:ann", count = 0 }]', "approval 1: steps 1.count"),
    ],
)
def test_P9_a_table_that_cannot_work_is_refused_with_its_place(table: str, words: str) -> None:
    """A file that cannot be used is refused whole."""
    with pytest.raises(PolicyInvalid) as caught:
        load_policy(f"{DEFAULT_POLICY_TOML}[[approvals]]\n{table}\n")
    assert words in caught.value.message


def test_a_policy_without_tables_has_the_version_that_it_had() -> None:
    """And one approval is enough, as it was."""
    policy = load_policy(DEFAULT_POLICY_TOML)
    table = load_policy(DEFAULT_POLICY_TOML + '[[approvals]]\nsteps = [{ by = "role:admin" }]\n')
    assert policy.approvals == ()
    assert policy.requests.approvals == PLAIN.need
    assert policy.version != table.version
    assert table.approvals[0].steps == (Step(by="role:admin"),)


def test_A6_who_was_none_of_the_people_of_a_step_is_found() -> None:
    """By the roles of tokens, by groups as they were then, and by name."""
    book = RightsBook()
    system = Trail(task_id=facts.TaskId("system"))
    for name, role in (("tom", "tutor"), ("ann", "admin"), ("tim", "tutor")):
        system.add(TokenIssued(holder_kind="person", name=name, roles=(role,)))
    for people in (("tom",), ("tim",)):
        system.add(DirectoryChanged(about="group", name="heads", value=GroupValue(people=people)))
    for _ in range(9):
        system.add(facts.CancelRequested())
    system.add(DirectoryChanged(about="group", name="heads"), SYSTEM)
    for item in system.items:
        book.take(item)
    call = made("c1")
    trail = Trail(call).requested(call, workflow=TUTOR_THEN_ADMIN)
    noted(trail, says(call, "approve"), by=person("tom"))
    trail.decided(says(call, "approve", step=1), by=person("tim"))
    found = [one.detail for one in check(trail.items, rights=book) if one.what == "without_right"]
    assert [one for one in found if "as somebody with the role" in one] == [
        "tim approved call c1 as somebody with the role admin, and no item says that they were."
    ]
    first, then, over = (system.items[number].at for number in (5, 7, 15))
    assert [book.is_not(name, "group:heads", first) for name in ("tom", "tim")] == [False, False]
    assert [book.is_not(name, "group:heads", system.items[9].at) for name in ("tom", "tim")] == [True, False]
    assert book.is_not("tim", "group:heads", over.replace(year=2031))
    assert book.is_not("tom", "group:none", then)
    assert [book.is_not(name, "person:ann", then) for name in ("ann", "tom")] == [False, True]
    assert not book.is_not("tom", "", then)
