"""The script that builds the engine: what it does before there is anything to build."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"


def run(home: Path, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    """The script with a cache of its own; a traceback is never an answer."""
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "engine.py"), *arguments],
        env={**os.environ, "CC_ORCHESTRATOR_ENGINE": str(home), **more},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


def place(home: Path) -> Path:
    """Where the engine belongs."""
    told = "import engine; print(engine.name())"
    done = subprocess.run([sys.executable, "-c", told], cwd=SCRIPTS, capture_output=True, text=True, check=True)
    return home / done.stdout.strip()


def test_what_is_there_is_only_named(tmp_path: Path) -> None:
    """No lock, no network, no compiler."""
    place(tmp_path).mkdir()
    done = run(tmp_path, PATH=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{place(tmp_path) / 'llama-server'}\n", "")
    assert run(tmp_path, "--check").returncode == 0
    assert list(tmp_path.iterdir()) == [place(tmp_path)]


@pytest.mark.parametrize("variable", ["", "CXX"])
def test_without_a_compiler_it_is_one_sentence_and_nothing_is_fetched(variable: str, tmp_path: Path) -> None:
    """What a killed build left behind is no engine, and goes."""
    (tmp_path / "building" / "ready").mkdir(parents=True)
    assert run(tmp_path, "--check").returncode == 1
    more = {variable: "no-such-compiler"} if variable else {"PATH": str(tmp_path), "CC": "", "CXX": ""}
    done = run(tmp_path, **more)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1
    assert "takes a C++ compiler" in done.stderr
    assert list((tmp_path / "building").iterdir()) == []
    assert not place(tmp_path).exists()
