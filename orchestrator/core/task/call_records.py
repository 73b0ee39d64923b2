"""The calls of a task's present step, found and moved by the table: what every part of the fold stands on."""

import json
from typing import Any

from orchestrator.core.approval.approval import CallEvent, CallState, move
from orchestrator.core.errors import InvalidDecision
from orchestrator.core.task.facts import CallId
from orchestrator.core.task.task import AgentTask, CallRecord, changed


def call_record(task: AgentTask, call_id: CallId) -> CallRecord:
    """A call of the present step. Raises InvalidDecision when the step has none of this id."""
    record = task.call(call_id)
    if record is None:
        raise InvalidDecision(f"The present step has no call {call_id!r}.")
    return record


def update_call(task: AgentTask, call_id: CallId, event: CallEvent, **changes: Any) -> AgentTask:
    """The task with one call moved by the table. Raises InvalidDecision when the event does not fit."""
    return move_call(task, call_record(task, call_id), event, **changes)


def move_call(task: AgentTask, record: CallRecord, event: CallEvent, **changes: Any) -> AgentTask:
    """The task with this call of its own moved; an allowance that nobody gave goes back to ``allowed``."""
    state = move(record.state, event)
    moved = changed(record, state=state, **changes)
    if state is CallState.APPROVED and moved.request_id is None and moved.grant_id is None:
        moved = changed(moved, state=CallState.ALLOWED)
    return changed(task, calls=tuple(moved if one is record else one for one in task.calls))


def told(record: CallRecord, text: str) -> str:
    """A result as the model is told it: with who changed the call, why, and what really ran (hitl.md D19)."""
    if record.original is None:
        return text
    ran = json.dumps(record.call.args, ensure_ascii=False)
    who = f"A person ({record.approved_by})" if record.approved_by else "A person"
    why = f" Their reason: {json.dumps(record.edit_reason, ensure_ascii=False)}." if record.edit_reason else ""
    return f"{who} edited this call before it ran.{why} What ran instead has these arguments: {ran}\n{text}"
