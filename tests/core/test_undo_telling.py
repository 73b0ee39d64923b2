"""What people ask of an undo, and what they are told of it."""

import pytest
from pydantic import ValidationError

from orchestrator.core.errors import InvalidRequest, UnsafePath
from orchestrator.core.task.facts import CallId
from orchestrator.core.undo.messages import UndoRequest
from orchestrator.core.undo.plan import Entry, Found, Goal
from orchestrator.core.undo.telling import told_changes, told_limits, told_places
from orchestrator.core.undo.touches import ABSENT, Changes, Place, Touch, Untold
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.wire.wire import ComputerId
from tests.core.journal import Journal

FARM = Place(ComputerId("3"), "farm.lua")
NOTE = Place(None, "no\udcfft.txt")
"""A name that is no text."""


def touch(place: Place, step: int, before: str, after: str | None) -> Touch:
    """A change of a place."""
    return Touch(step, CallId(f"c{step}"), "cc_write", place, before, after)


def test_a_request_is_a_restoration_of_canonical_paths() -> None:
    asked = UndoRequest(step=2, paths=("/x/../lib",), on_conflict="beside", choices={"3:a": "restore"})
    assert asked.of_task("t-1") == Restoration(
        task_id="t-1", step=2, paths=("lib",), on_conflict="beside", choices={"3:a": "restore"}
    )
    assert UndoRequest().of_task("t-1") == Restoration(task_id="t-1")
    odd = UndoRequest(paths=(r"/gr\xFCn", r"\xc3\xbc", r"lib\a"), choices={r"3:gr\xFCn": "keep"}).of_task("t-1")
    assert (odd.paths, odd.choices) == ((r"gr\xfcn", "\xfc", "lib/a"), {r"3:gr\xfcn": "keep"})
    assert (odd.wants("gr\udcfcn"), odd.wants("gr\xfcn"), odd.wants("\xfc"), odd.wants("\udcfc")) == (
        True,
        False,
        True,
        False,
    )


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        (UndoRequest(paths=("../x",)), UnsafePath),
        (UndoRequest(paths=("a\ud800",)), InvalidRequest),
        (UndoRequest(paths=("a", "3:b")), InvalidRequest),
        (UndoRequest(paths=("a", "")), InvalidRequest),
        (UndoRequest(choices={"3:\udfff": "keep"}), InvalidRequest),
    ],
)
def test_a_path_that_is_none_is_refused(asked: UndoRequest, refusal: type[Exception]) -> None:
    """One that leaves the computer, and halves of a character wherever they stand."""
    with pytest.raises(refusal):
        asked.of_task("t-1")


@pytest.mark.parametrize("field", [{"step": 0}, {"step": "1"}, {"idempotency_key": "x" * 201}, {"paths": ["a"] * 501}])
def test_a_request_that_does_not_fit_is_refused(field: dict[str, object]) -> None:
    """Numbers are numbers, and there is an end to everything."""
    with pytest.raises(ValidationError):
        UndoRequest.model_validate(field)


def test_each_changed_place_is_told_once() -> None:
    """With what was there first and is there last; what came back to what it was is no change."""
    changed = Changes(
        (
            touch(FARM, 1, ABSENT, "a" * 64),
            touch(NOTE, 2, "b" * 64, None),
            touch(FARM, 3, "a" * 64, "c" * 64),
            touch(Place(None, "back"), 1, "d" * 64, "e" * 64),
            touch(Place(None, "back"), 4, "e" * 64, "d" * 64),
        )
    )
    assert [one.model_dump() for one in told_changes(changed)] == [
        {"place": "3:farm.lua", "computer": "3", "path": "farm.lua", "step": 3, "before": ABSENT, "after": "c" * 64},
        {
            "place": r"workspace:no\xfft.txt",
            "computer": None,
            "path": r"no\xfft.txt",
            "step": 2,
            "before": "b" * 64,
            "after": None,
        },
    ]


def test_what_an_undo_does_is_told_place_by_place() -> None:
    """What nobody could look at has nothing that was found."""
    goal = Goal(FARM, ABSENT, "a" * 64, 3)
    entries = (Entry(goal, None, "away", "The computer is away."), Entry(goal, Found("a" * 64), "remove"))
    told = told_places(entries)
    assert [(one.verdict, one.found, one.target, one.step) for one in told] == [
        ("away", None, ABSENT, 3),
        ("remove", "a" * 64, ABSENT, 3),
    ]
    assert (told[0].place, told[0].why) == ("3:farm.lua", "The computer is away.")
    (limit,) = told_limits([Untold(4, CallId("c4"), "cc_shell", ComputerId("3"), "A program ran.")])
    assert limit.model_dump() == {"step": 4, "tool": "cc_shell", "computer": "3", "what": "A program ran."}


def test_which_task_a_task_undoes() -> None:
    """One of a model undoes none, nor does one that puts a computer's files back as a listing has them."""
    for restores, undoes in (
        (None, None),
        (Restoration(task_id="t0"), "t0"),
        (Restoration(task_id="t0", listing="a" * 64, computer=ComputerId("3")), None),
    ):
        story = Journal()
        story.submitted(restores=restores)
        assert story.task.undoes == undoes
