"""The messages of the computer channel and their limits: one model for each, strict and frozen.

What a frame looks like, and how one is read and written, is in :mod:`orchestrator.core.wire.wire`,
through which everybody uses these; docs/protocol.md is the prose.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from orchestrator.core.wire.cells import NAME
from orchestrator.core.wire.screen_messages import (
    Body,
    CallIdString,
    Counter,
    Keyed,
    Keys,
    Look,
    Picture,
    Screens,
    ShortString,
    Unseen,
    Watch,
    WireMessage,
    WireString,
)

PROTOCOL_VERSION: Final = 1
COMPUTER_SUBPROTOCOL: Final = "cc-orchestrator.v1"

MAX_HEADER_BYTES: Final = 4096
"""The header line without its newline: small enough to parse char by char in Lua in 2 ms."""
MAX_BODY_BYTES: Final = 48 * 1024
"""The body of one frame: with the header far under the mod's 128 KiB per message."""
MAX_WHOLE_BYTES: Final = 2 * 1024 * 1024
"""A body in parts: twice what a computer's own disk holds by default."""
WINDOW_FRAMES: Final = 8
"""Frames of bodies in parts not yet acknowledged, in each direction: each is one event in the mod's queue of 256."""
MAX_OUTPUT_BYTES: Final = 4096
"""One notification of what a program writes: a few screens of a computer."""
INPUT: Final = "input"
"""The capability of a computer that types to the programs that it runs."""
OBSERVE: Final = "observe"
"""The capability of a computer that counts a program's time by the game, and stops one that was only watched."""
SCREEN_OF: Final = "screen_of"
"""The capability of a computer that shows more than its own screen by name."""
CHUNKS: Final = "chunks"
"""The capability of a computer that takes and sends bodies in parts."""
UPDATE: Final = "update"
"""The capability of a computer that replaces its client by itself; another refuses a ``welcome`` that names one."""
MAX_FRAME_BYTES: Final = MAX_HEADER_BYTES + 1 + MAX_BODY_BYTES
MAX_OPEN_CALLS: Final = 8
"""Calls a computer runs at once: each is at most one event in the mod's queue of 256."""
MAX_UNACKNOWLEDGED: Final = 64
"""Outcomes a computer keeps until ``result_ack``: what fits its 8 KiB journal slot."""
CELLS: Final = "cells"
"""The capability of a computer that dials another cell when it is told its place; another takes no ``cell``."""
LABELS: Final = "labels"
"""The capability of a computer that tells each label that it gets; another refuses a ``welcome`` with ``labels``."""
DESK: Final = "desk"
"""The capability of a computer at which a player can ask, and which takes ``told`` when it has not asked."""
UNDO: Final = "undo"
"""The capability of a computer at which a player can take back what a task changed there."""
REVIEW: Final = "review"
"""The capability of a computer at which a person decides requests, where the policy allows it."""
NEWS: Final = "news"
"""The desk id of what nobody at the computer asked for: the questions that wait there when it connects."""
MAX_DESK_BYTES: Final = 4096
"""What a player types at once: many screens of a computer, and far below what the model's window holds."""
CLOCK: Final = "clock"
"""The capability of a computer that tells the time of the game with its ``pong``."""
WHERE: Final = "where"
"""The capability of a computer that tells its fuel, and the place that it knows, with its ``pong``."""
RUN_PING_EVERY_S: Final = 5.0
"""While a program runs: soon enough to notice that the game is paused."""
PING_EVERY_S: Final = 45.0
"""One ping and one pong: an idle computer costs no more, and no proxy that waits for 60 s cuts its connection."""
SILENCE_S: Final = 100.0
"""Two lost pings and some lag: a computer that says nothing for longer is gone."""
HELLO_WITHIN_S: Final = 15.0
"""A fresh client reads its disk before hello; a stranger must not hold a socket for long."""

FIRST_METHODS: Final = frozenset(
    {
        "fs_list",
        "fs_read",
        "fs_stat",
        "fs_find",
        "fs_write",
        "fs_edit",
        "fs_delete",
        "fs_move",
        "fs_mkdir",
        "terminate",
        "screen",
        "info",
        "run_program",
        "shell",
    }
)
"""The capabilities of each client; one that has a later method says so by a capability of the same name."""
Coordinate = Annotated[int, Field(ge=-(10**9), le=10**9)]
Place = tuple[Coordinate, Coordinate, Coordinate]
"""A block of the world: x, y, z."""
Amount = Annotated[int, Field(ge=-1, le=10**12)]
Family = Literal["computer", "advanced", "turtle", "pocket", "command"]


class Hello(WireMessage):
    """The computer introduces itself; nothing else is heard before it."""

    type: Literal["hello"] = "hello"
    protocol: Counter
    computer_id: Counter
    """``os.getComputerID()``: shown, never a credential."""
    label: ShortString | None = None
    host: ShortString
    """``_HOST``, such as ``ComputerCraft 1.113.1 (Minecraft 1.20.1)``."""
    family: Family
    boot: ShortString
    """Drawn again at each boot: tells a reconnect from a reboot."""
    client: ShortString
    """The client's version."""
    capabilities: tuple[ShortString, ...] = ()
    highest: Counter
    """The highest number this computer has seen."""
    journal_seq: Counter
    found_seq: Counter | None = None
    """The lowest ``journal_seq`` found at a boot since the last welcome; None: no boot since."""
    calls: tuple[CallIdString, ...] = Field(default=(), max_length=MAX_OPEN_CALLS + MAX_UNACKNOWLEDGED)
    """Every run id in the computer's journal."""


class Ack(WireMessage):
    """The call was taken: its ``started`` record is on the computer's disk."""

    type: Literal["ack"] = "ack"
    journal_seq: Counter
    call_id: CallIdString


class Result(WireMessage):
    """The outcome of a call; small facts in ``data``, bytes in the body."""

    type: Literal["result"] = "result"
    journal_seq: Counter
    call_id: CallIdString
    ok: bool
    code: ShortString | None = None
    """None when ok; else the client's error code, such as ``stale``."""
    message: Annotated[WireString, Field(max_length=512)] | None = None
    data: dict[str, bool | int | WireString | None] = Field(default={})
    body: Body | None = None


class CallRefused(WireMessage):
    """The call never ran and never will (below the fence, busy, no journal)."""

    type: Literal["call_refused"] = "call_refused"
    journal_seq: Counter
    call_id: CallIdString
    code: ShortString
    message: Annotated[WireString, Field(max_length=512)] = ""


class Settled(WireMessage):
    """The fence stands at ``number``; the body is a JSON list of :class:`SettledCall`."""

    type: Literal["settled"] = "settled"
    journal_seq: Counter
    number: Counter
    body: Body


class SettledCall(WireMessage):
    """The outcome of one call, as the computer's journal has it."""

    call_id: CallIdString
    state: Literal["finished", "running", "interrupted", "unknown", "void"]
    """``unknown``: finished by its swap files at boot, but somebody had taken the place."""
    ok: bool | None = None
    code: ShortString | None = None
    sha256: ShortString | None = None
    """Hash after the change (or ``absent``), as the journal kept it; None: not a change."""


class Chunk(WireMessage):
    """The next part of a body that does not fit one frame: of a call to the computer, of a result from it."""

    type: Literal["chunk"] = "chunk"
    journal_seq: Counter | None = None
    call_id: CallIdString
    body: Body


class ChunkAck(WireMessage):
    """A frame of a body in parts has come: ``offset`` bytes are there."""

    type: Literal["chunk_ack"] = "chunk_ack"
    journal_seq: Counter | None = None
    call_id: CallIdString
    offset: Counter


class Output(WireMessage):
    """What a running program wrote: a hint, never acknowledged, never sent again."""

    type: Literal["output"] = "output"
    journal_seq: Counter
    call_id: CallIdString
    body: Body
    """``offset`` counts from the beginning of the program's output; ``sha256`` is of this part."""


class Desk(WireMessage):
    """A player at this computer wants something of the orchestrator; what they typed is the body."""

    type: Literal["desk"] = "desk"
    journal_seq: Counter
    desk: CallIdString
    """Drawn by the computer; an ``ask`` or ``undo`` that comes again with the same one begins no second task."""
    verb: str = Field(max_length=32)
    """``ask tasks stop answer watch undo leave``, and ``review``, ``review_page``, ``review_decide``, ``review_end``.

    Any other is answered with a sentence.
    """
    task: ShortString | None = None
    """A task's id, or the beginning of one; None: the one that is meant is clear, or there is none."""
    after: Counter | None = None
    """With ``ask`` and ``watch``: the ``version`` that was told last; None: nothing was."""
    body: Body | None = None


class Label(WireMessage):
    """The computer has another label; told before the answer of the call that set it, until ``label_kept``."""

    type: Literal["label"] = "label"
    journal_seq: Counter
    n: Counter
    """Rises with each label since the client began."""
    label: ShortString | None = None
    """None: it has none now."""


class Pong(WireMessage):
    """Answers a ping: the Lua program is alive, not only its socket."""

    type: Literal["pong"] = "pong"
    journal_seq: Counter
    n: Counter
    clock_ms: Counter | None = None
    """Time of the game since the computer started, where the ping asked for it; it stands still in a pause."""
    fuel: Amount | None = None
    """What a turtle has left, where the ping asked for it; -1: turtles need none. None: it is no turtle."""
    fuel_limit: Amount | None = None
    at: Place | None = None
    """The place that the computer knew last, where the ping asked for it; None: it knows none."""
    at_age_s: Counter | None = None
    """How long ago that was, by the game's clock."""


class Complaint(WireMessage):
    """The other side broke the protocol; says how. Either side may send it."""

    type: Literal["error"] = "error"
    journal_seq: Counter | None = None
    code: ShortString
    message: Annotated[WireString, Field(max_length=512)]
    call_id: CallIdString | None = None


class Client(WireMessage):
    """The Lua client that a server hands out at ``/client.lua``."""

    version: ShortString
    size: Counter
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    mac: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """With the key that the computer got when it was paired: ``core.wire.update_keys``."""


class Cell(WireMessage):
    """The place of a cell: the computer may dial it without a router."""

    name: Annotated[str, Field(pattern=f"^{NAME}$")]
    url: Annotated[str, Field(max_length=300, pattern="^wss?://")]


class Welcome(WireMessage):
    """The computer is known; its fence goes to ``number`` before anything else."""

    type: Literal["welcome"] = "welcome"
    number: Counter
    computer: ShortString
    """The name this computer has with the orchestrator."""
    silence_s: Counter = int(SILENCE_S)
    """Seconds without a frame after which the computer should dial again."""
    labels: Literal[True] | None = None
    """The server takes ``label``; None: it is an older one, or the computer's client is."""
    client: Client | None = None
    """What a computer that replaces its client by itself should run; None: it is left as it is."""
    cell: Cell | None = None
    """The cell that welcomes it, to be dialled directly from now on; None: it has no name, or the client is older."""


class Refused(WireMessage):
    """The connection is refused; ``remedy`` says what a person can do."""

    type: Literal["refused"] = "refused"
    code: ShortString
    message: Annotated[WireString, Field(max_length=512)]
    remedy: Annotated[WireString, Field(max_length=512)] = ""
    cell: Cell | None = None
    """With the code ``moved``: where the computer is served; None: of every other code, or the client is older."""


class Call(WireMessage):
    """Do ``method``; the number must not be below the fence."""

    type: Literal["call"] = "call"
    call_id: CallIdString
    task: ShortString
    number: Counter
    method: str = Field(max_length=32)
    params: dict[str, Any] = Field(default={})
    body: Body | None = None


class Settle(WireMessage):
    """Raise the fence to ``number``, then say what became of ``call_ids``."""

    type: Literal["settle"] = "settle"
    number: Counter
    call_ids: tuple[CallIdString, ...]


class ResultAck(WireMessage):
    """The outcome is durable here; the computer may forget it and notes ``number``."""

    type: Literal["result_ack"] = "result_ack"
    call_id: CallIdString
    number: Counter


class LabelKept(WireMessage):
    """All labels up to this one are durable here; the computer may forget them."""

    type: Literal["label_kept"] = "label_kept"
    n: Counter


class Told(WireMessage):
    """An answer to a :class:`Desk`: JSON in the body, a list of lines or of tasks."""

    type: Literal["told"] = "told"
    desk: CallIdString
    ok: bool
    done: bool
    """Nothing more comes of this request."""
    code: ShortString | None = None
    """None when ok; else what is wrong in a word, such as ``forbidden``."""
    message: Annotated[WireString, Field(max_length=512)] | None = None
    """None when ok; else what happened and what to do."""
    task: ShortString | None = None
    """The task that it is about, where it is one."""
    version: Counter | None = None
    """How far the task was told."""
    body: Body | None = None


class Ping(WireMessage):
    """Asks the Lua program for a sign of life."""

    type: Literal["ping"] = "ping"
    n: Counter
    clock: bool | None = None
    """True: the answer is to name the time of the game; only to a computer with the capability ``clock``."""
    where: Literal[True] | None = None
    """The answer is to name fuel and place; only to a computer with the capability ``where``."""


FromComputer = Annotated[
    Hello
    | Ack
    | Result
    | CallRefused
    | Settled
    | Chunk
    | ChunkAck
    | Output
    | Desk
    | Picture
    | Unseen
    | Screens
    | Keyed
    | Label
    | Pong
    | Complaint,
    Field(discriminator="type"),
]
ToComputer = Annotated[
    Welcome
    | Refused
    | Call
    | Settle
    | ResultAck
    | Chunk
    | ChunkAck
    | LabelKept
    | Told
    | Watch
    | Look
    | Keys
    | Ping
    | Complaint,
    Field(discriminator="type"),
]
Message = Annotated[
    Hello
    | Ack
    | Result
    | CallRefused
    | Settled
    | Chunk
    | ChunkAck
    | Output
    | Desk
    | Picture
    | Unseen
    | Screens
    | Keyed
    | Label
    | Pong
    | Complaint
    | Welcome
    | Refused
    | Call
    | Settle
    | ResultAck
    | LabelKept
    | Told
    | Watch
    | Look
    | Keys
    | Ping,
    Field(discriminator="type"),
]
