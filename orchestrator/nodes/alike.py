"""What all nodes of one store have to be set alike, and who is not: whom a balancer asks decides nothing else."""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from orchestrator.core.visible import one_line
from orchestrator.nodes.messages import Beat
from orchestrator.nodes.presence import Presence
from orchestrator.nodes.table import Event, NodeCame

logger = logging.getLogger(__name__)

FACT: Final = "alike"
"""Under which a beat has these settings: name to value, as text."""


class Alike:
    """Compares what the nodes say of themselves."""

    def __init__(self, presence: Presence) -> None:
        self._presence = presence
        presence.on_event(self._log)

    def say(self, settings: Mapping[str, str]) -> None:
        """How this node is set, told with each of its beats."""
        self._presence.facts[FACT] = dict(settings)

    def alerts(self) -> list[str]:
        """A sentence for each setting in which not all nodes are alike."""
        return _differences([self._presence.beat(), *self._presence.table.beats()])

    def _log(self, event: Event) -> None:
        if isinstance(event, NodeCame):
            beats = [beat for beat in self._presence.table.beats() if beat.node == event.node]
            for sentence in _differences([self._presence.beat(), *beats]):
                logger.warning("%s", sentence)


def _differences(beats: Sequence[Beat]) -> list[str]:
    found: dict[str, dict[str, list[str]]] = {}
    for beat in beats:
        said = beat.facts.get(FACT)
        # An older version says nothing of itself, and a newer one may say more than is known here.
        for name, value in said.items() if isinstance(said, dict) else ():
            found.setdefault(str(name), {}).setdefault(str(value), []).append(beat.name or beat.node)
    return [_sentence(name, values) for name, values in found.items() if len(values) > 1]


def _sentence(name: str, values: Mapping[str, list[str]]) -> str:
    each = "; ".join(f"{value} at {', '.join(sorted(set(nodes)))}" for value, nodes in values.items())
    return f"The nodes of this store are not set alike, {one_line(f'{name}: {each}', limit=400)}. Give all the same."
