"""What the endpoints of a node say that is about to stop."""

from typing import Final

from orchestrator.core.errors import OrchestratorError


class NodeDraining(OrchestratorError):
    """This node is about to stop, and takes nobody in any more."""

    code = "draining"
    http_status = 503


AGAIN_S: Final = 1
"""When to come again: a load balancer has looked by then, or the next start is not far."""


def draining() -> NodeDraining:
    """What health checks and new sockets are told."""
    return NodeDraining(
        "This node is about to stop.", remedy=f"Connect again in {AGAIN_S} s: another node, or the next start, answers."
    )
