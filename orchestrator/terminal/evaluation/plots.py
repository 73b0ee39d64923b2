"""Two results as one HTML file with drawn bars: it loads nothing, and no script runs in it."""

from collections.abc import Mapping
from html import escape
from typing import Final

from orchestrator.terminal.evaluation.comparison import MEASURES, Result, Spread, Summary, common

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
