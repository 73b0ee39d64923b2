"""The base of every answer, the one form of an error, and answers about the server, people, policy and screens."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, PlainSerializer

from orchestrator.core.approval.grants import Grant
from orchestrator.core.approval.people import Right
from orchestrator.core.policy import ApprovalReport, CustomReport, Policy, PolicyDecision, RuleReport
from orchestrator.core.task.system_facts import GrantId, Notable, NoticeState
from orchestrator.core.values import is_empty

# -- What every answer is, the one form of an error, and the answers of the server itself


Timestamp = Annotated[AwareDatetime, PlainSerializer(datetime.isoformat)]
"""With ``+00:00`` for UTC, where models of the core write ``Z``."""


def describe(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Describe the fields in a model's schema by the texts below them.

    As pydantic's ``use_attribute_docstrings``, which reads the source at each start of a server, when nobody asked yet.
    """
    for one in model.__mro__[: model.__mro__.index(BaseModel)]:
        for name, text in _texts(one):
            if (field := schema["properties"].get(model.model_fields[name].alias or name)) is not None:
                field.setdefault("description", text)


def _texts(model: type) -> Iterator[tuple[str, str]]:
    """The fields of a class with the texts below them."""
    body = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    for field, below in pairwise(body.body if isinstance(body, ast.ClassDef) else ()):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)


class AnswerModel(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra=describe)

    @classmethod
    def made_from(cls, source: object, /, **others: Any) -> Self:
        """The answer with the fields that ``source`` has by the same names, apart from the ``others``."""
        return cls(**{name: getattr(source, name) for name in cls.model_fields if name not in others}, **others)


class Problem(AnswerModel):
    """What was wrong, and what to do next."""

    code: str
    """For programs: the table of docs/protocol.md lists them."""
    message: str = Field(min_length=1)
    """What happened, as a sentence."""
    remedy: str = Field(min_length=1)
    """What to do next."""
    details: dict[str, Any] = Field(default={}, exclude_if=is_empty)
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


# -- What the endpoints of the console's page answer: who is signed in, and the stream that says what changed


class SessionAnswer(AnswerModel):
    """Who is signed in with a browser."""

    name: str
    roles: list[str]
    rights: list[Right]
    """What the roles let somebody do: the page offers nothing else."""
    csrf: str
    """What the page shows as `X-CSRF-Token` with everything that changes something; the same in all tabs."""
    expires_at: Timestamp
    """When it ends if it is not used again."""
    version: str
    """Of the program; empty: it is run from a checkout that nobody installed."""


class WatchHello(AnswerModel):
    """`hello`: the stream has begun; whatever changed before is read from the lists."""

    version: str
    """Of the program: a page of another one loads itself anew."""
    name: str
    """Of the person who listens."""
    roles: list[str]
    model: str
    """The model of a task that names none."""


class TaskHint(AnswerModel):
    """`tasks`: a task has new items."""

    task_id: str
    version: int


class ComputerHint(AnswerModel):
    """`computers`: one came, went, has another label, was frozen, released, made or revoked."""

    computer: str


# -- What the doctor's endpoint answers ------------------------------------------------------


class RefusedRow(AnswerModel):
    """A connection, or a pairing, that was turned away."""

    at: Timestamp
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

    at: Timestamp
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


class ModelRow(AnswerModel):
    """A model that a server has."""

    name: str
    """As `--model` takes it."""
    size: int
    """Bytes on its disk; 0: it does not say."""
    parameters: str
    quantization: str


class ModelServerRow(AnswerModel):
    """A model server that this orchestrator asks."""

    url: str
    trouble: str
    """Why it does not tell its models; empty: it does."""
    models: list[ModelRow]


class ModelsAnswer(AnswerModel):
    """The model of tasks that name none, and the models that are there."""

    model: str
    banner: str
    """What to tell a person where only the demo's script answers; empty: a model was chosen."""
    change: list[str]
    """The commands that change it, in their order."""
    servers: list[ModelServerRow]
    """Empty without `look`."""


# -- What the endpoints of tokens and pairing answer -----------------------------------------


class TokenMade(AnswerModel):
    """A new token: shown once, kept as a hash."""

    kind: Literal["person", "computer", "agent"]
    name: str
    token: str
    may: str
    """What its holder may do, in one sentence; empty for a computer."""


class AwayAnswer(AnswerModel):
    """Somebody is away, and another person decides for them."""

    to: str
    until: Timestamp


class TokenAnswer(AnswerModel):
    """Whom there is a token for."""

    kind: str
    name: str
    roles: list[str]
    owner: str | None
    """Of a computer: for whom players ask there; of an agent: whose tasks its tasks count as; null: nobody."""
    created_at: Timestamp | None
    """null: a release that did not write it down made it."""
    revoked: bool
    yours: bool
    """Whether it is the token that asks."""
    away: AwayAnswer | None
    """Of a person who is away: the person who decides for them; null: nobody does."""


class TokenList(AnswerModel):
    """All tokens, oldest first."""

    tokens: list[TokenAnswer]


class WhoAmI(AnswerModel):
    """The one who asks."""

    kind: Literal["person", "agent"]
    name: str
    roles: list[str]
    rights: list[Right]
    groups: list[str]
    """The groups that they are in; of a program: those of its owner."""
    owner: str | None
    """Of a program: the person whose tasks its tasks count as."""
    may: str
    """What they may do, in one sentence."""
    freeze: "FreezeAnswer | None"
    """The freeze that holds for them; null: none does."""
    away: AwayAnswer | None
    """Who decides for them while they are away; null: they are here."""
    decides_for: list[str]
    """The people who are away and for whom they decide now."""


class GroupAnswer(AnswerModel):
    """A group."""

    name: str
    people: list[str]
    """Those whose tasks the asker may see."""
    computers: list[str]


class GroupList(AnswerModel):
    """Groups, by name."""

    groups: list[GroupAnswer]


class GroupGone(AnswerModel):
    """A group that is there no more."""

    name: str


class FreezeAnswer(AnswerModel):
    """A freeze: nothing of these people starts until somebody ends it."""

    name: str
    """A person, `group:NAME`, or `*` for everybody."""
    whom: str
    """The same in words."""
    by: str
    at: Timestamp
    reason: str


class FreezeDone(FreezeAnswer):
    """A freeze that was set now."""

    tasks: int
    """How many open tasks wait because of it."""


class FreezeList(AnswerModel):
    """Freezes, by name."""

    freezes: list[FreezeAnswer]


class FreezeEnded(AnswerModel):
    """A freeze that is over; ``ended`` false: there was none."""

    name: str
    whom: str
    ended: bool
    still: FreezeAnswer | None
    """Of a person: another freeze, such as of their group, that goes on holding for them; null: none does."""


class OwnerDone(AnswerModel):
    """The owner of a computer now: a person or a group; neither: nobody owns it."""

    computer: str
    person: str | None
    group: str | None


class AwayDone(AnswerModel):
    """Who decides for a person; neither: nobody."""

    person: str
    to: str | None
    until: AwareDatetime | None


class PinAnswer(AnswerModel):
    """Whether the one who asks has a PIN now; nobody is told which."""

    set: bool


class QuietAnswer(AnswerModel):
    """Hours of each day in which nothing is sent."""

    begin: str
    end: str
    zone: str


class RuleAnswer(AnswerModel):
    """A notification rule, without its address."""

    name: str
    person: str | None
    """Whose it is; null: the installation's."""
    kinds: list[Notable]
    to: str
    """The part of its address that is no secret."""
    quiet: QuietAnswer | None
    details: bool


class RuleList(AnswerModel):
    """Notification rules, by person and name."""

    rules: list[RuleAnswer]
    push_key: str | None
    """The key for which a browser subscribes to pushes; null: the server lacks the extra `notify`."""


class RuleMade(RuleAnswer):
    """A new rule."""

    signing_key: str | None
    """The key that signs its webhooks, told this once; null: it sends none."""


class RuleGone(AnswerModel):
    """A rule that is there no more."""

    name: str


class MessageTried(AnswerModel):
    """What became of a test message."""

    delivered: bool
    message: str
    """Why not, as a sentence; empty where it was taken."""


class NoticeAnswer(AnswerModel):
    """One event for one rule."""

    event: str
    """What happened: the task and the number of its item."""
    kind: Notable
    rule: str
    person: str | None
    """Whose rule; null: the installation's."""
    task_id: str | None
    """null: it is about a computer."""
    at: Timestamp
    state: NoticeState
    """`dead`: it was tried for the last time."""
    attempts: int
    next_at: Timestamp | None
    """When it is tried next; null: not any more."""
    why: str
    """Why the last attempt failed, as a sentence; empty: none did."""


class NoticeList(AnswerModel):
    """Messages, the newest first."""

    notifications: list[NoticeAnswer]


class TokensRevoked(AnswerModel):
    """How many tokens were revoked."""

    revoked: int


class PairingMade(AnswerModel):
    """A code for one computer."""

    code: str
    expires_at: Timestamp
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


# -- What the endpoints of the policy and of grants answer -----------------------


class PolicyInForceAnswer(AnswerModel):
    """The policy in force."""

    policy_version: str
    source: str
    """The file that it came from, or who put it into force."""
    alert: str
    """Why the file as it is now is not what is in force, or why this node judges nothing; empty: all is well."""
    mode: Literal["normal", "plan"]
    policy: Policy
    text: str | None
    """The policy as its file says it, with its comments; null: the asker is no admin."""
    warnings: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """What it asks of more people than there are, a sentence each; for admins."""


class Reloaded(AnswerModel):
    """The policy that is in force now."""

    policy_version: str
    alert: str
    warnings: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """What it asks of more people than there are, a sentence each."""


class DryRun(PolicyDecision):
    """The verdict on a call, and what each rule had to do with it."""

    plan: bool
    rules: tuple[RuleReport, ...]
    custom: tuple[CustomReport, ...]
    approval: ApprovalReport | None
    """The people who would have to approve it; null: nobody would be asked."""


class GrantAnswer(Grant):
    """A standing approval and what became of it."""

    uses: int
    revoked: bool
    usable: bool


class Grants(AnswerModel):
    """Standing approvals."""

    grants: list[GrantAnswer]


class GrantTakenBack(AnswerModel):
    """Whether this request took the grant back; false: somebody had before."""

    grant_id: GrantId
    revoked: bool


# -- What the endpoints to screens answer, as models of the OpenAPI document -----------------


class ScreenRow(AnswerModel):
    """One screen of a computer."""

    of: str
    """`terminal`, or the name of a monitor."""
    width: int
    height: int


class ScreenList(AnswerModel):
    """What can be watched of a computer."""

    screens: list[ScreenRow]


class KeysTyped(AnswerModel):
    """What became of keys; they are never sent again."""

    delivered: bool | None
    """Whether the computer took them; null: nobody knows."""
    message: str
    """Why not, as a sentence; empty where they were delivered."""


class PictureRow(AnswerModel):
    """A row of a picture, each part as long as the screen is wide."""

    y: int
    """From 1."""
    text: list[str]
    """For each cell the one character of Unicode that it looks like."""
    fg: str
    """For each cell a digit for the colour of its character, as `blit` takes them."""
    bg: str
    """And for what is behind it."""


class PictureEvent(AnswerModel):
    """The data of an event `picture`."""

    of: str
    """`terminal`, or the name of a monitor."""
    whole: bool
    """Whether nothing that was told before counts: all rows are here; else those that changed."""
    width: int
    height: int
    x: int
    """The cursor's column from 1; 0, or more than the width: it is beside the screen."""
    y: int
    blink: bool
    """Whether the cursor is to be seen."""
    palette: list[str]
    """The 16 colours as `#rrggbb`, white first."""
    rows: list[PictureRow]


class HiddenEvent(AnswerModel):
    """The data of an event `unreadable`: the screen cannot be read, until a picture comes."""

    of: str
    message: str
    """Why, as a sentence."""


class AwayEvent(AnswerModel):
    """The data of an event `away`: the computer is not connected; a whole picture comes when it is back."""

    of: str
