"""The house that the contract is tried on: over the store in memory and over SQLite."""

from pathlib import Path

import pytest

from tests.contract.house import House


@pytest.fixture(params=["memory", "sqlite"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    """A house over each store in turn."""
    return House(tmp_path / "data", store="memory:" if request.param == "memory" else "")


@pytest.fixture
def kept_house(tmp_path: Path) -> House:
    """A house over SQLite only, for what needs a restart: the store in memory ends with its process."""
    return House(tmp_path / "data")
