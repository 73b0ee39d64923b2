"""The conformance suite of the `Bus` port: run it on an adapter of your own.

With pytest, parametrise a test over `BUS_CONTRACTS` (and `BUS_OUTAGE_CONTRACTS`) and await each contract on a
`BusNetwork` of its own, or await `run_bus_conformance` once.
"""

from collections.abc import Awaitable, Callable, Iterable
from types import ModuleType
from typing import Final

from orchestrator.testing import bus_hints, bus_outages, bus_requests
from orchestrator.testing.bus_hints import BusNetwork

__all__ = ["BUS_CONTRACTS", "BUS_OUTAGE_CONTRACTS", "BusContract", "BusNetwork", "run_bus_conformance"]

BusContract = Callable[[BusNetwork], Awaitable[None]]
"""Takes a network with nobody on it."""


def _numbered(modules: Iterable[ModuleType]) -> dict[str, BusContract]:
    named = {name: value for module in modules for name, value in vars(module).items() if name[:1] == "b"}
    return {name: named[name] for name in sorted(named) if name[1:3].isdigit()}


BUS_CONTRACTS: Final[dict[str, BusContract]] = _numbered((bus_hints, bus_requests))
"""Contracts of every bus by their name, such as ``b02_others_hear``."""
BUS_OUTAGE_CONTRACTS: Final[dict[str, BusContract]] = _numbered((bus_outages,))
"""Contracts of buses that are on a server, which may go away; their network has an ``outage``."""


async def run_bus_conformance(new_network: Callable[[], BusNetwork], *, outages: bool = True) -> None:
    """Run every contract, each on a network of its own.

    ``outages``: there is a server that can go away. Raises what the first broken contract raises, with its name and
    sentence in a note.
    """
    for name, contract in {**BUS_CONTRACTS, **(BUS_OUTAGE_CONTRACTS if outages else {})}.items():
        try:
            async with new_network() as network:
                await contract(network)
        except Exception as broken:
            broken.add_note(f"Contract {name}: {contract.__doc__}")
            raise
