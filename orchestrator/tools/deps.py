"""What a tool works with: the mode, the computer's channel, the workspace."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from orchestrator.core.errors import NotFound, ToolFailed, Unreadable
from orchestrator.core.evidence.checks import NO_PROGRAM
from orchestrator.core.ports import CallResult, Workspace
from orchestrator.core.task.facts import Ran
from orchestrator.core.wire.wire import RunId, to_wire

ABSENT = "absent"
"""Stands for the hash of a file that is not there."""

Encoding = Literal["utf-8", "latin-1"]


class NoProgram(ToolFailed):
    """The program that was to run is not there."""

    code = NO_PROGRAM


class ProgramFailed(ToolFailed):
    """A program ran and did not end well; ``ran`` says which bytes ran and how they ended."""

    def __init__(self, message: str, ran: Ran) -> None:
        super().__init__(message)
        self.ran = ran


class CommandChannel(Protocol):
    """The way to one computer for one call."""

    async def call(
        self, method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        """Send a command and wait for its outcome. Raises what ``Computers.call`` raises."""


@dataclass
class CCAgentDeps:
    """What the tools of one task work with. ``mode="stub"`` needs no other field."""

    mode: Literal["stub", "live"] = "live"
    ws_client: CommandChannel | None = None
    """The computer's channel; None in stub mode."""
    file_cache: dict[str, str] = field(default_factory=dict)
    """In stub mode, the files: canonical path to content."""
    workspace: Workspace | None = None
    """Where ``local_*`` works; None: every ``local_*`` is refused."""
    computer: str | None = None
    """The computer's name; None in stub mode: ``stub``."""
    host: str = ""
    """What the computer says it runs on, such as ``ComputerCraft 1.116.1 (Minecraft 1.21.1)``; empty: not known."""
    family: str = ""
    """Its kind, as its hello has it; empty: not known."""
    expected: Mapping[str, str] | None = None
    """What the call must find: path to sha256 or ``absent``. None: look first, then act."""
    encoding: Encoding | None = None
    """How a write encodes; None: as the file that is there is encoded."""
    by_person: bool = False
    """Whether a person edited the call: a program in it that does not parse is shown with its fault, not refused."""
    noted: str = ""
    """What whoever looked before the call had to say of it."""
    run_id: RunId | None = None
    """The run that a bracket names; None: the call has no bracket."""
    timeout_s: float | None = None
    """Seconds that a program may run; None: the tools' own limit."""
    keep: Callable[[bytes], Awaitable[None]] | None = None
    """Keeps bytes that a change will replace, by their sha256, before it is shown; None: nobody wants them."""
    fetch: Callable[[str], Awaitable[bytes]] | None = None
    """The bytes of an earlier state by their sha256; raises NotFound. None: nothing is kept."""
    after: dict[str, str] = field(default_factory=dict)
    """What the call left behind, told by the tool: path to sha256 or ``absent``."""
    ran: Ran | None = None
    """The program that the call ran, told by the tool; None: it ran none that ended well."""


async def earlier_bytes(deps: CCAgentDeps, path: str, sha256: str) -> bytes:
    """The bytes of an earlier state. Raises ToolFailed when the store does not have them, or not whole."""
    try:
        if deps.fetch is not None:
            return await deps.fetch(sha256)
    except Unreadable as damaged:
        raise ToolFailed(f"The earlier bytes of {path} are damaged in the store.", remedy=damaged.remedy) from damaged
    except NotFound:
        pass
    raise ToolFailed(f"The earlier bytes of {path} are not in the store.")


async def call_cc_command(
    ws_client: CommandChannel | None,
    method: str,
    params: Mapping[str, Any],
    body: bytes | None = None,
    wait_s: float = 60.0,
) -> CallResult:
    """One command on a computer: text in ``params`` is sent as the bytes of its UTF-8, escaped bytes as themselves.

    Raises ToolFailed without a channel; ComputerAway, CallVoid, CallLost, ComputerFailed.
    """
    if ws_client is None:
        raise ToolFailed("There is no computer to send this to.", remedy="Use mode='stub', or connect one.")
    encoded = {key: byte_string(value) if isinstance(value, str) else value for key, value in params.items()}
    return await ws_client.call(method, encoded, body, wait_s)


def byte_string(text: str) -> str:
    """Text as a byte string of the header; a byte that stands escaped (``surrogateescape``) is itself."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("latin-1")
    except UnicodeEncodeError:
        return to_wire(text)
