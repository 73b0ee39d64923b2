"""The port of what carries a notification out of the orchestrator: a webhook, a browser, a mail, a chat."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True)
class Message:
    """One message, about one event or several."""

    message_id: str
    """The same at each attempt, so that a receiver can drop doubles."""
    text: str
    """Plain text for people."""
    body: bytes
    """The same for programs, as JSON."""


class Messenger(Protocol):
    """Sends messages to addresses, which are secrets: no answer and no log has more of one than its host."""

    async def check(self, url: str, *, trusted: bool) -> str:
        """The part of an address that everybody may see. ``trusted``: an admin sets it. Raises InvalidRequest."""

    def new_key(self) -> str:
        """A new key that signs the webhooks of a rule."""

    def push_key(self) -> str | None:
        """The public key for which browsers subscribe to pushes; the same at all nodes. None: it sends none."""

    async def send(self, url: str, key: str, message: Message, *, at: datetime, private: bool) -> str:
        """Try once; why it failed, as a sentence; empty: it was taken.

        ``key`` signs a webhook, with the time ``at``. ``private``: it may go to loopback and private addresses.
        Raises NotFound for an address that is gone for good: its rule has no use any more.
        """
