"""Whether another node's moment is over, by a clock that cannot be seen.

The clocks of nodes differ, and a letter may lie for long on its way: in a socket of a node that was stopped, or of a
network that was cut. So a moment is named by the own clock of the node that means it, and the others ask that node
now and then how late it is there. The time of that round trip is counted as passed, so that an estimate is never early.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from orchestrator.adapters.bus.letters import Letter, Mail, packed
from orchestrator.core.errors import BusAway
from orchestrator.runtime.clock import steady_s

ANSWER_S: Final = 2.0
"""A node that does not say how late it is in this time is taken for one that is gone."""
KNOWN_S: Final = 600.0
"""So long holds what was learned: two clocks that are off by 500 millionths part by 0.3 s in it."""
MOST_NODES: Final = 1_000

now: Final = steady_s
"""This node's moment."""


class Clocks:
    """How far the clocks of the other nodes are ahead of this one's, at the most."""

    def __init__(self, mail: Mail) -> None:
        self._mail = mail
        self._ahead: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._learning: dict[str, asyncio.Task[None]] = {}
        mail.answering("time", self._tell)

    async def is_before(self, node: str, moment: float) -> bool:
        """Whether ``moment`` of that node's clock is surely still to come, after asking that node if need be."""
        if self.knows_before(node, moment):
            return True
        # Not known yet, or it is over; or what was learned is no longer true.
        learning = self._learning.get(node)
        if learning is None:
            learning = self._learning[node] = asyncio.ensure_future(self._learn(node))
            learning.add_done_callback(lambda _: self._learning.pop(node, None))
        await asyncio.wait((learning,))
        return self.knows_before(node, moment)

    def forget(self) -> None:
        """Nothing that was learned holds any longer."""
        self._ahead.clear()

    def close(self) -> None:
        """Ask no longer."""
        for learning in self._learning.values():
            learning.cancel()

    def knows_before(self, node: str, moment: float) -> bool:
        """Whether ``moment`` is surely still to come by what is known, without asking anybody."""
        ahead, learned_at = self._ahead.get(node, (0.0, -KNOWN_S))
        here = now()
        return here - learned_at < KNOWN_S and here + ahead < moment

    async def _learn(self, node: str) -> None:
        tag, answer = self._mail.tag(), asyncio.get_running_loop().create_future()

        def take(letter: Letter) -> None:
            if not answer.done():
                answer.set_result(letter)

        with self._mail.waiting(tag, take):
            asked = now()
            question = packed({"op": "time", "from": self._mail.post.id})
            with suppress(BusAway):
                self._mail.post.send(node, tag, question, answer_to=tag)
                await asyncio.wait((answer,), timeout=ANSWER_S)
        if not answer.done() or not isinstance(answer.result().says.get("now"), float):
            self._ahead.pop(node, None)
            return
        self._ahead[node] = answer.result().says["now"] - asked, asked
        self._ahead.move_to_end(node)
        while len(self._ahead) > MOST_NODES:
            self._ahead.popitem(last=False)

    async def _tell(self, tag: str, says: Mapping[str, Any]) -> None:
        self._mail.post.send(str(says["from"]), tag, packed({"op": "now", "now": now()}))
