"""Putting files back: what the items say was changed, and what is done about it by what is there now."""

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId
from orchestrator.core.undo import plan as planning
from orchestrator.core.undo.plan import Entry, Found, Goal, Op, beside, goals_of, ops_of, plan, progressed
from orchestrator.core.undo.touches import ABSENT, DIRECTORY, Changes, Place, Touch, place_of
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.wire.wire import ComputerId, RunId
from tests.core.journal import call, decision, start_of
from tests.core.trees import COMPUTER, Disk, digest

UNDO = Restoration(task_id="t1")
Refuses = Callable[[Op], bool]


def nothing(_: Op) -> bool:
    """What a computer refuses that does all that it is told."""
    return False


def entries(disk: Disk, wanted: Restoration = UNDO, own: Changes | None = None) -> dict[str, Entry]:
    """The plan, by path."""
    goals = progressed(goals_of(disk.changed(), wanted), own or Changes())
    return {entry.place.path: entry for entry in plan(goals, found(disk, goals), wanted)}


def found(disk: Disk, goals: tuple[Goal, ...]) -> Mapping[Place, Found | None]:
    """What is in each place."""
    return {goal.place: disk.found(goal.place) for goal in goals}


def undo(disk: Disk, wanted: Restoration = UNDO, *, rounds: int = 1, refuses: Refuses = nothing) -> dict[str, Entry]:
    """Round after round until nothing is left to do; the last plan. ``rounds``: how many it may take at most.

    ``refuses``: the calls that the computer does not do.
    """
    own: list[Touch] = []
    vain: set[Op] = set()
    for _ in range(rounds):
        for op in ops_of(list(entries(disk, wanted, Changes(tuple(own))).values()), in_vain=vain.__contains__):
            if refuses(op):
                vain.add(op)
                continue
            for below in disk.below(op.place.path):
                path = f"{op.place.path}/{below}"
                own.append(Touch(1, CallId("u"), "cc_restore", Place(COMPUTER, path), disk.state(path), ABSENT))
            own.append(Touch(1, CallId("u"), "cc_restore", op.place, disk.state(op.place.path), op.to))
            disk.do(op)
            vain.clear()
    planned = entries(disk, wanted, Changes(tuple(own)))
    assert ops_of(list(planned.values())) == (), "it is not done"
    return planned


def verdicts(planned: dict[str, Entry]) -> dict[str, str]:
    return {path: entry.verdict for path, entry in planned.items()}


# -- one change of each kind ---------------------------------------------------------------


def test_a_file_that_was_written_over_gets_its_bytes_back() -> None:
    disk = Disk({"farm.lua": b"old"})
    disk.write("farm.lua", b"new")
    disk.write("farm.lua", b"newer")
    assert verdicts(entries(disk)) == {"farm.lua": "restore"}
    assert verdicts(undo(disk)) == {"farm.lua": "nothing"}
    assert disk.tree == {"farm.lua": b"old"}


def test_a_new_file_goes_with_the_directories_that_it_made() -> None:
    disk = Disk({"lib": None})
    disk.write("lib/a/b/new.lua", b"1")
    assert verdicts(entries(disk)) == {"lib/a": "remove", "lib/a/b": "remove", "lib/a/b/new.lua": "remove"}
    undo(disk)
    assert disk.tree == {"lib": None}


def test_a_tree_that_was_moved_and_deleted_comes_back() -> None:
    """Leaf by leaf, an empty directory and an empty file among them."""
    tree: dict[str, bytes | None] = {"d": None, "d/a": b"1", "d/sub": None, "d/sub/b": b"", "d/empty": None}
    disk = Disk(tree)
    disk.move("d", "e/f")
    disk.write("e/f/a", b"2")
    disk.delete("e")
    undo(disk)
    assert disk.tree == tree


def test_a_file_where_a_directory_was_and_the_other_way_about() -> None:
    tree: dict[str, bytes | None] = {"a": b"1", "d": None, "d/x": b"2"}
    disk = Disk(tree)
    disk.delete("a")
    disk.write("a/inside", b"3")
    disk.delete("d")
    disk.write("d", b"4")
    ops = ops_of(list(entries(disk).values()))
    assert [(op.place.path, op.replaces) for op in ops] == [("d", "file"), ("a", "directory"), ("d/x", "")]
    undo(disk)
    assert disk.tree == tree


def test_where_nothing_can_take_the_place_of_another_kind_that_goes_first() -> None:
    """As of an older client, or a full disk: a second round has what comes."""
    tree: dict[str, bytes | None] = {"a": b"1", "d": None, "d/x": b"2", "d/sub": None}
    disk = Disk(tree)
    disk.delete("a")
    disk.write("a/inside/of", b"3")
    disk.delete("d")
    disk.write("d", b"4")
    undo(disk, rounds=3, refuses=lambda op: op.replaces != "" or not disk.can_hold(op.place.path))
    assert disk.tree == tree


def test_a_directory_that_is_too_large_goes_piece_by_piece_before_a_file_takes_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning, "MAX_TREE_FILES", 1)
    disk = Disk({"a": b"1"})
    disk.delete("a")
    disk.write("a/b", b"2")
    disk.write("a/c", b"3")
    assert {op.replaces for op in ops_of(list(entries(disk).values()))} == {""}
    undo(disk, rounds=3)
    assert disk.tree == {"a": b"1"}


def test_on_this_host_another_kind_goes_first() -> None:
    goal = Goal(Place(None, "a"), digest(b"1"), DIRECTORY, 1)
    there = {goal.place: Found(DIRECTORY, (), DIRECTORY)}
    assert ops_of(plan([goal], there, UNDO)) == (planning.Op(goal.place, ABSENT, DIRECTORY),)


@pytest.mark.parametrize("to", ["directory", "absent"])
def test_a_file_may_be_moved_to_a_place_that_is_called_like_a_state(to: str) -> None:
    disk = Disk({"a": b"1"})
    disk.move("a", to)
    assert {touch.place.path: touch.after for touch in disk.changed().touches} == {"a": ABSENT, to: digest(b"1")}
    undo(disk)
    assert disk.tree == {"a": b"1"}


def test_a_call_that_failed_changed_nothing() -> None:
    disk = Disk({"a": b"1"})
    disk.fail("a")
    assert (disk.changed().touches, disk.changed().untold) == ((), ())


# -- what somebody did ---------------------------------------------------------------------


def test_what_somebody_changed_since_stays() -> None:
    """Changed, removed, put there, and put into a directory that is to go: each says so."""
    disk = Disk({"changed": b"1", "removed": b"1", "deleted": b"1"})
    for path in ("changed", "removed", "new/file"):
        disk.write(path, b"2")
    disk.delete("deleted")
    disk.by_hand("changed", b"3")
    disk.by_hand("removed", None)
    disk.by_hand("deleted", b"4")
    disk.by_hand("new/mine", b"5")
    after = dict(disk.tree)
    planned = undo(disk)
    assert {path: entry.why for path, entry in planned.items() if entry.verdict == "conflict"} == {
        "changed": "Somebody changed it since.",
        "removed": "Somebody removed it since.",
        "deleted": "Somebody put something there since.",
        "new": "It is not empty: mine would stay in it.",
    }
    del after["new/file"]
    assert disk.tree == after


def test_what_was_written_over_with_the_same_bytes_was_not_changed() -> None:
    disk = Disk({"a": b"1"})
    disk.write("a", b"1")
    disk.by_hand("a", b"mine")
    assert entries(disk) == {}


def test_many_that_stay_in_a_directory_are_counted() -> None:
    disk = Disk()
    disk.mkdir("d")
    for name in "abcde":
        disk.by_hand(f"d/{name}", b"")
    assert entries(disk)["d"].why == "It is not empty: a, b, c and 2 more would stay in it."


def test_what_somebody_made_of_it_between_two_changes_comes_back() -> None:
    """Their bytes, not those from before the task."""
    disk = Disk({"a": b"1"})
    disk.write("a", b"2")
    disk.by_hand("a", b"mine")
    disk.write("a", b"3")
    assert "between steps 1 and 2" in entries(disk)["a"].why
    undo(disk)
    assert disk.tree == {"a": b"mine"}


def test_what_is_as_it_was_needs_nothing() -> None:
    disk = Disk({"a": b"1"})
    disk.write("a", b"2")
    disk.by_hand("a", b"1")
    assert verdicts(entries(disk)) == {"a": "nothing"}


@pytest.mark.parametrize(("chosen", "left"), [("keep", b"3"), ("restore", b"1"), ("beside", b"3")])
def test_a_person_chooses_what_becomes_of_a_conflict(chosen: str, left: bytes) -> None:
    """For all, or for a single place, which is named as it is shown."""
    for wanted in (
        Restoration(task_id="t1", on_conflict=chosen),  # type: ignore[arg-type]
        Restoration(task_id="t1", on_conflict="keep", choices={"3:a": chosen}),  # type: ignore[dict-item]
    ):
        disk = Disk({"a": b"1"})
        disk.write("a", b"2")
        disk.by_hand("a", b"3")
        planned = entries(disk, wanted)["a"]
        assert (beside(planned, wanted) is not None) is (chosen == "beside")
        undo(disk, wanted)
        assert disk.tree == {"a": left}


@pytest.mark.parametrize("chosen", ["keep", "beside"])
def test_what_is_chosen_to_stay_stays_also_where_nobody_changed_it(chosen: str) -> None:
    wanted = Restoration(task_id="t1", on_conflict="restore", choices={"3:a": chosen})  # type: ignore[dict-item]
    disk = Disk({"a": b"1", "b": b"1"})
    disk.write("a", b"2")
    disk.write("b", b"2")
    planned = entries(disk, wanted)
    assert (verdicts(planned), planned["a"].why) == ({"a": "conflict", "b": "restore"}, "It was chosen to stay.")
    assert (beside(planned["a"], wanted) is not None) is (chosen == "beside")


def test_what_is_below_a_place_that_is_refused_has_no_place() -> None:
    """Neither a file in a directory that is not made, nor a directory in it; what goes may go."""
    disk = Disk({"d": None, "d/x": b"1", "d/e": None, "d/e/y": b"2", "f": b"3"})
    disk.delete("d")
    disk.write("f", b"4")
    disk.write("d", b"5")
    ops = ops_of(list(entries(disk).values()))
    refused = {Place(COMPUTER, "d")}
    assert {place.path for place in planning.without_place(ops, refused)} == {"d/x", "d/e", "d/e/y"}
    removal = planning.Op(Place(COMPUTER, "d/z"), ABSENT, digest(b"z"))
    assert planning.without_place([removal], refused) == set()


def test_beside_is_a_file_that_says_whose_undo_it_was() -> None:
    wanted = Restoration(task_id="t1", on_conflict="beside")
    disk = Disk({"a": b"1"})
    disk.write("a", b"2")
    disk.mkdir("d")
    disk.by_hand("a", b"3")
    disk.by_hand("d/x", b"4")
    planned = entries(disk, wanted)
    assert beside(planned["a"], wanted) == Place(COMPUTER, "a.before-t1")
    assert beside(planned["d"], wanted) is None


def test_a_directory_is_never_trampled() -> None:
    """Whatever was chosen: neither one that somebody put where a file was, nor one that is not empty."""
    wanted = Restoration(task_id="t1", on_conflict="restore")
    disk = Disk({"a": b"1"})
    disk.write("a", b"2")
    disk.by_hand("a", None)
    disk.by_hand("a/x", b"3")
    disk.mkdir("d")
    disk.by_hand("d/x", b"4")
    before = dict(disk.tree)
    assert set(verdicts(undo(disk, wanted)).values()) == {"conflict"}
    assert disk.tree == before


def test_nothing_comes_under_a_file_that_somebody_put_there() -> None:
    """Neither where the task had a directory, nor where nobody but them changed anything."""
    disk = Disk({"d": None, "d/x": b"1", "e": None, "e/y": b"2"})
    disk.delete("d")
    disk.delete("e/y")
    for path in ("d", "e"):
        disk.by_hand(path, None)
        disk.by_hand(path, b"mine")
    planned = undo(disk, Restoration(task_id="t1", on_conflict="restore"))
    assert {path: entry.why for path, entry in planned.items() if entry.verdict == "conflict"} == {
        "d": "Somebody put something there since.",
        "d/x": "d is a file now, and nothing can be in it.",
        "e/y": "e is a file now, and nothing can be in it.",
    }
    assert disk.tree == {"d": b"mine", "e": b"mine"}


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_what_stood_in_the_place_of_another_kind_and_is_gone_tramples_nothing(kind: str) -> None:
    """An undo that was cut short after it had made room is taken up by another."""
    before: dict[str, bytes | None] = {"a": b"1"} if kind == "file" else {"a": None}
    disk = Disk(before)
    disk.delete("a")
    if kind == "file":
        disk.mkdir("a")
    else:
        disk.write("a", b"2")
    disk.by_hand("a", None)
    assert verdicts(entries(disk)) == {"a": "restore"}
    undo(disk)
    assert disk.tree == before


# -- what is wanted ------------------------------------------------------------------------


def test_one_step_or_some_paths() -> None:
    """A later step that changed the place again stands in the way, and is named."""
    disk = Disk({"a": b"1", "lib": None, "lib/b": b"1"})
    disk.write("a", b"2")
    disk.write("lib/b", b"2")
    disk.write("a", b"3")
    assert verdicts(entries(disk, Restoration(task_id="t1", step=3))) == {"a": "restore"}
    first = entries(disk, Restoration(task_id="t1", step=1))
    assert (first["a"].verdict, first["a"].why) == ("conflict", "Step 3 of the task changed it again.")
    for path in ("lib", "lib/b"):
        assert verdicts(entries(disk, Restoration(task_id="t1", paths=(path,)))) == {"lib/b": "restore"}
    assert set(entries(disk, Restoration(task_id="t1", paths=("",)))) == {"a", "lib/b"}
    assert entries(disk, Restoration(task_id="t1", paths=("li",))) == {}


def test_a_computer_that_is_away_is_said_to_be() -> None:
    disk = Disk({"a": b"1"})
    disk.write("a", b"2")
    goals = goals_of(disk.changed(), UNDO)
    (entry,) = plan(goals, {goal.place: None for goal in goals}, UNDO)
    assert (entry.verdict, entry.why, str(entry.place)) == ("away", "The computer is away.", "3:a")
    assert ops_of([entry]) == ()


def test_a_place_of_this_host_is_written_as_such() -> None:
    assert str(Place(None, "notes.txt")) == "workspace:notes.txt"


def test_a_file_of_this_host_is_one_place_however_it_is_spelled() -> None:
    disk = Disk()
    for number, path in enumerate(("a/b", "./a//b")):
        name = f"l{number}"
        disk.journal.proposed([call(name, "local_write", path=path)], "allow")
        run = RunId(f"{name}.1")
        started = facts.ToolStarted(call_id=CallId(name), run_id=run, action_digest="", before={path: ABSENT})
        ended = facts.ToolFinished(call_id=CallId(name), run_id=run, ok=True, text="", after={path: digest(b"1")})
        disk.journal.add(started, ended)
    assert {touch.place for touch in disk.changed().touches} == {Place(None, "a/b")}


def test_a_name_that_is_no_utf_8_is_spelled_by_its_bytes_and_comes_back() -> None:
    """A person may name it as it is shown, and what only looks the same is another."""
    tree: dict[str, bytes | None] = {"d": None, "d/\udcfc": b"1"}
    disk = Disk(tree)
    disk.delete("d")
    (named,) = [place for place in disk.changed().touches if place.place.path != "d"]
    assert str(named.place) == r"3:d/\xfc"
    assert set(entries(disk, Restoration(task_id="t1", paths=(r"d/\xfc",)))) == {"d/\udcfc"}
    assert not entries(disk, Restoration(task_id="t1", paths=("d/\xfc",)))
    undo(disk)
    assert disk.tree == tree


def test_a_place_by_its_latin_1_name_is_the_one_that_its_bytes_name() -> None:
    """An undo tells the bytes of a name as latin-1, and can be undone by that."""
    disk = Disk({"d": None})
    restore = call("r", "cc_restore", path="d/\xfc", to=digest(b"1"), found=ABSENT, encoding="latin-1")
    assert place_of(restore) == Place(ComputerId("3"), "d/\udcfc")
    disk.journal.proposed([restore], "allow")
    started = facts.ToolStarted(
        call_id=CallId("r"),
        run_id=RunId("r.1"),
        computer=COMPUTER,
        number=1,
        action_digest="",
        before={"d/\xfc": ABSENT},
    )
    after = {"d/\xfc": digest(b"1")}
    disk.journal.add(
        started, facts.ToolFinished(call_id=CallId("r"), run_id=RunId("r.1"), ok=True, text="", after=after)
    )
    (touch,) = disk.changed().touches
    assert touch.place.path == "d/\udcfc"


@pytest.mark.parametrize("limit", ["MAX_TREE_FILES", "MAX_TREE_BYTES"])
def test_a_directory_with_too_much_in_it_goes_piece_by_piece(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """One call could not keep all of it; what is small enough in it goes as a whole."""
    monkeypatch.setattr(planning, limit, 2)
    disk = Disk()
    for path in ("new/a", "new/b", "new/small/c"):
        disk.write(path, path[-1].encode())
    ops = ops_of(list(entries(disk).values()))
    assert [op.place.path for op in ops] == ["new/a", "new/b", "new/small"]
    undo(disk, rounds=2)
    assert disk.tree == {}


def test_what_came_to_nothing_is_in_vain_until_something_was_changed() -> None:
    """A change after it may have made the room that it lacked."""
    disk = Disk({"a": b"1"})
    disk.fail("a")
    assert disk.changed().vain == {"call-c1"}
    disk.write("b", b"2")
    assert disk.changed().vain == set()
    disk.fail("c")
    assert disk.changed().vain == {"call-c3"}


def test_a_place_that_cannot_be_looked_at_says_why_and_stays() -> None:
    goal = Goal(Place(COMPUTER, "a"), ABSENT, digest(b"1"), 1)
    (entry,) = plan(
        [goal], {goal.place: Found("", fault="a is locked.")}, Restoration(task_id="t1", on_conflict="restore")
    )
    assert (entry.verdict, entry.why) == ("conflict", "a is locked.")


# -- what is not known ---------------------------------------------------------------------


def test_an_unknown_outcome_is_decided_by_what_is_there_or_by_a_person() -> None:
    """As it was: nothing to do. Otherwise nobody knows whose it is."""
    disk = Disk({"a": b"1"})
    journal = disk.journal
    journal.proposed([call("w", "cc_write", path="a")], "allow")
    run = RunId("w.1")
    journal.add(
        facts.ToolStarted(
            call_id=CallId("w"), run_id=run, computer=COMPUTER, number=1, action_digest="", before={"a": digest(b"1")}
        )
    )
    (waited,) = disk.changed().open
    assert (disk.changed().touches, waited.call_id, waited.tool, waited.computer) == ((), "w", "cc_write", COMPUTER)
    # What ends a run that was never begun tells nothing.
    journal.add(facts.ToolSettled(call_id=CallId("w"), run_id=RunId("w.9"), state="finished", ok=True))
    journal.settled("w", "unknown", reason="a disk was put back")
    assert verdicts(entries(disk)) == {"a": "nothing"}
    disk.by_hand("a", b"2")
    assert entries(disk)["a"].why == "Nobody knows whether the task changed it."
    journal.reviewed("w", reason="outcome_unknown")
    journal.decided(decision("w", "retry", retry_as="w2"))
    journal.reviewed("w2", request_id="q2")
    journal.decided(decision("w2"), of="q2")
    started = facts.ToolStarted(
        call_id=CallId("w2"),
        run_id=RunId("w2.1"),
        computer=COMPUTER,
        number=2,
        action_digest="",
        before={"a": digest(b"2")},
    )
    after = {"a": digest(b"3")}
    journal.add(started, facts.ToolFinished(call_id=CallId("w2"), run_id=RunId("w2.1"), ok=True, text="", after=after))
    disk.by_hand("a", b"3")
    disk.blobs[digest(b"1")] = b"1"
    undo(disk)
    assert disk.tree == {"a": b"1"}


def test_a_void_call_and_a_read_touched_nothing_and_a_run_cannot_be_told() -> None:
    disk = Disk({"a": b"1"})
    journal = disk.journal
    there, gone = digest(b"print()"), ABSENT
    for number, (tool, ok, program) in enumerate(
        [
            ("cc_read", True, there),
            ("cc_run_program", False, there),
            ("cc_peripheral_call", True, there),
            # There was no such program: nothing ran.
            ("cc_run_program", False, gone),
            ("cc_stop", True, there),
            # Nothing ran in that tab.
            ("cc_stop", False, there),
        ]
    ):
        name = f"x{number}"
        journal.proposed([call(name, tool)], "allow")
        journal.add(start_of(journal.record(name)).model_copy(update={"before": {"p.lua": program}}))
        journal.finished(name, ok=ok)
    journal.proposed([call("v", "cc_write")], "allow")
    journal.started("v")
    journal.settled("v", "void")
    told = disk.changed()
    assert told.touches == ()
    assert [(one.step, one.tool, one.what.partition(":")[0]) for one in told.untold] == [
        (2, "cc_run_program", "A program ran"),
        (3, "cc_peripheral_call", "A peripheral was called"),
        (5, "cc_stop", "A program was stopped"),
    ]


# -- whatever a task does ------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", "d"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
BYTES = st.sampled_from([b"", b"1", b"2", b"3\r\n", b"\xff\x00"])
Work = tuple[str, str, str, bytes]
WORKS = st.tuples(st.sampled_from(["write", "mkdir", "delete", "move", "fail"]), PATHS, PATHS, BYTES)


def filled(files: dict[str, bytes]) -> Disk:
    """A disk with these files, as far as they go together."""
    disk = Disk()
    for path, data in files.items():
        if disk.can_hold(path) and path not in disk.tree:
            disk.by_hand(path, data)
    return disk


def related(path: str, other: str) -> bool:
    """Whether one is the other, or above it."""
    return f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/")


def works(disk: Disk, work: Work) -> None:
    """One call, if the computer would not refuse it."""
    does, path, to, data = work
    state = disk.state(path)
    if does == "write" and state != DIRECTORY and disk.can_hold(path):
        disk.write(path, data)
    elif does == "mkdir" and state == ABSENT and disk.can_hold(path):
        disk.mkdir(path)
    elif does == "delete" and state != ABSENT:
        disk.delete(path)
    elif does == "move" and state != ABSENT and disk.state(to) == ABSENT and disk.can_hold(to):
        if not f"{to}/".startswith(f"{path}/"):
            disk.move(path, to)
    elif does == "fail":
        disk.fail(path)


@given(st.dictionaries(PATHS, BYTES, max_size=8), st.lists(WORKS, max_size=12))
def test_after_an_undo_every_byte_is_as_it_was(
    files: dict[str, bytes], done: list[tuple[str, str, str, bytes]]
) -> None:
    disk = filled(files)
    before = dict(disk.tree)
    for work in done:
        works(disk, work)
    planned = undo(disk)
    assert disk.tree == before
    assert set(verdicts(planned).values()) <= {"nothing"}


@given(
    st.dictionaries(PATHS, BYTES, max_size=8),
    st.lists(WORKS, max_size=10),
    st.lists(st.tuples(PATHS, st.sampled_from([b"mine 1", b"mine 2", None])), max_size=3),
)
def test_what_a_person_made_since_is_never_lost(
    files: dict[str, bytes],
    done: list[Work],
    edits: list[tuple[str, bytes | None]],
) -> None:
    """Every file of theirs is there with their bytes; every other place is as before the task, or said to be kept."""
    disk = filled(files)
    before = dict(disk.tree)
    for work in done:
        works(disk, work)
    mine: dict[str, bytes] = {}
    for path, data in edits:
        if data is None and disk.state(path) not in (ABSENT, DIRECTORY):
            disk.by_hand(path, None)
            mine.pop(path, None)
        elif data is not None and disk.state(path) != DIRECTORY and disk.can_hold(path):
            disk.by_hand(path, data)
            mine[path] = data
    planned = undo(disk)
    assert all(disk.tree.get(path) == data for path, data in mine.items())
    kept = {path for path, entry in planned.items() if entry.verdict == "conflict"}
    different = {path for path in {*before, *disk.tree} if before.get(path, ABSENT) != disk.tree.get(path, ABSENT)}
    excused = {path for path, _ in edits} | kept
    assert all(any(related(path, one) for one in excused) for path in different)


def test_on_this_host_a_directory_goes_when_what_was_in_it_is_gone() -> None:
    """There is no removal of a whole tree: each file of it, then each directory, the deepest first."""
    states = {"d": DIRECTORY, "d/e": DIRECTORY, "d/e/f": digest(b"f")}
    goals = [Goal(Place(None, path), ABSENT, state, 1) for path, state in states.items()]
    inside = {"d": ("e", "e/f"), "d/e": ("f",)}
    there = {goal.place: Found(states[goal.place.path], inside.get(goal.place.path, ()), DIRECTORY) for goal in goals}
    ops = ops_of(plan(goals, there, UNDO))
    assert [(op.place.path, op.to, op.found) for op in ops] == [
        ("d/e/f", ABSENT, digest(b"f")), ("d/e", ABSENT, DIRECTORY), ("d", ABSENT, DIRECTORY)
    ]  # fmt: skip


def test_where_nobody_knows_whose_a_change_is_a_person_may_say_so_of_directories_too() -> None:
    """The task may have put a file where a directory was, and made another one: nobody heard how it ended."""
    places = {"d": DIRECTORY, "d/x": digest(b"x"), "made": ABSENT, "made/y": ABSENT}
    goals = [Goal(Place(COMPUTER, path), target, None, 1) for path, target in places.items()]
    now = {"d": Found(digest(b"f")), "d/x": Found(ABSENT, under="d")}
    now |= {"made": Found(DIRECTORY, ("y",), digest(b"")), "made/y": Found(digest(b"y"))}
    there = {goal.place: now[goal.place.path] for goal in goals}
    kept = {one.place.path: one.verdict for one in plan(goals, there, UNDO)}
    assert kept == dict.fromkeys(places, "conflict")
    chosen = Restoration(task_id="t1", on_conflict="restore")
    back = {one.place.path: one.verdict for one in plan(goals, there, chosen)}
    assert back == {"d": "restore", "d/x": "restore", "made": "remove", "made/y": "remove"}
    somebodys = {**there, Place(COMPUTER, "made"): Found(DIRECTORY, ("mine", "y"), digest(b"m"))}
    (entry,) = (one for one in plan(goals, somebodys, chosen) if one.place.path == "made")
    assert (entry.verdict, "mine would stay" in entry.why) == ("conflict", True)
