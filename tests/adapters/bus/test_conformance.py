"""Every contract of the bus port, on every adapter."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from orchestrator.adapters.bus import LocalBus, open_bus
from orchestrator.testing import BUS_CONTRACTS, BUS_OUTAGE_CONTRACTS, BusNetwork, run_bus_conformance
from tests.nats_servers import NatsServer

_NETWORKS = count(1)


def _local() -> BusNetwork:
    """One process is all there is: every node is the same bus."""
    bus = LocalBus()
    return BusNetwork(lambda: bus)


def _nats(server: NatsServer) -> BusNetwork:
    """A name of its own on the server, which goes away in an outage."""
    url, nodes = f"{server.url}/n{next(_NETWORKS)}", count(1)

    @asynccontextmanager
    async def outage() -> AsyncIterator[None]:
        server.kill()
        try:
            yield
        finally:
            server.start()

    return BusNetwork(lambda: open_bus(url, node=f"node-{next(nodes)}"), outage=outage)


@pytest.mark.parametrize("contract", BUS_CONTRACTS)
async def test_local(contract: str) -> None:
    async with _local() as network:
        await BUS_CONTRACTS[contract](network)


@pytest.mark.parametrize("contract", BUS_CONTRACTS)
async def test_nats(contract: str, nats_server: NatsServer) -> None:
    async with _nats(nats_server) as network:
        await BUS_CONTRACTS[contract](network)


@pytest.mark.parametrize("contract", BUS_OUTAGE_CONTRACTS)
async def test_nats_outage(contract: str) -> None:
    with NatsServer() as server:
        async with _nats(server) as network:
            await BUS_OUTAGE_CONTRACTS[contract](network)


@pytest.mark.deep
@pytest.mark.parametrize("time", range(20))
async def test_nats_twenty_times(time: int) -> None:
    """No contract holds by luck."""
    with NatsServer() as server:
        await run_bus_conformance(lambda: _nats(server))


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
