"""The same call again and again is counted, until something else is changed."""

from orchestrator.core.task.repeats import NUDGE_AT, STOP_AT, nudge, times
from tests.core.journal import Journal, call


class Steps(Journal):
    """A task whose calls are named by what they do: the same name is the same call."""

    def __init__(self) -> None:
        super().__init__()
        self.submitted()

    def step(self, *names: str, tool: str = "cc_read", ok: bool = True) -> int:
        """One step of these calls; how often its most repeated one was made by then."""
        first = len(self.items)
        made = [
            call(f"c{first}.{place}", tool, index=place).model_copy(update={"call_digest": name})
            for place, name in enumerate(names)
        ]
        self.proposed(made, *["allow"] * len(made))
        for one in made:
            self.started(one.call_id)
            self.finished(one.call_id, ok=ok)
        return self.task.turns[-1].repeats


def test_the_same_call_is_counted_also_with_others_in_between_and_in_batches() -> None:
    steps = Steps()
    assert [steps.step("a"), steps.step("b"), steps.step("a"), steps.step("a", "b"), steps.step("c")] == [1, 1, 2, 3, 1]
    assert times(steps.task.repeats, ["a", "c"]) == 3
    assert times(steps.task.repeats, ["unknown"]) == 0
    assert times((), []) == 0


def test_a_change_makes_every_other_call_a_new_one_but_not_itself() -> None:
    """After an edit a program is run anew for a reason; writing the same bytes again is no edit."""
    steps = Steps()
    assert [steps.step("run", tool="cc_run_program", ok=False) for _ in range(3)] == [1, 2, 3]
    assert steps.step("edit", tool="cc_edit") == 1
    assert steps.step("run", tool="cc_run_program", ok=False) == 1
    assert [steps.step("w", "v", tool="cc_write") for _ in range(3)] == [1, 2, 3]
    assert [one[:2] for one in steps.task.repeats] == [("w", 3), ("v", 3)]


def test_only_the_last_calls_are_remembered() -> None:
    """A call that is made again counts as made last; the one made longest ago is forgotten."""
    steps = Steps()
    for number in range(64):
        steps.step(f"r{number}")
    assert [steps.step("r0"), steps.step("new"), steps.step("r0")] == [2, 1, 3]
    assert steps.step("r1") == 1
    assert len(steps.task.repeats) == 64


def test_the_model_is_told_from_the_third_time_on() -> None:
    assert [bool(nudge(count)) for count in range(5)] == [False, False, False, True, True]
    assert (NUDGE_AT, STOP_AT) == (3, 6)
    assert "this very call 4 times" in nudge(4)
    assert "At 6 times the task ends." in nudge(4)
