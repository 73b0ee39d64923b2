"""Asking the model, and turning its reply into calls or an end."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.actor.gate import Gate
from orchestrator.actor.journal import AGENT, TaskJournal
from orchestrator.core import facts
from orchestrator.core.approval import call_digest
from orchestrator.core.errors import ModelFailed, ReplyRefused
from orchestrator.core.facts import BlobRef
from orchestrator.core.policy import BUILT_IN_CATALOG
from orchestrator.core.response import FinalResult, RequestedTool, read_reply
from orchestrator.core.task import AgentTask
from orchestrator.core.view import PROMPT_VERSION, view, view_digest
from orchestrator.core.wire import ComputerId, sha256_hex
from orchestrator.ports import ChatMessage, ChatModel
from orchestrator.tasks import new_call_id

logger = logging.getLogger(__name__)

MAX_REFUSALS = 3
"""Unreadable replies in a row that end a task: the third says the model cannot, not that it slipped."""
MAX_ATTEMPTS = 3
"""Requests to the model for one step before the task fails."""


@dataclass
class Thinking:
    """The model's side of one task."""

    journal: TaskJournal
    gate: Gate
    model: ChatModel
    texts: dict[str, str] = field(default_factory=dict)
    """Replies by sha256, for the view."""

    async def ask(self, attempt: int) -> float | None:
        """Ask for the next reply and record it; seconds to wait before another attempt, or None.

        Limits are checked here, before every request (hitl.md L3).
        """
        task = self.journal.task
        reached = _limit(task)
        if reached is not None:
            await self._fail(reached)
            return None
        messages = view(task, await self._texts(task))
        asked = facts.ModelAsked(
            attempt=attempt,
            prompt_version=PROMPT_VERSION,
            policy_version=self.gate.policy().version,
            view_digest=view_digest(messages),
        )
        await self.journal.intend(asked)
        try:
            reply = await self.model.reply([ChatMessage(role, content) for role, content in messages])
        except Exception as raised:  # noqa: BLE001 - a model is anybody's code: whatever it raises ends the task, honestly
            error = raised if isinstance(raised, ModelFailed) else _defect(self.model.name, raised)
            if attempt < MAX_ATTEMPTS:
                logger.warning("task %s: %s", task.task_id, error)
                return 2.0**attempt
            await self._fail(facts.LimitReached(limit="model_failed", detail=str(error)))
            return None
        content = reply.text.encode("utf-8", "replace")
        raw = BlobRef(sha256=sha256_hex(content), size=len(content))
        replied = facts.ModelReplied(raw=raw, done_reason=reply.done_reason, usage=reply.usage)
        await self.journal.happened(replied, AGENT, blobs=(content,))
        return None

    async def read(self, raw: BlobRef) -> None:
        """Read the reply: an end, calls with the policy's verdicts, or a refusal that tells the model why."""
        text = await self._text(raw)
        try:
            reply = read_reply(text, finish_reason=self.journal.task.done_reason)
            if isinstance(reply, FinalResult):
                await self.journal.intend(_ended(reply, self.journal.task.evidence))
                return
            calls = tuple(self._call(index, wanted) for index, wanted in enumerate(reply.calls))
        except ReplyRefused as refused:
            await self.journal.intend(facts.ReplyRefused(reason=refused.message))
            return
        verdicts = self.gate.judge_all(calls)
        proposed = facts.CallsProposed(explanation=reply.explanation, calls=calls, evaluations=verdicts)
        await self.journal.intend(proposed, actor=AGENT)

    def _call(self, index: int, wanted: RequestedTool) -> facts.ToolCall:
        spec = BUILT_IN_CATALOG[wanted.tool]
        args = dict(wanted.args)
        named = args.pop("computer", None)
        computer = self._computer(wanted.tool, named) if spec.plugin == "cc" else None
        digest = call_digest(tool=wanted.tool, tool_version=spec.version, args=args, computer=computer)
        return facts.ToolCall(
            call_id=new_call_id(), index=index, tool=wanted.tool, args=args, computer=computer, call_digest=digest
        )

    def _computer(self, tool: str, named: str | None) -> ComputerId:
        computers = self.journal.task.computers
        if not computers:
            raise ReplyRefused(f"This task has no computer, so {tool} cannot be used.")
        if named is None and len(computers) == 1:
            return computers[0]
        if named in computers:
            return ComputerId(named)
        raise ReplyRefused(f"Name the computer of {tool}: one of {', '.join(computers)}.")

    async def _texts(self, task: AgentTask) -> Mapping[str, str]:
        for turn in task.turns:
            await self._text(turn.raw)
        return self.texts

    async def _text(self, raw: BlobRef) -> str:
        if raw.sha256 not in self.texts:
            self.texts[raw.sha256] = (await self.journal.service.store.get_blob(raw.sha256)).decode()
        return self.texts[raw.sha256]

    async def _fail(self, reached: facts.LimitReached) -> None:
        ended = facts.TaskEnded(status="Failed", status_reason=reached.limit, message=reached.detail)
        await self.journal.intend(reached, ended)


def _defect(name: str, raised: Exception) -> ModelFailed:
    return ModelFailed(f"The model {name} met a defect: {type(raised).__name__}: {raised}")


def _limit(task: AgentTask) -> facts.LimitReached | None:
    if task.max_steps and task.steps >= task.max_steps:
        return facts.LimitReached(limit="max_steps", detail=f"The limit of {task.max_steps} steps was reached.")
    if task.refusals >= MAX_REFUSALS:
        detail = f"{task.refusals} replies in a row could not be read."
        return facts.LimitReached(limit="model_output", detail=detail)
    return None


def _ended(final: FinalResult, evidence: bool | None) -> facts.TaskEnded:
    """The model's final word, and whether the journal bears it out: success is never only claimed."""
    verified = evidence if final.success else None
    return facts.TaskEnded(
        status="Completed" if final.success else "Failed",
        status_reason="unverified" if verified is False else "final",
        verified=verified,
        message=final.message,
        explanation=final.explanation,
        details=final.details,
    )
