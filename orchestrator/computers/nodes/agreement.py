"""Settings that the nodes of one store have to share: each tells its own with its beat, and whoever looks compares.

Nothing is refused for it: while nodes are restarted one by one with another value, both are there for a while.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from orchestrator.computers.nodes.messages import Beat
from orchestrator.core.text.visible import one_line

SETTINGS: Final = "settings"
"""Under this the facts of a beat have them, each as people read it; a node of an older version tells none."""
_MOST_CHARS: Final = 80


def differences(beats: Sequence[Beat]) -> list[str]:
    """Of each setting that nodes have in different ways which node has what, as a sentence.

    A node that does not tell a setting, as older ones do not, is left out, and so is one that drains: it takes
    nothing any more.
    """
    told: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for beat in beats:
        settings = beat.facts.get(SETTINGS)
        if isinstance(settings, dict) and not beat.draining:
            for name, value in settings.items():
                told[_shown(name)][_shown(value)].append(_shown(beat.name or beat.node))
    return [_sentence(name, values) for name, values in sorted(told.items()) if len(values) > 1]


def _sentence(name: str, values: dict[str, list[str]]) -> str:
    has = "; ".join(f"{value} at {', '.join(sorted(nodes))}" for value, nodes in sorted(values.items()))
    return f"{name} differs between nodes: {has}. Start all nodes of one store with the same."


def _shown(told: object) -> str:
    return one_line(str(told), limit=_MOST_CHARS)
