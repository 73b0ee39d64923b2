"""The ways of a tool to a computer: to look, to make the one call of a bracket, to hear an old result again."""

import asyncio
import contextlib
import math
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.core.errors import CallLost, ComputerAway, ComputerFailed, OrchestratorError, ToolFailed
from orchestrator.core.policy import PolicyContext
from orchestrator.core.ports import CallResult, Computers, Receipt, Store
from orchestrator.core.ports.computers import OWN_TOKEN
from orchestrator.core.task.facts import Observed
from orchestrator.core.task.task import AgentTask, CallRecord
from orchestrator.core.wire.own_token import hidden
from orchestrator.core.wire.wire import ComputerId, RunId
from orchestrator.tools.deps import CommandChannel

# -- Which computers there are, whether they can be reached, and the numbers that their acknowledgements carry


@dataclass
class Reach:
    """The computers of one orchestrator, and the store that numbers what is said to them."""

    store: Store
    computers: Computers | None = None
    """None: there are none, as in a library call, whose tools bring what they work with."""
    awaited: set[ComputerId] = field(default_factory=set)
    """Computers for which this node let a task sleep: when one comes to another node, which may have woken the tasks
    that waited for it just before the task slept, they are woken once more."""

    def pinned(self, computers: Collection[ComputerId | None]) -> contextlib.AbstractAsyncContextManager[None]:
        """Know where these computers are while this is open: all else asks for it first. Raises StoreAway."""
        named = [one for one in computers if one is not None]
        return contextlib.nullcontext() if self.computers is None else self.computers.pinned(named)

    async def find(self, computer: ComputerId) -> bool:
        """Look anew where a pinned computer is; whether a call to it can be made now. Raises StoreAway."""
        if self.computers is not None:
            await self.computers.find([computer])
        return self.online(computer)

    async def reaches(self, computer: ComputerId) -> bool:
        """Whether a call to a computer can be made now, pinned or not. Raises StoreAway."""
        async with self.pinned([computer]):
            return self.online(computer)

    def online(self, computer: ComputerId) -> bool:
        """Whether a call to a pinned computer can be made now."""
        if self.computers is None:
            return True
        info = self.computers.info(computer)
        return info is not None and info.online

    def context(self, computer: ComputerId | None) -> PolicyContext:
        """The policy's facts of a call's computer."""
        info = self.computers.info(computer) if self.computers and computer else None
        if info is None:
            return PolicyContext(computer=computer)
        return PolicyContext(computer=computer, family=info.family, label=info.label, former_labels=info.former_labels)

    async def known(self, computer: ComputerId) -> PolicyContext:
        """The policy's facts of a computer, pinned or not. Raises StoreAway."""
        async with self.pinned([computer]):
            return self.context(computer)

    def identity(self, computer: ComputerId | None) -> str:
        """Which computer goes by this name now; empty where that is not known, or on this host."""
        info = self.computers.info(computer) if self.computers and computer else None
        return info.identity if info is not None else ""

    def receipt(self, computer: ComputerId | None, told: Callable[[int], object]) -> Receipt | None:
        """How an append allots the number of the acknowledgement too; None: nobody would hear one."""
        if computer is None or self.computers is None or not self.online(computer):
            return None
        return Receipt(computer, self.computers.heard(computer), told)

    async def acknowledge(self, computer: ComputerId | None, run_id: RunId, number: int | None = None) -> None:
        """Let the computer forget an outcome that is durable here; ``number``: allotted with it, None: not yet."""
        if computer is not None and self.computers is not None and self.online(computer):
            if number is None:
                number = await self.store.allot_number(computer, heard=self.computers.heard(computer))
            self.computers.acknowledge(computer, run_id, number)


# -- The ways of a tool to a computer: to look, to make the one call of a bracket, to hear an old result again


def run_id_of(record: CallRecord) -> RunId:
    """The run that a started call names. Raises CallLost for one that was never started."""
    if record.run_id is None:
        raise CallLost(f"Call {record.call_id} was never started.")
    return record.run_id


@dataclass
class Looking:
    """A channel for pure calls outside any bracket: each has an id and a number of its own.

    The number of its acknowledgement is allotted with it, and what was heard before is kept then: an outcome that
    changed nothing may be forgotten before it is known that it was heard.
    """

    reach: Reach
    computer: ComputerId | None
    until: float = math.inf
    """When nobody waits any longer, by the event loop's clock."""

    async def call(
        self, method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        async with self.reach.pinned([self.computer]):
            return await self._called(method, params, body, wait_s)

    async def _called(self, method: str, params: Mapping[str, Any], body: bytes | None, wait_s: float) -> CallResult:
        computers, computer = self.reach.computers, self.computer
        if computers is None or computer is None:
            raise ToolFailed("This call names no computer.")
        if not self.reach.online(computer):
            raise ComputerAway(f"Computer {computer} is away.")
        left_s = self.until - asyncio.get_running_loop().time()
        if left_s <= 0:
            raise ToolFailed("The computer took too long.")
        run_id = RunId("o" + secrets.token_hex(8))
        number = await self.reach.store.allot_number(computer, count=2, heard=computers.heard(computer))
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
            await self.reach.acknowledge(computer, run_id, number + 1)
            raise
        except CallLost as lost:
            if self.until < math.inf and self.reach.online(computer):
                raise ToolFailed("The computer took too long.") from lost
            raise
        await self.reach.acknowledge(computer, run_id, number + 1)
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
        # Only a program writes while it runs, and to hear of it from another node takes statements of the bus.
        on_output = self.on_output if "timeout_s" in params else None
        return await computers.call(
            computer,
            run_id=run_id_of(self.record),
            task_id=self.task.task_id,
            number=self.record.number,
            method=method,
            params=params,
            body=body,
            wait_s=wait_s,
            on_output=on_output,
        )


@dataclass
class Listening:
    """A channel that notes the pieces of the computer's own token in what came by it."""

    channel: CommandChannel
    pieces: set[str] = field(default_factory=set)

    async def call(
        self, method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        try:
            result = await self.channel.call(method, params, body, wait_s)
        except ComputerFailed as error:
            self.pieces.update(error.data.get(OWN_TOKEN, ()))
            raise
        self.pieces.update(result.data.get(OWN_TOKEN, ()))
        return result

    def text(self, text: str) -> str:
        """A text that was made of what came, without them."""
        return hidden(text, self.pieces) if self.pieces else text

    def observed(self, observed: Observed) -> Observed:
        """The observation, without them."""
        if not self.pieces:
            return observed
        texts = {name: getattr(observed, name) for name in ("diff", "source", "note")}
        return observed.model_copy(update={name: text and self.text(text) for name, text in texts.items()})

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Errors that leave this are told without them."""
        try:
            yield
        except OrchestratorError as error:
            error.message = self.text(error.message)
            raise


@dataclass
class Replaying:
    """A channel that answers with a result heard at settling, so that the tool words it as always."""

    result: CallResult | Exception

    async def call(
        self, method: str, params: Mapping[str, Any], body: bytes | None = None, wait_s: float = 60.0
    ) -> CallResult:
        del method, params, body, wait_s
        if isinstance(self.result, Exception):
            raise self.result
        return self.result
