"""Drafts for tests: a small task with a possible history."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, TypeVar

from orchestrator.core.approval.grants import Grant
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.policy import Effect, PolicyDecision, RiskLevel
from orchestrator.core.ports import Clock, Lease, Schedule, Store, Token
from orchestrator.core.task import facts
from orchestrator.core.task.facts import BlobRef, CallId, Fact, RequestId, TaskId, ToolCall
from orchestrator.core.task.items import SYSTEM, AgentTaskItem, Draft, ItemId
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.wire.wire import ComputerId, RunId, sha256_hex

# -- What contracts say again and again --------------------------------------------------

OpenStore = Callable[[Clock], Store]
"""Opens a store on one storage, the same one each time; the first time it is empty."""
E = TypeVar("E", bound=OrchestratorError)


async def refused(kind: type[E], operation: Awaitable[Any]) -> E:
    """The refusal, which is of ``kind`` and says something; an answer fails the contract."""
    try:
        answer = await operation
    except kind as refusal:
        if not refusal.message:
            raise AssertionError(f"{kind.__name__} says nothing.") from refusal
        return refusal
    raise AssertionError(f"{kind.__name__} was expected, but the answer was {answer!r}.")


async def taken(store: Store, holder: str = "node-1", lease_s: float = 10) -> Lease:
    """A lease on a task that has to be due."""
    lease = await store.lease(holder, lease_s)
    assert lease is not None
    return lease


# -- Time that a test moves by hand ------------------------------------------------------


class ManualClock:
    """A `Clock` that stands still until it is told to advance."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._now = start

    def now(self) -> datetime:
        """The present time, aware, in UTC."""
        return self._now

    def advance(self, seconds: float) -> datetime:
        """Move on; the new present."""
        self._now += timedelta(seconds=seconds)
        return self._now


# -- Drafts for tests: a small task whose history is one that may really happen ----------

COMPUTER = ComputerId("3")
REPLY = b"{}"
"""What the model replied, which an append with it keeps as a blob."""


class Author:
    """Writes drafts with ids of their own and the clock's time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ids = count(1)

    def draft(self, fact: Fact) -> Draft:
        """The fact as a draft."""
        return Draft(item_id=ItemId(f"i{next(self._ids)}"), at=self._clock.now(), actor=SYSTEM, fact=fact)

    def submitted(
        self,
        prompt: str = "fix my farm",
        *,
        priority: int = 0,
        user: str = "alice",
        computers: Sequence[ComputerId] = (COMPUTER,),
    ) -> Draft:
        """A task comes in."""
        fact = facts.TaskSubmitted(
            prompt=prompt,
            user_id=user,
            session_id="s1",
            computers=tuple(computers),
            model="scripted",
            max_steps=20,
            priority=priority,
            tag="maple",
        )
        return self.draft(fact)

    def note(self, detail: str = "") -> Draft:
        """A fact that may follow a submission any number of times."""
        return self.draft(facts.LimitReached(limit="model_failed", detail=detail))

    def proposed(self, effect: Effect = Effect.ASK) -> list[Draft]:
        """From the first question to the model up to its proposal to write a file."""
        call = ToolCall(
            call_id=CallId("c1"),
            index=0,
            tool="cc_write",
            args={"path": "farm", "content": "print()"},
            computer=COMPUTER,
            call_digest="d" * 64,
        )
        reply = facts.ModelReplied(raw=BlobRef(sha256=sha256_hex(REPLY), size=len(REPLY)), done_reason="stop")
        return [
            self.draft(facts.ModelAsked(attempt=1, prompt_version="p1", policy_version="v1", view_digest="a" * 64)),
            self.draft(reply),
            self.draft(facts.CallsProposed(explanation="", calls=(call,), evaluations=(_verdict(effect),))),
        ]

    def review(self, request_id: str) -> Draft:
        """A person is asked about the proposed call."""
        shown = facts.RequestedCall(
            call_id=CallId("c1"),
            observed=facts.Observed(state={"farm": "absent"}),
            evaluation=_verdict(Effect.ASK),
            action_digest="e" * 64,
        )
        fact = facts.ReviewRequested(
            request_id=RequestId(request_id),
            reason="approval",
            calls=(shown,),
            risk=RiskLevel.MEDIUM,
            policy_version="v1",
        )
        return self.draft(fact)

    def grant(
        self, name: str, *, session_id: str = "s1", lasts_s: float | None = None, max_uses: int | None = None
    ) -> Grant:
        """A grant to write into a directory; ``lasts_s``: seconds from now, None: with its task."""
        now = self._clock.now()
        return Grant(
            grant_id=GrantId(name),
            scope="task" if lasts_s is None else "session",
            task_id="t1",
            session_id=session_id,
            user_id="alice",
            granted_by="alice",
            tool="cc_write",
            computer=COMPUTER,
            call_digest="d" * 64,
            paths=("farm/*",),
            args={"content": "print()"},
            created_at=now,
            expires_at=None if lasts_s is None else now + timedelta(seconds=lasts_s),
            max_uses=max_uses,
        )

    def decided(self, *grants: Grant, request_id: str = "r1") -> Draft:
        """A person approves the proposed call, and gives these grants with it."""
        decision = facts.Decision(call_id=CallId("c1"), action="approve", action_digest="e" * 64)
        return self.draft(
            facts.DecisionRecorded(request_id=RequestId(request_id), decisions=(decision,), grants=grants)
        )

    def started(self, computer: ComputerId = COMPUTER, *, grant_id: str | None = None) -> Draft:
        """The allowed call is about to run; ``grant_id``: under this grant."""
        fact = facts.ToolStarted(
            call_id=CallId("c1"),
            run_id=RunId("c1.1"),
            computer=computer,
            action_digest="e" * 64,
            grant_id=None if grant_id is None else GrantId(grant_id),
        )
        return self.draft(fact)

    def ended(self) -> Draft:
        """The task is canceled."""
        return self.draft(facts.TaskEnded(status="Canceled", status_reason="canceled"))


async def append(
    store: Store,
    task_id: TaskId,
    version: int,
    *drafts: Draft,
    status: TaskStatus = TaskStatus.QUEUED,
    schedule: Schedule = "keep",
    token: Token | None = None,
    claim: Sequence[ComputerId] = (),
    release: bool = False,
    woke: Callable[[], object] | None = None,
) -> list[AgentTaskItem]:
    """The port's ``append`` in the shape that contracts mostly need."""
    more: dict[str, Any] = {"schedule": schedule, "token": token, "claim": claim, "release": release, "woke": woke}
    return await store.append(task_id, version, drafts, status=status, **more)


def _verdict(effect: Effect) -> PolicyDecision:
    return PolicyDecision(
        effect=effect,
        risk=RiskLevel.MEDIUM,
        matched_rules=("writes",),
        reason="writes ask",
        policy_version="v1",
        rules_digest="f" * 64,
    )
