"""What the simulator says about its computer."""

import sys


def log(text: str) -> None:
    """One line on stderr, without control characters."""
    sys.stderr.write("".join(char if char.isprintable() else "?" for char in text) + "\n")
    sys.stderr.flush()
