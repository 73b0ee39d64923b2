"""The installation that the contract is tried on: over the store in memory and over SQLite."""

from pathlib import Path

import pytest

from tests.harness.whole_server import Installation


@pytest.fixture(params=[pytest.param("memory", marks=pytest.mark.deep), "sqlite"])
def installation(request: pytest.FixtureRequest, tmp_path: Path) -> Installation:
    """An installation on SQLite; in depth also on the store in memory, which passes the same conformance suite."""
    return Installation(tmp_path / "data", store="memory:" if request.param == "memory" else "")


@pytest.fixture
def kept_installation(tmp_path: Path) -> Installation:
    """An installation over SQLite only, for what needs a restart: the store in memory ends with its process."""
    return Installation(tmp_path / "data")
