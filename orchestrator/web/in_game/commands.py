"""In-game commands: done as the person who paired the computer, with the rights of a submitter at most.

Theory. A computer proves nothing but its own token, and the token's record names the person who paired it. For that
person the in-game commands submit, list, follow, answer, stop and undo that person's tasks on this very computer.
Everything goes through ``TaskService``. The commands never decide a request, never show a secret to a model and never
use a role above submitter: a player who types on a computer is perhaps not its owner. The client refuses commands of
programs that a task runs. All that comes from a computer is data.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from orchestrator.core.errors import Forbidden, InvalidRequest, NotFound, NotPending, OrchestratorError
from orchestrator.core.model_view.masks import asks_to_see
from orchestrator.core.ports import ComputerLine, Identity, TaskRow
from orchestrator.core.task.choices import options_of
from orchestrator.core.task.facts import QuestionId, TaskId
from orchestrator.core.task.items import AT_COMPUTER
from orchestrator.core.task.states import CallState, TaskStatus
from orchestrator.core.task.task import AgentTask
from orchestrator.core.wire import wire
from orchestrator.engine.undo import Undoing
from orchestrator.runtime.logs import about
from orchestrator.web.auth import TokenAuthorizer
from orchestrator.web.base import Defaults
from orchestrator.web.in_game.follow import follow, left_behind, submitted
from orchestrator.web.in_game.lines import QUESTIONS_CHARS, Line, Narrator, News, Several, as_body, in_game, row
from orchestrator.web.in_game.owner import owner_at, pair_again, token_at
from orchestrator.web.in_game.review import Reviews

logger = logging.getLogger(__name__)

SHOWN: Final = 10
"""Tasks of a list; a screen has 19 rows."""
_OPEN: Final = (TaskStatus.PAUSED, TaskStatus.RUNNING, TaskStatus.QUEUED)
_LOOKED_AT: Final = 1000
"""Open tasks of one status that are looked through, the newest first."""

Refused = Callable[[str, Identity | None, OrchestratorError], Awaitable[None]]


# -- How often a computer may ask: a farm loop that types ``cc ask`` must not fill the queue

WITHIN_S: Final = 60.0
ASKS_A_MINUTE: Final = 6
"""New tasks: a person types no faster, and each costs minutes of a model."""
_BEGIN: Final = ("ask", "undo")
"""The command that begins a task."""
OTHERS_A_MINUTE: Final = 60
PAGES_A_MINUTE: Final = 300
"""Pages that a person turns in a review: a key that is held turns hundreds, and who is refused one begins again."""
MAX_OPEN: Final = 4
"""Requests of one computer that are answered at once: somebody at each side of a monitor."""
_COMPUTERS: Final = 10_000
"""Computers that are remembered; the one that asked longest ago makes room."""


@dataclass
class Rate:
    """Requests of each computer within the last minute."""

    most: int
    _times: dict[str, deque[float]] = field(default_factory=dict)

    def wait_s(self, computer: str, now: float) -> float:
        """Seconds until there is room for one more; 0: there is, and it is taken."""
        times = self._times.pop(computer, deque())
        while times and now - times[0] >= WITHIN_S:
            times.popleft()
        self._times[computer] = times
        if len(self._times) > _COMPUTERS:
            del self._times[next(iter(self._times))]
        if len(times) >= self.most:
            return times[0] + WITHIN_S - now
        times.append(now)
        return 0.0


@dataclass
class Limits:
    """The rates of all computers."""

    asks: Rate = field(default_factory=lambda: Rate(ASKS_A_MINUTE))
    others: Rate = field(default_factory=lambda: Rate(OTHERS_A_MINUTE))
    pages: Rate = field(default_factory=lambda: Rate(PAGES_A_MINUTE))

    def wait_s(self, computer: str, verb: str, now: float, *, is_page: bool = False) -> float:
        """Seconds that a request has to wait; 0: none. ``is_page``: of a review that somebody opened."""
        rate = self.pages if is_page else self.asks if verb in _BEGIN else self.others
        return rate.wait_s(computer, now)


# -- For whom a player at a computer asks, with the rights that this person has now ------


async def person_at(authorizer: TokenAuthorizer, line: ComputerLine) -> Identity:
    """The person to whom the computer belongs, or who paired it, as a submitter at most.

    Raises Unauthenticated, Forbidden.

    A player or a program at the computer is perhaps not that person, so no other role of theirs counts here. The rights
    are read for each request, since a token may be revoked and a role taken away. Each error says to pair again.
    """
    owner = owner_at(authorizer, line, await token_at(authorizer, line))
    roles = await authorizer.roles_of(owner)
    if not roles:
        raise Forbidden(
            f"{owner}, to whom this computer belongs, has no access any more.", remedy=pair_again(line.computer)
        )
    submits = ("submitter",) if "submit" in authorizer.deciders.rights(roles) else ()
    return Identity(kind="person", name=owner, roles=submits, auth=f"{AT_COMPUTER}{line.computer}")


def must_submit(person: Identity) -> None:
    """Raises Forbidden unless this person may submit tasks."""
    if "submitter" not in person.roles:
        raise Forbidden(
            f"{person.name}, to whom this computer belongs, may not submit tasks.",
            remedy="This needs the role submitter: ask an admin.",
        )


# -- What a request is answered -----------------------------------------------------------


@dataclass(frozen=True)
class _Asked:
    """One request, and its receiver."""

    line: ComputerLine
    request: wire.Desk
    text: str
    person: Identity


class InGameCommands:
    """The in-game commands of one node. ``refused`` writes down who was refused what."""

    def __init__(self, undoing: Undoing, authorizer: TokenAuthorizer, *, defaults: Defaults, refused: Refused) -> None:
        self._undoing = undoing
        self._authorizer = authorizer
        self._service = service = undoing.service
        self._defaults = defaults
        self._refused = refused
        self._limits = Limits()
        self._reviews = Reviews(service, authorizer)
        self._news = News(
            service,
            rows=self._asking,
            asks=lambda task: _question(task) is not None,
            tell=lambda line, rows: _tell(line, wire.NEWS, done=True, value=rows),
            tell_wrong=lambda line, error: _tell_wrong(line, wire.NEWS, error),
        )
        self._open: dict[ComputerLine, dict[str, asyncio.Task[None]]] = {}
        self._verbs: Mapping[str, Callable[[_Asked], Awaitable[None]]] = {
            "ask": self._ask,
            "watch": self._watch,
            "tasks": self._tasks,
            "stop": self._stop,
            "answer": self._answer,
            "undo": self._undo,
        }

    # -- what the hub says ---------------------------------------------------------------

    def opened(self, line: ComputerLine) -> None:
        """Tell the computer which questions wait there, now and as they come."""
        self._news.opened(line)

    def asked(self, line: ComputerLine, request: wire.Desk, body: bytes) -> None:
        """Begin to answer; a request that comes again is answered again."""
        before = self._open.get(line, {}).pop(request.desk, None)
        if before is not None:
            before.cancel()
        if request.verb == "leave":
            return
        wrong = self._wrong(line, request, body)
        if wrong is not None:
            _tell_wrong(line, request.desk, wrong)
        else:
            self._begin(line, request.desk, self._perform(line, request, body))

    def closed(self, line: ComputerLine) -> None:
        """Nobody looks any more; the tasks go on."""
        self._reviews.closed(line)
        self._news.closed(line)
        for task in self._open.pop(line, {}).values():
            task.cancel()

    def close(self) -> None:
        """Answer nobody any more, for a clean stop."""
        self._news.close()
        for line in tuple(self._open):
            self.closed(line)

    # -- one request ---------------------------------------------------------------------

    def _begin(self, line: ComputerLine, desk: str, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        open_here = self._open.setdefault(line, {})
        open_here[desk] = task

        def over(_: asyncio.Task[None]) -> None:
            if open_here.get(desk) is task:
                del open_here[desk]
            if not open_here and self._open.get(line) is open_here:
                del self._open[line]

        task.add_done_callback(over)

    def _wrong(self, line: ComputerLine, request: wire.Desk, body: bytes) -> OrchestratorError | None:
        """Why a request is not even looked at; None: it is."""
        if request.verb not in self._verbs and request.verb not in self._reviews.verbs:
            return UnknownVerb(
                f"This orchestrator does not know what {request.verb!r} is.",
                remedy="Update the orchestrator; `cc help` lists what this client can do.",
            )
        if len(body) > wire.MAX_DESK_BYTES:
            return InvalidRequest(
                f"That has {len(body)} bytes; {wire.MAX_DESK_BYTES} are the most.",
                remedy="Write the long part into a file on this computer and name the file.",
            )
        if len(self._open.get(line, {})) >= MAX_OPEN:
            return Busy(
                f"{MAX_OPEN} requests of this computer are being answered.", remedy="Leave one of them with q first."
            )
        is_page = request.verb == "review_page" and self._reviews.who(line, _read(body)) is not None
        now = asyncio.get_running_loop().time()
        wait_s = self._limits.wait_s(line.computer, request.verb, now, is_page=is_page)
        if wait_s > 0:
            return Busy("This computer asks too often.", remedy=f"Try again in {int(wait_s) + 1} s.")
        return None

    async def _perform(self, line: ComputerLine, request: wire.Desk, body: bytes) -> None:
        """Answer, whatever happens: nothing of it may be felt by the computer's link."""
        with about(computer=line.computer):
            await self._tried(line, request, body)

    async def _tried(self, line: ComputerLine, request: wire.Desk, body: bytes) -> None:
        person: Identity | None = None
        try:
            text = _read(body)
            if request.verb in self._reviews.verbs:
                person = self._reviews.who(line, text)
                said = await self._reviews.perform(line, request.verb, text)
                _tell(line, request.desk, done=True, value=said)
                return
            person = await person_at(self._authorizer, line)
            await self._verbs[request.verb](_Asked(line, request, text, person))
        except OrchestratorError as error:
            _tell_wrong(line, request.desk, error)
            await self._refused(f"desk {request.verb} at {line.computer}", person, error)
        except Exception:
            logger.exception("the in-game command %s of computer %s failed", request.verb, line.computer)
            _tell_wrong(line, request.desk, OrchestratorError("The orchestrator met a defect.", remedy="Its log says."))

    async def _asking(self, line: ComputerLine) -> list[dict[str, str]]:
        """The questions that wait at a computer. Raises Unauthenticated, Forbidden."""
        person = await person_at(self._authorizer, line)
        rows = await self._rows(await self._tasks_of(person, line))
        return [one for one in rows if "question" in one]

    # -- the verbs -----------------------------------------------------------------------

    async def _ask(self, asked: _Asked) -> None:
        must_submit(asked.person)
        if not asked.text:
            raise InvalidRequest("Nothing was asked.", remedy='Say what to do: cc ask "fix my farm program".')
        new = self._defaults
        # Sent again in the middle of it, the request is answered again, and what was begun is still made whole.
        submitting = self._service.submit(
            asked.text,
            user=asked.person,
            computers=[asked.line.computer],
            model=self._service.quotas.of(asked.person.name).model or new.model,
            max_steps=new.max_steps,
            max_wall_s=new.max_wall_s,
            max_tokens=new.max_tokens,
            key=asked.request.desk,
        )
        task = await asyncio.shield(submitting)
        await self._follow(asked, await self._service.load(task.task_id))

    async def _watch(self, asked: _Asked) -> None:
        wanted = asked.request.task or ""
        rows = await self._open_rows(asked.person, asked.line)
        named = [one for one in rows if one.task_id.startswith(wanted)]
        if not named and not wanted:
            raise _none_open(asked)
        await self._follow(asked, await self._own(asked, named[0].task_id if named else wanted))

    async def _tasks(self, asked: _Asked) -> None:
        found = await self._tasks_of(asked.person, asked.line)
        _tell(asked.line, asked.request.desk, done=True, value=await self._rows(found))

    async def _stop(self, asked: _Asked) -> None:
        task = await self._meant(asked, await self._tasks_of(asked.person, asked.line))
        reason = f"stopped by {asked.person.name} at computer {asked.line.computer} in the game"
        await self._service.cancel(task.task_id, asked.person, reason)
        left = await left_behind(self._undoing, asked.line, await self._service.load(task.task_id))
        rows = [one.form() for one in left]
        _tell(asked.line, asked.request.desk, done=True, value=rows, task=task.task_id)

    async def _undo(self, asked: _Asked) -> None:
        key, wanted = asked.request.desk, asked.request.task or ""
        # As of a new task: sent again in the middle of it, it is still made whole.
        task = await asyncio.shield(submitted(self._undoing, asked.person, asked.line, wanted, key))
        await self._follow(asked, await self._service.load(task.task_id))

    async def _answer(self, asked: _Asked) -> None:
        found = await self._tasks_of(asked.person, asked.line)
        task = await self._meant(asked, [one for one in found if _question(one) is not None], what="asks something")
        question = _question(task)
        if question is None:
            raise NotPending(f"{task.task_id} asks nothing.", remedy="`cc tasks` shows what waits.")
        if not asked.text:
            raise InvalidRequest("The answer is empty.", remedy="Type it: cc answer TEXT.")
        if asks_to_see(question.text):
            raise Forbidden(
                "This question is for a secret, and is not answered in the game.", remedy="Answer it on the page."
            )
        await self._service.answer(task.task_id, question.question_id, asked.text, asked.person)
        _tell(asked.line, asked.request.desk, done=True, value=[], task=task.task_id)

    # -- tasks ---------------------------------------------------------------------------

    async def _follow(self, asked: _Asked, task: AgentTask) -> None:
        waits_for = self._service.authorizer.who_decides(task)
        line, after = asked.line, asked.request.after or 0
        where = self._reviews.where(line)
        may = partial(person_at, self._authorizer, line)

        async def left() -> list[Line]:
            return await left_behind(self._undoing, line, await self._service.load(task.task_id))

        await follow(
            self._service,
            line,
            asked.request.desk,
            task,
            after=after,
            narrator=Narrator(waits_for, where),
            may=may,
            left=left,
        )

    async def _open_rows(self, person: Identity, line: ComputerLine) -> list[TaskRow]:
        """The open tasks of this person on this computer, the newest first."""
        rows = [
            row
            for status in _OPEN
            for row in await self._service.list_tasks(status=status, limit=_LOOKED_AT)
            if row.user_id == person.name and line.computer in row.computers
        ]
        return sorted(rows, key=lambda one: one.created_at, reverse=True)

    async def _tasks_of(self, person: Identity, line: ComputerLine) -> list[AgentTask]:
        return await self._service.known((await self._open_rows(person, line))[:SHOWN])

    async def _own(self, asked: _Asked, task_id: str) -> AgentTask:
        """A task of this person on this computer, over or not. Raises NotFound, also for somebody else's."""
        task = await self._service.store.load(TaskId(task_id))
        if task is None or task.user_id != asked.person.name or asked.line.computer not in task.computers:
            raise NotFound(
                f"{asked.person.name} has no task {task_id[:40]} on this computer.", remedy="`cc tasks` lists them."
            )
        return task

    async def _meant(self, asked: _Asked, found: list[AgentTask], *, what: str = "is open") -> AgentTask:
        """The one task that a request means. Raises NotFound, InvalidRequest when it could be several."""
        wanted = asked.request.task
        named = [one for one in found if one.task_id.startswith(wanted or "")]
        if len(named) == 1:
            return named[0]
        if wanted and not named:
            return await self._own(asked, wanted)
        if not named:
            raise _none_open(asked, what)
        raise Several(what, asked.request.verb, [(one.task_id, one.prompt) for one in named])

    async def _rows(self, tasks: list[AgentTask]) -> list[dict[str, str]]:
        """Tasks as a list shows them; the questions among them share the room that one frame has."""
        asking = sum(_question(task) is not None for task in tasks)
        return [await self._row(task, QUESTIONS_CHARS // max(asking, 1)) for task in tasks]

    async def _row(self, task: AgentTask, question_chars: int) -> dict[str, str]:
        question = _question(task)
        values = {"task": str(task.task_id), "status": task.status.value, "why": self._why(task), "prompt": task.prompt}
        if question is None:
            return await row(values, question_chars=question_chars)
        return await row(values, question=question.text, options=question.options, question_chars=question_chars)

    def _why(self, task: AgentTask) -> str:
        """The reason why an open task waits."""
        freeze = self._service.directory.present.frozen(task.user_id)
        if freeze is not None and task.ended is None:
            return str(freeze)
        deciders = self._service.authorizer.who_decides(task)
        if task.request is not None:
            unknown = task.request.reason == "outcome_unknown"
            return f"outcome unknown: {deciders} has to look" if unknown else f"{task.status_reason} by {deciders}"
        if task.lapsed is not None:
            return f"{task.status_reason}; {deciders} can ask again"
        return task.status_reason or ("waiting for its turn" if task.status is TaskStatus.QUEUED else "going on")


class UnknownVerb(InvalidRequest):
    """A client wants what this orchestrator does not know."""

    code = "unknown_verb"


class Busy(OrchestratorError):
    """A computer asks more than is answered at once."""

    code = "busy"
    http_status = 429


@dataclass(frozen=True)
class _Question:
    """The open question of a task."""

    question_id: QuestionId
    text: str
    options: tuple[str, ...]


def _question(task: AgentTask) -> _Question | None:
    for record in task.calls:
        if record.question_id is not None and record.state is CallState.ASKING:
            args = record.call.args
            return _Question(record.question_id, str(args.get("question", "")), options_of(args))
    return None


def _none_open(asked: _Asked, what: str = "is open") -> NotFound:
    return NotFound(
        f"No task of {asked.person.name} on this computer {what}.", remedy='Begin one with cc ask "what to do".'
    )


def _read(body: bytes) -> str:
    """The typed text: UTF-8 where it is valid, else latin-1."""
    return wire.from_wire(body.decode("latin-1")).strip()


def _tell(line: ComputerLine, desk: str, *, done: bool, value: object, task: str | None = None) -> None:
    body = as_body(value)
    line.tell(wire.Told(desk=desk, ok=True, done=done, task=task, body=wire.whole(body)), body)


def _tell_wrong(line: ComputerLine, desk: str, error: OrchestratorError) -> None:
    """Say what was wrong; where several tasks may be meant, with their ids, so that a number picks one."""
    message = in_game(str(error))[:512]
    rows = [{"task": one} for one in error.tasks] if isinstance(error, Several) else None
    body = b"" if rows is None else as_body(rows)
    described = None if rows is None else wire.whole(body)
    told = wire.Told(desk=desk, ok=False, done=True, code=error.code, message=message, body=described)
    line.tell(told, body)
