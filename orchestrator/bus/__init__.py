"""Buses: hints and requests between the parts of one node or of several."""

from orchestrator.bus.local import LocalBus
from orchestrator.core.errors import InvalidRequest
from orchestrator.ports import Bus

__all__ = ["LocalBus", "open_bus"]


def open_bus(url: str, *, node: str = "here") -> Bus:
    """The bus of ``local:`` or ``nats://…``, not open yet; ``node``: who is on it.

    Raises InvalidRequest for any other URL, and where what the URL needs is not installed.
    """
    scheme = url.partition(":")[0]
    if url == "local:":
        return LocalBus()
    if scheme in {"nats", "tls"}:
        from orchestrator.bus.nats import NatsBus

        return NatsBus(url, node=node)
    # Only the scheme is shown: the rest of a server's URL may hold a password.
    raise InvalidRequest(
        f"No bus can be opened by this URL of scheme {scheme!r}.",
        remedy="Use local: for one node; nats://HOST or tls://HOST for several.",
    )
