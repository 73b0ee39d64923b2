"""What the doors of tokens and pairing answer."""

from typing import Literal

from pydantic import AwareDatetime

from orchestrator.web.answers.base import AnswerModel


class TokenMade(AnswerModel):
    """A new token: shown once, kept as a hash."""

    kind: Literal["person", "computer", "agent"]
    name: str
    token: str
    may: str
    """What its holder may do, in one sentence; empty for a computer."""


class TokenAnswer(AnswerModel):
    """Whom there is a token for."""

    kind: str
    name: str
    roles: list[str]
    owner: str | None
    """Of a computer: for whom players ask there; of an agent: whose tasks its tasks count as; null: nobody."""
    created_at: AwareDatetime | None
    """null: a release that did not write it down made it."""
    revoked: bool
    yours: bool
    """Whether it is the token that asks."""


class TokenList(AnswerModel):
    """All tokens, oldest first."""

    tokens: list[TokenAnswer]


class TokensRevoked(AnswerModel):
    """How many tokens were revoked."""

    revoked: int


class PairingMade(AnswerModel):
    """A code for one computer."""

    code: str
    expires_at: AwareDatetime
    computer: str | None
    """null: the computer is named by its id."""
    line: str
    """What to type on the computer."""
    url: str
    """Where the computer reaches this server."""
    sha256: str
    """Of the installer as it is handed out there."""
    pinned: str
    """What to type in place of ``line``, at the prompt of the game's program ``lua``: it checks the installer first."""
    warning: str
    """What to know of this address before the line is used; empty: nothing."""


class PairedAnswer(AnswerModel):
    """The computer's token, once."""

    token: str
    computer: str
    label: str
    """What it is labelled if it has no label; empty: nothing."""
    url: str
    """Of the socket to dial."""
    update_key: str
    """By which the computer knows later clients for this server's; empty: it gets none."""
