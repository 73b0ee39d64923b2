"""What contracts say again and again."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import Clock, Lease, Store

OpenStore = Callable[[Clock], Store]
"""Opens a store on one storage, the same one each time; the first time it is empty."""
E = TypeVar("E", bound=OrchestratorError)


async def refused(kind: type[E], operation: Awaitable[Any]) -> E:
    """The refusal, which is of ``kind`` and says something; an answer fails the contract."""
    try:
        answer = await operation
    except kind as refusal:
        if not refusal.message:
            raise AssertionError(f"{kind.__name__} says nothing.") from refusal
        return refusal
    raise AssertionError(f"{kind.__name__} was expected, but the answer was {answer!r}.")


async def taken(store: Store, holder: str = "node-1", lease_s: float = 10) -> Lease:
    """A lease on a task that has to be due."""
    lease = await store.lease(holder, lease_s)
    assert lease is not None
    return lease
