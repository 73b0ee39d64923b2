"""Who is let in: which clients and which versions of the mod this orchestrator knows."""

from typing import Final, NamedTuple

from orchestrator.core.task.system_facts import ComputerFrozen
from orchestrator.core.wire import wire
from orchestrator.core.wire.identity import copied_remedy, copied_sentence, frozen_remedy, frozen_sentence

_OLDEST_MOD: Final = (1, 95)
"""CC: Tweaked 1.95 (Minecraft 1.16.5): the oldest whose WebSocket and fs the client knows."""


class Refusal(NamedTuple):
    """Why a computer is turned away, and what a person can do."""

    code: str
    message: str
    remedy: str


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
    return Refusal("frozen", frozen_sentence(fact), frozen_remedy(fact))


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
    return "".join(char if char.isprintable() else "?" for char in text)[:200]
