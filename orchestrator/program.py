"""What the command line is called where it is typed."""

import shlex
import sys
from pathlib import Path
from typing import Final

NAME: Final = "cc-orchestrator"


def program() -> str:
    """The command line as it can be typed in another terminal, which may know nothing of this environment.

    Its name where the path has one; else the script beside the interpreter, or the module.
    """
    import shutil  # only where a command is printed: it brings every compression along

    if shutil.which(NAME) is not None:
        return NAME
    beside = Path(sys.executable).with_name(NAME)
    python = shlex.quote(sys.executable)
    return shlex.quote(str(beside)) if beside.exists() else f"{python} -m orchestrator.cli"


def reaching(url: str | None, data_dir: Path | None) -> str:
    """The options that another command needs to reach the same server, with a blank before them; None: not given."""
    given = (("--url", url), ("--data-dir", data_dir))
    return "".join(f" {name} {shlex.quote(str(value))}" for name, value in given if value is not None)
