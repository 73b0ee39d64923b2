"""Everything that may happen to a task from outside its actor: load, decide, append, publish.

A command is decided on the task as it is, appended at that version, and decided anew after a
conflict; the answer is the task as it stands afterwards. The journal is the truth; what is
published on the bus only says that there is something to read.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from orchestrator.core import facts
from orchestrator.core.approval import (
    DECISIONS,
    HitlResponse,
    RequestedCallView,
    ResumeRequest,
    request_digest,
)
from orchestrator.core.commands import Answer, Cancel, Command, Decide, decide
from orchestrator.core.errors import Conflict, Forbidden, NotFound, TaskEnded
from orchestrator.core.facts import CallId, Fact, OnReject, QuestionId, RequestId, TaskId
from orchestrator.core.fold import fold, preview
from orchestrator.core.items import Actor, AgentTaskItem, Draft, ItemId
from orchestrator.core.policy import RiskLevel, severity
from orchestrator.core.response import FinalResult
from orchestrator.core.task import AgentTask, Phase, TaskStatus
from orchestrator.core.wire import ComputerId
from orchestrator.ports import Bus, Clock, Identity, RequestAuthorizer, Store, TaskRow

EARLIER_TASKS = 5
"""How many earlier tasks of its session a follow-up is told of: enough to be meant by "it" and "the other one"."""
_EARLIER_CHARS = 1000
_ALL = 100_000
"""More tasks than any node has open."""
_POLL_S = 5.0
"""How long a watcher trusts the bus: a lost hint costs at most this much."""


def new_task_id() -> TaskId:
    """A short id that no two tasks share."""
    return TaskId("t-" + secrets.token_hex(6))


def new_call_id() -> CallId:
    """An id that leaves room for the number of the run in the 24 characters of the wire."""
    return CallId("c" + secrets.token_hex(8))


def new_request_id() -> RequestId:
    """An unguessable id of 144 bits (hitl.md S6)."""
    return RequestId(secrets.token_urlsafe(18))


def new_item_id() -> ItemId:
    """An id by which a repeated append is recognised."""
    return ItemId(secrets.token_hex(12))


@dataclass(frozen=True)
class Decided:
    """The task after a decision; ``repeated``: the same person had made the same decision before."""

    task: AgentTask
    repeated: bool


class TaskService:
    """Submit, decide, answer, cancel and watch tasks."""

    def __init__(
        self,
        *,
        store: Store,
        bus: Bus,
        clock: Clock,
        authorizer: RequestAuthorizer,
        observer: Callable[[Sequence[AgentTaskItem]], None] | None = None,
    ) -> None:
        self.store = store
        self._observer = observer
        """Sees the items that this very service appended; None: nobody looks."""
        self.bus = bus
        self.clock = clock
        self.authorizer = authorizer

    # -- commands ------------------------------------------------------------------------

    async def submit(
        self,
        prompt: str,
        *,
        user: Identity,
        computers: Sequence[ComputerId] = (),
        model: str,
        max_steps: int = 20,
        max_wall_s: float = 0.0,
        max_tokens: int = 0,
        priority: int = 0,
        session_id: str = "",
        on_reject: OnReject = "cancel",
    ) -> AgentTask:
        """A new task in the queue; one of a session is told how the session's earlier tasks ended.

        Raises Forbidden for a session of somebody else.
        """
        task_id = new_task_id()
        earlier = await self._earlier(session_id, user) if session_id else ()
        fact = facts.TaskSubmitted(
            prompt=prompt,
            user_id=user.name,
            session_id=session_id or f"s-{secrets.token_hex(6)}",
            computers=tuple(computers),
            model=model,
            max_steps=max_steps,
            max_wall_s=max_wall_s,
            max_tokens=max_tokens,
            priority=priority,
            earlier=earlier,
            tag=secrets.token_hex(4),
            on_reject=on_reject,
        )
        items = await self.store.create(task_id, [self.draft(fact, person(user))])
        self.published(task_id, items)
        return fold(items)

    async def decide(self, request_id: RequestId, resume: ResumeRequest, by: Identity) -> Decided:
        """A person's decision, carried out once. Raises NotFound, Forbidden, NotPending or InvalidDecision."""
        task = await self.for_request(request_id)
        self.must_decide(by, task)
        command = Decide(request_id=request_id, resume=resume, by=by.name, new_call_id=new_call_id)
        after, changed = await self._command(task, command, person(by))
        return Decided(task=after, repeated=not changed)

    async def answer(self, task_id: TaskId, question_id: QuestionId, answer: str, by: Identity) -> AgentTask:
        """A person's answer to a question; the first counts. Raises NotFound, Forbidden or NotPending."""
        task = await self.load(task_id)
        self.must_decide(by, task)
        after, _ = await self._command(task, Answer(question_id=question_id, answer=answer), person(by))
        return after

    async def cancel(self, task_id: TaskId, by: Identity, reason: str = "") -> AgentTask:
        """Stop a task. Raises NotFound, Forbidden, or TaskEnded when it is over."""
        task = await self.load(task_id)
        if by.name != task.user_id and "admin" not in by.roles:
            raise Forbidden("Only the one who submitted a task, or an admin, cancels it.")
        after, _ = await self._command(task, Cancel(reason=reason or f"canceled by {by.name}"), person(by))
        return after

    async def stop_all(self, by: Identity, reason: str = "") -> list[TaskId]:
        """Stop every task that is not over: all of them for an admin, else one's own; which were stopped."""
        rows = [
            row
            for status in (TaskStatus.RUNNING, TaskStatus.PAUSED, TaskStatus.QUEUED)
            for row in await self.store.list_tasks(status=status, limit=_ALL)
            if "admin" in by.roles or row.user_id == by.name
        ]
        stopped = await asyncio.gather(*(self._stop(row.task_id, by, reason) for row in rows))
        return [task_id for task_id in stopped if task_id is not None]

    async def _stop(self, task_id: TaskId, by: Identity, reason: str) -> TaskId | None:
        try:
            await self.cancel(task_id, by, reason or f"stopped by {by.name}")
        except TaskEnded:
            return None
        return task_id

    async def _earlier(self, session_id: str, user: Identity) -> tuple[facts.EarlierTask, ...]:
        """How the last ended tasks of a session ended, oldest first. Raises Forbidden."""
        rows = await self.store.list_tasks(session_id=session_id, limit=4 * EARLIER_TASKS)
        if any(row.user_id != user.name for row in rows):
            raise Forbidden("This session is somebody else's.", remedy="Leave session_id out to begin one of your own.")
        over = [row for row in rows if row.status in (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELED)]
        loaded = [await self.store.load(row.task_id) for row in over[:EARLIER_TASKS]]
        return tuple(
            facts.EarlierTask(
                task_id=task.task_id,
                prompt=task.prompt[:_EARLIER_CHARS],
                status=task.ended.status,
                message=task.ended.message[:_EARLIER_CHARS],
            )
            for task in reversed(loaded)
            if task is not None and task.ended is not None
        )

    def must_decide(self, identity: Identity, task: AgentTask) -> None:
        """Raises Forbidden unless this identity may decide for the task."""
        if not self.authorizer.may_decide(identity, task):
            raise Forbidden(
                f"{identity.name} may not decide for this task.", remedy="Ask the one who submitted it, or an approver."
            )

    async def _command(self, task: AgentTask, command: Command, actor: Actor) -> tuple[AgentTask, bool]:
        """The task afterwards, and whether the command changed it (False: it had been carried out before)."""
        while True:
            drafts = [self.draft(fact, actor) for fact in decide(task, command)]
            if not drafts:
                return task, False
            try:
                return await self.append(task, drafts, wake=True), True
            except Conflict:
                task = await self.load(task.task_id)

    # -- appending -----------------------------------------------------------------------

    def draft(self, fact: Fact, actor: Actor) -> Draft:
        """A fact with its id, time and cause."""
        return Draft(item_id=new_item_id(), at=self.clock.now(), actor=actor, fact=fact)

    async def append(self, task: AgentTask, drafts: Sequence[Draft], *, wake: bool = False) -> AgentTask:
        """The task after the drafts, for commands of those who hold no lease. Raises Conflict."""
        status = preview(task, drafts).status
        items = await self.store.append(
            task.task_id, task.version, drafts, status=status, schedule="wake" if wake else "keep"
        )
        self.published(task.task_id, items)
        return fold(items, task)

    def published(self, task_id: TaskId, items: Sequence[AgentTaskItem]) -> None:
        """Tell whoever watches that the task has new items."""
        if items and self._observer is not None:
            self._observer(items)
        if items:
            version = items[-1].version
            self.bus.publish(f"task.{task_id}", {"task_id": task_id, "version": version})
            self.bus.publish("tasks", {"task_id": task_id, "version": version})

    # -- reading -------------------------------------------------------------------------

    async def load(self, task_id: TaskId) -> AgentTask:
        """The task. Raises NotFound."""
        task = await self.store.load(task_id)
        if task is None:
            raise NotFound(f"There is no task {task_id!r}.", remedy="`cc-orchestrator tasks` lists them.")
        return task

    async def for_request(self, request_id: RequestId) -> AgentTask:
        """The task that raised a request. Raises NotFound."""
        task = await self.store.load_by_request_id(request_id)
        if task is None:
            raise NotFound("There is no such request.", remedy="List the open requests.")
        return task

    async def list_tasks(self, *, status: TaskStatus | None = None, limit: int = 100) -> list[TaskRow]:
        """The newest tasks first."""
        return await self.store.list_tasks(status=status, limit=limit)

    async def pending(self) -> list[HitlResponse]:
        """All requests that wait for a person, oldest first."""
        rows = await self.store.list_tasks(status=TaskStatus.PAUSED, limit=10_000)
        tasks = [await self.store.load(row.task_id) for row in rows]
        shown = [hitl_response(task) for task in tasks if task is not None and task.request is not None]
        return sorted(shown, key=lambda one: one.created_at)

    async def watch(self, task_id: TaskId, after_version: int = 0) -> AsyncIterator[AgentTaskItem]:
        """The task's items after ``after_version``, then each as it comes, until the task has ended."""
        changed = asyncio.Event()
        unsubscribe = self.bus.subscribe(f"task.{task_id}", lambda _: changed.set())
        try:
            task = await self.load(task_id)
            while True:
                changed.clear()
                for item in await self.store.read(task_id, after_version):
                    after_version = item.version
                    yield item
                if task.phase is Phase.ENDED and not task.open_runs and after_version >= task.version:
                    return
                await _either(changed, _POLL_S)
                task = await self.load(task_id)
        finally:
            unsubscribe()

    async def until_settled(self, task_id: TaskId, wait_s: float, *, past: RequestId | None = None) -> AgentTask:
        """The task once it has ended or waits for a person again, or as it stands after ``wait_s`` seconds.

        ``past``: a request that does not count as waiting, since it was just decided.
        """
        changed = asyncio.Event()
        unsubscribe = self.bus.subscribe(f"task.{task_id}", lambda _: changed.set())
        deadline = asyncio.get_running_loop().time() + wait_s
        try:
            while True:
                changed.clear()
                task = await self.load(task_id)
                open_again = task.request is not None and task.request.request_id != past
                left = deadline - asyncio.get_running_loop().time()
                if task.phase in (Phase.ENDED, Phase.ANSWERING) or open_again or left <= 0:
                    return task
                await _either(changed, left)
        finally:
            unsubscribe()


async def _either(changed: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await changed.wait()
    except TimeoutError:
        pass


def person(identity: Identity) -> Actor:
    """An identity as the cause of an item."""
    return Actor(kind="person", id=identity.name, auth=identity.auth)


def final_result(task: AgentTask) -> FinalResult | None:
    """How the task ended, or None while it has not; a success that the journal does not bear out is none."""
    ended = task.ended
    if ended is None:
        return None
    success = ended.status == "Completed" and ended.verified is not False
    doubt = "Unverified, since the last change or run did not succeed: " if ended.verified is False else ""
    return FinalResult(
        explanation=ended.explanation, success=success, message=doubt + ended.message, details=ended.details
    )


def hitl_response(task: AgentTask) -> HitlResponse:
    """The open request of a paused task as the doors give it out. Raises NotFound when there is none."""
    request = task.request
    if request is None or task.created_at is None:
        raise NotFound("The task waits for no decision.")
    calls = tuple(
        RequestedCallView(
            call_id=record.call_id,
            index=record.call.index,
            plugin_name=record.call.plugin_name,
            tool=record.call.tool,
            args=record.call.args,
            computer=record.call.computer,
            state=record.state,
            observed=record.observed or facts.Observed(state={}),
            evaluation=record.evaluation,
            action_digest=record.action_digest or "",
        )
        for record in task.pending_tool_calls
    )
    return HitlResponse(
        task_id=task.task_id,
        session_id=task.session_id,
        request_id=request.request_id,
        approval_url=f"/v1/approve/{request.request_id}",
        rejection_url=f"/v1/reject/{request.request_id}",
        tool_calls=calls,
        reason="outcome_unknown" if request.reason == "outcome_unknown" else "approval",
        allowed_decisions=DECISIONS[request.reason],
        risk=max((call.evaluation.risk for call in calls), key=severity, default=RiskLevel.UNKNOWN),
        policy_version=request.policy_version,
        action_digest=request_digest(tuple(call.action_digest for call in calls)),
        requester=task.user_id,
        goal=task.prompt,
        explanation=task.explanation,
        created_at=request.created_at,
        expires_at=request.expires_at,
    )
