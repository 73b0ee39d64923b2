"""The bootstrap for real, in checkouts of its own: real venv, real pip, and no network.

The project in such a checkout depends on one package, which lies in a directory beside it and has its hash in the
lock, and is built by the backend below; everything else is as in a fresh clone with a fresh HOME. Each venv takes
seconds: some of it is tried in depth only.
"""

import ast
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.waiting import HANG_S

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "cc-orchestrator"
version = "0"
dependencies = ["needed<2"]
[project.optional-dependencies]
simulator = []
"""
LOCK = """# a lock
needed==1 \\
    --hash=sha256:{}
    # license: MIT
    # for: run
left-out==1 \\
    --hash=sha256:0000000000000000000000000000000000000000000000000000000000000000
    # license: MIT
    # for: dev
"""
BACKEND = """
import pathlib, zipfile
ROOT = str(pathlib.Path(__file__).parent)
META = "Metadata-Version: 2.1\\nName: cc-orchestrator\\nVersion: 0\\nProvides-Extra: simulator\\n"
WHEEL = "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
def build_editable(directory, config_settings=None, metadata_directory=None):
    name, info = "cc_orchestrator-0-py3-none-any.whl", "cc_orchestrator-0.dist-info"
    with zipfile.ZipFile(pathlib.Path(directory) / name, "w") as wheel:
        wheel.writestr("cc_orchestrator.pth", ROOT + "\\n")
        for path, text in {"METADATA": META, "WHEEL": WHEEL, "RECORD": ""}.items():
            wheel.writestr(f"{info}/{path}", text)
    return name
"""
COMMAND = """
import json, sys
import needed
print(json.dumps([sys.prefix, sys.argv[1:], sys.stdin.read()]))
sys.exit(7)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in a path with blanks, whose command line tells what it was given and exits with 7."""
    root = tmp_path / "a check out"
    (root / "scripts").mkdir(parents=True)
    for name in ("bootstrap.py", "demo.py"):
        shutil.copy(SCRIPTS / name, root / "scripts" / name)
    (root / "orchestrator").mkdir()
    (root / "orchestrator" / "cli.py").write_text(COMMAND)
    (root / "pyproject.toml").write_text(PROJECT)
    (root / "backend.py").write_text(BACKEND)
    lock(root, hashlib.sha256(wheel(tmp_path / "wheels").read_bytes()).hexdigest())
    return root


def wheel(where: Path) -> Path:
    """The package that the project needs, for pip to find."""
    where.mkdir()
    path, info = where / "needed-1-py3-none-any.whl", "needed-1.dist-info"
    kind = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("needed.py", "")
        packed.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: needed\nVersion: 1\n")
        packed.writestr(f"{info}/WHEEL", kind)
        packed.writestr(f"{info}/RECORD", "")
    return path


def lock(root: Path, sha256: str) -> None:
    """Lock the needed package to a hash."""
    (root / "scripts" / "requirements.txt").write_text(LOCK.format(sha256))


def start(checkout: Path, *arguments: str) -> "subprocess.Popen[str]":
    """The demo command with a fresh HOME, without uv, and with an index that does not exist."""
    home = checkout.parent / "home"
    home.mkdir(exist_ok=True)
    paths = [path for path in os.environ["PATH"].split(os.pathsep) if not (Path(path) / "uv").exists()]
    return subprocess.Popen(
        [sys.executable, str(checkout / "scripts" / "demo.py"), *arguments],
        env={
            "HOME": str(home),
            "PATH": os.pathsep.join(paths),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": (checkout.parent / "wheels").as_uri(),
            "PIP_TARGET": "/nowhere",
        },
        cwd=checkout.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finished(process: "subprocess.Popen[str]", typed: str = "") -> tuple[int, str, str]:
    """Exit code, output and what the person was told."""
    out, told = process.communicate(typed, timeout=HANG_S)
    return process.returncode, out, told


@pytest.mark.deep
def test_two_first_runs_at_once_and_a_quick_one_after(checkout: Path) -> None:
    theirs = checkout / ".venv" / "mine.txt"
    theirs.parent.mkdir()
    theirs.write_text("a venv that somebody made by hand")
    both = [finished(process, "y\n") for process in [start(checkout, "--dir", "x y"), start(checkout, "--dir", "x y")]]
    assert [code for code, _, _ in both] == [7, 7], both
    for _, out, _ in both:
        assert json.loads(out) == [str(checkout / ".venv"), ["demo", "--dir", "x y"], "y\n"]
    assert sum("making .venv\n" in told for _, _, told in both) == 1
    assert (checkout / ".venv.before-1" / "mine.txt").exists()

    code, out, told = finished(start(checkout))
    assert (code, told) == (7, "")
    assert json.loads(out)[1] == ["demo"]


@pytest.mark.deep
def test_another_file_than_the_locked_one_is_not_installed(checkout: Path) -> None:
    lock(checkout, "1" * 64)
    code, out, told = finished(start(checkout))
    assert (code, out) == (1, "")
    assert "another file than the one that was locked" in told
    assert not list((checkout / ".venv").rglob("needed.py"))


@pytest.mark.deep
def test_a_changed_lock_is_installed_at_the_next_start(checkout: Path) -> None:
    assert finished(start(checkout))[0] == 7
    text = (checkout / "scripts" / "requirements.txt").read_text()
    (checkout / "scripts" / "requirements.txt").write_text(text.replace("needed==1 ", "needed==2 "))
    code, _, told = finished(start(checkout))
    assert code == 1
    assert "needed==2" in told


@pytest.mark.deep
def test_killed_in_the_middle_it_starts_over(checkout: Path) -> None:
    process = start(checkout)
    assert process.stderr is not None
    assert any("installing" in line for line in process.stderr)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    code, _, told = finished(start(checkout))
    assert code == 7
    assert "making it anew" in told


def test_ctrl_c_while_installing_is_one_sentence(checkout: Path) -> None:
    process = start(checkout)
    assert process.stderr is not None
    assert any("making .venv" in line for line in process.stderr)
    os.killpg(process.pid, signal.SIGINT)
    code, _, told = finished(process)
    assert code == 130
    assert "Traceback" not in told
    assert "starts over" in told


@pytest.mark.deep
def test_an_installation_that_fails_says_so(checkout: Path) -> None:
    (checkout / "backend.py").write_text("raise SystemExit('no such luck')")
    code, out, told = finished(start(checkout))
    assert (code, out) == (1, "")
    assert "no such luck" in told
    assert told.rstrip().endswith("has all that pip said.")


def test_what_a_part_needs_is_printed_for_pip(checkout: Path) -> None:
    command = [sys.executable, str(checkout / "scripts" / "bootstrap.py")]
    done = subprocess.run([*command, "run"], capture_output=True, text=True, timeout=HANG_S, check=True)
    assert "needed==1" in done.stdout
    assert "--hash=sha256:" in done.stdout
    assert "left-out" not in done.stdout
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "name parts" in done.stderr


def test_an_old_python_gets_one_sentence() -> None:
    pretend = (
        "import runpy, sys\n"
        "sys.path.insert(0, sys.argv[1]); sys.version_info = (3, 9, 2); sys.argv = ['scripts/demo.py']\n"
        "runpy.run_path(sys.path[0] + '/demo.py', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", pretend, str(SCRIPTS)], capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("cc-orchestrator: this needs Python 3.11 or newer and was started with 3.9.2; try: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", ["bootstrap.py", "demo.py", "test.py"])
def test_an_old_python_can_read_what_refuses_it(name: str) -> None:
    ast.parse((SCRIPTS / name).read_text(encoding="utf-8"), feature_version=(3, 6))
