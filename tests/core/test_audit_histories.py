"""The audit over histories nobody would think of: what the task's own tables let happen is in order."""

from typing import Any

from hypothesis import settings

from orchestrator.core.audit.chain import verify_stream
from orchestrator.core.audit.check import check
from orchestrator.core.audit.presentation import audit_line, story_lines
from orchestrator.core.audit.story import who_approved
from orchestrator.core.task import facts
from orchestrator.core.task.task import CallRecord
from tests.core.test_histories import Draw, Histories


class AuditedHistories(Histories):
    """The same histories, audited at their end.

    None of them has an edit, neither as a fact nor out of a command: the digest of an edited call's
    run follows from a true call, which these histories do not have.
    """

    def decided(self, record: CallRecord, verb: Any) -> facts.Decision:
        """As drawn, but for edits."""
        return super().decided(record, "approve" if verb == "edit" else verb)

    def form(self, draw: Draw, one: CallRecord, verb: str) -> dict[str, Any]:
        """As drawn, but for edits."""
        return super().form(draw, one, "approve" if verb == "edit" else verb)

    def teardown(self) -> None:
        """No violation, no fault, and a line for everything."""
        items = self.story.items
        assert [one for one in check(items) if one.level == "violation"] == []
        assert verify_stream(items) == []
        assert all(audit_line(item.model_dump(mode="json")) for item in items)
        assert all(story_lines(story.model_dump(mode="json")) for story in who_approved(items))


TestAuditedHistories = AuditedHistories.TestCase
TestAuditedHistories.settings = settings(stateful_step_count=50)
