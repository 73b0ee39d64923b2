"""Every contract of the store port, on every adapter."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from orchestrator.adapters.store import open_store
from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager
from orchestrator.core.ports import Clock, Store
from orchestrator.testing import STORE_CONTRACTS, STORE_REOPENING_CONTRACTS, ManualClock, run_store_conformance
from orchestrator.testing.drafts import OpenStore
from tests.servers import PostgresServer

NewStorage = Callable[[], OpenStore]


def _memory(_directory: Path) -> NewStorage:
    def open_memory(clock: Clock) -> Store:
        return open_store("memory:", clock=clock)

    return lambda: open_memory


def _sqlite(directory: Path) -> NewStorage:
    numbers = count(1)

    def new_storage() -> OpenStore:
        path = directory / f"store-{next(numbers)}.db"
        return lambda clock: open_store(f"sqlite:///{path}", clock=clock)

    return new_storage


ADAPTERS = {"memory": _memory, "sqlite": _sqlite}
MEMORY_IN_DEPTH = [pytest.param("memory", marks=pytest.mark.deep), "sqlite"]
"""One by one; each run of the checks takes those in memory in one call."""


@pytest.mark.parametrize("contract", STORE_CONTRACTS)
async def test_contract_on_postgresql(contract: str, postgres_schema_url: str) -> None:
    clock = ManualClock()
    store = open_store(postgres_schema_url, clock=clock)
    try:
        await STORE_CONTRACTS[contract](store, clock)
    finally:
        await store.close()


@pytest.mark.parametrize("contract", STORE_REOPENING_CONTRACTS)
async def test_reopening_contract_on_postgresql(contract: str, postgres_schema_url: str) -> None:
    await STORE_REOPENING_CONTRACTS[contract](lambda clock: open_store(postgres_schema_url, clock=clock), ManualClock())


@pytest.mark.parametrize("adapter", MEMORY_IN_DEPTH)
@pytest.mark.parametrize("contract", STORE_CONTRACTS)
async def test_contract(contract: str, adapter: str, tmp_path: Path) -> None:
    clock = ManualClock()
    store = ADAPTERS[adapter](tmp_path)()(clock)
    try:
        await STORE_CONTRACTS[contract](store, clock)
    finally:
        await store.close()


@pytest.mark.parametrize("contract", STORE_REOPENING_CONTRACTS)
async def test_reopening_contract(contract: str, tmp_path: Path) -> None:
    await STORE_REOPENING_CONTRACTS[contract](_sqlite(tmp_path)(), ManualClock())


def test_contracts_are_numbered_without_gaps_and_say_what_they_pin() -> None:
    contracts: dict[str, object] = {**STORE_CONTRACTS, **STORE_REOPENING_CONTRACTS}
    assert sorted(int(name[1:].partition("_")[0]) for name in contracts) == list(range(1, len(contracts) + 1))
    assert all((contract.__doc__ or "").strip().endswith(".") for contract in contracts.values())


async def test_the_whole_suite_runs_in_one_call(tmp_path: Path) -> None:
    await run_store_conformance(_sqlite(tmp_path))
    await run_store_conformance(_memory(tmp_path), durable=False)


@pytest.mark.deep
@pytest.mark.timeout(1800)
async def test_the_whole_suite_runs_twenty_times_in_a_row(tmp_path: Path, postgres_server: PostgresServer) -> None:
    """On every adapter; what depends on who is first comes out the same each time."""

    def in_schema(name: str) -> OpenStore:
        return lambda clock: open_store(f"{postgres_server.url()}&search_path={name}", clock=clock)

    schemas: list[str] = []

    def new_schema() -> OpenStore:
        return in_schema(schemas.pop())

    contracts = len(STORE_CONTRACTS) + len(STORE_REOPENING_CONTRACTS)
    new_memory, new_file = _memory(tmp_path), _sqlite(tmp_path)
    for _ in range(20):
        await run_store_conformance(new_memory, durable=False)
        await run_store_conformance(new_file)
        made = [postgres_server.new_name() for _ in range(contracts)]
        await postgres_server.execute(*(f"CREATE SCHEMA {name}" for name in made))
        schemas += made
        await run_store_conformance(new_schema)
        for name in made:
            await postgres_server.execute(f"DROP SCHEMA {name} CASCADE")


async def test_a_broken_adapter_is_told_which_contract_it_breaks(tmp_path: Path) -> None:
    """An adapter that forgets its leases is caught, by name."""

    class Forgetful(InMemoryPersistenceManager):
        async def renew(self, lease: object, lease_s: float) -> None:
            """Forget it."""

    with pytest.raises(AssertionError) as broken:
        await run_store_conformance(lambda: lambda clock: Forgetful(clock=clock), durable=False)
    assert "Contract s26_takeover" in broken.value.__notes__[0]
