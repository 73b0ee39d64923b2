"""Notifications: which facts are told, when and in which words, and what the audit says of an outbox."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from orchestrator.core.approval.notices import (
    PAUSES_S,
    grouped,
    message_id,
    next_attempt,
    notable,
    quiet_until,
    time_of,
    told_of_computer,
    told_of_task,
)
from orchestrator.core.audit.shared import MOST_WAIT_US, DirectoryBook, outbox_faults
from orchestrator.core.errors import InvalidRequest
from orchestrator.core.policy import RiskLevel
from orchestrator.core.task.facts import Fact, ReviewRequested
from orchestrator.core.task.system_facts import ComputerFrozen, DirectoryChanged, NotifyValue
from orchestrator.core.values import to_us
from orchestrator.core.wire.wire import ComputerId, sha256_hex
from tests.core.journal import NOW, REQUEST, Journal, call, requested
from tests.core.test_audit import stream

BERLIN = ZoneInfo("Europe/Berlin")
SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


def last(journal: Journal) -> Fact:
    return journal.items[-1].fact


def told(journal: Journal, fact: Fact, *, details: bool = False) -> tuple[str, str, str]:
    """The sentence, the place on the page and the details."""
    kind = notable(fact)
    assert kind is not None
    found = told_of_task(journal.task, fact, kind, details=details)
    assert found.kind == kind
    return found.text, found.route, found.details


def waiting(*, prompt: str = "fix my farm") -> Journal:
    """A task that waits for a decision on four calls, one of which is on no computer."""
    journal = Journal()
    journal.submitted(prompt=prompt)
    calls = [
        call(f"c{at}", path="farm", content=SECRET, index=at, computer=None if at == 1 else "3") for at in range(4)
    ]
    journal.proposed(calls, *["ask"] * 4)
    journal.reviewed("c0", "c1", "c2", "c3")
    return journal


def asking() -> Journal:
    """A task with a question."""
    journal = Journal()
    journal.proposed([call("c1", "ask_user", computer=None, question="Which farm?")], "allow")
    journal.question("c1")
    return journal


def ended(**how: Any) -> Journal:
    journal = Journal()
    journal.submitted()
    journal.ended(**how)
    return journal


def test_a_request_tells_who_waits_for_what_and_leads_there() -> None:
    journal = waiting()
    request = last(journal)
    text = "A task of alice waits for a decision: cc_write on 3, cc_write, cc_write on 3 and 1 more (risk: medium)."
    assert told(journal, request) == (text, "#/approvals/q1", "")
    journal.noted("reminded")
    assert told(journal, last(journal)) == (text, "#/approvals/q1", "")
    journal.request_ended("canceled", "c0", "c1", "c2", "c3")
    assert told(journal, request)[0] == "A task of alice asked for a decision, and waits for it no more."
    assert "cc_write" not in told(journal, request, details=True)[2]


def test_a_question_and_an_end_are_told() -> None:
    journal = asking()
    question = last(journal)
    assert told(journal, question) == ("A task of alice has a question.", "#/approvals/u1", "")
    assert told(journal, question, details=True)[2] == "Task: fix my farm\nQuestion: Which farm?"
    journal.answered()
    assert told(journal, question)[0] == "A task of alice had a question, and waits for no answer any more."
    ends: dict[str, dict[str, Any]] = {
        "A task of alice is finished.": {"status": "Completed", "status_reason": "done"},
        "A task of alice was canceled.": {"status": "Canceled"},
        "A task of alice failed.": {"status": "Failed", "status_reason": "model_failed"},
        "A task of alice ended, and the journal does not support the success that it claims.": {
            "status": "Completed",
            "verified": False,
        },
    }
    for text, how in ends.items():
        over = ended(**how)
        assert told(over, last(over)) == (text, "#/tasks/t1", "")
        assert notable(last(over)) == ("failed" if "failed" in text or "support" in text else "finished")
    over = ended(status="Failed", status_reason="model_failed", message=f"the key was {SECRET}")
    assert told(over, last(over), details=True)[2].startswith("Task: fix my farm\nResult: the key was [redacted ")


def test_details_have_no_secret_and_an_end() -> None:
    journal = waiting(prompt=f"use {SECRET} " + "x" * 5_000)
    details = told(journal, last(journal), details=True)[2]
    assert SECRET not in details
    assert "cc_write: " in details
    assert len(details) < 3_200


def test_a_diff_is_told_only_with_details() -> None:
    journal = Journal()
    journal.proposed([call("c1", path="farm", content="new")], "ask")
    shown = requested("c1")
    diff = "-old\n+new\n"
    shown = shown.model_copy(update={"observed": shown.observed.model_copy(update={"diff": diff})})
    journal.add(
        ReviewRequested(request_id=REQUEST, reason="approval", calls=(shown,), risk=RiskLevel.LOW, policy_version="v")
    )
    assert told(journal, last(journal))[2] == ""
    assert told(journal, last(journal), details=True)[2] == f"Task: fix my farm\ncc_write: {diff}"


def test_nothing_else_is_told() -> None:
    journal = waiting()
    assert [notable(item.fact) for item in journal.items] == [None] * 4 + ["waits_for_you"]
    journal.noted("viewed")
    assert notable(last(journal)) is None


def test_a_frozen_computer_is_told() -> None:
    fact = ComputerFrozen(computer=ComputerId("my farm"), reason="journal_lost")
    assert notable(fact) == "frozen"
    found = told_of_computer(fact)
    assert found.text.startswith("Computer my farm is frozen: its journal is gone")
    assert found.route == "#/computers/my%20farm"


def test_a_message_lists_its_events_and_has_one_id() -> None:
    journal = ended(status="Completed", status_reason="done")
    one = told_of_task(journal.task, last(journal), "finished", details=True)
    assert grouped([one], "http://p") == f"A task of alice is finished. http://p/#/tasks/t1\n{one.details}"
    lines = grouped([told_of_task(journal.task, last(journal), "finished", details=False)] * 22, "http://p").split("\n")
    assert (lines[0], len(lines)) == ("22 events came in your quiet hours:", 22)
    assert lines[-1] == "2 more are on http://p/"
    assert message_id(["a", "b"]) == message_id(["b", "a"]) != message_id(["a"])


def test_attempts_come_with_growing_pauses_and_end() -> None:
    times = [next_attempt(tried, NOW) for tried in range(1, len(PAUSES_S) + 2)]
    assert times == [*(NOW + timedelta(seconds=pause) for pause in PAUSES_S), None]
    assert list(PAUSES_S) == sorted(PAUSES_S)


@pytest.mark.parametrize(
    ("now", "hours", "until"),
    [
        ("2030-01-01 21:59", ("22:00", "07:00"), None),
        ("2030-01-01 22:00", ("22:00", "07:00"), "2030-01-02 07:00"),
        ("2030-01-02 06:59", ("22:00", "07:00"), "2030-01-02 07:00"),
        ("2030-01-02 07:00", ("22:00", "07:00"), None),
        ("2030-01-02 12:30", ("12:00", "13:00"), "2030-01-02 13:00"),
        ("2030-01-02 13:00", ("12:00", "13:00"), None),
        ("2030-01-02 13:00", ("08:00", "08:00"), None),
        ("2030-01-02 13:00", ("", ""), None),
        # The clocks go forward that night: the hours end by the clock on the wall.
        ("2030-03-30 23:00", ("22:00", "07:00"), "2030-03-31 07:00"),
    ],
)
def test_quiet_hours_end_by_the_clock_on_the_wall(now: str, hours: tuple[str, str], until: str | None) -> None:
    found = quiet_until(datetime.fromisoformat(now).replace(tzinfo=BERLIN), *hours)
    assert found == (None if until is None else datetime.fromisoformat(until).replace(tzinfo=BERLIN))


def test_the_night_on_which_the_clocks_change_is_an_hour_shorter() -> None:
    begin = datetime(2030, 3, 30, 22, 0, tzinfo=BERLIN)
    until = quiet_until(begin, "22:00", "07:00")
    assert until is not None
    assert until.astimezone(UTC) - begin.astimezone(UTC) == timedelta(hours=8)


@pytest.mark.parametrize("text", ["24:00", "7:00", "07:60", "", "07:00 ", "soon"])
def test_another_time_of_day_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="no time of day"):
        time_of(text)


# -- what the audit says -------------------------------------------------------------------

AT = to_us(NOW)


def row(**changes: Any) -> dict[str, Any]:
    plain = {"notice": "t1.5", "stream": "t1", "version": 5, "kind": "failed", "rule": "", "state": "new"}
    return {**plain, "made_at": AT, "due": AT, "attempts": 0, "batch": "", "why": "", **changes}


DELIVERY: Mapping[str, Any] = {"notice": "t1.5 ann/phone", "rule": "ann/phone", "state": "waiting"}


@pytest.mark.parametrize(
    "changes",
    [{}, DELIVERY, {**DELIVERY, "due": AT + MOST_WAIT_US, "attempts": 7}, {**DELIVERY, "state": "sent", "due": None}],
)
def test_a_row_of_ours_is_sound(changes: Mapping[str, Any]) -> None:
    assert list(outbox_faults({"t1.5": row(**changes)}, AT)) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"notice": "mine"},
        {"version": "x"},
        {"kind": "mine"},
        {"rule": None},
        {"due": 0.5},
        {"state": "mine"},
        {"state": "waiting"},
        {**DELIVERY, "state": "new"},
        {**DELIVERY, "due": None},
        {**DELIVERY, "state": "dead"},
        {**DELIVERY, "attempts": 8},
        {**DELIVERY, "attempts": -1},
        {"made_at": AT + 10**12},
        {"made_at": "x"},
        {"due": AT + MOST_WAIT_US + 10**8},
        {"due": "x"},
    ],
)
def test_a_row_that_no_version_writes_is_found(changes: Mapping[str, Any]) -> None:
    assert [one.what for one in outbox_faults({"t1.5": row(**changes)}, AT)] == ["outbox"]


def rule(secret: str) -> NotifyValue:
    return NotifyValue(kinds=("failed",), target=sha256_hex(secret.encode()), shown="https://h/…")


def secret_faults(before: list[str], after: Mapping[str, str]) -> list[str]:
    """What is said of these addresses, where the rules of ``before`` are set, then one of them is removed."""
    book = DirectoryBook()
    news: list[Fact] = [DirectoryChanged(about="notify", name=f"/{one}", value=rule(one)) for one in (*before, "gone")]
    for item in stream("system", *news, DirectoryChanged(about="notify", name="/gone")):
        book.take(item)
    rows = {key: {"sha256": key, "value": value} for key, value in after.items()}
    return [one.detail for one in book.secret_faults(rows, rows)]


def test_an_address_is_the_one_of_its_rule() -> None:
    one, other = sha256_hex(b"one"), sha256_hex(b"other")
    assert secret_faults(["one"], {one: "one"}) == []
    assert secret_faults(["one"], {one: "changed"}) == ["The address of 'notify /one' is not the one that was set."]
    assert secret_faults(["one"], {}) == ["The address of 'notify /one' is not in the table."]
    (extra,) = secret_faults(["one"], {one: "one", other: "other"})
    assert "no rule names it" in extra
    assert "other" not in extra
    book = DirectoryBook()
    assert list(book.secret_faults({}, {other: {"sha256": other, "value": "new meanwhile"}})) == []
