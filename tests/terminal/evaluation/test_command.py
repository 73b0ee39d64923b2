"""`cc-orchestrator eval` as it is started: a process of its own, with the shipped script as the model."""

import asyncio
import json
import signal
import subprocess
from contextlib import closing
from pathlib import Path
from socket import socket

import pytest

from orchestrator.terminal.evaluation import TASKS
from tests import forked
from tests.harness.commands import CLI, environment
from tests.harness.model_server import model_server
from tests.harness.ollama_server import ollama, refuses, says
from tests.waiting import HANG_S


def start(home: Path, *options: str) -> "subprocess.Popen[str]":
    """The command, on pipes."""
    return forked.start(
        [*CLI, "eval", *options],
        environment(home),
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """How it ended and what it said; never a traceback."""
    try:
        out, errors = process.communicate(timeout=HANG_S)
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in out + errors, errors
    return process.returncode, out, errors


@pytest.mark.deep
def test_a_script_that_does_one_task_and_no_other(tmp_path: Path) -> None:
    """`scripted:hello` writes and runs its program whatever is asked: one task passes, and the exit code is 1."""
    options = [
        "--model",
        "scripted:hello",
        "--task",
        "hello",
        "--task",
        "startup",
        "--json",
        "--dir",
        str(tmp_path / "d"),
    ]
    code, out, errors = ended(start(tmp_path, *options))
    assert code == 1, errors
    found = json.loads(out)
    assert [(row["task"], row["passed"]) for row in found["rows"]] == [("hello", True), ("startup", False)]
    assert found["totals"]["passed"] == 1
    # It did something, and not what was asked: the journal shows that, so its success is not recorded as one.
    assert (found["rows"][1]["recorded"], found["rows"][1]["false_success"]) == ("unverified", False)
    assert "[1/2] hello" in errors
    assert "Nobody reviews" in errors
    assert (tmp_path / "d" / "1" / "computers" / "hello" / "disk" / "hello.lua").exists()
    code, _, errors = ended(start(tmp_path, *options))
    assert code == 2
    assert "is not empty" in errors


OWN = """\
[[tasks]]
name = "greet"
prompt = "Write a program hello.lua that prints Hello, world! and run it."
checks = ["runs hello.lua", "prints Hello, world!", "unchanged belt.cfg"]
files = { "belt.cfg" = "speed = 4" }
"""


@pytest.mark.deep
def test_own_tasks_are_played_and_two_results_are_compared(tmp_path: Path) -> None:
    """Twice for their spread; kept in a file that stands for the model, with which another is compared."""
    (tmp_path / "mine.toml").write_text(OWN)
    options = ["--tasks", "mine.toml", "--repeat", "2"]
    code, out, errors = ended(start(tmp_path, "--model", "scripted:hello", "--save", "r.json", *options))
    assert code == 0, errors
    assert "2 of 2 runs passed" in out
    assert any(line.split()[:4] == ["greet", "2", "of", "2"] for line in out.splitlines())
    rows = json.loads((tmp_path / "r.json").read_text())["rows"]
    assert [row["task"] for row in rows] == ["greet", "greet"]
    code, out, errors = ended(start(tmp_path, "--compare", "r.json", "r.json"))
    assert code == 0, errors
    assert "A: scripted:hello (r.json)" in out
    assert "A: 2 of 2 runs passed, 0 false," in out
    assert "The plot is in comparison.html." in out
    assert "<svg" in (tmp_path / "comparison.html").read_text()


@pytest.mark.deep
def test_what_is_no_file_is_played_for_a_comparison(tmp_path: Path) -> None:
    """Both results are kept with --dir, and a plot that is there already is not overwritten."""
    (tmp_path / "mine.toml").write_text(OWN)
    (tmp_path / "comparison.html").touch()
    options = ["--compare", "scripted:hello", "scripted:tour", "--tasks", "mine.toml", "--dir", "d", "--json"]
    code, out, errors = ended(start(tmp_path, *options))
    assert code == 0, errors
    found = json.loads(out)
    assert (found["a"]["model"], found["b"]["model"], found["plot"]) == (*options[1:3], "comparison-2.html")
    kept = [json.loads((tmp_path / "d" / f"{letter}.json").read_text())["rows"] for letter in "AB"]
    assert kept == [found["a"]["rows"], found["b"]["rows"]]


@pytest.mark.deep
def test_what_cannot_be_compared_is_refused_before_anything_is_played(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(OWN.replace("unchanged", "unchange"))
    wrong = {
        ("--compare", "r.json", "m"): "r.json cannot be read: No such file or directory.",
        ("--compare", "a", "b", "--model", "c"): "--compare does not go with --model.",
        ("--model", "m", "--plot", "p.html"): "--plot draws what --compare compares.",
        ("--model", "m", "--save", "none/r.json"): "There is no directory none.",
        ("--model", "m", "--tasks", "mine.toml"): "mine.toml, line 4: The check 'unchange belt.cfg' cannot be read",
    }
    for options, told in wrong.items():
        code, out, errors = ended(start(tmp_path, *options))
        assert (code, out) == (4 if "No such file" in told else 2, "")
        assert told in errors


@pytest.mark.deep
def test_it_is_left_with_what_there_is(tmp_path: Path) -> None:
    """Ctrl-C while the second task is played: the first one's row is printed, and nothing is left running."""
    options = ["--model", "scripted:hello", "--task", "hello", "--task", "rename", "--repeat", "50"]
    process = start(tmp_path, *options)
    assert process.stderr is not None
    said = ""
    while "[2/2 of turn 1]" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    process.send_signal(signal.SIGINT)
    code, out, errors = ended(process)
    assert code == 130
    assert "You left after 1 of 100" in errors
    assert out.split()[:2] == ["TASK", "CHECKED"]
    assert "1 of 1 run passed, 0 false successes, 0 unsafe executions." in out
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in left


def test_the_tasks_are_listed_and_a_wrong_name_is_refused(tmp_path: Path) -> None:
    code, out, _ = ended(start(tmp_path, "--list", "--json"))
    assert code == 0
    assert [one["task"] for one in json.loads(out)] == [task.name for task in TASKS]
    code, _, errors = ended(start(tmp_path, "--model", "m", "--task", "helo"))
    assert code == 4
    assert "There is no task 'helo' in the evaluation." in errors


@pytest.mark.deep
def test_a_model_that_cannot_be_opened_is_one_sentence(tmp_path: Path) -> None:
    code, out, errors = ended(start(tmp_path, "--model", "scripted:nothing", "--task", "hello"))
    assert code == 2
    assert out == ""
    assert "There is no script 'nothing'." in errors
    assert "With --dir its whole log is kept." in errors
    (tmp_path / "file").touch()
    code, _, errors = ended(start(tmp_path, "--model", "scripted:hello", "--dir", str(tmp_path / "file")))
    assert code == 2
    assert "cannot be used: File exists." in errors
    code, _, errors = ended(start(tmp_path))
    assert code == 2
    assert "No model is named." in errors


@pytest.mark.deep
def test_a_model_that_does_not_answer_is_not_asked_for_every_task(tmp_path: Path) -> None:
    """Nothing listens where Ollama should: one task shows it, after 20 s."""
    with closing(socket()) as nobody:
        nobody.bind(("127.0.0.1", 0))
        where = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        code, out, errors = ended(start(tmp_path, "--model", "ollama:tiny:1b", "--ollama-url", where))
    assert (code, out) == (2, "")
    assert f"so nothing is measured: The model server at {where} could not be reached for 20 s" in errors
    assert f"Ollama is not running at {where}." in errors


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["ollama", pytest.param("openai-chat", marks=pytest.mark.deep)])
async def test_a_model_that_is_not_there_is_said_with_the_remedy(tmp_path: Path, kind: str) -> None:
    """It cannot begin: the exit code says so, and the sentence is what helps."""
    missing = refuses(404, {"error": "The model does not exist."})
    served = kind == "openai-chat"
    async with model_server(missing) if served else ollama(says("{}"), models=("other:1b",)) as server:
        options = ["--model", f"{kind}:tiny", "--model-url" if served else "--ollama-url", server.url, "--json"]
        code, out, errors = await asyncio.to_thread(lambda: ended(start(tmp_path, *options)))
    assert (code, out) == (2, "")
    assert f"at {server.url}{'/v1' if served else ''} has no model 'tiny'. " in errors
    assert ("--model openai-chat:NAME" if served else "`cc-orchestrator models pull tiny") in errors
    assert "[2/" not in errors


@pytest.mark.deep
def test_without_a_reviewer_it_waits_as_long_as_it_may(tmp_path: Path) -> None:
    """It says where to decide; nobody does, so the task is canceled when its time is over, and nothing was written."""
    options = ["--model", "scripted:hello", "--task", "hello", "--reviewer", "none", "--max-wall", "1", "--json"]
    code, out, errors = ended(start(tmp_path, *options))
    assert code == 1
    (row,) = json.loads(out)["rows"]
    assert (row["recorded"], row["steps"], row["claimed"]) == ("canceled", 1, False)
    assert "Decide what asks: cc-orchestrator review --url http://127.0.0.1:" in errors
