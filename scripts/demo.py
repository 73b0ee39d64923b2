"""The main job on a simulated computer, from nothing: ``python3 scripts/demo.py [--help]``."""

import sys

import bootstrap

if __name__ == "__main__":
    # -P: a directory called orchestrator in the working directory is not ours.
    bootstrap.run(["simulator"], ["-P", "-m", "orchestrator", "demo", *sys.argv[1:]])
