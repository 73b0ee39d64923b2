"""Requests to the endpoints: how they are read, and their bodies as models."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import HTTPConnection, Request
from starlette.websockets import WebSocket

from orchestrator.core.approval.approval import ResumeRequest
from orchestrator.core.errors import InvalidRequest, plain
from orchestrator.core.policy import Family
from orchestrator.core.reply.scanner import doubled_key
from orchestrator.core.task.facts import OnReject, QuestionId, RequestId, TaskId
from orchestrator.core.task.system_facts import Notable
from orchestrator.core.wire.screen_messages import MAX_STROKES, MAX_TEXT_CHARS

# -- Reading requests: bodies within their limit, numbers within their range, ids from the path

MAX_REQUEST_BYTES = 1024 * 1024
"""A task's prompt or a decision is far smaller; what is larger is refused unread."""

MAX_OPEN_BYTES: Final = 8 * 1024
"""The same at an endpoint that is open to anybody: nobody without a token keeps more of this host's memory."""

MAX_KEY_CHARS: Final = 200
"""Of an idempotency key, as in a body."""

_WHOLE: Final = re.compile("[0-9]{1,15}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?")

_T = TypeVar("_T", bound=BaseModel)


async def read_body(request: Request, model: type[_T], most: int = MAX_REQUEST_BYTES) -> _T:
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > most:
            raise InvalidRequest(f"The body has more than {most} bytes.")
    sent = bytes(raw) or b"{}"
    try:
        body = model.model_validate_json(sent)
    except ValidationError as error:
        raise InvalidRequest(
            f"The request does not fit: {plain(error, 'the body')}.", remedy="docs/protocol.md lists the fields."
        ) from None
    if (key := doubled_key(sent)) is not None:
        raise InvalidRequest(f"The body has the key {key[:100]!r} twice.", remedy="Send each key once.")
    return body


def read_number(request: Request, name: str, default: float, low: float, high: float) -> float:
    """A number of the query, as JSON has them; a whole one where the default is an ``int``. Raises InvalidRequest."""
    text = request.query_params.get(name)
    if text is None:
        return default
    whole = isinstance(default, int)
    readable = (_WHOLE if whole else _NUMBER).fullmatch(text)
    if not readable or not low <= float(text) <= high:
        kind = "whole number" if whole else "number"
        raise InvalidRequest(f"{name} is a {kind} from {low:g} to {high:g}, not {text[:40]!r}.")
    return float(text)


def actions(resume: ResumeRequest) -> list[str]:
    if resume.decisions is not None:
        return [one.action for one in resume.decisions]
    return [resume.action or ""]


def key_of(request: Request, said: str) -> str:
    """The idempotency key of a request: what its body ``said``, else the header's. Raises InvalidRequest."""
    key = request.headers.get("idempotency-key", "")
    if len(key) > MAX_KEY_CHARS:
        raise InvalidRequest(
            f"The header Idempotency-Key has {len(key)} characters, over {MAX_KEY_CHARS}.",
            remedy="Take a shorter key, such as a UUID.",
        )
    return said or key


def task_id_of(request: HTTPConnection) -> TaskId:
    return TaskId(request.path_params["task_id"])


def request_id_of(request: Request) -> RequestId:
    return RequestId(request.path_params["request_id"])


def offered(websocket: WebSocket, subprotocol: str) -> str | None:
    return subprotocol if subprotocol in websocket.scope.get("subprotocols", []) else None


# -- The bodies of requests ------------------------------------------------------------------


class _Body(BaseModel):
    """What is sent: numbers are numbers and text is text, nothing is read as the other."""

    model_config = ConfigDict(extra="forbid", strict=True)


class SubmitBody(_Body):
    """A new task."""

    prompt: str = Field(min_length=1, max_length=100_000)
    computers: tuple[str, ...] = ()
    session_id: str = Field(default="", max_length=100)
    model: str = Field(default="", max_length=200)
    max_steps: int | None = Field(default=None, ge=1, le=1000)
    """None, as for the two below: what the settings say."""
    max_wall_s: float | None = Field(default=None, ge=0, le=604_800, allow_inf_nan=False)
    max_tokens: int | None = Field(default=None, ge=0, le=100_000_000)
    priority: int = Field(default=0, ge=-100, le=100)
    on_reject: OnReject | None = None
    """What a rejection without more means; None: what the policy says, else ``cancel``."""
    read_only: bool = False
    """Nothing may be changed: every tool that would is denied."""
    wait_for_model: bool = False
    """A model server that cannot be reached is waited for without an end; else as long as the settings say."""
    rehearse: bool = False
    """It works on a copy of its one computer's files; what it changed there is then asked for as a whole."""
    checks: tuple[str, ...] = ()
    """What has to hold when the model claims success, such as ``runs farm.lua`` (docs/checks.md)."""
    idempotency_key: str = Field(default="", max_length=200)
    """The same one of the same person begins no second task; empty: each request begins one."""


class CancelBody(_Body):
    """Why a task is canceled."""

    reason: str = Field(default="", max_length=2000)


class StopBody(CancelBody):
    """Why everything is stopped."""


class AnswerBody(_Body):
    """An answer to a question."""

    question_id: QuestionId
    answer: str = Field(max_length=20_000)
    """The number of a choice, where the question offers some, or own words; a number in range means the choice."""


class QuickDecision(_Body):
    """What may come with ``/v1/approve`` and ``/v1/reject``; all of it may be left out."""

    reason: str = Field(default="", max_length=2000)
    on_reject: OnReject | None = None
    expected_digest: str | None = None
    idempotency_key: str = Field(default="", max_length=200)


class SignInBody(_Body):
    """A person's token, for which a browser gets a cookie."""

    token: str = Field(min_length=1, max_length=200)


class EmptyBody(_Body):
    """Nothing more is to be said."""


class ExtendBody(_Body):
    """How much time people have from now on."""

    seconds: float = Field(gt=0, le=31_536_000, allow_inf_nan=False)


class CommentBody(_Body):
    """A word to the next reviewer."""

    text: str = Field(min_length=1, max_length=2000)


class AwayBody(_Body):
    """Who decides while somebody is away, and for how long from now on."""

    to: str | None = None
    """None: they are back, and nobody decides for them."""
    seconds: float = Field(default=86_400, gt=0, le=31_536_000, allow_inf_nan=False)
    person: str | None = None
    """Who is away, where an admin says so; None: who asks."""


class OneDecision(_Body):
    """A decision on one of several requests."""

    request_id: RequestId
    resume: ResumeRequest


class DecisionsBody(_Body):
    """Decisions on several requests, each by itself."""

    requests: tuple[OneDecision, ...] = Field(min_length=1, max_length=100)


class DryRunBody(_Body):
    """A call that does not run, and what is said to be known around it; what is left out is as it is."""

    tool: str = Field(max_length=100)
    args: dict[str, Any] = Field(default_factory=dict)
    computer: str | None = Field(default=None, max_length=64)
    family: Family | None = None
    label: str | None = Field(default=None, max_length=200)
    program: str | None = Field(default=None, max_length=1000)
    roles: tuple[str, ...] | None = None
    user: str | None = Field(default=None, max_length=64)
    """The requester; their roles and groups are those of now, unless they are said."""
    groups: tuple[str, ...] | None = None
    plan: bool | None = None
    policy: str | None = Field(default=None, max_length=200_000)
    """A policy to try instead of the one in force, as TOML."""


class PolicyBody(_Body):
    """A policy that is to come into force on all nodes."""

    policy: str = Field(max_length=200_000)
    """As TOML."""


class TokenBody(_Body):
    """A token for a person, a computer or an agent."""

    kind: Literal["person", "computer", "agent"]
    name: str
    roles: tuple[str, ...] = ()
    owner: str | None = None
    """Of an agent: the person whose tasks its tasks count as; None: who asks."""


class GroupBody(_Body):
    """Who and what comes into a group, or goes out of it."""

    add_people: tuple[str, ...] = Field(default=(), max_length=1000)
    remove_people: tuple[str, ...] = Field(default=(), max_length=1000)
    add_computers: tuple[str, ...] = Field(default=(), max_length=1000)
    remove_computers: tuple[str, ...] = Field(default=(), max_length=1000)


class OwnerBody(_Body):
    """The owner of a computer: a person or a group; neither: nobody owns it."""

    person: str | None = None
    group: str | None = None


class PinBody(_Body):
    """The PIN that one types in the game."""

    pin: str
    """6 to 12 digits."""


class UnfreezeBody(_Body):
    """The frozen: a person, a group or everybody; one of the three."""

    person: str | None = Field(default=None, min_length=1, max_length=64)
    group: str | None = Field(default=None, min_length=1, max_length=64)
    everybody: bool = False


class FreezeBody(UnfreezeBody):
    """The people who are to be frozen, and why."""

    reason: str = Field(default="", max_length=200)


class QuietBody(_Body):
    """Hours of each day in which nothing is sent; what came in them is sent afterwards, as one message."""

    begin: str
    """Such as `22:00`."""
    end: str
    zone: str = Field(max_length=64)
    """The time zone, such as `Europe/Berlin`."""


class RuleNamedBody(_Body):
    """A notification rule."""

    name: str
    person: str | None = None
    """Whose it is; null: the asker's. Others are for admins."""
    installation: bool = False
    """Whether it is the installation's, which is for admins."""


class RuleBody(RuleNamedBody):
    """A new notification rule."""

    kinds: tuple[Notable, ...] = Field(min_length=1, max_length=20)
    """What it tells."""
    url: str
    """Where to: the address of a webhook, a browser (`webpush:ENDPOINT#P256DH.AUTH`), or a URL of apprise.

    It is a secret, and never shown again.
    """
    quiet: QuietBody | None = None
    details: bool = False
    """Whether messages have the texts and diffs of the task, with their secrets masked."""


class PairingBody(_Body):
    """A code for one computer, which gets this name and, if it has none, this label."""

    computer: str | None = None
    owner: OwnerBody | None = None
    """Its owner; None: the group of the asker, if they are not an admin and in one group, else nobody."""
    label: str | None = Field(default=None, max_length=32)
    """32: what the game takes."""


class KeysBody(_Body):
    """What is typed at a computer: one of the two."""

    text: str | None = Field(default=None, min_length=1, max_length=MAX_TEXT_CHARS)
    """Pasted line by line; a single character is typed."""
    keys: tuple[Annotated[str, Field(min_length=1, max_length=40)], ...] | None = Field(
        default=None, min_length=1, max_length=MAX_STROKES
    )
    """Keys by name, such as `enter`, or by the character that they make."""


class LabelBody(_Body):
    """The label of a computer, as an admin saw it; empty: none."""

    label: str = Field(max_length=256)


class PairBody(_Body):
    """What the installer sends from the game."""

    code: str
    """Whatever somebody typed: what is too long to be a code is an unknown one."""
    computer_id: int = Field(ge=0, le=2**31 - 1)
    label: str | None = Field(default=None, max_length=200)
    token: str | None = Field(default=None, max_length=200)


def read_moment(text: str) -> datetime:
    """A time of a query, in UTC where it names no offset. Raises InvalidRequest."""
    try:
        # A plus sign of an offset that was not escaped arrives as a blank.
        moment = datetime.fromisoformat(text.replace(" ", "+", 1) if text.count(" ") == 1 and "T" in text else text)
    except ValueError:
        raise InvalidRequest(
            f"since is a time like 2026-11-20 or 2026-11-20T18:00:00Z, not {text[:40]!r}.", remedy="Say it like that."
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
