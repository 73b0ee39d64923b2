"""Computers that went with their node: it was killed or cut off and can tell nobody, so another does.

Pages and terminals that show computers read them anew at a hint of ``computers``, which the node of a computer gives.
Of the nodes that are left the first one gives it in the place of one that is gone.
"""

from orchestrator.computers.nodes.presence import Presence
from orchestrator.computers.nodes.table import ComputerWent, Event


class Parting:
    """Tells of the computers of nodes that are gone."""

    def __init__(self, presence: Presence) -> None:
        self._presence = presence
        presence.on_event(self._happened)

    def _happened(self, event: Event) -> None:
        if not isinstance(event, ComputerWent):
            return
        presence = self._presence
        place = presence.table.place(event.computer)
        is_left = place is None or not presence.table.knows(place.node)
        if is_left and presence.first() == presence.node:
            presence.bus.publish("computers", {"computer": event.computer})
