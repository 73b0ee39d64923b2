"""A task that goes round is warned and then ended with its reason; its honest twin goes on.

The cases are a table: each way of going round, in several tools and languages, beside what looks like it and gets on.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from orchestrator.core.task import facts, rounds
from orchestrator.core.task.repeats import STOP_AT, times
from orchestrator.core.task.rounds import AT_FIRST, FAILURES, GROWTH, MESSAGES, RETURNS, Rounds, reason, warning
from orchestrator.core.wire.wire import sha256_hex
from tests.core.journal import Journal, call

ABSENT = "absent"


class Done(NamedTuple):
    """One call, how it ended, and what it left behind."""

    tool: str
    args: dict[str, Any]
    text: str = "done"
    ok: bool = True
    code: str | None = None
    before: Mapping[str, str] = MappingProxyType({})
    after: Mapping[str, str] = MappingProxyType({})
    changed: tuple[str, ...] = ()
    computer: str | None = "3"


class Disk:
    """Files of a computer, for the hashes that changes of them leave."""

    def __init__(self, **files: str) -> None:
        self.files = dict(files)

    def write(self, path: str, content: str) -> Done:
        before = self._hash(path)
        self.files[path] = content
        return self._done("cc_write", {path: before}, path=path, content=content)

    def edit(self, path: str, old: str, new: str) -> Done:
        before = self._hash(path)
        self.files[path] = self.files[path].replace(old, new)
        return self._done("cc_edit", {path: before}, path=path, old=old, new=new)

    def delete(self, path: str) -> Done:
        before = self._hash(path)
        del self.files[path]
        return self._done("cc_delete", {path: before}, path=path)

    def move(self, path: str, to: str) -> Done:
        before = {path: self._hash(path), to: self._hash(to)}
        self.files[to] = self.files.pop(path)
        return self._done("cc_move", before, path=path, to=to)

    def _hash(self, path: str) -> str:
        return sha256_hex(self.files[path].encode()) if path in self.files else ABSENT

    def _done(self, tool: str, before: dict[str, str], **args: Any) -> Done:
        return Done(
            tool, args, f"{tool} {args['path']}", before=before, after={path: self._hash(path) for path in before}
        )


def run(path: str = "a.lua", text: str = "ok", **rest: Any) -> Done:
    """A program that ran."""
    return Done("cc_run_program", {"path": path, "args": rest.pop("args", [])}, text, **rest)


def read(path: str = "a.lua", text: str = "local x", **rest: Any) -> Done:
    """A file that was read."""
    return Done("cc_read", {"path": path, **rest.pop("args", {})}, text, **rest)


def status(message: str) -> Done:
    """A message to the user."""
    return Done("send_status", {"message": message}, "Status sent.", computer=None)


class Story(Journal):
    """A task of finished calls."""

    def __init__(self) -> None:
        super().__init__()
        self.submitted()

    def step(self, *calls: Done) -> Rounds:
        """One step of these calls."""
        first = len(self.items)
        made = [
            call(f"c{first}.{place}", one.tool, index=place, computer=one.computer, **one.args).model_copy(
                update={"call_digest": f"{one.tool} {one.args}"}
            )
            for place, one in enumerate(calls)
        ]
        self.proposed(made, *["allow"] * len(made))
        for one, done in zip(made, calls, strict=True):
            if done.tool == "send_status":
                self.add(facts.StatusSent(call_id=one.call_id, message="x"))
                continue
            self.started(one.call_id, before=dict(done.before))
            watched = facts.Watched(changed=done.changed) if done.changed else None
            self.finished(
                one.call_id, ok=done.ok, text=done.text, code=done.code, after=dict(done.after), watched=watched
            )
        return self.task.rounds

    def play(self, steps: Iterator[Any]) -> tuple[int, list[str]]:
        """Steps until the task would be ended (0: it goes on to their end), and what the model was told by then."""
        told: list[str] = []
        for number, one in enumerate(steps, 1):
            self.step(*(one if isinstance(one, list) else [one]))
            digests = self.task.turns[-1].digests
            told.append(self.task.turns[-1].warning)
            if reason(self.task.rounds) or times(self.task.repeats, digests) >= STOP_AT:
                return number, told
        return 0, told


# -- states -------------------------------------------------------------------------------


def there_and_back() -> Iterator[Done]:
    disk = Disk(a="1")
    for _ in range(9):
        yield disk.move("a", "b")
        yield disk.move("b", "a")


def two_versions() -> Iterator[Done]:
    disk = Disk()
    for number in range(18):
        yield disk.write("farm.lua", f"-- {'A' if number % 2 else 'B'}\n")


def two_versions_with_runs() -> Iterator[Done]:
    disk = Disk()
    for number in range(9):
        yield disk.write("farm.lua", f"error('{number % 2}')\n")
        yield run("farm.lua", f"farm.lua:1: {number % 2}", ok=False)


def write_and_delete() -> Iterator[Done]:
    disk = Disk()
    for _ in range(9):
        yield disk.write("tmp.lua", "x = 1\n")
        yield disk.delete("tmp.lua")


def write_and_delete_anew() -> Iterator[Done]:
    disk = Disk()
    for number in range(9):
        yield disk.write("tmp.lua", f"x = {number}\n")
        yield disk.delete("tmp.lua")


def edit_and_take_back() -> Iterator[Done]:
    disk = Disk(**{"Bauernhof.lua": "Geschwindigkeit = 4"})
    for _ in range(9):
        yield disk.edit("Bauernhof.lua", "4", "8")
        yield disk.edit("Bauernhof.lua", "8", "4")


def in_batches() -> Iterator[list[Done]]:
    disk = Disk()
    for _ in range(9):
        yield [disk.write("tmp.lua", "x = 1\n"), disk.delete("tmp.lua")]


def with_messages() -> Iterator[Any]:
    for number, one in enumerate(write_and_delete()):
        yield [one, status(f"Je continue ({number})")]


def three_versions() -> Iterator[Done]:
    disk = Disk(ferme="0")
    for number in range(18):
        yield disk.write("ferme", str(number % 3))


@pytest.mark.parametrize(
    ("steps", "ends_at"),
    [
        (there_and_back, 4), (two_versions, 5), (two_versions_with_runs, 9), (write_and_delete, 4),
        (write_and_delete_anew, 6), (edit_and_take_back, 4), (in_batches, 3), (with_messages, 4), (three_versions, 6),
    ],
)  # fmt: skip
def test_states_that_come_back_end_the_task(steps: Any, ends_at: int) -> None:
    """At the third return, and never without a warning in an earlier step."""
    story = Story()
    ended, told = story.play(steps())
    assert ended == ends_at
    assert "went round: 3 times in a row" in (reason(story.task.rounds) or "")
    assert any("again as it was before" in one for one in told[:-1])
    assert not any(told[:1])


def back_and_forth_on_the_way() -> Iterator[Done]:
    """A line for debugging is put in and taken out while another file is fixed."""
    disk = Disk(**{"a.lua": "x", "b.lua": "0"})
    for number in range(8):
        yield disk.edit("a.lua", "x", "print() x")
        yield run("a.lua", f"b.lua:1: {number}", ok=False)
        yield disk.edit("a.lua", "print() x", "x")
        yield disk.write("b.lua", str(number + 1))


def tries_from_the_same_state() -> Iterator[Done]:
    """Each try is another one, is run, and is taken back."""
    disk = Disk(**{"a.lua": "speed = 1"})
    for number in range(2, 10):
        yield disk.edit("a.lua", "speed = 1", f"speed = {number}")
        yield run("a.lua", f"a.lua:1: too slow by {10 - number}", ok=False)
        yield disk.edit("a.lua", f"speed = {number}", "speed = 1")


def scripts_that_look() -> Iterator[Done]:
    """A script is written to find something out, run, and deleted again."""
    disk = Disk()
    for number in range(8):
        yield disk.write("probe.lua", f"print(peripheral.getNames()[{number}])")
        yield run("probe.lua", f"side {number}")
        yield disk.delete("probe.lua")


def many_files() -> Iterator[Done]:
    disk = Disk()
    for number in range(300):
        yield disk.write(f"f{number}", "x")


def a_program_that_changes_files() -> Iterator[Done]:
    """What the program does to the files is another state each time, though the file of the task is not."""
    disk = Disk()
    for number in range(9):
        yield disk.write("in.txt", str(number % 2))
        yield run("turn.lua", f"turned {number}", changed=("out.txt",))


def the_same_bytes_again() -> Iterator[Done]:
    """Nothing changes, so nothing comes back; the sixth is the same call once more."""
    disk = Disk()
    for number in range(5):
        yield disk.write("a", f"x{' ' * number}")
        yield disk.write("a", f"x{' ' * number}")


@pytest.mark.parametrize(
    "steps",
    [
        back_and_forth_on_the_way, tries_from_the_same_state, scripts_that_look, many_files,
        a_program_that_changes_files, the_same_bytes_again,
    ],
)  # fmt: skip
def test_changes_on_the_way_to_something_go_on(steps: Any) -> None:
    """A new state, a run and a look are progress."""
    assert Story().play(steps())[0] == 0


# -- growth -------------------------------------------------------------------------------


def grow_numbers() -> Iterator[Done]:
    for number in range(1, 12):
        yield read(text="[no more lines]", args={"start_line": 100 * number})


def grow_text() -> Iterator[Done]:
    for number in range(12):
        yield Done("cc_find", {"contains": "weizen" + "x" * number}, "0 matches")


def grow_numbers_in_a_text() -> Iterator[Done]:
    for number in range(1, 12):
        yield Done(
            "cc_shell", {"command": f"sleep {number}"}, f"Command sleep {number} executed successfully.\nOutput:\n"
        )


def grow_list() -> Iterator[Done]:
    for number in range(12):
        yield run(args=["-v"] * number, text="Usage: a.lua FILE", ok=number % 2 == 0)


def grow_failing() -> Iterator[Done]:
    for number in range(12):
        yield run(args=["-v"] * number, text="Usage: a.lua FILE", ok=False)


def grow_new_arguments() -> Iterator[Done]:
    for number in range(1, 12):
        yield Done("cc_x", {f"option{place}": True for place in range(number)}, "nothing")


def grow_long() -> Iterator[Any]:
    for number in range(12):
        yield [Done("cc_docs", {"query": "turtle " * (60 + number)}, "No entry."), status(f"Noch {number}")]


@pytest.mark.parametrize(
    "steps", [grow_numbers, grow_text, grow_numbers_in_a_text, grow_failing, grow_new_arguments, grow_long]
)
def test_growing_arguments_with_one_result_end_the_task(steps: Any) -> None:
    """The sixth in a row, warned from the third on; messages in between do not hide it."""
    story = Story()
    ended, told = story.play(steps())
    assert ended == GROWTH
    assert "growing arguments gave the same result" in (reason(story.task.rounds) or "")
    assert [bool(one) for one in told] == [False, False, True, True, True, True]


def pages() -> Iterator[Done]:
    for number in range(1, 12):
        yield read(text=f"[lines {number}00 on]\nx = {number}", args={"start_line": 100 * number})


def different_words() -> Iterator[Done]:
    for word in ("wheat", "weizen", "blé", "trigo", "carrot", "potato", "beet", "melon"):
        yield Done("cc_find", {"contains": word}, "0 matches")


def shrinking() -> Iterator[Done]:
    for number in range(11, 0, -1):
        yield Done("cc_find", {"contains": "x" * number}, "0 matches")


def two_computers() -> Iterator[Done]:
    for number in range(1, 12):
        yield read("log", "empty", args={"start_line": number}, computer="34"[number % 2])


def longer_sleeps_between_looks() -> Iterator[Done]:
    for number in range(1, 9):
        yield Done("cc_shell", {"command": f"sleep {number}"}, "slept")
        yield read("progress", f"{number} of 9")


def other_arguments_go() -> Iterator[Done]:
    for number in range(9):
        yield Done("cc_x", {f"a{number}": 1, "n": number}, "same")


@pytest.mark.parametrize(
    "steps",
    [pages, different_words, shrinking, two_computers, longer_sleeps_between_looks, other_arguments_go, grow_list],
)
def test_other_results_and_other_arguments_go_on(steps: Any) -> None:
    """Only growth without any effect is going round."""
    assert Story().play(steps())[0] == 0


# -- failures -----------------------------------------------------------------------------


def guesses() -> Iterator[Done]:
    for name in ("farm", "farm.lua", "programs/farm", "startup", "ferme", "granja", "Hof", "x", "y"):
        yield read(name, f"{name} does not exist", ok=False)


def edits_that_do_not_fit() -> Iterator[Done]:
    for number in range(9):
        yield Done("cc_edit", {"path": "a", "old": f"l{number}", "new": "x"}, "old is not in the file", ok=False)


def program_without_a_pause() -> Iterator[Done]:
    """The words of the guard, and of a program, are no word of the computer's connection."""
    for number in range(9):
        said = "a.lua:2: The program was busy for too long without a pause" if number % 2 else "modem is not connected"
        yield run(f"{number}.lua", f"Program a.lua failed (program_error): {said}.", ok=False, code="tool_failed")


def failing_batches() -> Iterator[list[Done]]:
    for number in range(9):
        yield [read(f"{number}{letter}", "nothing there", ok=False) for letter in "ab"]


@pytest.mark.parametrize(
    ("steps", "ends_at"),
    [
        (guesses, FAILURES),
        (edits_that_do_not_fit, FAILURES),
        (failing_batches, 4),
        (program_without_a_pause, FAILURES),
    ],
)
def test_failures_in_a_row_end_the_task(steps: Any, ends_at: int) -> None:
    """Whatever fails, and warned three before."""
    story = Story()
    ended, told = story.play(steps())
    assert ended == ends_at
    assert f"{FAILURES} calls in a row failed" in (reason(story.task.rounds) or "")
    assert "calls failed. At 8 in a row the task ends." in told[-2]


def busy_computer() -> Iterator[Done]:
    for _ in range(20):
        yield run(text="The computer is busy with another program.", ok=False, code="busy")


def away_computer() -> Iterator[Done]:
    for _ in range(20):
        yield read(text="Computer 3 is away.", ok=False, code="computer_away")


def one_success_in_between() -> Iterator[Done]:
    for number in range(30):
        yield read(f"f{number}", "nothing there" if number % 7 else f"local x = {number}", ok=number % 7 == 0)


def fixing() -> Iterator[Done]:
    disk = Disk()
    for number in range(9):
        yield disk.write("a.lua", f"-- {number}")
        yield run("a.lua", f"a.lua:{number}: nil", ok=False)


@pytest.mark.parametrize("steps", [busy_computer, away_computer, one_success_in_between, fixing])
def test_waiting_and_fixing_are_no_failures_in_a_row(steps: Any) -> None:
    """A busy or absent computer is tried again as often as it takes; a success breaks the row."""
    assert Story().play(steps())[0] == 0


def test_one_reply_of_failing_calls_is_warned_before_it_ends_the_task() -> None:
    """However many calls it has: the model has heard of the limit once."""
    story = Story()
    batch = [read(f"{number}", "nothing there", ok=False) for number in range(FAILURES + 2)]
    ended, told = story.play(iter([batch, batch]))
    assert ended == 2
    assert "Your last 10 calls failed. At 8 in a row the task ends." in told[0]


def test_what_the_policy_denies_fails_and_what_a_person_rejects_does_not() -> None:
    """A person's decisions have a limit of their own."""
    denied = Story()
    for number in range(FAILURES):
        assert reason(denied.task.rounds) is None
        denied.proposed([call(f"d{number}", path=f"{number}")], "deny")
    assert f"{FAILURES} calls in a row failed" in (reason(denied.task.rounds) or "")
    rejected = Story()
    rejected.proposed([call("r1")], "ask")
    rejected.reviewed("r1")
    assert rejected.task.rounds == AT_FIRST


# -- messages -----------------------------------------------------------------------------


def test_steps_of_messages_only_end_the_task() -> None:
    """The sixth in a row, in whatever words; a step that does something breaks the row."""
    words = ("I begin.", "Ich fange an.", "Je commence.", "Empiezo.", "Still at it.", "Fast fertig.", "Bientôt.")
    story = Story()
    ended, told = story.play(status(one) for one in words)
    assert ended == MESSAGES
    assert "only sent messages" in (reason(story.task.rounds) or "")
    assert [bool(one) for one in told] == [False, False, True, True, True, True]
    honest = Story()
    assert honest.play([status(f"{number} of 9"), read(text=f"{number}")] for number in range(9))[0] == 0
    assert honest.play(status(f"{number}") if number % 3 else read(f"f{number}") for number in range(20))[0] == 0


# -- polling, and what is kept -------------------------------------------------------------


def test_a_look_whose_result_changes_is_no_repetition() -> None:
    """How far a turtle is may be asked as often as it moves; the same answer is the same look again."""
    story = Story()
    assert story.play(read("progress", f"{number} blocks") for number in range(30))[0] == 0
    assert story.play(read("progress", "29 blocks") for _ in range(9))[0] == STOP_AT - 1


def test_what_is_remembered_is_bounded() -> None:
    """However many files a task changes, and however long its arguments are."""
    story = Story()
    disk = Disk()
    for number in range(300):
        story.step(disk.write(f"f{number}", "x"))
    story.step(run(args=["x" * 10_000] * 3))
    kept = story.task.rounds
    assert (len(kept.paths), len(kept.seen)) == (256, 64)
    assert kept.growth is not None
    assert all(len(text) < 220 for _, text in kept.growth.args)


def test_a_warning_says_what_to_do() -> None:
    """One sentence for each kind, and none at first."""
    assert (warning(AT_FIRST), reason(AT_FIRST)) == ("", None)
    for seen in (Rounds(returns=RETURNS - 1), Rounds(blind=RETURNS - 1), Rounds(failures=5), Rounds(messages=3)):
        assert "the task ends. Try another way, or send a final with success false" in warning(seen)
        assert reason(seen) is None
    assert "success" not in (reason(Rounds(blind=RETURNS)) or "")


def test_a_settled_run_counts_as_one_that_was_heard() -> None:
    """What a computer says later of a change is the same change."""
    story = Story()
    for number, hashes in enumerate((("absent", "h"), ("h", "absent")) * 2):
        made = call(f"s{number}", path="a")
        story.proposed([made], "allow")
        story.started(made.call_id, before={"a": hashes[0]})
        story.settled(made.call_id, "finished", ok=True, text="done", after={"a": hashes[1]})
    assert story.task.rounds.returns == RETURNS
    assert rounds.after(story.task.rounds, []).returns == RETURNS
