"""What computers are told without being asked: which questions wait there, as they open and close.

One loop for all computers: what changes within a second goes together, and only tasks that changed are
looked at. Where something waits it is looked at again from time to time, so that who lost access hears it.
"""

import asyncio
import contextlib
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from orchestrator.core.errors import Forbidden, OrchestratorError, Unauthenticated
from orchestrator.core.ports import ComputerLine, Identity, TaskPersistenceManager
from orchestrator.core.task.facts import TaskId
from orchestrator.core.task.items import AT_COMPUTER
from orchestrator.core.task.task import AgentTask
from orchestrator.engine.tasks import TaskService, patiently

# -- How often a computer may ask: a farm loop that types ``cc ask`` must not fill the queue

WITHIN_S: Final = 60.0
ASKS_A_MINUTE: Final = 6
"""New tasks: a person types no faster, and each costs minutes of a model."""
_BEGIN: Final = ("ask", "undo")
"""What begins a task."""
OTHERS_A_MINUTE: Final = 60
MAX_OPEN: Final = 4
"""Requests of one computer that are answered at once: somebody at each side of a monitor."""
_COMPUTERS: Final = 10_000
"""Computers that are remembered; the one that asked longest ago makes room."""


@dataclass
class Rate:
    """Requests of each computer within the last minute."""

    most: int
    _times: dict[str, deque[float]] = field(default_factory=dict)

    def wait_s(self, computer: str, now: float) -> float:
        """Seconds until there is room for one more; 0: there is, and it is taken."""
        times = self._times.pop(computer, deque())
        while times and now - times[0] >= WITHIN_S:
            times.popleft()
        self._times[computer] = times
        if len(self._times) > _COMPUTERS:
            del self._times[next(iter(self._times))]
        if len(times) >= self.most:
            return times[0] + WITHIN_S - now
        times.append(now)
        return 0.0


@dataclass
class Limits:
    """All computers' rates."""

    asks: Rate = field(default_factory=lambda: Rate(ASKS_A_MINUTE))
    others: Rate = field(default_factory=lambda: Rate(OTHERS_A_MINUTE))

    def wait_s(self, computer: str, verb: str, now: float) -> float:
        """Seconds that a request has to wait; 0: none."""
        return (self.asks if verb in _BEGIN else self.others).wait_s(computer, now)


# -- For whom a player at a computer asks, with the rights that this person has now ------

_PAIR: Final = "Pair it again: `cc-orchestrator pair {computer}`, and type its line here."


async def person_at(store: TaskPersistenceManager, line: ComputerLine) -> Identity:
    """The person who paired the computer. Raises Unauthenticated, Forbidden: each says to pair again.

    Looked up anew for each request: who was revoked, or lost a role, asks no more.
    """
    pair = _PAIR.format(computer=line.computer)
    row = await store.find_token(line.fingerprint)
    if row is None or row.revoked or row.kind != "computer":
        raise Unauthenticated("The token of this computer is not good any more.", remedy=pair)
    if not row.owner:
        raise Forbidden("Nobody knows who paired this computer, so nobody can ask here.", remedy=pair)
    rows = [one for one in await store.list_tokens() if one.kind == "person" and one.name == row.owner]
    roles = tuple(dict.fromkeys(role for one in rows if not one.revoked for role in one.roles))
    if not roles:
        raise Forbidden(f"{row.owner}, who paired this computer, has no access any more.", remedy=pair)
    return Identity(kind="person", name=row.owner, roles=roles, auth=f"{AT_COMPUTER}{line.computer}")


def must_submit(person: Identity) -> None:
    """Raises Forbidden unless this person may submit tasks."""
    if not {"submitter", "admin"} & set(person.roles):
        raise Forbidden(
            f"{person.name}, who paired this computer, may not submit tasks.",
            remedy="It takes the role submitter: ask an admin.",
        )


# -- What computers are told without being asked: which questions wait there, as they open and close

logger = logging.getLogger(__name__)

EVERY_S: Final = 1.0
"""Between two looks at what changed."""
AGAIN_S: Final = 5.0
"""After so long it is looked whether what was told to wait still does, and for whom."""

Rows = list[dict[str, str]]


class News:
    """Tells each open line its questions. ``rows`` raises OrchestratorError where nobody may be told any more."""

    def __init__(
        self,
        service: TaskService,
        *,
        rows: Callable[[ComputerLine], Awaitable[Rows]],
        asks: Callable[[AgentTask], bool],
        tell: Callable[[ComputerLine, Rows], None],
        tell_wrong: Callable[[ComputerLine, OrchestratorError], None],
    ) -> None:
        self._service = service
        self._rows, self._asks, self._tell, self._tell_wrong = rows, asks, tell, tell_wrong
        self._told: dict[ComputerLine, Rows] = {}
        self._due: set[ComputerLine] = set()
        self._changed: set[TaskId] = set()
        self._woken = asyncio.Event()
        self._ends: list[Callable[[], object]] = []

    def opened(self, line: ComputerLine) -> None:
        """Tell this computer from now on."""
        if not self._ends:
            self._ends = [
                self._service.bus.subscribe("tasks", self._hear),
                asyncio.ensure_future(self._work()).cancel,
            ]
        self._told[line] = []
        self._due.add(line)
        self._woken.set()

    def closed(self, line: ComputerLine) -> None:
        """The computer is gone."""
        self._told.pop(line, None)
        self._due.discard(line)

    def close(self) -> None:
        """Tell nobody any more."""
        for end in self._ends:
            end()
        self._ends = []

    def _hear(self, payload: Mapping[str, Any]) -> None:
        if self._told:
            self._changed.add(TaskId(payload["task_id"]))
            self._woken.set()

    async def _work(self) -> None:
        while True:
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN_S):
                        await self._woken.wait()
                await self._look(again=not self._woken.is_set())
            except Exception:
                logger.exception("the in-game commands cannot tell what is new")
            await asyncio.sleep(EVERY_S)

    async def _look(self, *, again: bool) -> None:
        self._woken.clear()
        changed, self._changed = self._changed, set()
        due, self._due = self._due, set()
        if again:
            due |= {line for line, told in self._told.items() if told}
        for task_id in changed:
            task = await patiently(partial(self._service.if_known, task_id), for_s=math.inf)
            due |= {line for line, told in self._told.items() if task is not None and self._concerns(task, line, told)}
        for line in due:
            await self._news(line)

    def _concerns(self, task: AgentTask, line: ComputerLine, told: Rows) -> bool:
        known = any(row["task"] == task.task_id for row in told)
        return line.computer in task.computers and (known or self._asks(task))

    async def _news(self, line: ComputerLine) -> None:
        try:
            rows = await self._rows(line)
        except OrchestratorError as error:
            if self._told.get(line):
                self._told[line] = []
                self._tell_wrong(line, error)
            return
        if line in self._told and rows != self._told[line]:
            self._told[line] = rows
            self._tell(line, rows)
