"""What tests of the house and of its users share: a clock, drafts, and a conformance suite per port."""

from orchestrator.testing.clock import ManualClock
from orchestrator.testing.store import STORE_CONTRACTS, STORE_REOPENING_CONTRACTS, run_store_conformance

__all__ = ["STORE_CONTRACTS", "STORE_REOPENING_CONTRACTS", "ManualClock", "run_store_conformance"]
