"""A profile of the whole step: py-spy samples the server from outside, and the stacks become a table and a flame graph.

Only active samples count: a thread that waits is left out, by what py-spy knows of it.
"""

import shutil
import signal
import subprocess
import sysconfig
from collections import Counter
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Final

from bench.measure import Asked, WorkerFailed
from bench.whole import Stage

TOP: Final = 30
RATE: Final = 200
"""Samples in a second."""
END_S: Final = 60.0
"""How long py-spy may take to write its stacks down."""
CANNOT: Final = """py-spy cannot look into the server, so there is no profile. It said:
    {said}
It has to be allowed to trace a process of the same user. What to do:
    Linux:     sudo sysctl kernel.yama.ptrace_scope=0, or run this as root
    container: start it with --cap-add SYS_PTRACE
    macOS:     run this with sudo"""
MISSING: Final = "py-spy is not installed here: python -m pip install py-spy, or start this as scripts/bench."

Stacks = Mapping[tuple[str, ...], int]


def profile(asked: Asked, file: Path) -> str:
    """Write the flame graph of a run to ``file``; the table of its functions. Raises WorkerFailed, OSError."""
    folded = asked.directory / "stacks"
    steps = asked.scale.whole.watched_steps
    with Stage(asked) as stage:
        sampling = _sampling(stage.pid, folded)
        try:
            for _ in range(asked.scale.whole.turns):
                stage.run(steps)
        finally:
            sampling.send_signal(signal.SIGINT)
            _, said = sampling.communicate(timeout=END_S)
    if not folded.exists() or not (stacks := read(folded.read_text("utf-8"))):
        raise WorkerFailed(CANNOT.format(said=said.strip() or "nothing"))
    file.write_text(flame(stacks), "utf-8")
    return "\n".join(table(stacks))


def _sampling(pid: int, folded: Path) -> "subprocess.Popen[str]":
    """py-spy once it samples. Raises WorkerFailed when it cannot."""
    program = shutil.which("py-spy", path=sysconfig.get_path("scripts")) or shutil.which("py-spy")
    if program is None:
        raise WorkerFailed(MISSING)
    # Nonblocking: a thread that waits and was stopped for a sample looks active for a moment.
    how = ("--format", "raw", "--function", "--threads", "--nonblocking", "--rate", str(RATE))
    command = [program, "record", "--pid", str(pid), *how, "--output", str(folded)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout
    said = ""
    for line in process.stdout:
        if "Sampling process" in line:
            return process
        said += line
    process.wait()
    raise WorkerFailed(CANNOT.format(said=said.strip().replace("\n", "\n    ")))


def read(folded: str) -> Stacks:
    """Stacks with their samples, of lines ``thread;frame;frame 12``; the outermost frame is the first."""
    stacks: Counter[tuple[str, ...]] = Counter()
    for line in folded.splitlines():
        frames, _, count = line.rpartition(" ")
        stacks[tuple(frames.split(";"))] += int(count)
    return stacks


# -- the table ------------------------------------------------------------------------------


def table(stacks: Stacks) -> Iterator[str]:
    """The functions with the largest shares of all samples: by themselves, and with all that they call."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for (_, *frames), count in stacks.items():
        own.update(dict.fromkeys(frames[-1:], count))
        total.update(dict.fromkeys(frames, count))
    samples = sum(stacks.values())
    yield f"{samples} active samples"
    for title, counted, other in (("own", own, total), ("total", total, own)):
        yield f"\n{title:>7}{'total' if title == 'own' else 'own':>8}  function"
        for frame, count in counted.most_common(TOP):
            yield f"{count / samples:>7.1%}{other[frame] / samples:>8.1%}  {frame}"


# -- the flame graph ------------------------------------------------------------------------

ROW: Final = 17
LEAST: Final = 0.0005
"""The share of all samples below which nothing is drawn: it would be narrower than a point."""
HUES: Final = {"orchestrator": 25, "bench": 200}
"""This project's code, and the code around it; all else is a library."""
STYLE: Final = """text{font:11px monospace;fill:#000;pointer-events:none}rect{stroke:#fff;stroke-width:.5}
svg>text{fill:#777}"""


def flame(stacks: Stacks, width: int = 1600) -> str:
    """One SVG: a box for each function below the one that called it, as wide as its share; its title has both."""
    samples = sum(stacks.values())
    boxes = "".join(_boxes(sorted(stacks.items()), 0, 0, width / samples, samples))
    height = (max(map(len, stacks)) + 2) * ROW
    head = f"{samples} active samples of the server; point at a box for its name and its share."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"><style>{STYLE}</style>'
        f'<text x="4" y="12">{head}</text>{boxes}</svg>\n'
    )


def _boxes(stacks: list[tuple[tuple[str, ...], int]], depth: int, left: int, scale: float, all_: int) -> Iterator[str]:
    """The boxes of stacks that have the same frames above ``depth``, from ``left`` samples on."""
    groups: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    for stack, count in stacks:
        if len(stack) > depth:
            groups.setdefault(stack[depth], []).append((stack, count))
    for frame, mine in groups.items():
        count = sum(one for _, one in mine)
        if count >= LEAST * all_:
            yield _box(frame, count / all_, left * scale, (depth + 1) * ROW, count * scale)
            yield from _boxes(mine, depth + 1, left, scale, all_)
        left += count


def _box(frame: str, share: float, x: float, y: int, width: float) -> str:
    hue = next((hue for part, hue in HUES.items() if f"({part}/" in frame), 60)
    shown = escape(frame[: max(0, int(width / 6.7) - 1)])
    return (
        f'<g><title>{escape(frame)} {share:.1%}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW}" '
        f'fill="hsl({hue} 80% {70 + len(frame) % 5 * 3}%)"/><text x="{x + 3:.1f}" y="{y + 12}">{shown}</text></g>'
    )
