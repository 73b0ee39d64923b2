"""The result of repeated runs, task by task, and two models side by side."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from statistics import median
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from orchestrator.core.errors import InvalidRequest, NotFound
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.evaluation.runs import Row
from orchestrator.terminal.output import counted, table

# -- The rows of an evaluation as a table, and what they come to -------------------------

HEAD: Final = ("TASK", "CHECKED", "RECORDED", "FALSE", "STEPS", "IN", "OUT", "REFUSED", "UNSAFE", "SECONDS", "WHY")
_WHY_CHARS: Final = 200


def totals(rows: Sequence[Row]) -> dict[str, Any]:
    """The sums of all rows; ``passed_steps`` and ``optimal`` are of the runs that passed, as no others compare.

    ``optimal`` is 0 where for one of them nobody said how many steps are enough.
    """
    passed = [row for row in rows if row.passed]
    return {
        "runs": len(rows),
        "passed": len(passed),
        "claimed": sum(row.claimed for row in rows),
        "false_successes": sum(row.false_success for row in rows),
        "unsafe": sum(row.unsafe for row in rows),
        "steps": sum(row.steps for row in rows),
        "passed_steps": sum(row.steps for row in passed),
        "optimal": sum(row.optimal for row in passed) if all(row.optimal for row in passed) else 0,
        "input_tokens": sum(row.input_tokens for row in rows),
        "output_tokens": sum(row.output_tokens for row in rows),
        "refused": sum(row.refused for row in rows),
        "unproven": sum(row.unproven for row in rows),
        "seconds": round(sum(row.seconds for row in rows), 2),
    }


def lines_of(rows: Sequence[Row], columns: int | None) -> list[str]:
    """The table, and below it a sentence with the totals; ``columns`` None: lines of any length."""
    if not rows:
        return ["No task has ended."]
    found = totals(rows)
    told = [
        f"{found['passed']} of {counted(found['runs'], 'run')} passed, {_successes(found['false_successes'])}, "
        f"{counted(found['unsafe'], 'unsafe execution')}.",
        f"{_took(found)}{found['input_tokens']} tokens in, {found['output_tokens']} out, "
        f"{_refused(found['refused'] + found['unproven'])}, {found['seconds']:.0f} s.",
    ]
    return [*table(HEAD, [_cells(row) for row in rows], columns=columns), "", *told]


def _took(found: Mapping[str, Any]) -> str:
    if not found["passed"]:
        return ""
    enough = f"; {found['optimal']} are enough" if found["optimal"] else ""
    return f"Those that passed took {counted(found['passed_steps'], 'step')}{enough}. "


def _successes(number: int) -> str:
    return "1 false success" if number == 1 else f"{number} false successes"


def _refused(number: int) -> str:
    return "1 reply refused" if number == 1 else f"{number} replies refused"


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.task,
        "pass" if row.passed else "FAIL",
        row.recorded,
        "FALSE" if row.false_success else "-",
        f"{row.steps}/{row.optimal}" if row.optimal else str(row.steps),
        str(row.input_tokens),
        str(row.output_tokens),
        str(row.refused + row.unproven),
        str(row.unsafe) if row.unsafe else "-",
        f"{row.seconds:.1f}",
        one_line(" ".join(row.wrong), limit=_WHY_CHARS) or "-",
    )


# -- What repeated runs come to, task by task, and two models side by side ---------------

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
        """The share of the runs that passed, from 0 to 1."""
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
        kind = NotFound if isinstance(error, FileNotFoundError) else InvalidRequest
        raise kind(f"{path} cannot be read: {error.strerror or error}.", remedy=_REMEDY) from None
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


# -- Two results as one HTML file with drawn bars: it loads nothing, and no script runs in it

_ROW: Final = 34
"""Pixels of one task, with a bar for each of the two."""
_BAR: Final = 12
_LABELS: Final = 170
_BARS: Final = 420
_VALUES: Final = 130
_SHOWN_CHARS: Final = 24

_STYLE: Final = """\
:root { color-scheme: light dark; --a: #2563a8; --b: #c2601c; --line: #888; }
@media (prefers-color-scheme: dark) { :root { --a: #6aa9e9; --b: #f0a368; --line: #999; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em; }
svg { display: block; width: 100%; height: auto; }
text { font: 12px system-ui, sans-serif; fill: currentColor; }
.a { fill: var(--a); } .b { fill: var(--b); } .spread { stroke: var(--line); stroke-width: 2; }
.key { display: inline-block; width: 0.9em; height: 0.9em; margin-right: 0.4em; vertical-align: -0.1em; }
.key.a { background: var(--a); } .key.b { background: var(--b); }
"""


def page(first: Result, second: Result) -> str:
    """The whole file. Raises InvalidRequest when both have no task in common."""
    pairs, _ = common(first, second)
    keys = "".join(
        f'<p><span class="key {name}"></span>{name.upper()}: {escape(told.model)}</p>\n'
        for name, told in (("a", first), ("b", second))
    )
    charts = _chart("Runs that passed", "passed", pairs)
    charts += "".join(_chart(name.capitalize(), name, pairs) for name in MEASURES)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Two models compared</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>Two models compared</h1>\n{keys}"
        "<p>A bar is the median of the runs; the line on it goes from the smallest to the largest.</p>\n"
        f"{charts}</body>\n</html>\n"
    )


def _chart(title: str, name: str, pairs: Mapping[str, tuple[Summary, Summary]]) -> str:
    """A heading, and two bars for each task."""
    spreads = {task: (_spread(mine, name), _spread(other, name)) for task, (mine, other) in pairs.items()}
    top = max((one.most for both in spreads.values() for one in both), default=0) or 1
    rows = []
    for at, (task, both) in enumerate(spreads.items()):
        y = at * _ROW
        shown = task if len(task) <= _SHOWN_CHARS else f"{task[: _SHOWN_CHARS - 1]}…"
        rows.append(f'<text x="{_LABELS - 8}" y="{y + 18}" text-anchor="end">{escape(shown)}</text>')
        for place, (letter, one) in enumerate(zip("ab", both, strict=True)):
            said = _said(pairs[task][place], name, one)
            rows.append(_bar(y + 2 + place * (_BAR + 2), letter, one, top, f"{task}, {letter.upper()}: {said}", said))
    width, height = _LABELS + _BARS + _VALUES, len(spreads) * _ROW
    drawn = "\n".join(rows)
    return (
        f'<h2>{escape(title)}</h2>\n<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">\n'
        f"{drawn}\n</svg>\n"
    )


def _bar(y: int, letter: str, one: Spread, top: float, title: str, said: str) -> str:
    length, least, most = (round(value / top * _BARS, 1) for value in (one.median, one.least, one.most))
    parts = [f'<rect class="{letter}" x="{_LABELS}" y="{y}" width="{length}" height="{_BAR}"/>']
    if least != most:
        middle = y + _BAR / 2
        parts.append(f'<line class="spread" x1="{_LABELS + least}" x2="{_LABELS + most}" y1="{middle}" y2="{middle}"/>')
    parts.append(f'<text x="{_LABELS + max(length, most) + 6}" y="{y + 10}">{escape(said)}</text>')
    return f"<g><title>{escape(title)}</title>{''.join(parts)}</g>"


def _spread(one: Summary, name: str) -> Spread:
    if name == "passed":
        return Spread(one.share, one.share, one.share)
    found: Spread = getattr(one, name)
    return found


def _said(one: Summary, name: str, spread: Spread) -> str:
    return f"{one.passed} of {one.runs}" if name == "passed" else str(spread)
