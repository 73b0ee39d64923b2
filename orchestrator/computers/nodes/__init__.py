"""Several nodes as one: the nodes, the place of each computer, and the way to it."""

from orchestrator.computers.nodes.fleet import Fleet
from orchestrator.computers.nodes.node import MeetingElsewhere, Node, join, new_node_id
from orchestrator.computers.nodes.table import Presence

__all__ = ["Fleet", "MeetingElsewhere", "Node", "Presence", "join", "new_node_id"]
