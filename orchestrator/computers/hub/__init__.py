"""The computers' sockets: the port ``Computers`` over one link per connection."""

from orchestrator.computers.hub.admission import Admission
from orchestrator.computers.hub.hub import Hub
from orchestrator.computers.hub.known_computers import (
    Elsewhere,
    Greeter,
    Met,
    Refusals,
    Refused,
    Rival,
    Visitor,
    Yielded,
)
from orchestrator.computers.hub.mirror import CannotType, Mirror, TooManyWatch, Typed
from orchestrator.computers.hub.socket import Socket
from orchestrator.computers.hub.view import Gone, Hidden, Seen, Sight, View, Watcher

__all__ = [
    "Admission", "CannotType", "Elsewhere", "Gone", "Greeter", "Hidden", "Hub", "Met", "Mirror", "Refusals", "Refused",
    "Rival", "Seen", "Sight", "Socket", "TooManyWatch", "Typed", "View", "Visitor", "Watcher", "Yielded",
]  # fmt: skip
