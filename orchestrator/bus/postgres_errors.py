"""What can go wrong with the database of the bus, and what it is called: never with the URL, which holds a password."""

from typing import Final
from urllib.parse import urlsplit

import asyncpg

from orchestrator.core.errors import BusAway, InvalidRequest

ANSWERS_WITHIN_S: Final = 5.0
"""A database that says nothing for so long is gone."""

LOSSES: Final = (
    OSError,
    EOFError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""How a connection that cannot be had, or is lost, shows itself."""


def away(url: str, error: BaseException) -> BusAway | InvalidRequest:
    """The sentence for a bus that cannot be opened."""
    match error:
        case ValueError():
            return InvalidRequest(
                "The URL of the bus cannot be read.",
                remedy="Write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with special characters as %XX.",
            )
        case asyncpg.InvalidAuthorizationSpecificationError():
            return BusAway(
                f"{place(url)} does not let this user in: {error}.",
                remedy="Check the user and the password in the URL of the bus (--bus), and the server's pg_hba.conf.",
            )
        case asyncpg.InvalidCatalogNameError():
            return BusAway(
                f"{place(url)} has no such database: {error}.",
                remedy="Make it with `createdb`, or correct its name in the URL of the bus (--bus).",
            )
        case asyncpg.InvalidSchemaNameError():
            return BusAway(
                f"No schema of the search path exists at {place(url)}.",
                remedy="Make it with CREATE SCHEMA, or correct search_path in the URL of the bus (--bus).",
            )
        case asyncpg.InsufficientPrivilegeError():
            return BusAway(
                f"This user may not make or use the tables of the bus at {place(url)}: {error}.",
                remedy="GRANT CREATE, USAGE ON SCHEMA … TO the user, or name a schema of its own by ?search_path=.",
            )
        case asyncpg.TooManyConnectionsError():
            return BusAway(
                f"{place(url)} takes no more connections: {error}.",
                remedy="Raise max_connections there: each node needs three for its bus.",
            )
        case asyncpg.PostgresError():
            return BusAway(f"{place(url)} refuses: {error}.", remedy="See the server's log.")
        case _:
            return BusAway(
                f"{place(url)} cannot be reached: {_why(error)}.",
                remedy="Start the server, or correct host and port in the URL of the bus (--bus).",
            )


def place(url: str) -> str:
    """Which server, in words that may be shown."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    return f"The PostgreSQL server at {host or 'its socket'}{f':{port}' if port else ''}"


def _why(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {ANSWERS_WITHIN_S:g} s"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
