"""The active policy, asked about the calls of tasks: the one place where a verdict is made."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.core.approval.people import NO_GROUP, Directory
from orchestrator.core.approval.workflow import Workflow, with_quorum
from orchestrator.core.errors import PolicyUnusable
from orchestrator.core.policy import (
    BUILT_IN_CATALOG,
    CustomPolicy,
    Effect,
    FunctionCall,
    PathCheck,
    Policy,
    PolicyContext,
    PolicyDecision,
    Quotas,
    RequestRules,
    SecretsToModel,
    Undo,
    default_policy,
    evaluate,
    no_such_tool,
)
from orchestrator.core.policy.approvals import workflows_of
from orchestrator.core.policy.explanation import summary
from orchestrator.core.task import facts
from orchestrator.core.task.rehearsal import NOTICE, is_copy, lenient, original_of, strict
from orchestrator.core.task.task import AgentTask
from orchestrator.core.wire.wire import ComputerId

_REJECTED = "A person rejected this very call before; it is not asked again."


def _knows_nothing(computer: ComputerId | None) -> PolicyContext:
    return PolicyContext(computer=computer)


@dataclass(frozen=True)
class NodePolicy:
    """Judges by the policy that is in force at that moment; a change replaces the whole policy."""

    policy: Callable[[], Policy] = default_policy
    """Raises PolicyUnusable where this node cannot load it; then nothing is judged."""
    context: Callable[[ComputerId | None], PolicyContext] = field(default=_knows_nothing)
    """The known facts of a computer."""
    custom: Callable[[], Sequence[CustomPolicy]] = tuple
    """The plugins that the policy names."""
    directory: Callable[[], Directory] = Directory
    """The groups and owners of now."""

    @property
    def version(self) -> str:
        """The policy's version."""
        return self.policy().version

    @property
    def rules(self) -> RequestRules:
        """What it says of requests."""
        return self.policy().requests

    @property
    def undo(self) -> Undo:
        """What it says of the changes of a task that failed or was canceled; a task ends also where none is usable."""
        try:
            return self.policy().undo
        except PolicyUnusable:
            return "offer"

    @property
    def quotas(self) -> Quotas:
        """What it lets people use in a day, and how they take turns; where none is usable, nothing runs anyway."""
        try:
            return self.policy().quotas
        except PolicyUnusable:
            return Quotas()

    @property
    def watch(self) -> tuple[str, ...]:
        """Where it says that programs are watched, as globs."""
        return self.policy().watch

    @property
    def checks(self) -> tuple[PathCheck, ...]:
        """What it wants to hold where a task changed a path."""
        return self.policy().checks

    @property
    def secrets_to_model(self) -> SecretsToModel | None:
        """Whether it lets models be told secrets; None: it does not say."""
        return self.policy().secrets_to_model

    def run_timeout_s(self, computer: ComputerId) -> int | None:
        """Seconds of the game that it lets a program run on a computer; None: it does not say."""
        return self.policy().run_timeout_of(original_of(computer))

    def summary(self, task: AgentTask) -> str:
        """The summary that the model of a task gets (promise L6)."""
        rehearses = task.rehearses is not None
        told = summary(
            self.policy(),
            computers=task.named_computers,
            roles=task.roles,
            plan=task.read_only,
            rehearsal=rehearses,
        )
        return f"{told}\n{NOTICE}" if rehearses else told

    def may_read(self, context: PolicyContext, path: str) -> bool:
        """Whether it lets a file be read without asking anybody."""
        call = FunctionCall(tool="cc_read", args={"path": path})
        verdict = evaluate(call, policy=self.policy(), context=context, custom=self.custom())
        return verdict.effect is Effect.ALLOW

    def judge(self, task: AgentTask, call: facts.ToolCall, program: str | None = None) -> PolicyDecision:
        """Its verdict on a call of a task; ``program``: what a run resolves to, once somebody has looked."""
        context = self._around(task, call, program)
        verdict = evaluate(call, policy=self.policy(), context=context, custom=self.custom())
        if call.tool not in BUILT_IN_CATALOG:
            # Whatever ``unknown_tool`` says: nobody can approve a tool that does not exist (promise P1).
            reason = no_such_tool(call.tool, BUILT_IN_CATALOG)
            return verdict.model_copy(update={"effect": Effect.DENY, "reason": reason})
        if any(digest == call.call_digest for digest, _ in task.rejections):
            return verdict.model_copy(update={"effect": Effect.DENY, "reason": _REJECTED})
        if task.rehearses is not None:
            return lenient(verdict, call.tool, call.computer)
        return strict(verdict, task.restores)

    def workflow(self, task: AgentTask, calls: Sequence[tuple[facts.ToolCall, facts.RequestedCall]]) -> Workflow:
        """The people who have to approve these calls of one request."""
        policy = self.policy()
        found = [
            workflow
            for call, shown in calls
            for workflow in workflows_of(
                policy.approvals,
                call,
                self._around(task, call, shown.observed.program),
                shown.evaluation.risk,
            )
        ]
        return with_quorum(found, policy.requests.approvals)

    def _around(self, task: AgentTask, call: facts.ToolCall, program: str | None) -> PolicyContext:
        """The facts that a call of a task is judged by."""
        known = {"roles": task.roles, "plan": task.read_only, "program": program, "stated_risk": call.stated_risk}
        return self._context(task, call.computer).model_copy(update={**known, **self._people(task, call.computer)})

    def _people(self, task: AgentTask, computer: ComputerId | None) -> dict[str, Any]:
        """The names around a call: for whom the task is, their groups, and whom the computer belongs to."""
        directory = self.directory()
        person = task.owner or task.user_id if task.by_program else task.user_id
        named = {"user": person, "groups": tuple(sorted(directory.groups_of(person) - {NO_GROUP}))}
        owners = () if computer is None else directory.owners_of(original_of(computer))
        return {**named, "owners": owners}

    def _context(self, task: AgentTask, computer: ComputerId | None) -> PolicyContext:
        """The known facts of a computer of a task; of a copy what is known of the real one."""
        if task.rehearses is not None and computer is not None and is_copy(computer):
            return task.rehearses.context
        return self.context(computer)
