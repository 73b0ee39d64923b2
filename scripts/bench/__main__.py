"""The bench, from nothing: ``python3 scripts/bench [--help]`` or ``python3 -m scripts.bench``."""

import os
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS))

import bootstrap  # noqa: E402 - it stands beside this package

if __name__ == "__main__":
    # The package is found by its name in the processes that it starts, too.
    os.environ["PYTHONPATH"] = str(SCRIPTS)
    needs_dev = any(one.startswith(("--store", "--profile")) for one in sys.argv)
    bootstrap.run(["dev"] if needs_dev else [], ["-P", "-m", "bench.command", *sys.argv[1:]])
