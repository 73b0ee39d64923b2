"""What a person is asked over the reviewers' channel, and what they send."""

from orchestrator.core.approval.approval import HitlResponse
from orchestrator.core.wire import review

Sent = review.DecideRequest | review.AnswerQuestion
Asked = HitlResponse | review.OpenQuestion


def in_part(asked: HitlResponse, sent: Sent) -> bool:
    """Whether a decision left calls of its request undecided."""
    decisions = sent.resume.decisions if isinstance(sent, review.DecideRequest) else None
    return decisions is not None and len(decisions) < len(asked.tool_calls)


def id_of(asked: Asked) -> str:
    """The request's id, or the question's."""
    return asked.request_id if isinstance(asked, HitlResponse) else asked.question_id


def same(one: Asked | None, other: Asked | None) -> bool:
    """Whether they are one request with the same calls; its deadline may differ."""
    if not isinstance(one, HitlResponse) or not isinstance(other, HitlResponse):
        return False
    return one.request_id == other.request_id and one.tool_calls == other.tool_calls
