"""Who had the right to do what, by the tokens that the items tell of (promise A6)."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from orchestrator.core.audit.chain import SYSTEM_STREAM
from orchestrator.core.audit.check import check
from orchestrator.core.audit.rights import GRACE, RightsBook
from orchestrator.core.task import facts
from orchestrator.core.task.facts import Fact, RequestId, TaskId
from orchestrator.core.task.items import GENESIS_HASH, SYSTEM, Actor, AgentTaskItem, Draft, ItemId, seal
from orchestrator.core.task.system_facts import (
    ComputerReleased,
    DirectoryChanged,
    NodeStarted,
    OwnerValue,
    PolicyLoaded,
    TaskPruned,
    TokenIssued,
    TokenRevoked,
)
from orchestrator.core.wire.wire import ComputerId
from tests.core.journal import NOW

SAM = Actor(kind="person", id="sam", auth="token")
POLICY = PolicyLoaded(source="x", policy_version="v", sha256="0")
START = NodeStarted(version="1", policy_version="v")
PRUNED = TaskPruned(
    task_id="t0", version=1, head_hash="", user_id="sam", created_at=NOW - timedelta(days=1), updated_at=NOW
)


def item(fact: Fact, by: Actor = SYSTEM, at: datetime = NOW, stream: str = SYSTEM_STREAM) -> AgentTaskItem:
    """One item, of whatever version."""
    draft = Draft(item_id=ItemId("i"), at=at, actor=by, fact=fact)
    return seal(draft, task_id=TaskId(stream), version=1, prev_hash=GENESIS_HASH)


def submitted(user: str = "sam", owner: str = "") -> facts.TaskSubmitted:
    """A task comes in."""
    return facts.TaskSubmitted(prompt="p", user_id=user, owner=owner, session_id="s", model="m", max_steps=1, tag="x")


def issued(*roles: str, at: datetime = NOW, kind: str = "person") -> AgentTaskItem:
    """Sam gets a token."""
    return item(TokenIssued(holder_kind=kind, name="sam", roles=roles), at=at)


def revoked(at: datetime) -> AgentTaskItem:
    """Sam's tokens end."""
    return item(TokenRevoked(holder_kind="person", name="sam", count=1), at=at)


def decided(*actions: facts.DecisionAction) -> facts.DecisionRecorded:
    """Somebody decides on a request."""
    decisions = [
        facts.Decision(call_id=facts.CallId(f"c{n}"), action=one, action_digest="") for n, one in enumerate(actions)
    ]
    return facts.DecisionRecorded(request_id=RequestId("r"), decisions=tuple(decisions))


def noted(what: str) -> Fact:
    """Something else that somebody did with a request."""
    return facts.ReviewNoted.model_validate({"request_id": "r", "what": what})


def why(told: Sequence[AgentTaskItem], act: AgentTaskItem, own: Sequence[str] = ()) -> str:
    """What is to be said of an act."""
    book = RightsBook()
    for one in told:
        book.take(one)
    return book.why_not(act, own)


RELEASED = ComputerReleased(computer=ComputerId("3"), by="sam")
ADMINS = [POLICY, RELEASED, PRUNED, TokenIssued(holder_kind="person", name="eve"), revoked(NOW).fact]


@pytest.mark.parametrize("auth", ["token", "session", "oidc", "computer:3"])
def test_a6_however_somebody_came_in_it_takes_the_role(auth: str) -> None:
    """By a token, by a browser, by a provider, or at a computer in the game."""
    act = item(POLICY, Actor(kind="person", id="sam", auth=auth))
    assert "had the role admin" in why([issued("reviewer")], act)
    assert why([issued("admin")], act) == ""


@pytest.mark.parametrize("act", ADMINS)
def test_a6_only_an_admin_changes_what_holds_for_all(act: Fact) -> None:
    """Policies, tokens, frozen computers and pruned tasks."""
    assert why([issued("admin")], item(act, SAM)) == ""
    assert "had the role admin" in why([issued("reviewer")], item(act, SAM))
    assert why([item(START), issued("reviewer")], item(act)) == ""


@pytest.mark.parametrize(
    ("act", "by_items", "right"),
    [
        (decided("approve"), ("reviewer",), True),
        (decided("approve"), ("submitter",), False),
        (decided("reject", "reject"), ("submitter",), True),
        (decided("reject", "retry"), ("submitter",), False),
        (noted("extended"), ("submitter",), False),
        (noted("extended"), ("admin",), True),
        (noted("viewed"), (), True),
        (submitted(), ("submitter",), True),
        (submitted(), ("reviewer",), False),
    ],
)
def test_a6_a_role_is_needed_in_a_task(act: Fact, by_items: tuple[str, ...], right: bool) -> None:
    """Deciding takes another role than to submit; what somebody asked they may always reject."""
    assert (why([item(START), issued(*by_items)], item(act, SAM), ["sam"]) == "") is right


def test_a6_a_freeze_takes_the_right_of_a_role() -> None:
    """An admin's, or that of a role of the policy."""
    tutors = item(POLICY.model_copy(update={"roles": {"tutor": ("freeze",)}}))
    frozen = item(DirectoryChanged(about="freeze", name="ann"), SAM)
    assert why([tutors, issued("tutor")], frozen) == ""
    assert why([issued("admin")], frozen) == ""
    assert "had the role admin" in why([issued("reviewer")], frozen)


def test_a6_to_reject_what_others_ask_takes_a_role() -> None:
    """Only those whose task it is need none, as with an owner."""
    assert why([issued("submitter")], item(decided("reject"), SAM), ["alice", ""])
    assert why([issued("submitter")], item(decided("reject"), SAM), ["robot", "sam"]) == ""


def test_a6_the_role_that_a_setting_named_decides() -> None:
    """Whatever the setting is now."""
    named = item(START.model_copy(update={"settings": {"approvers": "role:foreman"}}))
    assert why([named, issued("foreman")], item(decided("approve"), SAM)) == ""
    other = item(START.model_copy(update={"settings": {"approvers": "not_requester"}}))
    assert why([other, issued("foreman")], item(decided("approve"), SAM))


def test_a6_a_role_of_a_policy_has_the_rights_that_it_named() -> None:
    """Whatever the policy is now; people who only submit decide their own where a policy said so."""
    policy = item(POLICY.model_copy(update={"roles": {"tutor": ("decide", "pair", "submit"), "guest": ("view",)}}))
    code = TokenIssued(holder_kind="pairing", name="p-1")
    owner = DirectoryChanged(about="owner", name="farm", value=OwnerValue(person="sam"))
    group = DirectoryChanged(about="group", name="class")
    for act in (decided("approve"), submitted(), code, owner):
        assert why([policy, issued("tutor")], item(act, SAM)) == ""
        assert why([policy, issued("guest")], item(act, SAM))
    assert why([policy, issued("tutor")], item(group, SAM))
    own = item(POLICY.model_copy(update={"self_approval": True}))
    assert why([own, issued("submitter")], item(decided("approve"), SAM), ["sam"]) == ""
    assert why([own, issued("submitter")], item(decided("approve"), SAM), ["alice"])


def test_a6_a_right_counts_from_the_token_to_its_end() -> None:
    """With a second's grace at both ends; another token of the same person counts as well."""
    end = NOW + timedelta(minutes=1)
    token = [issued("admin"), revoked(end), revoked(end + timedelta(hours=1))]
    for at, right in ((NOW - GRACE, True), (NOW - 2 * GRACE, False), (end + GRACE, True), (end + 2 * GRACE, False)):
        assert (why(token, item(POLICY, SAM, at)) == "") is right
    again = issued("admin", at=end + timedelta(minutes=1))
    assert why([*token, again, item(noted("viewed"))], item(POLICY, SAM, again.at)) == ""


def test_a6_who_proved_nothing_by_a_token_is_not_looked_up() -> None:
    """A caller of the library has no token; who types at a computer has the roles of its owner."""
    assert why([item(START)], item(POLICY, Actor(kind="person", id="sam", auth="library"))) == ""
    by_typing = Actor(kind="person", id="sam", auth="computer:3")
    assert why([issued("reviewer")], item(submitted(), by_typing))
    assert why([issued("submitter", kind="agent")], item(submitted(), SAM))


@pytest.mark.parametrize("auth", ["pin@lectern", "paired@lectern"])
def test_a6_who_reviews_in_the_game_needs_the_role_as_everywhere(auth: str) -> None:
    """The item says at which computer, and how it was proved; others say nothing of the kind."""
    there = Actor(kind="person", id="sam", auth=auth)
    assert (there.reviews_at, there.at_computer, SAM.reviews_at) == ("lectern", "", "")
    assert why([issued("reviewer")], item(decided("approve"), there)) == ""
    assert why([issued("submitter")], item(decided("approve"), there))


def test_a6_everybody_sets_and_removes_their_own_pin_and_no_other() -> None:
    """An admin removes that of somebody who left."""
    own = TokenIssued(holder_kind="pin", name="sam"), TokenRevoked(holder_kind="pin", name="sam", count=1)
    others = TokenIssued(holder_kind="pin", name="eve"), TokenRevoked(holder_kind="pin", name="eve", count=1)
    assert [why([issued("viewer")], item(act, SAM)) for act in own] == ["", ""]
    assert all("had the role admin" in why([issued("viewer")], item(act, SAM)) for act in others)
    assert why([issued("admin")], item(others[1], SAM)) == ""


def test_a6_where_no_token_has_an_item_nothing_is_missed() -> None:
    """No server ever was there; where somebody was issued one, all others need one too."""
    eve = Actor(kind="person", id="eve", auth="token")
    assert why([], item(POLICY, SAM)) == ""
    assert why([item(START)], item(POLICY, eve)) == ""
    assert why([item(START), issued("admin")], item(POLICY, eve))
    assert why([item(START), issued("submitter")], item(POLICY, SAM))


def test_a6_the_check_of_a_task_asks_for_the_owner_of_a_program() -> None:
    """Their program's task counts as theirs."""
    book = RightsBook()
    for one in (item(START), issued("submitter")):
        book.take(one)
    task = item(submitted("robot", "sam"), stream="t1")
    found = check([task, item(decided("reject"), SAM, stream="t1")], rights=book)
    assert [one.what for one in found] == ["decided_other"]
    assert [one.what for one in check([item(POLICY, SAM)], rights=book)] == ["without_right"]


@pytest.mark.parametrize(("whose", "right"), [("sam", True), ("ann", False), ("", False)])
def test_a6_everybody_has_notification_rules_of_their_own(whose: str, right: bool) -> None:
    """Those of others and of the installation are for admins."""
    act = item(DirectoryChanged(about="notify", name=f"{whose}/phone"), SAM)
    assert (why([issued("reviewer")], act) == "") is right
    assert why([issued("admin")], act) == ""
