"""Shared parts of tests, of the server and of its users: a clock, drafts, and a conformance suite per port."""

from orchestrator.testing.bus import BUS_CONTRACTS, BUS_OUTAGE_CONTRACTS, BusNetwork, run_bus_conformance
from orchestrator.testing.drafts import ManualClock
from orchestrator.testing.store import STORE_CONTRACTS, STORE_REOPENING_CONTRACTS, run_store_conformance

__all__ = [
    "BUS_CONTRACTS",
    "BUS_OUTAGE_CONTRACTS",
    "STORE_CONTRACTS",
    "STORE_REOPENING_CONTRACTS",
    "BusNetwork",
    "ManualClock",
    "run_bus_conformance",
    "run_store_conformance",
]
