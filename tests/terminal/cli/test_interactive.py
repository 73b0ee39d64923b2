"""The terminal as a person has it before them: decisions in place, and the prompt of a session."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.runtime.program import program
from tests import forked
from tests.harness.commands import Served, Terminal, environment, on_a_terminal, script, talking, until
from tests.harness.support import call, final, says
from tests.waiting import HANG_S

WRITE = call("local_write", path="plan.txt", content="new\n")
ASK = call("ask_user", question="left or right?")
PROMPT = "[h]elp > "


@pytest.fixture(scope="module")
def talker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all of these."""
    home = tmp_path_factory.mktemp("home")
    with talking(home, home / "data") as served:
        yield served


def status(server: Served, terminal: Terminal) -> str:
    """How the task stands that a terminal has submitted last."""
    task_id = terminal.text.rpartition("task t-")[2].split()[0]
    return str(json.loads(server.cli("tasks", "show", f"t-{task_id}", "--json").stdout)["status"])


# -- run, on a terminal ------------------------------------------------------------------


def test_a_person_decides_and_answers_where_they_submitted(talker: Served) -> None:
    """The request is shown whole and decided at a prompt, the question is answered there, and the task goes on."""
    replies = script(says(WRITE), says(ASK), final("left it is"))
    with on_a_terminal(talker.home, "run", replies, *talker.where) as terminal:
        terminal.expect("  │ +new")
        terminal.expect(PROMPT)
        terminal.type("z\n")
        terminal.expect("nothing was decided")
        terminal.expect(PROMPT)
        terminal.type("a\n")
        terminal.expect("[TOOL_RESULT] ")
        terminal.expect("[QUESTION] left or right?")
        terminal.expect("Your answer (empty: leave it): ")
        terminal.type("the left one\n")
        terminal.expect("[ANSWER] the left one")
        assert terminal.end() == 0, terminal.text
    assert "[FINAL] Success=True, Message=left it is\n" in terminal.text
    assert terminal.text.count("[REVIEW]") == 1


LONG = "".join(f"print('row {number:02}')\n" for number in range(30))
"""A program of more characters than the line of a call shows."""


def test_a_file_is_shown_once_as_its_diff_and_each_call_names_its_computer(talker: Served) -> None:
    """In `run`, `tasks watch` and `tasks show`; the approval and the result do not repeat it. An undo has no steps."""
    token = talker.cli("token", "computer", "farm").stdout.strip()
    url = f"ws{talker.url.removeprefix('http')}/computer"
    (talker.home / "disk").mkdir()
    replies = script(says(call("cc_write", path="rows.lua", content=LONG)), says(call("cc_list", path="/")), final())
    command = [sys.executable, "-m", "cc_client.simulator", "--url", url, "--token", token, "--disk", "disk"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    computer = forked.start(command, environment(talker.home), cwd=talker.home, **quiet)
    try:
        with on_a_terminal(talker.home, "run", replies, "--computer", "farm", *talker.where) as terminal:
            terminal.expect(PROMPT)
            terminal.type("a\n")
            terminal.expect("[FINAL]")
            terminal.end()
        task_id = f"t-{terminal.text.partition('task t-')[2].split()[0]}"
        watched, shown = (talker.cli("tasks", verb, task_id).stdout for verb in ("watch", "show"))
        undone = talker.start("undo", task_id)
        undo = until(undone, "task t-").split()[-1]
        undone.kill()
        undone.communicate()
        of_undo = talker.cli("tasks", "show", undo).stdout
        talker.cli("cancel", undo)
    finally:
        computer.kill()
        computer.wait()
    for text, times in ((terminal.text, 1), (watched, 0), (shown, 1)):
        assert text.count("+print('row 17')") == times, text
        for line in (one for one in text.splitlines() if one.startswith("[TOOL] ")):
            assert line.endswith(" on farm"), line
        assert text.count("[TOOL] ") == 2
    assert "used      3 of 20 steps" in shown
    assert "used      0 steps" in of_undo or "used      1 step" in of_undo


def test_what_was_taken_back_is_not_taken_back_again(talker: Served) -> None:
    """The command names the task that did it, begins none, and says how the changes come again."""
    write = call("local_write", path="taken-back.txt", content="new\n")
    task_id = decided(talker, "run", script(says(write), final()))
    undo = decided(talker, "undo", task_id)
    again = talker.cli("undo", task_id, "--detach")
    assert (again.returncode, "task t-" in again.stdout) == (0, False)
    assert f"{task_id} is taken back by {undo} (Completed: 1 put back) already" in again.stderr
    assert "To have its changes again:  " in again.stderr
    assert f"cc-orchestrator undo {undo} " in again.stderr
    decided(talker, "undo", undo)
    # The changes are there again, so an undo of them begins anew.
    assert decided(talker, "undo", task_id) not in (undo, task_id)


def decided(talker: Served, *arguments: str) -> str:
    """A task that a command began, after what it asked for was approved."""
    follower = talker.start(*arguments)
    said = until(follower, "[REVIEW]")
    request = next(one["request_id"] for one in json.loads(talker.cli("review", "--list", "--json").stdout))
    assert talker.cli("review", "--approve", request, "--yes").returncode == 0
    follower.communicate()
    return f"t-{said.partition('task t-')[2].split()[0]}"


CHOICES = call("ask_user", question="Which way?", options=["left", "right", "straight on"])


def test_choices_are_numbered_where_they_are_asked_and_a_number_picks_one(talker: Served) -> None:
    """In `run`, with `answer`, and in `review`; own words are taken as they are, and a number out of range is words."""
    with on_a_terminal(talker.home, "run", "--read-only", script(says(CHOICES), final()), *talker.where) as terminal:
        terminal.expect("[QUESTION] Which way?")
        terminal.expect("  2. right")
        terminal.expect("Your answer (1 to 3 picks a choice, or use your own words; empty: leave it): ")
        terminal.type("2\n")
        terminal.expect("[ANSWER] right")
        assert terminal.end() == 0, terminal.text
    for typed, meant in (("3", "straight on"), ("4", "4"), ("back to 1", "back to 1")):
        follower = talker.start("run", "--read-only", script(says(CHOICES), final()))
        until(follower, "[QUESTION]")
        task_id = json.loads(talker.cli("tasks", "--json").stdout)[0]["task_id"]
        assert talker.cli("answer", task_id, typed).returncode == 0
        assert f"[ANSWER] {meant}\n" in follower.communicate(timeout=HANG_S)[0]
    follower = talker.start("run", "--read-only", script(says(CHOICES), final()))
    with on_a_terminal(talker.home, "review", *talker.where) as terminal:
        terminal.expect("3. straight on")
        terminal.expect("Your answer (1 to 3 picks a choice")
        terminal.type("1\n")
        terminal.expect("Carried out")
        terminal.interrupt()
        terminal.end()
    assert "[ANSWER] left\n" in follower.communicate(timeout=HANG_S)[0]


def test_the_goal_is_told_whole_once_and_then_by_its_beginning(talker: Served) -> None:
    """Each further request of a task names what was asked for, and does not repeat all of it."""
    again = call("local_write", path="plan.txt", content="newer\n")
    with on_a_terminal(talker.home, "run", script(says(WRITE), says(again), final()), *talker.where) as terminal:
        for _ in range(2):
            terminal.expect(PROMPT)
            terminal.type("a\n")
        terminal.end()
    first, second = [line for line in terminal.text.splitlines() if line.startswith("  asked by admin (")]
    assert len(first) > len(second) + 50
    assert second.endswith(" characters more]")
    assert first.startswith(second.partition(" [… ")[0])


def test_a_session_where_there_is_nothing_yet_says_so(tmp_path: Path) -> None:
    """Lists of nothing are sentences, with what to do."""
    with (
        talking(tmp_path, tmp_path / "data") as server,
        on_a_terminal(tmp_path, "run", *server.where, TERM="xterm") as terminal,
    ):
        missing = "There are no computers yet: connect one with `cc-orchestrator pair`."
        for typed, answer in (("", missing), ("/computers\r", missing), ("/tasks\r", "There are no tasks.")):
            terminal.type(typed)
            terminal.expect(answer)
            terminal.expect("] >")
        terminal.type("/quit\r")
        assert terminal.end() == 0, terminal.text


def test_an_explanation_grows_on_the_screen_and_stands_there_once(talker: Served) -> None:
    """On a terminal the explanation is seen while it is written, and its item does not repeat it."""
    # In the second step, and seconds long: whoever connects, or reads, late on a busy machine is there by then.
    words = "I look at " + "this, and at " * 40 + "that, and then I tell what I found."
    status = call("send_status", message="on my way")
    replies = script(says(status, explanation="First." * 30), says(status, explanation=words), final(success=False))
    with on_a_terminal(talker.home, "run", replies, *talker.where) as terminal:
        terminal.expect("[STEP 2]")
        terminal.expect("[EXPLANATION] I look")
        assert words not in terminal.text, "it came whole"
        assert terminal.end() == 1, terminal.text
    assert terminal.text.count(f"[EXPLANATION] {words}\n") == 1
    assert terminal.text.count("[STEP 2]") == 1
    assert "\x1b" not in terminal.text, "TERM=dumb takes no escapes"


def test_a_terminal_that_can_has_a_status_below(talker: Served) -> None:
    """Where the cursor moves there is a status with phase, step and tokens; NO_COLOR keeps colors away."""
    replies = script(says(ASK), final())
    for more, colored in (({"TERM": "xterm"}, False), ({"TERM": "xterm", "NO_COLOR": ""}, True)):
        with on_a_terminal(talker.home, "run", "--read-only", replies, *talker.where, **more) as terminal:
            terminal.expect("the model thinks (step 1 of 20, 0:0")
            terminal.expect("Your answer")
            terminal.type("left\n")
            terminal.expect("(step 2 of 20, 1")
            assert terminal.end() == 0, terminal.text
        assert ("\x1b[1m" in terminal.text) is colored
        assert "\x1b[K" in terminal.text


def test_what_was_typed_before_the_prompt_approves_nothing(talker: Served) -> None:
    """Keys pressed before the request stood on the screen are no decision about it."""
    with on_a_terminal(
        talker.home, "run", script(says(WRITE, explanation="x" * 200), final()), *talker.where
    ) as terminal:
        terminal.expect("[EXPLANATION] x")
        terminal.type("a\na\na\n")
        terminal.expect(PROMPT)
        terminal.type("r\n")
        terminal.expect("Reason (may be empty): ")
        terminal.type("no\n")
        terminal.expect("(Enter: c) > ")
        terminal.type("s\n")
        assert terminal.end() == 1, terminal.text
    assert "[DECISION] admin: reject local_write" in terminal.text


def test_a_prompt_ends_when_somebody_else_decides(talker: Served) -> None:
    """Decided elsewhere while the prompt stands open: it says so and goes on without a key."""
    with on_a_terminal(talker.home, "run", script(says(WRITE), final()), *talker.where) as terminal:
        terminal.expect(PROMPT)
        with on_a_terminal(talker.home, "review", *talker.where) as other:
            other.expect(PROMPT)
            other.type("r\n")
            other.expect("Reason (may be empty): ")
            other.type("\n")
            other.expect("(Enter: c) > ")
            other.type("s\n")
            other.expect("Carried out:")
        terminal.expect("That was decided elsewhere.")
        assert terminal.end() == 1, terminal.text


@pytest.mark.deep
def test_a_prompt_ends_when_somebody_else_answers(talker: Served) -> None:
    """Answered elsewhere while the prompt stands open: it says that, and goes on without a key."""
    with on_a_terminal(talker.home, "run", "--read-only", script(says(ASK), final()), *talker.where) as terminal:
        terminal.expect("Your answer (empty: leave it): ")
        assert talker.cli("answer", terminal.text.split()[1], "left").returncode == 0
        terminal.expect("That was answered elsewhere.")
        assert terminal.end() == 0, terminal.text
    assert "decided elsewhere" not in terminal.text


@pytest.mark.deep
def test_a_narrow_terminal_breaks_sentences_at_blanks(talker: Served) -> None:
    """At 40 columns a sentence of ours goes on in a new line, and its command stays in one piece."""
    with on_a_terminal(talker.home, "run", script(says(WRITE), final()), *talker.where, COLUMNS="40") as terminal:
        terminal.expect(PROMPT)
        terminal.type("l\n")
        terminal.expect("decides it.")
        assert "Left open: nothing was decided.\n`cc-orchestrator review` decides it." in terminal.text
        terminal.interrupt()
        assert terminal.end() == 130, terminal.text
    task_id = terminal.text.split()[1]
    assert f"{program()} cancel {task_id} --url {talker.url} --data-dir {talker.data}\n" in terminal.text


@pytest.mark.deep
def test_a_session_by_a_new_name_is_said_to_be_new(talker: Served) -> None:
    """The prompt of a session that nobody began says that nothing earlier is known."""
    with on_a_terminal(talker.home, *session(talker, "--session", "tower"), TERM="xterm") as terminal:
        terminal.expect("session tower is new: nothing earlier is told to the model")
        terminal.expect("] >")
        terminal.type("/quit\r")
        assert terminal.end() == 0, terminal.text


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("typed", "said"), [("l\n", "Left open: nothing was decided."), ("\x04", "The input ended: ")])
def test_a_request_may_be_left_open(talker: Served, typed: str, said: str) -> None:
    """`l` and Ctrl-D decide nothing; the task is still followed, and Ctrl-C leaves it waiting."""
    with on_a_terminal(talker.home, "run", script(says(WRITE), final()), *talker.where) as terminal:
        terminal.expect(PROMPT)
        terminal.type(typed)
        terminal.expect(said)
        terminal.interrupt()
        assert terminal.end() == 130, terminal.text
    assert "You left; the task goes on." in terminal.text
    assert status(talker, terminal) == "Paused"


def test_who_may_not_decide_is_not_asked(talker: Served) -> None:
    """Somebody who only watches is told that others decide; no prompt opens."""
    with on_a_terminal(talker.home, "run", script(says(WRITE), final()), *talker.where) as terminal:
        terminal.expect(PROMPT)
        task_id = terminal.text.split()[1]
        token = talker.cli("people", "add", "eve").stdout.strip()
        with on_a_terminal(
            talker.home, "tasks", "watch", task_id, "--url", talker.url, CC_ORCHESTRATOR_TOKEN=token
        ) as other:
            other.expect("It waits for a person, and you may not decide.")
            assert PROMPT not in other.text
            talker.cli("cancel", task_id)
            assert other.end() == 1


# -- the prompt of a session -------------------------------------------------------------


def session(server: Served, *arguments: str) -> list[str]:
    """The command that opens one."""
    return ["run", *arguments, *server.where]


@pytest.mark.deep
def test_a_session_of_two_tasks_and_its_commands(talker: Served) -> None:
    """Each line is a task of one session, decided in place; commands answer; Ctrl-D leaves with 0."""
    with on_a_terminal(talker.home, *session(talker), TERM="xterm") as terminal:
        terminal.expect("] >")
        terminal.type("/help\r")
        terminal.expect("list the newest tasks")
        terminal.type("/nonsense\r")
        terminal.expect("There is no command /nonsense")
        terminal.type("/use nowhere\r")
        terminal.expect("There is no computer nowhere")
        terminal.type(script(says(WRITE), final("first is done")) + "\r")
        terminal.expect(PROMPT)
        terminal.type("a\n")
        terminal.expect("Message=first is done")
        terminal.expect("] >")
        terminal.type(script(final("second is done", success=False)) + "\r")
        terminal.expect("Message=second is done")
        terminal.expect("] >")
        terminal.type("/tasks\r")
        terminal.expect("Completed")
        terminal.expect("] >")
        terminal.type("\x04")
        assert terminal.end() == 0, terminal.text
    newest, before = json.loads(talker.cli("tasks", "--json", "--limit", "2").stdout)
    assert newest["session_id"] == before["session_id"]
    where = f"--url {talker.url} --data-dir {talker.data}"
    assert f"{program()} run --session {newest['session_id']} {where}\n" in terminal.text
    history = talker.data / "history"
    assert "second is done" in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600


def test_a_session_may_only_look(talker: Served) -> None:
    """`run --read-only` without a task: all of its tasks are denied what changes something, which is said before."""
    with on_a_terminal(talker.home, *session(talker, "--read-only"), TERM="xterm") as terminal:
        terminal.expect("Tasks may only look here: whatever changes something is denied.")
        terminal.expect("] >")
        terminal.type(script(says(WRITE), final("looked", success=False)) + "\r")
        terminal.expect("Message=looked")
        terminal.expect("] >")
        terminal.type("/quit\r")
        assert terminal.end() == 0, terminal.text
    assert PROMPT not in terminal.text
    (newest,) = json.loads(talker.cli("tasks", "--json", "--limit", "1").stdout)
    assert json.loads(talker.cli("tasks", "show", newest["task_id"], "--json").stdout)["read_only"] is True
    assert (
        f"run --session {newest['session_id']} --url {talker.url} --data-dir {talker.data} --read-only" in terminal.text
    )


def test_a_session_says_what_a_task_changed_that_failed(talker: Served) -> None:
    """Once it is over, with the command that puts it back."""
    with on_a_terminal(talker.home, *session(talker), TERM="xterm") as terminal:
        terminal.expect("] >")
        write = call("local_write", path="unfinished.txt", content="new\n")
        terminal.type(script(says(write), final("no", success=False)) + "\r")
        terminal.expect(PROMPT)
        terminal.type("a\n")
        terminal.expect("It had changed workspace:unfinished.txt.")
        terminal.expect(f"put it back:  {program()} undo t-")
        terminal.expect("] >")
        terminal.type("/quit\r")
        assert terminal.end() == 0, terminal.text


@pytest.mark.thinned(3)
@pytest.mark.parametrize(("choice", "ends"), [("c\n", "Canceled"), ("l\n", "Paused"), ("", "Paused")])
def test_ctrl_c_in_a_session_asks_what_is_meant(talker: Served, choice: str, ends: str) -> None:
    """Ctrl-C while a task runs asks: cancel it or leave it running, a second Ctrl-C leaves it; the session goes on."""
    with on_a_terminal(talker.home, *session(talker), TERM="xterm") as terminal:
        terminal.expect("] >")
        terminal.type(script(says(WRITE), final()) + "\r")
        terminal.expect(PROMPT)
        terminal.interrupt()
        terminal.expect("[g] go on watching: ")
        terminal.type("g\n")
        terminal.expect(PROMPT)
        terminal.interrupt()
        terminal.expect("[g] go on watching: ")
        if choice:
            terminal.type(choice)
        else:
            terminal.interrupt()
        terminal.expect("is Canceled" if ends == "Canceled" else f"goes on: {program()} tasks watch t-")
        terminal.expect("] >")
        assert status(talker, terminal) == ends
        terminal.type("/quit\r")
        assert terminal.end() == 0, terminal.text


def test_what_goes_wrong_in_a_session_is_a_sentence(talker: Served) -> None:
    """A refusal of the server is told, and the session goes on."""
    with on_a_terminal(talker.home, *session(talker, "--computer", "nowhere"), TERM="xterm") as terminal:
        terminal.expect("[nowhere] >")
        terminal.type("do it\r")
        terminal.expect("That did not work: There is no computer 'nowhere'")
        terminal.type("/quit\r")
        assert terminal.end() == 0, terminal.text


def test_without_a_terminal_there_is_no_session(tmp_path: Path) -> None:
    """From Python, without a terminal, it is refused with what to use instead."""
    code = "import orchestrator; orchestrator.run_task_interactive(data_dir='.')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert "There is no terminal to ask in." in done.stderr


@pytest.mark.deep
def test_it_works_in_a_program_that_runs_a_loop(talker: Served) -> None:
    """Called from a coroutine, it still has its prompt, and answers an exit code."""
    code = (
        "import asyncio, sys\n"
        "from orchestrator import run_task_interactive\n"
        "async def main():\n"
        f"    return run_task_interactive(url={talker.url!r}, data_dir={str(talker.data)!r})\n"
        "sys.exit(40 + asyncio.run(main()))\n"
    )
    with on_a_terminal(talker.home, TERM="xterm", python=code) as terminal:
        terminal.expect("] >")
        terminal.type(script(final("from a loop", success=False)) + "\r")
        terminal.expect("Message=from a loop")
        terminal.expect("] >")
        terminal.type("\x04")
        assert terminal.end() == 40, terminal.text


# -- the demo ----------------------------------------------------------------------------


@pytest.mark.deep
def test_the_demo_asks_again_for_an_answer_that_is_empty(tmp_path: Path) -> None:
    """Somebody who only pressed Enter is told that the task waits, and the demo goes on."""
    with on_a_terminal(tmp_path, "demo", "--model", "scripted:question") as terminal:
        terminal.expect("Your answer: ")
        terminal.type("\n")
        terminal.expect("The task waits for an answer: type one.")
        terminal.expect("Your answer: ")
        terminal.type("left\n")
        terminal.expect("[FINAL]")
