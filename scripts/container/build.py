"""Builds the image of ``Containerfile`` with podman or docker: ``python3 scripts/container/build.py``."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent.parent


def main() -> int:
    """Build it under the version of the project; the exit code of the tool."""
    tool = shutil.which("podman") or shutil.which("docker")
    if tool is None:
        sys.exit(
            "cc-orchestrator: podman or docker builds the image, and neither is on PATH; install one, then try again"
        )
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    image = f"cc-orchestrator:{version}"
    command = [tool, "build", "--file", str(HERE / "Containerfile"), "--tag", image, str(ROOT)]
    done = subprocess.run(command, check=False)
    if done.returncode == 0:
        print(f"Built {image}. To run it:")
        print(f"  {Path(tool).name} run --rm -p 127.0.0.1:8765:8765 -v cc-data:/data --stop-timeout 45 {image}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
