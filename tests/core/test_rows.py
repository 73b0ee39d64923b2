"""A finished call in one line, and what was changed and run: made of the journal alone."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.core.approval.approval import CallState
from orchestrator.core.model_view.rows import Pins, rest_of, row, step_call
from orchestrator.core.task import facts
from orchestrator.core.task.facts import BlobRef, Ran
from orchestrator.core.task.task import CallRecord, StepCall, Turn
from tests.core.journal import Journal, call, verdict

FARM = "\n".join(f"{number}| a" for number in range(1, 201))
CUT = "1| a\n2| b\n[lines 3-199 left out; cc_read path=farm.lua start_line=3]\n200| c"
OUTPUT = "Program farm.lua executed successfully.\nOutput:\n"
CRASH = "Program farm.lua failed (error): farm.lua:3: attempt to index nil\nOutput:\nhello"


def record(tool: str, result: str = "done", *, state: str = "executed", **more: Any) -> CallRecord:
    """A call that is over; what is no argument of the tool begins with an underscore."""
    rest = {name[1:]: value for name, value in more.items() if name.startswith("_")}
    args = {name: value for name, value in more.items() if not name.startswith("_")}
    over = CallState(state)
    made = CallRecord(
        call=call("c1", tool, **args),
        evaluation=verdict("allow"),
        state=over,
        ok=over is CallState.EXECUTED,
        result=result,
    )
    return replace(made, **rest)


def ran(ended: Any, seconds: float = 0.0) -> Ran:
    """How the program of a call ended."""
    return Ran(path="farm.lua", sha256="a" * 64, ended=ended, seconds=seconds)


@pytest.mark.parametrize(
    ("over", "told"),
    [
        (record("cc_read", FARM, path="farm.lua", start_line=1), "cc_read farm.lua from line 1 → 200 lines"),
        (record("cc_read", CUT, path="farm.lua"), "cc_read farm.lua → 200 lines, 3 of them shown"),
        (record("cc_read", "131| x", path="farm.lua", start_line=131, max_lines=200), "lines 131-330 → 1 line"),
        (record("cc_read", "131| x", path="farm.lua", start_line=131), "cc_read farm.lua from line 131 → 1 line"),
        (record("cc_read", "1| x", path="farm.lua", max_lines=9), "cc_read farm.lua lines 1-9 → 1 line"),
        (record("cc_read", "[the file is empty]", path="a b"), 'cc_read "a b" → [the file is empty]'),
        (
            record("cc_read", "There is no farm.lua.", state="failed", path="farm.lua"),
            "cc_read farm.lua → failed: There is no farm.lua.",
        ),
        (record("cc_list", "a  1\nb/", path="/"), "cc_list / → 2 entries"),
        (record("cc_list", "a  1", path="/"), "cc_list / → 1 entry"),
        (record("cc_find", "[4 matches]\na", pattern="*", contains="x y"), 'cc_find pattern="*" contains="x y" → [4'),
        (record("cc_write", path="a.lua", content="x\ny", _before={"a.lua": "f" * 64}), "cc_write a.lua → 2 lines"),
        (record("cc_write", path="a.lua", content="x\n", _before={"a.lua": "absent"}), "cc_write a.lua → new, 1 line"),
        (record("local_write", path="a.lua", content=""), "local_write a.lua → 0 lines"),
        (record("cc_edit", path="a", old="x\ny", new="x\nz\ny\nw"), "cc_edit a → +2 -0"),
        (record("cc_edit", path="a", old="x\ny", new="x\nz"), "cc_edit a → +1 -1"),
        (record("cc_edit", path="a", old="x\n" * 99, new="y\n" * 150), "cc_edit a → +151 -100"),
        (record("local_patch", path="a", patch="--- a\n+++ a\n@@ -1 +1,2 @@\n-x\n+y\n+z\n"), "local_patch a → +2 -1"),
        (record("cc_move", path="a", to="b/c"), "cc_move a to b/c → moved"),
        (record("cc_delete", path="a"), "cc_delete a → deleted"),
        (record("send_status", message="half\nway"), 'send_status message="half way" → sent'),
        (
            record("cc_peripheral_call", "left.list returned:\n1", name="left", method="list", args=[1, None]),
            "cc_peripheral_call name=left method=list args=[1, null] → left.list returned:",
        ),
        (record("cc_write", "Denied by policy: no", state="denied_by_policy", path="a"), "cc_write a → Denied by pol"),
    ],
)
def test_a_row_keeps_the_tool_its_arguments_and_what_came_of_it(over: CallRecord, told: str) -> None:
    assert told in row(step_call(over))
    assert "\n" not in row(step_call(over))


@pytest.mark.parametrize(
    ("over", "came"),
    [
        (record("cc_run_program", f"{OUTPUT}", path="farm.lua"), "ended"),
        (record("cc_run_program", f"{OUTPUT}one\ntwo\nthree", path="x"), "ended, output: one and 2 more lines"),
        (record("cc_run_program", f"{OUTPUT}one", path="x", _ran=ran("finished", 1)), "ended, output: one"),
        (
            record("cc_run_program", f"{OUTPUT}one", path="x", _ran=ran("observed", 10)),
            "ran 10 s without an error, then stopped, output: one",
        ),
        (
            record("cc_run_program", "Program x failed (timed_out): late", state="failed", _ran=ran("timed_out")),
            "ran to its limit of a while without an error, then stopped",
        ),
        (
            record("cc_shell", "Command x failed (terminated): ended", state="failed", _ran=ran("stopped")),
            "was stopped",
        ),
        (record("cc_shell", "", state="failed", _ran=ran("abandoned")), "did not stop when it was told to"),
        (record("cc_run_program", CRASH, state="failed", _ran=ran("error")), "error: farm.lua:3: attempt to index nil"),
        (
            record("cc_run_program", f"A person edited it.\n{CRASH}", state="failed"),
            "with an error: farm.lua:3: attempt",
        ),
        (record("cc_run_program", "It broke.", state="failed", _ran=ran("error")), "ended with an error: It broke."),
        (record("cc_run_program", CRASH, state="failed", _ran=ran("finished")), "failed: farm.lua:3: attempt"),
        (record("cc_run_program", "The computer finds no program x.", state="failed"), "failed: The computer finds no"),
        (record("cc_run_program", "This call did not run: rejected", state="rejected"), "This call did not run: rejec"),
    ],
)
def test_a_program_is_told_by_how_it_ended(over: CallRecord, came: str) -> None:
    assert came in step_call(over).came


def test_a_run_is_told_with_its_words() -> None:
    program = record("cc_run_program", OUTPUT, path="farm.lua", args=["3", "x"], input="y\n")
    assert step_call(program).asked == "cc_run_program farm.lua 3 x input=y"
    assert step_call(record("cc_shell", OUTPUT, command='delete "a b"')).asked == 'cc_shell delete "a b"'
    long = step_call(record("cc_run_program", OUTPUT, path="farm.lua", args=["word " * 50] * 4))
    assert len(long.asked) <= 100
    assert long.asked.endswith("…")


def test_what_a_cut_leaves_out_is_asked_for_as_the_tool_allows() -> None:
    """A file by its lines, from a line on page by page; of others in words, or not at all."""
    whole = step_call(record("cc_read", "x", path="a\nb")).rest
    part = step_call(record("cc_read", "x", path="a\nb", start_line=2)).rest
    assert whole.how == part.how == 'cc_read path="a b"'
    assert (whole.numbered, whole.paged, part.paged) == (True, False, True)
    assert step_call(record("cc_read")).rest.how == ""
    assert rest_of("cc_find").how == "give cc_find a narrower pattern"
    assert rest_of("cc_info").how == ""


def step(*calls: StepCall) -> Turn:
    return Turn(raw=BlobRef(sha256="1" * 64, size=2), calls=calls)


def made(over: CallRecord, *, several: bool = False) -> Turn:
    return step(step_call(over, several=several))


def pinned(turns: Sequence[Turn]) -> list[str]:
    """The list after these steps."""
    pins = Pins()
    for one in turns:
        pins.add(one)
    return pins.lines()


def test_the_list_names_what_was_changed_and_the_runs_since() -> None:
    """Of each path the last change; a run counts since the last change, and what a program changed is told too."""
    write = made(record("cc_write", path="/a.lua", content="x", _before={"a.lua": "absent"}))
    edit = made(record("cc_edit", path="a.lua", old="x", new="y", _before={"a.lua": "f" * 64}))
    move = made(record("cc_move", path="b", to="c", _before={"b": "f" * 64, "c": "absent"}))
    run = made(record("cc_run_program", f"{OUTPUT}ok", path="a.lua", _changed=("log.txt",)))
    look = made(record("cc_read", "1| x", path="a.lua"))
    failed = made(record("cc_write", "no", state="failed", path="d", content="", _before={"d": "absent"}))
    assert pinned([]) == pinned([look, failed]) == []
    assert pinned([look, run]) == [
        "Changed in steps 1 to 2:",
        "- log.txt: changed by a program in step 2",
        "Run:",
        "- step 2: cc_run_program a.lua → ended, output: ok",
    ]
    assert pinned([write, run, edit, look]) == [
        "Changed in steps 1 to 4:",
        "- log.txt: changed by a program in step 2",
        "- a.lua: edited in step 3",
        "Nothing was run since the change in step 3.",
    ]
    assert pinned([write, move, run]) == [
        "Changed in steps 1 to 3:",
        "- a.lua: made in step 1",
        "- b: moved in step 2",
        "- c: moved in step 2",
        "- log.txt: changed by a program in step 3",
        "Run since the change in step 2:",
        "- step 3: cc_run_program a.lua → ended, output: ok",
    ]
    assert pinned([made(record("cc_write", path="a", content="", _before={"a": "f"}))])[1] == "- a: written in step 1"


def test_the_list_is_bounded() -> None:
    """The last twenty paths and the last five runs."""
    writes = [made(record("cc_mkdir", path=f"{n}", _before={f"{n}": "absent"})) for n in range(30)]
    runs = [made(record("cc_run_program", OUTPUT, path=f"{n}.lua")) for n in range(9)]
    told = pinned([*writes, *runs])
    assert told[:3] == ["Changed in steps 1 to 39:", "- 10 more paths, earlier", "- 10: made in step 11"]
    assert told[-1] == "- step 39: cc_run_program 8.lua → ended"
    assert len(told) == 1 + 1 + 20 + 1 + 5


def test_with_several_computers_each_line_names_its_own() -> None:
    over = record("cc_mkdir", path="a", _before={"a": "absent"})
    assert row(step_call(over, several=True)) == "cc_mkdir a on 3 → made"
    assert pinned([made(over, several=True)])[1] == "- a on 3: made in step 1"
    assert row(step_call(record("local_read", path="a", _call=call("c", "local_read", computer=None)), several=True))


def test_the_fold_makes_the_rows() -> None:
    """Of each finished step, from the items alone; an empty result leaves the call."""
    told = Journal()
    told.submitted(computers=("3", "8"))
    told.proposed([call("c1", "cc_read", path="farm.lua")], "allow")
    told.started("c1")
    told.finished("c1", text="1| one\n2| two")
    ((one,),) = (turn.calls for turn in told.task.turns)
    assert row(one) == "cc_read farm.lua on 3 → 2 lines"
    assert told.task.turns[0].results == (("cc_read", "1| one\n2| two"),)
    assert row(replace(one, came="")) == "cc_read farm.lua on 3"
    told.proposed([call("c2", "cc_run_program", path="farm.lua")], "allow")
    told.started("c2")
    run_id = told.record("c2").run_id
    assert run_id is not None
    told.add(facts.ToolFinished(call_id=call("c2").call_id, run_id=run_id, ok=False, text=CRASH, ran=ran("error", 2.0)))
    assert row(told.task.turns[1].calls[0]) == (
        "cc_run_program farm.lua on 3 → ended with an error: farm.lua:3: attempt to index nil"
    )
