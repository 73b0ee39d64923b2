"""The endpoints to tasks: submit, look, follow, cancel, answer and stop."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from orchestrator.core.approval.presentation import LIST_CHARS, hitl_response
from orchestrator.core.errors import InvalidDecision, InvalidRequest, JournalBroken, NewerSchema
from orchestrator.core.evidence.user_checks import checks_of
from orchestrator.core.ports import Computers, Identity, TaskRow
from orchestrator.core.task.choices import options_of
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.rehearsal import Rehearsal
from orchestrator.core.task.states import CallState, TaskStatus
from orchestrator.core.task.task import AgentTask, CallRecord
from orchestrator.core.undo.messages import UndoRequest
from orchestrator.core.undo.telling import told_changes, told_limits, told_places
from orchestrator.core.values import from_us, to_us
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.task_status import Proofs, waits_for
from orchestrator.engine.tasks import final_result
from orchestrator.engine.undo import Undoing
from orchestrator.history.rehearsal import WORK_S, Rehearsals
from orchestrator.web.answers.base import FreezeAnswer
from orchestrator.web.answers.history import RehearsalAnswer, RehearsalChange, TaskChanges, UndoPreview
from orchestrator.web.answers.tasks import (
    CallAnswer,
    QuestionAnswer,
    Result,
    Stopped,
    TaskList,
    TaskLong,
    TaskRowAnswer,
    TaskShort,
)
from orchestrator.web.base import Defaults, Room, as_json
from orchestrator.web.bodies import (
    AnswerBody,
    CancelBody,
    EmptyBody,
    StopBody,
    SubmitBody,
    key_of,
    read_body,
    read_number,
    task_id_of,
)
from orchestrator.web.errors import redacted, without_secrets
from orchestrator.web.events import EventStream, Followers, Way

# -- The endpoints that tell and take back what a task changed -------------------------------


class UndoEndpoints(Room):
    """``/v1/tasks/{id}/changes`` and ``/undo``."""

    undoing: Undoing

    async def changes(self, request: Request) -> TaskChanges:
        """``GET /v1/tasks/{id}/changes``."""
        await self.who(request, agents=True)
        task_id = task_id_of(request)
        changed = await self.undoing.changes(task_id)
        return TaskChanges(
            task_id=task_id,
            changes=list(told_changes(changed)),
            cannot_be_undone=list(told_limits(changed.untold)),
            not_heard=list(told_limits(changed.open)),
            unseen=list(told_limits(changed.unseen)),
        )

    async def undo(self, request: Request) -> Response:
        """``POST /v1/tasks/{id}/undo``."""
        identity = await self.who(request)
        body = await read_body(request, UndoRequest)
        wanted = body.of_task(task_id_of(request))
        key = key_of(request, body.idempotency_key)
        if body.dry_run:
            preview = await self.undoing.preview(wanted, identity)
            told = UndoPreview(
                task_id=wanted.task_id,
                places=list(told_places(preview.entries)),
                cannot_be_undone=list(told_limits(preview.untold)),
                not_heard=list(told_limits(preview.open)),
            )
            return as_json(told, 200)
        return as_json(TaskShort.made_from(await self.undoing.submit(wanted, identity, key=key)), 201)


# -- The endpoint that tells what a rehearsal came to ----------------------------------------


class RehearsalEndpoints(Room):
    """``/v1/tasks/{id}/rehearsal``."""

    rehearsals: Rehearsals

    async def rehearsal(self, request: Request) -> RehearsalAnswer:
        """``GET /v1/tasks/{id}/rehearsal``."""
        await self.who(request, agents=True)
        task = await self.service.load(task_id_of(request))
        shown = await self.rehearsals.shown(task)
        diffs = await without_secrets([one.diff for one in shown.changes])
        return RehearsalAnswer.made_from(
            shown,
            task_id=task.task_id,
            computer=shown.rehearsal.computer,
            left_out=shown.rehearsal.left_out,
            changes=[
                RehearsalChange.made_from(one, place=f"{shown.rehearsal.computer}:{one.path}", diff=diff)
                for one, diff in zip(shown.changes, diffs, strict=True)
            ],
        )

    async def apply_rehearsal(self, request: Request) -> TaskShort:
        """``POST /v1/tasks/{id}/rehearsal``: ask for what it changed, also where it failed or was canceled."""
        identity = await self.who(request)
        task_id = task_id_of(request)
        await read_body(request, EmptyBody)
        applied_by = await self.rehearsals.ends.apply(task_id, identity)
        return TaskShort.made_from(await self.service.load(applied_by))


# -- The endpoints to tasks: submit, look, follow, cancel, answer and stop -------------------

_VERSION: Final = re.compile("[0-9]{1,12}")
_CURSOR: Final = re.compile("([0-9]{1,17}):(.{1,200})")
_NEWER: Final = "a newer version works on it"
"""The versions that a client may have seen last; anything else counts as nothing seen."""


class TaskEndpoints(Room):
    """``/v1/tasks`` and ``/v1/stop``."""

    computers: Computers
    undoing: Undoing
    defaults: Defaults
    rehearsals: Rehearsals
    proofs: Proofs
    followers: Followers
    check_model: Callable[[str], Awaitable[object]]
    """Raises InvalidRequest for a model that cannot be used, NotFound for one that is not there."""

    async def submit(self, request: Request) -> TaskShort:
        """``POST /v1/tasks``."""
        identity = await self.who(request, agents=True)
        self.authorizer.must(identity, "submit")
        body = await read_body(request, SubmitBody)
        said = key_of(request, body.idempotency_key)
        # Not among the keys of undos, which are tasks too.
        key = f"submit {said}" if said else ""
        if (present := await self.service.of_key(identity, key)) is not None:
            # Before anything is looked at or copied again: an action that was possible then may not be by now.
            return _answered(present, body)
        for name in body.computers:
            if not (self.authorizer.reaches(identity, ComputerId(name)) and await self.has_computer(name)):
                raise InvalidRequest(
                    f"There is no computer {name[:64]!r}.",
                    remedy="`cc-orchestrator computers` lists them, `cc-orchestrator pair` connects one.",
                    details={"missing": "computer"},
                )
        model = body.model or self.service.quotas.of(identity.name).model or self.defaults.model
        if body.model:
            await self.check_model(body.model)
        computers = [ComputerId(one) for one in dict.fromkeys(body.computers)]
        # Before anything is copied for a rehearsal.
        checks_of(body.checks, computers, read_only=body.read_only)
        if not body.rehearse:
            return _answered(await self._submitted(body, identity, computers, model, key), body)
        _must_be_rehearsable(body, computers)
        async with self.rehearsals.copied(computers[0], identity.roles) as (rehearsal, copy):
            task = await self._submitted(body, identity, [copy], model, key, rehearsal)
            self.rehearsals.begin(task.task_id)
        return _answered(task, body)

    async def _submitted(
        self,
        body: SubmitBody,
        identity: Identity,
        computers: Sequence[ComputerId],
        model: str,
        key: str,
        rehearses: Rehearsal | None = None,
    ) -> AgentTask:
        max_wall_s = self.defaults.max_wall_s if body.max_wall_s is None else body.max_wall_s
        task = await self.service.submit(
            body.prompt,
            user=identity,
            computers=computers,
            model=model,
            max_steps=self.defaults.max_steps if body.max_steps is None else body.max_steps,
            max_wall_s=max_wall_s or (0.0 if rehearses is None else WORK_S),
            max_tokens=self.defaults.max_tokens if body.max_tokens is None else body.max_tokens,
            priority=body.priority,
            session_id=body.session_id,
            on_reject=body.on_reject,
            read_only=body.read_only,
            wait_for_model=body.wait_for_model,
            rehearses=rehearses,
            checks=body.checks,
            key=key,
        )
        self.know_user(task.task_id, task.user_id)
        return task

    async def tasks(self, request: Request) -> TaskList:
        """``GET /v1/tasks?status=&session_id=&after=&limit=``."""
        identity = await self.who(request, agents=True)
        status = request.query_params.get("status")
        if status is not None and status not in set(TaskStatus):
            raise InvalidRequest(f"There is no status {status[:40]!r}.", remedy=f"One of {', '.join(TaskStatus)}.")
        limit = int(read_number(request, "limit", 100, 1, 1000))
        # One more than is shown tells whether there are others.
        found = await self.service.store.list_tasks(
            status=TaskStatus(status) if status else None,
            session_id=request.query_params.get("session_id"),
            users=self.authorizer.visible_users(identity),
            before=_before(request),
            limit=limit + 1,
        )
        rows = found[:limit]
        last = rows[-1] if len(found) > limit else None
        waited_for = {one for row in rows if row.status is TaskStatus.QUEUED for one in row.computers}
        async with self.computers.pinned(waited_for):
            shown = [TaskRowAnswer.made_from(row, status_reason=await self._row_reason(row)) for row in rows]
        then = None if last is None else f"{to_us(last.created_at)}:{last.task_id}"
        return await redacted(TaskList(tasks=shown, next=then))

    async def _row_reason(self, row: TaskRow) -> str:
        """The reason why an open task waits, or that the journal does not support a success.

        Else the status says enough.
        """
        if row.status is TaskStatus.COMPLETED:
            return "unverified" if await self.proofs.missing(row) else ""
        freeze = self.service.directory.present.frozen(row.user_id)
        if freeze is not None and row.status in (TaskStatus.QUEUED, TaskStatus.RUNNING, TaskStatus.PAUSED):
            return str(freeze)
        away = row.status is TaskStatus.QUEUED and not all(self._online(one) for one in row.computers)
        if row.status not in (TaskStatus.PAUSED, TaskStatus.RUNNING) and not away:
            return ""
        try:
            return await self._reason(await self.service.load(row.task_id))
        except NewerSchema:
            return _NEWER
        except JournalBroken as error:
            return error.message

    async def _reason(self, task: AgentTask) -> str:
        freeze = self.service.directory.present.frozen(task.user_id)
        return await waits_for(task, self.service.store, self.undoing.world, freeze)

    async def task(self, request: Request) -> TaskLong:
        """``GET /v1/tasks/{id}``."""
        await self.who(request, agents=True)
        task = await self.service.load(task_id_of(request))
        offer = await self.undoing.offer(task)
        applied = await self.undoing.applied(task)
        now, reason = self.service.clock.now(), await self._reason(task)
        present = self.service.directory.present
        freeze = present.frozen(task.user_id)
        more: dict[str, Any] = {
            "status_reason": reason,
            "decided_by": self.authorizer.who_decides(task) if task.request else None,
            "undo": offer,
            "applied": applied,
            "person": present.person_of(task.user_id),
            "freeze": freeze and FreezeAnswer.made_from(freeze),
        }
        async with self.computers.pinned(task.computers):
            if task.request is None:
                return await redacted(_whole(task, now, more, self._online))
            # Away from the event loop: the texts of a request may be long, and secrets are looked for in them.
            return await redacted(await asyncio.to_thread(_whole, task, now, more, self._online))

    def _online(self, computer: str) -> bool:
        info = self.computers.info(ComputerId(computer))
        return info is not None and info.online

    async def events(self, request: HTTPConnection) -> EventStream:
        """``GET /v1/tasks/{id}/events``: SSE."""
        identity = await self.who(request, agents=True)
        task_id = task_id_of(request)
        version = self.followers.version(task_id)
        if version is None:
            version = (await self.service.load(task_id)).version
        last = request.headers.get("last-event-id", request.query_params.get("after", "0"))
        after = int(last) if _VERSION.fullmatch(last) else 0
        hints = request.query_params.get("hints") != "0"
        follow, known, way = self.followers.follow, (task_id, version), Way()
        return self.stream(identity, lambda over: follow(*known, after, hints=hints, closing=over, way=way), way)

    async def cancel(self, request: Request) -> TaskShort:
        """``POST /v1/tasks/{id}/cancel``."""
        identity = await self.who(request)
        body = await read_body(request, CancelBody)
        return TaskShort.made_from(await self.service.cancel(task_id_of(request), identity, body.reason))

    async def answer(self, request: Request) -> TaskShort:
        """``POST /v1/tasks/{id}/answer``."""
        identity = await self.who(request)
        body = await read_body(request, AnswerBody)
        task = await self.service.answer(task_id_of(request), body.question_id, body.answer, identity)
        return TaskShort.made_from(task)

    async def stop(self, request: Request) -> Stopped:
        """``POST /v1/stop``: everything of one's own; for an admin, everything."""
        identity = await self.who(request)
        body = await read_body(request, StopBody)
        return Stopped(stopped=list(await self.service.stop_all(identity, body.reason)))


def _before(request: Request) -> tuple[datetime, TaskId] | None:
    """The last row of the page before. Raises InvalidRequest."""
    text = request.query_params.get("after", "")
    found = _CURSOR.fullmatch(text)
    if text and found is None:
        raise InvalidRequest("after is not a value that this endpoint gave.", remedy="Send the last answer's next.")
    return None if found is None else (from_us(int(found[1])), TaskId(found[2]))


def _answered(task: AgentTask, body: SubmitBody) -> TaskShort:
    """The task that was begun, now or with this key before. Raises InvalidDecision where that was another."""
    if not _is_asked_for(task, body):
        raise InvalidDecision(
            "This idempotency key was used for another task.",
            remedy="Take a new key for this one.",
            details={"used_for": task.task_id},
        )
    return TaskShort.made_from(task)


def _whole(task: AgentTask, now: datetime, more: Mapping[str, Any], online: Callable[[str], bool]) -> TaskLong:
    """A task as the endpoint answers it; ``more``: the fields that are not in its journal."""
    question = next((one for one in task.calls if one.question_id and one.state == "asking"), None)
    final = final_result(task)
    return TaskLong.made_from(
        task,
        **more,
        asked_at=task.asked_at or None,
        active_s=round(task.active_until(now), 3),
        rehearses=task.rehearses.computer if task.rehearses is not None else None,
        request=hitl_response(task, max_chars=LIST_CHARS) if task.request else None,
        lapsed_request=task.lapsed,
        calls=[_call(record, online) for record in task.calls],
        question=question
        and QuestionAnswer.made_from(
            question, question=question.call.args.get("question"), options=list(options_of(question.call.args))
        ),
        result=final and Result.made_from(final),
    )


def _call(record: CallRecord, online: Callable[[str], bool]) -> CallAnswer:
    """Where one call of the present step stands; an approved one may wait for its computer (promise B5)."""
    computer = record.call.computer
    waits = record.state is CallState.APPROVED and computer is not None and not online(computer)
    state = "approved_waiting_target" if waits else record.state.value
    return CallAnswer.made_from(record, tool=record.call.tool, computer=computer, state=state)


_COMPARED_APART: Final = {"computers", "checks", "rehearse", "idempotency_key"}
"""The fields of a submission that a task does not have by the same name."""


def _is_asked_for(task: AgentTask, body: SubmitBody) -> bool:
    """Whether a task is the one that a body asks for.

    Fields that the body leaves to the settings may have changed since.
    """
    computers = task.computers if task.rehearses is None else (task.rehearses.computer,)
    asked = {name: getattr(body, name) for name in SubmitBody.model_fields.keys() - _COMPARED_APART}
    asked["max_wall_s"] = body.max_wall_s or None
    return (
        tuple(dict.fromkeys(body.computers)) == tuple(computers)
        and checks_of(body.checks, computers, read_only=body.read_only) == task.checking.wanted
        and body.rehearse == (task.rehearses is not None)
        and all(value in (None, "") or getattr(task, name) == value for name, value in asked.items())
    )


def _must_be_rehearsable(body: SubmitBody, computers: Sequence[ComputerId]) -> None:
    """Raises InvalidRequest for a task that cannot be rehearsed."""
    if len(computers) != 1:
        raise InvalidRequest(
            "A rehearsal works on a copy of one computer.", remedy="Name exactly one, such as with --computer NAME."
        )
    if body.read_only:
        raise InvalidRequest(
            "A read-only task has nothing to rehearse.", remedy="Leave one of rehearse and read_only out."
        )
