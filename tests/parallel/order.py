"""Which file goes first: the one that needs the most CPU time, as it was recorded."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent.parent
RECORD: Final = ROOT / "tests" / "parallel" / "cpu_seconds.json"
"""CPU seconds of each file on two cores of an AMD EPYC; written by ``scripts/test.py --record``."""
UNKNOWN_S: Final = 2.0
"""For a file that is not in the record."""


@dataclass(frozen=True)
class Unit:
    """The chosen tests of one file."""

    path: str
    items: Sequence[pytest.Item]
    cpu_s: float
    """What they are expected to need."""


def units(items: Iterable[pytest.Item], cpu_s: Mapping[str, float]) -> list[Unit]:
    """The files of these tests, longest first."""
    found = []
    for path, own in groupby(items, key=lambda item: item.nodeid.partition("::")[0]):
        found.append(Unit(path, list(own), cpu_s.get(path, UNKNOWN_S)))
    return sorted(found, key=lambda unit: -unit.cpu_s)


def recorded() -> dict[str, float]:
    """CPU seconds by file, as they were recorded; empty where nothing was."""
    if not RECORD.exists():
        return {}
    told: dict[str, float] = json.loads(RECORD.read_text(encoding="utf-8"))
    return told


def record(cpu_s: Mapping[str, float]) -> None:
    """Write down what each file needed, for the next runs."""
    RECORD.write_text(json.dumps(cpu_s, indent=1, sort_keys=True) + "\n", encoding="utf-8")
