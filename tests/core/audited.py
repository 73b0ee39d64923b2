"""Items for the tests of the audit: sealed, but never folded, since what is looked for could not be folded."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from orchestrator.core.approval.approval import action_digest, call_digest
from orchestrator.core.approval.grants import Grant, own_paths
from orchestrator.core.policy import PolicyDecision, RiskLevel
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId, Fact, Observed, RequestId, ToolCall
from orchestrator.core.task.items import GENESIS_HASH, SYSTEM, Actor, AgentTaskItem, Draft, ItemId, seal
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.wire.wire import ComputerId, RunId, sha256_hex
from tests.core.journal import NOW, REQUEST, TASK, person, verdict

ALICE, BOB = person("alice"), person("bob")
PROGRAM = Actor(kind="agent", id="robot", auth="token")
FOUND = Observed(state={"farm": "absent"}, identity="i1")
CONTENT = "print('ok')\n"
BYTES = sha256_hex(CONTENT.encode())


def made(call_id: str = "c1", tool: str = "cc_write", **args: Any) -> ToolCall:
    """A call with its true digest; without arguments it writes CONTENT to farm."""
    args = args or {"path": "farm", "content": CONTENT}
    digest = call_digest(tool=tool, tool_version=1, args=args, computer="3")
    return ToolCall(
        call_id=CallId(call_id), index=0, tool=tool, args=args, computer=ComputerId("3"), call_digest=digest
    )


def bound(call: ToolCall, found: Observed = FOUND, judged: PolicyDecision | None = None) -> str:
    """What a decision on a call is bound to."""
    return action_digest(call=call.call_digest, user_id="alice", observed=found, evaluation=judged or verdict())


def granted(call: ToolCall, grant_id: str = "g-1", **changes: Any) -> Grant:
    """A grant for this very call."""
    fields: dict[str, Any] = {
        "grant_id": GrantId(grant_id),
        "scope": "call",
        "task_id": TASK,
        "session_id": "s1",
        "user_id": "alice",
        "granted_by": "alice",
        "tool": call.tool,
        "computer": call.computer,
        "identity": FOUND.identity,
        "call_digest": call.call_digest,
        "paths": own_paths(call.tool, call.args),
        "created_at": NOW,
    }
    return Grant(**{**fields, **changes})


class Trail:
    """One task's items, one second apart unless a test says when."""

    def __init__(
        self, *calls: ToolCall, effect: str = "ask", user: str = "alice", task_id: facts.TaskId = TASK
    ) -> None:
        self.items: list[AgentTaskItem] = []
        self._task_id = task_id
        self.add(
            facts.TaskSubmitted(prompt="fix my farm", user_id=user, session_id="s1", model="m", max_steps=9, tag="x")
        )
        judged = tuple(verdict(effect) for _ in calls)
        self.add(facts.CallsProposed(explanation="I write.", calls=calls, evaluations=judged))

    def add(self, fact: Fact, by: Actor = SYSTEM, at: datetime | None = None) -> "Trail":
        """One more item."""
        version = len(self.items) + 1
        when = at or NOW + timedelta(seconds=version)
        draft = Draft(item_id=ItemId(f"i{version}"), at=when, actor=by, fact=fact)
        before = self.items[-1].hash if self.items else GENESIS_HASH
        self.items.append(seal(draft, task_id=self._task_id, version=version, prev_hash=before))
        return self

    def requested(self, *calls: ToolCall, of: str = REQUEST, found: Observed = FOUND, **more: Any) -> "Trail":
        """A person is asked."""
        shown = tuple(self.shown(call, found) for call in calls)
        fields: dict[str, Any] = {"reason": "approval", "risk": RiskLevel.MEDIUM, "policy_version": "v1", **more}
        return self.add(facts.ReviewRequested(request_id=RequestId(of), calls=shown, **fields))

    def shown(
        self, call: ToolCall, found: Observed = FOUND, judged: PolicyDecision | None = None
    ) -> facts.RequestedCall:
        """A call as people see it."""
        judged = judged or verdict()
        return facts.RequestedCall(
            call_id=call.call_id, observed=found, evaluation=judged, action_digest=bound(call, found, judged)
        )

    def decided(
        self, *decisions: facts.Decision, by: Actor = BOB, at: datetime | None = None, of: str = REQUEST, **more: Any
    ) -> "Trail":
        """Somebody decides."""
        return self.add(facts.DecisionRecorded(request_id=RequestId(of), decisions=decisions, **more), by, at)

    def approved(self, *calls: ToolCall, by: Actor = BOB, at: datetime | None = None, **more: Any) -> "Trail":
        """Somebody approves calls as they were shown."""
        return self.decided(*(says(call, "approve") for call in calls), by=by, at=at, **more)

    def ended_request(self, end: Any, *calls: ToolCall, of: str | None = REQUEST, **more: Any) -> "Trail":
        """A request, or an allowance, ends without a decision."""
        ids = tuple(call.call_id for call in calls)
        request_id = None if of is None else RequestId(of)
        fields = {"reason": "so it is.", **more}
        return self.add(facts.RequestEnded(request_id=request_id, end=end, call_ids=ids, **fields))

    def started(
        self, call: ToolCall, run: int = 1, *, digest: str | None = None, at: datetime | None = None, **more: Any
    ) -> "Trail":
        """A run begins, as it was shown unless a test says otherwise."""
        fields: dict[str, Any] = {"before": FOUND.state, "action_digest": digest or bound(call), **more}
        return self.add(
            facts.ToolStarted(call_id=call.call_id, run_id=run_of(call, run), computer=call.computer, **fields), at=at
        )

    def finished(self, call: ToolCall, run: int = 1, **more: Any) -> "Trail":
        """A run ends."""
        fields: dict[str, Any] = {"ok": True, "text": "done", **more}
        return self.add(facts.ToolFinished(call_id=call.call_id, run_id=run_of(call, run), **fields))

    def settled(self, call: ToolCall, state: Any, run: int = 1, **more: Any) -> "Trail":
        """What the computer says of a run."""
        return self.add(facts.ToolSettled(call_id=call.call_id, run_id=run_of(call, run), state=state, **more))

    def ended(self) -> "Trail":
        """The task is over."""
        return self.add(facts.TaskEnded(status="Completed", status_reason="final"))


def run_of(call: ToolCall, run: int) -> RunId:
    """The id of a call's run."""
    return RunId(f"{call.call_id}.{run}")


def says(call: ToolCall, action: facts.DecisionAction, **more: Any) -> facts.Decision:
    """A decision on a call as it was shown."""
    return facts.Decision(**{"call_id": call.call_id, "action": action, "action_digest": bound(call), **more})


def edits(call: ToolCall, *, seen: bool = True, **args: Any) -> tuple[facts.Decision, ToolCall]:
    """An edit of a call, and what is to run by it; ``seen``: what it touches was shown."""
    after = made(call.call_id, call.tool, **args)
    runs = bound(after) if seen else ""
    changes: dict[str, Any] = {"args": args, "call_digest": after.call_digest, "evaluation": verdict()}
    return says(call, "edit", runs_digest=runs, **changes), after


def versions(found: Sequence[Any]) -> list[tuple[int, str]]:
    """Where and what."""
    return [(one.version, one.what) for one in found]
