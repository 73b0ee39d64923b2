"""The ports: the server's needs from outside, each with a contract that every adapter passes.

The conformance suites are in ``orchestrator.testing``; a port's numbered contracts are there.

A name is imported with its port when it is first used: what needs a clock or a store calls no model and no computer.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.core.ports.authorizer import Identity, RequestAuthorizer
    from orchestrator.core.ports.bus import Answer, Bus, Clock
    from orchestrator.core.ports.computers import (
        CallResult,
        ComputerInfo,
        ComputerLine,
        Computers,
        PlayersDesk,
        Settlement,
    )
    from orchestrator.core.ports.messenger import Message, Messenger
    from orchestrator.core.ports.model import ChatMessage, ChatModel, ModelReply, Window, is_local, server_answers
    from orchestrator.core.ports.store import (
        ANYBODY,
        SYSTEM_STREAM,
        Coming,
        Lease,
        Receipt,
        Schedule,
        SeatRow,
        StreamHead,
        TaskPersistenceManager,
        TaskQueue,
        TaskRow,
        Token,
        TokenKind,
        TokenRow,
        Turns,
    )
    from orchestrator.core.ports.store_parts import (
        BackupRow,
        BlobMark,
        Common,
        Departure,
        EntryRow,
        KeptBlob,
        KeptItem,
        KeptJournal,
        KeptRecords,
        KeptRow,
        KeptTable,
        Moves,
        NoticeRow,
        Outbox,
        PolicyRow,
        Retention,
        SignInRow,
        SignIns,
        Store,
    )
    from orchestrator.core.ports.workspace import Workspace

_PARTS = {
    "authorizer": (
        "Identity",
        "RequestAuthorizer",
    ),
    "bus": (
        "Answer",
        "Bus",
        "Clock",
    ),
    "computers": (
        "CallResult",
        "ComputerInfo",
        "ComputerLine",
        "Computers",
        "PlayersDesk",
        "Settlement",
    ),
    "messenger": (
        "Message",
        "Messenger",
    ),
    "model": (
        "ChatMessage",
        "ChatModel",
        "ModelReply",
        "Window",
        "is_local",
        "server_answers",
    ),
    "store": (
        "ANYBODY",
        "SYSTEM_STREAM",
        "Coming",
        "Lease",
        "Receipt",
        "Schedule",
        "SeatRow",
        "StreamHead",
        "TaskPersistenceManager",
        "TaskQueue",
        "TaskRow",
        "Token",
        "TokenKind",
        "TokenRow",
        "Turns",
    ),
    "store_parts": (
        "BackupRow",
        "BlobMark",
        "Common",
        "Departure",
        "EntryRow",
        "KeptBlob",
        "KeptItem",
        "KeptJournal",
        "KeptRecords",
        "KeptRow",
        "KeptTable",
        "Moves",
        "NoticeRow",
        "Outbox",
        "PolicyRow",
        "Retention",
        "SignInRow",
        "SignIns",
        "Store",
    ),
    "workspace": ("Workspace",),
}
_HOMES = {name: f"orchestrator.core.ports.{part}" for part, names in _PARTS.items() for name in names}

__all__ = [
    "ANYBODY",
    "SYSTEM_STREAM",
    "Answer",
    "BackupRow",
    "BlobMark",
    "Bus",
    "CallResult",
    "ChatMessage",
    "ChatModel",
    "Clock",
    "Coming",
    "Common",
    "ComputerInfo",
    "ComputerLine",
    "Computers",
    "Departure",
    "EntryRow",
    "Identity",
    "KeptBlob",
    "KeptItem",
    "KeptJournal",
    "KeptRecords",
    "KeptRow",
    "KeptTable",
    "Lease",
    "Message",
    "Messenger",
    "ModelReply",
    "Moves",
    "NoticeRow",
    "Outbox",
    "PlayersDesk",
    "PolicyRow",
    "Receipt",
    "RequestAuthorizer",
    "Retention",
    "Schedule",
    "SeatRow",
    "Settlement",
    "SignInRow",
    "SignIns",
    "Store",
    "StreamHead",
    "TaskPersistenceManager",
    "TaskQueue",
    "TaskRow",
    "Token",
    "TokenKind",
    "TokenRow",
    "Turns",
    "Window",
    "Workspace",
    "is_local",
    "server_answers",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a name when it is first used (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'orchestrator.core.ports' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value
