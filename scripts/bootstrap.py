"""Makes the checkout's own ``.venv`` and runs a command in it; needs nothing but Python.

Theory of operation. ``.venv/cc-orchestrator.json`` says what the environment is: for which
Python, which checkout, which project table and which extras, and whether it is ``ready``.
It is ``building`` from before the first byte of an installation until after the last, so an
environment that somebody interrupted is known as such and made anew. Whoever changes
anything holds ``.venv.lock``; whoever finds everything ready takes no lock and is through
in milliseconds. An environment that this file did not make is moved aside, never deleted.

What is installed are the versions of ``requirements.txt`` beside this file, each held against its
hashes, and built packages only: a source would fetch what it is built with by itself, unlocked.

The file is read by every Python from 3.6 on, so that an old one gets a sentence and not a
SyntaxError: no newer syntax here, and annotations that it cannot evaluate stand in quotes.
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import IO, NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "cc-orchestrator.json"
LOG = ROOT / ".venv.log"
LOCK = ROOT / ".venv.lock"
LOCKED = ROOT / "scripts" / "requirements.txt"
AS_LOCKED = ("--require-hashes", "--only-binary", ":all:", "--no-deps")
"""How pip and uv install from the lock: the files that it names, and nothing besides."""
OLDEST = (3, 11)
SAY_EVERY_S = 5.0
"""How long an installation may be silent: a person wonders after about this long."""
_BEGAN = time.monotonic()


class Refused(Exception):
    """The environment cannot be made; the message is the one sentence that says what to do."""


def run(extras: "Sequence[str]", arguments: "Sequence[str]") -> "NoReturn":
    """Have the environment with these extras, then become its Python with these arguments.

    The command keeps terminal, working directory and signals; its exit code is the exit code.
    """
    try:
        refuse_old_python()
        have_environment(sorted(extras))
    except Refused as refusal:
        sys.exit(f"cc-orchestrator: {refusal}")
    except KeyboardInterrupt:
        print("\ncc-orchestrator: interrupted; the same command starts over.", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    except OSError as error:
        sys.exit(f"cc-orchestrator: {error}; the checkout must be writable.")
    _become([str(_venv_python()), *arguments])


def refuse_old_python() -> None:
    """Raises Refused when this Python is older than 3.11."""
    if sys.version_info >= OLDEST:
        return
    newer = next((f"python3.{minor}" for minor in range(19, 10, -1) if shutil.which(f"python3.{minor}")), "python3.11")
    present = ".".join(map(str, sys.version_info[:3]))
    command = " ".join([newer, *sys.argv])
    raise Refused(f"this needs Python 3.11 or newer and was started with {present}; try: {command}")


def have_environment(extras: "list[str]") -> None:
    """Return when ``.venv`` is ready with these extras. Raises Refused."""
    if _is_ready(extras):
        return
    with _locked():
        if _is_ready(extras):
            return
        _clear_away_the_dead()
        stamp = _read_stamp()
        if VENV.exists() and not _is_ours_and_whole(stamp):
            _put_away(stamp)
        _build(extras)
        say("ready")


# -- the stamp ----------------------------------------------------------------------------


def _wanted(extras: "Sequence[str]") -> "dict[str, object]":
    """What a stamp must say: the locked versions, and of ``pyproject.toml`` what an installation depends on."""
    import tomllib  # not at the top: an old Python has to get as far as its refusal

    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    parts = [told.get("build-system"), told.get("project"), told.get("tool", {}).get("hatch")]
    parts.append(LOCKED.read_text(encoding="utf-8"))
    project = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    return {"python": sys.implementation.cache_tag, "checkout": str(ROOT), "project": project, "extras": list(extras)}


def _read_stamp() -> "Mapping[str, object]":
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def _write_stamp(state: str, extras: "Sequence[str]") -> None:
    new = STAMP.with_suffix(".new")
    new.write_text(json.dumps({"state": state, **_wanted(extras)}, indent=1), encoding="utf-8")
    new.replace(STAMP)


def _extras_of(stamp: "Mapping[str, object]") -> "set[str]":
    extras = stamp.get("extras", [])
    return {str(extra) for extra in extras} if isinstance(extras, list) else set()


def _is_ready(extras: "Sequence[str]") -> bool:
    stamp = _read_stamp()
    wanted = _wanted(extras)
    return _is_ours_and_whole(stamp) and stamp.get("project") == wanted["project"] and set(extras) <= _extras_of(stamp)


def _is_ours_and_whole(stamp: "Mapping[str, object]") -> bool:
    """Whether an installation may be added to what is there: the same Python, the same place, not half made."""
    wanted = _wanted([])
    same = all(stamp.get(key) == wanted[key] for key in ("python", "checkout"))
    return stamp.get("state") == "ready" and same and _venv_python().exists()


# -- making it ----------------------------------------------------------------------------


def _build(extras: "Sequence[str]") -> None:
    stamp = _read_stamp()
    fresh = not _venv_python().exists()
    every = sorted(set(extras) | (set() if fresh else _extras_of(stamp)))
    uv = shutil.which("uv")
    if fresh and not uv:
        _refuse_without_ensurepip()
    VENV.mkdir(exist_ok=True)
    _write_stamp("building", every)
    LOG.write_text("", encoding="utf-8")
    needed = VENV / "requirements.txt"
    needed.write_text("".join(block + "\n" for block in locked(["run", "build", *every])), encoding="utf-8")
    if not (uv and _with_uv(uv, fresh, needed)):
        _with_pip(needed)
    _write_stamp("ready", every)


def entries(lock: str) -> "list[str]":
    """Of each locked package the lines that it has in the lock."""
    return [block.rstrip() for block in re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE)[1:]]


def locked(parts: "Sequence[str]") -> "list[str]":
    """The entries that these parts of the project need: ``run``, ``build``, ``engine``, and names of extras."""
    every = entries(LOCKED.read_text(encoding="utf-8"))
    told = [(block, re.search(r"^ +# for: (.*)$", block, re.MULTILINE)) for block in every]
    return [block for block, needs in told if needs and set(parts) & set(needs.group(1).split())]


def _steps(needed: Path) -> "list[list[str]]":
    """What to install, in order: what is locked, then the checkout itself, which has no hash and fetches nothing."""
    return [[*AS_LOCKED, "--requirement", str(needed)], ["--no-deps", "--no-build-isolation", "--editable", str(ROOT)]]


def _with_uv(uv: str, fresh: bool, needed: Path) -> bool:
    """Whether uv could do it; when not, pip is asked, which may be set up where uv is not."""
    make = [uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(VENV)]
    install = [uv, "pip", "install", "--python", str(_venv_python())]
    done = not fresh or do("making .venv with uv", make)
    done = done and all(do("installing with uv", [*install, *step]) for step in _steps(needed))
    if not done:
        say("uv could not; trying venv and pip")
    return done


def _with_pip(needed: Path) -> None:
    pip = [str(_venv_python()), "-m", "pip"]
    if not (_venv_python().exists() and _quietly([*pip, "--version"])):
        _refuse_without_ensurepip()
        if not do("making .venv", [sys.executable, "-m", "venv", str(VENV)]):
            raise Refused(f"the environment could not be made; {LOG} says why.")
    packages, checkout = _steps(needed)
    if not do("installing with pip (the first time, downloads take most of the time)", [*pip, "install", *packages]):
        raise Refused(_why_not())
    if not do("installing this checkout", [*pip, "install", *checkout]):
        raise Refused(f"the installation failed; {LOG} has all that pip said.")


def _why_not() -> str:
    """What to do where the locked packages could not be installed."""
    said = LOG.read_text(encoding="utf-8", errors="replace")
    if "DO NOT MATCH THE HASHES" in said:
        return (
            "a package is another file than the one that was locked, so nothing of it was installed. Look at where pip "
            f"takes packages from (pip config list); {LOG} names the package."
        )
    return f"the installation failed; is the network there? {LOG} has all that pip said."


def _refuse_without_ensurepip() -> None:
    for module in ("venv", "ensurepip"):
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None:
            raise Refused(
                "this Python comes without venv and pip; install them (on Debian and Ubuntu: apt install python3-venv) "
                "or install uv, then run the same command again."
            )


def _put_away(stamp: "Mapping[str, object]") -> None:
    """Make room: what this file made goes, what somebody else made stays under another name."""
    if stamp:
        say("the .venv here is half made or for another Python or place; making it anew")
        VENV.rename(ROOT / f".venv.dead-{os.getpid()}")
        _clear_away_the_dead()
        return
    number = 1
    while (ROOT / f".venv.before-{number}").exists():
        number += 1
    aside = ROOT / f".venv.before-{number}"
    VENV.rename(aside)
    say(f"there was a .venv that this script did not make; it is now {aside.name}")


def _clear_away_the_dead() -> None:
    for dead in ROOT.glob(".venv.dead-*"):
        shutil.rmtree(str(dead), ignore_errors=True)


# -- hands --------------------------------------------------------------------------------


def say(sentence: str) -> None:
    """One line for the person who waits, with the seconds since the start."""
    print(f"[{time.monotonic() - _BEGAN:5.1f} s] {sentence}", file=sys.stderr, flush=True)


def do(doing: str, command: "list[str]", log: Path = LOG) -> bool:
    """Whether the command succeeded; its output goes to the log, its last lines are shown when it failed."""
    say(doing)
    tail = []  # type: list[str]
    said = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=str(ROOT),
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        errors="replace",
    )
    try:
        with log.open("a", encoding="utf-8") as kept:
            kept.write(f"$ {' '.join(command)}\n")
            for line in process.stdout or ():
                kept.write(line)
                tail = [*tail[-14:], line.rstrip()]
                if time.monotonic() - said >= SAY_EVERY_S and line.strip():
                    say(f"  {line.strip()[:100]}")
                    said = time.monotonic()
        done = process.wait() == 0
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if not done:
        print("\n".join(f"    {line}" for line in tail), file=sys.stderr, flush=True)
    return done


def _quietly(command: "list[str]") -> bool:
    with contextlib.suppress(OSError):
        return subprocess.call(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    return False


def _environment() -> "dict[str, str]":
    """The caller's, without what would send an installation somewhere else than into ``.venv``."""
    astray = ("PIP_TARGET", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if name not in astray}
    return {**kept, "PIP_USER": "0", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


@contextlib.contextmanager
def _locked() -> "Iterator[None]":
    with LOCK.open("a") as lock:
        hold(lock, "another process prepares this checkout; waiting for it")
        yield


def hold(lock: "IO[str]", taken: str) -> None:
    """Wait until this process has the lock; the system takes it back when the process ends, however it ends.

    ``taken`` is said when another process has it.
    """
    if sys.platform == "win32":
        import msvcrt

        while True:
            with contextlib.suppress(OSError):
                return msvcrt.locking(lock.fileno(), msvcrt.LK_LOCK, 1)
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        say(taken)
        fcntl.flock(lock, fcntl.LOCK_EX)
    return None


def _venv_python() -> Path:
    return VENV / "Scripts" / "python.exe" if sys.platform == "win32" else VENV / "bin" / "python"


def _become(command: "list[str]") -> "NoReturn":
    if sys.platform == "win32":
        # There, exec gives the prompt back at once; Ctrl-C reaches the child by itself.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.exit(subprocess.call(command))
    sys.stderr.flush()
    os.execv(command[0], command)


if __name__ == "__main__":
    if sys.argv[1:]:
        print("\n".join(locked(sys.argv[1:])))
    else:
        sys.exit("cc-orchestrator: name parts, such as: run build postgresql; what they need is printed, for pip -r")
