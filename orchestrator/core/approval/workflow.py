"""The people of one request: who has to approve it, who did, who looks at it now, and what they said of it.

Theory. A workflow is fixed when its request is raised (promise D22). Its steps are met in their order, and each
approval says which step it counts for. Only approvals of the same digest by different people count together: an edit
makes another digest, so that the count starts anew. A delegate and the person who is away count as one. An escalation
keeps the number of people and changes who they are.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Final

from pydantic import Field, field_validator

from orchestrator.core.values import Value, immutable

CLAIM_S: Final = 600
"""Seconds of a claim, unless it is renewed or released before (promise R6)."""
MAX_COMMENTS: Final = 100
"""Of one request."""
MAX_PEOPLE: Final = 20
"""The most people that one step, or the quorum, may ask for."""
DEFAULT_GROUP: Final = "role:admin"
"""The people to whom a request goes that is escalated, where its workflow names nobody."""

_KINDS: Final = ("role", "person", "group")


def people_named(by: str) -> str:
    """The people as a policy names them. Raises ValueError where it has none of the three forms."""
    kind, _, name = by.partition(":")
    if kind not in _KINDS or not name:
        raise ValueError(f"{by!r} names nobody; write role:NAME, person:NAME or group:NAME")
    return by


def told_people(by: str, count: int = 1) -> str:
    """So many people as a policy names them, in words that end a sentence; ``by`` empty: any who may decide."""
    kind, _, name = by.partition(":")
    some = "somebody" if count == 1 else f"{count} people"
    told = {"role": f"{some} with the role {name}", "group": f"{some} in the group {name}", "person": name}
    return told.get(kind, f"{some} who may decide")


def told_group(by: str) -> str:
    """All people as a policy names them, in words that end a sentence, such as ``admins``."""
    kind, _, name = by.partition(":")
    told = {"role": f"people with the role {name}", "group": f"the group {name}"}
    return "admins" if by == DEFAULT_GROUP else told.get(kind, name)


class Step(Value):
    """Some of the people whose approval is needed."""

    by: str = ""
    """``role:NAME``, ``person:NAME`` or ``group:NAME``; empty: anybody who may decide."""
    count: Annotated[int, Field(strict=True, ge=1, le=MAX_PEOPLE)] = 1
    """How many of them."""

    @field_validator("by")
    @classmethod
    def _names_people(cls, by: str) -> str:
        return people_named(by) if by else by


class Workflow(Value):
    """The people who have to approve a request, in their order, and who decides when they do not."""

    steps: Annotated[tuple[Step, ...], Field(min_length=1)] = (Step.of_defaults(),)
    escalate_to: str = ""
    """Who decides once it is escalated; empty: the admins."""
    escalate_after_s: int = 0
    """Seconds after which it is escalated by itself; 0: never."""

    @property
    def is_plain(self) -> bool:
        """Whether one approval is enough, by anybody who may decide."""
        return self.steps == PLAIN.steps

    @property
    def need(self) -> int:
        """How many different people have to approve."""
        return sum(step.count for step in self.steps)


PLAIN: Final = Workflow.of_defaults()
"""One approval by anybody who may decide."""


def with_quorum(workflows: Iterable[Workflow], approvals: int) -> Workflow:
    """One workflow that meets all of these, with so many people at the least.

    Its steps are theirs in their order; of steps by the same people the one with more of them counts.
    """
    steps: dict[str, int] = {}
    found = tuple(workflows)
    for step in (step for one in found for step in one.steps):
        steps[step.by] = max(step.count, steps.get(step.by, 0))
    if (missing := approvals - sum(steps.values())) > 0:
        steps[""] = steps.get("", 0) + missing
    after = [one.escalate_after_s for one in found if one.escalate_after_s]
    return Workflow(
        steps=tuple(Step(by=by, count=count) for by, count in steps.items()),
        escalate_to=next((one.escalate_to for one in found if one.escalate_to), ""),
        escalate_after_s=min(after, default=0),
    )


@immutable
class Vote:
    """One approval of one call that waits for more of them."""

    call_id: str
    by: str
    digest: str
    step: int
    behalf: str = ""
    """The person who is away and for whom this one decided; empty: nobody."""

    @property
    def people(self) -> frozenset[str]:
        """All who are used up by it."""
        return frozenset({self.by, self.behalf} - {""})

    def __str__(self) -> str:
        return told_person(self.by, self.behalf)


def told_person(by: str, behalf: str) -> str:
    """Somebody who decided, such as ``ann`` or ``ann for bob``."""
    return f"{by} for {behalf}" if behalf else by


@immutable
class Claim:
    """Somebody looks at the request; until then others wait."""

    by: str
    until: datetime


@immutable
class Comment:
    """What somebody said of a request to the next reviewer."""

    by: str
    at: datetime
    text: str


@immutable
class Team:
    """The people of one open request, as its items tell it."""

    workflow: Workflow = PLAIN
    votes: tuple[Vote, ...] = ()
    claim: Claim | None = None
    comments: tuple[Comment, ...] = ()
    escalate_at: datetime | None = None
    """When it is escalated by itself; None: never, or it was."""
    escalated_to: str = ""
    """Who decides since an escalation; empty: there was none."""

    @property
    def is_plain(self) -> bool:
        """Whether the general rule alone says who decides it."""
        return self.workflow.is_plain and not self.escalated_to

    @property
    def next_group(self) -> str:
        """Who decides after an escalation."""
        return self.workflow.escalate_to or DEFAULT_GROUP

    def votes_on(self, call_id: str) -> tuple[Vote, ...]:
        """The approvals of a call as it is now."""
        return tuple(one for one in self.votes if one.call_id == call_id)

    def has_voted(self, call_id: str, name: str) -> bool:
        """Whether somebody approved a call as it is now."""
        return any(one.by == name for one in self.votes_on(call_id))

    def present_step(self, call_id: str) -> int:
        """The first step of which a call lacks approvals; the number of steps: none is missing."""
        votes = self.votes_on(call_id)
        steps = self.workflow.steps
        if self.escalated_to:
            return 0 if len(votes) < self.workflow.need else len(steps)
        missing = (n for n, one in enumerate(steps) if sum(vote.step == n for vote in votes) < one.count)
        return next(missing, len(steps))

    def later_steps(self, call_id: str) -> tuple[tuple[str, int], ...]:
        """The people of the steps after the present one, and how many of their approvals are missing."""
        if self.escalated_to:
            return ()
        after = self.present_step(call_id) + 1
        given = [vote.step for vote in self.votes_on(call_id)]
        steps = enumerate(self.workflow.steps)
        return tuple((one.by, one.count - given.count(n)) for n, one in steps if n >= after)

    def by_now(self, call_id: str) -> str:
        """The people whose approval of a call comes next; empty: any who may decide, or nobody's is missing."""
        if self.escalated_to:
            return self.escalated_to
        step = self.present_step(call_id)
        return self.workflow.steps[step].by if step < len(self.workflow.steps) else ""

    def everybody(self) -> frozenset[str]:
        """The people of all steps; after an escalation only those that it went to."""
        return frozenset({self.escalated_to} if self.escalated_to else {one.by for one in self.workflow.steps})

    def reached_with(self, vote: Vote) -> bool:
        """Whether one more approval makes enough."""
        return replace(self, votes=(*self.votes, vote)).present_step(vote.call_id) == len(self.workflow.steps)

    def with_votes(self, votes: Iterable[Vote], *, anew: Collection[str] = ()) -> "Team":
        """The team with more approvals; those of the calls ``anew`` from before no longer count.

        A claim of somebody who has decided is over: the others go on.
        """
        added = tuple(votes)
        kept = tuple(one for one in self.votes if one.call_id not in anew)
        claim = None if self.claim is not None and self.claim.by in {one.by for one in added} else self.claim
        return replace(self, votes=(*kept, *added), claim=claim)

    def claimed_from(self, name: str, now: datetime) -> Claim | None:
        """The claim that keeps somebody from deciding now; None: none does."""
        claim = self.claim
        return claim if claim is not None and claim.by != name and now < claim.until else None


ONE_PERSON: Final = Team()
"""Of a request that one person decides, and of which nobody said anything yet."""


def until_of_claim(now: datetime) -> datetime:
    """The end of a claim that is made now."""
    return now + timedelta(seconds=CLAIM_S)


def told_workflow(workflow: Workflow) -> str:
    """The people who have to approve, as sentences, and those who get it after a time."""
    steps = ", then ".join(told_people(step.by, step.count) for step in workflow.steps)
    need = f"{workflow.need} people have" if workflow.need > 1 else "One person has"
    after, to = workflow.escalate_after_s, told_people(workflow.escalate_to or DEFAULT_GROUP)
    escalation = f" After {after} s without a decision it goes to {to}." if after else ""
    return f"{need} to approve it: {steps}.{escalation}"


def told_progress(need: int, approved_by: Collection[str], waits_for: str) -> str:
    """How far the approvals of a request are, such as ``1 of 2: ann; next: somebody with the role admin``."""
    names = f": {', '.join(approved_by)}" if approved_by else ""
    return f"{len(approved_by)} of {need}{names}" + (f"; next: {waits_for}" if waits_for else "")
