"""The computers' sockets: the port ``Computers`` over one link per connection."""

from orchestrator.hub.elsewhere import Elsewhere, Rival, Yielded
from orchestrator.hub.greeter import Greeter, Met, Visitor
from orchestrator.hub.hub import Hub
from orchestrator.hub.mirror import CannotType, Mirror, TooManyWatch, Typed
from orchestrator.hub.refusals import Refusals, Refused
from orchestrator.hub.socket import Socket
from orchestrator.hub.view import Gone, Hidden, Seen, Sight, View, Watcher

__all__ = [
    "CannotType", "Elsewhere", "Gone", "Greeter", "Hidden", "Hub", "Met", "Mirror", "Refusals", "Refused", "Rival",
    "Seen", "Sight", "Socket", "TooManyWatch", "Typed", "View", "Visitor", "Watcher", "Yielded",
]  # fmt: skip
