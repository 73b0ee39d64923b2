"""Roles, groups and owners: the rights of a person, and whose things they reach."""

from datetime import UTC, datetime

import pytest

from orchestrator.core.approval.people import (
    BUILT_IN_ROLES,
    RIGHTS,
    TOLD_RIGHTS,
    Directory,
    Freeze,
    Group,
    Holder,
    Owner,
    rights_of,
)
from orchestrator.core.policy import load_policy, parse_policy
from orchestrator.core.wire.wire import ComputerId

ROLES = {"ann": "admin", "rita": "reviewer", "vera": "viewer", "sam": "submitter", "sue": "submitter"}
EVERYBODY = frozenset(ROLES)


def holder(name: str) -> Holder:
    """A person of ROLES."""
    return Holder(name, rights_of([ROLES[name]], {}))


def seen_by(directory: Directory, person: str) -> set[str]:
    """The people who see the tasks of a person."""
    return {name for name in ROLES if directory.sees(holder(name), person)}


def users_of(directory: Directory, computer: str) -> set[str]:
    """The people who reach a computer."""
    return {name for name in ROLES if directory.reaches(holder(name), ComputerId(computer))}


def test_a_role_is_its_rights() -> None:
    """An admin has all rights; a role that nobody knows has none; a policy adds roles, and changes none."""
    assert rights_of(["admin"], {}) == set(RIGHTS) == TOLD_RIGHTS.keys()
    assert rights_of(["viewer", "submitter"], {}) == {"view", "submit"}
    assert rights_of(["guest"], {}) == set()
    assert rights_of(["tutor", "viewer"], {"tutor": ["decide"]}) == {"decide", "view"}
    assert rights_of(["viewer"], {"viewer": RIGHTS}) == BUILT_IN_ROLES["viewer"]


def test_a_policy_makes_roles() -> None:
    """Each is the list of its rights; without any, nobody who only submits decides."""
    made = parse_policy('rules = []\n[roles.tutor]\nmay = ["view", "decide"]')
    assert made.role_rights == {"tutor": {"view", "decide"}}
    assert made.self_approval is False


def test_an_example_is_about_somebody_whom_no_rule_for_people_names() -> None:
    """So a rule for one group leaves the examples of a policy as they are; an example may name the group."""
    rules = '[[rules]]\nid = "all"\neffect = "allow"\ntools = ["cc_read"]\n'
    rules += '[[rules]]\nid = "class"\neffect = "deny"\ntools = ["cc_read"]\ngroups = ["class"]\n'
    example = '[[examples]]\ncall = {{ tool = "cc_read", args = {{ path = "a" }}{} }}\nexpect = "{}"\n'
    made = load_policy(rules + example.format("", "allow") + example.format(', groups = ["class"]', "deny"))
    assert len(made.examples) == 2


def test_without_groups_all_are_one_team() -> None:
    """Those who may look see everybody; those who only submit see their own; a computer is for all."""
    alone = Directory(people=EVERYBODY)
    assert seen_by(alone, "sam") == {"ann", "rita", "vera", "sam"}
    assert seen_by(alone, "ann") == {"ann", "rita", "vera"}
    assert users_of(alone, "farm") == EVERYBODY
    assert alone.visible_to(holder("rita")) is None
    assert alone.visible_to(holder("sam")) == frozenset({"sam"})


def test_a_group_ends_the_reach_of_a_right() -> None:
    """Rights reach those who share a group with their holder, and nobody else; admins reach everybody."""
    one = Directory(
        groups={"a": Group(frozenset({"rita", "sam"})), "b": Group(frozenset({"sue", "sam"}), frozenset({"mine"}))},
        people=EVERYBODY,
        programs={"bot": "sue", "old": ""},
    )
    assert seen_by(one, "sam") == {"ann", "rita", "sam"}
    assert seen_by(one, "sue") == {"ann", "sue"}
    assert seen_by(one, "vera") == {"ann", "vera"}
    assert users_of(one, "mine") == {"ann", "sue", "sam"}
    assert users_of(one, "farm") == {"ann", "vera"}
    assert one.visible_to(holder("ann")) is None
    assert one.visible_to(holder("rita")) == frozenset({"rita", "sam"})
    assert one.visible_to(holder("sue")) == frozenset({"sue", "bot"})
    assert one.visible_to(holder("vera")) == frozenset({"vera", "ann", "old"})
    assert one.person_of("bot") == "sue"
    assert one.person_of("old") == "old"
    assert one.person_of("sam") == "sam"


@pytest.mark.parametrize(
    ("owner", "users"),
    [
        (Owner(person="sam"), {"ann", "rita", "sam"}),
        (Owner(person="sue"), {"ann", "sue", "vera"}),
        (Owner(group="a"), {"ann", "rita", "sam"}),
        (Owner(group="gone"), {"ann"}),
    ],
)
def test_an_owner_says_who_uses_a_computer(owner: Owner, users: set[str]) -> None:
    """A person's own computer is theirs, and of those who look after them; a group's is for all of the group."""
    one = Directory(
        groups={"a": Group(frozenset({"rita", "sam"}))}, owners={ComputerId("farm"): owner}, people=EVERYBODY
    )
    assert users_of(one, "farm") == users


def test_the_policy_names_owners() -> None:
    """A person by name, and each group as ``group:NAME``."""
    farm, mine, barn = ComputerId("farm"), ComputerId("mine"), ComputerId("barn")
    one = Directory(
        groups={"a": Group(computers=frozenset({"farm"})), "b": Group()},
        owners={farm: Owner(person="sam"), mine: Owner(group="b")},
    )
    assert one.owners_of(farm) == ("sam", "group:a")
    assert one.owners_of(mine) == ("group:b",)
    assert one.owners_of(barn) == ()
    assert (str(one.owners[farm]), str(one.owners[mine])) == ("sam", "group b")


AT = datetime(2026, 11, 20, tzinfo=UTC)
FREEZES = {
    "sam": Freeze("sam", "rita", AT, "talks"),
    "group:b": Freeze("group:b", "ann", AT),
    "*": Freeze("*", "ann", AT, "fire"),
}


def frozen(*names: str) -> dict[str, str]:
    """The people and programs for whom some freezes hold, each with what is said of it."""
    one = Directory(
        groups={"a": Group(frozenset({"rita", "sam"})), "b": Group(frozenset({"sue", "guest"}))},
        people=EVERYBODY,
        programs={"bot": "sue"},
        freezes={name: FREEZES[name] for name in names},
    )
    found = {user: str(one.frozen(user)) for user in (*EVERYBODY, "guest", "bot") if one.frozen(user) is not None}
    assert one.frozen_users() == (None if "*" in names else set(found))
    return found


def test_a_freeze_holds_for_a_person_a_group_or_everybody() -> None:
    """And for the programs of these people; the words name who did it and why."""
    assert frozen() == {}
    assert frozen("sam") == {"sam": "Frozen by rita: talks"}
    assert frozen("group:b") == dict.fromkeys(("sue", "guest", "bot"), "Frozen by ann")
    assert frozen("sam", "*") == dict.fromkeys((*EVERYBODY, "guest", "bot"), "Frozen by ann: fire")
    assert [one.whom for one in FREEZES.values()] == ["sam", "group b", "everybody"]


def test_people_are_frozen_by_those_whose_right_reaches_them() -> None:
    """Admins freeze everybody; others people and groups of their own, where a role of theirs says so."""
    one = Directory(groups={"a": Group(frozenset({"tom", "sam"})), "b": Group(frozenset({"sue"}))}, people=EVERYBODY)
    tutor, submitter = Holder("tom", frozenset({"freeze"})), Holder("tom", frozenset({"submit"}))
    wanted = ("sam", "sue", "group:a", "group:b", "*")
    assert [one.may_freeze(tutor, name) for name in wanted] == [True, False, True, False, False]
    assert not any(one.may_freeze(submitter, name) for name in wanted)
    assert all(one.may_freeze(holder("ann"), name) for name in wanted)
