"""What the doors of the console's page answer: who is signed in, and the stream that says what changed."""

from pydantic import AwareDatetime

from orchestrator.web.answers.base import AnswerModel


class SessionAnswer(AnswerModel):
    """Who is signed in with a browser."""

    name: str
    roles: list[str]
    csrf: str
    """What the page shows as `X-CSRF-Token` with everything that changes something; the same in all tabs."""
    expires_at: AwareDatetime
    """When it ends if it is not used again."""
    version: str
    """Of the program; empty: it is run from a checkout that nobody installed."""


class WatchHello(AnswerModel):
    """`hello`: the stream has begun; whatever changed before is read from the lists."""

    version: str
    """Of the program: a page of another one loads itself anew."""


class TaskHint(AnswerModel):
    """`tasks`: a task has new items."""

    task_id: str
    version: int


class ComputerHint(AnswerModel):
    """`computers`: one came, went, has another label, was frozen, released, made or revoked."""

    computer: str
