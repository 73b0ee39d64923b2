"""The log of a task as people read it: ``[STEP n] [EXPLANATION] [TOOL] [TOOL_RESULT] [FINAL]``."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from orchestrator.core.approval.workflow import told_person
from orchestrator.core.evidence.report import report, says_the_model
from orchestrator.core.task import facts
from orchestrator.core.task.choices import numbered
from orchestrator.core.task.facts import CANNOT_BE_KNOWN, CallId
from orchestrator.core.task.items import AgentTaskItem

_TOLD: Final = {
    "reminded": "It still waits for a person, and will expire soon",
    "extended": "There is more time for it now",
    "renewed": "It is asked again",
    "released": "The policy allows it by now",
    "grant_used": "A grant stands in",
    "check_approved": "A person approved this run of a check before",
    "escalated": "It went to other people",
}
"""The notes around a request that are worth a line."""


_HELD: Final = {True: "Holds", False: "Does not hold", None: "Not known"}


class Transcript:
    """Turns items into lines, in order; remembers only the step and the calls it has shown.

    ``names_computers``: the line of each call names its computer; else only where the task has several.
    ``became``: what became by now of tasks that the items only begin, each as part of a sentence.
    """

    def __init__(self, became: Mapping[str, str] = MappingProxyType({}), *, names_computers: bool = True) -> None:
        self._became = became
        self._names_computers = names_computers
        self._step = 0
        self._calls: dict[CallId, facts.ToolCall] = {}
        self._awaits = ""
        """The model server that was told to be waited for since the last reply."""

    def resume(self, step: int, calls: Sequence[facts.ToolCall]) -> None:
        """Go on after ``step`` with the calls of the present step, as if they had been shown."""
        self._step = step
        self._calls.update((call.call_id, call) for call in calls)

    def lines(self, item: AgentTaskItem) -> list[str]:  # noqa: C901, PLR0911, PLR0912 - one case per kind
        """The lines that one item adds; most add none."""
        fact = item.fact
        match fact:
            case facts.TaskSubmitted():
                self._names_computers |= len(fact.computers) > 1
                return []
            case facts.ModelReplied():
                self._step += 1
                self._awaits = ""
                return [f"[STEP {self._step}]"]
            case facts.ModelAwaited():
                return self._awaited(fact, item.at)
            case facts.CallsProposed():
                return self._proposed(fact)
            case facts.ChecksJudged():
                return [f"[CHECK] {_HELD[one.holds]}: {one.check}. {one.why}" for one in fact.results]
            case facts.ReplyRefused():
                return [f"[REFUSED] The model was told: {fact.reason}"]
            case facts.ReviewRequested():
                return [f"[REVIEW] {self._waiting(fact)}"]
            case facts.DecisionRecorded():
                return self._decided(fact, item.actor.id)
            case facts.RequestEnded():
                return self._request_ended(fact)
            case facts.ReviewNoted(what="approved"):
                names = ", ".join(self._name(one.call_id) for one in fact.decisions)
                who = told_person(item.actor.id, fact.behalf)
                return [f"[REVIEW] {who} approved, and more people have to: {names}"]
            case facts.ReviewNoted(what="commented"):
                return [f"[REVIEW] {item.actor.id} says: {fact.text}"]
            case facts.ReviewNoted() if fact.what in _TOLD:
                names = ", ".join(self._name(one.call_id) for one in fact.calls)
                return [f"[REVIEW] {_TOLD[fact.what]}{f': {names}' if names else '.'}"]
            case facts.ToolFinished():
                return [f"[TOOL_RESULT] {fact.text}"]
            case facts.ToolSettled():
                return [
                    f"[TOOL_RESULT] {fact.text}" if fact.state == "finished" else f"[SETTLED] {self._settled(fact)}"
                ]
            case facts.StatusSent():
                return [f"[STATUS] {fact.message}"]
            case facts.QuestionAsked():
                return [f"[QUESTION] {numbered(fact.question, fact.options)}"]
            case facts.QuestionAnswered():
                return [f"[ANSWER] {fact.answer}"]
            case facts.LimitReached():
                return [f"[LIMIT] {fact.detail}"]
            case facts.WorkFailed() if fact.is_worth_a_line:
                return [f"[WAITING] {_sentence(fact.told)}"]
            case facts.WorkFrozen():
                return [f"[FROZEN] by {fact.by}{f': {fact.reason}' if fact.reason else ''}"]
            case facts.TaskEnded():
                return self._ended(fact)
            case facts.UndoSubmitted():
                began = f"Task {fact.undo_task_id} was begun to put back what it changed"
                return [f"[UNDO] {began}{self._by_now(fact.undo_task_id)}."]
            case facts.RehearsalEnded():
                return [f"[REHEARSAL] {fact.message.rstrip('.')}{self._by_now(fact.applied_by)}."]
            case _:
                return []

    def _awaited(self, fact: facts.ModelAwaited, at: datetime) -> list[str]:
        """The wait for a model server, told once until the model has replied: it may come and go."""
        told, self._awaits = self._awaits, fact.server
        if told == fact.server:
            return []
        long = "until it is back" if fact.until is None else f"for {(fact.until - at).total_seconds():.0f} s at most"
        return [f"[WAITING] Waiting for the model server at {fact.server}, {long}. {fact.why}"]

    def _by_now(self, task_id: str | None) -> str:
        """The outcome of a task, behind what was said when it began; empty: nobody told."""
        told = self._became.get(task_id or "")
        return f"; by now {told}" if told else ""

    def _proposed(self, fact: facts.CallsProposed) -> list[str]:
        lines = [f"[EXPLANATION] {fact.explanation}"] if fact.explanation else []
        for call, verdict in zip(fact.calls, fact.evaluations, strict=True):
            self._calls[call.call_id] = call
            lines.append(self._tool(call))
            if verdict.effect == "deny":
                lines.append(f"[TOOL_RESULT] Denied by policy: {verdict.reason}")
        return lines

    def _tool(self, call: facts.ToolCall) -> str:
        at = f" on {call.computer}" if self._names_computers and call.computer else ""
        return f"[TOOL] {call.tool}({_as_declared(call)}){at}"

    def _decided(self, fact: facts.DecisionRecorded, who: str) -> list[str]:
        said = ", ".join(f"{one.action} {self._name(one.call_id)}" for one in fact.decisions)
        lines = [f"[DECISION] {who}: {said}"]
        self._retried(fact)
        for one in fact.decisions:
            call = self._calls.get(one.call_id)
            if one.args is not None and call is not None:
                edited = self._calls[one.call_id] = call.model_copy(update={"args": one.args})
                lines.append(self._tool(edited))
            if one.action == "respond":
                lines.append(f"[TOOL_RESULT] {who} answered in its place: {one.answer}")
        return lines

    def _request_ended(self, fact: facts.RequestEnded) -> list[str]:
        if fact.end == "stale" or fact.code == "approval_expired":
            return [f"[REVIEW] {fact.end}: {fact.reason}"]
        if fact.end == "expired" and fact.then == "stay_paused":
            return [f"[REVIEW] {fact.reason} The task waits until somebody asks again."]
        if fact.end in ("superseded", "expired") or fact.code == "withdrawn":
            return [f"[TOOL_RESULT] This call did not run: {fact.reason}"]
        return []

    def _retried(self, fact: facts.DecisionRecorded) -> None:
        for one in fact.decisions:
            if one.retry_as is not None and one.call_id in self._calls:
                self._calls[one.retry_as] = self._calls[one.call_id]

    def _waiting(self, fact: facts.ReviewRequested) -> str:
        names = ", ".join(self._name(one.call_id) for one in fact.calls)
        if cannot_be_known(fact):
            return f"{names}: {CANNOT_BE_KNOWN}"
        if fact.reason == "outcome_unknown":
            return f"The outcome of {names} is unknown; a person has to look."
        return f"{names} waits for approval (risk: {fact.risk.value})."

    def _settled(self, fact: facts.ToolSettled) -> str:
        return f"{self._name(fact.call_id)}: {fact.state}. {fact.reason}"

    def _name(self, call_id: CallId) -> str:
        call = self._calls.get(call_id)
        return call.tool if call else call_id

    def _ended(self, fact: facts.TaskEnded) -> list[str]:
        lines = [f"[EXPLANATION] {fact.explanation}"] if fact.explanation else []
        lines += [f"[REPORT] {line}" for line in report(fact)]
        if fact.finding is not None and says_the_model(fact):
            lines.append("[REPORT] the message below is the model's own")
        success = "Unverified" if fact.verified is False else fact.status == "Completed"
        return [*lines, f"[FINAL] Success={success}, Message={fact.message}"]


def cannot_be_known(fact: facts.ReviewRequested) -> bool:
    """Whether a person is asked for what became of calls of which the computer was asked often enough."""
    notes = (one.observed.note for one in fact.calls)
    return fact.reason == "outcome_unknown" and any(CANNOT_BE_KNOWN in note for note in notes)


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


_LONG_CHARS: Final = 200
"""A text of more is cut in the line of a call: a file stands in its diff."""
_HEAD_CHARS: Final = 80


def _short(value: Any) -> Any:
    if not isinstance(value, str) or len(value) <= _LONG_CHARS:
        return value
    return f"{value[:_HEAD_CHARS]}… ({len(value):,} characters)"


def _as_declared(call: facts.ToolCall) -> dict[str, Any]:
    """The arguments in the order in which the tool declares them; the journal sorts them."""
    from orchestrator.core.policy.tool_args import ALL_TOOL_ARGS

    model = ALL_TOOL_ARGS.get(call.tool)
    declared = [name for name in model.model_fields if name in call.args] if model else []
    return {name: _short(call.args[name]) for name in dict.fromkeys((*declared, *call.args))}
