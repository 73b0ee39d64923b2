"""Puts the client on the simulated disk, as the installer does on a real computer."""

import os
from hashlib import sha256
from pathlib import Path
from typing import Final

OWN: Final = ".cc-orchestrator"
BUILT: Final = Path(__file__).resolve().parent.parent
_MARK: Final = "-- cc-orchestrator: starts the client"
"""How the installer knows its own startup file."""
_STARTUP: Final = f"""{_MARK}, then what this computer started before. `cc uninstall` takes it away.
loadfile("/{OWN}/boot.lua", nil, _ENV)("--startup", "/startup", "/startup.lua")
"""


def install(root: Path, url: str, token: str) -> str:
    """Write the client and its settings below ``root``; whole files, also when killed at it.

    Returns the path of the program to run in place of the shell. Raises OSError when the directory
    cannot be written.
    """
    own = root / OWN
    own.mkdir(parents=True, exist_ok=True)
    settings = f"-- cc-orchestrator: the server's URL and this computer's token. Keep it secret.\n{url}\n{token}\n"
    client = (BUILT / "client.lua").read_bytes()
    # Without a pointer boot.lua takes the first slot that has a whole client.
    for name in ("slot", "slot.new", "client.b.lua"):
        (own / name).unlink(missing_ok=True)
    _replace(own / "client.a.lua", client, mode=0o644)
    for name in ("boot.lua", "cc.lua"):
        _replace(own / name, (BUILT / name).read_bytes(), mode=0o644)
    _replace(own / "connection", settings.encode(), mode=0o600)
    return f"/{OWN}/boot.lua"


def start_with_the_computer(root: Path) -> bool:
    """Write the startup file and the installer's record of it; False where a file of the player's is in its place.

    Raises OSError when the directory cannot be written.
    """
    place = root / "startup"
    if place.is_dir() or (place.exists() and not place.read_text("utf-8", "replace").startswith(_MARK)):
        return False
    made = f"made /startup {sha256(_STARTUP.encode()).hexdigest()}"
    record = f"cc-orchestrator installed 1\n{made}\nend\n"
    _replace(root / OWN / "installed", record.encode(), mode=0o644)
    _replace(place, _STARTUP.encode(), mode=0o644)
    return True


def _replace(path: Path, data: bytes, *, mode: int) -> None:
    # What a kill left behind here would take the computer's space.
    path.with_name(path.name + ".new").unlink(missing_ok=True)
    if path.exists() and path.read_bytes() == data:
        return
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    temporary.replace(path)
