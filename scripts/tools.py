"""The tools that Python's packages do not have: luacheck, stylua, Lua, Chromium and pgbouncer.

All but stylua come from the system's packages (Debian's ``lua-check``, ``lua5.2``, ``chromium`` and ``pgbouncer``),
stylua as a native binary from npm, into ``.venv/tools``, held against the hash in ``stylua/package-lock.json``.
Where a person would have to be asked for the right to install, nothing is installed and the sentence says what to do.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TOOLS: Final = Path(sys.prefix) / "tools"
STYLUA: Final = Path(__file__).resolve().parent / "stylua"
"""What npm is to install: one version for everybody, since another one may lay out differently."""
FETCHED: Final = (
    ("stylua", "2.5.2", "MPL-2.0", "npm, held against its hash", "lays out the Lua"),
    ("llama.cpp", "in llama-cpp-python 0.3.36", "MIT", "PyPI, held against its hash", "llama-server of the deep tests"),
    ("luacheck", "the system's", "MIT", "the system's packages, signed", "lints the Lua"),
    ("Lua 5.2", "the system's", "MIT", "the system's packages, signed", "runs the specs of the client"),
    ("Chromium", "the system's", "BSD-3-Clause and others", "the system's packages, signed", "runs the page's stories"),
    ("PgBouncer", "the system's", "ISC", "the system's packages, signed", "stands before PostgreSQL in tests"),
    ("npm and Node.js", "the system's", "Artistic-2.0, MIT", "the system's packages, signed", "fetch stylua"),
)
"""What the tests have that is no Python package: name, version, licence, from where, what for."""
_APT: Final = threading.Lock()
"""Only one apt-get can install at a time; checks run side by side."""
INSTALL_LIMIT_S: Final = 1800
"""Against a hang: npm from Debian is some 300 packages, which take minutes on a slow network or a busy machine."""


@dataclass(frozen=True)
class Missing:
    """A tool that is not here and cannot be installed; ``why`` ends with what to do."""

    why: str


def luacheck() -> Path | Missing:
    """The luacheck on PATH, or the one from apt where that needs no password."""
    return _on_path("luacheck") or _from_apt("luacheck", ["lua-check"])


def lua() -> Path | Missing:
    """The interpreter in which the specs of the client run, as luacheck."""
    return _on_path("lua5.2") or _from_apt("lua5.2", ["lua5.2"])


def chromium() -> Path | Missing:
    """The browser in which the console's page is tried, as luacheck; what playwright would download is not used."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(_on_path, names)), None) or _from_apt("chromium", ["chromium"])


def pgbouncer() -> Path | Missing:
    """The pooler that is tried before PostgreSQL, as luacheck."""
    return _on_path("pgbouncer") or _from_apt("pgbouncer", ["pgbouncer"])


def stylua() -> Path | Missing:
    """The one version of stylua, installed into ``.venv/tools`` when it is not there yet."""
    lock = (STYLUA / "package-lock.json").read_bytes()
    home = TOOLS / f"stylua-{hashlib.sha256(lock).hexdigest()[:12]}"
    ready = _binary(home)
    if ready:
        return ready
    npm = _on_path("npm") or _from_apt("npm", ["nodejs", "npm"])
    if isinstance(npm, Missing):
        return npm
    shutil.copytree(STYLUA, home, dirs_exist_ok=True)
    problem = _run([str(npm), "ci", "--prefix", str(home), "--ignore-scripts", "--no-audit", "--no-fund"])
    return _binary(home) or Missing(f"npm could not install stylua: {problem or 'no binary for here'}")


def _binary(home: Path) -> Path | None:
    """The native binary beside npm's wrapper: it starts at once and needs no node."""
    found = sorted(home.glob("node_modules/@johnnymorganz/stylua-bin-*/stylua*"))
    return next((path for path in found if os.access(path, os.X_OK)), None)


def _on_path(name: str) -> Path | None:
    # Debian keeps servers where only root looks.
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    return Path(found) if found else None


def _from_apt(name: str, packages: Sequence[str]) -> Path | Missing:
    wanted = " ".join(packages)
    if not shutil.which("apt-get"):
        return Missing(f"{name} is not on PATH; install it with your system's packages (Debian: {wanted})")
    if os.name != "posix" or os.geteuid() != 0:
        return Missing(f"{name} is not on PATH; run: sudo apt-get install {wanted}")
    install = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    with _APT:
        if _run(install):
            # A fresh system has no lists yet, an old one has lists of packages that are gone.
            _run(["apt-get", "update"])
            problem = _run(install)
            if problem:
                return Missing(f"apt-get could not install {wanted}: {problem}")
    return _on_path(name) or Missing(f"apt-get installed {wanted}, yet {name} is not on PATH")


def _run(command: Sequence[str]) -> str:
    """The last line that a failing command said; empty when it succeeded."""
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command,
            env=quiet,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=INSTALL_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"took more than {INSTALL_LIMIT_S} s"
    said = (done.stderr or done.stdout).strip().splitlines()
    return "" if done.returncode == 0 else (said[-1] if said else f"exit code {done.returncode}")
