"""Approval workflows of a policy: which people have to approve which calls, and to whom a request goes in time.

Theory. A table is about a call as a rule that asks is: what is not known yet counts as if it matched. Every table that
matches adds its people, so that one more table never makes an approval easier, as with rules (promise P3).
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field, field_validator

from orchestrator.core.approval.workflow import Step, Workflow, people_named
from orchestrator.core.policy.catalog import BUILT_IN_CATALOG
from orchestrator.core.policy.match import NO, AnyCall, ReadyRule, Subject, ready
from orchestrator.core.policy.rules import PolicyRule
from orchestrator.core.policy.verdicts import Effect, OneOrMore, PolicyContext, RiskLevel, Seconds
from orchestrator.core.text.paths import canonical_path
from orchestrator.core.values import Value


class When(Value):
    """The calls that a table is about: all given predicates have to match; an absent one matches all."""

    tools: OneOrMore = ("*",)
    """Exact tool names, or ``*`` alone."""
    paths: OneOrMore | None = None
    computers: OneOrMore | None = None
    risks: Annotated[tuple[RiskLevel, ...], Field(min_length=1)] | None = None
    """The risk as it is shown to people, after every rule has raised it."""
    groups: OneOrMore | None = None
    """The requester is in one of these groups."""
    users: OneOrMore | None = None
    """The requester is one of these people, or a program of theirs."""


class ApprovalRule(Value):
    """One table ``[[approvals]]``: the people who have to approve the calls that it is about."""

    when: When = When.of_defaults()
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=10)] = (Step.of_defaults(),)
    escalate_after_s: Seconds = 0
    """Seconds without a decision after which the request goes to ``escalate_to``; 0: never."""
    escalate_to: str = ""
    """Who decides then, such as ``role:admin``, which is the default."""

    @field_validator("escalate_to")
    @classmethod
    def _names_people(cls, to: str) -> str:
        return people_named(to) if to else to

    @property
    def people(self) -> tuple[str, ...]:
        """All people that it names."""
        return tuple(filter(None, (*(step.by for step in self.steps), self.escalate_to)))

    @cached_property
    def as_rule(self) -> PolicyRule:
        """A rule that asks, with the same predicates but for the risk."""
        predicates: dict[str, Any] = self.when.model_dump(exclude={"risks"})
        return PolicyRule(id="approvals", effect=Effect.ASK, **predicates)

    @cached_property
    def workflow(self) -> Workflow:
        """What it asks for."""
        return Workflow(steps=self.steps, escalate_to=self.escalate_to, escalate_after_s=self.escalate_after_s)

    @cached_property
    def _ready(self) -> ReadyRule:
        return ready(self.as_rule)

    def matches(self, call: AnyCall, context: PolicyContext, risk: RiskLevel) -> bool:
        """Whether it is about a call that the gate has judged."""
        if self.when.risks is not None and risk not in self.when.risks:
            return False
        spec = BUILT_IN_CATALOG[call.tool]
        paths = tuple(canonical_path(str(call.args[name])) for name in spec.path_args if name in call.args)
        subject = Subject(call, spec, paths, context, spec.governance.risk)
        return self.as_rule.names(call.tool) and self._ready.outcome(subject) is not NO


def workflows_of(
    rules: Sequence[ApprovalRule], call: AnyCall, context: PolicyContext, risk: RiskLevel
) -> list[Workflow]:
    """What the tables ask for that are about a call, in their order."""
    return [rule.workflow for rule in rules if rule.matches(call, context, risk)]
