"""Every change of a task from outside its actor, decided and appended.

A command is decided on the task as it is, appended at that version, and decided again after a
conflict; the answer is the task as it stands afterwards.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal

from orchestrator.core.approval.approval import ResumeRequest
from orchestrator.core.approval.command import Decide, closed_question
from orchestrator.core.approval.deciders import Saying
from orchestrator.core.approval.people import Unseen
from orchestrator.core.approval.presentation import must_have_seen
from orchestrator.core.approval.teamwork import Claim, Escalate, Remark, TeamCommand, Unclaim
from orchestrator.core.errors import (
    Conflict,
    Forbidden,
    JournalBroken,
    NewerSchema,
    NotFound,
    NotPending,
    OrchestratorError,
    PersonFrozen,
    QuotaReached,
    TaskEnded,
)
from orchestrator.core.evidence.user_checks import checks_of
from orchestrator.core.ports import Identity, RequestAuthorizer
from orchestrator.core.task import facts
from orchestrator.core.task.commands import (
    Answer,
    Cancel,
    Command,
    Extend,
    Fail,
    Pin,
    Rejudge,
    Renew,
    Thaw,
    Withdraw,
    decide,
)
from orchestrator.core.task.facts import CallId, OnReject, QuestionId, RequestId, TaskId
from orchestrator.core.task.fold import fold
from orchestrator.core.task.items import SYSTEM, Actor
from orchestrator.core.task.rehearsal import Rehearsal
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.task import AgentTask
from orchestrator.core.text.redact import redact_text
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.task_status import since
from orchestrator.engine.tasks.stored import (
    StoredTasks,
    final_result,
    keyed_ids,
    new_call_id,
    new_grant_id,
    new_item_id,
    new_task_id,
)
from orchestrator.runtime.logs import SALT

# -- Notifications that were lost on their way between nodes: what nobody told of is seen by looking, and told
# then
#
# Theory. A follower of one task looks again by itself. A reader of everything, such as reviewers, pages
# and the in-game commands, has only the notifications, and a bus that is away loses some: here, or at the node of
# the change, which this node cannot know. So each node looks now and then at what such people see: the tasks that
# wait for a person, and the newest. A version that was there at one look and that no notification has named until
# the next is announced. A notification that is told twice costs a look.

logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 2.5
"""A notification is missed for twice as long at the most."""
_NEWEST: Final = 100
"""What a list shows."""
_MOST_PAUSED: Final = 1_000

Versions = dict[TaskId, int]


class MissedHints:
    """Tells the listeners of ``tasks`` what they were not told; of a store that is shared."""

    def __init__(self, tasks: StoredTasks) -> None:
        self._tasks = tasks
        self._heard: Versions = {}
        """The newest version of each task that a notification has named."""
        self._seen: Versions | None = None
        """The versions in the store at the last look; None: there was none yet."""

    async def keep(self) -> None:
        """Look until canceled; a store that one process has for itself loses no notification."""
        if not self._tasks.store.shared:
            return
        end = self._tasks.bus.subscribe("tasks", self.hear)
        try:
            while True:
                try:
                    await self.look()
                except OrchestratorError as error:
                    logger.debug("it is looked for lost hints again soon: %s", error)
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            end()

    def hear(self, hint: Mapping[str, Any]) -> None:
        """A notification has come."""
        task_id, version = TaskId(str(hint["task_id"])), int(hint["version"])
        self._heard[task_id] = max(version, self._heard.get(task_id, 0))

    async def look(self) -> None:
        """Look once, and tell of what was there at the look before without a notification since. Raises StoreAway."""
        found = await self._versions()
        if self._seen is None:
            # A follower who came before this look was told everything as it was.
            self._heard = {**found, **self._heard}
        for task_id, version in (self._seen or {}).items():
            if self._heard.get(task_id, 0) < version:
                self._tasks.bus.publish("tasks", {"task_id": task_id, "version": version})
                self._heard[task_id] = version
        for task_id in (self._seen or {}).keys() - found.keys():
            version = await self._present(task_id)
            if version > self._heard.get(task_id, 0):
                found[task_id] = version
        self._seen = found
        self._heard = {task_id: version for task_id, version in self._heard.items() if task_id in found}

    async def _versions(self) -> Versions:
        """The versions of the tasks that people look at without following them."""
        store = self._tasks.store
        rows = await store.list_tasks(limit=_NEWEST)
        rows += await store.list_tasks(status=TaskStatus.PAUSED, limit=_MOST_PAUSED)
        return {row.task_id: row.version for row in rows}

    async def _present(self, task_id: TaskId) -> int:
        """The version of a task that is not one of those any more; 0: it was pruned."""
        row = await self._tasks.store.kept_task(task_id)
        return int(str(row["version"])) if row is not None else 0


# -- Who may say what of a task, and by whom an item is caused ---------------------------


def person(identity: Identity) -> Actor:
    """An identity as the cause of an item."""
    return Actor(kind="agent" if identity.kind == "agent" else "person", id=identity.name, auth=identity.auth)


def must_decide(authorizer: RequestAuthorizer, by: Identity, task: AgentTask, action: Saying = "approve") -> None:
    """Raises Forbidden unless this identity may say this for the task."""
    if not authorizer.may_decide(by, task, action):
        why = _because(authorizer, by, task)
        raise Forbidden(f"{by.name} may not decide for this task{why}.", remedy=_who(authorizer, task))


def must_decide_all(authorizer: RequestAuthorizer, by: Identity, task: AgentTask, resume: ResumeRequest) -> str:
    """For whom this identity decides: empty for itself, else a person who is away.

    Raises Forbidden naming the calls of which it may not say what it says.
    """
    if resume.decisions is None:
        action = resume.action or "approve"
        must_decide(authorizer, by, task, action)
        said: dict[CallId, Saying] = {record.call_id: action for record in task.pending_tool_calls}
    else:
        said = {one.call_id: one.action for one in resume.decisions}
    behalf = authorizer.stands_for(by, task, said)
    if behalf is not None:
        return behalf
    refused = [one for one, action in said.items() if authorizer.stands_for(by, task, {one: action}) is None]
    verbs = sorted({said[one].replace("_", " ") for one in refused or said})
    raise Forbidden(
        f"{by.name} may not {' or '.join(verbs)} what this task asks{_because(authorizer, by, task)}; nothing was "
        "decided.",
        remedy=_who(authorizer, task),
        details={"offenders": refused or list(said)},
    )


def _because(authorizer: RequestAuthorizer, by: Identity, task: AgentTask) -> str:
    """The reason of a refusal where it is that the task is the asker's own; else empty."""
    if not authorizer.sets_apart(by, task):
        return ""
    return f", because {'a program of theirs' if task.by_program else 'they'} submitted it"


def _who(authorizer: RequestAuthorizer, task: AgentTask) -> str:
    return f"This is decided by {authorizer.who_decides(task)}."


def must_own(by: Identity, task: AgentTask, does: str) -> None:
    """Raises Forbidden unless this is the person who submitted the task, or an admin; ``does``: what they want."""
    own = by.name == task.user_id or task.counts_for(by.name)
    if by.kind != "person" or (not own and "admin" not in by.roles):
        raise Forbidden(f"Only the person who submitted a task, or an admin, {does}.", remedy="Ask one of them.")


# -- Everything that may happen to a task from outside its actor, decided and appended

_EARLIER_TASKS = 5
"""How many earlier tasks of its session a follow-up is told of: enough to be meant by "it" and "the other one"."""
_EARLIER_CHARS = 1000
_ALL = 100_000
"""More tasks than any node has open."""


@dataclass(frozen=True)
class Decided:
    """The task after a decision; ``repeated``: the same person had made the same decision before."""

    task: AgentTask
    repeated: bool


class TaskService(StoredTasks):
    """Submit, decide, answer and cancel tasks, beside loading and watching them."""

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
        wait_for_model: bool = False,
        restores: Restoration | None = None,
        rehearses: Rehearsal | None = None,
        checks: Sequence[str] = (),
        key: str = "",
        keyed_by: Identity | None = None,
        begun_by: Actor | None = None,
    ) -> AgentTask:
        """A new task in the queue; one of a session is told how the session's earlier tasks ended.

        ``key``: the same one of the same person, said in the same way, begins no second task: the answer is the first.
        Empty: each is a new task. ``keyed_by``: whose key it is, where several may ask for the same; None: the user's.

        ``on_reject`` None: what the policy says, else ``cancel``. ``read_only``: nothing may be changed.
        ``wait_for_model``: a model server that cannot be reached is waited for without an end. ``restores``: what it
        puts back, without a model. ``rehearses``: its computer is a copy of this one. ``checks``: what has to hold
        when the model claims success, a line each. ``begun_by``: the system, which begins a task for ``user``; None:
        they do.
        Raises PersonFrozen, QuotaReached, Forbidden for a session of somebody else, InvalidRequest for a check that
        cannot be made.
        """
        if (present := await self.of_key(keyed_by or user, key)) is not None:
            return present
        self.must_be_free(user.name, "submits nothing")
        names = computers if rehearses is None else (rehearses.computer,)
        lines = checks_of(checks, names, read_only=read_only) if checks else ()
        task_id, item_id = keyed_ids(keyed_by or user, key) if key else (new_task_id(), new_item_id())
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
            on_reject=on_reject or self.active_policy.rules.on_reject or "cancel",
            roles=user.roles,
            read_only=read_only,
            wait_for_model=wait_for_model,
            restores=restores,
            for_program=begun_by is not None and user.kind == "agent",
            rehearses=rehearses,
            checks=lines,
            owner=user.owner,
        )
        draft = self.draft(fact, begun_by or person(user))._replace(item_id=item_id)
        counts = restores is None and begun_by is None
        try:
            async with self.quotas.room(user.name) if counts else contextlib.nullcontext():
                items = await self.store.create(task_id, [draft])
        except QuotaReached:
            # The same submission may have come twice at once, and have taken the last room itself.
            if (present := await self.of_key(keyed_by or user, key)) is not None:
                return present
            raise
        task = fold(items)
        self.published(task, items)
        self.falls_due(task_id)
        return task

    def must_be_free(self, user: str, does: str) -> None:
        """Raises PersonFrozen where somebody froze the person; ``does``: what is refused, as the end of a sentence."""
        freeze = self.directory.present.frozen(user)
        if freeze is not None:
            # The reason is free text, in which a secret may be.
            freeze = replace(freeze, reason=redact_text(freeze.reason, salt=SALT))
            raise PersonFrozen(
                f"{freeze}. Until they are unfrozen, {self.directory.present.person_of(user)} {does}.",
                remedy=f"The person who froze it ({freeze.by}), or an admin, ends it: `cc-orchestrator unfreeze`.",
                details={"by": freeze.by, "reason": freeze.reason, "of": freeze.name},
            )

    def _must_be_decidable(self, task: AgentTask) -> None:
        """Raises PersonFrozen for an open task of somebody who is frozen: what it asks stays as it is."""
        if task.ended is None:
            self.must_be_free(task.user_id, "waits, and nobody decides what their tasks ask")

    async def of_key(self, user: Identity, key: str) -> AgentTask | None:
        """The task that somebody submitted with this key; None: none, or the key is empty."""
        task_id, item_id = keyed_ids(user, key)
        present = await self.store.read(task_id) if key else []
        return fold(present) if present and present[0].item_id == item_id else None

    async def decide(self, request_id: RequestId, resume: ResumeRequest, by: Identity) -> Decided:
        """A person's decision, carried out once.

        Raises NotFound, Forbidden, NotPending, RequestExpired, InvalidDecision or InvalidRequest; all of it
        holds or nothing.
        """
        # Raises PolicyUnusable: a node that cannot judge takes no decision, also where that would need no verdict.
        _ = self.active_policy.version
        task = await self.for_request(request_id)
        if not self.authorizer.sees_user(by, task.user_id):
            absent = self.no_request(request_id)
            raise Unseen(absent.message, remedy=absent.remedy)
        must_decide_all(self.authorizer, by, task, resume)
        self._must_be_decidable(task)
        self.must_be_free(by.name, "decides nothing")
        if by.auth != "library":  # whose caller has the whole of it
            must_have_seen(by.name, task, resume)

        def command() -> Decide:
            return Decide(
                request_id=request_id,
                resume=resume,
                by=by.name,
                now=self.clock.now(),
                active_policy=self.active_policy,
                new_call_id=new_call_id,
                new_grant_id=new_grant_id,
                # On the task as it is then: a request may have gone on to other people meanwhile.
                authorize=lambda now: must_decide_all(self.authorizer, by, now, resume),
                overrides=self.authorizer.is_admin(by),
            )

        async with self.pinned(task.computers):
            after, changed = await self._command(task, command, person(by))
        return Decided(task=after, repeated=not changed)

    async def extend(self, request_id: RequestId, expires_at: datetime, by: Identity) -> AgentTask:
        """Give people more time for a request. Raises NotFound, Forbidden, NotPending, InvalidRequest."""
        task = await self.for_request(request_id)
        must_decide(self.authorizer, by, task)

        def command() -> Extend:
            return Extend(request_id=request_id, expires_at=expires_at, now=self.clock.now())

        return (await self._command(task, command, person(by)))[0]

    async def thaw(self, task_id: TaskId, since: datetime, by: Identity) -> None:
        """Give people back the time in which a freeze since then kept them from deciding."""
        task = await self.load(task_id)
        await self._command(task, lambda: Thaw(since=since, now=self.clock.now()), person(by))

    async def claim(self, request_id: RequestId, by: Identity) -> AgentTask:
        """Say that somebody looks at a request: others wait. Raises NotFound, Forbidden, NotPending."""
        admin = self.authorizer.is_admin(by)
        return await self._in_team(
            request_id, by, lambda: Claim(request_id=request_id, by=by.name, now=self.clock.now(), overrides=admin)
        )

    async def unclaim(self, request_id: RequestId, by: Identity) -> AgentTask:
        """Give a claim back. Raises NotFound, Forbidden, NotPending."""
        admin = self.authorizer.is_admin(by)
        return await self._in_team(request_id, by, lambda: Unclaim(request_id=request_id, by=by.name, overrides=admin))

    async def end_claims(self, by: Actor, *, revoked: str = "") -> None:
        """End the claims of the people who are frozen now, and of the one whose tokens were revoked."""
        for task in await self.reviewing():
            claim = None if task.request is None else task.request.team.claim
            if task.request is None or claim is None:
                continue
            if claim.by != revoked and self.directory.present.frozen(claim.by) is None:
                continue
            given_back = Unclaim(request_id=task.request.request_id, by=claim.by)
            # It may be closed, or somebody else's, by now.
            with contextlib.suppress(NotPending, Forbidden):
                await self._command(task, lambda: given_back, by)  # noqa: B023 - it is called at once

    async def comment(self, request_id: RequestId, text: str, by: Identity) -> AgentTask:
        """Say something to the next reviewer. Raises NotFound, Forbidden, NotPending, InvalidDecision."""
        return await self._in_team(
            request_id, by, lambda: Remark(request_id=request_id, text=text, now=self.clock.now()), own=True
        )

    async def escalate(self, request_id: RequestId, by: Identity) -> AgentTask:
        """Give a request to the people who come next. Raises NotFound, Forbidden, NotPending, InvalidDecision."""
        admin = self.authorizer.is_admin(by)
        return await self._in_team(
            request_id, by, lambda: Escalate(request_id=request_id, by=by.name, now=self.clock.now(), overrides=admin)
        )

    async def _in_team(
        self, request_id: RequestId, by: Identity, command: Callable[[], TeamCommand], *, own: bool = False
    ) -> AgentTask:
        """Carry out what reviewers of the request do; ``own``: its requester does, too."""

        def check(task: AgentTask) -> None:
            if not (self.authorizer.concerns(by, task) or (own and by.kind == "person" and task.counts_for(by.name))):
                why = _because(self.authorizer, by, task)
                raise Forbidden(f"{by.name} does not review this request{why}.", remedy=_who(self.authorizer, task))

        if not own:
            self.must_be_free(by.name, "reviews nothing")
        task = await self.for_request(request_id)
        return (await self._command(task, command, person(by), check))[0]

    async def withdraw(self, request_id: RequestId, by: Identity) -> AgentTask:
        """Take a request back, as its requester or an admin. Raises NotFound, Forbidden, NotPending."""
        task = await self.for_request(request_id)
        must_own(by, task, "takes a request back")
        self._must_be_decidable(task)
        return (await self._command(task, lambda: Withdraw(request_id=request_id, by=by.name), person(by)))[0]

    async def renew(self, request_id: RequestId, by: Identity) -> AgentTask:
        """Ask again for what nobody answered in time. Raises NotFound, Forbidden, NotPending."""
        task = await self.for_request(request_id)
        if by.name != task.user_id:
            must_decide(self.authorizer, by, task)
        self._must_be_decidable(task)
        return (await self._command(task, lambda: Renew(request_id=request_id), person(by)))[0]

    async def rejudge(self) -> int:
        """Judge everything that waits for a decision by the policy as it is now; how many tasks that changed."""
        changed = 0
        for task in await self.known(await self.store.list_tasks(status=TaskStatus.PAUSED, limit=_ALL)):
            async with self.pinned(task.computers):
                _, did = await self._command(
                    task, lambda: Rejudge(active_policy=self.active_policy, now=self.clock.now()), SYSTEM
                )
            changed += did
        return changed

    async def noted(self, task: AgentTask, what: Literal["notified", "viewed"], by: Identity) -> None:
        """Record that a request was put before somebody, or that somebody looked at the whole of it; once each.

        A notification beside the decision: where the request was closed meanwhile nothing is recorded.
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
                task = await self._with_newer(task)
            else:
                return

    async def answer(self, task_id: TaskId, question_id: QuestionId, answer: str, by: Identity) -> AgentTask:
        """A person's answer to a question; the first counts. Raises NotFound, Forbidden, NotPending."""
        task = await self.load(task_id)
        await self.must_see(by, task)
        must_decide(self.authorizer, by, task, "answer")
        self._must_be_decidable(task)
        asked = Answer(question_id=question_id, answer=answer)
        try:
            return (await self._command(task, lambda: asked, person(by)))[0]
        except (NotFound, NotPending) as refused:
            # The task may have gone on by now, and knows no more than its present questions.
            raise closed_question(await self.store.read(task_id), question_id) or refused from None

    async def must_see(self, by: Identity, task: AgentTask) -> None:
        """Raises Unseen for a task that somebody may not look at: it is told as one that there is not."""
        if not self.authorizer.sees_user(by, task.user_id):
            absent = await self.no_task(task.task_id)
            raise Unseen(absent.message, remedy=absent.remedy)

    async def cancel(self, task_id: TaskId, by: Identity, reason: str = "") -> AgentTask:
        """Stop a task. Raises NotFound, Forbidden, or TaskEnded when it is over."""
        task = await self.load(task_id)
        must_own(by, task, "cancels it")
        wanted = Cancel(reason=reason or f"canceled by {by.name}")
        return (await self._command(task, lambda: wanted, person(by)))[0]

    async def pin(self, task_id: TaskId, by: Identity, *, pinned: bool) -> AgentTask:
        """Keep a task whatever the retention says, or no longer. Raises NotFound, Forbidden."""
        task = await self.load(task_id)
        must_own(by, task, "pins it")
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
        except (TaskEnded, NewerSchema, JournalBroken):
            # A newer version's task is stopped by a node of that version; a broken one does not run.
            return None
        return task_id

    async def _earlier(self, session_id: str, user: Identity) -> tuple[facts.EarlierTask, ...]:
        """How the last ended tasks of a session ended, oldest first. Raises Forbidden."""
        rows = await self.store.list_tasks(session_id=session_id, limit=4 * _EARLIER_TASKS)
        if any(row.user_id != user.name for row in rows):
            raise Forbidden("This session is somebody else's.", remedy="Leave session_id out to begin one of your own.")
        over = [row for row in rows if row.status in (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELED)]
        loaded = await self.known(over[:_EARLIER_TASKS])
        told = [
            facts.EarlierTask(
                task_id=task.task_id,
                prompt=task.prompt[:_EARLIER_CHARS],
                status=task.ended.status,
                message=final.message[:_EARLIER_CHARS],
                since=(await since(task, self.store))[:_EARLIER_CHARS],
            )
            for task in reversed(loaded)
            if task.ended is not None and (final := final_result(task)) is not None
        ]
        return tuple(told)

    async def _command(
        self,
        task: AgentTask,
        command: Callable[[], Command],
        actor: Actor,
        check: Callable[[AgentTask], None] = lambda _: None,
    ) -> tuple[AgentTask, bool]:
        """The task afterwards, and whether the command changed it (False: it had been carried out before).

        ``command`` is asked again for each try: time goes on, and the policy may have changed. So is ``check``, which
        raises where it may not be carried out on the task as it is then.
        """
        while True:
            check(task)
            drafts = [self.draft(fact, actor) for fact in decide(task, command())]
            if not drafts:
                return task, False
            try:
                return await self.append(task, drafts, wake=True), True
            except Conflict:
                task = await self._with_newer(task)

    async def _with_newer(self, task: AgentTask) -> AgentTask:
        """A task that was loaded a moment ago, with the items since. Raises NotFound, JournalBroken."""
        items = await self.store.read(task.task_id, task.version)
        # Where they do not follow one another, or there are none, loading says what is wrong.
        follows = bool(items) and items[0].prev_hash == task.head_hash
        return fold(items, task) if follows else await self.load(task.task_id)
