"""The tests that failed, each with its reason in one line."""

from typing import Any, Final

import pytest

LONGEST: Final = 200
"""Characters of a reason."""


class RedTests:
    """A plugin that notes each failed test; ``tests`` maps its node id to the reason."""

    def __init__(self, *, skips_are_red: bool) -> None:
        self.tests: dict[str, str] = {}
        self._skips_are_red = skips_are_red

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that failed, or was skipped where no test may be."""
        if report.failed or (report.skipped and self._skips_are_red):
            self.tests.setdefault(report.nodeid, reason(report))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that cannot be read, or that skips itself as a whole."""
        if report.failed or (report.skipped and self._skips_are_red):
            self.tests.setdefault(report.nodeid, reason(report))


def reason(report: Any) -> str:
    """The line that says best why: the message of the exception, or the last line that there is."""
    told = report.longrepr
    if isinstance(told, tuple):
        told = told[2]
    crash = getattr(told, "reprcrash", None)
    text = str(crash.message if crash else told).strip()
    lines = text.splitlines() or ["no reason was given"]
    # Only what pytest itself says of a file that cannot be read has its reason at the end.
    return (lines[0] if crash or isinstance(told, str) else lines[-1])[:LONGEST]
