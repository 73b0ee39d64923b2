"""What a decision needs to be judged: who decides what of which request, and the policy in force."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from orchestrator.core.approval.approval import ResumeRequest
from orchestrator.core.policy import PathCheck, PolicyDecision, RequestRules, SecretsToModel, Undo
from orchestrator.core.task.facts import CallId, RequestId, ToolCall
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.task.task import AgentTask
from orchestrator.core.wire.wire import ComputerId


class ActivePolicy(Protocol):
    """The policy in force, as those need it who judge by it."""

    @property
    def version(self) -> str:
        """The policy's version."""

    @property
    def rules(self) -> RequestRules:
        """What it says of requests."""

    @property
    def undo(self) -> Undo:
        """What it says of the changes of a task that failed or was canceled."""

    @property
    def watch(self) -> tuple[str, ...]:
        """Where it says that programs are watched, as globs."""

    @property
    def checks(self) -> tuple[PathCheck, ...]:
        """What it wants to hold where a task changed a path."""

    @property
    def secrets_to_model(self) -> SecretsToModel | None:
        """Whether it lets models be told secrets; None: it does not say."""

    def run_timeout_s(self, computer: ComputerId) -> int | None:
        """Seconds of the game that it lets a program run on a computer; None: it does not say."""

    def summary(self, task: AgentTask) -> str:
        """What the model of a task is told of it."""

    def judge(self, task: AgentTask, call: ToolCall, program: str | None = None) -> PolicyDecision:
        """Its verdict on a call; ``program``: what a run resolves to, once somebody has looked."""


@dataclass(frozen=True)
class Decide:
    """Decide a request, whole or in part; the new ids are those of calls that are retried and of grants."""

    request_id: RequestId
    resume: ResumeRequest
    by: str
    now: datetime
    active_policy: ActivePolicy
    new_call_id: Callable[[], CallId]
    new_grant_id: Callable[[], GrantId]
