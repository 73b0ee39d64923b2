"""A WebSocket as the hub needs it, and what went over all of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


class Socket(Protocol):
    """One accepted WebSocket."""

    async def receive(self) -> bytes | str | None:
        """The next frame; None when the connection is over."""

    async def send(self, frame: bytes) -> None:
        """Write one frame. Raises OSError when the connection is over."""

    async def close(self, code: int, reason: str) -> None:
        """Close; closing twice is harmless."""


@runtime_checkable
class DirectSocket(Socket, Protocol):
    """One whose frames come and go without a change of task."""

    def listen(self, hear: Callable[[bytes | str], None]) -> None:
        """Hand over each frame from now on; ``receive`` answers only when the connection is over."""

    def takes_more(self) -> bool:
        """Whether the other side keeps up; if it does not, ``send`` waits until it does."""

    def write(self, frames: Sequence[bytes]) -> None:
        """Write frames at once, in order. Raises OSError when the connection is over."""


@dataclass
class Traffic:
    """What went over all connections of a hub since it was made."""

    bytes_in: int = 0
    bytes_out: int = 0
    frames_in: int = 0
    frames_out: int = 0

    def came(self, frame: bytes | str) -> None:
        """A frame came; text, which nobody should send, counts by its characters."""
        self.frames_in += 1
        self.bytes_in += len(frame)

    def went(self, frames: Sequence[bytes]) -> None:
        """Frames were handed to a socket."""
        self.frames_out += len(frames)
        self.bytes_out += sum(map(len, frames))
