"""The library form: one task on a journal in memory, for programs that want no server.

Where a person has to decide it raises, and goes on when it is called again with decisions.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from orchestrator.adapters.bus.local import LocalBus
from orchestrator.adapters.models import as_chat_model
from orchestrator.adapters.store.sqlite import InMemoryPersistenceManager
from orchestrator.core.approval.approval import CallDecision, CallState, ResumeRequest
from orchestrator.core.approval.deciders import Saying
from orchestrator.core.errors import HitlInterventionRequired, NotPending
from orchestrator.core.policy import Policy, default_policy
from orchestrator.core.ports import ChatModel, Identity, RequestAuthorizer
from orchestrator.core.reply.response import FinalResult
from orchestrator.core.task.facts import CallId, TaskId
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.states import Phase
from orchestrator.core.task.task import AgentTask
from orchestrator.core.task.transcript import Transcript
from orchestrator.core.values import immutable
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.active_policy import NodePolicy
from orchestrator.engine.tasks import TaskService, final_result
from orchestrator.engine.workers import LEASE_S, process_task
from orchestrator.runtime.clock import SystemClock
from orchestrator.tools.deps import CCAgentDeps
from orchestrator.tools.environment import Environment

logger = logging.getLogger(__name__)

_FOR_PEOPLE = frozenset({Phase.REVIEWING, Phase.ANSWERING})
"""Phases in which only a person, or much time, brings a task on."""


@immutable
class LibraryTask(AgentTask):
    """A paused task of the library form, with the journal it lives in."""

    store: Any = field(default=None, compare=False, repr=False)


class _AnyoneDecides(RequestAuthorizer):
    """The caller of the library form is the person in charge."""

    async def authenticate(self, authorization: str | None) -> Identity:
        del authorization
        return _CALLER

    def may_decide(self, identity: Identity, task: AgentTask, action: Saying = "approve") -> bool:
        del identity, task, action
        return True

    def who_decides(self, task: AgentTask) -> str:
        del task
        return _CALLER.name


_CALLER = Identity(kind="person", name="caller", roles=("admin",), auth="library")


async def execute_task_with_agent(
    task: str | AgentTask,
    deps: CCAgentDeps,
    *,
    model: Any,
    max_steps: int = 20,
    decisions: Mapping[CallId, CallDecision] | None = None,
    policy: Policy | None = None,
    wait_for_model: bool = False,
    checks: Sequence[str] = (),
) -> FinalResult:
    """Run one task to its end and answer the final result.

    ``task`` is the prompt, or ``exc.task`` of an earlier call; ``model`` a ChatModel, a pydantic-ai
    Model or a name; ``policy`` None is the shipped one; ``checks`` say what has to hold at its success, a line
    each. A model server that cannot be reached is waited for, for 2 minutes, with ``wait_for_model`` without an end.
    Raises HitlInterventionRequired with all calls of the step where a person has to decide: call again with
    ``exc.task`` and ``decisions``. Raises InvalidRequest for a check that cannot be made.
    """
    store = getattr(task, "store", None) or InMemoryPersistenceManager()
    world = Environment(store=store, workspace=deps.workspace, library=deps)
    in_force = policy or default_policy()
    service = TaskService(
        store=store,
        bus=LocalBus(),
        clock=SystemClock(),
        authorizer=_AnyoneDecides(),
        observer=_Log(task if isinstance(task, AgentTask) else None),
        active_policy=NodePolicy(lambda: in_force, world.context),
    )
    task_id = await _submitted(service, task, deps, max_steps, checks, wait_for_model=wait_for_model)
    if decisions:
        await _decide(service, task_id, decisions)
    await _act(service, world, as_chat_model(model), task_id)
    folded = await service.load(task_id)
    final = final_result(folded)
    if final is not None:
        return final
    paused = LibraryTask(**{name: getattr(folded, name) for name in AgentTask.__dataclass_fields__}, store=store)
    raise HitlInterventionRequired([record.call for record in folded.calls], task=paused)


class _Log:
    """Logs the steps of a task as they happen."""

    def __init__(self, resumed: AgentTask | None) -> None:
        self._transcript = Transcript(names_computers=False)
        if resumed is not None:
            self._transcript.resume(resumed.steps, [record.call for record in resumed.calls])

    def __call__(self, items: Sequence[AgentTaskItem]) -> None:
        for item in items:
            for line in self._transcript.lines(item):
                logger.info("%s", line, extra={"task_id": item.task_id})


async def _submitted(
    service: TaskService,
    task: str | AgentTask,
    deps: CCAgentDeps,
    max_steps: int,
    checks: Sequence[str],
    *,
    wait_for_model: bool,
) -> TaskId:
    if isinstance(task, AgentTask):
        if getattr(task, "store", None) is None:
            raise NotPending("This task has no journal of its own.", remedy="Pass exc.task as it was raised.")
        return task.task_id
    submitted = await service.submit(
        task,
        user=_CALLER,
        computers=[ComputerId(deps.computer or "stub")],
        model="library",
        max_steps=max_steps,
        wait_for_model=wait_for_model,
        checks=checks,
    )
    return submitted.task_id


async def _decide(service: TaskService, task_id: TaskId, decisions: Mapping[CallId, CallDecision]) -> None:
    task = await service.load(task_id)
    answers = [one for one in decisions.values() if one.action == "respond" and _asks(task, one.call_id)]
    for one in answers:
        record = task.call(one.call_id)
        question_id = record.question_id if record is not None else None
        if question_id is not None:
            task = await service.answer(task_id, question_id, one.answer or "", _CALLER)
    if len(answers) == len(decisions):
        return
    if task.request is None:
        raise NotPending("The task waits for no decision.")
    # The exception names all calls of the step: approving one that needed nobody changes nothing.
    harmless = {record.call_id for record in task.calls} - set(task.request.call_ids)
    wanted = [one for one in decisions.values() if one not in answers]
    asked = [one for one in wanted if one.action != "approve" or one.call_id not in harmless]
    if not asked:
        raise NotPending("None of these calls waits for a decision.", remedy="Decide exc.task.pending_tool_calls.")
    resume = ResumeRequest(decisions=tuple(asked))
    await service.decide(task.request.request_id, resume, _CALLER)


def _asks(task: AgentTask, call_id: CallId) -> bool:
    record = task.call(call_id)
    return record is not None and record.state is CallState.ASKING


async def _act(service: TaskService, world: Environment, model: ChatModel, task_id: TaskId) -> None:
    """Act until the one task of this journal waits for a person or is over."""
    while True:
        lease = await service.store.lease("library", LEASE_S)
        if lease is not None:
            await process_task(lease, service=service, world=world, model_for=lambda _: model)
            continue
        due = await service.store.next_due()
        if due is None or (await service.load(task_id)).phase in _FOR_PEOPLE:
            return
        await asyncio.sleep(max(0.0, (due - service.clock.now()).total_seconds()))
