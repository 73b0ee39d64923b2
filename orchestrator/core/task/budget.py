"""What may be spent of something: of a rate, which fills again with time, and of a task's tokens, which do not."""

from dataclasses import dataclass
from typing import Final

LEAST_REPLY: Final = 16
"""Tokens that the shortest reply needs."""
_BYTES_A_TOKEN: Final = 2
"""A token of JSON and Lua has three or four, so this estimates too many tokens."""


class Budget:
    """So much in a second, and no more than ``most`` at once. ``now`` is in seconds, of any clock that only rises."""

    def __init__(self, rate: float, most: float, now: float) -> None:
        self._rate, self._most = rate, most
        self._left, self._at = most, now

    def takes(self, size: float, now: float) -> bool:
        """Whether so many bytes more are within it; if so they are counted."""
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
        if size > self._left:
            return False
        self._left -= size
        return True


@dataclass(frozen=True)
class Tokens:
    """The tokens of a task before a request is sent: a request that could pass the limit is not."""

    limit: int
    """0: none."""
    used: int
    """Of all requests before, in and out."""
    estimated: int
    """Of those used, the ones that the model's server did not count."""
    prompt: int
    """Of the messages of this request, rather too many than too few."""
    counted: int
    """Of those, the ones that the server has counted in an earlier request; 0: none, all are estimated."""

    @property
    def reply(self) -> int | None:
        """The most that the reply may have; None: there is no limit."""
        return max(1, self.limit - self.used - self.prompt) if self.limit else None

    def passed(self) -> str | None:
        """Why the request may not be sent, as a sentence; None: it may."""
        if not self.limit or self.used + self.prompt + LEAST_REPLY <= self.limit:
            return None
        used = f"{self.used} were used{f' ({self.estimated} of them estimated)' if self.estimated else ''}"
        how = (
            f"{self.counted} of them counted by the model's server, the rest estimated" if self.counted else "estimated"
        )
        return (
            f"The limit of {self.limit} tokens leaves no room for another request, so none was sent: {used}, and the "
            f"next prompt has up to {self.prompt} ({how})."
        )


def uncounted(prompt: int, reply_bytes: int, *, counted_in: int, counted_out: int) -> int:
    """The tokens of a request that its server did not count, estimated; ``prompt`` 0: nobody asked for that."""
    if not prompt:
        return 0
    unheard = reply_bytes // _BYTES_A_TOKEN + 1 if not counted_out and reply_bytes else 0
    return unheard + (0 if counted_in else prompt)
