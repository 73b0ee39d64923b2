"""What is to be done about an error of PostgreSQL, and how it is told to people."""

from collections.abc import Mapping
from enum import Enum
from typing import Final

import asyncpg

from orchestrator.adapters.store.script import of_a_row
from orchestrator.core.errors import InvalidRequest, OrchestratorError, StoreAway, StoreBusy
from orchestrator.runtime.postgresql.problems import Kind, trouble
from orchestrator.runtime.postgresql.sessions import SharedSession, is_pooled

_KINDS: Final[Mapping[Kind, type[OrchestratorError]]] = {
    Kind.SETUP: InvalidRequest,
    Kind.AWAY: StoreAway,
    Kind.BUSY: StoreBusy,
    Kind.FAULT: OrchestratorError,
}


class Verdict(Enum):
    """What an error says of the transaction that it ended."""

    REFUSED = "refused"
    """It is an answer: running it again would bring the same."""
    AGAIN = "again"
    """It met another transaction and was rolled back: the same may well succeed now."""
    AWAY = "away"
    """The connection is gone, or no good; what was not sent for commit was rolled back."""


_AGAIN: Final = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
    # Two nodes made the same thing at once; the second now finds it there.
    asyncpg.UniqueViolationError,
)
_AWAY: Final = (
    OSError,  # TimeoutError is one
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    asyncpg.TooManyConnectionsError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    SharedSession,
    # A server that became a standby, or is about to: the next connection may find the one that writes.
    asyncpg.ReadOnlySQLTransactionError,
)


def verdict(error: Exception) -> Verdict:
    """What an error says of the transaction that it ended."""
    if isinstance(error, _AGAIN):
        return Verdict.AGAIN
    # What cannot be encoded or understood is a ValueError besides, whatever else asyncpg calls it.
    if isinstance(error, _AWAY) and not isinstance(error, ValueError):
        return Verdict.AWAY
    return Verdict.REFUSED


def is_taken(error: Exception) -> bool:
    """Whether something that was to be made is there."""
    return isinstance(error, asyncpg.UniqueViolationError)


def is_lasting(error: Exception, where: str) -> bool:
    """Whether a connection that was refused with this will be refused again however long one waits."""
    return isinstance(not_connected(error, where), InvalidRequest)


def explained(error: Exception, where: str) -> Exception:
    """The error as one that teaches; ``where`` names server and database, never a password. Any other as it is."""
    told = _told(error, where, connecting=False)
    return of_a_row(told) if told is error else told


def not_connected(error: Exception, where: str) -> Exception:
    """Why there is no connection, as an error that teaches."""
    return _told(error, where, connecting=True)


def _told(error: Exception, where: str, *, connecting: bool) -> Exception:
    if isinstance(error, OrchestratorError):
        return error
    found = trouble(error, where, "--store", connecting=connecting)
    if found is None:
        return error
    # A pooler that is changed while nodes work is one that they wait for.
    kind = StoreAway if is_pooled(error) and not connecting else _KINDS[found.kind]
    return kind(found.message, remedy=found.remedy)


def unknown(where: str) -> StoreAway:
    """The refusal of what may or may not have been done, and must not be done twice."""
    return StoreAway(
        f"The connection to {where} broke before it said that this was done: it may have been, or not.",
        remedy="Look whether it was, then do it again if it was not.",
    )
