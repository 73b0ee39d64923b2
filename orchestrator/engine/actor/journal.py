"""The task as its actor holds it: folded, leased, and appended to one item after the other.

While the store is away the actor knows what nobody else does: an outcome. So an append is asked for again, the same
items with the same ids, of which the store keeps one: until it answers, says that the lease is another's, or
``patience_s`` are over. The next actor settles what is lost then.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from orchestrator.core.errors import ComputerClaimed, Conflict
from orchestrator.core.ports import Bus, Lease, Receipt
from orchestrator.core.reply.response import PartialReply
from orchestrator.core.task.effects import Rest, next_effects
from orchestrator.core.task.facts import CallId, Fact, TaskEnded, TaskId, ToolStarted
from orchestrator.core.task.fold import can_follow, fold, preview, sealed, with_findings
from orchestrator.core.task.items import SYSTEM, Actor, Draft
from orchestrator.core.task.task import AgentTask, CallRecord
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.tasks import TaskService, patiently

# -- What a task's model and programs write, told to the watchers while it comes: notifications, never items

EVERY_S = 0.05
"""Parts of a reply that come faster are told together: a person reads no faster, and the bus is spared."""


PAUSED = "[the game is paused: the program goes on when the game does]\n"


@dataclass
class Hints:
    """Publishes the notifications of one task."""

    bus: Bus
    task_id: TaskId

    def output(self, call_id: CallId, offset: int, data: bytes) -> None:
        """What a program wrote, ``offset`` bytes into its output; nothing: its game is paused."""
        text = data.decode("utf-8", "replace") or PAUSED
        self.publish({"kind": "output", "call_id": call_id, "offset": offset, "size": len(data), "text": text})

    def reply(self, step: int) -> "ReplyHints":
        """For the reply of one step."""
        return ReplyHints(self, step)

    def publish(self, payload: dict[str, str | int]) -> None:
        """Tell the watchers."""
        self.bus.publish(f"stream.{self.task_id}", payload)


@dataclass
class ReplyHints:
    """Tells a reply as it comes: as it is, and its explanation and message for reading.

    The first part waits as long as those that follow: a reply that comes whole by then is an item at once and needs no
    notification.
    """

    hints: Hints
    step: int
    _parts: list[str] = field(default_factory=list)
    _reading: PartialReply | None = None
    """None: nothing was told yet."""
    _timer: asyncio.TimerHandle | None = None
    """When the parts are told that came by then; None: all are told."""

    def __call__(self, text: str) -> None:
        """Take the next part."""
        self._parts.append(text)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._tell)

    def close(self) -> None:
        """Tell what is left of a reply that was told in parts."""
        if self._timer is not None:
            self._timer.cancel()
            if self._reading is not None:
                self._tell()

    def _tell(self) -> None:
        self._timer = None
        self._reading = reading = self._reading or PartialReply()
        text = "".join(self._parts)
        self._parts.clear()
        self.hints.publish({"kind": "model_text", "step": self.step, "text": text})
        for name, delta in reading.feed(text):
            self.hints.publish({"kind": name, "step": self.step, "text": delta})


# -- The task as its actor holds it: folded, leased, and appended to one item after the other

AGENT = Actor(kind="agent", id="model")


Follow = Callable[[AgentTask], Sequence[tuple[Fact, Actor]]]
"""What is to be recorded in one transaction with an outcome: intents decided on the task as it is after it."""


def nothing(task: AgentTask) -> Sequence[tuple[Fact, Actor]]:
    """An outcome that nothing follows at once."""
    del task
    return ()


def of_computer(computer: ComputerId | None) -> Actor:
    """The computer, or this host, as the cause of an item."""
    return Actor(kind="computer", id=computer or "host")


def step_computers(task: AgentTask) -> tuple[ComputerId, ...]:
    """All computers that the present step touches: they are claimed together or not at all.

    Two tasks that each hold one computer and want the other's would wait for ever: a computer with an open bracket is
    not given back.
    """
    return tuple(sorted({record.call.computer for record in task.calls if record.call.computer is not None}))


@dataclass
class TaskJournal:
    """One leased task and its journal. Intents stand or fall with the version; outcomes always stand."""

    lease: Lease
    service: TaskService
    task: AgentTask
    claimed: bool = True
    """Whether the store may have claims of this task: those of an actor that was killed count too."""
    patience_s: float = 60.0
    """How long a store that is away is asked again."""
    gives_back: bool = False
    """Whether the lease goes with the last item, when nothing is left to do: it may be gone before that is heard."""
    _appending: asyncio.Lock = field(default_factory=asyncio.Lock)

    def record(self, call_id: CallId) -> CallRecord:
        """A call of the present step. Raises Conflict when the task has moved on: fold and ask again."""
        record = self.task.call(call_id)
        if record is None:
            raise Conflict(f"Call {call_id!r} is no longer of the present step.")
        return record

    async def intend(self, *intents: Fact, actor: Actor = SYSTEM) -> None:
        """Append at the folded version or not at all. Raises Conflict, LeaseLost, ComputerClaimed."""
        async with self._appending:
            drafts = [self.service.draft(fact, actor) for fact in intents]
            await self._append(drafts, preview(self.task, drafts))

    async def happened(
        self,
        fact: Fact,
        actor: Actor,
        *,
        blobs: tuple[bytes, ...] = (),
        follow: Follow = nothing,
        start: Follow = nothing,
        receipt: Receipt | None = None,
    ) -> None:
        """Append an outcome: again at the new version after a conflict, with the same item id.

        The next facts in the same transaction are decided again each time: the consequence of the outcome, then the
        ``start`` of a call, which is left out where another task has the computer. The outcome is dropped only where
        nothing waits for it any more, such as a reply to a task that has ended. ``receipt``: as the store takes it.
        """
        draft = self.service.draft(fact, actor)
        async with self._appending:
            while can_follow(self.task, fact):
                drafts, after = [draft], preview(self.task, [draft])
                for decided in (follow, start):
                    for one, by in decided(after):
                        drafts.append(self.service.draft(one, by))
                        after = preview(after, drafts[-1:])
                try:
                    await self._append(drafts, after, blobs=blobs, receipt=receipt)
                except Conflict:
                    await self._refold()
                except ComputerClaimed:
                    start = nothing
                else:
                    return

    async def claim(self, computers: Sequence[ComputerId]) -> ComputerId | None:
        """Claim computers, all or none; the answer is one that another task has."""
        # Twice is as good as once. A task that is given up now would have for a while what was claimed unheard.
        blocked = await patiently(lambda: self.service.store.claim(self.lease, computers), for_s=self.patience_s)
        self.claimed = self.claimed or blocked is None
        return blocked

    async def park(self, due: datetime | None, waiting_for: ComputerId | None) -> bool:
        """Give the lease back, and the claims, but never that of a computer on which a bracket is open.

        The answer is whether a task falls due by that, this one or another. Raises Conflict, LeaseLost: nothing is
        given back then.
        """
        if self.gives_back:
            return False
        keep = [one.call.computer for one in self.task.open_runs if one.call.computer is not None]
        return await self.service.store.park(
            self.lease, self.task.version, due=due, waiting_for=waiting_for, keep=keep if self.claimed else None
        )

    async def refold(self) -> None:
        """Take in what others appended."""
        async with self._appending:
            await self._refold()

    async def _refold(self) -> None:
        service, task = self.service, self.task
        self.task = await patiently(lambda: service.newer(task, task.version + 1), for_s=self.patience_s)

    async def _append(
        self,
        drafts: list[Draft],
        after: AgentTask,
        *,
        blobs: tuple[bytes, ...] = (),
        receipt: Receipt | None = None,
    ) -> None:
        """Append ``drafts``, with which the task will be as ``after``, except for what only the store knows.

        With the start of a call the step has its computers; with its own end they are given back. With the end of the
        task the lease is, too, unless something is left to do.
        """
        task = self.task
        if any(isinstance(one.fact, TaskEnded) for one in drafts):
            drafts = with_findings(task, drafts)
            after = preview(task, drafts)
        started = next((one.fact for one in drafts if isinstance(one.fact, ToolStarted)), None)
        claim = () if started is None else step_computers(after)
        release = self.claimed and not after.calls
        is_last = after.ended is not None and not after.calls and next_effects(after) == (Rest(),)
        woken: list[None] = []
        append = partial(
            self.service.store.append,
            task.task_id,
            task.version,
            drafts,
            status=after.status,
            schedule="sleep" if is_last else "keep",
            token=self.lease.token,
            number_for=None if started is None else started.computer,
            blobs=blobs,
            claim=claim,
            release=release,
            woke=lambda: woken.append(None),
            receipt=receipt,
        )
        self.gives_back = is_last
        try:
            items = await patiently(append, for_s=self.patience_s)
        except Exception:
            self.gives_back = False
            raise
        self.claimed = (self.claimed or bool(claim)) and not release
        self.task = sealed(after, items) if items[-1].version == after.version else fold(items, task)
        self.service.published(self.task, items)
        if woken:
            self.service.falls_due()
