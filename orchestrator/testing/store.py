"""The conformance suite of the `Store` port: run it on an adapter of your own.

With pytest, parametrise a test over `STORE_CONTRACTS` (and `STORE_REOPENING_CONTRACTS`) and
await each contract, or await `run_store_conformance` once.
"""

from collections.abc import Awaitable, Callable, Iterable
from types import ModuleType
from typing import Any, Final

from orchestrator.core.ports import Store
from orchestrator.testing import (
    store_computers,
    store_journal,
    store_kept,
    store_moves,
    store_outbox,
    store_queue,
    store_records,
    store_reopening,
    store_retention,
    store_system,
)
from orchestrator.testing.drafts import ManualClock, OpenStore

StoreContract = Callable[[Store, ManualClock], Awaitable[None]]
"""Takes an empty store, open, and its clock."""
ReopeningContract = Callable[[OpenStore, ManualClock], Awaitable[None]]
"""Takes what opens one storage, empty, again and again; closes what it opened."""


def _numbered(modules: Iterable[ModuleType]) -> dict[str, Any]:
    named = {name: value for module in modules for name, value in vars(module).items() if name[:1] == "s"}
    return {name: named[name] for name in sorted(named) if name[1:3].isdigit()}


STORE_CONTRACTS: Final[dict[str, StoreContract]] = _numbered(
    (
        store_journal,
        store_records,
        store_queue,
        store_system,
        store_kept,
        store_computers,
        store_retention,
        store_outbox,
        store_moves,
    )
)
"""Contracts of every store by their name, such as ``s04_wrong_version_writes_nothing``."""
STORE_REOPENING_CONTRACTS: Final[dict[str, ReopeningContract]] = _numbered((store_reopening,))
"""Contracts of stores that outlive their process."""


async def run_store_conformance(new_storage: Callable[[], OpenStore], *, durable: bool = True) -> None:
    """Run every contract, each on a storage of its own.

    ``durable``: the adapter's stores outlive their process. Raises what the first broken contract
    raises, with its name and sentence in a note.
    """
    for name, contract in STORE_CONTRACTS.items():
        clock = ManualClock()
        store = new_storage()(clock)
        try:
            await _named(name, contract, contract(store, clock))
        finally:
            await store.close()
    for name, reopening in STORE_REOPENING_CONTRACTS.items() if durable else ():
        await _named(name, reopening, reopening(new_storage(), ManualClock()))


async def _named(name: str, contract: Callable[..., Any], run: Awaitable[None]) -> None:
    try:
        await run
    except Exception as broken:
        broken.add_note(f"Contract {name}: {contract.__doc__}")
        raise
