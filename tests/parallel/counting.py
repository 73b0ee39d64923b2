"""Counts the branches of ``orchestrator/core`` that the tests of the core go through."""

from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Self

import pytest
from coverage import Coverage

CORE = "tests/core/"


class Counting:
    """Coverage that is switched on for the tests of the core, and off for all others."""

    def __init__(self) -> None:
        self._coverage = Coverage(data_suffix=True)

    @classmethod
    def of_imports(cls) -> Self:
        """Count what runs while the core is imported; no module of it may be imported yet."""
        counting = cls()
        counting._coverage.erase()
        counting._coverage.start()
        package = import_module("orchestrator.core")
        for module in walk_packages(package.__path__, "orchestrator.core."):
            import_module(module.name)
        counting._coverage.stop()
        return counting

    def wants(self, item: pytest.Item) -> bool:
        """Whether this test is counted: counting makes it three times as slow.

        Tests that Hypothesis draws for are not: which branches they meet differs between its versions.
        """
        marks = {mark.name for mark in item.iter_markers()}
        return item.nodeid.startswith(CORE) and not marks & {"uncounted", "hypothesis"}

    def start(self) -> None:
        """Count from here on."""
        self._coverage.start()

    def stop(self) -> None:
        """Count no more until the next start."""
        self._coverage.stop()

    def save(self) -> None:
        """Write what this process counted to a file of its own."""
        self._coverage.save()

    def combine(self) -> None:
        """Make one file, ``.coverage``, of what all processes counted."""
        self.save()
        whole = Coverage()
        whole.combine([str(Path.cwd())])
        whole.save()
