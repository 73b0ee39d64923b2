"""What nodes have in common, the computers and the queue, held against the items; what is honest shows nothing."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from orchestrator.core.audit.chain import SYSTEM_STREAM, Fault
from orchestrator.core.audit.computers import MOST_NUMBER, ComputerBook, Work, claim_faults, work_of
from orchestrator.core.audit.queue import queue_faults
from orchestrator.core.audit.shared import (
    DUTY_US,
    AgreedBook,
    DirectoryBook,
    PolicyBook,
    Since,
    duty_faults,
)
from orchestrator.core.audit.tables import Rows, TokenBook, token_fingerprint
from orchestrator.core.task import system_facts as told
from orchestrator.core.task.facts import Fact, TaskId
from orchestrator.core.task.items import GENESIS_HASH, Actor, Draft, ItemId, seal
from orchestrator.core.task.task import AgentTask
from orchestrator.core.values import to_us
from orchestrator.core.wire.wire import ComputerId
from tests.core.journal import NOW, Journal, call
from tests.core.test_audit import stream

AT = to_us(NOW)
NEW = told.PolicyLoaded(source="p.toml", policy_version="v", sha256="a" * 64, number=3)
OLD = told.PolicyLoaded(source="p.toml", policy_version="v", sha256="a" * 64)
STARTED = told.NodeStarted(version="1", policy_version="v", records=1)


def said(faults: Iterable[Fault]) -> list[str]:
    return [one.detail for one in faults]


def since(*news: Fact) -> Since:
    book = Since()
    for item in stream(SYSTEM_STREAM, *news):
        book.take(item)
    return book


def test_only_what_is_older_than_its_records_may_lack_one() -> None:
    """A store that such a node began has nothing without an item; of one without such a node nothing is known."""
    assert since(told.NodeStopped(), OLD).may_lack(AT + 9)
    whole, later = since(NEW, STARTED), since(told.NodeStopped(), STARTED)
    assert [whole.may_lack(at) for at in (AT - 1, AT)] == [False, False]
    assert [later.may_lack(at) for at in (AT - 1, AT, "x")] == [True, False, False]


# -- the policy --------------------------------------------------------------------------


def policy_row(**changes: Any) -> dict[str, Any]:
    row = {"name": "in force", "version": 3, "sha256": "a" * 64, "source": "p.toml", "loaded_at": AT}
    return {**row, "loaded_by": "orchestrator", "judged": 3, **changes}


def policies(news: list[Fact], before: dict[str, Any], after: dict[str, Any] | None = None) -> list[str]:
    book = PolicyBook()
    for item in stream(SYSTEM_STREAM, *news):
        book.take(item)
    return said(book.faults(before, before if after is None else after))


def test_an_honest_policy_has_no_fault() -> None:
    """By an item of version 0.6 too, before any, and while it changes."""
    row = {"in force": policy_row()}
    assert policies([told.NodeStopped(), NEW], row) == []
    assert policies([OLD], {"in force": policy_row(version=9, loaded_at=1)}) == []
    assert policies([OLD], {}) == policies([], {}) == []
    assert policies([NEW], row, {"in force": policy_row(sha256="b" * 64, version=4)}) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sha256": "b" * 64}, "has sha256"),
        ({"source": "x"}, "has source"),
        ({"loaded_by": "x"}, "has loaded_by"),
        ({"version": 4}, "has version"),
        ({"loaded_at": 1}, "has loaded_at"),
        ({"judged": 4}, "were judged by policy 4"),
        ({"judged": "x"}, "were judged by policy 'x'"),
    ],
)
def test_a_changed_policy_shows(changes: dict[str, Any], words: str) -> None:
    (one,) = policies([NEW], {"in force": policy_row(**changes)})
    assert words in one


def test_a_policy_that_nobody_loaded_or_that_is_gone_shows() -> None:
    row = {"in force": policy_row()}
    assert policies([], row) == ["A policy is active, and no item says who activated it."]
    assert policies([NEW], {**row, "x": policy_row()}) == ["A policy is in the table as 'x', and only one is active."]
    for gone in ({}, {"in force": policy_row(version=0)}):
        assert policies([NEW], gone) == ["The active policy is not in the table."]
    assert len(policies([NEW], {"in force": policy_row(version="x")})) == 2


# -- groups and owners -------------------------------------------------------------------


def test_a_group_that_nobody_set_so_shows() -> None:
    """Another value, one that nobody set, one that was removed, and one that is gone; a change meanwhile is none."""
    ann, none = told.GroupValue(people=("ann",)), told.NodeStopped()
    facts: list[Fact] = [
        none,
        told.DirectoryChanged(about="group", name="a", value=ann),
        told.DirectoryChanged(about="owner", name="farm", value=told.OwnerValue(person="ann")),
        told.DirectoryChanged(about="group", name="b", value=ann),
        told.DirectoryChanged(about="group", name="b"),
    ]
    book = DirectoryBook()
    for item in stream(SYSTEM_STREAM, *facts):
        book.take(item)
    rows: dict[str, Any] = {
        "group a": {"number": 2, "data": facts[1].model_dump_json()},
        "owner farm": {"number": 3, "data": facts[2].model_dump_json()},
    }
    assert said(book.faults(rows, rows)) == []
    for changed in ({"number": 9}, {"data": facts[3].model_dump_json()}):
        other = {**rows, "group a": {**rows["group a"], **changed}}
        assert said(book.faults(rows, other)) == []
        (one,) = said(book.faults(other, other))
        assert one.startswith("'group a' is ")
    for name in ("group b", "group x"):
        more = {**rows, name: {"number": 4, "data": facts[3].model_dump_json()}}
        assert said(book.faults(more, more)) == [f"{name!r} is in the table, and no item set it."]
    gone = {"group a": rows["group a"]}
    assert said(book.faults(gone, gone)) == ["'owner farm' was set, and is not in the table."]


# -- what was agreed ---------------------------------------------------------------------


def test_what_nodes_agreed_on_stays() -> None:
    """Another word, one that nobody said, and one that is gone; a bus's word does not move with a store."""
    book, whole = AgreedBook(), since(NEW)
    agreed = told.Agreed(name="workspace", value="here"), told.Agreed(name="installation", value="i")
    for item in stream(SYSTEM_STREAM, *agreed, told.NodeStopped()):
        book.take(item)
    rows = {"workspace": {"value": "here"}, "installation": {"value": "i"}}
    assert said(book.faults(rows, rows, whole, shared=True)) == []
    other = {**rows, "workspace": {"value": "there"}}
    assert said(book.faults(rows, other, whole, shared=True)) == []
    (changed,) = said(book.faults(other, other, whole, shared=True))
    assert "'here' for workspace, and the table has 'there'" in changed
    more = {**rows, "x": {"value": "y"}}
    assert len(said(book.faults(more, more, whole, shared=True))) == 1
    assert said(book.faults(more, more, Since(), shared=True)) == []
    assert len(said(book.faults({}, {}, whole, shared=True))) == 2
    assert len(said(book.faults({}, {}, whole, shared=False))) == 1


def test_no_duty_is_taken_for_ever() -> None:
    rows: Rows = {"a": {"until": AT + DUTY_US}, "b": {"until": AT + DUTY_US + 1}, "c": {"until": "x"}}
    assert len(said(duty_faults(rows, AT))) == 2


def test_a_code_that_nobody_made_shows() -> None:
    """Where codes have items; and one for another computer, of another time."""
    roles = ("", "farm", "admin")
    fact = told.TokenIssued(holder_kind="pairing", name="p", roles=roles, fingerprint=token_fingerprint("h"))
    (item,) = stream(SYSTEM_STREAM, fact)
    row = {"kind": "pairing", "name": "p", "roles": '["", "farm", "admin"]', "created_at": AT, "revoked": 0}
    book = TokenBook()
    book.take(item)

    def found(key: str, **changes: Any) -> list[str]:
        rows = {"h": row, key: row | changes}
        return said(book.faults(rows, rows, may_lack=lambda at: at == 1))

    assert found("h") == found("other", created_at=1) == []
    assert "nobody made that code" in found("other")[0]
    assert len(found("h", roles='["farm", "", "admin"]')) == len(found("h", created_at=AT + 1)) == 1
    late = {"h": row, "other": row}
    assert said(book.faults({"h": row}, late, may_lack=lambda _: False)) == []


def test_a_code_that_was_used_too_late_or_twice_is_impossible() -> None:
    """Whoever changes the row of a code, uses it and puts the row back leaves the items of that."""
    fact = told.TokenIssued(holder_kind="pairing", name="p", roles=("", "", ""), fingerprint=token_fingerprint("h"))
    used = told.TokenRevoked(holder_kind="pairing", name="p", count=1)
    computer, admin = Actor(kind="computer", id="3", auth="pairing"), Actor(kind="person", id="a", auth="token")

    def found(*news: tuple[Fact, Actor, float]) -> list[str]:
        book = TokenBook()
        for told_fact, by, minutes in news:
            draft = Draft(item_id=ItemId("i"), at=NOW + timedelta(minutes=minutes), actor=by, fact=told_fact)
            book.take(seal(draft, task_id=TaskId(SYSTEM_STREAM), version=1, prev_hash=GENESIS_HASH))
        return said(one for one in book.faults({}, {}) if one.what == "impossible")

    made, in_time = (fact, admin, 0), (used, computer, 15)
    assert found(made, in_time) == found(made, (used, admin, 60)) == found((used, computer, 60)) == []
    assert "expired" in found(made, (used, computer, 17))[0]
    assert "had been used or revoked" in found(made, in_time, in_time)[0]
    assert "had been used or revoked" in found(made, (used, admin, 1), in_time)[0]


# -- computers ---------------------------------------------------------------------------

SIDE = told.ComputerSide(computer_id=3, boot="b-1", at=NOW)
WELCOME = told.ComputerWelcomed(
    computer=ComputerId("3"), side=SIDE, fingerprint=token_fingerprint("h"), number=5, heard=7, doubtful_below=4
)
FROZEN = told.ComputerFrozen(computer=ComputerId("3"), reason="disk_restored")
RELEASED = told.ComputerReleased(computer=ComputerId("3"), by="alice", number=9)


def computer_row(**changes: Any) -> dict[str, Any]:
    row = {"computer": "3", "number": 9, "task": None, "heard": 7, "doubtful_below": 4, "token": "h", "frozen": None}
    return {**row, "known": SIDE.model_dump_json(), "frozen_at": None, "released": 0, **changes}


def computers(news: list[Fact], row: dict[str, Any], before: dict[str, Any] | None = None) -> list[str]:
    book = ComputerBook()
    for item in stream(SYSTEM_STREAM, NEW, *news):
        book.take(item)
    return said(book.faults({"3": row if before is None else before}, {"3": row}, since(NEW)))


def test_a_computer_that_was_welcome_while_it_was_frozen_is_impossible() -> None:
    """Whoever takes the freeze out of the row, and puts it back, leaves the welcome."""
    assert "nobody had released it" in computers([WELCOME, FROZEN, WELCOME], computer_row())[0]
    assert computers([WELCOME, FROZEN, RELEASED, WELCOME], computer_row()) == []


def test_an_honest_computer_has_no_fault() -> None:
    """Welcome, frozen, released, heard of later, and while it changes."""
    frozen = {"frozen": FROZEN.model_dump_json(), "frozen_at": AT}
    released = {"released": 1, "doubtful_below": 9}
    assert computers([WELCOME], computer_row()) == []
    assert computers([WELCOME, FROZEN], computer_row(**frozen)) == []
    assert computers([WELCOME, FROZEN, RELEASED], computer_row(**released)) == []
    assert computers([FROZEN, RELEASED], computer_row(**released, known=None, token="")) == []
    heard: dict[ComputerId, tuple[str, int]] = {ComputerId("3"): ("b-1", 8)}
    noted = told.CheckpointMade(streams=1, sha256="b" * 64, heard=heard)
    assert computers([WELCOME, noted], computer_row(heard=8)) == []
    other = told.CheckpointMade(streams=1, sha256="b" * 64, heard={ComputerId("3"): ("b-0", 99)})
    assert computers([other, WELCOME], computer_row()) == computers([WELCOME, other], computer_row()) == []
    assert computers([WELCOME], computer_row(released=1, frozen="x", token="y"), computer_row()) == []
    nothing = computer_row(known=None, token="", heard=0, doubtful_below=0)
    assert computers([], nothing) == []
    silent = WELCOME.model_copy(update={"fingerprint": ""})
    assert computers([silent], computer_row(token="")) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"known": None}, "somebody else"),
        ({"known": SIDE.model_copy(update={"computer_id": 4}).model_dump_json()}, "somebody else"),
        ({"token": "x"}, "another token"),
        ({"token": ""}, "another token"),
        ({"doubtful_below": 0}, "doubts numbers below 0"),
        ({"heard": 6}, "was heard at 7, and the table has only 6"),
        ({"heard": "x"}, "which is not a number"),
        ({"number": 4}, "which nobody allotted"),
        ({"number": MOST_NUMBER + 1}, "which nobody allotted"),
        ({"number": "x"}, "which nobody allotted"),
        ({"frozen": FROZEN.model_dump_json()}, "counts as frozen"),
        ({"frozen_at": 1}, "was frozen at None"),
        ({"released": 1}, "counts as released"),
        ({"released": 2}, "counts as released"),
    ],
)
def test_a_changed_computer_shows(changes: dict[str, Any], words: str) -> None:
    (one,) = computers([WELCOME], computer_row(**changes))
    assert words in one


def test_a_freeze_or_a_release_that_was_taken_away_shows() -> None:
    """And a computer that was never welcome, or that is gone."""
    thawed = computers([WELCOME, FROZEN], computer_row())
    assert [("says something else" in one, "was frozen at" in one) for one in thawed] == [(True, False), (False, True)]
    (undone,) = computers([FROZEN, RELEASED], computer_row(known=None, token="", doubtful_below=9))
    assert "the table says that it was not" in undone
    (first, *others) = computers([], computer_row())
    assert "no item says that it was ever welcome" in first
    assert len(others) == 3
    book = ComputerBook()
    for item in stream(SYSTEM_STREAM, WELCOME):
        book.take(item)
    assert said(book.faults({}, {}, Since())) == ["Computer 3 was welcome, and the table does not know it."]
    assert said(book.faults({}, {"3": computer_row()}, Since())) == []


# -- claims ------------------------------------------------------------------------------


def open_call() -> Journal:
    """A task with a call whose outcome nobody knows."""
    journal = Journal()
    journal.proposed([call("c1")], "allow")
    journal.started("c1")
    return journal


def test_a_claim_is_of_a_task_that_can_have_it() -> None:
    """One that is there, not over, with something to do there; and an open call has its claim."""
    works = Work(version=1, open=frozenset(), computers=frozenset("3"), rests=False)
    over = Work(version=1, open=frozenset(), computers=frozenset("3"), rests=True)
    busy = Work(version=1, open=frozenset("3"), computers=frozenset("3"), rests=False)

    def found(work: dict[str, Work], task: str | None, was: object = 0, streams: str = "") -> list[str]:
        after, before = {"3": {"task": task}}, {"3": {"task": task if was == 0 else was}}
        faults = claim_faults(before, after, work, streams.split())
        return [fault.detail for told_of in faults.values() for _, fault in told_of]

    assert found({"t1": works}, "t1") == found({"t1": busy}, "t1") == found({}, None) == []
    assert found({}, "t9", streams="t9") == found({"t1": busy}, None, was="t1") == []
    assert found({}, "t9") == ["Computer 3 is claimed by t9, which is not a task here."]
    assert found({"t1": over}, "t1") == ["Computer 3 is claimed by t1, which is over."]
    elsewhere = Work(version=1, open=frozenset(), computers=frozenset(), rests=False)
    assert found({"t1": elsewhere}, "t1") == ["Computer 3 is claimed by t1, which has nothing to do there."]
    assert "nobody has claimed it" in found({"t1": busy}, None)[0]
    assert "t2 has claimed it" in found({"t1": busy, "t2": works}, "t2")[0]
    assert claim_faults({}, {"3": {"task": "t9"}}, {"t1": busy}, ()) == {}


def test_what_a_task_has_to_do_with_computers() -> None:
    task = open_call().task
    idle = {"due": None, "holder": None}
    assert work_of(task, idle) == Work(task.version, frozenset("3"), frozenset({*task.computers, "3"}), rests=False)
    ended = Journal()
    ended.submitted()
    ended.ended()
    assert work_of(ended.task, idle).rests
    assert not work_of(ended.task, {"due": 1, "holder": None}).rests


# -- the queue ---------------------------------------------------------------------------


def entry(**changes: Any) -> dict[str, Any]:
    return {"due": AT, "holder": None, "lease_until": 0, "lease_for": 0, "waiting_for": None, **changes}


def test_a_task_is_held_no_longer_than_a_lease_and_taken_up_again() -> None:
    """One that has something to do is due soon or waits for a computer of its own; one that is over rests."""
    queued = Journal().submitted()
    held = entry(holder="n", due=None, lease_for=30_000_000, lease_until=AT + 30_000_000)
    assert queue_faults(entry(), queued, AT) == queue_faults(held, queued, AT) == []
    for wrong in (
        held | {"lease_until": AT + 200_000_000},
        held | {"lease_until": "x"},
        held | {"lease_for": 2**60},
        held | {"lease_for": "x"},
        entry(due=None),
        entry(due=2**60),
        entry(waiting_for="elsewhere"),
    ):
        (fault,) = queue_faults(wrong, queued, AT)
        assert fault.what == "row"
    own = open_call().task
    assert queue_faults(entry(due=None, waiting_for="3"), own, AT) == []
    ended = Journal()
    ended.submitted()
    ended.ended()
    assert queue_faults(entry(due=None), ended.task, AT) == []


def test_what_waits_for_a_person_is_due_by_its_deadline() -> None:
    """Without one it sleeps until somebody decides."""

    def waits(**more: Any) -> AgentTask:
        journal = Journal()
        journal.proposed([call("c1")], "ask")
        return journal.reviewed("c1", **more)

    assert queue_faults(entry(due=None), waits(), AT) == []
    until = NOW + timedelta(days=1)
    assert queue_faults(entry(due=to_us(until)), waits(expires_at=until), AT) == []
    for due in (None, to_us(until) + 60_000_001):
        assert len(queue_faults(entry(due=due), waits(expires_at=until), AT)) == 1
