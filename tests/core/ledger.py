"""A second book on a task's items, which knows nothing of the fold: who was allowed to run, and what waits."""

from orchestrator.core.policy import BUILT_IN_CATALOG
from orchestrator.core.task import facts
from orchestrator.core.task.facts import Fact


class Ledger:
    """Who was allowed to run, from the facts alone: an allowance is given, spent by a run, given back by a void one."""

    def __init__(self) -> None:
        self.tools: dict[str, str] = {}
        self.allowed: dict[str, str | None] = {}
        """Call id to the digest that was approved; None: the policy allows, or an edit is bound by the run."""
        self.unbound: set[str] = set()
        """The calls whose edit is bound by the run."""
        self.over: set[str] = set()
        """The calls of which somebody said the last word."""
        self.lapsed: str | None = None
        self.shown: dict[str, str] = {}
        self.running: dict[str, tuple[str, str | None]] = {}
        """Run id to its call and the allowance that it spends."""
        self.run_ids: set[str] = set()
        self.open_request: tuple[str, set[str]] | None = None

    def note(self, fact: Fact) -> None:  # noqa: C901, PLR0912 - one case per kind
        """One more fact. Fails when a call starts that nobody allowed."""
        match fact:
            case facts.CallsProposed():
                self.lapsed = None
                for one, judged in zip(fact.calls, fact.evaluations, strict=True):
                    self.tools[one.call_id] = one.tool
                    if judged.effect == "allow":
                        self.allowed[one.call_id] = None
            case facts.ReviewRequested():
                assert self.open_request is None, "a second request was opened"
                self.open_request = (fact.request_id, {one.call_id for one in fact.calls})
                self.shown.update({one.call_id: one.action_digest for one in fact.calls})
            case facts.DecisionRecorded():
                self._decided(fact)
            case facts.RequestEnded():
                self._ended(fact)
            case facts.ReviewNoted():
                self.allowed.update({one.call_id: one.action_digest for one in fact.calls})
                self._close(fact.request_id, {one.call_id for one in fact.calls})
                self.shown.update({one.call_id: one.runs_digest or one.action_digest for one in fact.decisions})
                if fact.what == "renewed":
                    self.lapsed = None
            case facts.QuestionAsked() | facts.StatusSent():
                self.allowed.pop(fact.call_id)
            case facts.ToolStarted():
                assert fact.run_id not in self.run_ids, "a run id was used twice"
                assert fact.call_id in self.allowed, "a call started without an allowance"
                spent = self.allowed.pop(fact.call_id)
                assert spent in (None, fact.action_digest), "a call started under another digest than was approved"
                spent = fact.action_digest if fact.call_id in self.unbound else spent
                self.run_ids.add(fact.run_id)
                self.running[fact.run_id] = (fact.call_id, spent)
            case facts.ToolFinished():
                self.running.pop(fact.run_id, None)
            case facts.ToolSettled():
                owner, spent = self.running.pop(fact.run_id, ("", None))
                spec = BUILT_IN_CATALOG.get(self.tools.get(owner, ""))
                again = fact.state == "interrupted" and spec is not None and spec.recovery == "pure"
                if owner and (fact.state == "void" or again):
                    self.allowed[owner] = spent
            case facts.TaskEnded():
                self.open_request = self.lapsed = None
            case _:
                pass

    def _decided(self, fact: facts.DecisionRecorded) -> None:
        for one in fact.decisions:
            assert one.call_id not in self.over, "a call was decided after the last word on it"
            self.unbound.discard(one.call_id)
            if one.action in ("approve", "edit"):
                assert one.action_digest == self.shown[one.call_id]
                self.allowed[one.call_id] = one.action_digest if one.action == "approve" else one.runs_digest or None
                if one.action == "edit" and not one.runs_digest:
                    self.unbound.add(one.call_id)
            elif one.action != "check":
                self.over.add(one.call_id)
            if one.retry_as is not None:
                self.tools[one.retry_as] = self.tools[one.call_id]
        self._close(fact.request_id, {one.call_id for one in fact.decisions})

    def _ended(self, fact: facts.RequestEnded) -> None:
        for call_id in fact.call_ids:
            self.allowed.pop(call_id, None)
        was = self.open_request
        self._close(fact.request_id, set(fact.call_ids))
        if was is not None and self.open_request is None and (fact.end, fact.then) == ("expired", "stay_paused"):
            self.lapsed = was[0]

    def _close(self, request_id: str | None, call_ids: set[str]) -> None:
        if self.open_request is not None and self.open_request[0] == request_id:
            left = self.open_request[1] - call_ids
            self.open_request = (request_id, left) if left else None
