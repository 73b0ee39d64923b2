"""A SQLite store with a gate before its writer."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orchestrator.adapters.store.sqlite import SqlitePersistenceManager
from orchestrator.testing import ManualClock
from tests.adapters.store.gate import Gate


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path, gate: Gate, clock: ManualClock) -> AsyncIterator[SqlitePersistenceManager]:
    store = SqlitePersistenceManager(tmp_path / "store.db", clock=clock, trace=gate)
    yield store
    gate.open()
    await store.close()
