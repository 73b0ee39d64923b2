"""Draws the tables of the pages in docs/ from the code; ``--check`` fails when they differ."""

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic.fields import FieldInfo

from orchestrator.core.approval import CALL_TABLE
from orchestrator.core.link import LINK_TABLE
from orchestrator.core.task import PHASE_TABLE
from orchestrator.metrics import FIGURES, PREFIX
from orchestrator.settings import ENV_PREFIX, Settings

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"


def machine(states: Mapping[Any, Mapping[Any, Any]]) -> str:
    """A machine as a table: a row for each state, what may happen in it, and where that leads."""
    lines = ["| state | what may happen, and the state after it |", "| --- | --- |"]
    for state, events in states.items():
        targets = dict.fromkeys(events.values())
        moves = "; ".join(f"{', '.join(one for one in events if events[one] == to)} → {to}" for to in targets)
        lines.append(f"| {state} | {moves or 'nothing: it is final'} |")
    return "\n".join(lines)


def settings() -> str:
    """A row for each setting: how it is said in each place, its unit, its default and its meaning."""
    head = ("flag", "variable", "key in the file", "default", "unit", "meaning")
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for name, field in Settings.model_fields.items():
        flag, variable = f"--{name.replace('_', '-')}", ENV_PREFIX + name.upper()
        key = "" if name == "data_dir" else f"`{name}`"
        unit = field.json_schema_extra.get("unit", "") if isinstance(field.json_schema_extra, dict) else ""
        lines.append(f"| `{flag}` | `{variable}` | {key} | {default(name, field)} | {unit} | {field.description} |")
    return "\n".join(lines)


def default(name: str, field: FieldInfo) -> str:
    """A default as one would write it."""
    if name == "data_dir":
        return "`~/.local/share/cc-orchestrator`"
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    return f"`{field.default}`" if field.default not in (None, "") else ""


def metrics() -> str:
    """A row for each figure of /metrics."""
    lines = ["| name | kind | labels | meaning |", "| --- | --- | --- | --- |"]
    for one in FIGURES:
        name = PREFIX + one.name + ("_total" if one.kind == "counter" else "")
        labels = ", ".join(f"`{label}`" for label in one.labels)
        lines.append(f"| `{name}` | {one.kind} | {labels} | {one.meaning} |")
    return "\n".join(lines)


PAGES: Final[Mapping[str, Mapping[str, Callable[[], str]]]] = {
    "design.md": {
        "phases": lambda: machine(PHASE_TABLE),
        "calls": lambda: machine(CALL_TABLE),
        "link": lambda: machine(LINK_TABLE),
    },
    "settings.md": {"settings": settings, "metrics": metrics},
}
"""Each page and the tables in it."""


def drawn(page: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """The page with every table drawn anew."""
    for name, table in tables.items():
        pattern = re.compile(rf"(<!-- table:{name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = table()
        page = pattern.sub(lambda found, text=text: f"{found[1]}{text}\n{found[2]}", page)  # type: ignore[misc]
    return page


def main() -> int:
    """Write the pages, or with ``--check`` say whether they are as they would be written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when a page is out of date")
    arguments = parser.parse_args()
    stale = 0
    for name, tables in PAGES.items():
        page = (DOCS / name).read_text("utf-8")
        new = drawn(page, tables)
        if not arguments.check:
            (DOCS / name).write_text(new, "utf-8")
        elif page != new:
            stale += 1
            sys.stderr.write(f"docs/{name} is out of date: run python scripts/docs.py\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
