"""Buses: hints and requests between the parts of one node or of several."""

from orchestrator.bus.local import LocalBus
from orchestrator.core.errors import InvalidRequest
from orchestrator.ports import Bus

__all__ = ["LocalBus", "open_bus"]


def open_bus(url: str, *, node: str = "here") -> Bus:
    """The bus of ``local:``, not open yet; ``node``: who is on it. Raises InvalidRequest for any other URL."""
    del node
    if url == "local:":
        return LocalBus()
    # Only the scheme is shown: the rest of a server's URL may hold a password.
    raise InvalidRequest(f"No bus can be opened by this URL of scheme {url.partition(':')[0]!r}.", remedy="Use local:.")
