"""A run beside an earlier one: what changed in each line, and whether a judged line got worse."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.measure import Line

TOLERANCE: Final = 0.25
"""A judged line may be worse by so much of the earlier figure: smaller gaps are noise."""
Key = tuple[str, str, str]


class NoResult(Exception):
    """The file is no result of an earlier run; the message says what to type."""


@dataclass(frozen=True)
class Earlier:
    """An earlier run: its machine, and its lines as ``--json`` printed them."""

    machine: Mapping[str, Any]
    scale: str
    lines: Mapping[Key, Mapping[str, Any]]

    def change(self, line: Line) -> float | None:
        """This run's figure by the earlier one: of what the bar is held against; None: the earlier run has no such."""
        then = self.lines.get(key(line.as_json()))
        was = None if then is None else then["ratio"] if line.judged == "ratio" else then["value"]
        now = line.ratio if line.judged == "ratio" else line.value
        return now / was if was and now is not None else None

    def is_worse(self, line: Line) -> bool:
        """Whether a judged line got worse by more than the tolerance."""
        change = self.change(line)
        if change is None or line.holds is None:
            return False
        return change < 1 / (1 + TOLERANCE) if line.at_least else change > 1 + TOLERANCE

    def summary(self, lines: Sequence[Line], machine: Mapping[str, Any], scale: str) -> Iterator[str]:
        """What a reader has to know beside the ratios, a sentence each."""
        mine = {key(line.as_json()) for line in lines}
        for told in sorted(mine - set(self.lines)):
            yield f"Not in the earlier run: {_named(told)}."
        for told in sorted(set(self.lines) - mine):
            yield f"Not in this run: {_named(told)}."
        other = [name for name in ("cpus", "cpu", "python") if self.machine.get(name) != machine.get(name)]
        if other or self.scale != scale:
            told_of = ", ".join([*other, *(["scale"] if self.scale != scale else [])])
            yield f"The runs differ in {told_of}: compare ratios, not times."
        worse = [line for line in lines if self.is_worse(line)]
        for line in worse:
            yield f"Worse by more than {TOLERANCE:.0%}: {_named(key(line.as_json()))}, {self.change(line):.2f} times."
        yield f"{len(worse)} judged lines got worse by more than {TOLERANCE:.0%}."


def key(line: Mapping[str, Any]) -> Key:
    """By which a line is found again in another run."""
    return line["bench"], line["what"], line["what_beside"]


def _named(told: Key) -> str:
    bench, what, beside = told
    return f"{bench}: {what}" + (f" beside {beside}" if beside else "")


def read(file: Path) -> Earlier:
    """The run that a file has. Raises NoResult."""
    try:
        told = json.loads(file.read_text("utf-8"))
        lines = {key(line): {"ratio": line["ratio"], "value": line["value"]} for line in told["lines"]}
        return Earlier(told["machine"], told.get("scale", "full"), lines)
    except OSError as error:
        raise NoResult(f"{file} cannot be read: {error.strerror}. Name a file that --json made.") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise NoResult(f"{file} is no result of a run. Make one: scripts/bench --json > {file.name}") from None
