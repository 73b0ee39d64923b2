"""The ways of a tool to a computer: to look, to make the one call of a bracket, to hear an old result again."""

import asyncio
import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.core.errors import CallLost, ComputerAway, ComputerFailed, OrchestratorError, ToolFailed
from orchestrator.core.task import AgentTask, CallRecord
from orchestrator.core.wire import ComputerId, RunId
from orchestrator.ports import CallResult
from orchestrator.world.reach import Reach


def run_id_of(record: CallRecord) -> RunId:
    """The run that a started call names. Raises CallLost for one that was never started."""
    if record.run_id is None:
        raise CallLost(f"Call {record.call_id} was never started.")
    return record.run_id


@dataclass
class Looking:
    """A channel for pure calls outside any bracket: each has an id and a number of its own."""

    reach: Reach
    computer: ComputerId | None
    until: float = math.inf
    """When nobody waits any longer, by the event loop's clock."""

    async def call(
        self, method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        computers, computer = self.reach.computers, self.computer
        if computers is None or computer is None:
            raise ToolFailed("This call names no computer.")
        if not self.reach.online(computer):
            raise ComputerAway(f"Computer {computer} is not connected.")
        left_s = self.until - asyncio.get_running_loop().time()
        if left_s <= 0:
            raise ToolFailed("The computer took too long.")
        run_id = RunId("o" + secrets.token_hex(8))
        number = await self.reach.store.allot_number(computer)
        try:
            result = await computers.call(
                computer,
                run_id=run_id,
                task_id="",
                number=number,
                method=method,
                params=params,
                body=body,
                wait_s=min(wait_s, left_s),
            )
        except ComputerFailed:
            await self.reach.acknowledge(computer, run_id)
            raise
        except CallLost as lost:
            if self.until < math.inf and self.reach.online(computer):
                raise ToolFailed("The computer took too long.") from lost
            raise
        await self.reach.acknowledge(computer, run_id)
        return result


@dataclass
class Doing:
    """The channel of one started run: it carries one frame and no more."""

    reach: Reach
    task: AgentTask
    record: CallRecord
    on_output: Callable[[int, bytes], None] | None = None
    used: bool = False

    async def call(
        self, method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        computers, computer = self.reach.computers, self.record.call.computer
        if self.used or computers is None or computer is None:
            raise OrchestratorError(f"Run {self.record.run_id} was to send a second frame.")
        self.used = True
        return await computers.call(
            computer,
            run_id=run_id_of(self.record),
            task_id=self.task.task_id,
            number=self.record.number,
            method=method,
            params=params,
            body=body,
            wait_s=wait_s,
            on_output=self.on_output,
        )


@dataclass
class Replaying:
    """A channel that answers with a result heard at settling, so that the tool words it as ever."""

    result: CallResult | Exception

    async def call(
        self, method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        del method, params, body, wait_s
        if isinstance(self.result, Exception):
            raise self.result
        return self.result
