"""The computers' sockets: the port ``Computers`` over one link per connection."""

from orchestrator.hub.hub import Greeter, Hub
from orchestrator.hub.session import Socket

__all__ = ["Greeter", "Hub", "Socket"]
