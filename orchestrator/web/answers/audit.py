"""What the doors of the audit answer."""

from orchestrator.core.audit.check import Finding
from orchestrator.core.audit.story import Story
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.web.answers.base import AnswerModel


class Item(AgentTaskItem):
    """One item of a journal, with the very fields that it was written with."""

    redacted: bool = False
    """Secrets were taken out of ``fact``, so that ``hash`` does not hold for what is shown."""


class AuditItems(AnswerModel):
    """Items by stream and version."""

    items: list[Item]
    next: str | None
    """Send it as ``after``; null: there is no more."""
    redacted: bool


class AuditStories(AnswerModel):
    """The calls that had to do with some bytes."""

    stories: list[Story]
    redacted: bool


class Verifying(AnswerModel):
    """How far a verification is, in streams."""

    done: int
    of: int
    """0: it has just begun."""


class Findings(AnswerModel):
    """What is not in order; empty: all is."""

    findings: list[Finding]
