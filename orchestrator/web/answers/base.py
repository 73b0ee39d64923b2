"""What every answer is, the one form of an error, and the answers of the house itself."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class AnswerModel(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Problem(AnswerModel):
    """What was wrong, and what to do next."""

    code: str
    """For programs: the table of docs/protocol.md lists them."""
    message: str = Field(min_length=1)
    """What happened, as a sentence."""
    remedy: str = Field(min_length=1)
    """What to do next."""
    details: dict[str, Any] = {}
    """For programs, such as who decided before; left out where there is nothing."""


class Error(AnswerModel):
    """The one form of every error."""

    error: Problem


class Health(AnswerModel):
    """The orchestrator is up, and its store answers."""

    status: Literal["ok"]


class Elsewhere(AnswerModel):
    """Where things are, for who is no browser."""

    page: str
    doors: str
    health: str
    installer: str
