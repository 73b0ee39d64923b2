"""What reviewers are told of a change of a task: loaded, redacted and encoded once, however many of them look.

Theory. A task changes several times in each step, and hardly any change is one to tell. So one loop looks for all
reviewers: it takes the task as this node wrote it or reads the new items once, and goes no further where nothing waits
for a person and nothing that was told is over. What is told is the same for all who may hear it, except for its number,
which is put into the encoded frame once for all who have the same. Who may hear it is asked anew for each change, and
once for those who have the same rights. A reviewer who is still at the snapshot, or takes less than is told, is only
noted as having missed a task: once they have room it is looked at again, so they hear how it is then, and nobody waits
for them.
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from typing import Any, Final, Protocol, TypeVar

from orchestrator.core.approval.approval import CallState, HitlResponse
from orchestrator.core.approval.presentation import LIST_CHARS
from orchestrator.core.approval.workflow import told_group
from orchestrator.core.errors import JournalBroken, NewerSchema, NotFound
from orchestrator.core.ports import Identity, RequestAuthorizer
from orchestrator.core.task.choices import options_of
from orchestrator.core.task.facts import Fact, QuestionId, RequestId, ReviewNoted, TaskId
from orchestrator.core.task.fold import fold
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.task import AgentTask
from orchestrator.core.text.redact import redact_text
from orchestrator.core.wire import review
from orchestrator.engine.tasks import patiently, show
from orchestrator.engine.undo import Undoing
from orchestrator.web.events import apart_s
from orchestrator.web.sockets import text_frames

T = TypeVar("T")
logger = logging.getLogger(__name__)

MOST_RUNNING: Final = 256
"""Tasks that are kept to be folded on: more than a node works on at once."""
TOGETHER_S: Final = 0.05
"""Where many look, what changes within this time is written to each of them at once: nobody sees it that late."""
MOST_TOGETHER: Final = 32
"""Tasks that are looked at before any of them is told."""

# -- The parts of a change, encoded once


class Frame:
    """A message to reviewers, encoded; each connection puts its own number in."""

    def __init__(self, kind: Any, /, **fields: Any) -> None:
        # ``seq`` is the second field of each kind.
        head, seq, self._tail = kind(seq=0, **fields).model_dump_json().encode().partition(b'"seq":0')
        self._head = head + seq[:-1]
        self._framed: tuple[int, bytes] = (0, b"")

    def numbered(self, seq: int) -> bytes:
        """The frame of a connection's message ``seq``."""
        return b"%b%d%b" % (self._head, seq, self._tail)

    def framed(self, seq: int) -> bytes:
        """The same as it is sent; those who came together have the same number, so the last one is kept."""
        if self._framed[0] != seq:
            self._framed = seq, text_frames((self.numbered(seq),))
        return self._framed[1]


@dataclass
class Shown:
    """An open request as reviewers see it."""

    version: int
    """The newest version of the task at which it was so."""
    view: HitlResponse

    @cached_property
    def opened(self) -> Frame:
        """The message that tells it."""
        return Frame(review.RequestOpened, request=self.view)


@dataclass(frozen=True)
class Change:
    """A task as it is by now, and what reviewers are told of it."""

    task: AgentTask
    shown: Shown | None
    """Its open request; None: there is none, or nobody who looks reviews it."""
    over: Mapping[str, Any] | None
    """The fields of a ``task_over``; None: there is nothing to tell."""
    _frames: dict[tuple[Any, str], Frame] = field(default_factory=dict)

    @cached_property
    def asked(self) -> tuple[review.OpenQuestion, ...]:
        """Its open questions."""
        return questions_of(self.task)

    def closed(self, request_id: RequestId) -> Frame:
        """A request of it takes no more decisions."""
        return self._once(
            review.RequestClosed,
            request_id,
            lambda: {"request_id": request_id, "how": _how_closed(self.task, request_id)},
        )

    def reminded(self, request_id: RequestId, expires_at: datetime) -> Frame:
        """Its request expires soon."""
        fields = {"request_id": request_id, "expires_at": expires_at}
        return self._once(review.RequestReminded, request_id, lambda: fields)

    def question_opened(self, question: review.OpenQuestion) -> Frame:
        """One of its questions is new."""
        return self._once(review.QuestionOpened, question.question_id, lambda: {"question": question})

    def question_closed(self, question_id: QuestionId) -> Frame:
        """A question of it takes no more answers."""
        return self._once(review.QuestionClosed, question_id, lambda: {"question_id": question_id})

    def ended(self, over: Mapping[str, Any]) -> Frame:
        """It is over, and left something to take back."""
        return self._once(review.TaskOver, "", lambda: over)

    def _once(self, kind: Any, which: str, fields: Callable[[], Mapping[str, Any]]) -> Frame:
        frame = self._frames.get((kind, which))
        if frame is None:
            frame = self._frames[kind, which] = Frame(kind, **fields())
        return frame


def _how_closed(task: AgentTask, request_id: RequestId) -> str:
    """Why a reviewer no longer sees a request."""
    if task.request is not None and task.request.request_id == request_id:
        return f"escalated to {told_group(task.request.team.escalated_to)}"
    return next((one.how for one in reversed(task.closed) if one.request_id == request_id), task.status.value)


def questions_of(task: AgentTask) -> tuple[review.OpenQuestion, ...]:
    """The open questions of a task, without secrets."""
    return tuple(
        review.OpenQuestion(
            task_id=task.task_id,
            question_id=record.question_id,
            question=redact_text(str(record.call.args.get("question", "")), salt=task.tag),
            options=tuple(redact_text(one, salt=task.tag) for one in options_of(record.call.args)),
            goal=redact_text(task.prompt, salt=task.tag),
        )
        for record in task.calls
        if record.state is CallState.ASKING and record.question_id is not None and task.ended is None
    )


class Rights:
    """What people may hear of one task, at one moment: asked once for all who are alike in this."""

    def __init__(self, authorizer: RequestAuthorizer, task: AgentTask) -> None:
        self._authorizer, self._task = authorizer, task
        self._alike = authorizer.alike(task)
        self._known: dict[tuple[str, Hashable], bool] = {}

    def concerns(self, person: Identity) -> bool:
        """Whether the task's request is for them to review."""
        return self._asked("concerns", person, lambda: self._authorizer.concerns(person, self._task))

    def answers(self, person: Identity) -> bool:
        """Whether they may answer its questions."""
        return self._asked("answers", person, lambda: self._authorizer.may_decide(person, self._task, "answer"))

    def hears_of_its_end(self, person: Identity) -> bool:
        """Whether they are told that the task is over."""
        return self._task.is_of(person.name) or self._asked(
            "decides", person, lambda: self._authorizer.may_decide(person, self._task)
        )

    def _asked(self, what: str, person: Identity, ask: Callable[[], bool]) -> bool:
        key = (what, self._alike(person))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = ask()
        return known


# -- The loop that looks for all of them


class Watcher(Protocol):
    """The connection of one reviewer."""

    identity: Identity
    ends: bool
    """Whether they are told of tasks that are over."""

    def tell(self, change: Change, rights: Rights) -> bool:
        """Make ready what is new to them; True: a request that they had not seen so."""

    def miss(self, task_ids: Iterable[TaskId]) -> None:
        """These changed while they could not be told: ask for another look later."""

    def fail(self) -> None:
        """End the connection: something could not be told, and the next snapshot has it."""

    def flush(self) -> None:
        """Write what they were told. Raises OSError when they are gone."""


@dataclass(frozen=True)
class _Found:
    """What is to be told of one task, and those who were past their snapshots before it was read."""

    change: Change
    rights: Rights
    ready: Sequence[Watcher]


def _flushed(watcher: Watcher) -> bool:
    """Whether a reviewer was written to; a defect ends their connection, and nobody else's."""
    try:
        watcher.flush()
    except OSError:
        return False
    except Exception:
        logger.exception("the reviewer socket of %s met a defect", watcher.identity.name)
        watcher.fail()
        return False
    return True


class Reviews:
    """The changes of all tasks, for all reviewers of this node; it does nothing while nobody looks."""

    def __init__(self, undoing: Undoing) -> None:
        self.undoing, self.service = undoing, undoing.service
        self._starting: dict[Watcher, None] = {}
        """Those who were not told the snapshot yet."""
        self._watchers: dict[Watcher, None] = {}
        """Those who were."""
        self._changed: dict[TaskId, AgentTask | None] = {}
        """The tasks to look at, as this node wrote them last; None: to be read."""
        self._woken = asyncio.Event()
        self._told: set[TaskId] = set()
        """The tasks of which somebody was told that something waits."""
        self._open: dict[TaskId, Shown] = {}
        self._running: dict[TaskId, AgentTask] = {}
        """Tasks that changed lately and have not ended, as they were then."""
        self._ends: list[Callable[[], object]] = []

    @contextlib.contextmanager
    def watched_by(self, watcher: Watcher) -> Any:
        """Tell a reviewer of changes while this is open, from the moment they are :meth:`ready`."""
        if not self._watchers and not self._starting:
            self._ends = [
                self.service.bus.subscribe("tasks", self._hear),
                asyncio.ensure_future(self._work()).cancel,
            ]
        self._starting[watcher] = None
        try:
            yield
        finally:
            self._starting.pop(watcher, None)
            self._watchers.pop(watcher, None)
            if not self._watchers and not self._starting:
                for end in self._ends:
                    end()
                for kept in (self._changed, self._told, self._open, self._running):
                    kept.clear()

    def ready(self, watcher: Watcher) -> None:
        """A reviewer was told the snapshot."""
        del self._starting[watcher]
        self._watchers[watcher] = None

    def look_again(self, task_ids: Iterable[TaskId]) -> None:
        """Look at tasks of which somebody missed a change, whatever it was."""
        for task_id in task_ids:
            self._told.add(task_id)
            self._changed[task_id] = None
        self._woken.set()

    def has_told(self, task_ids: Iterable[TaskId]) -> None:
        """Somebody was told that something waits there, so that they hear when it is over."""
        self._told.update(task_ids)

    async def shown(self, task: AgentTask) -> Shown:
        """The open request of a task, made once for each version, and the same object as long as it looks the same."""
        before = self._open.get(task.task_id)
        if before is not None and before.version == task.version:
            return before
        view = await show(task, max_chars=LIST_CHARS)
        if before is not None and before.version > task.version:
            return Shown(task.version, view)
        if before is not None and before.view == view:
            before.version = task.version
            return before
        shown = self._open[task.task_id] = Shown(task.version, view)
        return shown

    def _hear(self, payload: Mapping[str, Any]) -> None:
        task_id, written = TaskId(str(payload["task_id"])), self.service.news.written(payload)
        if written is not None and all(_is_note(item.fact) for item in written.items):
            return
        for watcher in self._starting:
            watcher.miss((task_id,))
        task = None if written is None else written.task
        if task_id in self._changed:
            # Notifications overtake each other, and what has to be read stays so.
            before = self._changed[task_id]
            task = before if before is None or (task is not None and task.version < before.version) else task
        self._changed[task_id] = task
        self._woken.set()

    async def _work(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            await asyncio.sleep(min(TOGETHER_S, apart_s(len(self._watchers))))
            while self._changed:
                found = [await self._look_at_next() for _ in range(min(len(self._changed), MOST_TOGETHER))]
                told = self._tell_all([one for one in found if one is not None])
                # At once: who decides fast ends a request before it is noted that somebody was told.
                await asyncio.gather(*(self._note(task, reader) for task, reader in told))

    async def _look_at_next(self) -> _Found | None:
        task_id = next(iter(self._changed))
        return await self._patiently(task_id, partial(self._look, task_id, self._changed.pop(task_id)))

    async def _note(self, task: AgentTask, reader: Identity) -> None:
        await self._patiently(task.task_id, partial(self.service.noted, task, "notified", reader))

    async def _patiently(self, task_id: TaskId, work: Callable[[], Awaitable[T]]) -> T | None:
        """What is done for a task, also where the store is away for a while; None: it cannot be done."""
        try:
            # It may have been pruned since it changed; or a newer version works on it, whose endpoints tell.
            with contextlib.suppress(NotFound, NewerSchema, JournalBroken):
                return await patiently(work, for_s=math.inf)
        except Exception:
            logger.exception("the reviewer sockets met a defect", extra={"task_id": task_id})
            for watcher in (*self._starting, *self._watchers):
                watcher.fail()
        return None

    async def _look(self, task_id: TaskId, written: AgentTask | None) -> _Found | None:
        # Before the task is loaded: a snapshot that is told meanwhile may be newer than this.
        ready = tuple(self._watchers)
        task = await self._by_now(task_id, written)
        waits = task.request is not None or any(record.state is CallState.ASKING for record in task.calls)
        if not waits and task_id not in self._told and not _left(task):
            return None
        if task.request is None:
            self._open.pop(task_id, None)
        rights = Rights(self.service.authorizer, task)
        change = await self._change(task, rights, ready)
        (self._told.add if waits else self._told.discard)(task_id)
        return _Found(change, rights, ready)

    def _tell_all(self, found: Sequence[_Found]) -> list[tuple[AgentTask, Identity]]:
        """Tell each reviewer all of it in one write; the tasks with a request that is new, each to such a reader."""
        told = [
            (one.change.task, watcher)
            for one in found
            for watcher in one.ready
            if watcher in self._watchers and self._tell(watcher, one.change, one.rights)
        ]
        gone = {watcher for watcher in self._watchers if not _flushed(watcher)}
        return [*{task.task_id: (task, who.identity) for task, who in reversed(told) if who not in gone}.values()]

    async def _by_now(self, task_id: TaskId, written: AgentTask | None) -> AgentTask:
        """A task as it was ``written``, or else folded on from its last change. Raises as ``load``.

        So one more item costs no more in a long task. What was written of a task that is not known here may be told
        late, after its end.
        """
        task = self._running.pop(task_id, None)
        if task is not None and written is not None:
            task = max(task, written, key=lambda one: one.version)
        else:
            items = () if task is None else await self.service.store.read(task_id, task.version)
            # Where they do not follow one another, loading says what is wrong.
            if task is None or (items and items[0].prev_hash != task.head_hash):
                task = await self.service.load(task_id)
            else:
                task = fold(items, task)
        if task.ended is None:
            self._running[task_id] = task
            if len(self._running) > MOST_RUNNING:
                del self._running[next(iter(self._running))]
        return task

    def _tell(self, watcher: Watcher, change: Change, rights: Rights) -> bool:
        try:
            return watcher.tell(change, rights)
        except Exception:
            logger.exception("the reviewer socket of %s met a defect", watcher.identity.name)
            watcher.fail()
            return False

    async def _change(self, task: AgentTask, rights: Rights, ready: Iterable[Watcher]) -> Change:
        is_shown = task.request is not None and any(rights.concerns(one.identity) for one in ready)
        is_over = _left(task) and any(one.ends and rights.hears_of_its_end(one.identity) for one in ready)
        return Change(
            task,
            shown=await self.shown(task) if is_shown else None,
            over=await left_behind(self.undoing, task) if is_over else None,
        )


def _is_note(fact: Fact) -> bool:
    """Whether a fact only says who saw a request, which no reviewer is told."""
    return isinstance(fact, ReviewNoted) and fact.what in ("notified", "viewed")


# -- The tasks that are over and left something to take back

MAX_CHANGES: Final = 20
"""Named of a task that is over: the first screen of them."""
LEFT: Final = (TaskStatus.FAILED, TaskStatus.CANCELED)
"""The statuses of tasks that may leave something."""


def _left(task: AgentTask) -> bool:
    """Whether a task ended without success."""
    return task.ended is not None and task.status in LEFT


async def left_behind(undoing: Undoing, task: AgentTask) -> dict[str, Any] | None:
    """The fields of a ``task_over``; None: the task goes on, ended well, or changed nothing."""
    if task.ended is None or not _left(task):
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
