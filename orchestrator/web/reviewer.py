"""The reviewers' socket: a snapshot, then every change; decisions come back on the same line."""

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, Protocol, assert_never

from orchestrator.core.approval.approval import CallState, HitlResponse
from orchestrator.core.approval.deciders import Saying
from orchestrator.core.approval.presentation import LIST_CHARS, progress_of
from orchestrator.core.approval.workflow import told_group
from orchestrator.core.errors import FrameRefused, JournalBroken, NewerSchema, NotFound, OrchestratorError
from orchestrator.core.ports import Identity
from orchestrator.core.task.choices import options_of
from orchestrator.core.task.facts import QuestionId, RequestId, TaskId
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.task import AgentTask, OpenRequest
from orchestrator.core.text.redact import redact_text
from orchestrator.core.undo.messages import told_limits, told_places
from orchestrator.core.wire import review
from orchestrator.engine.tasks import patiently, show
from orchestrator.engine.undo import Undoing
from orchestrator.web.errors import problem
from orchestrator.web.peers import Attempts

# -- What the reviewers' socket tells of undos: what one would do, and which tasks left something to take back

MAX_PLACES: Final = 1000
"""Places of one preview: about a quarter of the megabyte that a usual client of WebSockets takes."""
MAX_CHANGES: Final = 20
"""Named of a task that is over: the first screen of them."""
MAX_TOLD: Final = 10
"""Tasks that were over before somebody connected, of which they are told: half of a screen of lines."""
TOLD_FOR: Final = timedelta(days=3)
"""They are told of those of this time: a weekend."""
_LEFT: Final = (TaskStatus.FAILED, TaskStatus.CANCELED)
_LOOKED_AT: Final = 50
"""Tasks of each status that are looked through for them, since each journal has to be read."""


async def previewed(undoing: Undoing, message: review.UndoTask, by: Identity) -> dict[str, Any]:
    """The fields of an ``undo_preview``. Raises as ``Undoing.preview``."""
    preview = await undoing.preview(message.undo.of_task(message.task_id), by)
    places = told_places(preview.entries)
    return {
        "ref": message.ref,
        "task_id": message.task_id,
        "places": places[:MAX_PLACES],
        "left_out": max(0, len(places) - MAX_PLACES),
        "cannot_be_undone": told_limits(preview.untold),
        "not_heard": told_limits(preview.open),
    }


async def left_lately(undoing: Undoing, concerns: Callable[[AgentTask], bool]) -> list[dict[str, Any]]:
    """The fields of a ``task_over`` for each task that was over lately and that no undo takes back, newest first."""
    service, lately = undoing.service, []
    since = service.clock.now() - TOLD_FOR
    rows = [row for status in _LEFT for row in await service.list_tasks(status=status, limit=_LOOKED_AT)]
    for row in sorted(rows, key=lambda one: one.updated_at, reverse=True):
        task = await service.if_known(row.task_id) if row.updated_at > since else None
        # It may have been pruned since it was listed.
        if task is None or task.undone_by or not concerns(task):
            continue
        over = await left_behind(undoing, task)
        lately += [over] if over is not None else []
        if len(lately) == MAX_TOLD:
            break
    return lately


async def left_behind(undoing: Undoing, task: AgentTask) -> dict[str, Any] | None:
    """The fields of a ``task_over``; None: the task goes on, ended well, or changed nothing."""
    if task.ended is None or task.status not in _LEFT:
        return None
    left = await undoing.left_behind(task)
    if not left:
        return None
    return {
        "task_id": task.task_id,
        "status": task.ended.status,
        "goal": redact_text(task.prompt, salt=task.tag),
        "message": redact_text(task.ended.message, salt=task.tag),
        "changes": left.changes[:MAX_CHANGES],
        "left_out": max(0, len(left.changes) - MAX_CHANGES),
        "undo": await undoing.offer(task, left),
    }


# -- The reviewers' socket: a snapshot, then every change; decisions come back on the same line

logger = logging.getLogger(__name__)


class TextSocket(Protocol):
    """One accepted WebSocket."""

    async def receive(self) -> bytes | str | None:
        """The next frame; None when the connection is over."""

    async def send(self, frame: str) -> None:
        """Write one frame. Raises OSError when the connection is over."""

    async def close(self, code: int, reason: str) -> None:
        """Close; closing twice is harmless."""


Present = Callable[[Identity], Awaitable[Identity]]
"""The identity as it is at this moment. Raises Unauthenticated once its token was revoked."""


async def serve_reviewer(
    undoing: Undoing, identity: Identity, socket: TextSocket, *, attempts: Attempts, present: Present, ends: bool
) -> None:
    """Serve one reviewer until the connection is over; ``present`` says who they are by now.

    ``ends``: they are told of tasks that are over and left something to take back.
    """
    service = undoing.service
    session = _ReviewSession(undoing, identity, socket, attempts, present, ends=ends)
    unsubscribe = service.bus.subscribe("tasks", session.hint)
    telling = asyncio.create_task(session.tell())
    listening = asyncio.create_task(session.listen())
    try:
        await asyncio.wait((telling, listening), return_when=asyncio.FIRST_COMPLETED)
    finally:
        unsubscribe()
        for part in (telling, listening):
            part.cancel()
        results = await asyncio.gather(telling, listening, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, OSError):
                logger.error("the reviewer socket of %s met a defect", identity.name, exc_info=result)
        await socket.close(1000, "")


def _how_closed(task: AgentTask, request_id: RequestId) -> str:
    """Why a reviewer no longer sees a request."""
    if task.request is not None and task.request.request_id == request_id:
        return f"escalated to {told_group(task.request.team.escalated_to)}"
    return next((one.how for one in reversed(task.closed) if one.request_id == request_id), task.status.value)


class _ReviewSession:
    """One reviewer's connection: the messages so far, and the changes since."""

    def __init__(
        self,
        undoing: Undoing,
        identity: Identity,
        socket: TextSocket,
        attempts: Attempts,
        present: Present,
        *,
        ends: bool,
    ) -> None:
        self._undoing = undoing
        self._service = undoing.service
        self._identity = identity
        self._socket = socket
        self._attempts = attempts
        self._present = present
        self._seq = 0
        self._writing = asyncio.Lock()
        self._dirty: asyncio.Queue[TaskId] = asyncio.Queue()
        self._queued: set[TaskId] = set()
        """The tasks in it: however slow the reader is, a task waits there once."""
        self._requests: dict[RequestId, TaskId] = {}
        self._shown: dict[RequestId, HitlResponse] = {}
        self._reminded: set[tuple[RequestId, datetime]] = set()
        """The deadlines of which this reviewer was reminded: an extended request has a new one."""
        self._questions: dict[QuestionId, TaskId] = {}
        self._ends = ends
        self._over: dict[TaskId, dict[str, Any]] = {}
        """The tasks that are over and were told."""

    def hint(self, payload: Any) -> None:
        """A task has new items."""
        task_id = TaskId(str(payload["task_id"]))
        if task_id not in self._queued:
            self._queued.add(task_id)
            self._dirty.put_nowait(task_id)

    async def tell(self) -> None:
        """The snapshot, then each change as it comes."""
        rows = await self._service.list_tasks(status=TaskStatus.PAUSED, limit=10_000)
        requests: list[HitlResponse] = []
        questions: list[review.OpenQuestion] = []
        shown: list[AgentTask] = []
        others = 0
        for task in await self._service.known(rows):
            if task.request is not None and self._concerns(task):
                requests.append(await self._show(task))
                shown.append(task)
            else:
                # A person who only submits is told that their own requests wait for others.
                others += task.request is not None and self._sees(task)
            if self._may(task, "answer"):
                questions.extend(self._ask(task))
        requests.sort(key=lambda one: one.created_at)
        await self._send(review.Snapshot, requests=tuple(requests), questions=tuple(questions), others=others)
        for task in shown:
            await self._service.noted(task, "notified", self._identity)
        for over in await left_lately(self._undoing, self._hears_of) if self._ends else ():
            await self._tell_over(over)
        while True:
            task_id = await self._dirty.get()
            self._queued.discard(task_id)
            # It may have been pruned since it changed; or a newer version works on it, whose endpoints tell of it.
            with contextlib.suppress(NotFound, NewerSchema, JournalBroken):
                await patiently(partial(self._look, task_id), for_s=math.inf)

    async def _look(self, task_id: TaskId) -> None:
        await self._changed(await self._service.load(task_id))

    async def listen(self) -> None:
        """Decisions, answers and undos, until the connection is over."""
        while (frame := await self._socket.receive()) is not None:
            message: review.Asked | None = None
            try:
                if isinstance(frame, bytes):
                    raise FrameRefused("The frame is binary.", remedy="Send text frames, one JSON object each.")
                message = review.decode_from_reviewer(frame)
                await self._answer(message)
            except OrchestratorError as error:
                await self._refuse(message, error)

    async def _refuse(self, message: review.Asked | None, error: OrchestratorError) -> None:
        # The ref is a word of the reviewer's own and says nothing in an audit.
        request_id = message.request_id if isinstance(message, review.DecideRequest) else ""
        await self._attempts.refused_at("/reviewer", self._identity, error, request_id=request_id)
        ref = message.ref if message is not None else None
        await self._send(review.Failed, ref=ref, **dict(problem(error)))

    async def _answer(self, message: review.Asked) -> None:
        # Rights may have changed since this connection began (promise R5).
        identity = await self._present(self._identity)
        if isinstance(message, review.UndoTask) and message.undo.dry_run:
            await self._send(review.UndoPreviewed, **await previewed(self._undoing, message, identity))
            return
        task = await self._carry_out(message, identity)
        far = progress_of(task, message.request_id) if isinstance(message, review.DecideRequest) else ""
        await self._send(review.Done, ref=message.ref, task_id=task.task_id, status=task.status.value, progress=far)

    async def _carry_out(self, message: review.Asked, identity: Identity) -> AgentTask:
        match message:
            case review.DecideRequest():
                return (await self._service.decide(message.request_id, message.resume, identity)).task
            case review.AnswerQuestion():
                return await self._service.answer(message.task_id, message.question_id, message.answer, identity)
            case review.UndoTask():
                wanted = message.undo.of_task(message.task_id)
                return await self._undoing.submit(wanted, identity, key=message.undo.idempotency_key)
        assert_never(message)

    async def _changed(self, task: AgentTask) -> None:
        if self._concerns(task) or task.task_id in self._requests.values():
            await self._tell_change(task)
        if self._may(task, "answer"):
            await self._questions_changed(task)
        over = await left_behind(self._undoing, task) if self._ends and self._hears_of(task) else None
        if over is not None:
            await self._tell_over(over)

    async def _tell_over(self, over: dict[str, Any]) -> None:
        if over != self._over.get(over["task_id"]):
            self._over[over["task_id"]] = over
            await self._send(review.TaskOver, **over)

    async def _tell_change(self, task: AgentTask) -> None:
        # Of a request that went to other people its former reviewers are told that it is over for them.
        present = task.request.request_id if task.request and self._concerns(task) else None
        for request_id, task_id in list(self._requests.items()):
            if task_id == task.task_id and request_id != present:
                del self._requests[request_id]
                self._shown.pop(request_id, None)
                await self._send(review.RequestClosed, request_id=request_id, how=_how_closed(task, request_id))
        if present is not None and task.request is not None:
            before = self._shown.get(task.request.request_id)
            shown = await self._show(task)
            if shown != before:
                await self._send(review.RequestOpened, request=shown)
                await self._service.noted(task, "notified", self._identity)
            await self._remind(task.request)

    async def _questions_changed(self, task: AgentTask) -> None:
        known = set(self._questions)
        asked = self._ask(task)
        for question in asked:
            if question.question_id not in known:
                await self._send(review.QuestionOpened, question=question)
        still = {question.question_id for question in asked}
        for question_id, task_id in list(self._questions.items()):
            if task_id == task.task_id and question_id not in still:
                del self._questions[question_id]
                await self._send(review.QuestionClosed, question_id=question_id)

    async def _remind(self, request: OpenRequest) -> None:
        if not request.reminded or request.expires_at is None:
            return
        deadline = (request.request_id, request.expires_at)
        if deadline not in self._reminded:
            self._reminded.add(deadline)
            await self._send(review.RequestReminded, request_id=request.request_id, expires_at=request.expires_at)

    def _may(self, task: AgentTask, action: Saying = "approve") -> bool:
        return self._service.authorizer.may_decide(self._identity, task, action)

    def _concerns(self, task: AgentTask) -> bool:
        return self._service.authorizer.concerns(self._identity, task)

    def _sees(self, task: AgentTask) -> bool:
        return self._service.authorizer.sees_user(self._identity, task.user_id)

    def _hears_of(self, task: AgentTask) -> bool:
        """Whether the reviewer is told that the task is over."""
        return self._may(task) or task.is_of(self._identity.name)

    async def _show(self, task: AgentTask) -> HitlResponse:
        shown = await show(task, max_chars=LIST_CHARS)
        self._requests[shown.request_id] = task.task_id
        self._shown[shown.request_id] = shown
        return shown

    def _ask(self, task: AgentTask) -> list[review.OpenQuestion]:
        asked = [
            review.OpenQuestion(
                task_id=task.task_id,
                question_id=record.question_id,
                question=redact_text(str(record.call.args.get("question", "")), salt=task.tag),
                options=tuple(redact_text(one, salt=task.tag) for one in options_of(record.call.args)),
                goal=redact_text(task.prompt, salt=task.tag),
            )
            for record in task.calls
            if record.state is CallState.ASKING and record.question_id is not None and task.ended is None
        ]
        self._questions.update((one.question_id, task.task_id) for one in asked)
        return asked

    async def _send(self, kind: Any, /, **fields: Any) -> None:
        async with self._writing:
            self._seq += 1
            await self._socket.send(kind(seq=self._seq, **fields).model_dump_json())
