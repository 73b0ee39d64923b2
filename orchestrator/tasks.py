"""Everything that may happen to a task from outside its actor: load, decide, append, publish.

A command is decided on the task as it is, appended at that version, and decided anew after a
conflict; the answer is the task as it stands afterwards. The journal is the truth; what is
published on the bus only says that there is something to read.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from orchestrator.core import facts
from orchestrator.core.approval import HitlResponse, ResumeRequest
from orchestrator.core.commands import Answer, Cancel, Command, Extend, Fail, Pin, Rejudge, Renew, Withdraw, decide
from orchestrator.core.deciding import Decide, Law
from orchestrator.core.errors import Conflict, Forbidden, NotFound, TaskEnded
from orchestrator.core.facts import CallId, DecisionAction, Fact, OnReject, QuestionId, RequestId, TaskId
from orchestrator.core.fold import fold, preview
from orchestrator.core.items import SYSTEM, Actor, AgentTaskItem, Draft, ItemId
from orchestrator.core.prompt import Prompt
from orchestrator.core.rehearsing import Rehearsal
from orchestrator.core.response import FinalResult
from orchestrator.core.restoring.wanted import Restoration
from orchestrator.core.showing import hitl_response, must_have_seen, texts_of
from orchestrator.core.system_facts import GrantId, SystemFact
from orchestrator.core.task import AgentTask, Phase, TaskStatus
from orchestrator.core.wire import ComputerId, sha256_hex
from orchestrator.law import PolicyInForce
from orchestrator.ports import Bus, Clock, Identity, RequestAuthorizer, Store, TaskRow
from orchestrator.prompts import shipped
from orchestrator.standing import since

EARLIER_TASKS = 5
"""How many earlier tasks of its session a follow-up is told of: enough to be meant by "it" and "the other one"."""
_EARLIER_CHARS = 1000
_ALL = 100_000
"""More tasks than any node has open."""
_SHOWN_AT_ONCE = 20_000
"""Characters that are looked through for secrets on the event loop: a few milliseconds at the worst."""
_POLL_S = 5.0
"""How long a watcher trusts the bus: a lost hint costs at most this much."""


def new_task_id() -> TaskId:
    """A short id that no two tasks share."""
    return TaskId("t-" + secrets.token_hex(6))


def new_call_id() -> CallId:
    """An id that leaves room for the number of the run in the 24 characters of the wire."""
    return CallId("c" + secrets.token_hex(8))


def new_request_id() -> RequestId:
    """An unguessable id of 144 bits (hitl.md S6); it begins with a letter, or a command takes it for an option."""
    return RequestId("r-" + secrets.token_urlsafe(18))


def new_grant_id() -> GrantId:
    """An unguessable id: whoever knows it can be asked what it allows."""
    return GrantId("g-" + secrets.token_hex(8))


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
        law: Law | None = None,
        prompt: Prompt | None = None,
    ) -> None:
        self.store = store
        self.prompt = prompt or shipped()
        """What models are told before each task; None is the shipped text."""
        self.law: Law = law or PolicyInForce()
        """The policy in force; None is the shipped one, which knows nothing of the computers."""
        self._observer = observer
        """Sees the items that this very service appended; None: nobody looks."""
        self.bus = bus
        self.clock = clock
        self.authorizer = authorizer

    # -- commands ------------------------------------------------------------------------

    async def submit(  # noqa: PLR0913 - what a task is made of
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
        on_reject: OnReject | None = None,
        read_only: bool = False,
        restores: Restoration | None = None,
        rehearses: Rehearsal | None = None,
        key: str = "",
        keyed_by: Identity | None = None,
        begun_by: Actor | None = None,
    ) -> AgentTask:
        """A new task in the queue; one of a session is told how the session's earlier tasks ended.

        ``key``: the same one of the same person, said in the same way, begins no second task: the answer is the first.
        Empty: each is a new task. ``keyed_by``: whose key it is, where several may ask for the same; None: the user's.

        ``on_reject`` None: what the policy says, else ``cancel``. ``read_only``: nothing may be changed. ``restores``:
        what it puts back, without a model. ``rehearses``: its computer is a copy of this one. ``begun_by``: the system,
        which begins a task for ``user``; None: they do.
        Raises Forbidden for a session of somebody else.
        """
        if (present := await self.of_key(keyed_by or user, key)) is not None:
            return present
        task_id, item_id = _keyed(keyed_by or user, key) if key else (new_task_id(), new_item_id())
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
            on_reject=on_reject or self.law.rules.on_reject or "cancel",
            roles=user.roles,
            read_only=read_only,
            restores=restores,
            for_program=begun_by is not None and user.kind == "agent",
            rehearses=rehearses,
        )
        draft = self.draft(fact, begun_by or person(user))._replace(item_id=item_id)
        items = await self.store.create(task_id, [draft])
        self.published(task_id, items)
        return fold(items)

    async def of_key(self, user: Identity, key: str) -> AgentTask | None:
        """The task that somebody submitted with this key; None: none, or the key is empty."""
        task_id, item_id = _keyed(user, key)
        present = await self.store.read(task_id) if key else []
        return fold(present) if present and present[0].item_id == item_id else None

    async def decide(self, request_id: RequestId, resume: ResumeRequest, by: Identity) -> Decided:
        """A person's decision, carried out once.

        Raises NotFound, Forbidden, NotPending, RequestExpired, InvalidDecision or InvalidRequest; all of it
        holds or nothing.
        """
        task = await self.for_request(request_id)
        self._must_decide_all(by, task, resume)
        if by.auth != "library":  # whose caller has the whole of it
            must_have_seen(by.name, task, resume)

        def command() -> Decide:
            return Decide(
                request_id=request_id,
                resume=resume,
                by=by.name,
                now=self.clock.now(),
                law=self.law,
                new_call_id=new_call_id,
                new_grant_id=new_grant_id,
            )

        after, changed = await self._command(task, command, person(by))
        return Decided(task=after, repeated=not changed)

    async def extend(self, request_id: RequestId, expires_at: datetime, by: Identity) -> AgentTask:
        """Give people more time for a request. Raises NotFound, Forbidden, NotPending, InvalidRequest."""
        task = await self.for_request(request_id)
        self.must_decide(by, task)

        def command() -> Extend:
            return Extend(request_id=request_id, expires_at=expires_at, now=self.clock.now())

        return (await self._command(task, command, person(by)))[0]

    async def withdraw(self, request_id: RequestId, by: Identity) -> AgentTask:
        """Take a request back, as its requester or an admin. Raises NotFound, Forbidden, NotPending."""
        task = await self.for_request(request_id)
        self.must_own(by, task, "takes a request back")
        return (await self._command(task, lambda: Withdraw(request_id=request_id, by=by.name), person(by)))[0]

    async def renew(self, request_id: RequestId, by: Identity) -> AgentTask:
        """Ask again for what nobody answered in time. Raises NotFound, Forbidden, NotPending."""
        task = await self.for_request(request_id)
        if by.name != task.user_id:
            self.must_decide(by, task)
        return (await self._command(task, lambda: Renew(request_id=request_id), person(by)))[0]

    async def rejudge(self) -> int:
        """Judge everything that waits for a decision by the policy as it is now; how many tasks that changed."""
        changed = 0
        for row in await self.store.list_tasks(status=TaskStatus.PAUSED, limit=_ALL):
            task = await self.load(row.task_id)
            _, did = await self._command(task, lambda: Rejudge(law=self.law, now=self.clock.now()), SYSTEM)
            changed += did
        return changed

    async def noted(self, task: AgentTask, what: Literal["notified", "viewed"], by: Identity) -> None:
        """Record that a request was put before somebody, or that somebody looked at the whole of it; once each.

        A hint beside the decision: where the request was closed meanwhile nothing is recorded.
        """
        asked = task.request
        while asked is not None and task.request is not None and task.request.request_id == asked.request_id:
            if task.request.notified if what == "notified" else by.name in task.request.viewed_by:
                return
            fact = facts.ReviewNoted(what=what, request_id=asked.request_id)
            try:
                await self.append(task, [self.draft(fact, person(by))])
            except Conflict:
                # Such as the other note, which is made when a reviewer hears of the request.
                task = await self.load(task.task_id)
            else:
                return

    async def answer(self, task_id: TaskId, question_id: QuestionId, answer: str, by: Identity) -> AgentTask:
        """A person's answer to a question; the first counts. Raises NotFound, Forbidden or NotPending."""
        task = await self.load(task_id)
        self.must_decide(by, task)
        asked = Answer(question_id=question_id, answer=answer)
        return (await self._command(task, lambda: asked, person(by)))[0]

    async def cancel(self, task_id: TaskId, by: Identity, reason: str = "") -> AgentTask:
        """Stop a task. Raises NotFound, Forbidden, or TaskEnded when it is over."""
        task = await self.load(task_id)
        self.must_own(by, task, "cancels it")
        wanted = Cancel(reason=reason or f"canceled by {by.name}")
        return (await self._command(task, lambda: wanted, person(by)))[0]

    async def pin(self, task_id: TaskId, by: Identity, *, pinned: bool) -> AgentTask:
        """Keep a task whatever the retention says, or no longer. Raises NotFound, Forbidden."""
        task = await self.load(task_id)
        self.must_own(by, task, "pins it")
        return (await self._command(task, lambda: Pin(pinned=pinned), person(by)))[0]

    async def fail(self, task_id: TaskId, status_reason: str, message: str) -> AgentTask:
        """End a task that cannot go on; one that is over stays as it ended. Raises NotFound."""
        wanted = Fail(status_reason=status_reason, message=message)
        return (await self._command(await self.load(task_id), lambda: wanted, SYSTEM))[0]

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
        told = [
            facts.EarlierTask(
                task_id=task.task_id,
                prompt=task.prompt[:_EARLIER_CHARS],
                status=task.ended.status,
                message=final.message[:_EARLIER_CHARS],
                since=(await since(task, self.store))[:_EARLIER_CHARS],
            )
            for task in reversed(loaded)
            if task is not None and task.ended is not None and (final := final_result(task)) is not None
        ]
        return tuple(told)

    def must_decide(self, identity: Identity, task: AgentTask, action: DecisionAction = "approve") -> None:
        """Raises Forbidden unless this identity may say this for the task."""
        if not self.authorizer.may_decide(identity, task, action):
            raise Forbidden(
                f"{identity.name} may not decide for this task.", remedy="Ask the one who submitted it, or an approver."
            )

    def _must_decide_all(self, by: Identity, task: AgentTask, resume: ResumeRequest) -> None:
        """Raises Forbidden naming the calls of which this identity may not say what it says."""
        if resume.decisions is None:
            self.must_decide(by, task, resume.action or "approve")
            return
        offenders = [one.call_id for one in resume.decisions if not self.authorizer.may_decide(by, task, one.action)]
        if offenders:
            raise Forbidden(
                f"{by.name} may not decide this of {', '.join(offenders)}; nothing was decided.",
                remedy="Ask the one who submitted it, or an approver.",
                details={"offenders": offenders},
            )

    def must_own(self, by: Identity, task: AgentTask, does: str) -> None:
        """Raises Forbidden unless this is the person who submitted the task, or an admin; ``does``: what they want."""
        if by.kind != "person" or (by.name != task.user_id and "admin" not in by.roles):
            raise Forbidden(f"Only the one who submitted a task, or an admin, {does}.", remedy="Ask one of them.")

    async def _command(self, task: AgentTask, command: Callable[[], Command], actor: Actor) -> tuple[AgentTask, bool]:
        """The task afterwards, and whether the command changed it (False: it had been carried out before).

        ``command`` is asked anew for each try: time goes on, and the policy may have changed.
        """
        while True:
            drafts = [self.draft(fact, actor) for fact in decide(task, command())]
            if not drafts:
                return task, False
            try:
                return await self.append(task, drafts, wake=True), True
            except Conflict:
                task = await self.load(task.task_id)

    async def record(self, fact: SystemFact, actor: Actor = SYSTEM, *, content: bytes = b"") -> None:
        """Write down what belongs to no task, in this node's own stream; ``content`` is kept by its hash, before it."""
        if content:
            await self.store.put_blob(content)
        await self.store.record([self.draft(fact, actor)])

    # -- appending -----------------------------------------------------------------------

    def draft(self, fact: Fact, actor: Actor) -> Draft:
        """A fact with its id, time and cause; the end of a task says what becomes of its changes by the policy now."""
        if isinstance(fact, facts.TaskEnded) and fact.status != "Completed":
            fact = fact.model_copy(update={"undo": self.law.undo})
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
            raise await self.no_task(task_id)
        return task

    async def no_task(self, task_id: TaskId) -> NotFound:
        """Why there is no such task: it was pruned, or never was."""
        at = await self.store.pruned_at(task_id)
        if at is None:
            return NotFound(f"There is no task {task_id!r}.", remedy="`cc-orchestrator tasks` lists them.")
        return NotFound(
            f"Task {task_id} was pruned on {at:%Y-%m-%d}: what it did is no longer kept, and cannot be undone.",
            remedy="`cc-orchestrator audit show --system` has the note of it. Pin a task to keep it: `tasks pin`.",
            details={"pruned_at": at.isoformat()},
        )

    async def for_request(self, request_id: RequestId) -> AgentTask:
        """The task that raised a request. Raises NotFound."""
        task = await self.store.load_by_request_id(request_id)
        if task is None:
            raise NotFound("There is no such request.", remedy="List the open requests.")
        return task

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
        tasks = [await self.store.load(row.task_id) for row in rows]
        return [task for task in tasks if task is not None and task.request is not None]

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


def _keyed(user: Identity, key: str) -> tuple[TaskId, ItemId]:
    """The ids of the task, and of its first item, that somebody submits with a key."""
    digest = sha256_hex("\n".join((user.auth, user.name, key)).encode())
    return TaskId(f"t-{digest[:12]}"), ItemId(digest[12:36])


async def _either(changed: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await changed.wait()
    except TimeoutError:
        pass


def person(identity: Identity) -> Actor:
    """An identity as the cause of an item."""
    return Actor(kind="agent" if identity.kind == "agent" else "person", id=identity.name, auth=identity.auth)


async def show(task: AgentTask, *, max_chars: int | None = None) -> HitlResponse:
    """The open request of a paused task as people see it. Raises NotFound.

    Away from the event loop where it is long: looking for secrets takes about a second for a hostile megabyte.
    """
    if sum(len(text) for record in task.pending_tool_calls for text in texts_of(record)) < _SHOWN_AT_ONCE:
        return hitl_response(task, max_chars=max_chars)
    return await asyncio.to_thread(hitl_response, task, max_chars=max_chars)


def final_result(task: AgentTask) -> FinalResult | None:
    """How the task ended, or None while it has not; a success that the journal does not bear out is none."""
    ended = task.ended
    if ended is None:
        return None
    success = ended.status == "Completed" and ended.verified is not False
    doubt = "Unverified, since nothing that was done bears it out: " if ended.verified is False else ""
    return FinalResult(
        explanation=ended.explanation, success=success, message=doubt + ended.message, details=ended.details
    )
