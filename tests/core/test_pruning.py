"""What may go: whatever names a blob keeps it, and tasks go oldest first until the rest fits."""

from datetime import timedelta

from orchestrator.core.audit.retention import (
    Weighed,
    Weights,
    is_unfinished,
    listed_in,
    named_in,
    needed_by_note,
    pruned,
    referred,
    to_prune,
)
from orchestrator.core.task import facts
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import encode_item
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.wire.wire import ComputerId
from tests.core.audited import granted, made
from tests.core.golden_items import EXAMPLES
from tests.core.journal import NOW
from tests.core.test_audit import stream
from tests.core.test_audit_check import C1, asked, used

A, B, C = "a" * 64, "b" * 64, "c" * 64


def submitted(**more: object) -> facts.TaskSubmitted:
    """The beginning of a task."""
    told = {"prompt": "p", "user_id": "alice", "session_id": "s", "model": "m", "max_steps": 1, "tag": "t"}
    return facts.TaskSubmitted.model_validate(told | more)


def test_every_hash_in_the_bytes_of_an_item_counts_as_named() -> None:
    """Whatever field it stands in, of whatever kind; parts of longer numbers do not."""
    assert named_in(f'{{"x":"{A}","before":{{"f":"{B}"}},"n":"{C}0","m":"g{C}"}}'.encode()) == {A, B, C}
    assert named_in(f"{C}{C}".encode()) == frozenset()
    for _, fact in EXAMPLES:
        (item,) = stream("t1", fact)
        if isinstance(fact, facts.ModelReplied):
            assert fact.raw.sha256 in named_in(encode_item(item))


def test_what_a_backup_names_only_its_row_keeps() -> None:
    made = next(fact for _, fact in EXAMPLES if fact.kind == "computer_backed_up")
    (item,) = stream("system", made)
    assert A in named_in(encode_item(item))
    assert needed_by_note(encode_item(item)) == frozenset()
    assert needed_by_note(f'"{A}"'.encode()) == {A}


def test_the_lines_of_a_directory_name_its_files() -> None:
    """Also where a name is no text, and where the name of a file looks like a line."""
    lines = f"a\0file\0{A}\nd\0directory\0-\n".encode() + b"\xff\0file\0" + B.encode() + b"\n"
    assert listed_in(lines) == {A, B}
    assert listed_in(b"return 1\n") == frozenset()


def test_a_task_refers_to_what_it_undoes_and_to_what_it_is_told_of() -> None:
    earlier = facts.EarlierTask(task_id=TaskId("t-0"), prompt="p", status="Failed", message="m")
    assert referred(submitted()) == frozenset()
    assert referred(submitted(restores=Restoration(task_id="t-9"), earlier=(earlier,))) == {"t-9", "t-0"}
    assert referred(submitted(restores=Restoration(listing=A, computer=ComputerId("3")))) == frozenset()


def test_a_rehearsal_stays_until_it_is_written_down_what_it_came_to() -> None:
    rehearsal = {"computer": "3", "base": A, "family": "turtle", "computer_id": 3, "host": ""}
    began = submitted(rehearses=rehearsal)
    came_to = facts.RehearsalEnded(after=B, changed=0, message="Nothing.")
    assert is_unfinished(stream("t1", began))
    assert not is_unfinished(stream("t1", began, came_to))
    assert not is_unfinished(stream("t1", submitted()))


def test_what_is_left_of_a_task_follows_from_its_items() -> None:
    trail = asked(C1).approved(C1, grants=(granted(C1),)).started(C1).finished(C1)
    again = made("c4")
    trail = trail.add(facts.CallsProposed(explanation="", calls=(again,), evaluations=()))
    trail = trail.add(used(again)).started(again, grant_id="g-1").ended()
    items = trail.items
    note = pruned(items, "age")
    assert (note.task_id, note.version, note.head_hash) == (items[0].task_id, len(items), items[-1].hash)
    assert (note.created_at, note.updated_at, note.user_id) == (items[0].at, items[-1].at, "alice")
    assert (note.requests, note.grants, note.uses, note.why) == (1, ("g-1",), {"g-1": 1}, "age")
    assert pruned(items[1:], "").user_id == ""


def weighed(name: str, *names: str, days: int, size: int = 10, may_go: bool = True) -> Weighed:
    """A task that nothing happened to for some days."""
    return Weighed(TaskId(name), NOW - timedelta(days=days), may_go, size, frozenset(names))


WEIGHTS = Weights(
    tasks=(
        weighed("old", A, B, days=40),
        weighed("kept", A, days=50, may_go=False),
        weighed("mid", B, days=20),
        weighed("new", C, days=1),
    ),
    others=frozenset({C}),
    other_bytes=7,
    sizes={A: 1000, B: 200, C: 30, "d" * 64: 5},
)


def test_age_takes_the_oldest_that_may_go() -> None:
    assert to_prune(WEIGHTS) == {}
    assert to_prune(WEIGHTS, until=NOW - timedelta(days=30)) == {"old": "age"}
    assert to_prune(WEIGHTS, until=NOW) == dict.fromkeys(("old", "mid", "new"), "age")


def test_size_takes_the_oldest_until_the_rest_fits() -> None:
    """A blob goes with the last that needs it; what nobody needs goes first and is no reason for more."""
    assert WEIGHTS.bytes == 7 + 40 + 1235
    assert to_prune(WEIGHTS, down_to=WEIGHTS.bytes - 5) == {}
    assert to_prune(WEIGHTS, down_to=WEIGHTS.bytes - 6) == {"old": "size"}
    assert to_prune(WEIGHTS, down_to=WEIGHTS.bytes - 16) == {"old": "size", "mid": "size"}
    assert to_prune(WEIGHTS, down_to=WEIGHTS.bytes - 225) == {"old": "size", "mid": "size"}
    assert list(to_prune(WEIGHTS, down_to=0)) == ["old", "mid", "new"]
    both = to_prune(WEIGHTS, until=NOW - timedelta(days=30), down_to=WEIGHTS.bytes - 225)
    assert both == {"old": "age", "mid": "size"}


def test_for_a_task_that_has_to_stay_the_next_goes() -> None:
    assert WEIGHTS.holding(()) is WEIGHTS
    held = WEIGHTS.holding({TaskId("old")})
    assert [one.may_go for one in held.tasks] == [False, False, True, True]
    assert to_prune(held, down_to=WEIGHTS.bytes - 6) == {"mid": "size"}


def test_what_is_needed_once_some_are_gone() -> None:
    assert WEIGHTS.needed() == {A, B, C}
    assert WEIGHTS.needed([TaskId("old"), TaskId("mid"), TaskId("new")]) == {A, C}
