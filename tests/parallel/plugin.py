"""A pytest plugin that runs test files side by side: ``pytest -p tests.parallel.plugin --workers 2``.

One process collects all tests. It then forks one child for each file, the file that needs the most CPU first. As many
run at once as there are workers, and one more where those that run mostly wait, as the record of an earlier run tells.
A child sends each report through a pipe, and this process handles it as its own.

pytest-xdist is not used, for three reasons. Each of its workers imports and collects all tests again. It cannot count
the branches of the core in some files only, and counting makes a file three times as slow. It does not know the CPU
time of the commands that a test starts. A fork costs 10 ms, and each file gets fresh modules.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.parallel.counting import Counting
from tests.parallel.order import record, recorded, units
from tests.parallel.queue import LIMIT_S, Queue
from tests.parallel.red import RedTests


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of a parallel run."""
    group = parser.getgroup("parallel")
    group.addoption("--workers", type=int, default=1, help="how many cores to keep busy")
    group.addoption("--hang", type=float, default=LIMIT_S, help="after how many seconds of silence a test hangs")
    group.addoption("--branches", action="store_true", help="count the branches of orchestrator/core in tests/core")
    group.addoption("--no-skips", action="store_true", help="a skipped test is a failed test")
    group.addoption("--red", type=Path, help="write the failed tests to this JSON file")
    group.addoption("--record", action="store_true", help="record the seconds that each file needs")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Count what the core does while it is imported, before a test module imports it."""
    config.stash[_RED] = red = RedTests(skips_are_red=config.option.no_skips)
    config.pluginmanager.register(red)
    if config.option.branches:
        config.stash[_COUNTING] = Counting.of_imports()


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: Any) -> tuple[str, str, str] | None:
    """Passed tests print nothing: the progress line counts them."""
    return ("passed" if report.when == "call" else "", "", "") if report.passed else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run all files; the other hooks of pytest see the reports as if the tests had run here."""
    config = session.config
    if session.testsfailed or config.option.collectonly:
        return None
    # A record must not depend on the one before: what waits would wait longer each time.
    needs = {} if config.option.record else recorded()
    queue = Queue(session, units(session.items, needs), config.stash.get(_COUNTING, None), config.option.hang)
    try:
        queue.run(config.option.workers)
    finally:
        queue.end()
    if config.option.record:
        record(queue.needed)
    return True


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Combine what the files counted, and write down which tests failed."""
    config = session.config
    red = config.stash[_RED]
    if red.tests and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if config.option.red:
        config.option.red.write_text(json.dumps(red.tests), encoding="utf-8")
    counting = config.stash.get(_COUNTING, None)
    if counting is not None:
        counting.combine()


_RED: Final = pytest.StashKey[RedTests]()
_COUNTING: Final = pytest.StashKey[Counting]()
