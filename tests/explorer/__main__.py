"""``python -m tests.explorer``: run schedules by hand.

``--seed N`` runs one and prints its moves; ``--from N --count M`` runs many and prints those of a failure.
"""

import argparse
import sys
import time

from tests.explorer.ending import Violation
from tests.explorer.explorer import Report, explore


def main() -> int:
    """Run the schedules that the command line names; 1 when one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.explorer", description=__doc__)
    parser.add_argument("--seed", type=int, help="one schedule")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of many")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first violation")
    options = parser.parse_args()
    seeds = [options.seed] if options.seed is not None else range(options.first, options.first + options.count)
    total = Report()
    began, failed = time.perf_counter(), 0
    for done, seed in enumerate(seeds, 1):
        try:
            report = explore(seed)
        except Violation as violation:
            failed += 1
            text = str(violation) if not options.keep_going else str(violation).split("\nmoves:")[0]
            sys.stdout.write(f"{text}\n(schedule {done})\n")
            if not options.keep_going:
                return 1
            continue
        total.add(report)
        if options.seed is not None:
            sys.stdout.write("\n".join(report.trace) + "\n")
    spent = time.perf_counter() - began
    sys.stdout.write(f"{len(seeds)} schedules, {len(seeds) / spent:.1f}/s, {failed} failed\n")
    sys.stdout.write(f"moves: {dict(total.moves.most_common())}\nruns: {dict(total.outcomes.most_common())}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
