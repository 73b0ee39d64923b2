"""Following a task: over a broken pipe, a Ctrl-C, a restart, and hints that come, come late or do not come."""

import asyncio
import io
import json
import os
import re
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pyte
import pytest

from orchestrator.client import Hint, sent_in
from orchestrator.core.errors import InvalidRequest
from orchestrator.core.task import facts
from orchestrator.core.task.facts import ReplyRefused
from orchestrator.engine.actor.journal import PAUSED
from orchestrator.runtime.program import program
from orchestrator.terminal.cli.common import seconds
from orchestrator.terminal.output import Screen, age, counted, elapsed, fitted, table, width, wrapped
from orchestrator.terminal.progress import Progress
from tests import forked
from tests.core.journal import NOW, Journal, call
from tests.harness.commands import CLI, Served, environment, script, serving, talking, until
from tests.harness.support import call as tool
from tests.harness.support import dialed, final, hello, says
from tests.waiting import HANG_S

WRITE = tool("local_write", path="plan.txt", content="new\n")


@pytest.fixture(scope="module")
def talker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for the tests that only talk to it."""
    home = tmp_path_factory.mktemp("home")
    with talking(home, home / "data") as served:
        yield served


# -- leaving -----------------------------------------------------------------------------


def test_a_reader_that_goes_away_ends_it_quietly(talker: Served) -> None:
    """Where the output has no reader any more (`| head`), a command ends with 141 and complains of nothing."""
    follower = talker.start("run", script(says(WRITE), final()))
    task_id = until(follower, "[REVIEW]").split()[1]
    reading, writing = os.pipe()
    os.close(reading)
    listing = forked.run(
        [*CLI, "tasks", *talker.where],
        environment(talker.home),
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=HANG_S,
    )
    os.close(writing)
    assert (listing.returncode, listing.stderr) == (141, "")
    assert follower.stdout is not None
    follower.stdout.close()
    talker.cli("cancel", task_id)
    assert follower.wait(HANG_S) == 141
    assert follower.stderr is not None
    assert follower.stderr.read() == ""
    follower.stderr.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("command", ["tasks", "people list"])
def test_a_full_disk_is_said_in_a_sentence(talker: Served, command: str) -> None:
    """Where the output cannot be written any more, a command ends with 1 and one sentence."""
    with Path("/dev/full").open("w") as full:
        listing = forked.run(
            [*CLI, *command.split(), *talker.where],
            environment(talker.home),
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=HANG_S,
        )
    assert listing.returncode == 1
    assert listing.stderr == (
        "cc-orchestrator: It cannot be written: No space left on device. Make room, or write it elsewhere.\n"
    )


def test_ctrl_c_leaves_the_task_running_and_says_how_to_come_back(talker: Served) -> None:
    """Ctrl-C ends `run` with 130: the task goes on, and both commands that are named do what they say."""
    follower = talker.start("run", script(says(WRITE), final()))
    task_id = until(follower, "[REVIEW]").split()[1]
    follower.send_signal(2)
    _, errors = follower.communicate(timeout=HANG_S)
    assert follower.returncode == 130
    assert "Traceback" not in errors
    assert "You left; the task goes on." in errors
    assert f"{program()} tasks watch {task_id} --url {talker.url}" in errors
    assert f"{program()} cancel {task_id} --url {talker.url}" in errors
    assert json.loads(talker.cli("tasks", "show", task_id, "--json").stdout)["status"] == "Paused"
    watching = talker.start("tasks", "watch", task_id)
    until(watching, "[REVIEW]")
    assert talker.cli("cancel", task_id).stdout == f"task {task_id} is Canceled\n"
    said, _ = watching.communicate(timeout=HANG_S)
    assert watching.returncode == 1
    assert "[FINAL] Success=False" in said


def test_the_end_names_the_command_that_puts_changes_back(talker: Served) -> None:
    """After a success too: what it changed, and the undo."""
    follower = talker.start("run", script(says(WRITE), final()))
    task_id = until(follower, "[REVIEW]").split()[1]
    (request,) = json.loads(talker.cli("review", "--list", "--json").stdout)
    talker.cli("review", "--approve", request["request_id"], "--yes")
    _, errors = follower.communicate(timeout=HANG_S)
    assert follower.returncode == 0, errors
    undo = f"{program()} undo {task_id} --url {talker.url} --data-dir {talker.data}"
    assert errors.endswith(f"It changed workspace:plan.txt.\n  put it back:  {undo}\n")


def test_without_a_terminal_it_says_who_decides(talker: Served) -> None:
    """A followed task that waits says once how it is decided; plain lines, not one escape."""
    follower = talker.start("run", script(says(WRITE), final()))
    text = until(follower, "It waits for a person: `cc-orchestrator review`")
    talker.cli("cancel", text.split()[1])
    rest, _ = follower.communicate(timeout=HANG_S)
    assert "\x1b" not in text + rest
    assert (text + rest).count("It waits for a person") == 1


# -- a server that goes away -------------------------------------------------------------


def test_a_restart_is_ridden_out(tmp_path: Path) -> None:
    """A server that is killed and started again: the follower says so, misses nothing and repeats nothing."""
    with talking(tmp_path, tmp_path / "data") as server:
        follower = server.start("run", script(says(WRITE), final()))
        before = until(follower, "It waits for a person")
        server.process.kill()
        server.process.wait()
        before += until(follower, "The server went away.")
        with talking(tmp_path, tmp_path / "data", server.port) as again:
            before += until(follower, "The connection is back.")
            again.cli("cancel", before.split()[1])
            after, errors = follower.communicate(timeout=HANG_S)
    assert follower.returncode == 1, errors
    assert before.splitlines()[-2:] == ["The server went away. Trying again for 90 s.", "The connection is back."]
    assert (before + after).count("[TOOL]") == 1
    assert "[FINAL] Success=False" in after


def test_a_server_that_stays_away_is_an_exit_code(tmp_path: Path) -> None:
    """SIGTERM ends the server though somebody follows; the follower looks for it, gives up, and exits with 3."""
    with serving(tmp_path, tmp_path / "data") as server:
        server.cli("token", "computer", "3")
        follower = server.start("run", "fix it", "--computer", "3", "--reconnect", "1")
        until(follower, "[TOOL] cc_write(")
        server.process.terminate()
        assert server.process.wait(HANG_S) == 0
        said, errors = follower.communicate(timeout=HANG_S)
    assert follower.returncode == 3, errors
    assert "The server went away. Trying again for 1 s." in said
    assert "No orchestrator answers at" in errors
    assert "Traceback" not in errors


def test_a_computer_that_is_away_is_named(talker: Served) -> None:
    """While a call waits for its computer, a follower says which one is away."""
    talker.cli("token", "computer", "barn")
    follower = talker.start("run", script(says(tool("cc_list", path="/")), final()), "--computer", "barn")
    text = until(follower, "[WAITING] Away: computer barn.")
    follower.kill()
    follower.communicate()
    assert text.index("[TOOL] cc_list(") < text.index("[WAITING]")
    talker.cli("cancel", text.split()[1])


@pytest.mark.deep
def test_a_computer_that_is_frozen_says_why_and_what_to_do(talker: Served) -> None:
    """It does not come back by itself, so a follower is not told to wait for that."""
    one, another = (talker.cli("token", "computer", "shed").stdout.strip() for _ in range(2))

    async def two_of_a_name() -> None:
        async with dialed(talker.url, one) as first:
            await first.greet()
        async with dialed(talker.url, another) as other:
            await other.send(hello(computer_id=99))
            await other.hear("refused")

    asyncio.run(two_of_a_name())
    follower = talker.start("run", script(says(tool("cc_list", path="/")), final()), "--computer", "shed")
    text = until(follower, "Switch off the one")
    follower.kill()
    follower.communicate()
    waiting, remedy = text.splitlines()[-2:]
    assert waiting.startswith("[WAITING] Computer shed is frozen: ")
    assert "`cc-orchestrator computers release shed`" in remedy
    talker.cli("cancel", text.split()[1])


# -- the stream --------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_events_are_read_however_they_are_cut(size: int) -> None:
    """LF and CR LF end lines, a comment is told as one, and no other line break of Unicode splits a line."""
    events = (
        ": hello\n\n",
        'id: 1\nevent: a\ndata: "x\u2028\x85\x0b\u00e4"\n\n',
        "event: b\r\ndata:1\r\ndata: 2\r\n\r\n",
        "data: 3\n\nevent: c\n\n",
    )
    data = "".join(events).encode()
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    wanted = [(":", ""), ("a", '"x\u2028\x85\x0b\u00e4"'), ("b", "1\n2"), ("message", "3")]
    assert list(sent_in(chunks)) == wanted


def test_hints_are_lines_of_json_too(talker: Served) -> None:
    """`run --json` shows the parts of a reply as {"hint": …}; put together they are the item's explanation.

    Of a reply that began before anybody listened the beginning is not told again: a long one is still coming by then.
    """
    said = says(tool("send_status", message="on my way"), explanation="I look around first, then I write. " * 25)
    ran = talker.cli("run", script(said, final("all is well")), "--json")
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    hints = [one for one in lines if "hint" in one]
    parts = [one["text"] for one in hints if one["hint"] == "explanation" and one["step"] == 1]
    assert len(parts) > 1
    assert said["explanation"].endswith("".join(parts))
    assert [one["version"] for one in lines if "hint" not in one] == list(range(1, len(lines) - len(hints) + 1))


# -- what a person sees ------------------------------------------------------------------


def _same(now: datetime) -> datetime:
    return now


def at_once(story: Journal) -> datetime:
    """The time at which the last of it happened."""
    return story.items[-1].at


def seen(*events: object, grows: bool = True) -> str:
    """What a screen shows of items and hints."""
    out = io.StringIO()
    progress = Progress(Screen(out, grows=grows), lambda: NOW)
    for event in events:
        if isinstance(event, Hint):
            progress.hint(event)
        else:
            progress.item(event)  # type: ignore[arg-type]
    return out.getvalue()


def explains(step: int, text: str) -> Hint:
    """A part of an explanation."""
    return Hint("explanation", {"step": step, "text": text})


def prints(offset: int, text: str, call_id: str = "c1") -> Hint:
    """A part of a program's output."""
    return Hint("output", {"call_id": call_id, "offset": offset, "text": text})


def proposed(explanation: str) -> Journal:
    """A task up to its first proposed call."""
    story = Journal()
    story.submitted()
    story.proposed([call("c1", "cc_run_program", path="a.lua")], "allow", explanation=explanation)
    return story


LOG = "[STEP 1]\n[EXPLANATION] I run it,\n    and look.\n[TOOL] cc_run_program({'path': 'a.lua'}) on 3\n"


@pytest.mark.parametrize(
    "parts",
    [(), ("I run it,\nand look.",), ("I run", " it,\n", "and look."), ("I run it",), ("I run it,\nand look. ",)],
    ids=["no hint", "whole", "parts", "begun", "with a blank"],
)
def test_an_explanation_is_shown_once_however_it_came(parts: tuple[str, ...]) -> None:
    """Whole, in parts, begun or not at all: the explanation stands there once, as if it had come with its item."""
    submitted, asked, *rest = proposed("I run it,\nand look.").items
    shown = seen(submitted, asked, *(explains(1, part) for part in parts), *rest)
    assert shown.replace("look. \n", "look.\n") == LOG


@pytest.mark.parametrize("hint", [explains(2, "of a step to come"), explains(0, "of a step that was")])
def test_a_hint_of_another_step_is_left_out(hint: Hint) -> None:
    """A hint that is not of the step that is being written shows nothing."""
    submitted, asked, *rest = proposed("I run it,\nand look.").items
    assert seen(submitted, asked, hint, *rest) == LOG


def test_a_step_whose_hints_began_too_early_comes_with_its_items() -> None:
    """When the first hints of a step overtake the items of the step before, none of its hints is shown."""
    submitted, asked, *rest = proposed("I run it,\nand look.").items
    assert seen(submitted, explains(2, "x"), asked, *rest, explains(2, "y")) == LOG


def test_an_explanation_that_overtakes_the_request_stands_there_once() -> None:
    """A quick model's hints come before the item that asks for them; of a second attempt they are begun anew."""
    submitted, asked, *rest = proposed("I run it,\nand look.").items
    assert seen(submitted, explains(1, "I run it,\nand look."), asked, *rest) == LOG
    again = Journal()
    again.submitted()
    again.asked()
    again.asked(attempt=2)
    _, _, second = again.items
    shown = seen(submitted, asked, explains(1, "I tried"), second, explains(1, "I run it,\nand look."), *rest)
    assert shown == "[STEP 1]\n[EXPLANATION] I tried\n" + LOG.removeprefix("[STEP 1]\n")


def test_what_a_refused_reply_explained_is_not_of_the_next() -> None:
    """The explanation of the next step is a line of its own, though its hints come before its request."""
    story = Journal()
    story.submitted()
    story.asked()
    story.replied()
    story.add(ReplyRefused(reason="It is none."))
    first = list(story.items)
    story.asked()
    story.replied()
    story.ended("Completed", "final", message="done", explanation="At last.")
    later = story.items[len(first) :]
    submitted, asked, *rest = first
    shown = seen(submitted, asked, explains(1, "So."), *rest, explains(2, "At last."), *later)
    assert shown.count("At last.") == 1
    assert "[STEP 2]\n[EXPLANATION] At last.\n[FINAL]" in shown


def test_prose_of_a_task_is_broken_at_blanks_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The arguments of a call stay on one line; no text of others comes to the start of a line."""
    monkeypatch.setenv("COLUMNS", "40")
    story = Journal()
    story.submitted()
    story.asked()
    story.replied()
    story.add(ReplyRefused(reason="The server at http://127.0.0.1:11434/models was meant. [FINAL] Success=True"))
    lines = seen(*story.items).splitlines()
    assert any("http://127.0.0.1:11434/models" in one for one in lines)
    assert max(map(len, lines)) <= 40
    assert not [one for one in lines if one.startswith("[FINAL]")]
    assert "[FINAL]" not in seen(*story.items, grows=False).splitlines()[-1][:8]


def test_the_clock_of_a_task_that_is_looked_at_late_counts_from_its_beginning() -> None:
    """What waited for two minutes before somebody looked says so; a clock that is behind makes it no younger."""
    story = proposed("I run it.")
    began, last = story.items[0].at, story.items[-1].at
    for here, so_long in ((began + timedelta(minutes=2), 120), (began - timedelta(hours=1), (last - began).seconds)):
        progress = Progress(Screen(io.StringIO(), grows=True, moves=True), now=partial(_same, here))
        for item in story.items:
            progress.item(item)
        assert progress.status().endswith(f"step 1 of 20, {elapsed(so_long)})")


def test_the_status_has_the_step_the_tokens_and_the_time() -> None:
    """Tokens of all replies, in and out."""
    story, progress = Journal(), Progress(Screen(io.StringIO()), lambda: NOW)
    story.submitted()
    story.asked()
    for one in story.items:
        progress.item(one)
    for usage in (facts.Usage(input_tokens=1000, output_tokens=30), facts.Usage(input_tokens=200, output_tokens=4)):
        raw = facts.BlobRef(sha256="b" * 64, size=2)
        progress.item(story.sealed(facts.ModelReplied(raw=raw, done_reason="stop", usage=usage)))
    assert re.fullmatch(r"looking at its reply \(step 1 of 20, 1234 tokens, \d+:\d\d\)", progress.status())


def test_an_explanation_that_became_another_is_shown_whole() -> None:
    """When the model began anew, what it said in the end is never left out, and the log's lines stay lines."""
    submitted, asked, *rest = proposed("I run it,\nand look.").items
    shown = seen(submitted, asked, explains(1, "First I th\x1b[2J"), *rest)
    assert shown == "[STEP 1]\n[EXPLANATION] First I th\\u{1b}[2J …\n" + LOG.removeprefix("[STEP 1]\n")


@pytest.mark.parametrize(
    ("verified", "grows", "more"),
    [
        (False, True, "Unverified: the journal does not support it. Look before you trust it.\n"),
        (False, False, ""),
        (True, True, ""),
    ],
    ids=["a terminal", "a pipe", "verified"],
)
def test_a_person_is_told_what_unverified_means(verified: bool, grows: bool, more: str) -> None:
    """The line before it is for programs, too, and the same everywhere."""
    story = Journal()
    story.submitted()
    story.ended("Completed", "final" if verified else "unverified", verified=verified, message="Mended.")
    success = "True" if verified else "Unverified"
    assert seen(*story.items, grows=grows) == f"[FINAL] Success={success}, Message=Mended.\n{more}"


def ran(*hints: Hint, output: str, grows: bool = True) -> str:
    """What is shown of a run whose output came before its result, after the log up to the call."""
    story = proposed("I run it,\nand look.")
    story.started("c1")
    before = tuple(story.items)
    story.finished("c1", text=f"Program a.lua executed successfully.\nOutput:\n{output}")
    return seen(*before, *hints, *story.items[len(before) :], grows=grows).removeprefix(LOG)


@pytest.mark.parametrize("grows", [True, False])
def test_that_the_game_is_paused_stands_in_the_output_and_counts_for_nothing(grows: bool) -> None:
    """It is said where the output is shown, and what the program writes afterwards is shown as ever."""
    paused = Hint("output", {"call_id": "c1", "offset": 4, "size": 0, "text": PAUSED})
    shown = ran(prints(0, "one\n"), paused, prints(4, "two\n"), output="one\ntwo\n", grows=grows)
    lines = [line.strip() for line in shown.splitlines()]
    at = lines.index("one")
    assert lines[at : at + 3] == ["one", PAUSED.strip(), "two"]
    assert "not shown" not in shown
    assert "Its output is above." in shown


@pytest.mark.parametrize("grows", [True, False])
def test_output_is_shown_once_as_it_comes(grows: bool) -> None:
    """Output that came whole is not repeated by the result; on a pipe it comes in whole lines."""
    shown = ran(prints(0, "one\nt"), prints(5, "wo\n\x1b[2J\n"), output="one\ntwo\n\x1b[2J", grows=grows)
    assert shown.splitlines() == [
        "[OUTPUT] cc_run_program on 3",
        "    one",
        "    two",
        "    \\u{1b}[2J",
        "[TOOL_RESULT] Program a.lua executed successfully. Its output is above.",
    ]


ABOVE = "[TOOL_RESULT] Program a.lua executed successfully. Its output is above.\n"


@pytest.mark.parametrize("grows", [True, False])
@pytest.mark.parametrize("part", ["one\n", "one\nt", "one\ntwo", "one"])
def test_output_that_went_on_is_finished_before_its_result(part: str, grows: bool) -> None:
    """What the hints did not bring is shown before the sentence that says it is above, and only that."""
    shown = ran(prints(0, part), output="one\ntwo\n  three", grows=grows)
    assert shown == f"[OUTPUT] cc_run_program on 3\n    one\n    two\n      three\n{ABOVE}"


@pytest.mark.parametrize("grows", [True, False])
def test_output_that_a_lost_connection_cut_is_finished_before_its_result(grows: bool) -> None:
    """The rest that was never streamed stands below its call's name, after what was said of the connection."""
    story = proposed("I run it.")
    story.started("c1")
    out = io.StringIO()
    progress = Progress(Screen(out, grows=grows), lambda: NOW)
    for item in story.items:
        progress.item(item)
    progress.hint(prints(0, "tick 1\n"))
    progress.note("The connection is back.")
    story.finished("c1", text="Program a.lua executed successfully.\nOutput:\ntick 1\ntick 2\n")
    progress.item(story.items[-1])
    assert out.getvalue().endswith(
        "[OUTPUT] cc_run_program on 3\n    tick 1\nThe connection is back.\n"
        f"[OUTPUT] cc_run_program on 3\n    tick 2\n{ABOVE}"
    )


@pytest.mark.parametrize(
    "hints",
    [(prints(4, "two\n"),), (prints(0, "one\n"), prints(8, "three\n")), (prints(0, "other\n"),)],
    ids=["begun late", "a gap", "other text"],
)
def test_output_with_gaps_is_shown_whole_by_the_result(hints: tuple[Hint, ...]) -> None:
    """When a part was missed, the result has all of it: what a person relies on is never pieced together."""
    assert ran(*hints, output="one\ntwo\nthree").endswith(
        "[TOOL_RESULT] Program a.lua executed successfully.\n    Output:\n    one\n    two\n    three\n"
    )


def test_a_status_is_below_everything_and_leaves_nothing() -> None:
    """Where the cursor moves, one status line stands below the log, says where the task is, and goes at the end."""
    story = proposed("I run it.")
    out = io.StringIO()
    screen = Screen(out, grows=True, moves=True)
    progress = Progress(screen, lambda: NOW)
    for item in story.items:
        progress.item(item)
    assert "step 1 of 20" in out.getvalue().rpartition("\r\x1b[K")[2]
    story.started("c1")
    story.finished("c1")
    story.asked()
    story.replied()
    story.ended("Completed", "final", message="done")
    for item in story.items[4:]:
        progress.item(item)
    screen.close()
    assert out.getvalue().endswith("[FINAL] Success=True, Message=done\n")
    kept = [line.rpartition("\r\x1b[K")[2] for line in out.getvalue().split("\n")]
    assert kept[0] == "[STEP 1]"
    assert not [line for line in kept if "step 1 of 20" in line]


def test_the_calls_of_a_restoration_are_counted_below_the_log() -> None:
    """Where a step has many calls, a bar says how many are through; void ones are not, and few calls have none."""
    story = Journal()
    story.submitted()
    names = [f"c{number}" for number in range(1, 6)]
    story.proposed([call(one, "cc_read", path=f"{one}.lua") for one in names], *["allow"] * 5)
    for one, state in (("c1", "finished"), ("c2", "void")):
        story.started(one)
        story.settled(one, state, ok=True if state == "finished" else None)
    story.started("c3")
    story.finished("c3")
    progress = Progress(Screen(io.StringIO(), grows=True, moves=True), lambda: NOW)
    for item in story.items:
        progress.item(item)
    assert progress.status().endswith("  [#########---------------] 2 of 5")
    few = Progress(Screen(io.StringIO(), grows=True, moves=True), lambda: NOW)
    for item in proposed("I run it.").items:
        few.item(item)
    assert " of 1" not in few.status()


def test_an_answer_that_is_being_written_is_seen_in_the_status_only() -> None:
    """The message of a final reply shows its end below the log while it comes, cleaned; the log has it once, whole."""
    story = Journal()
    story.submitted()
    story.asked()
    out = io.StringIO()
    progress = Progress(Screen(out, grows=True, moves=True), lambda: NOW)
    for item in story.items:
        progress.item(item)
    progress.hint(Hint("message", {"step": 1, "text": "It \x1b[2Jruns"}))
    assert progress.status().startswith("answering (step 1 of 20, 0:01)")
    assert progress.status().endswith("…It \\u{1b}[2Jruns")
    story.replied()
    story.ended("Completed", "final", message="It runs.")
    for item in story.items[2:]:
        progress.item(item)
    shown = [line.rpartition("\r\x1b[K")[2] for line in out.getvalue().split("\n")]
    assert shown == ["[STEP 1]", "[FINAL] Success=True, Message=It runs.", ""]


def shown_on(screen: pyte.Screen, out: io.StringIO) -> list[str]:
    """What stands on a terminal after all that was written, without the blank rows below."""
    stream = pyte.Stream(screen)
    stream.feed(out.getvalue().replace("\n", "\r\n"))
    rows = [row.rstrip() for row in screen.display]
    while rows and not rows[-1]:
        rows.pop()
    return rows


@pytest.mark.parametrize("rows", [3, 8])
def test_a_status_stands_below_a_line_that_grows(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a line is being written the status is below it, also at a terminal's bottom, and nothing of it stays."""
    monkeypatch.setenv("COLUMNS", "20")
    out = io.StringIO()
    screen = Screen(out, grows=True, moves=True)
    screen.line("one")
    screen.line("two")
    screen.part("and thre")
    screen.status("thinks 0:01")
    assert shown_on(pyte.Screen(20, rows), out)[-2:] == ["and thre", "thinks 0:01"]
    screen.part("e, and four and fi")
    screen.status("thinks 0:02")
    assert shown_on(pyte.Screen(20, rows), out)[-3:] == ["and three, and four", "and fi", "thinks 0:02"]
    screen.part("ve, and six, s")
    screen.status("at the edge 0:03")
    assert shown_on(pyte.Screen(20, rows), out)[-1] == "and five, and six, s"
    screen.part("even")
    screen.status("thinks 0:04")
    screen.line("done")
    assert shown_on(pyte.Screen(20, rows), out)[-2:] == ["even", "done"]
    screen.close()
    assert "0:0" not in "".join(shown_on(pyte.Screen(20, rows), out))


# -- tables and spans --------------------------------------------------------------------


def test_a_table_keeps_its_columns() -> None:
    """Columns line up by the width on a terminal, wide letters too, and lines are cut where the terminal ends."""
    assert table(("A", "B"), [("x", "1"), ("日本", "2")]) == ["A     B", "x     1", "日本  2"]
    assert table(("A", "B"), [("x", "12345")], columns=5) == ["A  B", "x  1…"]
    assert fitted("日本語", 5) == "日本…"


def test_the_last_column_goes_on_below_itself() -> None:
    """Where a terminal is narrow, the last cell is broken at blanks, and never in a word that fits."""
    shown = table(("TASK", "PROMPT"), [("t-1", "dig a tunnel to the quarry")], columns=24)
    assert shown == ["TASK  PROMPT", "t-1   dig a tunnel to", "      the quarry"]
    assert table(("TASK", "PROMPT"), [("t-1", "x" * 30)], columns=24)[1] == "t-1   " + "x" * 17 + "…"


@pytest.mark.parametrize("columns", [20, 30, 52])
def test_a_long_line_goes_on_set_in_and_keeps_addresses_whole(columns: int) -> None:
    """Its blanks stay as they are, and no word of it begins a line: that would look like a line of ours."""
    line = "   1  ollama:coder  4.7 GB, [FINAL] of Ollama at http://127.0.0.1:11434, suggested"
    first, *more = wrapped(line, columns, indent=6)
    assert (first.startswith("   1  "), {one[:6] for one in more}) == (True, {" " * 6})
    assert " ".join(line.split()) == " ".join(" ".join([first, *more]).split())
    assert all(width(one) <= columns or len(one.split()) == 1 for one in more)


def test_a_sentence_is_broken_at_blanks_and_a_command_never() -> None:
    """On a terminal a note is broken between words; a command in backticks stays in one piece, however long."""
    note = "It waits: `cc-orchestrator review --url X` decides."
    assert wrapped(note, 20) == ["It waits:", "`cc-orchestrator review --url X`", "decides."]
    assert wrapped("", 20) == [""]
    assert wrapped("one ` two", 5) == ["one `", "two"]


@pytest.mark.parametrize(
    ("text", "span"),
    [("90", 90), ("90s", 90), ("1.5", 1.5), ("10m", 600), ("1h30m", 5400), (" 2H ", 7200), ("168h", 604_800), ("0", 0)],
)
def test_a_span_is_read_as_people_write_it(text: str, span: float) -> None:
    """Seconds, minutes, hours, and together."""
    assert seconds(text, endless=True) == span


@pytest.mark.parametrize("text", ["", " ", "soon", "10 m", "m", "-5", "1d", "1e3"])
def test_what_is_no_span_is_refused(text: str) -> None:
    """Anything else is a sentence with an example."""
    with pytest.raises(InvalidRequest, match="is not a span of time"):
        seconds(text)


def test_one_of_a_kind_is_said_so() -> None:
    """One is singular, none and more are plural."""
    assert [counted(number, "step") for number in (0, 1, 2)] == ["0 steps", "1 step", "2 steps"]


def test_ages_and_times_are_short() -> None:
    """How long ago, and how long, in the unit that fits."""
    assert elapsed(65) == "1:05"
    assert elapsed(3725) == "1:02:05"
    assert age("nonsense") == ""
    assert [age("2000-01-01T00:00:00+00:00").split()[1], age("2999-01-01T00:00:00+00:00")] == ["d", "0 s"]
