"""Stores: the journal of tasks, their queue and the tables beside them, behind one port."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from orchestrator.core.errors import InvalidRequest
from orchestrator.runtime.clock import SystemClock

if TYPE_CHECKING:
    from orchestrator.core.ports import Clock, Store

__all__ = ["open_store"]

_SQLITE: Final = "sqlite:///"
_POSTGRESQL: Final = ("postgresql://", "postgres://")


def open_store(url: str, *, clock: "Clock") -> "Store":
    """The store of ``memory:``, ``sqlite:///relative/file.db``, ``sqlite:////absolute/file.db`` or ``postgresql://…``.

    A PostgreSQL store connects when it is first used; with the system's clock it goes by its server's.
    Raises InvalidRequest for any other URL, and what the adapter raises.
    """
    from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager, SqlitePersistenceManager

    if url == "memory:":
        return InMemoryPersistenceManager(clock=clock)
    path = url.removeprefix(_SQLITE)
    if path != url and path not in {"", ":memory:"}:
        return SqlitePersistenceManager(Path(path), clock=clock)
    if url.startswith(_POSTGRESQL):
        return _postgresql(url, clock)
    # Only the scheme is shown: the rest of a database's URL may hold a password.
    raise InvalidRequest(
        f"No store can be opened by this URL of scheme {url.partition(':')[0]!r}.",
        remedy="Use memory:, sqlite:///relative/file.db, sqlite:////absolute/file.db "
        "or postgresql://USER:PASSWORD@HOST/DATABASE.",
    )


def _postgresql(url: str, clock: "Clock") -> "Store":
    try:
        from orchestrator.adapters.store.postgres import PostgresPersistenceManager
    except ModuleNotFoundError as missing:
        if missing.name != "asyncpg":
            raise
        raise InvalidRequest(
            "A PostgreSQL store needs the package asyncpg.", remedy="pip install 'cc-orchestrator[postgresql]'"
        ) from None
    return PostgresPersistenceManager(url, clock=None if isinstance(clock, SystemClock) else clock)
