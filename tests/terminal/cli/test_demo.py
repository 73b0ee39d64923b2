"""The demo where nobody is at the terminal: what it answers for a person, and what `--keep` leaves up."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests import ROOT, forked
from tests.waiting import HANG_S

COMMAND = [sys.executable, "-m", "orchestrator", "demo"]


def environment(home: Path) -> dict[str, str]:
    """A newcomer's environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CC_ORCHESTRATOR_", "XDG_"))}
    kept.pop("PYTHONUNBUFFERED", None)  # or a line that waits in a buffer is not noticed
    return {**kept, "HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "COLUMNS": "200"}


@pytest.mark.deep
def test_keep_prints_a_line_that_pairs_a_computer_of_the_game(tmp_path: Path) -> None:
    """With `--keep` the server stays up, and the code of the printed line is worth a computer's token."""
    command = [*COMMAND, "--keep", "--dir", str(tmp_path / "demo")]
    process = forked.start(
        command, environment(tmp_path), cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        told = ""
        while "until you press Ctrl-C" not in told:
            line = process.stdout.readline()
            assert line, told
            told += line
        found = re.search(r"wget run (http://127\.0\.0\.1:\d+)/install (\S+)", told)
        assert found, told
        url, code = found.groups()
        paired = httpx2.post(f"{url}/v1/pair", json={"code": code, "computer_id": 12}, trust_env=False)
        assert paired.status_code == 200
        assert paired.json()["computer"] == "12"
        while "--computer 0" not in told:
            line = process.stdout.readline()
            assert line, told
            told += line
        assert b"ccc_" not in _started_by(process.pid)
        assert "0         online" in _typed_elsewhere(told, tmp_path)
        process.send_signal(signal.SIGINT)
        assert process.wait(HANG_S) == 0
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _started_by(pid: int) -> bytes:
    """The arguments and the environment of the simulated computer that a process has started."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    told = [Path(f"/proc/{one}/cmdline").read_bytes() + Path(f"/proc/{one}/environ").read_bytes() for one in found]
    return next(one for one in told if b"cc_client.simulator" in one)


def _typed_elsewhere(told: str, home: Path) -> str:
    """What `computers` says in a shell that knows nothing of this environment, by the lines that were printed."""
    (exports,) = re.findall(r"^  (export .*)$", told, re.MULTILINE)
    (program,) = re.findall(r'^  (.*) run ".*" --computer 0$', told, re.MULTILINE)
    done = subprocess.run(
        ["/bin/sh", "-c", f"{exports}\n{program} computers"],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.deep
def test_a_model_that_asks_is_answered(tmp_path: Path) -> None:
    """A model that asks its user something is told that nobody is here, and the demo comes to its end."""
    done = subprocess.run(
        [*COMMAND, "--model", "scripted:question"],
        env=environment(tmp_path),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert "Nobody is here to answer." in done.stdout
    assert "[FINAL]" in done.stdout
    assert done.returncode == 1, "nothing was changed or run, so that it is no success of the demo"


@pytest.mark.deep
@pytest.mark.parametrize("number", [signal.SIGHUP, pytest.param(signal.SIGTERM, marks=pytest.mark.deep)])
def test_a_demo_whose_terminal_is_closed_leaves_no_server_behind(tmp_path: Path, number: signal.Signals) -> None:
    """A closed window, or a polite kill, ends server and computer as Ctrl-C does."""
    command = [*COMMAND, "--keep", "--dir", str(tmp_path / "demo")]
    process = forked.start(
        command, environment(tmp_path), cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        told = ""
        while "until you press Ctrl-C" not in told:
            line = process.stdout.readline()
            assert line, told
            told += line
        found = re.search(r"http://127\.0\.0\.1:\d+", told)
        assert found, told
        process.send_signal(number)
        process.wait(HANG_S)
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(f"{found.group()}/healthz", trust_env=False)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
