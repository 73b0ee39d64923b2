"""What is on a computer at one moment, and what has to change so that it is so again."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.restoring.listings import Listing, differences, goals_to, read_listing
from orchestrator.core.restoring.planning import ANYTHING, Found, plan
from orchestrator.core.restoring.touches import ABSENT, DIRECTORY, Place
from orchestrator.core.restoring.wanted import Restoration
from orchestrator.core.wire import ComputerId, sha256_hex
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
