"""Buses: hints between the parts of one node or of several."""

from orchestrator.bus.local import LocalBus
from orchestrator.core.errors import InvalidRequest
from orchestrator.ports import Bus

__all__ = ["LocalBus", "open_bus"]


def open_bus(url: str) -> Bus:
    """The bus of ``local:``. Raises InvalidRequest for any other URL."""
    if url == "local:":
        return LocalBus()
    raise InvalidRequest(f"No bus can be opened by {url!r}.", remedy="Use local:.")
