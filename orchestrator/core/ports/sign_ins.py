"""The port of who is signed in: browsers, each with a secret of its own that it got for a person's token."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from orchestrator.core.task.items import Draft


@dataclass(frozen=True)
class SignInRow:
    """A browser that is signed in, at rest: of its secret only a hash."""

    session_hash: str
    token_hash: str
    """Of the token that it came with: with that it ends."""
    name: str
    """The person's."""
    begun_at: datetime
    used_at: datetime
    """When it was used last, as far as that was kept."""


class SignIns(Protocol):
    """Who is signed in. How long that lasts is not the store's to say: it forgets what it is told to forget."""

    async def add_sign_in(self, row: SignInRow, *, most: int, note: Draft) -> list[SignInRow]:
        """Keep one, with a ``signed_in`` in the system stream, whose fingerprints are filled in.

        Of one person at most ``most`` are kept: the oldest others are forgotten, and are the answer. Raises Conflict
        when the hash is already there, InvalidRequest for another note.
        """

    async def find_sign_in(self, session_hash: str) -> SignInRow | None:
        """The sign-in with this hash, whatever became of its token; None: there is none, or no longer."""

    async def use_sign_in(self, session_hash: str, at: datetime) -> None:
        """Keep that one was used at ``at``; a later use that is kept stays, and one that is not there stays away."""

    async def end_sign_in(self, session_hash: str, *, note: Draft | None = None) -> bool:
        """Forget one for good, with ``note`` in the system stream; False: it is not there, and nothing is noted.

        The ``fingerprint`` of a ``signed_out`` is filled in.
        """

    async def forget_sign_ins(self, *, begun: datetime, used: datetime) -> int:
        """Forget those that began at ``begun`` or before, or were last used at ``used`` or before; how many."""

    async def list_sign_ins(self) -> list[SignInRow]:
        """All that are kept, oldest first."""
