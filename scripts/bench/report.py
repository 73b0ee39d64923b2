"""One HTML page of a run: each line as a bar, its floor or peer below it, and the bar that is held as a mark."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Final

from bench.against import Earlier
from bench.machine import sentence
from bench.measure import Line

STYLE: Final = """:root{color-scheme:light dark;--ok:#2a7a3b;--bad:#b3261e;--plain:#3566a8;--beside:#8a8f98}
@media(prefers-color-scheme:dark){:root{--ok:#6fcf83;--bad:#ff8a80;--plain:#8ab4f8;--beside:#777d87}}
body{font:16px/1.45 system-ui,sans-serif;max-width:52rem;margin:0 auto;padding:1rem}h2{margin:2rem 0 .5rem}
article{margin:0 0 1.1rem}p{margin:.15rem 0;overflow-wrap:anywhere}svg{display:block;width:100%;height:26px}
.ok{fill:var(--ok);color:var(--ok)}.bad{fill:var(--bad);color:var(--bad)}.plain{fill:var(--plain)}
.beside{fill:var(--beside)}small{color:GrayText}line{stroke:CanvasText;stroke-width:2}"""
HEAD: Final = (
    "The upper bar is this project, the gray one what stands beside it. "
    "The upright mark is the bar: a most, or where it says so a least. Times are CPU time unless they say wall."
)


def page(lines: Sequence[Line], machine: Mapping[str, str | int], earlier: Earlier | None, told: Sequence[str]) -> str:
    """The whole page; it asks no network for anything. ``told``: sentences about the comparison."""
    parts = [
        f"<section><h2>{escape(bench)}</h2>{''.join(_drawn(group, earlier))}</section>" for bench, group in _by(lines)
    ]
    over = sum(line.holds is False for line in lines)
    judged = sum(line.holds is not None for line in lines)
    said = "".join(f"<p>{escape(one)}</p>" for one in (f"{over} of {judged} bars do not hold.", *told[-1:]))
    # The count is above the bars, the lines that it counts are below them.
    more = "".join(f"<p>{escape(one)}</p>" for one in told[:-1])
    compared = f"<section><h2>Beside the earlier run</h2>{more}</section>" if more else ""
    facts = escape(sentence(machine)).replace("\n", "<br>")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>The bench of cc-orchestrator</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{STYLE}</style>'
        f"<h1>The bench of cc-orchestrator</h1>{said}<p><small>{facts}</small></p><p>{HEAD}</p>"
        f"{''.join(parts)}{compared}</html>\n"
    )


def _by(lines: Sequence[Line]) -> Iterator[tuple[str, Sequence[Line]]]:
    return ((bench, list(group)) for bench, group in groupby(lines, lambda line: line.bench))


def _drawn(lines: Sequence[Line], earlier: Earlier | None) -> Iterator[str]:
    for line in lines:
        yield f"<article><p><b>{escape(line.what)}</b>: {_words(line, earlier)}</p>{_bars(line)}</article>"


def _words(line: Line, earlier: Earlier | None) -> str:
    """The figures of a line."""
    said = [f"{line.value:.4g} {line.unit}"]
    if line.wall is not None:
        said.append(f"wall {line.wall:.4g} {line.unit}")
    if line.beside is not None:
        said.append(f"{escape(line.what_beside)} {line.beside:.4g} {line.unit}, ratio {line.ratio or 0:.2f}")
    if line.holds is not None:
        unit = "times" if line.judged == "ratio" else line.unit
        verdict = '<b class="ok">holds</b>' if line.holds else '<b class="bad">does not hold</b>'
        said.append(f"at {'least' if line.at_least else 'most'} {line.bar:g} {unit}: {verdict}")
    if earlier is not None:
        change = earlier.change(line)
        mark = "bad" if earlier.is_worse(line) else ""
        said.append("not in the earlier run" if change is None else f'<b class="{mark}">{change:.2f}</b> of earlier')
    return "; ".join(said) + (f" <small>{escape(line.note)}</small>" if line.note else "")


def _bars(line: Line) -> str:
    bar = None if line.holds is None or line.bar is None else line.bar
    if bar is not None and line.judged == "ratio":
        bar *= line.beside or 0
    widest = max(line.value, line.beside or 0, bar or 0, 1e-9) * 1.02
    kind = {None: "plain", True: "ok", False: "bad"}[line.holds]
    drawn = f'<rect class="{kind}" width="{max(line.value, 0) / widest:.2%}" height="13"/>'
    if line.beside is not None:
        drawn += f'<rect class="beside" y="15" width="{line.beside / widest:.2%}" height="9"/>'
    if bar is not None:
        drawn += f'<line x1="{bar / widest:.2%}" x2="{bar / widest:.2%}" y1="0" y2="26"/>'
    return f'<svg role="img" aria-label="{escape(line.what)}">{drawn}</svg>'
