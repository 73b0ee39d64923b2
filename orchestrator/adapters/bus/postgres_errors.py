"""What can go wrong with the database of the bus, and what it is called: never with the URL, which holds a password."""

from typing import Final

import asyncpg

from orchestrator.core.errors import BusAway, InvalidRequest
from orchestrator.runtime.postgresql.problems import Kind, trouble
from orchestrator.runtime.postgresql.sessions import SharedSession, place

ANSWERS_WITHIN_S: Final = 5.0
"""A database that says nothing for so long is gone."""

LOSSES: Final = (
    OSError,
    EOFError,
    TimeoutError,
    SharedSession,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""How a connection that cannot be had, or is lost, shows itself."""


def away(url: str, error: BaseException, *, connecting: bool = True) -> BusAway | InvalidRequest:
    """The sentence for a bus that cannot be opened, or was lost."""
    where = place(url)
    if isinstance(error, asyncpg.UndefinedTableError):
        return BusAway(f"The tables of the bus are gone from {where}.", remedy="They are made again at once.")
    found = trouble(error, where, "--bus", connecting=connecting)
    if found is None:
        return BusAway(f"The bus met a defect at {where}.", remedy="Report it with the log.")
    kind = InvalidRequest if found.kind is Kind.SETUP else BusAway
    return kind(found.message, remedy=found.remedy)
