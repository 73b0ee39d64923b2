"""What a task's model and programs write, told to whoever watches while it comes: notifications, never items."""

import asyncio
from dataclasses import dataclass, field

from orchestrator.core.ports import Bus
from orchestrator.core.reply.response import PartialReply
from orchestrator.core.task.facts import CallId, TaskId

_EVERY_S = 0.05
"""Parts of a reply that come faster are told together: a person reads no faster, and the bus is spared."""


PAUSED = "[the game is paused: the program goes on when the game does]\n"


@dataclass
class Hints:
    """Publishes the notifications of one task."""

    bus: Bus
    task_id: TaskId

    def output(self, call_id: CallId, offset: int, data: bytes) -> None:
        """What a program wrote, ``offset`` bytes into its output; nothing: its game is paused."""
        text = data.decode("utf-8", "replace") or PAUSED
        self.publish({"kind": "output", "call_id": call_id, "offset": offset, "size": len(data), "text": text})

    def reply(self, step: int) -> "ReplyHints":
        """For the reply of one step."""
        return ReplyHints(self, step)

    def publish(self, payload: dict[str, str | int]) -> None:
        """Tell whoever watches."""
        self.bus.publish(f"stream.{self.task_id}", payload)


@dataclass
class ReplyHints:
    """Tells a reply as it comes: as it is, and its explanation and message for reading.

    The first part waits for a second: what comes whole is an item at once and needs no notification.
    """

    hints: Hints
    step: int
    _parts: list[str] = field(default_factory=list)
    _reading: PartialReply | None = None
    _next_at: float = 0.0

    def __call__(self, text: str) -> None:
        """Take the next part."""
        self._parts.append(text)
        if self._reading is None and len(self._parts) > 1:
            self._reading = PartialReply()
        if self._reading is not None and asyncio.get_running_loop().time() >= self._next_at:
            self._tell(self._reading)

    def close(self) -> None:
        """Tell what is left of a reply that was told in parts."""
        if self._reading is not None and self._parts:
            self._tell(self._reading)

    def _tell(self, reading: PartialReply) -> None:
        text = "".join(self._parts)
        self._parts.clear()
        self._next_at = asyncio.get_running_loop().time() + _EVERY_S
        self.hints.publish({"kind": "model_text", "step": self.step, "text": text})
        for name, delta in reading.feed(text):
            self.hints.publish({"kind": name, "step": self.step, "text": delta})
