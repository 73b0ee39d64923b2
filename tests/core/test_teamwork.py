"""Reviewers beside deciding: claims, comments and escalations, delegates, and who of several people may say what."""

from collections import defaultdict
from collections.abc import Hashable
from datetime import timedelta
from typing import Any

import pytest

from orchestrator.core.approval.approval import CallState, ResumeRequest
from orchestrator.core.approval.command import Decide
from orchestrator.core.approval.deciders import Deciders
from orchestrator.core.approval.people import Away, Directory, Group
from orchestrator.core.approval.presentation import hitl_response
from orchestrator.core.approval.teamwork import Claim, Escalate, Remark, TeamCommand, Unclaim
from orchestrator.core.approval.workflow import CLAIM_S, MAX_COMMENTS, Step, Workflow
from orchestrator.core.audit.check import check
from orchestrator.core.audit.rights import RightsBook
from orchestrator.core.errors import (
    Forbidden,
    InvalidDecision,
    NotPending,
    OrchestratorError,
    PolicyInvalid,
    RequestExpired,
)
from orchestrator.core.policy import RiskLevel, RoleRights, load_policy
from orchestrator.core.policy.load import DEFAULT_POLICY_TOML
from orchestrator.core.task import facts
from orchestrator.core.task.commands import decide
from orchestrator.core.task.facts import CallId, RequestId
from orchestrator.core.task.limits import next_deadline, overdue
from orchestrator.core.task.system_facts import (
    AwayValue,
    DirectoryChanged,
    GrantId,
    NodeStarted,
    PolicyLoaded,
    TokenIssued,
)
from orchestrator.core.task.task import AgentTask
from orchestrator.core.task.transcript import Transcript
from orchestrator.core.wire.wire import ComputerId
from tests.core.audited import Trail, edits, made, says
from tests.core.journal import NOW, REQUEST, Journal, call, person, requested
from tests.core.persons import LAW, done, each, paused, real, refused, said, shown
from tests.core.test_quorum import TUTOR_THEN_ADMIN, TWO, noted

Q = RequestId(REQUEST)
SOON = NOW + timedelta(seconds=30)
AN_HOUR = timedelta(hours=1)


def does(story: Journal, by: str, command: TeamCommand) -> tuple[facts.Fact, ...]:
    """What somebody does with the request, appended."""
    made = decide(story.task, command)
    story.add(*made, by=person(by))
    return made


def cannot(kind: type[OrchestratorError], words: str, story: Journal, command: TeamCommand) -> OrchestratorError:
    """The refusal of it."""
    with pytest.raises(kind) as caught:
        decide(story.task, command)
    assert words in str(caught.value)
    return caught.value


def team(story: Journal) -> Any:
    """The people of the request as reviewers see them."""
    return hitl_response(story.task).team


# -- claims ------------------------------------------------------------------------------


def test_R6_a_claim_keeps_the_others_from_deciding_until_its_end() -> None:
    """409 names who looks; an admin decides all the same, and time ends it."""
    story = paused("ask")
    does(story, "ann", Claim(Q, "ann", SOON))
    until = SOON + timedelta(seconds=CLAIM_S)
    assert (team(story).claimed_by, team(story).claimed_until) == ("ann", until)
    error = refused(NotPending, "ann looks at the request until", story, by="bob", action="approve", now=SOON)
    assert error.details["claimed_by"] == "ann"
    refused(NotPending, "ann looks", story, by="bob", action="reject", now=until - timedelta(microseconds=1))
    assert said(story, by="bob", action="approve", now=until)
    assert said(story, by="ann", action="approve", now=SOON)
    cannot(NotPending, "Take another one", story, Claim(Q, "bob", SOON))
    assert decide(story.task, Claim(Q, "bob", SOON, overrides=True))
    assert decide(story.task, Claim(Q, "bob", until))
    assert decide(story.task, Claim(Q, "ann", SOON)), "the same person claims it for longer"


def test_R6_a_claim_is_given_back_by_its_owner_or_an_admin() -> None:
    """Nobody else; and where there is none nothing is recorded."""
    story = paused("ask")
    assert does(story, "ann", Unclaim(Q, "ann")) == ()
    does(story, "ann", Claim(Q, "ann", SOON))
    assert cannot(Forbidden, "The claim is ann's", story, Unclaim(Q, "bob")).http_status == 403
    does(story, "eve", Unclaim(Q, "eve", overrides=True))
    assert team(story) is None
    assert said(story, by="bob", action="approve", now=SOON)


def test_R6_who_has_approved_holds_nobody_up() -> None:
    """The claim ends with the claimer's approval, and stays with that of somebody whom it does not keep."""
    story = paused("ask", workflow=TWO)
    does(story, "ann", Claim(Q, "ann", SOON))
    done(story, by="ann", action="approve", now=SOON)
    assert team(story).claimed_by == ""
    assert said(story, by="bob", action="approve", now=SOON)
    other = paused("ask", workflow=TWO)
    does(other, "ann", Claim(Q, "ann", SOON))
    done(other, by="bob", action="approve", now=SOON + AN_HOUR)
    assert team(other).claimed_by == "ann"


def test_R6_a_claim_keeps_others_from_escalating() -> None:
    """As from deciding; not its holder, nor an admin."""
    story = paused("ask", workflow=TWO)
    does(story, "ann", Claim(Q, "ann", SOON))
    cannot(NotPending, "ann looks at the request", story, Escalate(Q, "bob", SOON))
    assert [decide(story.task, one) for one in (Escalate(Q, "ann", SOON), Escalate(Q, "eve", SOON, overrides=True))]


# -- comments ----------------------------------------------------------------------------


def test_D23_a_comment_leaves_the_request_open_and_is_shown_to_the_next() -> None:
    """Its text, who said it and when; so many and no more."""
    story = paused("ask")
    does(story, "ann", Remark(Q, "Is the chest empty?", SOON))
    (comment,) = team(story).comments
    assert (comment.by, comment.text) == ("ann", "Is the chest empty?")
    assert story.record("c1").state is CallState.PENDING
    assert Transcript().lines(story.items[-1]) == ["[REVIEW] ann says: Is the chest empty?"]
    for _ in range(MAX_COMMENTS - 1):
        does(story, "bob", Remark(Q, "no", SOON))
    cannot(InvalidDecision, "100 comments", story, Remark(Q, "yes", SOON))


def test_what_is_over_takes_nothing_more() -> None:
    """Neither a closed request nor one whose time is over."""
    story = paused("ask", expires_at=NOW + AN_HOUR)
    late = NOW + AN_HOUR
    for command in (Claim(Q, "ann", late), Remark(Q, "x", late), Escalate(Q, "ann", late)):
        cannot(RequestExpired, "expired", story, command)
    done(story, by="ann", action="approve")
    for open_command in (Claim(Q, "ann", NOW), Unclaim(Q, "ann"), Remark(Q, "x", NOW), Escalate(Q, "ann", NOW)):
        cannot(NotPending, "approved by ann", story, open_command)


# -- escalations -------------------------------------------------------------------------


def test_D21_an_escalation_keeps_the_id_and_resets_the_deadline() -> None:
    """It goes on to the group that the workflow names, or to the admins, once."""
    workflow = Workflow(steps=(Step(by="role:tutor", count=2),), escalate_to="group:heads")
    story = paused("ask", workflow=workflow, expires_at=NOW + AN_HOUR, remind_at=NOW + AN_HOUR / 2)
    created = story.task.request.created_at  # type: ignore[union-attr]
    done(story, by="tom", action="approve")
    does(story, "tim", Claim(Q, "tim", SOON))
    (fact,) = does(story, "ann", Escalate(Q, "ann", SOON, overrides=True))
    assert isinstance(fact, facts.ReviewNoted)
    request = story.task.request
    assert request is not None
    assert (request.request_id, request.expires_at) == (REQUEST, SOON + (NOW + AN_HOUR - created))
    assert request.remind_at == request.expires_at - AN_HOUR / 2  # type: ignore[operator]
    assert (team(story).escalated_to, team(story).claimed_by) == ("group:heads", "")
    assert team(story).progress == "1 of 2: tom; next: somebody in the group heads"
    cannot(InvalidDecision, "somebody in the group heads decides it", story, Escalate(Q, "ann", SOON))
    (last,) = done(story, by="hal", action="approve", now=SOON)
    assert isinstance(last, facts.DecisionRecorded)
    assert check(story.items) == []
    plain = paused("ask")
    (fact,) = does(plain, "ann", Escalate(Q, "ann", SOON))
    assert isinstance(fact, facts.ReviewNoted)
    assert (fact.to, fact.expires_at) == ("role:admin", None)


def test_D21_it_is_escalated_by_itself_after_its_time() -> None:
    """At that time and not before, once; what has expired by then is expired."""
    at = NOW + AN_HOUR / 4
    workflow = Workflow(steps=TWO.steps, escalate_after_s=900)
    more: dict[str, Any] = {"workflow": workflow, "escalate_at": at, "expires_at": NOW + AN_HOUR}
    story = paused("ask", **more)
    assert next_deadline(story.task) == at
    assert team(story).escalate_at == at
    assert overdue(story.task, at - timedelta(microseconds=1)) == ()
    (fact,) = overdue(story.task, at)
    story.add(fact)
    assert Transcript().lines(story.items[-1]) == ["[REVIEW] It went to other people."]
    assert overdue(story.task, at) == ()
    assert story.task.request.team.escalated_to == "role:admin"  # type: ignore[union-attr]
    (late,) = overdue(paused("ask", **more).task, NOW + AN_HOUR)
    assert late.kind == "request_ended"


# -- who may, of several people ----------------------------------------------------------

ROLES = {"tom": ("tutor",), "tim": ("tutor",), "ann": ("admin",), "rob": ("reviewer",), "sam": ("submitter",)}
TUTORS: dict[str, Any] = {"tutor": frozenset({"view", "decide"})}
ALL = Directory(people=frozenset(ROLES), roles={name: frozenset(roles) for name, roles in ROLES.items()})


def asked(workflow: Workflow | None = TUTOR_THEN_ADMIN, user: str = "sam", **more: Any) -> Journal:
    """A request of somebody's task."""
    story = Journal()
    story.submitted(user_id=user, roles=ROLES.get(user, ()), by=person(user), **more)
    story.proposed([made("c1")], "ask")
    story.reviewed("c1", workflow=workflow)
    return story


def who(task: AgentTask, action: Any = "approve", **setting: Any) -> set[str]:
    """All who may say this."""
    rule = Deciders(roles=TUTORS, **{"directory": ALL, **setting})
    return {name for name, roles in ROLES.items() if rule.may_say(task, action, kind="person", name=name, roles=roles)}


def test_R4_the_people_of_the_present_step_approve_and_those_of_any_step_reject() -> None:
    """The words of a refusal name the present step; after an escalation only its people say anything."""
    story = asked()
    assert who(story.task) == {"tom", "tim"}
    assert who(story.task, "reject") == {"tom", "tim", "ann", "sam"}
    assert Deciders(roles=TUTORS).of(story.task) == "somebody with the role tutor"
    assert Deciders("not_requester", roles=TUTORS).of(story.task) == "somebody with the role tutor, but not sam"
    done(story, by="tom", action="approve")
    assert who(story.task) == {"ann", "tom"}, "who has approved may say so again, which counts once"
    assert Deciders(roles=TUTORS).of(story.task) == "somebody with the role admin"
    does(story, "ann", Escalate(Q, "ann", SOON))
    assert (who(story.task), who(story.task, "reject")) == ({"ann"}, {"ann", "sam"})
    assert who(story.task, "answer") == {"tom", "tim", "ann", "rob", "sam"}


@pytest.mark.parametrize(
    ("by", "user", "setting", "may"),
    [
        ("", "sam", {}, {"tom", "tim", "ann", "rob"}),
        ("", "rob", {}, {"tom", "tim", "ann", "rob"}),
        ("", "rob", {"approvers": "not_requester"}, {"tom", "tim", "ann"}),
        ("", "sam", {"self_approval": True}, {"tom", "tim", "ann", "rob", "sam"}),
        ("", "sam", {"approvers": "role:submitter"}, {"sam"}),
        ("person:tom", "sam", {}, {"tom"}),
        ("person:sam", "sam", {}, set()),
        ("role:tutor", "tom", {"approvers": "not_requester"}, {"tim"}),
        ("group:heads", "sam", {}, {"rob"}),
        ("role:admin", "sam", {"approvers": "role:submitter"}, {"ann"}),
    ],
)
def test_D22_who_counts_for_a_step(by: str, user: str, setting: dict[str, Any], may: set[str]) -> None:
    """They need the right to decide, whoever submitted it; with ``not_requester`` its requester never counts (R2)."""
    groups = {"directory": Directory(groups={"heads": Group(frozenset({"rob", "sam"}))})} if by[:5] == "group" else {}
    assert who(asked(Workflow(steps=(Step(by=by, count=2),)), user).task, **{**groups, **setting}) == may


def test_a_person_of_another_group_is_none_of_them() -> None:
    """A step that names them lets nobody into the tasks of others."""
    apart = Directory(groups={"a": Group(frozenset({"sam", "tim"})), "b": Group(frozenset({"tom"}))})
    assert who(asked().task, directory=apart) == {"tim"}


BY_NAME = Workflow(steps=(Step(by="role:tutor"), Step(by="person:tom")))


def test_D22_who_is_needed_by_name_later_is_kept_for_it() -> None:
    """Else nobody could take that step; the refusal says why. They reject it, and decide once it is escalated."""
    story = asked(BY_NAME)
    rule = Deciders(roles=TUTORS, directory=ALL)
    assert who(story.task) == {"tim"}
    assert rule.of(story.task) == "somebody with the role tutor, but not tom, whose approval a later step needs"
    assert "tom" in who(story.task, "reject")
    assert who(story.task, directory=Directory()) == {"tim"}, "also where nobody knows who there is"
    done(story, by="tim", action="approve")
    assert (who(story.task), rule.of(story.task)) == ({"tom", "tim"}, "tom")
    escalated = asked(Workflow(steps=BY_NAME.steps, escalate_to="role:tutor"))
    does(escalated, "ann", Escalate(Q, "ann", SOON))
    assert who(escalated.task) == {"tom", "tim"}


def test_D22_the_last_ones_of_a_role_are_kept_for_its_step() -> None:
    """As many as the step asks for; with one more of them, any of them may come first."""
    story = asked(Workflow(steps=(Step(), Step(by="role:tutor", count=2))))
    assert who(story.task) == {"ann", "rob"}
    more = Directory(roles={**ALL.roles, "tia": frozenset({"tutor"})})
    assert who(story.task, directory=more) == {"ann", "rob", "tom", "tim"}
    done(story, by="tom", action="approve")
    assert who(story.task, directory=more) == {"tom", "tim"}


def test_D22_an_edit_of_a_later_step_leaves_the_rest_to_the_others() -> None:
    """Its editor is the first of their own step, which asks for nobody more: all others of the first step count."""
    workflow = Workflow(steps=(Step(), Step(by="role:tutor")))
    story = shown(real("c1", path="farm", content="old"), workflow=workflow)
    done(story, by="rob", action="approve")
    done(story, by="tom", decisions=each(("c1", "edit"), args={"path": "farm", "content": "new"}))
    assert who(story.task) == {"ann", "rob", "tim", "tom"}
    (last,) = done(story, by="tim", action="approve")
    assert isinstance(last, facts.DecisionRecorded)


def test_who_a_request_concerns() -> None:
    """The people of all its steps, whoever of them is asked now; of a plain request those who may decide it."""
    rule = Deciders(roles=TUTORS, directory=ALL)

    def concerned(story: Journal) -> set[str]:
        return {
            name for name, roles in ROLES.items() if rule.concerns(story.task, kind="person", name=name, roles=roles)
        }

    assert concerned(asked()) == {"tom", "tim", "ann"}
    assert concerned(asked(None)) == {"tom", "tim", "ann", "rob"}
    assert not rule.concerns(asked().task, kind="agent", name="tom", roles=("tutor",))


APART = {"a": Group(frozenset({"sam", "rob"})), "b": Group(frozenset({"tom", "tim"}))}


@pytest.mark.parametrize(
    ("workflow", "directory", "kinds"),
    [
        (None, ALL, 5),
        (None, Directory(groups={"a": Group(frozenset({"sam", "tim"}))}), 6),
        (None, Directory(groups=APART, roles=ALL.roles, away={"rob": Away("tom", NOW + AN_HOUR)}), 6),
        (BY_NAME, ALL, 6),
    ],
)
def test_people_who_are_alike_may_say_the_same(workflow: Workflow | None, directory: Directory, kinds: int) -> None:
    """What many people may say is asked once for all with the same roles, unless the rule looks at their names."""
    task = asked(workflow, "rob").task
    rule = Deciders(roles=TUTORS, directory=directory, now=NOW)
    found = defaultdict[Hashable, set[tuple[bool, ...]]](set)
    for name, roles in {**ROLES, "rex": ROLES["rob"]}.items():
        one: dict[str, Any] = {"kind": "person", "name": name, "roles": roles}
        says = (rule.may_say(task, action, **one) for action in ("approve", "reject", "answer"))
        found[rule.alike(task)("person", name, roles)].add((rule.concerns(task, **one), *says))
    assert [len(answers) for answers in found.values()] == [1] * kinds


# -- more people than there are ---------------------------------------------------------


@pytest.mark.parametrize(
    ("workflow", "setting", "said"),
    [
        (TUTOR_THEN_ADMIN, {}, []),
        (Workflow(steps=(Step(count=4),)), {}, []),
        (
            Workflow(steps=(Step(count=5),)),
            {},
            ["5 people who may decide have to approve, and only ann, rob, tim and tom may."],
        ),
        (
            Workflow(steps=(Step(by="role:admin", count=2),)),
            {},
            ["2 people with the role admin have to approve, and only ann may."],
        ),
        (
            Workflow(steps=(Step(by="group:heads"),)),
            {},
            ["Somebody in the group heads has to approve, and nobody may."],
        ),
        (Workflow(steps=(Step(by="person:sam"),)), {}, ["sam has to approve, and nobody may."]),
        (
            Workflow(steps=(Step(by="person:tom", count=2),)),
            {},
            ["2 people named tom have to approve, and only tom may."],
        ),
        (Workflow(steps=(Step(by="person:sam"),)), {"approvers": "role:submitter"}, []),
        (Workflow(), {"approvers": "role:god"}, ["Somebody who may decide has to approve, and nobody may."]),
        (Workflow(steps=TWO.steps), {}, []),
        (
            Workflow(steps=TWO.steps, escalate_to="role:admin"),
            {},
            ["2 people with the role admin have to approve after an escalation, and only ann may."],
        ),
        (
            Workflow(steps=TWO.steps, escalate_after_s=60),
            {},
            ["2 people with the role admin have to approve after an escalation, and only ann may."],
        ),
    ],
)
def test_D22_what_asks_for_more_people_than_there_are(
    workflow: Workflow, setting: dict[str, Any], said: list[str]
) -> None:
    """Of each step, and of what happens after an escalation; those who may not decide are none of them."""
    assert list(Deciders(roles=TUTORS, directory=ALL, **setting).too_few(workflow)) == said


# -- delegates ---------------------------------------------------------------------------


def away(name: str, to: str, until: Any = SOON) -> Directory:
    """Somebody is away, and another person decides for them."""
    return Directory(people=ALL.people, roles=ALL.roles, away={name: Away(to, until)})


def stands_for(story: Journal, name: str, directory: Directory, now: Any = NOW, **setting: Any) -> str | None:
    """For whom somebody may approve."""
    rule = Deciders(roles=TUTORS, directory=directory, now=now, **setting)
    said: dict[CallId, Any] = {CallId("c1"): "approve"}
    return rule.stands_for(story.task, said, kind="person", name=name, roles=ROLES[name])


def test_a_delegate_says_what_the_person_who_is_away_may_say() -> None:
    """Until they are back; by themselves where they may; never of a task of their own, and not for a delegate."""
    story = asked()
    assert stands_for(story, "sam", away("tom", "sam")) is None, "it is their own task"
    assert stands_for(story, "rob", away("tom", "rob")) == "tom"
    assert stands_for(story, "tim", away("tom", "tim")) == ""
    assert stands_for(story, "rob", away("tom", "rob"), SOON) is None
    assert stands_for(story, "rob", away("tom", "rob"), None) is None
    assert stands_for(story, "rob", away("sam", "rob")) is None
    assert stands_for(story, "ann", away("tom", "rob")) is None
    gone = Directory(people=ALL.people, away={"tom": Away("rob", SOON)})
    assert stands_for(story, "rob", gone) is None, "who has no token decides nothing"
    own = asked(user="tom")
    assert stands_for(own, "rob", away("tom", "rob"), approvers="not_requester") is None
    rule = Deciders(roles=TUTORS, directory=away("tom", "rob"), now=NOW)
    assert rule.concerns(story.task, kind="person", name="rob", roles=ROLES["rob"])
    assert rule.may_say(story.task, "approve", kind="person", name="rob", roles=ROLES["rob"])
    assert rule.stands_for(story.task, {}, kind="agent", name="rob", roles=()) is None


def test_a_delegate_who_is_needed_later_is_kept_as_well() -> None:
    """An approval in another one's place uses up both."""
    story = asked(BY_NAME)
    assert stands_for(story, "rob", away("tim", "rob")) == "tim"
    assert stands_for(story, "tom", away("tim", "tom")) is None
    assert stands_for(story, "rob", away("tom", "rob")) is None
    done(story, by="tim", action="approve")
    assert stands_for(story, "rob", away("tom", "rob")) == "tom"


def test_what_a_delegate_decides_names_both() -> None:
    """In the decision, in the words that say how it was closed, and in the approvals that wait for more."""
    for workflow, kind in ((None, "decision_recorded"), (TWO, "review_noted")):
        story = paused("ask", workflow=workflow)
        command = Decide(
            request_id=Q,
            resume=ResumeRequest(action="approve"),
            by="ann",
            now=NOW,
            active_policy=LAW,
            new_call_id=lambda: CallId("n1"),
            new_grant_id=lambda: GrantId("g1"),
            authorize=lambda _: "bob",
        )
        (fact,) = decide(story.task, command)
        story.add(fact, by=person("ann"))
        assert (fact.kind, fact.behalf) == (kind, "bob")  # type: ignore[union-attr]
        assert story.task.closed[-1].how.startswith("approved by ann for bob")
    line = Transcript()
    for item in story.items[:-1]:
        line.lines(item)
    assert line.lines(story.items[-1])[0].startswith("[REVIEW] ann for bob approved, and more people have to")


def test_A6_a_delegate_whom_nobody_asked_is_found() -> None:
    """Before the person went away, after they were back, and where another one was asked."""
    book = RightsBook()
    system = Trail(task_id=facts.TaskId("system"))
    for name, role in (("tom", "reviewer"), ("rob", "submitter"), ("sam", "submitter")):
        system.add(TokenIssued(holder_kind="person", name=name, roles=(role,)), at=NOW)
    gone, back = NOW + timedelta(minutes=10), NOW + timedelta(minutes=20)
    value = AwayValue(to="rob", until=NOW + AN_HOUR)
    system.add(DirectoryChanged(about="away", name="tom", value=value), person("tom"), gone)
    system.add(DirectoryChanged(about="away", name="tom"), person("tom"), back)
    for item in system.items:
        book.take(item)
    assert [book.why_not(item, ()) for item in system.items if item.fact.kind == "directory_changed"] == ["", ""]
    other = Trail().add(DirectoryChanged(about="away", name="tom", value=value), person("rob")).items[-1]
    assert "no item says that rob had the role admin" in book.why_not(other, ())
    wrote = made("c1")

    def found(at: Any, by: str = "rob") -> list[str]:
        trail = Trail(wrote).requested(wrote).approved(wrote, by=person(by), at=at, behalf="tom")
        return [one.detail for one in check(trail.items, rights=book) if one.what == "without_right"]

    between = gone + timedelta(minutes=1)
    assert found(between) == []
    assert found(gone) == []
    (words,) = found(gone - timedelta(minutes=1))
    assert "rob decided for tom, and no item says that tom was away" in words
    assert found(back + timedelta(minutes=1))
    assert found(between, "sam")


def test_A6_an_approval_that_waits_needs_the_right_as_well() -> None:
    """As a claim and an escalation do; with ``self_approval`` a requester approves their own."""
    wrote = made("c1")
    book = RightsBook()
    system = Trail(task_id=facts.TaskId("system"))
    system.add(TokenIssued(holder_kind="person", name="alice", roles=("submitter",)))
    for item in system.items:
        book.take(item)

    def found() -> list[str]:
        trail = noted(Trail(wrote).requested(wrote, workflow=TWO), says(wrote, "approve"), by=person("alice"))
        for what in ("claimed", "escalated", "commented"):
            trail.add(facts.ReviewNoted(what=what, request_id=Q), person("alice"))
        return [str(one.version) for one in check(trail.items, rights=book) if one.what == "without_right"]

    assert found() == ["4", "5", "6"]
    loaded = PolicyLoaded(source="policy.toml", policy_version="v1", sha256="0" * 64, self_approval=True)
    book.take(system.add(loaded).items[-1])
    assert found() == ["5", "6"]


# -- rights for some risks, computers and paths ------------------------------------------


def limited(limits: str, roles: tuple[str, ...] = ("tutor",), *, user: str = "sam", **asked: Any) -> dict[str, bool]:
    """What a tutor with these limits may say of a write to /farm/a.lua on computer 3, at medium risk."""
    text = f'{DEFAULT_POLICY_TOML}[roles.tutor]\nmay = ["view", "decide"]\n{limits}\n'
    policy = load_policy(text)
    story = Journal()
    story.submitted(user_id=user, roles=roles if user == "tom" else ("submitter",), by=person(user))
    story.proposed([call("c1", asked.pop("tool", "cc_write"), **{"path": "farm/a.lua", **asked})], "ask")
    story.reviewed("c1")
    rule = Deciders(roles=policy.role_rights, limits=policy.role_limits)
    verbs: tuple[Any, ...] = ("approve", "reject", "answer")
    return {verb: rule.may_say(story.task, verb, kind="person", name="tom", roles=roles) for verb in verbs}


ALL_OF_IT = {"approve": True, "reject": True, "answer": True}
NOTHING = {"approve": False, "reject": False, "answer": True}


@pytest.mark.parametrize(
    ("limits", "may"),
    [
        ("", ALL_OF_IT),
        ('max_risk = "medium"', ALL_OF_IT),
        ('max_risk = "low"', NOTHING),
        ('computers = ["3"]', ALL_OF_IT),
        ('computers = ["turtle-*"]', NOTHING),
        ('paths = ["farm/**"]', ALL_OF_IT),
        ('paths = ["FARM/**"]', NOTHING),
        ('max_risk = "high"\ncomputers = ["*"]\npaths = ["lib/**", "farm/*"]', ALL_OF_IT),
        ('max_risk = "high"\ncomputers = ["*"]\npaths = ["lib/**"]', NOTHING),
    ],
)
def test_R4_a_role_decides_only_what_its_limits_cover(limits: str, may: dict[str, bool]) -> None:
    """By risk, by computer and by path, all of them; another role without limits takes them away."""
    assert limited(limits) == may
    assert limited(limits, ("tutor", "reviewer")) == ALL_OF_IT
    assert limited(limits, ("tutor", "submitter")) == may


def test_R4_limits_fail_closed_and_leave_nobody_alone() -> None:
    """A call without paths is in none of them; what a requester may not decide themselves others decide."""
    assert limited('paths = ["**"]', tool="cc_shell", path="x") == NOTHING
    assert limited('paths = ["**"]', tool="nope", path="x") == NOTHING
    own = limited('max_risk = "low"', user="tom")
    assert own == {"approve": False, "reject": True, "answer": True}
    policy = load_policy(DEFAULT_POLICY_TOML + '[roles.tutor]\nmay = ["decide"]\nmax_risk = "low"\n')
    rule = Deciders(roles=policy.role_rights, limits=policy.role_limits)
    story = Journal()
    story.submitted(user_id="tom", roles=("tutor",), by=person("tom"))
    story.proposed([call("c1", path="farm")], "ask")
    story.reviewed("c1")
    assert rule.may_say(story.task, "approve", kind="person", name="rob", roles=("reviewer",))
    assert rule.of(story.task) == "a reviewer or an admin"
    told = rule.told(kind="person", name="tom", roles=("tutor",))
    assert told == "tom may decide what tasks of submitters and programs ask up to low risk."
    others = Deciders("not_requester", roles=policy.role_rights, limits=policy.role_limits)
    assert others.told(kind="person", name="tom", roles=("tutor",)).endswith("ask up to low risk.")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('may = ["view"]\nmax_risk = "low"', "about decide, which the role may not"),
        ('may = ["decide"]\npaths = ["../x"]', "no canonical path can match: '../x'"),
        ('may = ["decide"]\ncomputers = []', "roles.tutor.computers must not be empty"),
        ('may = ["decide"]\nmax_risk = "huge"', "roles.tutor.max_risk"),
    ],
)
def test_P9_limits_that_cannot_work_are_refused(table: str, words: str) -> None:
    """With the place and the reason."""
    with pytest.raises(PolicyInvalid) as caught:
        load_policy(f"{DEFAULT_POLICY_TOML}[roles.tutor]\n{table}\n")
    assert words in caught.value.message


def test_R4_the_checks_that_an_approval_covers_are_under_the_same_limits() -> None:
    """An approval of a write at medium risk runs no program at high risk later, and none elsewhere."""
    limits = {"tutor": RoleRights(may=("decide",), max_risk=RiskLevel.MEDIUM, paths=("farm/**",))}
    rule = Deciders(roles=TUTORS, limits=limits)
    for risk, path, may in (("medium", "farm/run", True), ("high", "farm/run", False), ("low", "run", False)):
        check_shown = facts.ShownCheck(
            check=f"runs {path}", computer=ComputerId("3"), call_digest="d", path=path, risk=RiskLevel(risk)
        )
        story = Journal()
        story.proposed([call("c1", path="farm/a.lua")], "ask")
        asked = requested("c1").model_copy(update={"checks": (check_shown,)})
        story.add(
            facts.ReviewRequested(
                request_id=Q, reason="approval", calls=(asked,), risk=RiskLevel.MEDIUM, policy_version="v1"
            )
        )
        assert rule.may_say(story.task, "approve", kind="person", name="tom", roles=("tutor",)) is may


def test_D17_an_edit_is_authorized_as_the_call_that_it_makes() -> None:
    """Who may decide the model's call may not, by that, write elsewhere."""
    story = shown(real("c1", path="farm/a.lua", content="x"))

    def authorize(task: AgentTask) -> str:
        path = task.calls[0].call.args["path"]
        if not path.startswith("farm/"):
            raise Forbidden(f"not {path}")
        return ""

    for path, may in (("farm/b.lua", True), ("lib/b.lua", False)):
        body = {"decisions": each(("c1", "edit"), args={"path": path, "content": "y"})}
        command = Decide(
            request_id=Q,
            resume=ResumeRequest.model_validate(body),
            by="tom",
            now=NOW,
            active_policy=LAW,
            new_call_id=lambda: CallId("n1"),
            new_grant_id=lambda: GrantId("g1"),
            authorize=authorize,
        )
        if may:
            assert decide(story.task, command)
        else:
            with pytest.raises(Forbidden, match="not lib"):
                decide(story.task, command)


@pytest.mark.parametrize(
    ("limits", "right"),
    [
        ('max_risk = "medium"', True),
        ('max_risk = "low"', False),
        ('computers = ["3"]', True),
        ('computers = ["4"]', False),
        ('paths = ["farm"]', True),
        ('paths = ["lib/**"]', False),
    ],
)
def test_R4_A6_an_approval_beyond_the_limits_of_a_role_is_found(limits: str, right: bool) -> None:
    """Alone, as one of two, of an edit, and for somebody who is away; not a rejection, not with another role."""
    policy = load_policy(f'rules = []\n[roles.tutor]\nmay = ["view", "decide"]\n{limits}\n')
    book, wrote = RightsBook(), made("c1")
    system = Trail(task_id=facts.TaskId("system"))
    for name, roles in {"tom": ("tutor",), "tim": ("tutor", "reviewer"), "rob": ("reviewer",)}.items():
        system.add(TokenIssued(holder_kind="person", name=name, roles=roles), at=NOW)
    rights: dict[str, tuple[str, ...]] = {name: tuple(one.may) for name, one in policy.roles.items()}
    limited_to = dict(policy.role_limits)
    loaded = PolicyLoaded(source="x", policy_version="v1", sha256="0" * 64, roles=rights, limits=limited_to)
    for item in system.add(loaded, at=NOW).items:
        book.take(item)

    def found(trail: Trail) -> list[str]:
        return [one.detail for one in check(trail.items, rights=book) if one.what == "without_right"]

    alone = Trail(wrote).requested(wrote)
    words = found(alone.approved(wrote, by=person("tom")))
    assert words == ([] if right else ["tom approved call c1, and none of their roles decides it (risk: medium)."])
    of_two = noted(Trail(wrote).requested(wrote, workflow=TWO), says(wrote, "approve"), by=person("tom"))
    assert bool(found(of_two)) != right
    edit, _ = edits(wrote, path="lib/a", content="x")
    beyond = found(Trail(wrote).requested(wrote).decided(edit, by=person("tom")))
    assert bool(beyond) == ("lib" not in limits if "paths" in limits else not right)
    for who, action in (("tim", "approve"), ("rob", "approve"), ("tom", "reject")):
        assert found(Trail(wrote).requested(wrote).decided(says(wrote, action), by=person(who))) == []  # type: ignore[arg-type]
    own = Trail(wrote, user="tom").requested(wrote).approved(wrote, by=person("tom"))
    assert bool(found(own)) != right
    book.take(system.add(loaded.model_copy(update={"self_approval": True}), at=NOW).items[-1])
    assert found(own) == []
    away = AwayValue(to="rob", until=NOW + AN_HOUR)
    for item in system.add(DirectoryChanged(about="away", name="tom", value=away), person("tom"), NOW).items[-1:]:
        book.take(item)
    assert bool(found(Trail(wrote).requested(wrote).approved(wrote, by=person("rob"), behalf="tom"))) != right
    setting = NodeStarted(version="1", policy_version="v1", settings={"approvers": "role:tutor"})
    book.take(system.add(setting, at=NOW).items[-1])
    assert found(alone) == [], "the setting names the role, and knows no limits"


def test_R6_A6_a_decision_during_the_claim_of_another_is_found() -> None:
    """Not by the holder, nor by an admin; not after it was released, escalated, over, or its holder had decided."""
    book, wrote = RightsBook(), made("c1")
    for name, role in (("tom", "reviewer"), ("tim", "reviewer"), ("ann", "admin")):
        for item in Trail().add(TokenIssued(holder_kind="person", name=name, roles=(role,)), at=NOW).items:
            book.take(item)
    claim = facts.ReviewNoted(what="claimed", request_id=Q, valid_until=NOW + AN_HOUR)

    def found(*since: facts.ReviewNoted, by: str = "tim", rights: RightsBook | None = book, **late: Any) -> list[str]:
        trail = Trail(wrote).requested(wrote, workflow=TWO).add(claim, person("tom"))
        for one in since:
            trail.add(one, person("tom"))
        trail.decided(says(wrote, "reject"), by=person(by), **late)
        return [one.detail for one in check(trail.items, rights=rights) if one.what == "despite_claim"]

    assert found() == [f"tim decided, and tom had claimed the request until {NOW + AN_HOUR:%H:%M:%S} UTC."]
    assert found(by="tom") == found(by="ann") == found(rights=None) == found(at=NOW + AN_HOUR) == []
    for what in ("unclaimed", "escalated"):
        assert found(facts.ReviewNoted(what=what, request_id=Q, to="role:admin" if what == "escalated" else "")) == []
    assert found(facts.ReviewNoted(what="approved", request_id=Q, decisions=(says(wrote, "approve"),))) == []
    waits = noted(Trail(wrote).requested(wrote, workflow=TWO).add(claim, person("tom")), says(wrote, "approve"))
    for item in Trail().add(TokenIssued(holder_kind="person", name="bob", roles=("reviewer",)), at=NOW).items:
        book.take(item)
    assert [one.level for one in check(waits.items, rights=book) if one.what == "despite_claim"] == ["notice"]
