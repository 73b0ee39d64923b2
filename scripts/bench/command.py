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

from bench import appends, audit, calls, memory, routed, steps, whole
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
    with tempfile.TemporaryDirectory(prefix="cc-orchestrator-bench-", dir=options.dir) as directory:
        names = options.only or (["appends", "whole"] if options.store else list(BENCHES))
        with _database(options.store, options.dir) as url:
            if options.store and not url:
                print("The PostgreSQL server did not start; what it says is above.", file=sys.stderr)
                return 2
            return _run(names, Asked(SCALES[options.scale], Path(directory), url), as_json=options.json)


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
        "--store", default="", metavar="postgresql|URL", help="appends on PostgreSQL: a server of its own, or that one"
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="scale", action="store_const", const="quick", help="under a minute, less exact")
    size.add_argument("--tiny", dest="scale", action="store_const", const="tiny", help=argparse.SUPPRESS)
    parser.set_defaults(scale="full")
    return parser.parse_args(arguments)


def _run(names: Sequence[str], asked: Asked, *, as_json: bool) -> int:
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
                    print(shown(line), flush=True)
        except WorkerFailed as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 2
    over = [line for line in lines if line.holds is False]
    took = time.monotonic() - began
    if as_json:
        print(json.dumps({"machine": found, "seconds": took, "lines": [line.as_json() for line in lines]}, indent=1))
    else:
        print(f"\n{len(over)} of {sum(line.holds is not None for line in lines)} bars do not hold; {took:.0f} s")
    return 1 if over else 0


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
