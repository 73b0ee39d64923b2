"""Every contract of the bus port, on every adapter."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from orchestrator.bus import LocalBus
from orchestrator.testing import BUS_CONTRACTS, BUS_OUTAGE_CONTRACTS, BusNetwork, run_bus_conformance


def _local() -> BusNetwork:
    """One process is all there is: every node is the same bus."""
    bus = LocalBus()
    return BusNetwork(lambda: bus)


ADAPTERS: dict[str, Callable[[], BusNetwork]] = {"local": _local}


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("contract", BUS_CONTRACTS)
async def test_contract(contract: str, adapter: str) -> None:
    async with ADAPTERS[adapter]() as network:
        await BUS_CONTRACTS[contract](network)


def test_contracts_are_numbered_without_gaps_and_say_what_they_pin() -> None:
    contracts = {**BUS_CONTRACTS, **BUS_OUTAGE_CONTRACTS}
    assert sorted(name[:3] for name in contracts) == [f"b{number:02}" for number in range(1, len(contracts) + 1)]
    assert all((contract.__doc__ or "").strip().endswith(".") for contract in contracts.values())


async def test_the_whole_suite_runs_in_one_call() -> None:
    await run_bus_conformance(_local, outages=False)


async def test_a_broken_adapter_is_told_which_contract_it_breaks() -> None:
    """An adapter that tells its own handlers again what comes back is caught, by name."""

    class Echoing(LocalBus):
        def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
            super().publish(subject, payload)
            super().publish(subject, payload)

    with pytest.raises(AssertionError) as broken:
        await run_bus_conformance(lambda: BusNetwork(Echoing), outages=False)
    assert "Contract b01_own_handlers_at_once" in broken.value.__notes__[0]
