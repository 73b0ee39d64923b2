"""A store whose failures are counted: any store, seen from outside."""

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final, cast

from orchestrator.core.errors import (
    ComputerClaimed,
    Conflict,
    GrantVoid,
    InvalidRequest,
    LeaseLost,
    NotFound,
    OrchestratorError,
    Unreadable,
)
from orchestrator.core.ports import Store

_ANSWERS: Final = (ComputerClaimed, Conflict, GrantVoid, InvalidRequest, LeaseLost, NotFound)
"""What a store raises where all is well with it; bytes that are not as they were kept are not among them."""
DEFECT: Final = "defect"
"""The code of what is no error of ours, such as one of the database."""


def counted(store: Store, failures: "Counter[str]") -> Store:
    """The very store; each operation that fails adds one to ``failures`` under the code of its error."""
    return cast("Store", _Counted(store, failures))


class _Counted:
    def __init__(self, store: Store, failures: "Counter[str]") -> None:
        self._store = store
        self._failures = failures

    def __getattr__(self, name: str) -> Any:
        """The store's own, and its operations with an eye on them; found once each."""
        found = getattr(self._store, name)
        if inspect.iscoroutinefunction(found):
            found = self._watched(found)
            setattr(self, name, found)
        return found

    def _watched(self, operation: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @wraps(operation)
        async def watched(*args: Any, **kwargs: Any) -> Any:
            try:
                return await operation(*args, **kwargs)
            except Exception as error:
                if isinstance(error, Unreadable) or not isinstance(error, _ANSWERS):
                    self._failures[error.code if isinstance(error, OrchestratorError) else DEFECT] += 1
                raise

        return watched
