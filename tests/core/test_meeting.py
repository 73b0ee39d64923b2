"""Who is frozen and who is welcome: every sign that a disk or a store was put back, or that a token was copied."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from orchestrator.core.audit.computers import ComputerBook
from orchestrator.core.policy import MAX_FORMER_LABELS
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import SYSTEM, Draft, ItemId, seal
from orchestrator.core.task.system_facts import (
    ComputerFrozen,
    ComputerLabelled,
    ComputerSide,
    ComputerWelcomed,
    FreezeReason,
)
from orchestrator.core.wire import wire
from orchestrator.core.wire.identity import (
    COPIES,
    ComputerRecord,
    Heard,
    Verdict,
    copied_remedy,
    copied_sentence,
    former_labels,
    frozen_remedy,
    frozen_sentence,
    judge,
    labelled,
    why_frozen,
)
from orchestrator.core.wire.wire import ComputerId

AT = datetime(2030, 1, 1, tzinfo=UTC)
FARM = ComputerId("farm")
WELCOME = Verdict()


def side(computer_id: int = 3) -> ComputerSide:
    return ComputerSide(computer_id=computer_id, boot="b1", at=AT)


KNOWN = ComputerRecord(FARM, number=40, heard=50, known=side(), token="h1")


def judged(
    record: ComputerRecord,
    *,
    computer_id: int = 3,
    token: str = "h1",
    paired_anew: bool = False,
    paired_id: int | None = None,
    **changes: Any,
) -> Verdict:
    values: dict[str, Any] = {
        "protocol": 1, "computer_id": computer_id, "host": "", "family": "computer", "boot": "b2", "client": "1",
        "highest": 40, "journal_seq": 60, **changes,
    }  # fmt: skip
    token = "h3" if paired_anew else token
    hello = wire.Hello(**values)
    return judge(record, hello, side(computer_id), token=token, paired_anew=paired_anew, paired_id=paired_id)


@pytest.mark.parametrize("found_seq", [None, 50, 51, 10**12])
def test_a_reconnect_and_a_reboot_are_welcome(found_seq: int | None) -> None:
    """A journal that is at least as new as what was heard, and no number above the store's."""
    assert judged(KNOWN, found_seq=found_seq) == WELCOME


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"found_seq": 49}, "disk_restored"),
        ({"found_seq": 1}, "disk_restored"),
        ({"found_seq": 0}, "journal_lost"),
        ({"highest": 41}, "store_restored"),
        ({"computer_id": 4, "token": "h2"}, "other_computer"),
        ({"computer_id": 4, "token": "h2", "found_seq": 0, "highest": 99}, "other_computer"),
        ({"found_seq": 3, "highest": 99}, "disk_restored"),
    ],
)
def test_what_does_not_fit_freezes(changes: dict[str, Any], reason: FreezeReason) -> None:
    """An older journal, none, a number that the store never allotted, another id: with what was compared."""
    freeze = judged(KNOWN, **changes).freeze
    assert freeze is not None
    assert (freeze.computer, freeze.reason) == (FARM, reason)
    assert freeze.facts == {
        "heard": 50,
        "number": 40,
        "highest": changes.get("highest", 40),
        **({"found_seq": changes["found_seq"]} if "found_seq" in changes else {}),
    }
    assert freeze.sides == (side(), side(changes.get("computer_id", 3)))


@pytest.mark.parametrize(
    ("record", "changes", "copy_of"),
    [
        (KNOWN, {}, 3),
        (KNOWN, {"found_seq": 0, "highest": 99}, 3),
        (replace(KNOWN, token=""), {}, 3),
        (KNOWN, {"paired_id": 4}, 3),
        (ComputerRecord(FARM), {"paired_id": 3}, 3),
        (KNOWN, {"paired_anew": True, "paired_id": 7}, 7),
        (ComputerRecord(FARM), {"paired_id": 4}, None),
        (ComputerRecord(FARM), {}, None),
        (replace(KNOWN, released=True), {"paired_id": 3}, None),
        (KNOWN, {"paired_anew": True, "paired_id": 4}, None),
        (KNOWN, {"token": "h2"}, None),
    ],
)
def test_a_copied_folder_is_told_from_the_computer_by_its_id(
    record: ComputerRecord, changes: dict[str, Any], copy_of: int | None
) -> None:
    """Who was welcome last with the token, else who typed the code, is the computer; it is not frozen for its copy."""
    verdict = judged(record, computer_id=4, **changes)
    assert verdict.copy_of == copy_of
    assert copy_of is None or verdict == Verdict(copy_of=copy_of)


def test_a_copy_is_told_so() -> None:
    """Both numbers, what goes on, and both ways to mend it."""
    assert copied_sentence(FARM, 3, 4) == (
        "The client's folder here is a copy: it has the token of computer farm, which is number 3 in the game, and "
        "this is number 4. Nothing is sent here; farm goes on."
    )
    assert copied_remedy(FARM) == (
        "For a name of its own make a code with `cc-orchestrator pair` and type its line here. If this is to be farm "
        "from now on, make it with `cc-orchestrator pair farm`."
    )


def test_a_computer_that_the_store_never_met_is_welcome() -> None:
    """A new store, or one that was put back to before it knew the computer, has nothing open there."""
    assert judged(ComputerRecord(FARM), highest=77, found_seq=60) == WELCOME
    assert judged(ComputerRecord(FARM), highest=0, found_seq=0) == WELCOME


def test_a_first_boot_whose_welcome_was_lost_is_welcome_but_in_doubt() -> None:
    """It looks the same as a lost journal of which nothing was heard yet."""
    met = ComputerRecord(FARM, number=1, known=side(), token="h1")
    assert judged(met, highest=0, found_seq=0) == Verdict(doubt=True)


def test_a_store_of_an_older_release_has_heard_of_nobody_and_freezes_only_for_its_number() -> None:
    """Nothing was kept of a computer but its number."""
    old = ComputerRecord(FARM, number=9)
    assert judged(old, highest=9, found_seq=4) == WELCOME
    freeze = judged(old, highest=10).freeze
    assert freeze is not None
    assert (freeze.reason, freeze.sides) == ("store_restored", (side(),))


@pytest.mark.parametrize(
    ("changes", "doubt"), [({"found_seq": 50}, False), ({"found_seq": 2}, True), ({"computer_id": 4}, True)]
)
def test_a_new_token_is_a_decision(changes: dict[str, Any], doubt: bool) -> None:
    """Whoever was paired anew is welcome; what does not fit puts what is open in doubt."""
    assert judged(KNOWN, paired_anew=True, **changes) == Verdict(fresh=True, doubt=doubt)


def test_after_a_release_whoever_comes_next_is_welcome() -> None:
    """A person decided."""
    released = ComputerRecord(FARM, number=90, heard=50, doubtful_below=90, known=side(), token="h1", released=True)
    assert judged(released, computer_id=8, found_seq=0) == Verdict(fresh=True, doubt=True)
    assert judged(released, found_seq=60) == Verdict(fresh=True)


@pytest.mark.parametrize("reason", get_args(FreezeReason))
def test_each_reason_is_a_sentence_with_a_remedy(reason: FreezeReason) -> None:
    """What happened, and what to type; of copies also that one of them has to go first."""
    fact = ComputerFrozen(computer=FARM, reason=reason)
    assert why_frozen(reason) in frozen_sentence(fact)
    assert "`cc-orchestrator computers release farm`" in frozen_remedy(fact)
    assert ("pair it anew" in frozen_remedy(fact)) == (reason in COPIES)
    assert len(frozen_sentence(fact)) < 512 > len(frozen_remedy(fact))


@pytest.mark.parametrize(
    ("record", "heard", "highest"),
    [
        (KNOWN, Heard(60, "b1"), 60),
        (KNOWN, Heard(49, "b1"), 50),
        (KNOWN, Heard(60, "b0"), 50),
        (ComputerRecord(FARM), Heard(60, "b0"), 60),
    ],
)
def test_word_of_an_earlier_boot_counts_for_nothing(record: ComputerRecord, heard: Heard, highest: int) -> None:
    """It may come late, from another node, when a newer boot is welcome."""
    assert record.heard_with(heard) == highest


def test_a_computer_keeps_the_labels_that_it_had() -> None:
    """All but the present one, oldest first, up to a limit; paired anew, it begins with the label of then."""

    def came(known: ComputerSide | None, label: str, *, anew: bool = False) -> ComputerSide:
        former = former_labels(known, label, paired_anew=anew)
        return side().model_copy(update={"label": label, "former_labels": former})

    first = came(None, "reactor")
    assert first.former_labels == came(first, "reactor").former_labels == ()
    second = came(came(first, ""), "farm")
    assert second.former_labels == ("reactor", "")
    assert came(second, "reactor").former_labels == ("", "farm")
    assert came(second, "house", anew=True).former_labels == ()
    known = first
    for n in range(MAX_FORMER_LABELS + 5):
        known = came(known, f"farm {n}")
    assert known.former_labels[0] == "reactor"
    assert len(known.former_labels) == MAX_FORMER_LABELS


def test_a_label_is_kept_while_there_is_room_for_it() -> None:
    """A known one changes nothing; where as many are kept as there may be, only a confirmed one does."""
    known = side().model_copy(update={"label": "farm", "former_labels": ("house",)})
    assert labelled(known, "house", ("farm",), confirmed=False) is None
    grown = labelled(known, "reactor", (), confirmed=False)
    assert grown is not None
    assert (grown.label, grown.former_labels) == ("reactor", ("house", "farm"))
    full = known.model_copy(update={"former_labels": tuple(str(n) for n in range(MAX_FORMER_LABELS))})
    assert labelled(full, "reactor", (), confirmed=False) is None
    confirmed = labelled(full, "reactor", (), confirmed=True)
    assert confirmed is not None
    assert (confirmed.label, confirmed.former_labels) == ("reactor", ())
    assert labelled(confirmed, "reactor", (), confirmed=True) is None


def test_the_audit_takes_a_new_label_for_one_of_the_computer_that_was_welcome() -> None:
    """Of one that was never welcome a label says nothing."""
    book = ComputerBook()
    label = ComputerLabelled(computer=ComputerId("3"), label="farm", former_labels=("reactor",))
    welcome = ComputerWelcomed(computer=ComputerId("3"), side=side())
    told: tuple[ComputerLabelled | ComputerWelcomed, ...] = (label, welcome, label)
    for version, fact in enumerate(told, start=1):
        draft = Draft(item_id=ItemId(f"i{version}"), at=side().at, actor=SYSTEM, fact=fact)
        book.take(seal(draft, task_id=TaskId("system"), version=version, prev_hash="0" * 64))
        known = book.told["3"].welcomed
        assert (known is not None and known.side.former_labels) == (False, (), ("reactor",))[version - 1]
