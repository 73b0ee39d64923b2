"""The test server as people start it: a process of its own, its words, its computers and its end."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.client import Client
from orchestrator.core.task import facts
from tests import ROOT
from tests.waiting import HANG_S

COMMAND = [sys.executable, "-m", "orchestrator.test_server"]


@contextmanager
def started(home: Path, *options: str) -> Iterator[tuple["subprocess.Popen[str]", list[str]]]:
    """A test server and what it said; killed when it still runs at the end."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CC_ORCHESTRATOR_", "XDG_"))}
    environ = {**kept, "HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": str(ROOT)}
    with (home / "errors").open("w") as errors:
        process = subprocess.Popen(
            [*COMMAND, *options], env=environ, cwd=home, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        assert process.stdout is not None
        said: list[str] = []
        while not said or not said[-1].startswith("Ctrl-C"):
            line = process.stdout.readline()
            assert line, (home / "errors").read_text()
            said.append(line.rstrip("\n"))
        yield process, said
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def client_of(said: list[str]) -> Client:
    """A client with what the export line says."""
    (line,) = [one for one in said if one.startswith("  export ")]
    words = dict(re.findall(r"CC_ORCHESTRATOR_(\w+)=(\S+)", line))
    return Client(words["URL"], words["TOKEN"])


@pytest.mark.thinned(2)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_runs_the_main_job_and_ends_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    """The printed lines are enough to submit a task to a stub and approve it; Ctrl-C ends it and nothing is left."""
    with started(tmp_path, "--computers", "2") as (process, said):
        assert re.fullmatch(r"listening on http://127\.0\.0\.1:\d+", said[0])
        client = client_of(said)
        try:
            task = client.request("POST", "/v1/tasks", {"prompt": "hello", "computers": ["1"]})
            ended = _approved(client, task["task_id"])
            online = [one["online"] for one in client.request("GET", "/v1/computers")["computers"]]
        finally:
            client.close()
        assert (ended["status"], ended["result"]["verified"]) == ("Completed", True)
        assert online == [True, True]
        process.send_signal(number)
        assert process.wait(HANG_S) == 0
    assert (tmp_path / "errors").read_text() == ""
    assert {path.name for path in tmp_path.iterdir()} == {"errors"}


def _approved(client: Client, task_id: str) -> dict[str, Any]:
    """The task at its end, every request on the way approved."""
    for item in client.events(task_id):
        if isinstance(item.fact, facts.ReviewRequested):
            client.request("POST", f"/v1/approve/{item.fact.request_id}")
    task: dict[str, Any] = client.request("GET", f"/v1/tasks/{task_id}")
    return task


def test_what_it_cannot_do_is_a_sentence(tmp_path: Path) -> None:
    """An unknown model and a silly number of computers end it with 2 and a sentence."""
    for options, sentence in (
        (("--model", "scripted:nothing"), "There is no script 'nothing'"),
        (("--computers", "-1"), "--computers is a number from 0 to 1000"),
    ):
        done = subprocess.run(
            [*COMMAND, *options], cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=False
        )
        assert done.returncode == 2
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr
