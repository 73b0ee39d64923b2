"""Which file goes first: the one that needs the most CPU time, as it was recorded."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

import pytest

from tests import ROOT

RECORD: Final = ROOT / "tests" / "parallel" / "seconds.json"
"""Each file with its seconds, on two cores of a rented machine; written by ``scripts/test.py --record``."""


LEAST: Final = 0.25
"""Of a core, for a file that only waits: four of them count as one that is busy."""


class Needs(NamedTuple):
    """The seconds that the tests of a file need."""

    cpu_s: float
    takes_s: float
    """With the time in which they wait, where as many files run at once as there are cores."""

    @property
    def cores(self) -> float:
        """How much of a core they keep busy, at most 1: tests that wait for a clock leave the rest to others."""
        return max(LEAST, min(self.cpu_s / self.takes_s, 1.0)) if self.takes_s else 1.0


UNKNOWN: Final = Needs(2.0, 2.0)
"""Of a file that is not in the record."""


@dataclass(frozen=True)
class Unit:
    """The chosen tests of one file, and what they are expected to need."""

    path: str
    items: Sequence[pytest.Item]
    needs: Needs


def units(items: Iterable[pytest.Item], needs: Mapping[str, Needs]) -> list[Unit]:
    """The files of these tests, longest first."""
    found = []
    for path, own in groupby(items, key=lambda item: item.nodeid.partition("::")[0]):
        found.append(Unit(path, list(own), needs.get(path, UNKNOWN)))
    return sorted(found, key=lambda unit: -unit.needs.cpu_s)


def recorded() -> dict[str, Needs]:
    """What each file needed when that was recorded; empty where nothing was."""
    if not RECORD.exists():
        return {}
    return {path: Needs(*needs) for path, needs in json.loads(RECORD.read_text(encoding="utf-8")).items()}


def record(needs: Mapping[str, Needs]) -> None:
    """Write down what each file needed, for the next runs."""
    lines = (f" {json.dumps(path)}: {json.dumps(needs[path])}" for path in sorted(needs))
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
