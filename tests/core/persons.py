"""Requests that wait for a person in the tests of the core, and what somebody says to them."""

from collections.abc import Callable
from datetime import datetime
from itertools import count
from typing import Any

import pytest

from orchestrator.core.approval.approval import ResumeRequest, action_digest, call_digest
from orchestrator.core.approval.command import ActivePolicy, Decide
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.policy import PolicyDecision, RequestRules, RiskLevel
from orchestrator.core.task import facts
from orchestrator.core.task.commands import Command, decide
from orchestrator.core.task.facts import CallId, Fact, Observed, RequestId, ToolCall
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.wire.wire import ComputerId
from tests.core.journal import NOW, REQUEST, Journal, StubLaw, call, person, verdict

LAW = StubLaw()


def rules(**changes: Any) -> StubLaw:
    """The stub's law with other rules for requests."""
    return StubLaw(rules=RequestRules.model_validate(changes))


def paused(*effects: str, on_reject: Any = "cancel", **rest: Any) -> Journal:
    """A task whose calls c1, c2 … wait for a person; two of them unless ``effects`` says otherwise."""
    story = Journal()
    story.submitted(on_reject=on_reject)
    judged = effects or ("ask", "ask")
    calls = [call(f"c{n}", index=n, path=f"f{n}") for n in range(1, len(judged) + 1)]
    story.proposed(calls, *judged)
    asked = (one.call_id for one, effect in zip(calls, judged, strict=True) if effect == "ask")
    story.reviewed(*asked, **rest)
    return story


def real(call_id: str, tool: str = "cc_write", *, index: int = 0, computer: str | None = "3", **args: Any) -> ToolCall:
    """A call with its true digest."""
    digest = call_digest(tool=tool, tool_version=1, args=args, computer=computer)
    named = None if computer is None else ComputerId(computer)
    return ToolCall(call_id=CallId(call_id), index=index, tool=tool, args=args, computer=named, call_digest=digest)


def shown(
    *calls: ToolCall,
    found: dict[str, str] | None = None,
    risk: RiskLevel = RiskLevel.MEDIUM,
    effects: tuple[str, ...] = (),
    diff: str | None = None,
    **request: Any,
) -> Journal:
    """A task whose calls were looked at, bound by their true digests and put before a person."""
    story = Journal()
    effects = effects or ("ask",) * len(calls)
    story.proposed(calls, *effects)
    asked = tuple(bound(one, found, risk, diff) for one, effect in zip(calls, effects, strict=True) if effect == "ask")
    fact = facts.ReviewRequested(
        request_id=RequestId(REQUEST), reason="approval", calls=asked, risk=risk, policy_version="v1", **request
    )
    story.add(fact)
    return story


def bound(
    one: ToolCall,
    found: dict[str, str] | None = None,
    risk: RiskLevel = RiskLevel.MEDIUM,
    diff: str | None = None,
) -> Any:
    """A call as the gate shows it: what it touches was found, and the digest is over all of it."""
    path = str(one.args.get("path", "bin/tool"))
    observed = Observed(state={path: "0" * 64} if found is None else found, program=path, identity="here", diff=diff)
    judged = verdict(risk=risk)
    digest = action_digest(call=one.call_digest, user_id="alice", observed=observed, evaluation=judged)
    return facts.RequestedCall(call_id=one.call_id, observed=observed, evaluation=judged, action_digest=digest)


def unknown() -> Journal:
    """A task that waits for somebody to say what became of c1."""
    story = Journal()
    story.proposed([call("c1", path="f"), call("c2", index=1, path="g")], "allow", "allow")
    story.started("c1")
    story.settled("c1", "unknown")
    story.reviewed("c1", reason="outcome_unknown")
    return story


def said(
    story: Journal,
    by: str = "alice",
    request: str = REQUEST,
    active_policy: ActivePolicy = LAW,
    now: datetime = NOW,
    **body: Any,
) -> tuple[Fact, ...]:
    """What the person's decision amounts to; nothing is appended."""
    numbers = count(1)
    call_ids: Callable[[], CallId] = lambda: CallId(f"n{next(numbers)}")  # noqa: E731 - shortest here
    grant_ids: Callable[[], GrantId] = lambda: GrantId(f"g{next(numbers)}")  # noqa: E731
    return decide(
        story.task,
        Decide(
            request_id=RequestId(request),
            resume=ResumeRequest.model_validate(body),
            by=by,
            now=now,
            active_policy=active_policy,
            new_call_id=call_ids,
            new_grant_id=grant_ids,
        ),
    )


def done(story: Journal, by: str = "alice", request: str = REQUEST, **body: Any) -> tuple[Fact, ...]:
    """The same, appended: what is decided must fit the task."""
    made = said(story, by, request, **body)
    story.add(*made, by=person(by))
    return made


def recorded(story: Journal, **rest: Any) -> facts.DecisionRecorded:
    """The decision that was made and appended, which is all that came of it."""
    (fact,) = done(story, **rest)
    assert isinstance(fact, facts.DecisionRecorded)
    return fact


def commanded(story: Journal, command: Command) -> tuple[Fact, ...]:
    """What a command amounts to, appended."""
    made = decide(story.task, command)
    story.add(*made, by=person("alice"))
    return made


def refused(kind: type[OrchestratorError], words: str, story: Journal, **rest: Any) -> OrchestratorError:
    """The refusal of a decision, of this very kind; the task is as it was."""
    before = story.task
    with pytest.raises(kind) as caught:
        said(story, **rest)
    assert type(caught.value) is kind
    assert words in caught.value.message
    assert story.task is before
    return caught.value


def each(*pairs: tuple[str, str], **rest: Any) -> list[dict[str, Any]]:
    """Decisions on single calls."""
    return [{"call_id": call_id, "action": action, **rest} for call_id, action in pairs]


def judged_as(effect: str = "ask", risk: RiskLevel = RiskLevel.MEDIUM, **changes: Any) -> PolicyDecision:
    """A verdict with other fields than this file's requests have."""
    return verdict(effect, risk).model_copy(update=changes)
