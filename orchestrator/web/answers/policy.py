"""What the doors of the policy and of standing approvals answer."""

from typing import Literal

from orchestrator.core.approval.grants import Grant
from orchestrator.core.policy import CustomReport, Policy, PolicyDecision, RuleReport
from orchestrator.core.task.system_facts import GrantId
from orchestrator.web.answers.base import AnswerModel


class PolicyInForceAnswer(AnswerModel):
    """The policy in force."""

    policy_version: str
    source: str
    """The file that it came from, or who put it into force."""
    alert: str
    """Why the file as it is now is not what is in force, or why this node judges nothing; empty: all is well."""
    mode: Literal["normal", "plan"]
    policy: Policy


class Reloaded(AnswerModel):
    """The policy that is in force now."""

    policy_version: str
    alert: str


class DryRun(PolicyDecision):
    """The verdict on a call, and what each rule had to do with it."""

    plan: bool
    rules: tuple[RuleReport, ...]
    custom: tuple[CustomReport, ...]


class GrantAnswer(Grant):
    """A standing approval and what became of it."""

    uses: int
    revoked: bool
    usable: bool


class Grants(AnswerModel):
    """Standing approvals."""

    grants: list[GrantAnswer]


class GrantTakenBack(AnswerModel):
    """Whether this request took the grant back; false: somebody had before."""

    grant_id: GrantId
    revoked: bool
