"""Fetch the libraries of the console's page from npm, as ``vendor.json`` pins them, and write down their hashes.

``python scripts/vendor.py`` fetches again what is pinned; ``python scripts/vendor.py preact=11.3.0`` takes
another version. The page has no build: the files stand in the package as npm has them, but for one thing.
A browser finds a library by an address and not by its name, so an import by name becomes one by address.
"""

import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

VENDOR: Final = Path(__file__).resolve().parent.parent / "orchestrator" / "web" / "console" / "vendor"
PINS: Final = VENDOR / "vendor.json"
LIMIT_S: Final = 120


def main(arguments: Sequence[str]) -> int:
    """Refresh everything; 0 when all of it stands there."""
    npm = shutil.which("npm")
    if npm is None:
        print("cc-orchestrator: npm is not on PATH; install it, then run this again", file=sys.stderr)
        return 2
    wanted = dict(one.split("=", 1) for one in arguments if "=" in one)
    pins: list[dict[str, Any]] = json.loads(PINS.read_text("utf-8"))["libraries"]
    unknown = set(wanted) - {pin["name"] for pin in pins}
    if unknown or len(wanted) != len(arguments):
        print(f"cc-orchestrator: say NAME=VERSION of {', '.join(pin['name'] for pin in pins)}", file=sys.stderr)
        return 2
    for pin in pins:
        pin["version"] = wanted.get(pin["name"], pin["version"])
        members = _unpacked(_packed(npm, pin["name"], pin["version"]))
        pin["license"] = json.loads(members["package.json"])["license"]
        for file in pin["files"]:
            content = _by_address(members[file["from"]], file.get("imports", {}))
            (VENDOR / file["file"]).parent.mkdir(parents=True, exist_ok=True)
            (VENDOR / file["file"]).write_bytes(content)
            file["sha256"] = hashlib.sha256(content).hexdigest()
        print(f"{pin['name']} {pin['version']}: {len(pin['files'])} files")
    PINS.write_text(json.dumps({"libraries": pins}, indent=2) + "\n", "utf-8")
    return 0


def _packed(npm: str, name: str, version: str) -> bytes:
    """The package's archive; npm holds it against the registry's own hash."""
    with tempfile.TemporaryDirectory() as where:
        command = [npm, "pack", "--silent", "--pack-destination", where, f"{name}@{version}"]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=LIMIT_S)
        (archive,) = Path(where).iterdir()
        return archive.read_bytes()


def _unpacked(archive: bytes) -> Mapping[str, bytes]:
    """Its files, by their paths inside of the package."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        found = ((member.name.partition("/")[2], tar.extractfile(member)) for member in tar.getmembers())
        return {name: file.read() for name, file in found if file is not None}


def _by_address(content: bytes, imports: Mapping[str, str]) -> bytes:
    """A module whose imports name files; where it names a file of maps, which are not here, that line is gone."""
    text = content.decode("utf-8")
    for name, address in imports.items():
        text, count = re.subn(rf'(from\s*)"{re.escape(name)}"', rf'\1"{address}"', text)
        if not count:
            raise SystemExit(f"cc-orchestrator: {name!r} is not imported there any more; look at vendor.json")
    return re.sub(r"\n?//# sourceMappingURL=\S+\s*\Z", "\n", text).encode("utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
