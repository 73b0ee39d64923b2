"""What is known of each computer since this node started, whether or not it is connected."""

import asyncio
import logging
from datetime import UTC, datetime

from orchestrator.computers.hub.compatibility import printable
from orchestrator.computers.hub.greeter import Greeter, Met, Visitor
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import ComputerInfo
from orchestrator.core.wire import wire
from orchestrator.core.wire.identity import NOTHING_HEARD, Heard, former_of
from orchestrator.core.wire.wire import ComputerId

logger = logging.getLogger(__name__)


class Known:
    """What each computer said of itself, and what the journal has to know of it."""

    def __init__(self, greeter: Greeter) -> None:
        self._greeter = greeter
        self._hellos: dict[ComputerId, wire.Hello] = {}
        self._fingerprints: dict[ComputerId, str] = {}
        """A hash of the token with which each computer came last."""
        self._left: dict[ComputerId, datetime] = {}
        """When the last connection of each ended."""
        self._numbers: dict[ComputerId, int] = {}
        """The number of each computer's last welcome."""
        self._former_labels: dict[ComputerId, tuple[str, ...]] = {}
        self._heard: dict[ComputerId, Heard] = {}
        """What the last boot of each computer named until its last session ended."""
        self._kept: dict[ComputerId, Heard] = {}
        """What of it the journal was told."""
        self.keeping: set[asyncio.Task[None]] = set()
        """The journal is being told."""

    def computers(self) -> list[ComputerId]:
        """All that said hello."""
        return sorted(self._hellos)

    def hello(self, computer: ComputerId) -> wire.Hello:
        """What a computer that was welcome said last."""
        return self._hellos[computer]

    def info(self, computer: ComputerId, *, online: bool) -> ComputerInfo | None:
        """What people are told of a computer; None: it never said hello."""
        hello = self._hellos.get(computer)
        if hello is None:
            return None
        return ComputerInfo(
            computer=computer,
            online=online,
            label=wire.from_wire(hello.label) if hello.label is not None else None,
            host=wire.from_wire(hello.host),
            family=hello.family,
            computer_id=hello.computer_id,
            identity=wire.sha256_hex(f"{self._fingerprints.get(computer, '')} {hello.computer_id}".encode())[:16],
            client=printable(wire.from_wire(hello.client)),
            left_at=None if online else self._left.get(computer),
            former_labels=self._former_labels.get(computer, ()),
        )

    def number(self, computer: ComputerId) -> int:
        """The number of the computer's last welcome; 0: it never was welcome."""
        return self._numbers.get(computer, 0)

    def heard(self, computer: ComputerId) -> Heard:
        """What the computer named until its last session ended."""
        return self._heard.get(computer, NOTHING_HEARD)

    def welcomed(self, visitor: Visitor, met: Met) -> None:
        """A computer is welcome."""
        computer, boot = visitor.computer, wire.from_wire(visitor.hello.boot)
        if met.fresh or self.heard(computer).boot != boot:
            # A boot that was let in begins with all that the ones before it had named.
            self._heard.pop(computer, None)
            self._kept.pop(computer, None)
        self._hellos[computer] = visitor.hello
        self._fingerprints[computer] = visitor.token
        self._numbers[computer] = met.number
        self._former_labels[computer] = met.former_labels

    def labelled(self, computer: ComputerId, label: str | None) -> None:
        """A computer that is connected has another label, as it is on the wire."""
        hello, former = self._hellos[computer], self._former_labels.get(computer, ())
        self._former_labels[computer] = former_of(_text(label), (*former, _text(hello.label)))
        self._hellos[computer] = hello.model_copy(update={"label": label})

    def labels(self, computer: ComputerId) -> tuple[str, tuple[str, ...]]:
        """The label of a computer, empty where it has none, and the former ones."""
        return _text(self._hellos[computer].label), self._former_labels.get(computer, ())

    def confirmed(self, computer: ComputerId, label: str) -> None:
        """An admin confirmed this label: it is the only one that the computer had, but for one that it has since."""
        if computer in self._hellos:
            now = _text(self._hellos[computer].label)
            self._former_labels[computer] = () if now == label else (label,)

    def left(self, computer: ComputerId, journal_seq: int) -> None:
        """A computer is gone; the journal is told what was heard, so that the next start knows it too."""
        self._left[computer] = datetime.now(UTC)
        boot = wire.from_wire(self._hellos[computer].boot)
        heard = self._heard[computer] = Heard(max(self.heard(computer).journal_seq, journal_seq), boot)
        if heard.journal_seq > self._kept.get(computer, NOTHING_HEARD).journal_seq:
            self._kept[computer] = heard
            keeping = asyncio.get_running_loop().create_task(self._keep(computer, heard))
            self.keeping.add(keeping)
            keeping.add_done_callback(self.keeping.discard)

    async def kept(self) -> None:
        """Wait until the journal was told all that was heard."""
        await asyncio.gather(*self.keeping)

    async def _keep(self, computer: ComputerId, heard: Heard) -> None:
        try:
            await self._greeter.heard(computer, heard)
        except OrchestratorError as error:
            extra = {"computer": computer}
            logger.warning("what computer %s said last was not kept: %s", computer, error, extra=extra)


def _text(label: str | None) -> str:
    return "" if label is None else wire.from_wire(label)
