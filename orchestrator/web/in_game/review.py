"""The reviewer in the game: a person proves who they are at a computer, reads a request page by page, and decides it.

Theory. The policy says at which computers who may do so, and how they prove who they are: by their PIN, or because the
computer is theirs. That opens a session of this connection, for five minutes after each step. So a reboot, another node
and a restart of the server end it, and nothing is decided by halves. Rights, policy, owner and PIN are read again for
each step. Pages are handed out one by one: each tells a nonce, without which the next one is not told, and an approval
carries the nonce of the last. A decision is bound to the digest of what was shown, and goes through ``TaskService`` as
every other.
"""

import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.core.approval.approval import ResumeRequest
from orchestrator.core.approval.command import closed_question, closed_request
from orchestrator.core.errors import (
    Forbidden,
    InvalidDecision,
    InvalidRequest,
    NotPending,
    OrchestratorError,
    PolicyUnusable,
)
from orchestrator.core.model_view.masks import asks_to_see
from orchestrator.core.policy.document import InGameReview
from orchestrator.core.ports import ComputerLine, Identity
from orchestrator.core.task.choices import options_of
from orchestrator.core.task.facts import QuestionId, RequestId, TaskId
from orchestrator.core.task.states import CallState, TaskStatus
from orchestrator.core.task.task import AgentTask, CallRecord
from orchestrator.core.text.redact import redact_text
from orchestrator.core.text.visible import one_line
from orchestrator.core.wire.wire import REVIEW
from orchestrator.engine.tasks import TaskService, must_decide, show
from orchestrator.web.auth import TokenAuthorizer
from orchestrator.web.in_game import pages
from orchestrator.web.in_game.lines import in_game
from orchestrator.web.in_game.owner import owner_at, token_at
from orchestrator.web.pins import WrongPins, pin_of

ENDS_AFTER: Final = timedelta(minutes=5)
"""A session ends so long after its last step."""
MOST_SESSIONS: Final = 4
"""Sessions of one computer; the oldest makes room."""
MOST_VIEWS: Final = 4
"""Requests of one session whose pages are kept."""
LISTED: Final = 9
"""Of a list: each is opened by its digit."""
_LOOKED_AT: Final = 1000


class PinWanted(OrchestratorError):
    """The next step is to type a PIN."""

    code = "pin_wanted"
    http_status = 428


class WrongPin(Forbidden):
    """It is not the PIN of this person."""

    code = "wrong_pin"


class ReviewOver(OrchestratorError):
    """The session has ended."""

    code = "review_over"
    http_status = 410


class StartAgain(OrchestratorError):
    """What was read is not what is there now, or was not read in order."""

    code = "start_again"
    http_status = 412


class _Sent(BaseModel):
    """The body of a step."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

    session: str = ""
    person: str = Field(default="", max_length=64)
    pin: str = Field(default="", max_length=64)
    columns: int = Field(default=51, ge=pages.LEAST_COLUMNS, le=pages.MOST_COLUMNS)
    rows: int = Field(default=19, ge=pages.LEAST_ROWS, le=pages.MOST_ROWS)
    id: str = Field(default="", max_length=100)
    task: str = Field(default="", max_length=100)
    page: int = Field(default=1, ge=1, le=pages.MOST_PAGES)
    nonce: str = Field(default="", max_length=64)
    digest: str = Field(default="", max_length=200)
    action: Literal["approve", "reject", "answer"] | None = None
    text: str = Field(default="", max_length=2000)


@dataclass
class _View:
    """A request as it is shown on one screen."""

    digest: str
    """Of a question: its id, under which its text never changes."""
    shown: pages.Pages
    nonces: tuple[str, ...] = ()
    """One of each page."""
    told: int = 0
    """Pages that were handed out."""

    def __post_init__(self) -> None:
        self.nonces = tuple(secrets.token_hex(8) for _ in self.shown.pages)


@dataclass
class _Session:
    """A person who proved who they are at one computer."""

    line: ComputerLine
    identity: Identity
    pin: str
    """As it is kept; empty: another proof counted."""
    ends_at: datetime
    views: dict[str, _View] = field(default_factory=dict)

    def keep(self, name: str, view: _View) -> _View:
        """Keep a view; the one that was opened longest ago makes room."""
        self.views.pop(name, None)
        self.views[name] = view
        if len(self.views) > MOST_VIEWS:
            del self.views[next(iter(self.views))]
        return view


class Reviews:
    """The review sessions of one node."""

    def __init__(self, service: TaskService, authorizer: TokenAuthorizer) -> None:
        self._service = service
        self._authorizer = authorizer
        self._wrong = WrongPins()
        self._sessions: dict[str, _Session] = {}
        self.verbs: Mapping[str, Callable[[ComputerLine, _Sent], Awaitable[dict[str, Any]]]] = {
            "review": self._open,
            "review_page": self._page,
            "review_decide": self._decide,
            "review_end": self._end,
        }

    def closed(self, line: ComputerLine) -> None:
        """The computer is gone: a person who read there starts again."""
        self._sessions = {name: one for name, one in self._sessions.items() if one.line is not line}

    def where(self, line: ComputerLine) -> str:
        """Where a request that waits can be decided, as the end of a sentence that is told at a computer."""
        rule = self._rule()
        if rule is None or not rule.at(line.computer):
            return ", outside the game"
        return "; `cc review` shows it" if REVIEW in line.capabilities else "; to decide it here, type `cc update`"

    def who(self, line: ComputerLine, text: str) -> Identity | None:
        """The person of the session that a step names; None: nobody proved who they are."""
        try:
            session = self._sessions.get(_Sent.model_validate_json(text).session)
        except ValidationError:
            return None
        return session.identity if session is not None and session.line is line else None

    async def perform(self, line: ComputerLine, verb: str, text: str) -> dict[str, Any]:
        """The answer to a step. Raises OrchestratorError."""
        if REVIEW not in line.capabilities:
            raise InvalidRequest("This computer's client is too old to review.", remedy="Type `cc update` here.")
        try:
            sent = _Sent.model_validate_json(text or "{}")
        except ValidationError:
            raise InvalidRequest("This step of a review is not understood.", remedy="Type `cc update` here.") from None
        return await self.verbs[verb](line, sent)

    # -- who reviews ---------------------------------------------------------------------

    def _rule(self) -> InGameReview | None:
        try:
            return self._authorizer.policy().in_game_review
        except PolicyUnusable:
            return None

    async def _reviewer(self, line: ComputerLine, name: str) -> tuple[InGameReview, Identity]:
        """The rule that counts, and the person who would review by it; empty: whose computer it is.

        Raises Unauthenticated, Forbidden.
        """
        rule = self._rule()
        if rule is None or not rule.at(line.computer):
            raise Forbidden("The policy allows no review at this computer.", remedy="An admin sets `in_game_review`.")
        row = await token_at(self._authorizer, line)
        name = name or owner_at(self._authorizer, line, row)
        owner = self._authorizer.directory().owners.get(line.computer)
        if rule.proof == "paired" and (owner is None or owner.person != name):
            raise Forbidden(
                "Only the person who owns this computer reviews at it.",
                remedy=f"`cc-orchestrator computers owner {line.computer} PERSON` says who that is.",
            )
        roles = await self._authorizer.roles_of(name)
        identity = Identity(kind="person", name=name, roles=roles, auth=f"{rule.proof}@{line.computer}")
        if not roles or not rule.by(name, roles) or not self._authorizer.reaches(identity, line.computer):
            raise Forbidden(
                f"The policy lets nobody named {one_line(name, limit=64)} review at this computer.",
                remedy="`cc review NAME` reviews as another person.",
            )
        return rule, identity

    async def _open(self, line: ComputerLine, sent: _Sent) -> dict[str, Any]:
        if sent.session:
            return await self._list(sent.session, await self._session(line, sent))
        rule, identity = await self._reviewer(line, sent.person)
        pin = await self._proved(line, identity.name, sent.pin) if rule.proof == "pin" else ""
        here = [name for name, one in self._sessions.items() if one.line is line]
        for name in here[: max(0, len(here) + 1 - MOST_SESSIONS)]:
            del self._sessions[name]
        name = secrets.token_hex(16)
        session = _Session(line, identity, pin, self._service.clock.now() + ENDS_AFTER)
        self._sessions[name] = session
        return await self._list(name, session)

    async def _proved(self, line: ComputerLine, name: str, pin: str) -> str:
        """The PIN as it is kept. Raises Forbidden, PinWanted, WrongPin, TooManyPins."""
        kept = await pin_of(self._service, name)
        if kept is None:
            raise Forbidden(f"{name} has set no PIN.", remedy="`cc-orchestrator pin set` sets one, outside the game.")
        if not pin:
            raise PinWanted(f"Type the PIN of {name}.")
        now = self._service.clock.now()
        if not await self._wrong.check(pin, kept.token_hash, name=name, computer=line.computer, now=now):
            raise WrongPin(f"This is not the PIN of {name}.", remedy="Type it again.")
        return kept.token_hash

    async def _session(self, line: ComputerLine, sent: _Sent) -> _Session:
        """The session of a step, with the rights of now. Raises ReviewOver, Unauthenticated, Forbidden."""
        session, now = self._sessions.get(sent.session), self._service.clock.now()
        if session is None or session.line is not line or now >= session.ends_at:
            if session is not None and session.line is line:
                del self._sessions[sent.session]
            raise ReviewOver("This review is over.", remedy="Type `cc review` again.")
        _, identity = await self._reviewer(line, session.identity.name)
        pin = await pin_of(self._service, identity.name) if session.pin else None
        if identity.auth != session.identity.auth or (pin.token_hash if pin else "") != session.pin:
            self._sessions.pop(sent.session, None)
            raise ReviewOver("This review is over: the proof that counts changed.", remedy="Type `cc review` again.")
        session.identity, session.ends_at = identity, now + ENDS_AFTER
        return session

    async def _end(self, line: ComputerLine, sent: _Sent) -> dict[str, Any]:
        if (session := self._sessions.get(sent.session)) is not None and session.line is line:
            del self._sessions[sent.session]
        return {}

    # -- what waits ----------------------------------------------------------------------

    async def _list(self, name: str, session: _Session) -> dict[str, Any]:
        rows = await self._service.list_tasks(status=TaskStatus.PAUSED, limit=_LOOKED_AT)
        may = partial(self._authorizer.may_decide, session.identity)
        waiting: list[tuple[datetime, AgentTask, CallRecord | None]] = []
        outside = 0
        for task in await self._service.known(rows):
            if task.request is not None and may(task):
                outside += task.request.reason != "approval"
                waiting += [(task.request.created_at, task, None)] if task.request.reason == "approval" else []
            asked = _questions(task) if may(task, "answer") else ()
            waiting += [(task.updated_at or self._service.clock.now(), task, one) for one in asked]
        waiting.sort(key=lambda one: one[0])
        listed = [await self._listed(task, asked) for _, task, asked in waiting[:LISTED]]
        more = len(waiting) - len(listed)
        return {"session": name, "person": session.identity.name, "list": listed, "more": more, "outside": outside}

    async def _listed(self, task: AgentTask, asked: CallRecord | None) -> dict[str, str]:
        if asked is not None:
            text = one_line(redact_text(str(asked.call.args.get("question", "")), salt=task.tag), limit=160)
            return {"id": str(asked.question_id), "task": task.task_id, "is": "asks", "title": in_game(text)}
        shown = await show(task)
        first, others = shown.tool_calls[0], len(shown.tool_calls) - 1
        title = pages.call_title(first)[:160] + (f" and {others} more" if others else "")
        return {"id": shown.request_id, "task": task.task_id, "is": shown.risk.value, "title": title}

    # -- pages ---------------------------------------------------------------------------

    async def _page(self, line: ComputerLine, sent: _Sent) -> dict[str, Any]:
        session = await self._session(line, sent)
        task, digest, rows = await self._wanted(session, sent)
        if sent.page == 1:
            view = session.keep(sent.id, _View(digest, pages.paged(rows, sent.columns, sent.rows)))
        else:
            view = _begun(session, sent, digest)
        view.told = max(view.told, sent.page)
        last = sent.page == len(view.nonces)
        if last and view.shown.whole and task.request is not None and task.request.request_id == sent.id:
            await self._service.noted(task, "viewed", session.identity)
        return {
            "page": sent.page,
            "pages": len(view.nonces),
            "nonce": view.nonces[sent.page - 1],
            "digest": view.digest,
            "whole": view.shown.whole,
            "rows": [row.form() for row in view.shown.pages[sent.page - 1]],
        }

    async def _wanted(self, session: _Session, sent: _Sent) -> tuple[AgentTask, str, Iterator[pages.Row]]:
        """What a step is about, as it is now: its task, digest and rows. Raises NotFound, NotPending, Forbidden."""
        if sent.task:
            task, record = await self._question(session, sent)
            text = redact_text(str(record.call.args.get("question", "")), salt=task.tag)
            options = [redact_text(one, salt=task.tag) for one in options_of(record.call.args)]
            goal = redact_text(task.prompt, salt=task.tag)
            return task, sent.id, pages.question_rows(text, options, goal, task.user_id)
        task = await self._request(session, sent)
        shown = await show(task)
        return task, shown.action_digest, pages.request_rows(shown, self._service.clock.now())

    async def _request(self, session: _Session, sent: _Sent) -> AgentTask:
        request_id = RequestId(sent.id)
        task = await self._service.for_request(request_id)
        must_decide(self._authorizer, session.identity, task)
        if task.request is None or task.request.request_id != request_id:
            raise closed_request(task, request_id)
        return task

    async def _question(self, session: _Session, sent: _Sent) -> tuple[AgentTask, CallRecord]:
        task = await self._service.load(TaskId(sent.task))
        must_decide(self._authorizer, session.identity, task, "answer")
        found = next((one for one in _questions(task) if one.question_id == sent.id), None)
        if found is None:
            gone = closed_question(await self._service.store.read(task.task_id), QuestionId(sent.id))
            raise gone or NotPending("It is not asked any more.", remedy="Look at the list again.")
        return task, found

    # -- decisions -----------------------------------------------------------------------

    async def _decide(self, line: ComputerLine, sent: _Sent) -> dict[str, Any]:
        session = await self._session(line, sent)
        view = session.views.get(sent.id)
        if view is None or view.digest != sent.digest:
            raise StartAgain("This is not what you were shown.", remedy="Read it from the first page.")
        if sent.action == "answer":
            said = await self._answer(session, sent)
        elif sent.action is not None and not sent.task:
            said = await self._decided(session, sent, view)
        else:
            raise InvalidRequest("A request takes approve and reject, a question an answer.")
        session.views.pop(sent.id, None)
        return {"said": said}

    async def _decided(self, session: _Session, sent: _Sent, view: _View) -> str:
        if sent.action == "approve":
            _must_have_read(sent, view)
        resume = ResumeRequest(action=sent.action, reason=sent.text, expected_digest=sent.digest or None)  # type: ignore[arg-type]
        request = (await self._service.decide(RequestId(sent.id), resume, session.identity)).task.request
        if sent.action == "reject":
            return "Rejected."
        if request is None or request.request_id != sent.id:
            return "Approved."
        return f"Approved by you. It waits for others: {request.team.workflow.need} people have to approve it."

    async def _answer(self, session: _Session, sent: _Sent) -> str:
        task, record = await self._question(session, sent)
        if not sent.text:
            raise InvalidRequest("The answer is empty.", remedy="Type it.")
        if asks_to_see(str(record.call.args.get("question", ""))):
            raise Forbidden(
                "This question is for a secret, and is not answered in the game.", remedy="Answer it on the page."
            )
        await self._service.answer(task.task_id, QuestionId(sent.id), sent.text, session.identity)
        return "Answered."


def _begun(session: _Session, sent: _Sent, digest: str) -> _View:
    """The view of which a further page is wanted. Raises StartAgain."""
    view = session.views.get(sent.id)
    if view is None or view.digest != digest:
        session.views.pop(sent.id, None)
        raise StartAgain("It changed while you read it.", remedy="Read it again from the first page.")
    if sent.page > len(view.nonces) or view.nonces[sent.page - 2] != sent.nonce:
        raise StartAgain("The page before was not shown.", remedy="Read it again from the first page.")
    return view


def _must_have_read(sent: _Sent, view: _View) -> None:
    """Raises InvalidDecision unless every page was shown, to its end."""
    if not view.shown.whole or not view.digest:
        raise InvalidDecision(
            "It is too long for the game: not all of it is shown here.", remedy="Decide it on the page or the console."
        )
    if view.told < len(view.nonces) or sent.nonce != view.nonces[-1]:
        raise InvalidDecision(
            f"Only {view.told} of {len(view.nonces)} pages were shown.", remedy="Read it to its end, then approve."
        )


def _questions(task: AgentTask) -> list[CallRecord]:
    """The open questions of a task."""
    if task.ended is not None:
        return []
    return [one for one in task.calls if one.question_id is not None and one.state is CallState.ASKING]
