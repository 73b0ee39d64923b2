"""The house that the contract is tried on: over the store in memory and over SQLite."""

from pathlib import Path

import pytest

from tests.contract.house import House


@pytest.fixture(params=[pytest.param("memory", marks=pytest.mark.deep), "sqlite"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    """A house on SQLite; in depth also on the store in memory, which passes the same conformance suite."""
    return House(tmp_path / "data", store="memory:" if request.param == "memory" else "")


@pytest.fixture
def kept_house(tmp_path: Path) -> House:
    """A house over SQLite only, for what needs a restart: the store in memory ends with its process."""
    return House(tmp_path / "data")
