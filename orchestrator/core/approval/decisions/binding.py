"""One decision on one call, bound to the digests that were shown.

An edit is validated and judged as the model's own call was, and keeps tool and computer; what it then runs is bound
anew.
"""

from collections.abc import Mapping
from typing import Any, Final

from orchestrator.core.approval.approval import (
    CANNOT_BE_KNOWN,
    DECISIONS,
    MAX_ASKED_AGAIN,
    CallDecision,
    action_digest,
    call_digest,
)
from orchestrator.core.approval.decisions.command import Decide
from orchestrator.core.approval.decisions.repeats import said_digest
from orchestrator.core.approval.grants import fixed_args, own_paths
from orchestrator.core.errors import Forbidden, InvalidDecision, InvalidRequest, ReplyRefused
from orchestrator.core.policy import BUILT_IN_CATALOG, Effect, severity
from orchestrator.core.policy.command_line import runs_of, runs_one_program
from orchestrator.core.reply.response import canonical_args
from orchestrator.core.task import facts
from orchestrator.core.task.facts import ToolCall
from orchestrator.core.task.task import AgentTask, CallRecord
from orchestrator.core.text.redact import restore

_HOW_IT_RUNS: Final = frozenset({"input", "observe_s", "timeout_s"})
_AT_ONCE: Final[Mapping[str, frozenset[str]]] = {
    "cc_run_program": _HOW_IT_RUNS | {"args"},
    "cc_shell": _HOW_IT_RUNS,
    "send_status": frozenset({"message"}),
    "ask_user": frozenset({"question"}),
}
"""What an edit may change without a new request, beside the text of a change."""
ID_CHARS: Final = 100
"""What was sent as an id may be a megabyte."""


def bound(task: AgentTask, wanted: CallDecision, command: Decide) -> facts.Decision:
    """What is recorded of it. Raises InvalidDecision, InvalidRequest, Forbidden."""
    request = task.request
    record = task.call(wanted.call_id)
    if request is None or record is None or wanted.call_id not in request.call_ids:
        raise InvalidDecision(
            f"The request does not wait for call {wanted.call_id[:ID_CHARS]!r}.",
            remedy="Decide the calls that it shows.",
        )
    verbs = DECISIONS[request.reason]
    if wanted.action not in verbs:
        raise InvalidDecision(
            f"This request takes {', '.join(verbs)}, not {wanted.action}.", remedy="Use one of these."
        )
    if wanted.action == "check" and record.asked_again >= MAX_ASKED_AGAIN:
        raise InvalidDecision(CANNOT_BE_KNOWN, remedy="Use mark_done, mark_failed or retry.")
    if wanted.expected_digest is not None and wanted.expected_digest != record.action_digest:
        raise InvalidDecision(
            f"Call {wanted.call_id!r} is not the one you saw: its digest differs.",
            remedy="Look at it again and decide anew.",
        )
    decision = facts.Decision(
        call_id=wanted.call_id,
        action=wanted.action,
        action_digest=record.action_digest or "",
        reason=wanted.reason,
        on_reject=wanted.on_reject or task.rejecting,
        retry_as=command.new_call_id() if wanted.action == "retry" else None,
        answer=wanted.answer or "",
        said_digest=said_digest(task, wanted),
    )
    return _edited(task, record, decision, wanted, command) if wanted.action == "edit" else decision


def _edited(
    task: AgentTask, record: CallRecord, decision: facts.Decision, wanted: CallDecision, command: Decide
) -> facts.Decision:
    """The decision with what is to run instead. Raises InvalidRequest (the schema), Forbidden (the policy)."""
    call = record.call
    args = dict(wanted.args or {})
    named = args.pop("computer", call.computer)
    if named != call.computer:
        where = f"which is {call.computer}" if call.computer else "and this call has none"
        raise InvalidRequest(f"An edit keeps the computer, {where}.", remedy="Reject it, and say where instead.")
    # What the reviewer was shown had its secrets taken out: where their marks still stand, they come back.
    restored = restore(args, call.args, salt=task.tag)
    try:
        args = canonical_args(call.tool, restored if isinstance(restored, dict) else {})
    except ReplyRefused as refused:
        raise InvalidRequest(refused.message, remedy="Fix the edited arguments.") from None
    version = BUILT_IN_CATALOG[call.tool].version
    digest = call_digest(tool=call.tool, tool_version=version, args=args, computer=call.computer)
    edited = call.model_copy(update={"args": args, "call_digest": digest})
    _must_work(edited)
    seen = _touches_the_same(call, edited)
    program = record.observed.program if record.observed and seen else None
    verdict = command.active_policy.judge(task, edited, program)
    if verdict.effect is Effect.DENY:
        raise Forbidden(f"The policy denies the edited call: {verdict.reason}", remedy="Edit it otherwise, or reject.")
    if verdict.effect is Effect.ALLOW:
        # A person was asked: where this approval becomes void, they are asked again, as they are without an edit.
        verdict = verdict.model_copy(update={"effect": Effect.ASK})
    runs = ""
    shown = record.observed if seen and severity(verdict.risk) <= severity(record.evaluation.risk) else None
    if shown is not None and runs_one_program(call.tool, args, shown.program):
        runs = action_digest(call=digest, user_id=task.user_id, observed=shown, evaluation=verdict)
    return decision.model_copy(update={"args": args, "call_digest": digest, "evaluation": verdict, "runs_digest": runs})


def _must_work(edited: ToolCall) -> None:
    """Refuse what its tool refuses whatever is there, so that the request is not lost. Raises InvalidRequest."""
    cannot = f"{edited.tool} cannot do that"
    paths = own_paths(edited.tool, edited.args) if BUILT_IN_CATALOG[edited.tool].governance.mutates else ()
    if "" in paths:
        raise InvalidRequest(f"{cannot} with the root directory itself.", remedy="Name something in it.")
    if edited.tool == "cc_move" and f"{paths[1]}/".startswith(f"{paths[0]}/"):
        raise InvalidRequest(f"{cannot}: {paths[0]} cannot be moved into itself.", remedy="Name another place.")
    if edited.tool == "cc_shell" and not runs_of(edited.tool, edited.args, None).first:
        raise InvalidRequest(f"{cannot}: the command is empty.", remedy="Name the program that is to run.")


def _touches_the_same(call: ToolCall, edited: ToolCall) -> bool:
    """Whether an edit changes only a text or how a program runs: the paths, the command line and the rest stay."""
    same_paths = own_paths(call.tool, call.args) == own_paths(call.tool, edited.args)
    return same_paths and _target(call) == _target(edited)


def _target(call: ToolCall) -> dict[str, Any]:
    """What a call acts on beside its paths, such as a command line, or a peripheral with a method and its arguments."""
    fixed = fixed_args(call.tool, call.args, any_content=True)
    return {name: value for name, value in fixed.items() if name not in _AT_ONCE.get(call.tool, ())}
