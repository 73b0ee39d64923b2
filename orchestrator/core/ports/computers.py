"""The ports towards the game: calls to computers, and in-game commands of players."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from orchestrator.core.values import ComputerId, RunId

if TYPE_CHECKING:
    from orchestrator.core.wire.identity import Heard
    from orchestrator.core.wire.wire import Desk, SettledCall, Told

OnOutput = Callable[[int, bytes], None]
"""Is told what a running program writes, as it comes: where the part begins in the whole output, and its bytes.

Notifications only: parts may be missing. No bytes: the game is paused.
"""

OWN_TOKEN: Final = "own_token"
"""The key in a result's data for the pieces of the computer's own token in it, for code that makes a text of it."""

NOBODY: Final[Mapping[RunId, OnOutput]] = MappingProxyType({})
"""No run whose output anyone follows."""


class ComputerLine(Protocol):
    """The way back to one connected computer, for what its player asked."""

    @property
    def computer(self) -> ComputerId:
        """Its name."""

    @property
    def fingerprint(self) -> str:
        """The hash of the token by which it came in; empty: not known."""

    @property
    def capabilities(self) -> Sequence[str]:
        """The capabilities of its client, as it said in ``hello``."""

    def tell(self, message: "Told", body: bytes = b"") -> None:
        """Send an answer soon; nothing is sent to a computer that is gone."""

    def keeps_up(self) -> bool:
        """Whether it takes what it is sent."""


class PlayersDesk(Protocol):
    """Answers what players type at their computers. Nothing of it waits, and nothing of it raises."""

    def opened(self, line: ComputerLine) -> None:
        """A computer at which players can ask is connected and welcome."""

    def asked(self, line: ComputerLine, request: "Desk", body: bytes) -> None:
        """Somebody asked; ``body`` is what they typed."""

    def closed(self, line: ComputerLine) -> None:
        """The computer is gone: nobody looks any more."""


@dataclass(frozen=True)
class CallResult:
    """What a computer answered to a call that it finished without an error."""

    data: dict[str, Any] = field(default_factory=dict)
    body: bytes = b""
    sha256: str = field(default="", compare=False)
    """The sha256 of the body, as the wire checked it; empty: not known."""


@dataclass(frozen=True)
class ComputerInfo:
    """A computer as it introduced itself, and whether it is connected now."""

    computer: ComputerId
    online: bool
    label: str | None = None
    host: str = ""
    family: str = "computer"
    computer_id: int | None = None
    identity: str = ""
    """A hash over its token and its id in the game: another one is another computer (promise B6)."""
    client: str = ""
    """The version of its Lua client; empty: it is not known."""
    left_at: datetime | None = None
    """When its last connection ended; None: it is connected."""
    former_labels: tuple[str, ...] = ()
    """Other labels that it had since it was paired: rules by label hold for them, too."""
    fuel: int | None = None
    """What a turtle has left, as it told last; -1: turtles need none. None: it is no turtle, or has not told."""
    fuel_limit: int | None = None
    place: tuple[int, int, int] | None = None
    """The block (x, y, z) where it knew itself last; None: it has told none."""
    placed_at: datetime | None = None
    """When it knew that."""


class Computers(Protocol):
    """The computers in the game, through whichever socket they hang on."""

    def pinned(self, computers: Collection[ComputerId]) -> AbstractAsyncContextManager[None]:
        """Know where these computers are while this is open, wherever that is. Raises StoreAway."""

    async def find(self, computers: Collection[ComputerId]) -> None:
        """Look anew where these pinned computers are. Raises StoreAway."""

    def info(self, computer: ComputerId) -> ComputerInfo | None:
        """The known facts of a computer that is connected here or pinned; None: nobody has met it."""

    def heard(self, computer: ComputerId) -> "Heard":
        """The highest ``journal_seq`` that the computer has named, and its boot."""

    async def call(
        self,
        computer: ComputerId,
        *,
        run_id: RunId,
        task_id: str,
        number: int,
        method: str,
        params: Mapping[str, Any],
        body: bytes | None = None,
        wait_s: float = 60.0,
        on_output: OnOutput | None = None,
    ) -> CallResult:
        """Write the call's frame, once, and wait up to ``wait_s`` seconds for its outcome.

        Raises ComputerAway (not connected: no frame was written), CallVoid (the computer refused it
        unrun), ComputerFailed (it answered with an error), CallLost (the session ended or the wait
        did: only a settle can tell).
        """

    async def settle(
        self,
        computer: ComputerId,
        *,
        run_ids: Sequence[RunId],
        number: int,
        on_output: Mapping[RunId, OnOutput] = NOBODY,
    ) -> "dict[RunId, Settlement]":
        """Raise the computer's fence to ``number`` and ask what became of these runs.

        Those that still go on are waited for, the programs of ``on_output`` in time of the game.
        Raises ComputerAway, CallLost (ask again later with a new number).
        """

    def acknowledge(self, computer: ComputerId, run_id: RunId, number: int) -> None:
        """Let the computer forget an outcome that is durable here; a notification when it is away."""


@dataclass(frozen=True)
class Settlement:
    """The outcome of one run: the journal's word, and the result itself where it is still in memory."""

    call: "SettledCall"
    result: "CallResult | Exception | None" = None
    """None: not finished, or finished and its output lost with a reboot."""
