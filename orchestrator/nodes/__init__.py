"""Several nodes as one: who is there, where each computer is, and the way to it."""

from orchestrator.nodes.fleet import Fleet
from orchestrator.nodes.meeting import MeetingElsewhere
from orchestrator.nodes.node import Node, join, new_node_id
from orchestrator.nodes.presence import Presence

__all__ = ["Fleet", "MeetingElsewhere", "Node", "Presence", "join", "new_node_id"]
