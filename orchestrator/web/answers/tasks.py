"""Answers of the endpoints to tasks, computers, nodes and decisions."""

from typing import Any, Final, Literal

from pydantic import GetJsonSchemaHandler, SerializerFunctionWrapHandler, model_serializer
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from orchestrator.core.approval.approval import HitlResponse
from orchestrator.core.task.facts import CheckResult, EarlierTask
from orchestrator.core.task.states import Phase, TaskStatus
from orchestrator.core.task.system_facts import ComputerSide, FreezeReason
from orchestrator.core.task.timeline import Doing
from orchestrator.core.undo.messages import Outcome, UndoOffer
from orchestrator.web.answers.base import AnswerModel, FreezeAnswer, Problem, Timestamp

# -- What the endpoints of computers answer --------------------------------------------------


class FrozenAnswer(AnswerModel):
    """Why a computer is frozen."""

    reason: FreezeReason
    since: Timestamp | None
    message: str
    """What happened, as a sentence."""
    remedy: str
    """What a person does about it."""
    facts: dict[str, int]
    """What was compared: ``heard`` and ``number`` of the store, ``found_seq`` and ``highest`` of the computer."""
    sides: list[ComputerSide]
    """Who was welcome last, if anybody was, then who came."""


class Position(AnswerModel):
    """The block where a computer knew itself last."""

    x: int
    y: int
    z: int
    at: Timestamp
    """When it knew that; a turtle may have gone on since."""


class ComputerAnswer(AnswerModel):
    """A computer that has a token; only one that said hello since this start says more of itself."""

    computer: str
    online: bool
    state: Literal["online", "away", "frozen"]
    frozen: FrozenAnswer | None
    """null: it is not frozen."""
    owner: str | None
    """Who paired it; null: nobody that is known."""
    belongs_to: str | None = None
    """The person, or `group NAME`, that somebody set as its owner; null: everybody who is in no group may use it."""
    seen_at: Timestamp | None
    """When it was connected last; null: it is now, or never was."""
    node: str | None = None
    """The name of the node that it is connected to; null: to the one that answers, or to none."""
    label: str | None = None
    former_labels: tuple[str, ...] = ()
    """Other labels that it had since it was paired; an empty one: it had none. Rules by label look at them, too."""
    host: str = ""
    family: str = ""
    computer_id: int | None = None
    client: str = ""
    fuel: int | None = None
    """What a turtle has left, as it told last; -1: turtles need none. null: it is no turtle, or has not told."""
    fuel_limit: int | None = None
    position: Position | None = None
    """null: it has told none. A command computer knows its own; any other once a program of a task has called
    `gps.locate` there."""
    """The version of its client."""

    @model_serializer(mode="wrap")
    def _known(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # A field that was not given is left out, and not null.
        return {name: value for name, value in fields(self).items() if name in self.model_fields_set}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        # That of the fields: the serializer alone would make it any object.
        return handler({**schema, "serialization": None})


SAID: Final = ("label", "former_labels", "host", "family", "computer_id", "client", "fuel", "fuel_limit")
"""The fields of it that a computer says of itself."""


class ComputerLong(ComputerAnswer):
    """One computer."""

    last: ComputerSide | None
    """Who was welcome last; null: nobody since a release that keeps it."""
    released: bool
    """A person let it come back, and it has not come yet."""


class ComputerFreed(AnswerModel):
    """Whether this request released the computer; false: it was not frozen."""

    computer: str
    released: bool


class LabelDone(AnswerModel):
    """The label that is confirmed; ``confirmed`` false: the computer had no other."""

    computer: str
    label: str
    confirmed: bool


class ComputerList(AnswerModel):
    """All computers that have a token."""

    computers: list[ComputerAnswer]


class NodeAnswer(AnswerModel):
    """A server of several that share one store and one bus."""

    node: str
    """Its id, another one at each start."""
    name: str
    version: str
    """Empty: it does not know."""
    started_at: Timestamp
    url: str
    """Where it listens; empty: it does not say."""
    draining: bool
    """Whether it takes no new work and sends its computers elsewhere."""
    tasks: int
    """How many tasks it acts for now."""
    clock_ahead_s: float
    """By how much its machine's clock is ahead of the store's, by which all of them go."""
    computers: int
    """How many computers are connected to it."""
    here: bool
    """Whether it is the one that answers."""


class NodeList(AnswerModel):
    """The nodes that are heard now, the one that answers first."""

    nodes: list[NodeAnswer]
    connected: bool
    """Whether the one that answers can reach others now, as far as it knows."""
    alerts: list[str]
    """What is wrong between the nodes, as far as the one that answers sees it, as sentences."""
    apart: list[str]
    """Nodes on the same bus that work with another store, and so not with these."""


# -- What the endpoints of tasks answer ------------------------------------------------------


class TaskShort(AnswerModel):
    """A task and where it stands now."""

    task_id: str
    status: TaskStatus


class TaskRowAnswer(TaskShort):
    """A task in a list."""

    status_reason: str
    """What it waits for, or ``unverified``; empty where the status says enough."""
    user_id: str
    session_id: str
    prompt: str
    """The first 200 characters."""
    computers: list[str]
    created_at: Timestamp
    updated_at: Timestamp
    pinned: bool
    """Whether no retention removes it."""


class TaskList(AnswerModel):
    """Tasks, the newest first."""

    tasks: list[TaskRowAnswer]
    next: str | None = None
    """Send it as ``after``; null: there are no older ones."""


class CallAnswer(AnswerModel):
    """A call of the present step and where it stands."""

    call_id: str
    tool: str
    computer: str | None
    """null: it touches no computer."""
    state: str
    """A state of the table in docs/design.md, or ``approved_waiting_target``: its computer is away."""
    valid_until: Timestamp | None
    """When the approval lapses; null: never, or there is none."""


class QuestionAnswer(AnswerModel):
    """A question that the task waits on."""

    question_id: str
    question: str | None
    """Written by the model."""
    options: list[str]
    """Choices of the model's, from number 1 on; empty: none. The page and the commands show them numbered."""


class Result(AnswerModel):
    """How a task ended."""

    kind: Literal["final"]
    explanation: str
    success: bool
    """False too where the task ended well by the model's word and the journal does not support it."""
    message: str
    details: dict[str, Any]
    verified: bool | None
    """False: the journal does not support the success that the model claims; null: nobody judged it."""
    report: list[str]
    """What the journal shows, whatever the model says: changed files, programs with how they ended, and what was
    not run since it was changed; a line each."""


class TaskLong(TaskShort):
    """A task whole."""

    status_reason: str
    phase: Phase
    version: int
    """Of its last item."""
    prompt: str
    user_id: str
    person: str
    """The person of the task: `user_id`, or the owner of this program."""
    freeze: FreezeAnswer | None
    """The freeze that holds for this person now; null: none does."""
    asked_at: str | None
    """The computer in the game at which it was asked in this person's name; null: at none."""
    session_id: str
    computers: list[str]
    model: str
    steps: int
    max_steps: int
    """0: no limit, as for the other two."""
    tokens: int
    max_tokens: int
    active_s: float
    """Seconds that count against ``max_wall_s``."""
    max_wall_s: float
    priority: int
    read_only: bool
    wait_for_model: bool
    """Whether it waits without an end for a model server that cannot be reached."""
    pinned: bool
    """Whether no retention removes it."""
    rehearses: str | None
    """The computer of whose files it works on a copy; null: it works on the real ones."""
    earlier: list[EarlierTask]
    """How the earlier tasks of its session ended, oldest first."""
    created_at: Timestamp | None
    updated_at: Timestamp | None
    request: HitlResponse | None
    """What waits for a person, long texts cut."""
    decided_by: str | None
    """The people who may approve its request, in words that end a sentence; null: it has none."""
    lapsed_request: str | None
    """The request that nobody answered in time and that ``renew`` raises again."""
    calls: list[CallAnswer]
    question: QuestionAnswer | None
    checks: list[CheckResult]
    """What came of its checks at the last claim of success."""
    result: Result | None
    """null: it has not ended."""
    undoes: str | None
    """The task that it takes back; null: none."""
    undo: UndoOffer | None
    """null: it has not ended."""
    applied: Outcome | None
    """Of a rehearsal: what became of the task that asks for all of it; null: none asks."""


class Stopped(AnswerModel):
    """The tasks that were stopped."""

    stopped: list[str]


# -- What the endpoints of the first view answer ---------------------------------------------


class SegmentAnswer(AnswerModel):
    """A time in which a task did one thing."""

    doing: Doing
    """`thinking`: its model works on a reply; `waiting`: for a person; `running`: a call is under way; `queued`: it
    waits for its turn, its computer or its model server."""
    since: Timestamp
    until: Timestamp | None
    """null: it goes on."""


class TaskTimeline(AnswerModel):
    """What a task did when."""

    task_id: str
    prompt: str
    status: TaskStatus
    status_reason: str
    """`unverified`: it claims a success that its journal does not support; else empty."""
    computers: list[str]
    created_at: Timestamp
    ended_at: Timestamp | None
    """null: it is not over."""
    doing: Doing | None
    """What it does now; null: it is over."""
    tool: str
    """The tool of the call that is under way; empty: none is."""
    segments: list[SegmentAnswer]
    """The oldest first, without a gap; of a task with very many only the last."""


class Timelines(AnswerModel):
    """What the tasks did that changed last, the last first."""

    now: Timestamp
    """The server's time."""
    tasks: list[TaskTimeline]
    left_out: int
    """Tasks whose journal is too long for this, or of a newer version."""


class TrendBucket(AnswerModel):
    """The figures of an hour or of a day."""

    at: Timestamp
    """When it begins."""
    completed: int = 0
    """Tasks that ended so in this time."""
    unverified: int = 0
    """Tasks that claim a success that their journal does not support; they are not among the completed ones."""
    failed: int = 0
    canceled: int = 0
    tokens: int = 0
    """In and out, as model servers counted them."""
    replies: int
    """Replies of models."""
    reply_s: float | None
    """Seconds that a reply took, the median; null: there was none. So the two others."""
    reply_most_s: float | None
    decisions: int
    """Requests that people decided."""
    decision_s: float | None
    """Seconds until the decision, the median."""


class Trends(AnswerModel):
    """Figures over time."""

    now: Timestamp
    by: Literal["hour", "day"]
    tasks: int
    """Tasks that were looked at."""
    most: int
    """Tasks that are looked at, at most: those that changed last."""
    since: Timestamp
    """The time from which on no task is missing; later than the first bucket where there were more than `most`."""
    buckets: list[TrendBucket]
    """The oldest first; days are those of UTC."""


# -- What the endpoints of requests and decisions answer -------------------------------------


class Requests(AnswerModel):
    """What waits for a person, oldest first, long texts cut."""

    requests: list[HitlResponse]


class TaskOverAnswer(Result, TaskShort):
    """A task that has ended after the decision."""


class NextRequest(HitlResponse):
    """The request that the task waits for next, after the decision."""

    status: TaskStatus


class TaskDecided(TaskShort):
    """A task after a decision on what it asked."""

    progress: str
    """How far the approvals are, such as ``1 of 2: ann``, where more people have to approve; empty: it is decided."""


class DecisionTaken(TaskDecided):
    """A decision that was taken."""

    request_id: str
    http_status: Literal[200]


class DecisionRefused(AnswerModel):
    """A decision that was refused; nothing of it holds."""

    request_id: str
    http_status: int
    """What it would have been answered with alone."""
    error: Problem


class DecidedList(AnswerModel):
    """The answers in the order of the requests."""

    decisions: list[DecisionTaken | DecisionRefused]
