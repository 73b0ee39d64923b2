"""A task at work, and the library form of one.

``process_task`` acts for one leased task until it waits or is over; :mod:`orchestrator.workers` does so for ever.
``execute_task_with_agent`` is the same actor on a journal in memory, for programs that want no
server: where a person has to decide it raises, and goes on when called again with decisions.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from orchestrator.actor import Leaving, TaskActor
from orchestrator.bus.local import LocalBus
from orchestrator.clock import SystemClock
from orchestrator.core.approval import CallDecision, CallState, ResumeRequest
from orchestrator.core.errors import Conflict, HitlInterventionRequired, NotPending, OrchestratorError, StoreAway
from orchestrator.core.facts import CallId, TaskId
from orchestrator.core.items import AgentTaskItem
from orchestrator.core.policy import Policy, default_policy
from orchestrator.core.response import FinalResult
from orchestrator.core.rights import Saying
from orchestrator.core.task import AgentTask
from orchestrator.core.task_states import Phase
from orchestrator.core.transcript import Transcript
from orchestrator.core.wire import ComputerId
from orchestrator.law import PolicyInForce
from orchestrator.model import as_chat_model
from orchestrator.ports import ChatModel, Identity, Lease, RequestAuthorizer, Store
from orchestrator.store.memory import InMemoryPersistenceManager
from orchestrator.tasks import TaskService, final_result, patiently
from orchestrator.tools.deps import CCAgentDeps
from orchestrator.world import World

logger = logging.getLogger(__name__)

LEASE_S = 30.0
"""How long a dead actor's task waits for another, where nobody sets it; renewed three times in it."""
_PATIENCE_LEASES = 2.0
"""Lease times that an actor asks a store again that is away: it may well be nobody else's until then."""
GIVE_BACK_S = 2.0
"""What giving a lease back may take: if it takes longer, the lease ends by itself."""


async def process_task(
    lease: Lease,
    *,
    service: TaskService,
    world: World,
    model_for: Callable[[AgentTask], ChatModel],
    leaving: Leaving | None = None,
    lease_s: float = LEASE_S,
) -> AgentTask:
    """Act for a leased task until it waits, is over or, when the node is left, handed over.

    Raises LeaseLost when another actor has it. A node that does not reach the store does not stop what it is at:
    nothing new begins without the store, what is under way is known to nobody else, and whoever took the lease
    meanwhile is told of by the first answer.
    """
    task = await service.load(lease.task_id)
    leaving = leaving or Leaving()
    patience_s = _PATIENCE_LEASES * lease_s
    actor = TaskActor(
        lease=lease,
        service=service,
        world=world,
        model=model_for(task),
        task=task,
        leaving=leaving,
        patience_s=patience_s,
    )
    renewing = asyncio.create_task(_renew(service.store, lease, lease_s, patience_s))
    acting = asyncio.create_task(actor.run())
    try:
        with leaving.letting_go(acting.cancel):
            await asyncio.wait((renewing, acting), return_when=asyncio.FIRST_COMPLETED)
        if renewing.done() and not acting.done():
            await renewing
        if acting.cancelled():
            if leaving.over:
                return await give_back(service, lease)
            # Nobody canceled this wait: passed on as it is, it would end the worker.
            raise OrchestratorError("What the task was at was canceled from within.")
        return await acting
    finally:
        for part in (renewing, acting):
            part.cancel()
        await asyncio.gather(renewing, acting, return_exceptions=True)


async def give_back(service: TaskService, lease: Lease, pause_s: float = 0.0) -> AgentTask:
    """The task as it stands, its lease given back and due again after a pause. Raises LeaseLost, StoreAway.

    An append that is still on its way is fenced by it, or is seen by the next look.
    """
    try:
        async with asyncio.timeout(GIVE_BACK_S):
            while True:
                task = await service.load(lease.task_id)
                try:
                    await service.store.park(lease, task.version, due=service.clock.now() + timedelta(seconds=pause_s))
                except Conflict:
                    continue
                service.falls_due(task.task_id)
                return task
    except TimeoutError:
        raise StoreAway(f"The lease on task {lease.task_id} could not be given back; it ends by itself.") from None


async def _renew(store: Store, lease: Lease, lease_s: float, patience_s: float) -> None:
    """Hold on to the lease; ends only by raising LeaseLost, or why the store was away for all of the patience."""
    while True:
        await asyncio.sleep(lease_s / 3)
        await patiently(lambda: store.renew(lease, lease_s), for_s=patience_s)


_FOR_PEOPLE = frozenset({Phase.REVIEWING, Phase.ANSWERING})
"""Phases in which only a person, or much time, brings a task on."""

# -- the library form --------------------------------------------------------------------


@dataclass(frozen=True)
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
        self._transcript = Transcript()
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
