"""Every check of this project, from nothing: ``python3 scripts/test.py [--help]``."""

import sys
from pathlib import Path

import bootstrap

if __name__ == "__main__":
    bootstrap.run(["dev", "simulator"], [str(Path(__file__).resolve().parent / "checks.py"), *sys.argv[1:]])
