"""A person's decision on a request, turned into facts or refused with the reason."""

from orchestrator.core.approval.decisions.closed import closed_question, closed_request, expired
from orchestrator.core.approval.decisions.command import ActivePolicy, Decide
from orchestrator.core.approval.decisions.decision import decide_request

__all__ = ["ActivePolicy", "Decide", "closed_question", "closed_request", "decide_request", "expired"]
