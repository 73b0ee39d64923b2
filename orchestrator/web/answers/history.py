"""Answers of the endpoints to the past: backups, retention, the audit, rehearsals and undos."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError

from orchestrator.core.audit.check import Finding
from orchestrator.core.audit.story import Story
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.undo.messages import Outcome, TaskChange, UndoLimit, UndoPlace
from orchestrator.history.rehearsal.conclusion import State
from orchestrator.web.answers.base import AnswerModel, Timestamp

# -- What the endpoints of the audit answer --------------------------------------------------


class Item(AgentTaskItem):
    """One item of a journal, with the very fields that it was written with."""

    redacted: bool = False
    """Secrets were taken out of ``fact``, so that ``hash`` does not hold for what is shown."""


class AuditItems(AnswerModel):
    """Items by stream and version."""

    items: list[SerializeAsAny[Item]]
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


# -- What the endpoint of a rehearsal answers, as models for the OpenAPI document ------------


class RehearsalChange(AnswerModel):
    """A place that a rehearsal changed in its copy."""

    place: str
    """Such as ``farm:startup.lua``."""
    path: str
    before: str
    """The sha256 of a file, ``absent`` or ``directory``, as the one below."""
    after: str
    diff: str | None
    """null: no text changed."""
    cut: bool
    """Whether the diff goes on."""
    binary: str
    """What was and what will be in one line, where one of them is binary; of that the diff shows nothing."""


class RehearsalAnswer(AnswerModel):
    """What a rehearsal came to so far."""

    task_id: str
    computer: str
    """The real one."""
    state: State
    """``ending``: it is over, and its copy is looked at; ``asked``: ``applied_by`` asks for all of it."""
    message: str
    """A sentence; empty until it is over."""
    applied_by: str | None
    """The task that asks for all of it; null: nothing is to be applied."""
    outcome: Outcome | None
    """What became of that task."""
    left_out: dict[str, str]
    """What was not in the copy, by path with why; the first of them."""
    changed: int
    """Places that are another in the copy."""
    changes: list[RehearsalChange]
    """The first 500 of them."""


# -- What the endpoints of the undo answer, as models for the OpenAPI document ---------------


class TaskChanges(AnswerModel):
    """What a task changed, as its journal tells it."""

    task_id: str
    changes: list[TaskChange]
    cannot_be_undone: list[UndoLimit]
    not_heard: list[UndoLimit]
    """Calls of which nobody has heard yet how they ended: an undo waits for that."""
    unseen: list[UndoLimit]
    """Of ``cannot_be_undone``: programs before or after which nobody could look, though they were to be watched."""


class UndoPreview(AnswerModel):
    """What an undo would do now."""

    task_id: str
    places: list[UndoPlace]
    cannot_be_undone: list[UndoLimit]
    not_heard: list[UndoLimit]
    """Calls of which nobody has heard yet how they ended: an undo waits for that."""


# -- What the endpoints of backups and of the retention take and answer ----------------------


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class BackupBody(_Body):
    """A backup of a computer as it is now."""

    note: str = Field(default="", max_length=200)
    """What it is to be remembered by."""


class RestoreBody(_Body):
    """Which backup of a computer is put back, and how much of it."""

    backup: str = Field(default="", max_length=100)
    """How its id or the sha256 of its listing begins; empty: the newest."""
    paths: tuple[str, ...] = Field(default=(), max_length=500)
    """Only these paths and what is below them, as the backup has them; empty: everything."""
    exact: bool = False
    """Also remove what the backup does not have."""
    dry_run: bool = False
    """Only tell what would be done."""


class PruneBody(_Body):
    """What goes; with neither limit what the settings say, and in any case the blobs that nobody needs."""

    older_than_days: float | None = Field(default=None, ge=0, le=36_500, allow_inf_nan=False)
    """Ended tasks to which nothing happened for so long."""
    down_to_bytes: int | None = Field(default=None, ge=0, le=2**60)
    """The oldest ended tasks, until what is kept has at most so many bytes."""
    dry_run: bool = False
    """Only tell what would go."""


class TransferRow(AnswerModel):
    """Something that is being read from a computer now."""

    transfer_id: str
    what: Literal["backup", "rehearsal"]
    computer: str
    began_at: Timestamp
    files: int
    """Files that were read, those with the same bytes once."""
    of_files: int | None
    """So many have to be read; null: it is not known yet what there is."""
    bytes: int
    """Read so far."""


class TransferList(AnswerModel):
    """What goes on."""

    transfers: list[TransferRow]

    @classmethod
    def read(cls, told: Iterable[Mapping[str, Any]]) -> Self:
        """What nodes tell, which may be of other versions: unknown fields, and rows that do not fit, are left out."""
        rows = []
        for one in told:
            with suppress(ValidationError):
                rows.append(TransferRow.model_validate(one, extra="ignore"))
        return cls(transfers=rows)


class BackupSkipped(AnswerModel):
    """Something that is on a computer and not in its backup."""

    path: str
    why: str
    """A sentence."""


class BackupAnswer(AnswerModel):
    """A backup of a computer."""

    backup_id: str
    computer: str
    at: Timestamp
    by: str
    note: str
    listing: str
    """The sha256 over all paths and hashes: two backups of the same files have the same."""
    files: int
    bytes: int
    """Of all its files."""
    new_bytes: int
    """What of it was not kept before."""
    skipped: list[BackupSkipped]
    skipped_more: int
    """How many more were skipped than are named."""


class BackupList(AnswerModel):
    """Backups, the newest first."""

    backups: list[BackupAnswer]


class BackupPath(AnswerModel):
    """What a backup has at one path."""

    path: str
    """A byte of it that is no UTF-8 is written ``\\xfc``."""
    state: str
    """The sha256 of a file, or ``directory``."""
    size: int
    """In bytes; of a directory 0."""


class BackupLong(BackupAnswer):
    """A backup with all that is in it."""

    paths: list[BackupPath]


class BackupGone(AnswerModel):
    """Whether this request removed the backup; false: somebody had before."""

    backup_id: str
    removed: bool


class RestorePreview(AnswerModel):
    """What putting a backup back would do now."""

    backup_id: str
    computer: str
    online: bool
    """false: nobody can look, and it would wait for the computer."""
    exact: bool
    came_since: int | None
    """Files and directories that the backup does not have, and that stay unless ``exact`` is said; null: nobody can
    look."""
    places: list[UndoPlace]


class RestoreSubmitted(AnswerModel):
    """The task that puts a backup back."""

    task_id: str
    status: TaskStatus
    backup_id: str
    computer: str
    online: bool
    """false: the task waits for the computer."""


class PrunedTaskAnswer(AnswerModel):
    """A task that went, or would go."""

    task_id: str
    why: str
    updated_at: Timestamp
    """When something happened to it last."""


class PruneOutcome(AnswerModel):
    """What went; with ``dry_run`` what would go."""

    dry_run: bool
    tasks: list[PrunedTaskAnswer]
    blobs: int
    bytes: int
    """Of items and blobs that went."""
    left: int
    """Bytes of items and blobs that stay."""


class Pinned(AnswerModel):
    """Whether the task is kept whatever the retention says."""

    task_id: str
    status: TaskStatus
    pinned: bool


# -- What the endpoint of figures about decisions answers ------------------------------------


class DecisionFigures(AnswerModel):
    """How calls that people were asked about ended."""

    name: str
    """The rule, the tool or the person, such as `ann` or `ann for bob`; empty: of all."""
    calls: int
    approved: int
    rejected: int
    answered: int
    """A person gave a result in place of the tool."""
    expired: int
    dropped: int
    """Canceled, withdrawn, made void, or allowed by a policy or a grant after all."""
    median_s: float | None
    """Seconds from the request to the decision of people, the median; null: they decided nothing."""
    p95_s: float | None
    """The time within which 95 of 100 were decided."""


class Analytics(AnswerModel):
    """Figures about decisions."""

    now: Timestamp
    since: Timestamp
    """Later than was asked for where more than `most` tasks changed since then."""
    tasks: int
    """Tasks that were looked at."""
    most: int
    """Tasks that are looked at, at most: those that changed last."""
    left_out: int
    """Tasks of them whose journal is too long, or cannot be read here."""
    all: DecisionFigures
    by_rule: list[DecisionFigures]
    """The most calls first, as in the two below; a call is counted at each rule that matched it."""
    by_tool: list[DecisionFigures]
    by_person: list[DecisionFigures]
    """What each of them decided: of several people who approved one call, each is counted."""
