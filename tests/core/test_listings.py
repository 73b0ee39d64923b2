"""What is on a computer at one moment, and what has to change so that it is so again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.errors import NotFound
from orchestrator.core.undo.plan import (
    ANYTHING,
    Found,
    Listed,
    Listing,
    differences,
    extras,
    goals_to,
    plan,
    read_listing,
)
from orchestrator.core.undo.touches import ABSENT, DIRECTORY, Place
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.wire.wire import ComputerId, sha256_hex
from tests.core.trees import digest

FARM = ComputerId("farm")
A, B = digest(b"a"), digest(b"b")
OLD = Listing({"a": A, "d": DIRECTORY, "d/b": B, "same": A})
NEW = Listing({"a": B, "e": A, "same": A})
NAMES = st.text(st.sampled_from("ab./ \udcff\xfc"), min_size=1, max_size=4)


def wanted(**how: object) -> Restoration:
    return Restoration.model_validate({"listing": "0" * 64, "computer": FARM, **how})


@given(st.dictionaries(NAMES, st.sampled_from([A, B, DIRECTORY])))
def test_its_lines_say_all_of_it(states: dict[str, str]) -> None:
    assert read_listing(Listing(states).lines).states == states


def test_its_lines_are_those_that_a_computer_takes_the_hash_over() -> None:
    assert OLD.lines == f"a\0file\0{A}\nd\0directory\0-\nd/b\0file\0{B}\nsame\0file\0{A}\n".encode()
    assert OLD.files == {"a": A, "d/b": B, "same": A}


def test_what_is_found_at_a_path() -> None:
    inside = f"b\0file\0{B}\n".encode()
    assert OLD.found("a") == Found(A)
    assert OLD.found("nothing") == Found(ABSENT)
    assert OLD.found("d") == Found(DIRECTORY, ("b",), tree=sha256_hex(inside))
    assert OLD.only(lambda path: path.startswith("d")).states == {"d": DIRECTORY, "d/b": B}


def test_what_differs() -> None:
    assert differences(OLD, OLD) == {}
    assert differences(OLD, NEW) == {"a": (A, B), "d": (DIRECTORY, ABSENT), "d/b": (B, ABSENT), "e": (ABSENT, A)}


def test_all_that_the_target_has_is_put_back_whatever_is_there() -> None:
    goals = goals_to(OLD, wanted(), present=NEW)
    assert {(one.place.path, one.target, one.expected) for one in goals} == {
        (path, state, ANYTHING) for path, state in OLD.states.items()
    }
    entries = plan(goals, {one.place: NEW.found(one.place.path) for one in goals}, wanted())
    assert {one.place.path: one.verdict for one in entries} == {
        "a": "restore", "d": "restore", "d/b": "restore", "same": "nothing"
    }  # fmt: skip


def test_only_an_exact_one_removes_what_came_since() -> None:
    goals = goals_to(OLD, wanted(exact=True), present=NEW)
    assert ("e", ABSENT) in {(one.place.path, one.target) for one in goals}
    assert "e" not in {one.place.path for one in goals_to(OLD, wanted(exact=True))}


def test_with_a_base_only_what_differs_is_changed_and_what_somebody_changed_stays() -> None:
    goals = goals_to(NEW, wanted(base="1" * 64, exact=True), base=OLD, present=OLD)
    now = Listing({**OLD.states, "a": digest(b"somebody"), "mine": A})
    entries = plan(goals, {one.place: now.found(one.place.path) for one in goals}, wanted())
    assert {one.place.path: one.verdict for one in entries} == {
        "a": "conflict", "d": "remove", "d/b": "remove", "e": "restore"
    }  # fmt: skip


def test_only_the_wanted_paths() -> None:
    (goal, inside) = goals_to(OLD, wanted(paths=("d",)))
    assert (goal.place, inside.place) == (Place(FARM, "d"), Place(FARM, "d/b"))


def test_what_a_listing_cannot_tell_of_is_left_where_it_is() -> None:
    """With what is below it, and nothing that is only called alike; an empty path: all that it does not have."""
    present = Listing({"e": A, "e/f": B, "early": A, "a": B})
    for leaves, going in (((), {"e", "e/f", "early"}), (("e",), {"early"}), (("",), set())):
        how = wanted(exact=True, leaves=leaves)
        goals = goals_to(OLD, how, present=present)
        assert {one.place.path for one in goals if one.target == ABSENT} == going
        assert ("a", A) in {(one.place.path, one.target) for one in goals}
    assert not wanted().removes("e")


def test_how_far_a_listing_tells() -> None:
    """Not of another disk, and not of what was skipped."""
    listed = Listed(OLD, {"d/large": "It is too large."})
    assert [listed.tells_of(path) for path in ("a", "d/new", "d/large", "d/large/x", "disk/a")] == [
        True, True, False, False, False
    ]  # fmt: skip


@pytest.mark.parametrize(
    "lines", [b"rest", b"a\n", b"a\0file\0\n", b"a\0file\0beef\n", b"a\0b\0file\0" + b"0" * 64 + b"\n", b"\n"]
)
def test_lines_that_cannot_be_read_are_as_good_as_gone(lines: bytes) -> None:
    """Whoever needs them does as where they are not there."""
    with pytest.raises(NotFound, match="cannot be read"):
        read_listing(lines)


def test_an_exact_one_removes_only_what_was_there_at_its_first_look_and_is_so_still() -> None:
    how = wanted(exact=True)
    first = Listing({"a": B, "e": A, "log": A})
    now = Listing({"a": B, "e": A, "log": B, "new": A})
    goals = goals_to(OLD, how, present=now, first=first)
    entries = plan(goals, {one.place: now.found(one.place.path) for one in goals}, how)
    verdicts = {one.place.path: one.verdict for one in entries}
    assert {path: verdicts[path] for path in ("e", "log")} == {"e": "remove", "log": "conflict"}
    assert "new" not in verdicts
    assert set(extras(OLD, how, now)) == {"e", "log", "new"}
    assert extras(OLD, wanted(exact=True, paths=("e",)), now) == ("e",)
