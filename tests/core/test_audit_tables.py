"""The tables beside the journal: a row that its items do not say is told, and an honest one is not."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from orchestrator.core.approval.grants import Grant
from orchestrator.core.audit.chain import SYSTEM_STREAM
from orchestrator.core.audit.computers import ComputerBook
from orchestrator.core.audit.shared import SignInBook, Since
from orchestrator.core.audit.tables import (
    GrantBook,
    Rows,
    TokenBook,
    request_faults,
    task_row_faults,
    token_fingerprint,
)
from orchestrator.core.task import facts, system_facts
from orchestrator.core.task.facts import CallId, Fact
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.wire.wire import ComputerId, RunId
from tests.core.audited import granted, made
from tests.core.journal import NOW, Journal
from tests.core.test_audit import stream

AT = 1_893_456_000_000_000
"""NOW as rows have it."""


def said(faults: Iterable[Any]) -> list[str]:
    """The sentences."""
    return [fault.detail for fault in faults]


# -- tasks -------------------------------------------------------------------------------


def test_the_row_of_a_task_is_what_its_items_say() -> None:
    """Each column; of a long prompt its beginning; and a column that is no list at all."""
    task = Journal().task
    row = {
        "status": task.status.value,
        "user_id": task.user_id,
        "session_id": task.session_id,
        "prompt": task.prompt[:200],
        "computers": json.dumps(list(task.computers)),
        "priority": task.priority,
        "created_at": AT + round((task.created_at - NOW).total_seconds() * 1e6) if task.created_at else None,
        "updated_at": AT + round((task.updated_at - NOW).total_seconds() * 1e6) if task.updated_at else None,
        "pinned": 0,
    }
    assert task_row_faults(row, task) == []
    for name in row:
        (fault,) = task_row_faults({**row, name: "other"}, task)
        assert (fault.stream, fault.what) == (task.task_id, "row")
        assert f"has {name} " in fault.detail
    assert len(task_row_faults({**row, "computers": '{"a": 1}'}, task)) == 1


# -- grants ------------------------------------------------------------------------------


def gave(*grants: Grant) -> Fact:
    """A decision that gives them."""
    return facts.DecisionRecorded(request_id=facts.RequestId("q1"), decisions=(), grants=grants)


def started(grant_id: str | None = None, number: int = 0, computer: str | None = "3") -> Fact:
    """A call's start."""
    return facts.ToolStarted(
        call_id=CallId("c1"),
        run_id=RunId("c1.1"),
        computer=None if computer is None else ComputerId(computer),
        number=number,
        action_digest="d",
        grant_id=None if grant_id is None else GrantId(grant_id),
    )


def grant_row(grant: Grant, **changes: Any) -> dict[str, Any]:
    """Its row as it was given."""
    row = {
        "task_id": grant.task_id,
        "session_id": grant.session_id,
        "user_id": grant.user_id,
        "data": grant.model_dump_json(),
        "expires_at": None,
        "max_uses": grant.max_uses,
        "uses": 0,
        "revoked": 0,
    }
    return row | changes


def grants(news: Sequence[Fact], before: Rows, after: Rows | None = None) -> list[str]:
    """What a book of these items says of the rows; ``after`` None: nothing changed meanwhile."""
    book = GrantBook()
    for item in stream("t1", *news):
        book.take(item)
    return said(book.faults(before, before if after is None else after))


GRANT = granted(made("c1"), max_uses=3)


def test_an_honest_grant_has_no_fault() -> None:
    """Given, timed, used, taken back; and while a node is at work, given and used between the two looks."""
    row = grant_row(GRANT, uses=1)
    back = system_facts.GrantRevoked(grant_id=GRANT.grant_id)
    assert grants([gave(GRANT), started("g-1"), started()], {"g-1": row}) == []
    assert grants([gave(GRANT), back], {"g-1": grant_row(GRANT, revoked=1)}) == []
    timed = granted(made("c1"), expires_at=NOW)
    assert grants([gave(timed)], {"g-1": grant_row(timed, expires_at=AT)}) == []
    assert grants([gave(GRANT)], {}, {"g-1": row}) == []
    assert grants([gave(GRANT), started("g-1")], {"g-1": grant_row(GRANT)}, {"g-1": row | {"uses": 2}}) == []
    assert grants([gave(GRANT), back], {"g-1": grant_row(GRANT)}, {"g-1": grant_row(GRANT, revoked=1)}) == []
    assert grants([], {}, {"g-1": row}) == []
    assert grants([started("g-1")], {}, {"g-1": row}) == []


def test_grants_of_a_pruned_task_are_told_by_its_note() -> None:
    """Those that went with it may have been used elsewhere, and those of others have the uses that went with it."""
    gone = system_facts.TaskPruned(
        task_id="t9", version=3, head_hash="h", user_id="alice", created_at=NOW, updated_at=NOW
    )
    assert grants([started("g-1"), gone.model_copy(update={"grants": (GrantId("g-1"),)})], {}) == []
    used = gone.model_copy(update={"uses": {GrantId("g-1"): 2}})
    assert grants([gave(GRANT), started("g-1"), used], {"g-1": grant_row(GRANT, uses=3)}) == []
    assert "counts 1 uses" in grants([gave(GRANT), started("g-1"), used], {"g-1": grant_row(GRANT, uses=1)})[0]
    assert "was used" in grants([started("g-1"), gone], {})[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": granted(made("c1"), paths=("*",)).model_dump_json()}, "covers something else"),
        ({"data": "x"}, "covers something else"),
        ({"user_id": "bob"}, "has user_id 'bob', and the decision that gave it says 'alice'"),
        ({"task_id": "t9"}, "has task_id 't9'"),
        ({"session_id": "s9"}, "has session_id 's9'"),
        ({"expires_at": AT}, "has expires_at 1893456000000000, and the decision that gave it says None"),
        ({"max_uses": None}, "has max_uses None, and the decision that gave it says 3"),
        ({"uses": 0}, "counts 0 uses, and the items have 1"),
        ({"uses": 2}, "counts 2 uses, and the items have 1"),
        ({"uses": "x"}, "counts 'x' uses"),
        ({"revoked": 1}, "counts as taken back, and no item says by whom"),
    ],
)
def test_a_changed_grant_shows(changes: dict[str, Any], words: str) -> None:
    """Each of its columns."""
    (one,) = grants([gave(GRANT), started("g-1")], {"g-1": grant_row(GRANT, uses=1) | changes})
    assert one.startswith("The grant g-1 ")
    assert words in one


def test_grants_that_come_from_nowhere_or_are_gone_show() -> None:
    """In the table alone, in the items alone, and used without having been given; and one that stands again."""
    row = grant_row(GRANT)
    assert grants([], {"g-1": row}) == ["The grant g-1 is in the table, and no decision gave it."]
    assert grants([gave(GRANT)], {}) == ["The grant g-1 was given, and is not in the table."]
    assert grants([started("g-1")], {}) == ["The grant g-1 was used, and no decision gave it."]
    back = system_facts.GrantRevoked(grant_id=GRANT.grant_id)
    (one,) = grants([gave(GRANT), back], {"g-1": row})
    assert one == "The grant g-1 stands, and an item says that it was taken back."


# -- tokens ------------------------------------------------------------------------------


def issued(name: str, *roles: str, token: str, kind: str = "person") -> Fact:
    """A token; ``token``: its hash."""
    return system_facts.TokenIssued(holder_kind=kind, name=name, roles=roles, fingerprint=token_fingerprint(token))


def revoked(name: str) -> Fact:
    """All of theirs."""
    return system_facts.TokenRevoked(holder_kind="person", name=name, count=1)


def token_row(name: str, *roles: str, kind: str = "person", **changes: Any) -> dict[str, Any]:
    """Its row."""
    row = {"kind": kind, "name": name, "roles": json.dumps(roles), "created_at": AT + 1, "revoked": 0}
    return row | changes


def tokens(news: Sequence[Fact], before: Rows, after: Rows | None = None) -> list[str]:
    """As ``grants``."""
    book = TokenBook()
    for item in stream(SYSTEM_STREAM, *news):
        book.take(item)
    return said(book.faults(before, before if after is None else after))


def test_honest_tokens_have_no_fault() -> None:
    """One holder's several, revoked and issued anew; pairings are nobody's."""
    news = [issued("sam", "reviewer", "admin", token="h1"), revoked("sam"), revoked("eve"), issued("sam", token="h2")]
    rows = {"h1": token_row("sam", "reviewer", "admin", revoked=1), "h2": token_row("sam")}
    pairing = {"p": token_row("p-1", "3", "farm", kind="pairing")}
    assert tokens(news, {**rows, **pairing}) == []
    assert tokens([issued("sam", token="h1")], {}, {"h1": token_row("sam"), "h2": token_row("new")}) == []
    late = {"h1": token_row("sam", revoked=1)}
    assert tokens([issued("sam", token="h1"), revoked("sam")], {"h1": token_row("sam")}, late) == []
    assert tokens([issued("sam", token="h1")], {"h1": token_row("sam")}, late) == []


@pytest.mark.parametrize(
    ("before", "changes", "words"),
    [
        ([], {"roles": '["admin"]'}, "roles"),
        ([], {"roles": "x"}, "roles"),
        ([], {"name": "admin"}, "sam"),
        ([], {"kind": "agent"}, "sam"),
        ([], {"kind": "pairing"}, ""),
        ([], {"created_at": AT - 60_000_001}, "was made at"),
        ([], {"revoked": 1}, "counts as revoked, and no item says by whom"),
        ([revoked("sam")], {}, "was revoked, and the table lets it in again"),
    ],
)
def test_a_changed_token_shows(before: list[Fact], changes: dict[str, Any], words: str) -> None:
    """Each of its columns."""
    news = [issued("sam", "reviewer", token="h1"), *before]
    found = tokens(news, {"h1": token_row("sam", "reviewer") | changes})
    assert found
    assert words in " ".join(found)


def test_tokens_that_nobody_issued_or_that_are_gone_show() -> None:
    """Another hash is another token."""
    news = [issued("sam", token="h1")]
    assert tokens(news, {}) == ["A token for person sam was issued, and is not in the table."]
    gone, foreign = tokens(news, {"mine": token_row("sam")})
    assert gone == "A token for person sam was issued, and is not in the table."
    assert foreign == "A token for person sam with roles [] is in the table, and nobody issued it."


def test_a_store_without_records_says_nothing_of_tokens() -> None:
    """Nor does a task's item begin them."""
    book = TokenBook()
    book.take(stream("t1", facts.CancelRequested())[0])
    assert not book.begun
    rows = {"h1": token_row("sam")}
    assert list(book.faults(rows, rows)) == []


# -- who is signed in --------------------------------------------------------------------


def signed_in(secret: str, *replaced: str) -> Fact:
    """A browser of sam's, with the hash of its secret."""
    gone = tuple(token_fingerprint(one) for one in replaced)
    return system_facts.SignedIn(
        name="sam", fingerprint=token_fingerprint(secret), bound_to=token_fingerprint("h1"), replaced=gone
    )


def sign_in_row(**changes: Any) -> dict[str, Any]:
    """The row of the first of them."""
    return {"token_hash": "h1", "name": "sam", "begun_at": AT, "used_at": AT} | changes


def sign_ins(news: Sequence[Fact], before: Rows, after: Rows | None = None) -> list[str]:
    """As ``grants``."""
    book = SignInBook()
    for item in stream(SYSTEM_STREAM, *news):
        book.take(item)
    return said(book.faults(before, before if after is None else after, AT))


def test_honest_sign_ins_have_no_fault() -> None:
    """Used later, over by time, ended while this is read, and begun after the items were read."""
    row = sign_in_row(used_at=AT + 5)
    assert sign_ins([signed_in("s1"), system_facts.NodeStopped()], {"s1": row}) == []
    assert sign_ins([signed_in("s1")], {}) == []
    out = system_facts.SignedOut(name="sam", fingerprint=token_fingerprint("s1"))
    assert sign_ins([signed_in("s1"), out], {"s1": row}, {}) == []
    assert sign_ins([signed_in("s1"), signed_in("s2", "s1")], {"s1": row}, {}) == []
    assert sign_ins([], {}, {"s2": sign_in_row()}) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "admin"}, "A sign-in of sam is one of admin in the table."),
        ({"token_hash": "h2"}, "is bound to another token"),
        ({"begun_at": AT + 9}, "began at another time"),
        ({"used_at": AT + 60_000_001}, "was used later than now"),
        ({"used_at": "x"}, "was used later than now"),
    ],
)
def test_a_changed_sign_in_shows(changes: dict[str, Any], words: str) -> None:
    """Each of its columns but the one that moves with each use."""
    (one,) = sign_ins([signed_in("s1")], {"s1": sign_in_row(**changes)})
    assert words in one


def test_sign_ins_that_come_from_nowhere_or_came_back_show() -> None:
    """Put there by hand, signed out, or replaced by a newer one."""
    (foreign,) = sign_ins([signed_in("s1")], {"mine": sign_in_row()})
    assert foreign == "A sign-in of sam is in the table, and nobody signed in so."
    over = "A sign-in of sam is over, and the table lets it in again."
    out = system_facts.SignedOut(name="sam", fingerprint=token_fingerprint("s1"))
    for end in (out, signed_in("s2", "s1")):
        assert sign_ins([signed_in("s1"), end], {"s1": sign_in_row()}) == [over]


# -- computers and requests ----------------------------------------------------------------


def test_a_computer_is_never_below_a_number_that_was_allotted() -> None:
    """Above it may be: other numbers are allotted than those of calls."""
    book = ComputerBook()
    for item in stream("t1", started(number=4), started(number=2), started(computer=None), facts.CancelRequested()):
        book.take(item)
    assert list(book.faults({}, {"3": {"number": 4}, "9": {"number": 0}}, Since())) == []
    assert list(book.faults({}, {"3": {"number": 7}}, Since())) == []
    for rows, at in (({"3": {"number": 3}}, 3), ({"3": {"number": "x"}}, -1), ({}, 0)):
        (fault,) = book.faults({}, rows, Since())
        assert fault.detail == f"Computer 3 is at number {at}, and t1 started a call there as number 4."


def test_a_request_is_known_for_its_own_task() -> None:
    """Else whoever decides by its id would be led elsewhere, or nowhere."""
    assert request_faults(["q1", "q2"], "t1", {"q1": "t1", "q2": "t1"}) == []
    elsewhere, nowhere = said(request_faults(["q1", "q2"], "t1", {"q1": "t9"}))
    assert elsewhere == "Request q1 was raised by t1, and the table has t9."
    assert nowhere == "Request q2 was raised by t1, and the table has nothing."
