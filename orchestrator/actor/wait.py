"""What an actor that cannot go on now waits for."""

from dataclasses import dataclass

from orchestrator.core.wire import ComputerId


@dataclass(frozen=True)
class Wait:
    """The actor cannot go on now: sleep until woken, or until ``seconds`` have passed."""

    computer: ComputerId | None = None
    seconds: float | None = None
