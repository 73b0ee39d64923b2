"""Draws the tables of docs/design.md from the code; ``--check`` fails when they differ."""

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.core.approval import CALL_TABLE
from orchestrator.core.link import LINK_TABLE
from orchestrator.core.task import PHASE_TABLE

PAGE = Path(__file__).resolve().parent.parent / "docs" / "design.md"
TABLES: dict[str, Mapping[Any, Mapping[Any, Any]]] = {"phases": PHASE_TABLE, "calls": CALL_TABLE, "link": LINK_TABLE}


def table(states: Mapping[Any, Mapping[Any, Any]]) -> str:
    """A machine as a table: a row for each state, what may happen in it, and where that leads."""
    lines = ["| state | what may happen, and the state after it |", "| --- | --- |"]
    for state, events in states.items():
        targets = dict.fromkeys(events.values())
        moves = "; ".join(f"{', '.join(one for one in events if events[one] == to)} → {to}" for to in targets)
        lines.append(f"| {state} | {moves or 'nothing: it is final'} |")
    return "\n".join(lines)


def drawn(page: str) -> str:
    """The page with every table drawn anew."""
    for name, states in TABLES.items():
        pattern = re.compile(rf"(<!-- table:{name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = table(states)
        page = pattern.sub(rf"\g<1>{text}\n\g<2>", page)
    return page


def main() -> int:
    """Write the page, or with ``--check`` say whether it is as it would be written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when the page is out of date")
    arguments = parser.parse_args()
    page = PAGE.read_text("utf-8")
    if arguments.check:
        if page != drawn(page):
            sys.stderr.write("docs/design.md is out of date: run python scripts/docs.py\n")
            return 1
        return 0
    PAGE.write_text(drawn(page), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
