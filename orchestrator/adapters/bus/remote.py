"""What every bus over a network does alike: its own handlers hear at once, and its echo is not heard again."""

import asyncio
import logging
import re
from abc import ABC, abstractmethod
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from itertools import count
from secrets import token_hex
from typing import Any, Final, NamedTuple

from orchestrator.adapters.bus.letters import packed, unpacked
from orchestrator.adapters.bus.local import LocalBus
from orchestrator.core.ports.bus import Answer, End, Hear, Serve

logger = logging.getLogger(__name__)

MOST_NODES: Final = 1_000
"""Of so many nodes it is remembered how far they were heard; those heard longest ago are forgotten."""


class Hint(NamedTuple):
    """A notification of another node, which came just now."""

    node: str
    number: int
    subject: str
    payload: Mapping[str, Any]


class RemoteBus(ABC):
    """A bus whose own handlers are those of a `LocalBus`, and which tells other nodes by what its adapter sends.

    The adapter is told what is wanted from the network by ``_listen``, ``_offer`` and their contraries, once for each
    subject however many handlers it has; ``_tell`` and these neither wait nor raise, open or not.
    """

    def __init__(self, *, node: str) -> None:
        # Unique for each start, so that what is left over from another of the same name is not taken for its own.
        self.id: Final = f"{re.sub(r'[^a-zA-Z0-9_-]', '-', node)[:40]}-{token_hex(6)}"
        """This bus among those of all nodes."""
        self._local = LocalBus()
        self._heard_subjects: Counter[str] = Counter()
        self._served_subjects: Counter[str] = Counter()
        self._numbers = count(1)
        self._came: list[Hint] = []
        self._heard_up_to: OrderedDict[str, int] = OrderedDict()

    def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
        """Tell the handlers of this bus, then the other nodes."""
        self._local.publish(subject, payload)
        if self.connected:
            says = {"from": self.id, "number": next(self._numbers), "payload": payload}
            self._tell(subject, packed(says))

    def subscribe(self, subject: str, handler: Hear) -> End:
        """Hear this bus and the other nodes."""
        return self._counted(self._heard_subjects, subject, self._local.subscribe(subject, handler))

    def serve(self, subject: str, handler: Serve) -> End:
        """Answer requests of this bus and of the other nodes."""
        return self._counted(self._served_subjects, subject, self._local.serve(subject, handler))

    def request(
        self, subject: str, payload: Mapping[str, Any], body: bytes = b"", *, within_s: float
    ) -> Coroutine[Any, Any, Answer]:
        """Ask this node, if it serves the subject, and else another."""
        # Each coroutine on the way of a call to another node is felt: this one would only pass on.
        if subject in self._served_subjects:
            return self._local.request(subject, payload, body, within_s=within_s)
        return self._ask(subject, payload, body, within_s)

    @property
    @abstractmethod
    def connected(self) -> bool:
        """Whether the other nodes can be told now."""

    @abstractmethod
    def _tell(self, subject: str, data: bytes) -> None:
        """Send a notification to every node that listens, or drop it."""

    @abstractmethod
    def _ask(
        self, subject: str, payload: Mapping[str, Any], body: bytes, within_s: float
    ) -> Coroutine[Any, Any, Answer]:
        """Ask another node, as `Bus.request` says."""

    @abstractmethod
    def _listen(self, subject: str) -> None:
        """Notifications of this subject are to be heard from now on, also after connecting again."""

    @abstractmethod
    def _unlisten(self, subject: str) -> None:
        """They no longer are."""

    @abstractmethod
    def _offer(self, subject: str) -> None:
        """Requests of this subject are to be taken from now on, also after connecting again."""

    @abstractmethod
    def _withdraw(self, subject: str) -> None:
        """They no longer are; those that were taken are finished."""

    def _hear(self, subject: str, data: bytes) -> None:
        """Take what came for a subject that is listened to.

        What comes in one turn of the loop is heard in the next, each node's notifications in their order: an adapter
        may mix up those of different subjects.
        """
        try:
            says = unpacked(data).says
            hint = Hint(str(says["from"]), int(says["number"]), subject, dict(says["payload"]))
        except (ValueError, KeyError, TypeError):
            logger.debug("a hint of %s could not be read", subject)
            return
        if hint.node == self.id:
            return
        if not self._came:
            asyncio.get_running_loop().call_soon(self._deliver)
        self._came.append(hint)

    def _deliver(self) -> None:
        came, self._came = self._came, []
        for hint in sorted(came, key=lambda each: (each.node, each.number)):
            # What a lost connection still brings after the next one began is too late: order is kept.
            if hint.number <= self._heard_up_to.get(hint.node, 0):
                continue
            self._heard_up_to[hint.node] = hint.number
            self._heard_up_to.move_to_end(hint.node)
            self._local.publish(hint.subject, hint.payload)
        while len(self._heard_up_to) > MOST_NODES:
            self._heard_up_to.popitem(last=False)

    def _counted(self, counter: Counter[str], subject: str, end_here: End) -> End:
        begin, stop = self._switches(counter)
        counter[subject] += 1
        if counter[subject] == 1:
            begin(subject)
        ended = False

        def end() -> None:
            nonlocal ended
            if ended:
                return
            ended = True
            end_here()
            counter[subject] -= 1
            if not counter[subject]:
                del counter[subject]
                stop(subject)

        return end

    def _switches(self, counter: Counter[str]) -> tuple[Callable[[str], None], Callable[[str], None]]:
        if counter is self._heard_subjects:
            return self._listen, self._unlisten
        return self._offer, self._withdraw
