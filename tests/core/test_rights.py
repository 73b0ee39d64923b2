"""Who may decide for a task, and the words that say so: one rule for every endpoint."""

from typing import Any

import pytest

from orchestrator.core.approval.deciders import Deciders, Saying
from orchestrator.core.approval.people import Directory, Group, Right
from orchestrator.core.policy import RoleRights
from orchestrator.core.task.task import AgentTask
from tests.core.journal import Journal, call, person

SUBMITTER, BOTH = ("submitter",), ("submitter", "reviewer")
PEOPLE = {"sam": SUBMITTER, "sue": SUBMITTER, "bob": BOTH, "eve": ("reviewer",), "ann": ("admin",)}


def of(name: str, roles: tuple[str, ...] = (), **more: Any) -> AgentTask:
    """A task that somebody submitted with these roles."""
    return AgentTask(task_id="t1", user_id=name, roles=roles, **more)  # type: ignore[arg-type]


def who(approvers: str, task: AgentTask, action: Saying = "approve") -> set[str]:
    """All of the people who may say this."""
    return {
        name
        for name, roles in PEOPLE.items()
        if Deciders(approvers).may_say(task, action, kind="person", name=name, roles=roles)
    }


@pytest.mark.parametrize(
    ("approvers", "task", "may", "words"),
    [
        ("requester", of("sam", SUBMITTER), {"bob", "eve", "ann"}, "a reviewer or an admin"),
        ("requester", of("bob", BOTH), {"bob"}, "bob"),
        ("requester", of("ann", ("admin",)), {"ann"}, "ann"),
        # A reviewer by now, who was none when the task came in; and one of the library, without roles.
        ("requester", of("bob", SUBMITTER), {"bob", "eve", "ann"}, "a reviewer or an admin"),
        ("requester", of("sam"), {"bob", "eve", "ann"}, "a reviewer or an admin"),
        ("requester", of("bob", BOTH, by_program=True), {"bob", "eve", "ann"}, "a reviewer or an admin"),
        ("not_requester", of("sam", SUBMITTER), {"bob", "eve", "ann"}, "a reviewer or an admin, but not sam"),
        ("not_requester", of("bob", BOTH), {"eve", "ann"}, "a reviewer or an admin, but not bob"),
        (
            "not_requester",
            of("bot", by_program=True, owner="bob"),
            {"eve", "ann"},
            "a reviewer or an admin, but not bob",
        ),
        ("not_requester", of("bob", by_program=True), {"bob", "eve", "ann"}, "a reviewer or an admin"),
        ("requester", of("bot", by_program=True, owner="sam"), {"bob", "eve", "ann"}, "a reviewer or an admin"),
        ("role:reviewer", of("bob", BOTH), {"bob", "eve"}, "somebody with the role reviewer"),
        ("role:admin", of("bob", BOTH), {"ann"}, "somebody with the role admin"),
        ("role:submitter", of("sam"), {"sam", "sue", "bob"}, "somebody with the role submitter"),
    ],
)
def test_R2_who_decides_and_who_is_named(approvers: str, task: AgentTask, may: set[str], words: str) -> None:
    """The people who may approve are those that a refusal names."""
    assert who(approvers, task) == may
    assert Deciders(approvers).of(task) == words
    apart = {name for name in PEOPLE if Deciders(approvers).sets_apart(task, name)}
    assert [f", but not {name}" for name in apart] == [words[words.find(", but") :]] * len(apart)
    assert bool(apart) == (", but not" in words)
    assert not Deciders(approvers).may_say(task, "approve", kind="agent", name=task.user_id, roles=("admin",))


def test_R2_who_submitted_it_says_no_and_answers() -> None:
    """Both are always theirs, whoever approves: an answer runs nothing."""
    task = of("sam", SUBMITTER)
    for approvers in ("requester", "not_requester", "role:admin"):
        assert "sam" in who(approvers, task, "reject")
        assert "sue" not in who(approvers, task, "reject")
        assert "sam" in who(approvers, task, "answer")
        assert "sue" not in who(approvers, task, "answer")
        assert "sam" not in who(approvers, task, "respond"), "an answer in place of a tool is a decision"
    assert who("requester", task, "answer") == {"sam", "bob", "eve", "ann"}
    robot = of("bot", by_program=True, owner="sam")
    assert who("not_requester", robot, "reject") == {"sam", "bob", "eve", "ann"}
    for asked in (task, robot):
        assert who("not_requester", asked, "answer") == {"sam", "bob", "eve", "ann"}


@pytest.mark.parametrize(
    ("question", "own"), [("Which farm?", True), ("May the model see [redacted 1a2b3c4d]?", False)]
)
def test_R2_a_yes_that_shows_a_secret_is_decided_as_an_approval(question: str, own: bool) -> None:
    """With a setting that asks for another person; the ordinary answer is the submitter's own."""
    story = Journal()
    story.submitted(user_id="sam", roles=SUBMITTER, by=person("sam"))
    story.proposed([call("c1", "ask_user", question=question)], "allow")
    story.question("c1")
    for approvers in ("not_requester", "role:reviewer"):
        assert ("sam" in who(approvers, story.task, "answer")) is own
        assert "eve" in who(approvers, story.task, "answer")
    assert "sam" in who("requester", story.task, "answer")
    assert "sam" in who("not_requester", story.answered(), "answer"), "nothing is asked any more"


def test_a_setting_that_is_none_lets_nobody_decide() -> None:
    """It is refused at the start; here nobody gains by it."""
    assert who("anybody", of("bob", BOTH)) == set()


@pytest.mark.parametrize(
    ("approvers", "kind", "roles", "says"),
    [
        ("requester", "person", ("submitter",), "may submit tasks; a reviewer or an admin decides what they ask."),
        (
            "requester",
            "person",
            ("reviewer",),
            "may decide what tasks of submitters and programs ask and read the whole audit.",
        ),
        (
            "requester",
            "person",
            ("admin",),
            "may submit tasks, decide what these and the tasks of submitters and programs ask, pair computers and "
            "manage tokens and read the whole audit.",
        ),
        (
            "not_requester",
            "person",
            ("submitter", "reviewer"),
            "may submit tasks, decide what tasks of others ask and read the whole audit.",
        ),
        ("role:submitter", "person", ("submitter",), "may submit tasks and decide what every task asks."),
        (
            "role:submitter",
            "person",
            ("reviewer",),
            "may read the whole audit; somebody with the role submitter decides what tasks ask.",
        ),
        ("requester", "agent", ("submitter",), "may submit tasks; people decide what they ask."),
        ("requester", "agent", (), "may only look."),
        ("requester", "computer", (), ""),
    ],
)
def test_a_token_says_what_it_may(approvers: str, kind: str, roles: tuple[str, ...], says: str) -> None:
    """One sentence, by the setting."""
    assert Deciders(approvers).told(kind=kind, name="bob", roles=roles) == (f"bob {says}" if says else "")


def test_the_token_of_a_program_says_whose_its_tasks_are() -> None:
    """They count as the owner's."""
    said = Deciders().told(kind="agent", name="bot", roles=("submitter",), owner="ann")
    assert said == "bot may submit tasks, which count as tasks of ann; people decide what they ask."


def test_what_people_of_other_groups_ask_is_not_theirs_to_decide() -> None:
    """A group ends the reach of reviewers; an admin decides for everybody, and the submitter still says no."""
    directory = Directory(groups={"a": Group(frozenset({"sam", "bob"}))})
    rule = Deciders(directory=directory)
    task = of("sam", SUBMITTER)
    may = {n for n, roles in PEOPLE.items() if rule.may_say(task, "approve", kind="person", name=n, roles=roles)}
    assert may == {"bob", "ann"}
    assert rule.may_say(task, "reject", kind="person", name="sam", roles=SUBMITTER)
    others = Deciders("role:submitter", directory=directory)
    assert others.may_say(task, "approve", kind="person", name="bob", roles=BOTH)
    assert not others.may_say(task, "approve", kind="person", name="sue", roles=SUBMITTER)


def test_with_self_approval_submitters_decide_their_own() -> None:
    """Their own tasks and not their programs'; the setting ``not_requester`` wins over it."""
    task, robot = of("sam", SUBMITTER), of("bot", SUBMITTER, by_program=True, owner="sam")

    def may(approvers: str, asked: AgentTask) -> bool:
        rule = Deciders(approvers, self_approval=True)
        return rule.may_say(asked, "approve", kind="person", name="sam", roles=SUBMITTER)

    assert may("requester", task)
    assert not may("requester", robot)
    assert not may("not_requester", task)
    assert Deciders(self_approval=True).of(task) == "sam"
    assert Deciders(self_approval=True).of(robot) == "a reviewer or an admin"
    said = Deciders(self_approval=True).told(kind="person", name="sam", roles=SUBMITTER)
    assert said == "sam may submit tasks and decide what these ask."


def test_a_role_of_the_policy_says_what_it_may() -> None:
    """Its rights count as those of the roles that are always there."""
    rights: dict[str, tuple[Right, ...]] = {"tutor": ("view", "decide", "freeze", "pair"), "guest": ("view",)}
    own = Deciders(roles=rights)
    assert own.may_say(of("sam", SUBMITTER), "approve", kind="person", name="tom", roles=("tutor",))
    assert not own.may_say(of("sam", SUBMITTER), "approve", kind="person", name="gus", roles=("guest",))
    assert own.told(kind="person", name="tom", roles=("tutor",)) == (
        "tom may decide what tasks of submitters and programs ask, freeze and unfreeze people of their groups and "
        "pair computers."
    )
    assert own.told(kind="person", name="gus", roles=("guest",)) == (
        "gus may see the tasks and computers of their groups; a tutor, a reviewer or an admin decides what tasks ask."
    )
    assert own.told(kind="person", name="old", roles=("gone",)) == (
        "old may only ask an admin for a role; a tutor, a reviewer or an admin decides what tasks ask."
    )


def test_people_of_a_class_read_who_decides_and_whose_audit_they_see() -> None:
    """A role with limits is not named: it does not decide everything. Admins read the whole audit."""
    rights: dict[str, tuple[Right, ...]] = {"aide": ("decide", "audit"), "helper": ("decide",)}
    group = Directory(groups={"class": Group(frozenset({"tom", "sam"}))})
    rule = Deciders(roles=rights, directory=group, limits={"helper": RoleRights(may=("decide",), computers=("a",))})
    said = {role: rule.told(kind="person", name="tom", roles=(role,)) for role in ("submitter", "aide", "admin")}
    assert said["submitter"] == "tom may submit tasks; an aide, a reviewer or an admin decides what they ask."
    assert said["aide"].endswith(" ask and read the audit of their groups.")
    assert said["admin"].endswith(" and read the whole audit.")
