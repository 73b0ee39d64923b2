"""Figures, log and spans of this node for an operator."""

import asyncio
import inspect
import logging
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final, NamedTuple, cast

from orchestrator.computers.hub import Hub
from orchestrator.core.errors import (
    ComputerClaimed,
    Conflict,
    GrantVoid,
    InvalidRequest,
    LeaseLost,
    NotFound,
    OrchestratorError,
    Unreadable,
)
from orchestrator.core.ports import Store
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.task.rehearsal import is_copy
from orchestrator.core.task.states import Phase, TaskStatus
from orchestrator.engine.tasks import TaskService
from orchestrator.runtime.logs import LINES
from orchestrator.runtime.metrics import Metrics, Snapshot, watch_lag
from orchestrator.runtime.tracing import Tracing, open_tracing

# -- A store whose failures are counted: any store, seen from outside --------------------

_ANSWERS: Final = (ComputerClaimed, Conflict, GrantVoid, InvalidRequest, LeaseLost, NotFound)
"""Errors that a store raises while it works well; an error about bytes that changed is not among them."""
DEFECT: Final = "defect"
"""The code of an error that is not ours, such as one of the database."""


def counted(store: Store, failures: "Counter[str]") -> Store:
    """The very store; each operation that fails adds one to ``failures`` under the code of its error."""
    return cast("Store", _Counted(store, failures))


class _Counted:
    def __init__(self, store: Store, failures: "Counter[str]") -> None:
        self._store = store
        self._failures = failures

    def __getattr__(self, name: str) -> Any:
        """The store's own, and its operations with an eye on them; found once each."""
        found = getattr(self._store, name)
        if inspect.iscoroutinefunction(found):
            found = self._watched(found)
            setattr(self, name, found)
        return found

    def _watched(self, operation: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @wraps(operation)
        async def watched(*args: Any, **kwargs: Any) -> Any:
            try:
                return await operation(*args, **kwargs)
            except Exception as error:
                if isinstance(error, Unreadable) or not isinstance(error, _ANSWERS):
                    self._failures[error.code if isinstance(error, OrchestratorError) else DEFECT] += 1
                raise

        return watched


# -- What happens to tasks, as lines of the log: each names its task, its call and its computer, and holds no
# content

logger = logging.getLogger(__name__)

_REMEMBERED: Final = 10_000
"""Calls that have not begun; the oldest make room."""


class _Said(NamedTuple):
    """One line: a sentence of ids, names of the catalog and words of closed lists."""

    sentence: str
    call_id: str = ""
    computer: str | None = None


_DETAILS: Final = (facts.ModelAsked, facts.ModelReplied, facts.ModelAwaited)
"""Logged at ``debug`` alone; of a wait for a model server the actor itself says why."""


class JournalLog:
    """Logs items that were just appended; it logs what the model does within a step only where everything is logged."""

    def __init__(self) -> None:
        self._calls: OrderedDict[str, facts.ToolCall] = OrderedDict()

    def observe(self, items: Sequence[AgentTaskItem]) -> None:
        """Take items of one append."""
        for item in items:
            if isinstance(item.fact, facts.CallsProposed):
                self._remember(item.fact.calls)
            level = logging.DEBUG if isinstance(item.fact, _DETAILS) else logging.INFO
            if not logger.isEnabledFor(level):
                continue
            said = self._said(item)
            if said is not None:
                extra = {"task_id": item.task_id, "call_id": said.call_id, "computer": said.computer}
                logger.log(level, "task %s %s", item.task_id, said.sentence, extra=extra)

    def _said(self, item: AgentTaskItem) -> _Said | None:
        match item.fact:
            case facts.ModelAsked(attempt=attempt):
                return _Said(f"asks its model, attempt {attempt}")
            case facts.ModelReplied(usage=usage):
                return _Said(f"has a reply: {usage.input_tokens} tokens in, {usage.output_tokens} out")
            case facts.ModelAwaited():
                return _Said("waits for its model server")
            case facts.ReplyRefused(because=because):
                return _Said(f"refuses a reply: {because}")
            case facts.ToolStarted() | facts.ToolFinished() | facts.ToolSettled():
                return self._of_call(item.fact)
            case facts.ReviewRequested() | facts.DecisionRecorded() | facts.RequestEnded():
                return _of_request(item)
            case _:
                return _of_task(item)

    def _of_call(self, fact: facts.ToolStarted | facts.ToolFinished | facts.ToolSettled) -> _Said:
        call = self._calls.get(fact.call_id)
        tool, computer = (call.tool, call.computer) if call is not None else ("a call", None)
        match fact:
            case facts.ToolStarted():
                return _Said(f"begins {tool}", fact.call_id, fact.computer)
            case facts.ToolFinished(ok=ok, code=code):
                how = "ok" if ok else f"failed ({code or 'no code'})"
                return _Said(f"ended {tool}: {how}", fact.call_id, computer)
            case facts.ToolSettled(state=state):
                return _Said(f"settled {tool}: {state}", fact.call_id, computer)

    def _remember(self, calls: Sequence[facts.ToolCall]) -> None:
        for call in calls:
            self._calls[call.call_id] = call
        while len(self._calls) > _REMEMBERED:
            self._calls.popitem(last=False)


def _of_request(item: AgentTaskItem) -> _Said | None:
    match item.fact:
        case facts.ReviewRequested(request_id=request_id, reason=reason, risk=risk):
            return _Said(f"waits for a decision: request {request_id}, {reason}, risk {risk.value}")
        case facts.DecisionRecorded(request_id=request_id, decisions=decisions):
            actions = ", ".join(sorted({one.action for one in decisions}))
            return _Said(f"has a decision of {item.actor.id} on request {request_id}: {actions}")
        case facts.RequestEnded(request_id=request_id, end=end):
            return _Said(f"needs no decision on request {request_id or '-'}: {end}")
        case _:
            return None


def _of_task(item: AgentTaskItem) -> _Said | None:
    match item.fact:
        case facts.TaskSubmitted(user_id=user_id, session_id=session_id, computers=computers):
            only = computers[0] if len(computers) == 1 else None
            return _Said(f"came in: of {user_id}, session {session_id}", computer=only)
        case facts.QuestionAsked(question_id=question_id, call_id=call_id):
            return _Said(f"waits for an answer: question {question_id}", call_id)
        case facts.QuestionAnswered(question_id=question_id):
            return _Said(f"has an answer to question {question_id}")
        case facts.CancelRequested():
            return _Said(f"is to stop, says {item.actor.id}")
        case facts.LimitReached(limit=limit):
            return _Said(f"is at its limit: {limit}")
        case facts.WorkFailed(effect=effect, count=count, most=most):
            return _Said(f"failed at {effect}, {count} of {most} times")
        case facts.TaskEnded(status=status, status_reason=reason):
            return _Said(f"ended: {status} ({reason})")
        case _:
            return None


# -- What an operator can watch of this node: its figures, its log, and spans where the environment asks for them

_COUNTED: Final = 10_000
"""Tasks of one status that are counted at most."""
_WAITING: Final = (TaskStatus.QUEUED, TaskStatus.RUNNING, TaskStatus.PAUSED)


@dataclass
class Watching:
    """Counts and follows what this node does."""

    metrics: Metrics = field(default_factory=Metrics)
    store_errors: "Counter[str]" = field(default_factory=Counter)
    tracing: Tracing | None = None
    """None: nobody wants spans."""
    log: JournalLog = field(default_factory=JournalLog)

    def over(self, store: Store, environ: Mapping[str, str]) -> Store:
        """The store with its failures counted; from now on spans are told as OpenTelemetry's variables ask for them."""
        self.tracing = open_tracing(environ, store.read)
        return counted(store, self.store_errors)

    def observe(self, items: Sequence[AgentTaskItem]) -> None:
        """Take items that this node appended."""
        self.metrics.observe(items)
        self.log.observe(items)
        if self.tracing is not None:
            self.tracing.observe(items)

    def keep(self) -> list[asyncio.Task[None]]:
        """The background work of the node, begun."""
        parts = [watch_lag(self.metrics.lagged), *([self.tracing.keep()] if self.tracing is not None else [])]
        return [asyncio.create_task(part) for part in parts]

    async def close(self) -> None:
        """Send the last spans."""
        if self.tracing is not None:
            await self.tracing.close()

    async def scrape(self, service: TaskService, hub: Hub) -> bytes:
        """The figures as they stand now: from the store, the hub and the log."""
        store, now = service.store, service.clock.now()
        rows = {one: await store.list_tasks(status=one, limit=_COUNTED) for one in _WAITING}
        paused = await service.known(rows[TaskStatus.PAUSED])
        since = [task.request.created_at for task in paused if task.request is not None]
        due = await store.next_due()
        tokens = await store.list_tokens()
        traffic = hub.traffic
        snapshot = Snapshot(
            computers_online=sum(info.online and not is_copy(info.computer) for info in hub.list_computers()),
            computers_known=len({row.name for row in tokens if row.kind == "computer" and not row.revoked}),
            tasks={one.value: len(found) for one, found in rows.items()},
            requests_open=len(since),
            oldest_request_s=(now - min(since)).total_seconds() if since else 0.0,
            questions_open=sum(task.phase is Phase.ANSWERING for task in paused),
            queue_age_s=max(0.0, (now - due).total_seconds()) if due is not None else 0.0,
            wire_bytes={"in": traffic.bytes_in, "out": traffic.bytes_out},
            wire_frames={"in": traffic.frames_in, "out": traffic.frames_out},
            store_errors=self.store_errors,
            log_lines=LINES,
        )
        return self.metrics.render(snapshot)
