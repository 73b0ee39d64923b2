"""What is to be done about an error of PostgreSQL, and how it is told to people."""

import ssl
from enum import Enum
from typing import Final

import asyncpg

from orchestrator.core.errors import InvalidRequest, OrchestratorError, StoreAway, StoreBusy

_CHECK: Final = "See that it runs and can be reached from here (host, port, firewall), then try again."


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


def is_lasting(error: Exception) -> bool:
    """Whether a connection that was refused with this will be refused again however long one waits."""
    lasting = (
        asyncpg.InvalidAuthorizationSpecificationError,
        asyncpg.InvalidCatalogNameError,
        asyncpg.InsufficientPrivilegeError,
        OrchestratorError,
        ValueError,
    )
    return isinstance(error, lasting)


def explained(error: Exception, where: str) -> Exception:
    """The error as one that teaches; ``where`` names server and database, never a password. Any other as it is."""
    match error:
        case asyncpg.InvalidAuthorizationSpecificationError():
            return InvalidRequest(
                f"PostgreSQL at {where} does not let this user in.",
                remedy="Check user and password of the store's URL, and the server's pg_hba.conf.",
            )
        case asyncpg.InvalidCatalogNameError():
            return InvalidRequest(
                f"There is no such database: {where}.", remedy="Make it with createdb, or name another one."
            )
        case asyncpg.InsufficientPrivilegeError():
            return InvalidRequest(
                f"This user may not do this in {where}: {_said(error)}.",
                remedy="Let the user own the database, or grant CREATE on its schema.",
            )
        case asyncpg.DiskFullError() | asyncpg.OutOfMemoryError() | asyncpg.PostgresIOError():
            # Of the moment: what waits to be written is kept until there is room again.
            return StoreAway(
                f"The store at {where} could not be written ({_said(error)}); nothing of this was kept.",
                remedy="Make room on the server's disk, or see what is wrong with it, and try again.",
            )
        case asyncpg.DataCorruptedError() | asyncpg.IndexCorruptedError():
            return OrchestratorError(
                f"The database {where} is damaged ({_said(error)}).",
                remedy="Keep it aside and put a backup in its place.",
            )
        case _:
            return _of_the_moment(error, where)


def _of_the_moment(error: Exception, where: str) -> Exception:
    match error:
        case asyncpg.ReadOnlySQLTransactionError():
            return StoreAway(
                f"PostgreSQL at {where} takes no writes now ({_said(error)}).",
                remedy="Where it is a standby, name the server that writes; else see why default_transaction_read_only "
                "is on there. What waits goes on by itself afterwards.",
            )
        case asyncpg.UndefinedTableError():
            return StoreAway(
                f"The store's tables are gone from {where} ({_said(error)}).",
                remedy="Stop all nodes, put a backup back, and start them; `store check` tells what is there.",
            )
        case asyncpg.TooManyConnectionsError():
            return StoreAway(
                f"PostgreSQL at {where} takes no more connections ({_said(error)}).",
                remedy="Raise max_connections there, or see who holds them in pg_stat_activity.",
            )
    match verdict(error):
        case Verdict.AGAIN if not isinstance(error, asyncpg.UniqueViolationError):
            return StoreBusy(
                f"Others kept what this needs in {where} locked for too long ({_said(error)}).",
                remedy="Try again; where it stays so, see which session of the database holds locks.",
            )
        case Verdict.AWAY:
            return StoreAway(f"PostgreSQL at {where} cannot be reached ({_said(error)}).", remedy=_CHECK)
        case _ if isinstance(error, asyncpg.PostgresError):
            code = getattr(error, "sqlstate", "")
            return OrchestratorError(
                f"The store at {where} failed: {_said(error)} ({code}).", remedy="Report it with the log."
            )
        case _:
            return error


def not_connected(error: Exception, where: str) -> Exception:
    """Why there is no connection, as an error that teaches."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return InvalidRequest(
            f"The certificate of PostgreSQL at {where} is not to be trusted: {error.verify_message}.",
            remedy="Name its authority by sslrootcert=FILE in the URL, or mend the certificate.",
        )
    if isinstance(error, ValueError):
        # What it says may repeat the URL.
        return InvalidRequest(
            "The store's PostgreSQL URL cannot be used.",
            remedy="Write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with special characters as %XX.",
        )
    return explained(error, where)


def unknown(where: str) -> StoreAway:
    """The refusal of what may or may not have been done, and must not be done twice."""
    return StoreAway(
        f"The connection to {where} broke before it said that this was done: it may have been, or not.",
        remedy="Look whether it was, then do it again if it was not.",
    )


def _said(error: Exception) -> str:
    """The error's own sentence, which is the server's or the system's; its kind where it says nothing."""
    message = getattr(error, "message", None) or str(error)
    return str(message).splitlines()[0].rstrip(".") if message else type(error).__name__
