"""What repeated runs come to, task by task, and two models side by side."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.evaluation.scores import Row
from orchestrator.terminal.evaluation.table import totals
from orchestrator.terminal.output import counted, table

_ROWS: Final = TypeAdapter(tuple[Row, ...])
MEASURES: Final = ("steps", "tokens", "seconds")
_REMEDY: Final = "Write one with: cc-orchestrator eval --model NAME --save FILE"


@dataclass(frozen=True)
class Spread:
    """One number of several runs."""

    least: float
    median: float
    most: float

    def __str__(self) -> str:
        """``7``, or ``7 (4-20)`` where the runs differ."""
        middle = _number(self.median)
        return middle if self.least == self.most else f"{middle} ({_number(self.least)}-{_number(self.most)})"


@dataclass(frozen=True)
class Summary:
    """All runs of one task."""

    task: str
    runs: int
    passed: int
    false_successes: int
    steps: Spread
    tokens: Spread
    """In and out together."""
    seconds: Spread

    @property
    def share(self) -> float:
        """Of the runs that passed, from 0 to 1."""
        return self.passed / self.runs


@dataclass(frozen=True)
class Result:
    """What one evaluation found, as it is kept in a file."""

    model: str
    rows: tuple[Row, ...]

    @property
    def summaries(self) -> dict[str, Summary]:
        """The runs of each task by its name, in the order of the set."""
        names = dict.fromkeys(row.task for row in self.rows)
        return {name: _summary(name, [row for row in self.rows if row.task == name]) for name in names}

    def told(self) -> dict[str, Any]:
        """As JSON has it; :func:`read_result` reads ``model`` and ``rows``."""
        return {
            "model": self.model,
            "rows": [row.told() for row in self.rows],
            "totals": totals(self.rows),
            "spread": [asdict(one) for one in self.summaries.values()],
        }


def read_result(path: Path) -> Result:
    """The result that ``eval --save`` or ``eval --json`` wrote. Raises InvalidRequest."""
    try:
        found = json.loads(path.read_bytes())
        model, rows = found["model"], _ROWS.validate_python(found["rows"])
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror or error}.", remedy=_REMEDY) from None
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidRequest(f"{path} is not a result of eval: {_why(error)}.", remedy=_REMEDY) from None
    if not isinstance(model, str) or not rows:
        raise InvalidRequest(f"{path} is not a result of eval: it has no runs.", remedy=_REMEDY)
    return Result(model, rows)


def spread_lines(rows: Sequence[Row], columns: int | None) -> list[str]:
    """A table with one line for each task, of all its runs; none where each task was played once."""
    found = Result("", tuple(rows)).summaries.values()
    if all(one.runs == 1 for one in found):
        return []
    head = ("TASK", "PASSED", *(name.upper() for name in MEASURES))
    cells = [(one.task, _passed(one), *(str(getattr(one, name)) for name in MEASURES)) for one in found]
    return [*table(head, cells, columns=columns), "", "Each number is the median (smallest-largest) of the runs."]


def compared(first: Result, second: Result, columns: int | None) -> list[str]:
    """Two results side by side: a table of the tasks that both have, and what they come to.

    Raises InvalidRequest when they have no task in common.
    """
    pairs, missing = common(first, second)
    head = ["TASK"]
    for name in ("passed", *MEASURES):
        head += [f"{name.upper()} A", "B"]
    cells = [[name, *_side_by_side(*both)] for name, both in pairs.items()]
    lines = [
        *(f"{letter}: {one_line(told.model)}" for letter, told in (("A", first), ("B", second))),
        "",
        *table(head, cells, columns=columns),
        "",
        *(f"{letter}: {_total([both[at] for both in pairs.values()])}" for at, letter in enumerate(("A", "B"))),
    ]
    if any(one.runs > 1 for both in pairs.values() for one in both):
        lines.append("Each number is the median (smallest-largest) of the runs.")
    if missing:
        lines.append(f"Only one of the two has {', '.join(missing)}: left out.")
    return lines


def common(first: Result, second: Result) -> tuple[dict[str, tuple[Summary, Summary]], list[str]]:
    """The tasks that both have, and the names of the others. Raises InvalidRequest when both share none."""
    mine, other = first.summaries, second.summaries
    pairs = {name: (one, other[name]) for name, one in mine.items() if name in other}
    if not pairs:
        raise InvalidRequest(
            "The two results have no task in common.", remedy="Play the same tasks with both: eval --compare A B"
        )
    return pairs, [name for name in (*mine, *other) if name not in pairs]


def _summary(name: str, rows: Sequence[Row]) -> Summary:
    numbers: Mapping[str, list[float]] = {
        "steps": [row.steps for row in rows],
        "tokens": [row.input_tokens + row.output_tokens for row in rows],
        "seconds": [row.seconds for row in rows],
    }
    spreads = {key: Spread(min(some), median(some), max(some)) for key, some in numbers.items()}
    false = sum(row.false_success for row in rows)
    return Summary(name, len(rows), sum(row.passed for row in rows), false, **spreads)


def _side_by_side(mine: Summary, other: Summary) -> list[str]:
    cells = [_passed(mine), _passed(other)]
    for name in MEASURES:
        cells += [str(getattr(mine, name)), str(getattr(other, name))]
    return cells


def _passed(one: Summary) -> str:
    if one.runs == 1:
        return "yes" if one.passed else "no"
    return f"{one.passed} of {one.runs}"


def _total(found: Sequence[Summary]) -> str:
    runs, passed = sum(one.runs for one in found), sum(one.passed for one in found)
    false = sum(one.false_successes for one in found)
    middle = {name: _number(sum(getattr(one, name).median for one in found)) for name in MEASURES}
    return (
        f"{passed} of {counted(runs, 'run')} passed, {false} false, "
        f"{middle['steps']} steps, {middle['tokens']} tokens, {middle['seconds']} s for each task once."
    )


def _number(value: float) -> str:
    """At most one digit behind the point, and none where it says nothing."""
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def _why(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return one_line(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", limit=200)
    if isinstance(error, KeyError):
        return f"it has no {error}"
    return one_line(str(error), limit=200)
