"""Facts about each computer since this node started, connected or not."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Protocol

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.ports import ComputerInfo
from orchestrator.core.task.system_facts import ComputerFrozen
from orchestrator.core.wire import wire
from orchestrator.core.wire.cells import MOVED
from orchestrator.core.wire.identity import (
    NOTHING_HEARD,
    Heard,
    copied_remedy,
    copied_sentence,
    former_of,
    frozen_remedy,
    frozen_sentence,
)
from orchestrator.core.wire.link_events import Stands
from orchestrator.core.wire.wire import ComputerId, RunId

# -- What the hub asks of the journal when a computer comes or goes ----------------------


@dataclass(frozen=True)
class Visitor:
    """The computer that said hello."""

    computer: ComputerId
    """The computer whose token it is."""
    hello: wire.Hello
    token: str = ""
    """The token's hash; empty: it is not known."""
    peer: str = ""
    """The address it came from; empty: it is not known."""
    node: str = ""
    """The node at which it is a visitor; empty: there are no nodes."""
    said: str = ""
    """The text of its seat there."""


@dataclass(frozen=True)
class Met:
    """The verdict on a visitor."""

    number: int = 0
    """Newly allotted, for the welcome."""
    fresh: bool = False
    """Whether what was heard from the computer before counts no more."""
    frozen: ComputerFrozen | None = None
    """Why it is turned away, before this or now; None: it is welcome."""
    copy_of: int | None = None
    """It has a copied token and is turned away: the id in the game of the computer whose token that is."""
    former_labels: tuple[str, ...] = ()
    """As ``ComputerSide`` has it."""
    renamed: bool = False
    """Whether it comes with a label that it had not had before."""


class Greeter(Protocol):
    """The journal's answer when a computer comes or goes."""

    async def meet(self, visitor: Visitor, *, heard: Heard) -> Met:
        """Welcome a visitor, or freeze the computer.

        ``heard``: all that was heard from it since the journal was told.
        """

    async def copy_of(self, visitor: Visitor) -> int | None:
        """The id of the computer of which this visitor has a copy of the folder; None: that cannot be told."""

    async def copied(self, visitor: Visitor) -> ComputerFrozen:
        """Freeze the computer: who was welcome last still lives while this visitor comes."""

    async def heard(self, computer: ComputerId, heard: Heard) -> None:
        """Keep what was heard from a computer that has gone."""

    async def number(self, computer: ComputerId) -> int:
        """A newly allotted number of the computer."""

    async def closed_runs(self, computer: ComputerId, run_ids: Sequence[RunId]) -> list[RunId]:
        """The runs in a computer's journal that nobody waits for any more."""

    async def labelled(self, computer: ComputerId, label: str, former_labels: tuple[str, ...]) -> None:
        """Keep the label that a computer has, beside the former ones; waiting requests are judged by a new one."""

    async def rejudge(self) -> None:
        """Judge what waits for a person: a computer came with a new label."""

    async def arrived(self, computer: ComputerId) -> None:
        """The computer is connected and welcome: wake what waited for it."""

    def left(self, computer: ComputerId) -> None:
        """The computer is not connected any more; nothing may be waited for here."""


# -- What the hub of one node asks of the others when a computer comes or goes -----------


@dataclass(frozen=True)
class Rival:
    """A connection of a computer at another node."""

    computer: ComputerId
    computer_id: int
    boot: str
    age_s: float
    """How long the connection has been open, in seconds."""


@dataclass(frozen=True)
class Yielded:
    """The result when another node gives up its session of a computer."""

    newer: bool = False
    """It is the newer connection, and stays."""
    lives: bool = False
    """Another boot of the same computer answers there: there are two."""
    heard: Heard = NOTHING_HEARD
    """What was heard there."""


class Elsewhere(Protocol):
    """The other nodes."""

    def seat(self, visitor: Visitor, info: ComputerInfo) -> Visitor:
        """A visitor with the seat that its welcome here keeps; ``info``: what it says of itself."""

    async def yields(self, visitor: Visitor, age_s: float) -> Yielded:
        """Ask the node that has a session of a visitor's computer to let it go; it is not waited for long.

        ``age_s``: for how long the visitor's connection has been open. Ages are compared and not times of day, so
        that the clocks of two nodes need not agree; a request that takes long makes the visitor look younger.
        """

    async def turn_away(self, fact: ComputerFrozen) -> None:
        """Tell the node that has a session of a computer that it is frozen."""

    def changed(self, computer: ComputerId) -> None:
        """A computer came to this node, or left it. Nothing of it waits, and nothing raises."""


# -- Who is accepted: which clients and which versions of the mod this orchestrator knows

_OLDEST_MOD: Final = (1, 95)
"""CC: Tweaked 1.95 (Minecraft 1.16.5): the oldest whose WebSocket and fs the client knows."""


class Refusal(NamedTuple):
    """Why a computer is turned away, and what a person can do."""

    code: str
    message: str
    remedy: str
    cell: wire.Cell | None = None
    """Where the computer is served instead; None: nowhere that is known."""


def refusal(hello: wire.Hello) -> Refusal | None:
    """Why this computer cannot be served; None: it can."""
    if hello.protocol != wire.PROTOCOL_VERSION:
        newer = hello.protocol > wire.PROTOCOL_VERSION
        return Refusal(
            f"protocol_too_{'new' if newer else 'old'}",
            f"The client speaks protocol {hello.protocol}, this orchestrator {wire.PROTOCOL_VERSION}.",
            "Update the orchestrator." if newer else "Install the client again from this orchestrator.",
        )
    version = _mod_version(hello.host)
    if version is not None and version < _OLDEST_MOD:
        return Refusal(
            "mod_too_old",
            f"CC: Tweaked {version[0]}.{version[1]} is older than 1.95.",
            "Update the mod to 1.95 (Minecraft 1.16.5) or newer.",
        )
    return None


def frozen_refusal(fact: ComputerFrozen) -> Refusal:
    """How a frozen computer is turned away."""
    place = wire.Cell(name=fact.cell, url=fact.url) if fact.reason == MOVED else None
    return Refusal(MOVED if place else "frozen", frozen_sentence(fact), frozen_remedy(fact), place)


def copied_refusal(computer: wire.ComputerId, genuine: int, came: int) -> Refusal:
    """How a copy of a computer's folder is turned away."""
    return Refusal("copied", copied_sentence(computer, genuine, came), copied_remedy(computer))


def _mod_version(host: str) -> tuple[int, int] | None:
    words = host.split()
    if len(words) < 2 or words[0] != "ComputerCraft":
        return None
    parts = words[1].split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    return int(parts[0]), int(parts[1])


def printable(text: str) -> str:
    """Text of a peer for a log: printable and short, so that it can inject nothing."""
    text = text[:200]
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)


# -- The connections that were turned away last or given up, for a person who has to find out why no computer connects

KEPT: Final = 100
"""A computer that is refused dials five times a minute: the last minutes of a few of them."""
JOURNAL_FAILED: Final = "journal_failed"
"""The code of a computer that cannot write its journal; after a welcome it hangs up then."""
MAKE_ROOM: Final = "Make room on its disk if that is full; it goes on by itself then."


@dataclass(frozen=True)
class Refused:
    """One connection that was turned away, or that the computer gave up."""

    at: datetime
    peer: str
    """The address it came from; empty: not known."""
    path: str
    code: str
    """Such as ``unauthenticated``, ``protocol_too_old``, ``frozen`` or JOURNAL_FAILED."""
    message: str
    """Why, as a sentence."""
    computer: str = ""
    """The computer whose token it was; empty: nobody's that is known."""
    remedy: str = ""
    """The remedy for a person."""


class Refusals:
    """The last of them, in memory: they end with the process."""

    def __init__(self, kept: int = KEPT) -> None:
        self._last: deque[Refused] = deque(maxlen=kept)

    def add(self, refused: Refused) -> None:
        """Remember one; the oldest makes room."""
        self._last.append(refused)

    def last(self) -> list[Refused]:
        """The refusals that are remembered, the newest first."""
        return list(reversed(self._last))


# -- What is known of each computer since this node started, whether or not it is connected

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Standing:
    """The fuel and the place of a computer, as it told last; the fields are those of ``ComputerInfo``."""

    fuel: int | None = None
    fuel_limit: int | None = None
    place: tuple[int, int, int] | None = None
    placed_at: datetime | None = None


NOWHERE: Final = Standing()


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
        self._standing: dict[ComputerId, Standing] = {}
        self._infos: dict[ComputerId, tuple[tuple[object, ...], ComputerInfo]] = {}
        """What people were told of each computer last, with the parts of which it was made."""
        self._heard: dict[ComputerId, Heard] = {}
        """What the last boot of each computer named until its last session ended."""
        self._kept: dict[ComputerId, Heard] = {}
        """The facts of it that the journal was told."""
        self.keeping: set[asyncio.Task[None]] = set()
        """The journal is being told."""

    def computers(self) -> list[ComputerId]:
        """All computers that said hello."""
        return sorted(self._hellos)

    def hello(self, computer: ComputerId) -> wire.Hello:
        """The last hello of a computer that was welcomed."""
        return self._hellos[computer]

    def info(self, computer: ComputerId, *, online: bool) -> ComputerInfo | None:
        """What people are told of a computer; None: it never said hello."""
        hello = self._hellos.get(computer)
        if hello is None:
            return None
        left_at = None if online else self._left.get(computer)
        labels, standing = self._former_labels.get(computer, ()), self._standing.get(computer, NOWHERE)
        visitor = Visitor(computer, hello, self._fingerprints.get(computer, ""))
        parts = (hello, online, visitor.token, left_at, labels, standing)
        # A step of a task asks for it seven times, and mostly nothing has changed since.
        before = self._infos.get(computer)
        if before is not None and before[0] == parts:
            return before[1]
        info = self.coming(visitor)
        if not online:
            info = replace(info, online=False, left_at=left_at)
        self._infos[computer] = parts, info
        return info

    def coming(self, visitor: Visitor) -> ComputerInfo:
        """The facts of a computer that says hello, with those that it told before."""
        computer, hello = visitor.computer, visitor.hello
        return ComputerInfo(
            computer=computer,
            online=True,
            label=wire.from_wire(hello.label) if hello.label is not None else None,
            host=wire.from_wire(hello.host),
            family=hello.family,
            computer_id=hello.computer_id,
            identity=wire.sha256_hex(f"{visitor.token} {hello.computer_id}".encode())[:16],
            client=printable(wire.from_wire(hello.client)),
            former_labels=self._former_labels.get(computer, ()),
            **vars(self._standing.get(computer, NOWHERE)),
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
            # A boot that was accepted begins with all that the ones before it had named.
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

    def stands(self, computer: ComputerId, told: Stands) -> bool:
        """A computer told its fuel and its place; whether that is another than before."""
        before = self._standing.get(computer, NOWHERE)
        placed_at = None if told.place is None else datetime.now(UTC) - timedelta(seconds=told.age_s)
        now = self._standing[computer] = Standing(told.fuel, told.fuel_limit, told.place, placed_at)
        return replace(now, placed_at=None) != replace(before, placed_at=None)

    def labels(self, computer: ComputerId) -> tuple[str, tuple[str, ...]]:
        """The label of a computer, empty where it has none, and the former ones."""
        return _text(self._hellos[computer].label), self._former_labels.get(computer, ())

    def confirmed(self, computer: ComputerId, label: str) -> None:
        """An admin confirmed this label: it is the only one that the computer had, except for one that it has since."""
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
            logger.warning("the last facts of computer %s were not kept: %s", computer, error, extra=extra)


def _text(label: str | None) -> str:
    return "" if label is None else wire.from_wire(label)
