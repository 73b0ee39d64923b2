"""What the doctor's door answers."""

from typing import Literal

from pydantic import AwareDatetime

from orchestrator.web.answers.base import AnswerModel


class RefusedRow(AnswerModel):
    """A connection, or a pairing, that was turned away."""

    at: AwareDatetime
    peer: str
    """The address it came from; empty: it is not known."""
    path: str
    code: str
    message: str
    remedy: str
    """What a person can do; may be empty."""
    computer: str | None
    """Whose token it was; null: nobody's that is known."""


class InstallerRow(AnswerModel):
    """A computer in the game fetched the installer."""

    at: AwareDatetime
    peer: str
    paired: bool
    """Whether a computer was paired from that address since."""


class LineRow(AnswerModel):
    """A line that `pair` printed."""

    at: str
    computer: str | None
    """The name that the computer will have; null: its id."""


class SeenComputer(AnswerModel):
    """A computer that has a token."""

    computer: str
    state: Literal["online", "away", "frozen"]
    client: str
    """The version of its client; empty: it was not here since this start."""
    message: str
    """Why it is frozen; empty: it is not."""
    remedy: str


class Checkup(AnswerModel):
    """What the orchestrator sees of who tries to reach it, and what it was started with."""

    version: str
    """Empty: it runs from a checkout that nobody installed."""
    data_dir: str
    host: str
    """The address that it listens on."""
    port: int
    public_url: str
    model: str
    ollama_url: str
    model_url: str
    """Where a server speaks OpenAI's API; empty: none is set."""
    num_ctx: int
    alerts: list[str]
    """What is wrong on this node, as sentences; empty: nothing that it knows of."""
    client_version: str
    client_sha256: str
    refused: list[RefusedRow]
    """The last of them, the newest first."""
    installers: list[InstallerRow]
    lines: list[LineRow]
    """The lines of `pair` that nobody has used, lapsed ones too, the newest first."""
    computers: list[SeenComputer]
