"""The name of the command line program, where it looks for its server and its files, and its ends by a signal."""

import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

NAME: Final = "cc-orchestrator"
DEFAULT_URL: Final = "http://127.0.0.1:8765"
ENV_PREFIX: Final = "CC_ORCHESTRATOR_"
"""How the variables of the environment begin that are settings."""
_KEPT: Final = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "SYSTEMROOT", "PYTHONHOME")
"""The variables of the environment that a simulated computer gets."""


def program() -> str:
    """The command line as it can be typed in another terminal, which may know nothing of this environment.

    Its name where the path has one; else the script beside the interpreter, or the module.
    """
    import shutil  # only where a command is printed: it brings every compression along

    if shutil.which(NAME) is not None:
        return NAME
    beside = Path(sys.executable).with_name(NAME)
    python = shlex.quote(sys.executable)
    return shlex.quote(str(beside)) if beside.exists() else f"{python} -m orchestrator"


def version() -> str:
    """The version that is installed; empty: it runs from a checkout that nobody installed."""
    from importlib import metadata  # only where it is asked: it reads the packages that are there

    try:
        return metadata.version("cc-orchestrator")
    except metadata.PackageNotFoundError:
        return ""


def reaching(url: str | None, data_dir: Path | None) -> str:
    """The options that another command needs to reach the same server, with a blank before them; None: not given."""
    given = (("--url", url), ("--data-dir", data_dir))
    return "".join(f" {name} {shlex.quote(str(value))}" for name, value in given if value is not None)


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """Where things are kept when nobody says: ``~/.local/share/cc-orchestrator`` or what XDG_DATA_HOME says."""
    base = environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "cc-orchestrator"


def bare_environment() -> dict[str, str]:
    """The environment of a simulated computer: nothing that could be a secret."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    spec = find_spec("cc_client")
    places = [Path(spec.origin).parent.parent] if spec is not None and spec.origin else []
    # Absolute, since the process may have another working directory.
    places += [Path(part).absolute() for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    return {**kept, "PYTHONPATH": os.pathsep.join(map(str, places))}


@contextlib.contextmanager
def left_in_order() -> Iterator[None]:
    """A closed terminal and a polite kill end a command as Ctrl-C does: none of its processes stays behind."""

    def leave(number: int, frame: object) -> None:
        del number, frame
        raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in ("SIGHUP", "SIGTERM") if hasattr(signal, name)]
    before = {number: signal.signal(number, leave) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
