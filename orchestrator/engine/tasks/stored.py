"""The tasks of the store: drafted, appended and published; loaded, listed and watched.

The journal is the truth; a notification on the bus only says that there is something to read.
"""

import asyncio
import contextlib
import logging
import math
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from orchestrator.core.approval.approval import HitlResponse
from orchestrator.core.approval.command import ActivePolicy
from orchestrator.core.approval.presentation import hitl_response, texts_of
from orchestrator.core.errors import JournalBroken, NewerSchema, NotFound, OrchestratorError, StoreAway, StoreBusy
from orchestrator.core.evidence.report import UNVERIFIED, report
from orchestrator.core.model_view.prompt import Prompt
from orchestrator.core.ports import Bus, Clock, Identity, RequestAuthorizer, Store, TaskRow
from orchestrator.core.reply.response import TaskResult
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId, Fact, RequestId, TaskId
from orchestrator.core.task.fold import fold, preview, with_findings
from orchestrator.core.task.items import SYSTEM, Actor, AgentTaskItem, Draft, ItemId
from orchestrator.core.task.states import Phase, TaskStatus
from orchestrator.core.task.system_facts import GrantId, SystemFact
from orchestrator.core.task.task import AgentTask
from orchestrator.core.text.visible import one_line
from orchestrator.core.values import ComputerId
from orchestrator.core.wire.wire import sha256_hex
from orchestrator.engine.active_policy import NodePolicy
from orchestrator.engine.directory import DirectoryKeeper
from orchestrator.engine.quotas import QuotaBook
from orchestrator.engine.tasks.news import Follower, TaskNews, Written
from orchestrator.runtime.prompts import shipped

# -- The ids that this node gives: random, or made of what somebody asks for twice -------


_DRAWN: Final[list[str]] = []
"""Random digits for the next ids: each journal entry needs some, and a call of the system for each costs more."""
_ID_BYTES: Final = 12
_AT_ONCE: Final = 256
if hasattr(os, "register_at_fork"):
    # A process and its child must not give the same ids.
    os.register_at_fork(after_in_child=_DRAWN.clear)


def _random_hex(size: int) -> str:
    """Random bytes as hexadecimal, 12 at most, as :func:`secrets.token_hex` has them."""
    while True:
        try:
            return _DRAWN.pop()[: 2 * size]
        except IndexError:
            drawn = secrets.token_hex(_ID_BYTES * _AT_ONCE)
            _DRAWN.extend([drawn[at : at + 2 * _ID_BYTES] for at in range(0, len(drawn), 2 * _ID_BYTES)])


def new_task_id() -> TaskId:
    """A short id that no two tasks share."""
    return TaskId("t-" + secrets.token_hex(6))


def new_call_id() -> CallId:
    """An id that leaves room for the number of the run in the 24 characters of the wire."""
    return CallId("c" + _random_hex(8))


def new_request_id() -> RequestId:
    """An unguessable id of 144 bits (promise S6); it begins with a letter, or a command takes it for an option."""
    return RequestId("r-" + secrets.token_urlsafe(18))


def new_grant_id() -> GrantId:
    """An id that nobody can guess."""
    return GrantId("g-" + secrets.token_hex(8))


def new_item_id() -> ItemId:
    """An id by which a repeated append is recognised."""
    return ItemId(_random_hex(_ID_BYTES))


def keyed_ids(user: Identity, key: str) -> tuple[TaskId, ItemId]:
    """The ids of the task, and of its first item, that somebody submits with a key."""
    digest = sha256_hex("\n".join((user.auth, user.name, key)).encode())
    return TaskId(f"t-{digest[:12]}"), ItemId(digest[12:36])


# -- Asking a store again that is away for a moment, such as a database that restarts

logger = logging.getLogger(__name__)

AWAY: Final = (StoreAway, StoreBusy)
"""Errors of a store that will answer in a while; no other error goes away by waiting."""
_FIRST_S: Final = 0.1
"""Seconds until the second try; then twice as long each time."""
_AT_MOST_S: Final = 2.0


T = TypeVar("T")


async def patiently(ask: Callable[[], Awaitable[T]], *, for_s: float) -> T:
    """The answer of ``ask``, asked again while the store is away, for about ``for_s`` s; infinite: until canceled.

    It must be harmless to ask twice: that nothing was heard does not say that nothing was done. Raises what the last
    try raised.
    """
    loop = asyncio.get_running_loop()
    until, pause_s = loop.time() + for_s, _FIRST_S
    while True:
        try:
            return await ask()
        except AWAY as away:
            if loop.time() + pause_s > until:
                raise
            if pause_s == _FIRST_S:
                logger.warning("the store is asked again until it answers: %s", away)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _AT_MOST_S)


# -- How a task is shown to people: its open request, and how it ended -------------------

_SHOWN_AT_ONCE = 20_000
"""Characters that are looked through for secrets on the event loop: a few milliseconds at the worst."""


async def show(task: AgentTask, *, max_chars: int | None = None) -> HitlResponse:
    """The open request of a paused task as people see it. Raises NotFound.

    Away from the event loop where it is long: looking for secrets takes about a second for a hostile megabyte.
    """
    if sum(len(text) for record in task.pending_tool_calls for text in texts_of(record)) < _SHOWN_AT_ONCE:
        return hitl_response(task, max_chars=max_chars)
    return await asyncio.to_thread(hitl_response, task, max_chars=max_chars)


def final_result(task: AgentTask) -> TaskResult | None:
    """How the task ended, or None while it has not.

    A success that the journal does not support does not count as one.
    """
    ended = task.ended
    if ended is None:
        return None
    success = ended.status == "Completed" and ended.verified is not False
    doubt = UNVERIFIED if ended.verified is False else ""
    return TaskResult(
        explanation=ended.explanation,
        success=success,
        message=doubt + ended.message,
        details=ended.details,
        report=tuple(report(ended)),
        verified=ended.verified,
    )


# -- Singleton jobs: the store says which of several nodes does each. A node alone has all of them

_AGAIN_S: Final = 0.05
"""The wait before a job that another node holds for a short time is asked for again."""


@dataclass(frozen=True)
class SingletonJobs:
    """The singleton jobs of one node on its store."""

    store: Store
    node: str
    """No other node's, nor that of an earlier start."""

    async def take(self, name: str, for_s: float) -> bool:
        """Take or renew one for so many seconds; False: another node has it."""
        return not self.store.shared or await self.store.take_duty(name, self.node, for_s)

    async def leave(self, name: str) -> None:
        """Give one back at once; where the store is away it ends by itself when its time is over."""
        if self.store.shared:
            with contextlib.suppress(OrchestratorError):
                await self.store.leave_duty(name, self.node)

    @contextlib.asynccontextmanager
    async def held(self, name: str, for_s: float) -> AsyncIterator[None]:
        """Wait for one and hold it for the block, which has to take less than ``for_s`` seconds.

        A lock between nodes: within one node the caller needs one of its own.
        """
        while not await self.take(name, for_s):  # noqa: ASYNC110 - what is waited for is in the store
            await asyncio.sleep(_AGAIN_S)
        try:
            yield
        finally:
            await self.leave(name)


# -- The tasks of the store: drafted, appended and published; loaded, listed and watched


MODEL_WAIT_S = 120.0
_MOST_ALERTS = 20
Pinned = Callable[[Collection[ComputerId]], contextlib.AbstractAsyncContextManager[None]]
"""Opens a block in which it is known where computers are, and what they are called. Raises StoreAway."""
_POLL_S = 5.0
"""How long a watcher trusts the bus: a lost notification costs at most this much."""


class StoredTasks:
    """The tasks, read and added to without a lease."""

    def __init__(  # noqa: PLR0913 - one parameter for each part
        self,
        *,
        store: Store,
        bus: Bus,
        clock: Clock,
        authorizer: RequestAuthorizer,
        observer: Callable[[Sequence[AgentTaskItem]], None] | None = None,
        active_policy: ActivePolicy | None = None,
        prompt: Prompt | None = None,
        node: str = "alone",
        model_wait_s: float = MODEL_WAIT_S,
        directory: DirectoryKeeper | None = None,
        pinned: Pinned = lambda _: contextlib.nullcontext(),
    ) -> None:
        self.store = store
        self.pinned = pinned
        """Around each use of the active policy: it looks at what is known of computers."""
        self.directory = directory or DirectoryKeeper(store)
        """The groups, owners and freezes; None: there are none."""
        self.duties = SingletonJobs(store, node)
        """The singleton jobs of this node; ``node``: its name, which no other node has."""
        self.prompt = prompt or shipped()
        """The text for models before each task; None is the shipped text."""
        self.model_wait_s = model_wait_s
        """Seconds that a task waits for a model server that cannot be reached; 0: it fails after three attempts."""
        self.active_policy: ActivePolicy = active_policy or NodePolicy()
        """The active policy; None is the shipped one, which knows nothing of the computers."""
        self.quotas = QuotaBook(store, clock, lambda: self.active_policy.quotas, lambda: self.directory.present)
        """What people may use in a day."""
        self._observer = observer
        """Sees the items that this very service appended; None: nobody looks."""
        self.bus = bus
        self.news = TaskNews(bus)
        """The notifications of tasks, and those that this node changed lately."""
        self.clock = clock
        self.authorizer = authorizer
        self._broken: dict[str, str] = {}
        """The faults of tasks whose items are not as they were written, by task."""

    # -- appending -----------------------------------------------------------------------

    def draft(self, fact: Fact, actor: Actor) -> Draft:
        """A fact with its id, time and cause; the end of a task says what becomes of its changes by the policy now."""
        if isinstance(fact, facts.TaskEnded) and fact.status != "Completed":
            fact = fact.model_copy(update={"undo": self.active_policy.undo})
        return Draft(item_id=new_item_id(), at=self.clock.now(), actor=actor, fact=fact)

    async def append(self, task: AgentTask, drafts: Sequence[Draft], *, wake: bool = False) -> AgentTask:
        """The task after the drafts, for commands of those who hold no lease. Raises Conflict."""
        if any(isinstance(one.fact, facts.TaskEnded) for one in drafts):
            drafts = with_findings(task, drafts)
        status = preview(task, drafts).status
        items = await self.store.append(
            task.task_id, task.version, drafts, status=status, schedule="wake" if wake else "keep"
        )
        after = fold(items, task)
        self.published(after, items)
        if wake:
            self.falls_due(task.task_id)
        return after

    def published(self, task: AgentTask, items: Sequence[AgentTaskItem]) -> None:
        """Tell the watchers that the task has new items; ``task``: with them."""
        if items and self._observer is not None:
            self._observer(items)
        if items:
            self.news.tell(Written(task, items))

    def falls_due(self, task_id: TaskId | None = None) -> None:
        """Tell the workers of every node to look at the queue: this task is due, or will be soon; None: some are.

        Nothing else wakes an idle worker: most appends make nothing due.
        """
        self.bus.publish("tasks.due", {} if task_id is None else {"task_id": task_id})

    async def record(self, fact: SystemFact, actor: Actor = SYSTEM, *, content: bytes = b"") -> AgentTaskItem:
        """Write down what belongs to no task, in this node's own stream; ``content`` is kept by its hash, before it."""
        if content:
            await self.store.put_blob(content)
        (item,) = await self.store.record([self.draft(fact, actor)])
        return item

    # -- reading -------------------------------------------------------------------------

    async def load(self, task_id: TaskId) -> AgentTask:
        """The task. Raises NotFound, JournalBroken."""
        task = await self._noting(self.store.load(task_id, self.news.last(task_id)))
        if task is None:
            raise await self.no_task(task_id)
        return task

    async def newer(self, task: AgentTask, version: int = 0) -> AgentTask:
        """The task with what was appended since; ``version``: one that was told of, 0: the store is asked."""
        kept = self.news.kept(task.task_id, max(version, task.version)) if version else None
        return kept or fold(await self.store.read(task.task_id, task.version), task)

    async def _noting(self, loading: Awaitable[AgentTask | None]) -> AgentTask | None:
        """What is loaded; a task that is broken is remembered for :meth:`alerts`. Raises JournalBroken, NewerSchema."""
        try:
            task = await loading
        except JournalBroken as broken:
            task_id = broken.details["task_id"]
            if task_id not in self._broken:
                logger.error("%s", broken)  # noqa: TRY400 - it explains itself
            self._broken[task_id] = str(broken)
            raise
        if task is not None:
            self._broken.pop(task.task_id, None)
        return task

    def alerts(self) -> list[str]:
        """The faults of tasks that were asked for, as sentences."""
        return list(self._broken.values())[:_MOST_ALERTS]

    async def no_task(self, task_id: TaskId) -> NotFound:
        """Why there is no such task: it was pruned, or never was."""
        at = await self.store.pruned_at(task_id)
        if at is None:
            return NotFound(f"There is no task {task_id!r}.", remedy="`cc-orchestrator tasks` lists them.")
        return NotFound(
            f"Task {task_id} was pruned on {at:%Y-%m-%d}: its changes are no longer kept, and cannot be undone.",
            remedy="`cc-orchestrator audit show --system` has the note of it. Pin a task to keep it: `tasks pin`.",
            details={"pruned_at": at.isoformat()},
        )

    async def for_request(self, request_id: RequestId) -> AgentTask:
        """The task that raised a request. Raises NotFound, JournalBroken."""
        task = await self._noting(self.store.load_by_request_id(request_id))
        if task is None:
            raise self.no_request(request_id)
        return task

    @staticmethod
    def no_request(request_id: str) -> NotFound:
        """The refusal of a request that there is not."""
        return NotFound(
            f"There is no request {one_line(request_id)}.",
            remedy="`cc-orchestrator review --list` shows the open ones.",
        )

    async def list_tasks(self, *, status: TaskStatus | None = None, limit: int = 100) -> list[TaskRow]:
        """The newest tasks first."""
        return await self.store.list_tasks(status=status, limit=limit)

    async def pending(self, *, max_chars: int | None = None) -> list[HitlResponse]:
        """All requests that wait for a person, oldest first; ``max_chars``: of one text, None: whole."""
        shown = [await show(task, max_chars=max_chars) for task in await self.reviewing()]
        return sorted(shown, key=lambda one: one.created_at)

    async def reviewing(self) -> list[AgentTask]:
        """The tasks that wait for a person's decision."""
        rows = await self.store.list_tasks(status=TaskStatus.PAUSED, limit=10_000)
        return [task for task in await self.known(rows) if task.request is not None]

    async def known(self, rows: Sequence[TaskRow]) -> list[AgentTask]:
        """The tasks of rows, except for those that were pruned meanwhile, are of a newer version, or broken."""
        tasks = [await self.if_known(row.task_id) for row in rows]
        return [task for task in tasks if task is not None]

    async def if_known(self, task_id: TaskId) -> AgentTask | None:
        """The task; None: there is none, or it is a newer version's, whose endpoints tell of it, or it is broken."""
        try:
            return await self._noting(self.store.load(task_id, self.news.last(task_id)))
        except (NewerSchema, JournalBroken):
            return None

    async def watch(self, task_id: TaskId, after_version: int = 0) -> AsyncIterator[AgentTaskItem]:
        """The task's items after ``after_version``, then each as it comes, until the task has ended.

        A store that is away once the first items were told is waited for.
        """
        follower = Follower(self.news)
        unsubscribe = self.news.hear(task_id, follower.hear)
        try:
            task = await self.load(task_id)
            known = min(after_version, task.version)
            while True:
                new = follower.take(known)
                if new is None:
                    # The lambda is called before it is made again.
                    items = await patiently(lambda: self.store.read(task_id, known), for_s=math.inf)  # noqa: B023
                    # Folded on, not loaded again: the cost of one more item does not grow with the task.
                    new = Written(fold([item for item in items if item.version > task.version], task), items)
                task, known = new.task, new.task.version
                for item in new.items:
                    if item.version > after_version:
                        after_version = item.version
                        yield item
                if task.phase is Phase.ENDED and not task.open_runs:
                    return
                await _either(follower.changed, _POLL_S)
        finally:
            unsubscribe()

    async def until_settled(self, task_id: TaskId, wait_s: float, *, past: RequestId | None = None) -> AgentTask:
        """The task once it has ended or waits for a person again, or as it stands after ``wait_s`` seconds.

        ``past``: a request that does not count as waiting, since it was just decided.
        """
        changed = asyncio.Event()
        unsubscribe = self.news.hear(task_id, lambda _: changed.set())
        deadline = asyncio.get_running_loop().time() + wait_s
        try:
            while True:
                changed.clear()
                task = await self.load(task_id)
                open_again = task.request is not None and task.request.request_id != past
                left = deadline - asyncio.get_running_loop().time()
                if task.phase in (Phase.ENDED, Phase.ANSWERING) or open_again or left <= 0:
                    return task
                await _either(changed, min(left, _POLL_S))
        finally:
            unsubscribe()


async def _either(changed: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await changed.wait()
    except TimeoutError:
        pass
