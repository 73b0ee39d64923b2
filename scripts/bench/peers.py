"""The other frameworks: the place where they are installed, and the file that their tool reads.

Their dependencies are not those of this project: the OpenAI Agents SDK wants another ``websockets``. So they have an
environment of their own, which ``scripts/bench --peers`` makes once. Where it is, each run measures them.
"""

import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from bench.call_client import BODY
from bench.measure import SCRIPTS

PLACE: Final = SCRIPTS.parent / ".venv.peers"
PACKAGES: Final = (
    "langchain",
    "langchain-openai",
    "langgraph",
    "langgraph-checkpoint-sqlite",
    "openai-agents",
)
INSTALL_S: Final = 600.0
FILE_LINES: Final = 400
"""Of the file that is read: 12 kB."""
_FILE: Final = (BODY.decode() * FILE_LINES).splitlines()


SYSTEM: Final = "You work on a computer. Read the files that you are asked for, then say what you found."


def prompt(name: str) -> str:
    """The task with this name, as a person writes it."""
    return f"Read the log of {name}."


def python() -> Path | None:
    """The Python that has the other frameworks; None: they are not installed."""
    return _python() if (PLACE / "ready").exists() else None


def _python() -> Path:
    return PLACE / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def install() -> str:
    """Install them where they are not installed. Returns why that was impossible; empty: they are there."""
    if python() is not None:
        return ""
    make = [sys.executable, "-m", "venv", "--clear", str(PLACE)]
    pip = [str(_python()), "-m", "pip", "install", "--quiet", *PACKAGES, "uvloop; sys_platform != 'win32'"]
    for command in (make, pip):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode:
            return (done.stderr or done.stdout).strip().rpartition("\n")[2]
    (PLACE / "ready").touch()
    return ""


def versions() -> dict[str, str]:
    """The versions of what is installed of them."""
    places = [*PLACE.glob("lib/python*/site-packages"), PLACE / "Lib" / "site-packages"]
    there = {one.name: one.version for one in distributions(path=list(map(str, places)))}
    return {name: there[name] for name in PACKAGES if name in there}


def cc_read(path: str, start_line: int, max_lines: int) -> str:
    """Read lines of a file on the computer."""
    del path
    lines = _FILE[start_line - 1 : start_line - 1 + max_lines]
    return "\n".join(f"{number}| {line}" for number, line in enumerate(lines, start_line))
