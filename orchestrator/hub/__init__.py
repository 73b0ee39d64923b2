"""The computers' sockets: the port ``Computers`` over one link per connection."""

from orchestrator.hub.greeter import Greeter, Met, Visitor
from orchestrator.hub.hub import Hub
from orchestrator.hub.refusals import Refusals, Refused
from orchestrator.hub.session import Socket

__all__ = ["Greeter", "Hub", "Met", "Refusals", "Refused", "Socket", "Visitor"]
