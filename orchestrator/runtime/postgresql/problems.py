"""Problems with a PostgreSQL server, in plain words and with the next step: one place for store and bus.

A sentence may quote the server, which speaks to people. It never quotes asyncpg, and never a URL, which holds a
password.
"""

import errno
import os
import re
import socket
import ssl
from enum import Enum
from typing import Final, NamedTuple

import asyncpg

from orchestrator.runtime.postgresql.sessions import UnreadableFile, is_pooled

_NUMBER: Final = re.compile(r"\[Errno (\d+)\]")
_NO_SOCKET: Final = "no server has a socket there"
_LAST_WORDS: Final = "in the middle of operation: "
"""The text after which asyncpg quotes the server's words before it closed the connection."""


class Kind(Enum):
    """What happens to a trouble."""

    SETUP = "setup"
    """A fault that stays until somebody changes a setting."""
    AWAY = "away"
    """A fault that may pass by itself."""
    BUSY = "busy"
    """Other transactions were in the way."""
    FAULT = "fault"
    """Damage, or a defect."""


class Trouble(NamedTuple):
    """An error as people are told of it."""

    kind: Kind
    message: str
    remedy: str


def trouble(error: BaseException, where: str, option: str, *, connecting: bool = False) -> Trouble | None:
    """The sentence for an error at server and database ``where``; None: PostgreSQL has nothing to do with it.

    ``option``: where its URL comes from, such as ``--store``.
    """
    if is_pooled(error):
        return _pooled(where, option)
    if connecting and (found := _of_tls(error, where, option) or _of_url(error, where, option)) is not None:
        return found
    for tell in (_of_rights, _of_disk, _of_moment, _of_locks):
        if (found := tell(error, where, option)) is not None:
            return found
    return _of_connection(error, where, option) or _of_rest(error, where)


def _pooled(where: str, option: str) -> Trouble:
    return Trouble(
        Kind.SETUP,
        f"PostgreSQL at {where} is behind a connection pooler in transaction or statement mode (such as pgbouncer's "
        "pool_mode), and LISTEN/NOTIFY, advisory locks and prepared statements need a session that lasts.",
        "Set `pool_mode = session` for this database in pgbouncer.ini (with `server_reset_query = DISCARD ALL`), or "
        f"name the server's own address in the URL of {option}.",
    )


def _of_tls(error: BaseException, where: str, option: str) -> Trouble | None:
    said = str(error)
    match error:
        case ssl.SSLCertVerificationError():
            return Trouble(
                Kind.SETUP,
                f"The certificate of PostgreSQL at {where} is not to be trusted: {error.verify_message}.",
                f"Name its authority by sslrootcert=FILE in the URL of {option}, or replace the certificate.",
            )
        case ssl.SSLError() | ConnectionError() if _speaks_no_tls(error):
            return Trouble(
                Kind.SETUP,
                f"PostgreSQL at {where} does not speak TLS with this node{_reason(error)}.",
                f"Switch TLS on at the server or the pooler, or write another sslmode in the URL of {option}.",
            )
        case UnreadableFile():
            return Trouble(
                Kind.SETUP,
                f"The file of {said} in the URL of {option} is not there or cannot be read.",
                "Name a file that the user of this program may read.",
            )
        case asyncpg.ClientConfigurationError() if "ssl" in said or "certificate" in said:
            return Trouble(
                Kind.SETUP,
                f"What the URL of {option} says of TLS cannot be used.",
                "See what sslmode says, and that the files of sslrootcert, sslcert and sslkey can be read.",
            )
    return None


def _of_url(error: BaseException, where: str, option: str) -> Trouble | None:
    said = str(error)
    match error:
        case ValueError():
            # Its message may repeat the URL.
            return Trouble(
                Kind.SETUP,
                f"The PostgreSQL URL of {option} cannot be used.",
                "Write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with special characters as %XX.",
            )
        case asyncpg.ProtocolViolationError() if "startup parameter" in said:
            return Trouble(
                Kind.SETUP,
                f"The pooler before PostgreSQL at {where} refuses an option of the URL{_words(error)}.",
                f"Take the option out of the URL of {option}; it may be a default of the user: ALTER ROLE … SET.",
            )
        case asyncpg.InterfaceError() if "authentication" in said:
            return Trouble(
                Kind.SETUP,
                f"PostgreSQL at {where} asks for a way of signing in that this node does not know.",
                "Let the server's pg_hba.conf ask this user for scram-sha-256.",
            )
    return None


def _of_rights(error: BaseException, where: str, option: str) -> Trouble | None:
    match error:
        case asyncpg.InvalidAuthorizationSpecificationError() | asyncpg.ProtocolViolationError() if _signs_in(error):
            return Trouble(
                Kind.SETUP,
                f"PostgreSQL at {where} does not let this user in{_words(error)}.",
                f"Check user and password in the URL of {option}, and the server's pg_hba.conf.",
            )
        case asyncpg.InvalidCatalogNameError() | asyncpg.ProtocolViolationError() if _has_no_database(error):
            return Trouble(
                Kind.SETUP,
                f"There is no such database: {where}.",
                f"Make it with createdb, or name another one in the URL of {option}.",
            )
        case asyncpg.InvalidSchemaNameError():
            return Trouble(
                Kind.SETUP,
                f"No schema of the search path exists in {where}.",
                f"Make it with CREATE SCHEMA, or correct search_path in the URL of {option}.",
            )
        case asyncpg.InsufficientPrivilegeError():
            return Trouble(
                Kind.SETUP,
                f"This user may not do this in {where}{_words(error)}.",
                "Let the user own the database, or GRANT CREATE, USAGE ON SCHEMA … TO the user; ?search_path=NAME in "
                f"the URL of {option} names another schema.",
            )
    return None


def _of_disk(error: BaseException, where: str, _option: str) -> Trouble | None:
    match error:
        case asyncpg.DiskFullError() | asyncpg.OutOfMemoryError() | asyncpg.PostgresIOError():
            # A fault of the moment: data that waits to be written is kept until there is room again.
            return Trouble(
                Kind.AWAY,
                f"PostgreSQL at {where} could not write{_words(error)}; nothing of this was kept.",
                "Make room on the server's disk, or see what is wrong with it, and try again.",
            )
        case asyncpg.DataCorruptedError() | asyncpg.IndexCorruptedError():
            return Trouble(
                Kind.FAULT,
                f"The database {where} is damaged{_words(error)}.",
                "Keep it aside and put a backup in its place.",
            )
        case asyncpg.UndefinedTableError():
            return Trouble(
                Kind.AWAY,
                f"The tables are gone from {where}{_words(error)}.",
                "Stop all nodes, put a backup back, and start them; `store check` tells what is there.",
            )
    return None


def _of_moment(error: BaseException, where: str, option: str) -> Trouble | None:
    match error:
        case asyncpg.ReadOnlySQLTransactionError():
            return Trouble(
                Kind.AWAY,
                f"PostgreSQL at {where} takes no writes now{_words(error)}.",
                f"Where it is a standby, name the server that writes in the URL of {option}; else see why "
                "default_transaction_read_only is on there. Waiting tasks go on by themselves afterwards.",
            )
        case asyncpg.TooManyConnectionsError():
            return _full(error, where)
        case asyncpg.ProtocolViolationError() if "no more connections" in str(error):
            return _full(error, where)
        case asyncpg.TargetServerAttributeNotMatched():
            return Trouble(
                Kind.AWAY,
                f"No server of {where} is one that target_session_attrs asks for.",
                f"Wait until a standby has taken over, or correct the URL of {option}.",
            )
        case asyncpg.CannotConnectNowError():
            return Trouble(
                Kind.AWAY,
                f"PostgreSQL at {where} takes no connections now{_words(error)}.",
                "Wait until it has started or recovered; if it stops, start it again.",
            )
    return None


def _full(error: BaseException, where: str) -> Trouble:
    return Trouble(
        Kind.AWAY,
        f"PostgreSQL at {where} takes no more connections{_words(error)}.",
        "Raise max_connections there (of a pooler max_client_conn), or see who holds them in pg_stat_activity.",
    )


def _of_locks(error: BaseException, where: str, _option: str) -> Trouble | None:
    match error:
        case asyncpg.QueryCanceledError():
            return Trouble(
                Kind.BUSY,
                f"PostgreSQL at {where} did not end a statement in time{_words(error)}.",
                "Try again; where it stays so, look in pg_stat_activity for the other work of the server.",
            )
        case asyncpg.DeadlockDetectedError() | asyncpg.SerializationError() | asyncpg.LockNotAvailableError():
            return Trouble(
                Kind.BUSY,
                f"Others kept what this needs in {where} locked for too long{_words(error)}.",
                "Try again; where it stays so, see which session of the database holds locks.",
            )
    return None


def _of_connection(error: BaseException, where: str, option: str) -> Trouble | None:
    start = f"See that it runs and can be reached from here (host and port in the URL of {option}, firewall)"
    match error:
        case TimeoutError():
            return Trouble(
                Kind.AWAY,
                f"PostgreSQL at {where} cannot be reached (no answer in time).",
                f"{start}; of a pooler, that default_pool_size has room for all connections of this node.",
            )
        case asyncpg.DataError() | asyncpg.InterfaceError() if isinstance(error, ValueError):
            return Trouble(
                Kind.FAULT, f"A value does not fit the tables of {where}.", "Report it with the log of the server."
            )
        case (
            OSError()
            | EOFError()
            | asyncpg.PostgresConnectionError()
            | asyncpg.InterfaceError()
            | asyncpg.InternalClientError()
            | asyncpg.OperatorInterventionError()
            | asyncpg.IdleInTransactionSessionTimeoutError()
        ):
            why = _words(error) or f" ({_lost(error)})"
            return Trouble(Kind.AWAY, f"PostgreSQL at {where} cannot be reached{why}.", f"{start}, then try again.")
    return None


def _of_rest(error: BaseException, where: str) -> Trouble | None:
    if not isinstance(error, asyncpg.PostgresError):
        return None
    code = getattr(error, "sqlstate", None) or "no code"
    return Trouble(
        Kind.FAULT, f"PostgreSQL at {where} refused a statement{_words(error)}, {code}.", "Report it with the log."
    )


def _speaks_no_tls(error: BaseException) -> bool:
    if isinstance(error, ssl.SSLError):
        # A server that restarts ends a handshake, too.
        return not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
    return "rejected SSL" in str(error)


# pgbouncer refuses everything as a violation of the protocol.


def _signs_in(error: BaseException) -> bool:
    return not isinstance(error, asyncpg.ProtocolViolationError) or "authentication failed" in str(error)


def _has_no_database(error: BaseException) -> bool:
    return not isinstance(error, asyncpg.ProtocolViolationError) or "does not exist" in str(error)


def _words(error: BaseException) -> str:
    """What the server said, in brackets; empty where it is the client who speaks."""
    if getattr(error, "severity", None) is None:
        return ""
    said = str(getattr(error, "message", "") or error).splitlines()
    return f" ({said[0].rstrip('.')})" if said else ""


def _lost(error: BaseException) -> str:
    """How a connection was lost or refused, by the system's number of it."""
    if isinstance(error, socket.gaierror):
        return "the name of the host is not known"
    if (last := str(error).partition(_LAST_WORDS)[2].splitlines()) != []:
        return last[0].rstrip(".")
    if isinstance(error, ssl.SSLError):
        # Its number is not one of the system's.
        return "the connection was lost"
    number = getattr(error, "errno", None) or next(map(int, _NUMBER.findall(str(error))), 0)
    if number == errno.ENOENT:
        return _NO_SOCKET
    return os.strerror(number).lower() if number else "the connection was lost"


def _reason(error: BaseException) -> str:
    reason = getattr(error, "reason", None)
    return f" ({str(reason).replace('_', ' ').lower()})" if reason else ""
