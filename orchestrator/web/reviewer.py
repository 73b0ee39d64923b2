"""The reviewers' socket: a snapshot, then every change; decisions come back on the same line."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Protocol, assert_never

from orchestrator.core.approval.approval import HitlResponse
from orchestrator.core.approval.presentation import progress_of
from orchestrator.core.errors import FrameRefused, OrchestratorError
from orchestrator.core.ports import Identity
from orchestrator.core.task.facts import QuestionId, RequestId, TaskId
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.task import AgentTask, OpenRequest
from orchestrator.core.undo.telling import told_limits, told_places
from orchestrator.core.wire import review
from orchestrator.engine.undo import Undoing
from orchestrator.web.errors import problem
from orchestrator.web.peers import Attempts
from orchestrator.web.reviews import LEFT, Change, Frame, Reviews, Rights, Shown, left_behind, questions_of

logger = logging.getLogger(__name__)

MOST_BEHIND: Final = 256 * 1024
"""Bytes that wait for one reviewer; beyond it they are told later how the tasks are by then."""
MAX_TOLD: Final = 10
"""Tasks that were over before somebody connected, of which they are told: half of a screen of lines."""
TOLD_FOR: Final = timedelta(days=3)
"""They are told of those of this time: a weekend."""
_LOOKED_AT: Final = 50
"""Tasks of each status that are looked through for them, since each journal has to be read."""
MAX_PLACES: Final = 1000
"""Places of one preview: about a quarter of the megabyte that a usual client of WebSockets takes."""


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
    rows = [row for status in LEFT for row in await service.list_tasks(status=status, limit=_LOOKED_AT)]
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


class TextSocket(Protocol):
    """One accepted WebSocket."""

    async def receive(self) -> bytes | str | None:
        """The next frame; None when the connection is over."""

    async def send(self, frame: str) -> None:
        """Write one frame. Raises OSError when the connection is over."""

    def write_framed(self, frames: bytes) -> bool:
        """Write whole frames now; False: they have to be sent. Raises OSError when the connection is over."""

    async def close(self, code: int, reason: str) -> None:
        """Close; closing twice is harmless."""


Present = Callable[[Identity], Awaitable[Identity]]
"""The identity as it is at this moment. Raises Unauthenticated once its token was revoked."""


async def serve_reviewer(
    reviews: Reviews, identity: Identity, socket: TextSocket, *, attempts: Attempts, present: Present, ends: bool
) -> None:
    """Serve one reviewer until the connection is over; ``present`` says who they are by now.

    ``ends``: they are told of tasks that are over and left something to take back.
    """
    session = _ReviewSession(reviews, identity, socket, attempts, present, ends=ends)
    with reviews.watched_by(session):
        parts = [asyncio.create_task(part) for part in (session.tell_all(), session.write(), session.listen())]
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            results = await asyncio.gather(*parts, return_exceptions=True)
            for result in results:
                if isinstance(result, Exception) and not isinstance(result, OSError):
                    logger.error("the reviewer socket of %s met a defect", identity.name, exc_info=result)
    await socket.close(1000, "")


class _ReviewSession:
    """One reviewer's connection: the messages so far, and the changes since."""

    def __init__(
        self,
        reviews: Reviews,
        identity: Identity,
        socket: TextSocket,
        attempts: Attempts,
        present: Present,
        *,
        ends: bool,
    ) -> None:
        self.identity = identity
        self.ends = ends
        self._ready = False
        self._reviews = reviews
        self._service = reviews.service
        self._socket = socket
        self._attempts = attempts
        self._present = present
        self._seq = 0
        self._held: list[tuple[Frame, int]] = []
        """The frames that are written next, together."""
        self._out: deque[bytes] = deque()
        """The frames that were not written yet, the first of them perhaps in part."""
        self._behind = 0
        """Their bytes."""
        self._waiting = asyncio.Event()
        """Whether one of them is new."""
        self._written = asyncio.Event()
        """Whether there are none."""
        self._written.set()
        self._failed = asyncio.Event()
        self._missed: dict[TaskId, None] = {}
        """The tasks that changed while there was no room: however slow the reader is, a task is there once."""
        self._shown: dict[TaskId, Shown] = {}
        self._reminded: set[tuple[RequestId, datetime]] = set()
        """The deadlines of which this reviewer was reminded: an extended request has a new one."""
        self._questions: dict[TaskId, frozenset[QuestionId]] = {}
        self._over: dict[TaskId, Mapping[str, Any]] = {}
        """The tasks that are over and were told."""

    # -- telling -------------------------------------------------------------------------

    async def tell_all(self) -> None:
        """The snapshot, and then each change as it comes, until something could not be told."""
        shown = await self._snapshot()
        for task in shown:
            await self._service.noted(task, "notified", self.identity)
        if self.ends:
            for over in await left_lately(self._reviews.undoing, self._hears_of):
                self._tell_over(over, Frame(review.TaskOver, **over))
            self.flush()
        self._ready = True
        self._reviews.ready(self)
        self._look_again()
        await self._failed.wait()

    async def _snapshot(self) -> list[AgentTask]:
        """Tell all that waits; the answer is the tasks whose requests were told."""
        rows = await self._service.list_tasks(status=TaskStatus.PAUSED, limit=10_000)
        requests: list[HitlResponse] = []
        questions: list[review.OpenQuestion] = []
        shown: list[AgentTask] = []
        others = 0
        for task in await self._service.known(rows):
            rights = Rights(self._service.authorizer, task)
            if task.request is not None and rights.concerns(self.identity):
                self._shown[task.task_id] = one = await self._reviews.shown(task)
                requests.append(one.view)
                shown.append(task)
            else:
                # A person who only submits is told that their own requests wait for others.
                others += task.request is not None and self._service.authorizer.sees_user(self.identity, task.user_id)
            if rights.answers(self.identity) and (asked := questions_of(task)):
                self._questions[task.task_id] = frozenset(question.question_id for question in asked)
                questions.extend(asked)
        requests.sort(key=lambda one: one.created_at)
        told = {"requests": tuple(requests), "questions": tuple(questions), "others": others}
        self._put(Frame(review.Snapshot, **told))
        self.flush()
        self._reviews.has_told((*self._shown, *self._questions))
        return shown

    def tell(self, change: Change, rights: Rights) -> bool:
        """Make ready what is new of a task; True: a request that they had not seen so."""
        if self._behind > MOST_BEHIND:
            self.miss((change.task.task_id,))
            return False
        opened = self._tell_request(change, rights)
        if (change.asked or change.task.task_id in self._questions) and rights.answers(self.identity):
            self._tell_questions(change)
        if change.over is not None and self.ends and rights.hears_of_its_end(self.identity):
            self._tell_over(change.over, change.ended(change.over))
        return opened

    def miss(self, task_ids: Iterable[TaskId]) -> None:
        """These changed while they could not be told."""
        self._missed.update(dict.fromkeys(task_ids))

    def fail(self) -> None:
        """End the connection."""
        self._failed.set()

    def flush(self) -> None:
        """Write what is ready, at once if all before it is written. Raises OSError when the connection is over."""
        held, self._held = self._held, []
        if held and (self._out or not self._socket.write_framed(b"".join([one.framed(seq) for one, seq in held]))):
            texts = [one.numbered(seq) for one, seq in held]
            self._out.extend(texts)
            self._behind += sum(map(len, texts))
            self._written.clear()
            self._waiting.set()

    def _look_again(self) -> None:
        if self._missed and self._ready:
            missed, self._missed = self._missed, {}
            self._reviews.look_again(missed)

    def _tell_over(self, over: Mapping[str, Any], frame: Frame) -> None:
        if over != self._over.get(over["task_id"]):
            self._over[over["task_id"]] = over
            self._put(frame)

    def _tell_request(self, change: Change, rights: Rights) -> bool:
        task, shown = change.task, change.shown
        before = self._shown.get(task.task_id)
        if before is None and shown is None:
            return False
        if shown is not None and before is shown and not self._reminds(task.request):
            return False
        if shown is not None and not rights.concerns(self.identity):
            shown = None
        # Of a request that went to other people its former reviewers are told that it is over for them.
        if before is not None and (shown is None or shown.view.request_id != before.view.request_id):
            del self._shown[task.task_id]
            self._put(change.closed(before.view.request_id))
            before = None
        if shown is None or task.request is None:
            return False
        is_new = before is not shown and (before is None or before.view != shown.view)
        self._shown[task.task_id] = shown
        if is_new:
            self._put(shown.opened)
        self._remind(task.request, change)
        return is_new

    def _tell_questions(self, change: Change) -> None:
        task_id = change.task.task_id
        known = self._questions.pop(task_id, frozenset())
        asked = frozenset(question.question_id for question in change.asked)
        if asked:
            self._questions[task_id] = asked
        for question in change.asked:
            if question.question_id not in known:
                self._put(change.question_opened(question))
        for question_id in sorted(known - asked):
            self._put(change.question_closed(question_id))

    def _reminds(self, request: OpenRequest | None) -> bool:
        """Whether there is a deadline of which this reviewer was not reminded."""
        if request is None or not request.reminded or request.expires_at is None:
            return False
        return (request.request_id, request.expires_at) not in self._reminded

    def _remind(self, request: OpenRequest, change: Change) -> None:
        if self._reminds(request) and request.expires_at is not None:
            deadline = (request.request_id, request.expires_at)
            self._reminded.add(deadline)
            self._put(change.reminded(*deadline))

    def _hears_of(self, task: AgentTask) -> bool:
        return Rights(self._service.authorizer, task).hears_of_its_end(self.identity)

    # -- writing -------------------------------------------------------------------------

    def _put(self, frame: Frame) -> None:
        """Make a frame ready; ``flush`` writes it."""
        self._seq += 1
        self._held.append((frame, self._seq))

    async def write(self) -> None:
        """Write what could not be written at once, and then ask for what was missed meanwhile."""
        while True:
            await self._waiting.wait()
            self._waiting.clear()
            while self._out:
                await self._socket.send(self._out[0].decode())
                self._behind -= len(self._out.popleft())
            self._written.set()
            self._look_again()

    async def _reply(self, kind: Any, /, **fields: Any) -> None:
        # Who sends more than they read is not listened to meanwhile.
        await self._written.wait()
        self._put(Frame(kind, **fields))
        self.flush()

    # -- listening -----------------------------------------------------------------------

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
        await self._attempts.refused_at("/reviewer", self.identity, error, request_id=request_id)
        ref = message.ref if message is not None else None
        await self._reply(review.Failed, ref=ref, **dict(problem(error)))

    async def _answer(self, message: review.Asked) -> None:
        # Rights may have changed since this connection began (promise R5).
        identity = await self._present(self.identity)
        if isinstance(message, review.UndoTask) and message.undo.dry_run:
            await self._reply(review.UndoPreviewed, **await previewed(self._reviews.undoing, message, identity))
            return
        task = await self._carry_out(message, identity)
        far = progress_of(task, message.request_id) if isinstance(message, review.DecideRequest) else ""
        await self._reply(review.Done, ref=message.ref, task_id=task.task_id, status=task.status.value, progress=far)

    async def _carry_out(self, message: review.Asked, identity: Identity) -> AgentTask:
        match message:
            case review.DecideRequest():
                return (await self._service.decide(message.request_id, message.resume, identity)).task
            case review.AnswerQuestion():
                return await self._service.answer(message.task_id, message.question_id, message.answer, identity)
            case review.UndoTask():
                wanted = message.undo.of_task(message.task_id)
                return await self._reviews.undoing.submit(wanted, identity, key=message.undo.idempotency_key)
        assert_never(message)
