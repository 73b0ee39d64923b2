"""A worker of the step bench: the real actor on a real journal, with a model that answers at once.

Each step the model asks for one read that the policy allows, of a file that only stub mode has,
so that nothing is waited for: what is left is what a durable step costs. ``kind`` says what
else can be measured here: ``floor`` is the least that keeps the same promise by hand.
"""

import gc
import itertools
import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, TypeAdapter

from bench.measure import Spent
from bench.worker import answer_all, options, own_directory, run
from orchestrator.adapters.bus.local import LocalBus
from orchestrator.adapters.store import open_store
from orchestrator.adapters.store.sqlite import SqlitePersistenceManager
from orchestrator.core.approval.deciders import Saying
from orchestrator.core.ports import ChatMessage, Identity, ModelReply, RequestAuthorizer, Store
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.task import AgentTask
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.tasks import TaskService
from orchestrator.engine.workers import LEASE_S, process_task
from orchestrator.runtime.clock import SystemClock
from orchestrator.tools.deps import CCAgentDeps
from orchestrator.tools.environment import Environment

WHO: Final = Identity(kind="person", name="bench", roles=("admin",))
FINAL: Final = json.dumps(
    {"kind": "final", "explanation": "All was read.", "success": True, "message": "Read it all.", "details": {}}
)
_files = itertools.count()


def wants(number: int) -> str:
    """A reply that asks for one read; of a few files, since stub mode looks at all that it has for each call.

    No two ask for the same, which would end the task.
    """
    call = {"tool": "cc_read", "args": {"path": f"logs/day-{number % 16}.txt", "max_lines": number // 16 + 1}}
    return json.dumps({"kind": "tool", "explanation": f"I look at day {number} next.", "tool_call": call})


class Instant:
    """The port ``ChatModel`` with a reply that is there already, ``steps`` times, then the end."""

    name = "instant"

    def __init__(self, steps: int) -> None:
        self._replies = iter([*(wants(number) for number in range(steps)), FINAL])

    async def window(self) -> None:
        """It does not say."""

    async def reply(
        self,
        messages: Sequence[ChatMessage],
        *,
        on_text: Callable[[str], None] | None = None,
        max_output_tokens: int | None = None,
        user: str = "",
        affinity: str = "",
        one_computer: bool = False,
    ) -> ModelReply:
        """The next reply."""
        del messages, on_text, max_output_tokens
        return ModelReply(text=next(self._replies))


class Anybody(RequestAuthorizer):
    """Nobody asks to decide here."""

    async def authenticate(self, authorization: str | None) -> Identity:
        """Raises nothing."""
        del authorization
        return WHO

    def may_decide(self, identity: Identity, task: AgentTask, action: Saying = "approve") -> bool:
        """Yes."""
        del identity, task, action
        return True

    def who_decides(self, task: AgentTask) -> str:
        """Anybody."""
        del task
        return "anybody"


async def task_at_work(store: Store, steps: int) -> Spent:
    """One fresh task, from lease to end."""
    service = TaskService(store=store, bus=LocalBus(), clock=SystemClock(), authorizer=Anybody())
    submitted = await service.submit(
        "Read the logs.", user=WHO, computers=[ComputerId("stub")], model="instant", max_steps=0
    )
    world = Environment(store=store, library=CCAgentDeps(mode="stub"))
    lease = await store.lease("bench", LEASE_S)
    if lease is None or lease.task_id != submitted.task_id:
        raise RuntimeError("The queue gave another task than the one that is measured.")
    model = Instant(steps)
    gc.collect()
    with Spent() as spent:
        task = await process_task(lease, service=service, world=world, model_for=lambda _: model)
    if task.status is not TaskStatus.COMPLETED or task.steps != steps + 1:
        raise RuntimeError(f"The task ended {task.status} after {task.steps} steps: {task.ended}")
    return spent


async def ours(directory: Path, steps: int, tasks: int) -> dict[str, float]:
    """Microseconds of a step, over ``tasks`` fresh tasks on a fresh file, one after the other."""
    store = open_store(f"sqlite:///{directory / f'ours-{next(_files)}.db'}", clock=SystemClock())
    try:
        await task_at_work(store, 3)
        spent = [await task_at_work(store, steps) for _ in range(tasks)]
    finally:
        await store.close()
    total = Spent()
    total.cpu_s, total.wall_s = sum(one.cpu_s for one in spent), sum(one.wall_s for one in spent)
    return total.per(steps * tasks)


# -- by hand -----------------------------------------------------------------------------


class _Args(BaseModel):
    path: str
    max_lines: int


class _Call(BaseModel):
    tool: Literal["cc_read"]
    args: _Args


class _Tool(BaseModel):
    kind: Literal["tool"]
    explanation: str
    tool_call: _Call


class _Final(BaseModel):
    kind: Literal["final"]
    message: str


_REPLY: Final[TypeAdapter[_Tool | _Final]] = TypeAdapter(Annotated[_Tool | _Final, Field(discriminator="kind")])


async def floor(directory: Path, steps: int, tasks: int) -> dict[str, float]:
    """Microseconds of a step by hand: validate the reply, write it down, do it, write down what came of it."""
    connection = sqlite3.connect(directory / f"floor-{next(_files)}.db", isolation_level=None)
    for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA fullfsync = ON"):
        connection.execute(statement)
    connection.execute("CREATE TABLE items (task, version, data, PRIMARY KEY (task, version))")
    files: dict[str, str] = {}
    with Spent() as spent:
        for task in range(tasks):
            for step in range(steps):
                reply = _REPLY.validate_json(wants(step))
                assert isinstance(reply, _Tool)
                connection.execute("INSERT INTO items VALUES (?, ?, ?)", (task, 2 * step, reply.model_dump_json()))
                path = reply.tool_call.args.path
                text = files.setdefault(path, f"-- Stub content for {path}\n")
                connection.execute("INSERT INTO items VALUES (?, ?, ?)", (task, 2 * step + 1, json.dumps(text)))
    connection.close()
    return spent.per(steps * tasks)


async def flush(directory: Path, steps: int, tasks: int) -> dict[str, float]:
    """Microseconds of one commit that the disk has: the least that a promise to outlive a power cut costs here."""
    connection = sqlite3.connect(directory / f"flush-{next(_files)}.db", isolation_level=None)
    for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA fullfsync = ON"):
        connection.execute(statement)
    connection.execute("CREATE TABLE flushed (number)")
    with Spent() as spent:
        for number in range(steps * tasks):
            connection.execute("INSERT INTO flushed VALUES (?)", (number,))
    connection.close()
    return spent.per(steps * tasks)


async def commits(directory: Path, steps: int, tasks: int) -> dict[str, float]:
    """How many transactions this project commits for a step; start and end of the task are left out."""
    counted: list[int] = []
    for length in (steps, 2 * steps):
        told: list[str] = []
        path = directory / f"commits-{next(_files)}.db"
        store = SqlitePersistenceManager(path, clock=SystemClock(), trace=told.append)
        try:
            for _ in range(tasks):
                await task_at_work(store, length)
        finally:
            await store.close()
        counted.append(told.count("COMMIT"))
    return {"commits": (counted[1] - counted[0]) / (steps * tasks)}


async def main() -> None:
    """Measure as the pipe says."""
    told = options()
    directory = own_directory(told)
    measure = {"ours": ours, "floor": floor, "flush": flush, "commits": commits}[told["kind"]]

    async def handle(request: dict[str, Any]) -> dict[str, Any]:
        return dict(await measure(directory, request["steps"], request["tasks"]))

    await answer_all(handle)


if __name__ == "__main__":
    run(main)
