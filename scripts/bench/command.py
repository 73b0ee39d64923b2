"""The command line of the bench: which benches, how long, and the table."""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench import against, appends, audit, calls, memory, peers, profiling, report, routed, steps, whole
from bench.machine import machine, sentence
from bench.measure import SCALES, Asked, Line, WorkerFailed

BENCHES: Final[Mapping[str, Callable[[Asked], Iterator[Line]]]] = {
    "calls": calls.lines,
    "routed": routed.lines,
    "memory": memory.lines,
    "steps": steps.lines,
    "whole": whole.lines,
    "appends": appends.lines,
    "audit": audit.lines,
}
ROOT: Final = Path(__file__).resolve().parents[2]
HEAD: Final = f"{'':<46}{'here':>10}{'wall':>10}{'beside':>10}  {'':<22}{'ratio':>7}  bar"


def main(arguments: Sequence[str]) -> int:
    """Run the benches; 0 only when every bar holds."""
    options = _parse(arguments)
    try:
        earlier = against.read(options.against) if options.against else None
    except against.NoResult as error:
        print(error, file=sys.stderr)
        return 2
    for file in (options.report, options.profile):
        if file is not None and not file.parent.is_dir():
            print(f"{file.parent} is no directory, so {file.name} cannot be written. Make it first.", file=sys.stderr)
            return 2
    if options.peers and (why := peers.install()):
        print(f"The other frameworks could not be installed, so they are not measured: {why}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="cc-orchestrator-bench-", dir=options.dir) as directory:
        names = options.only or (["appends", "whole"] if options.store else list(BENCHES))
        with _database(options.store, options.dir) as url:
            if options.store and not url:
                print("The PostgreSQL server did not start; what it says is above.", file=sys.stderr)
                return 2
            asked = Asked(SCALES[options.scale], Path(directory), url)
            return _profile(asked, options.profile) if options.profile else _run(names, asked, options, earlier)


@contextmanager
def _database(store: str, directory: Path | None) -> Iterator[str]:
    """The URL of the database that is asked for; of a server of its own where none is named."""
    if store != "postgresql":
        yield store
        return
    # Not in the directory of this run: that is its owner's alone, and the server is not run as root.
    command = [sys.executable, "-m", "tests.servers", *([] if directory is None else [str(directory)])]
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin
        assert server.stdout
        yield server.stdout.readline().strip()
        server.stdin.close()


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="What this project costs beside raw parts and other frameworks, on this machine.",
        epilog="CPU is user and system time of the whole process. Exit code 1: a bar does not hold; 2: a bench failed.",
    )
    parser.add_argument("--only", action="append", choices=list(BENCHES), help="this bench (may be given again)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--dir", type=Path, help="make the databases here (default: the system's temporary directory)")
    parser.add_argument(
        "--store",
        default="",
        metavar="postgresql|URL",
        help="appends and whole steps on PostgreSQL: a server of its own, or that one",
    )
    parser.add_argument(
        "--peers", action="store_true", help=f"first install the other frameworks (into {peers.PLACE.name}, 200 MB)"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write one HTML page with a bar for each line")
    parser.add_argument(
        "--against",
        type=Path,
        metavar="FILE",
        help="compare with an earlier run, which --json printed; exit code 1 also where a judged line got worse by "
        f"more than {against.TOLERANCE:.0%}".replace("%", "%%"),
    )
    parser.add_argument(
        "--profile",
        type=Path,
        metavar="FILE",
        help="only profile the whole step: a table, and a flame graph in FILE (SVG)",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="scale", action="store_const", const="quick", help="under a minute, less exact")
    size.add_argument("--tiny", dest="scale", action="store_const", const="tiny", help=argparse.SUPPRESS)
    parser.set_defaults(scale="full")
    return parser.parse_args(arguments)


def _profile(asked: Asked, file: Path) -> int:
    try:
        print(profiling.profile(asked, file))
    except (WorkerFailed, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"\n{file} has the flame graph; a browser shows it.")
    return 0


def _run(names: Sequence[str], asked: Asked, options: argparse.Namespace, earlier: against.Earlier | None) -> int:
    as_json: bool = options.json
    began = time.monotonic()
    found = machine(asked.directory)
    if not as_json:
        print(f"{sentence(found)}\n\n{HEAD}", flush=True)
    lines: list[Line] = []
    for name in names:
        try:
            for line in BENCHES[name](asked):
                lines.append(line)
                if not as_json:
                    print(shown(line) + _changed(line, earlier), flush=True)
        except WorkerFailed as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 2
    over = [line for line in lines if line.holds is False]
    told = [] if earlier is None else list(earlier.summary(lines, found, asked.scale.name))
    worse = earlier is not None and any(map(earlier.is_worse, lines))
    took = time.monotonic() - began
    if options.report:
        options.report.write_text(report.page(lines, found, earlier, told), "utf-8")
    # Not into the JSON.
    for one in told:
        print(one, file=sys.stderr if as_json else sys.stdout)
    if as_json:
        print(
            json.dumps(
                {
                    "machine": found,
                    "scale": asked.scale.name,
                    "seconds": took,
                    "lines": [line.as_json() for line in lines],
                },
                indent=1,
            )
        )
    else:
        print(f"\n{len(over)} of {sum(line.holds is not None for line in lines)} bars do not hold; {took:.0f} s")
    return 1 if over or worse else 0


def _changed(line: Line, earlier: against.Earlier | None) -> str:
    change = None if earlier is None else earlier.change(line)
    return "" if change is None else f"  [{change:.2f} of earlier]"


def shown(line: Line) -> str:
    """One line of the table."""
    beside = "" if line.beside is None else _figure(line.beside)
    ratio = "" if line.ratio is None else f"{line.ratio:.2f}"
    wall = "" if line.wall is None else _figure(line.wall)
    row = f"{line.bench + ': ' + line.what:<46}{_figure(line.value) + ' ' + line.unit:>10}{wall:>10}{beside:>10}"
    verdict = {None: "", True: "ok", False: "OVER" if not line.at_least else "UNDER"}[line.holds]
    return f"{row}  {line.what_beside:<22}{ratio:>7}  {_bar(line)} {verdict} {line.note}".rstrip()


def _bar(line: Line) -> str:
    if line.bar is None or line.judged == "nothing":
        return ""
    unit = " times" if line.judged == "ratio" else f" {line.unit}"
    return f"{'>=' if line.at_least else '<='} {line.bar:g}{unit}"


def _figure(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("\ninterrupted")
