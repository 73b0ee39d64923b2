"""Tasks at work: the queue's workers, and the library form of one task.

``process_task`` acts for one leased task until it waits or is over; ``work`` does so for ever.
``execute_task_with_agent`` is the same actor on a journal in memory, for programs that want no
server: where a person has to decide it raises, and goes on when called again with decisions.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from orchestrator.actor import TaskActor
from orchestrator.bus.local import LocalBus
from orchestrator.clock import SystemClock
from orchestrator.core.approval import CallDecision, CallState, ResumeRequest
from orchestrator.core.errors import HitlInterventionRequired, LeaseLost, NotPending, OrchestratorError
from orchestrator.core.facts import CallId, DecisionAction, TaskId
from orchestrator.core.items import AgentTaskItem
from orchestrator.core.policy import Policy, default_policy
from orchestrator.core.response import FinalResult
from orchestrator.core.task import AgentTask
from orchestrator.core.task_states import Phase
from orchestrator.core.transcript import Transcript
from orchestrator.core.wire import ComputerId
from orchestrator.law import PolicyInForce
from orchestrator.logs import about
from orchestrator.model import as_chat_model
from orchestrator.ports import ChatModel, Identity, Lease, Store
from orchestrator.store.memory import InMemoryPersistenceManager
from orchestrator.tasks import TaskService, final_result
from orchestrator.tools.deps import CCAgentDeps
from orchestrator.world import World

logger = logging.getLogger(__name__)

LEASE_S = 30.0
"""How long a dead actor's task waits for another; renewed three times in it."""
_IDLE_S = 5.0
"""How long a worker trusts the bus before it looks at the queue by itself."""
_HELD_S = 1.0
"""How soon a worker that may not act looks whether it may."""
_AGAIN_S = 0.5
"""Until a worker asks a store again that failed; then twice as long each time."""
_AGAIN_AT_MOST_S = 30.0


async def process_task(
    lease: Lease,
    *,
    service: TaskService,
    world: World,
    model_for: Callable[[AgentTask], ChatModel],
) -> AgentTask:
    """Act for a leased task until it waits or is over. Raises LeaseLost when another actor has it."""
    task = await service.load(lease.task_id)
    actor = TaskActor(lease=lease, service=service, world=world, model=model_for(task), task=task)
    renewing = asyncio.create_task(_renew(service.store, lease))
    acting = asyncio.create_task(actor.run())
    try:
        await asyncio.wait((renewing, acting), return_when=asyncio.FIRST_COMPLETED)
        if renewing.done() and not acting.done():
            await renewing
        if acting.cancelled():
            # Nobody canceled this wait: passed on as it is, it would end the worker.
            raise OrchestratorError("What the task was at was canceled from within.")
        return await acting
    finally:
        for part in (renewing, acting):
            part.cancel()
        await asyncio.gather(renewing, acting, return_exceptions=True)


async def _renew(store: Store, lease: Lease) -> None:
    while True:
        await asyncio.sleep(LEASE_S / 3)
        await store.renew(lease, LEASE_S)


@dataclass
class Workers:
    """The workers of one node: each takes a due task, acts for it, and takes the next."""

    service: TaskService
    world: World
    model_for: Callable[[AgentTask], ChatModel]
    holder: str
    count: int = 4
    may_act: Callable[[], bool] = lambda: True
    """Whether tasks are taken on now."""
    _due: asyncio.Event = field(default_factory=asyncio.Event)

    async def work(self) -> None:
        """Work until canceled."""
        ends = [self.service.bus.subscribe(subject, lambda _: self._due.set()) for subject in ("tasks", "tasks.due")]
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.count):
                    group.create_task(self._worker())
        finally:
            for unsubscribe in ends:
                unsubscribe()

    async def _worker(self) -> None:
        pause_s = _AGAIN_S
        while True:
            self._due.clear()
            if not self.may_act():
                await asyncio.sleep(_HELD_S)
                continue
            try:
                lease = await self.service.store.lease(self.holder, LEASE_S)
                if lease is None:
                    await self._idle()
            except Exception as error:
                # A worker that ended would be missed until the next start of the server.
                known = isinstance(error, OrchestratorError)
                logger.error("the queue is looked at again in %g s: %s", pause_s, error, exc_info=not known)  # noqa: TRY400 - it explains itself
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _AGAIN_AT_MOST_S)
                continue
            pause_s = _AGAIN_S
            if lease is None:
                continue
            self._due.set()
            with about(task_id=lease.task_id):
                await self._process(lease)

    async def _process(self, lease: Lease) -> None:
        try:
            await process_task(
                lease,
                service=self.service,
                world=self.world,
                model_for=self.model_for,
            )
        except LeaseLost:
            logger.warning("task %s is acted for elsewhere now", lease.task_id)
        except OrchestratorError as error:
            logger.error("task %s stops for now: %s", lease.task_id, error)  # noqa: TRY400 - it explains itself
            await self._postpone(lease)
        except Exception:
            logger.exception("task %s met a defect and stops for now", lease.task_id)
            await self._postpone(lease)

    async def _idle(self) -> None:
        due = await self.service.store.next_due()
        seconds = _IDLE_S
        if due is not None:
            seconds = min(seconds, max(0.0, (due - self.service.clock.now()).total_seconds()))
        try:
            async with asyncio.timeout(seconds):
                await self._due.wait()
        except TimeoutError:
            pass

    async def _postpone(self, lease: Lease) -> None:
        try:
            task = await self.service.load(lease.task_id)
            await self.service.store.park(lease, task.version, due=self.service.clock.now() + timedelta(seconds=5))
        except OrchestratorError as error:
            logger.info("task %s: %s", lease.task_id, error)


_FOR_PEOPLE = frozenset({Phase.REVIEWING, Phase.ANSWERING})
"""Phases in which only a person, or much time, brings a task on."""

# -- the library form --------------------------------------------------------------------


@dataclass(frozen=True)
class LibraryTask(AgentTask):
    """A paused task of the library form, with the journal it lives in."""

    store: Any = field(default=None, compare=False, repr=False)


class _AnyoneDecides:
    """The caller of the library form is the person in charge."""

    async def authenticate(self, authorization: str | None) -> Identity:
        del authorization
        return _CALLER

    def may_decide(self, identity: Identity, task: AgentTask, action: DecisionAction = "approve") -> bool:
        del identity, task, action
        return True


_CALLER = Identity(kind="person", name="caller", roles=("admin",), auth="library")


async def execute_task_with_agent(
    task: str | AgentTask,
    deps: CCAgentDeps,
    *,
    model: Any,
    max_steps: int = 20,
    decisions: Mapping[CallId, CallDecision] | None = None,
    policy: Policy | None = None,
) -> FinalResult:
    """Run one task to its end and answer the final result.

    ``task`` is the prompt, or ``exc.task`` of an earlier call; ``model`` a ChatModel, a pydantic-ai
    Model or a name; ``policy`` None is the shipped one. Raises HitlInterventionRequired with all
    calls of the step where a person has to decide: call again with ``exc.task`` and ``decisions``.
    """
    store = getattr(task, "store", None) or InMemoryPersistenceManager()
    world = World(store=store, workspace=deps.workspace, library=deps)
    in_force = policy or default_policy()
    service = TaskService(
        store=store,
        bus=LocalBus(),
        clock=SystemClock(),
        authorizer=_AnyoneDecides(),
        observer=_Log(task if isinstance(task, AgentTask) else None),
        law=PolicyInForce(lambda: in_force, world.context),
    )
    task_id = await _submitted(service, task, deps, max_steps)
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
        self._transcript = Transcript()
        if resumed is not None:
            self._transcript.resume(resumed.steps, [record.call for record in resumed.calls])

    def __call__(self, items: Sequence[AgentTaskItem]) -> None:
        for item in items:
            for line in self._transcript.lines(item):
                logger.info("%s", line, extra={"task_id": item.task_id})


async def _submitted(service: TaskService, task: str | AgentTask, deps: CCAgentDeps, max_steps: int) -> TaskId:
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


async def _act(service: TaskService, world: World, model: ChatModel, task_id: TaskId) -> None:
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
