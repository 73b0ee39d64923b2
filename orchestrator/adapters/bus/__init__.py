"""Buses: notifications and requests between the parts of one node or of several."""

from typing import Final

from orchestrator.adapters.bus.installation import InstallationBus, installation_of
from orchestrator.adapters.bus.local import LocalBus
from orchestrator.core.errors import InvalidRequest
from orchestrator.core.ports import Bus

__all__ = ["InstallationBus", "LocalBus", "installation_of", "open_bus"]

_POSTGRESQL: Final = ("postgresql://", "postgres://")


def open_bus(url: str, *, node: str = "here") -> Bus:
    """The bus of ``local:``, ``postgresql://…`` or ``nats://…``, not open yet; ``node``: the name of this node on it.

    Raises InvalidRequest for any other URL, and where what the URL needs is not installed.
    """
    scheme = url.partition(":")[0]
    if url == "local:":
        return LocalBus()
    if url.startswith(_POSTGRESQL):
        return _postgresql(url, node)
    if scheme in {"nats", "tls"}:
        from orchestrator.adapters.bus.nats import NatsBus

        return NatsBus(url, node=node)
    # Only the scheme is shown: the rest of a server's URL may hold a password.
    raise InvalidRequest(
        f"No bus can be opened by this URL of scheme {scheme!r}.",
        remedy="Use local: for one node; for several postgresql://USER:PASSWORD@HOST/DATABASE, nats://HOST or tls://HOST.",
    )


def _postgresql(url: str, node: str) -> Bus:
    try:
        from orchestrator.adapters.bus.postgres import PostgresBus
    except ModuleNotFoundError as missing:
        if missing.name != "asyncpg":
            raise
        raise InvalidRequest(
            "A PostgreSQL bus needs the package asyncpg.", remedy="pip install 'cc-orchestrator[postgresql]'"
        ) from None
    return PostgresBus(url, node=node)
