"""What is recorded of a call whose outcome nobody heard, once its computer or this host was asked."""

from typing import Any

from orchestrator.core.evidence.checks import BY_JOURNAL
from orchestrator.core.policy import RUNNERS
from orchestrator.core.ports import Settlement
from orchestrator.core.task import facts
from orchestrator.core.task.task import CallRecord
from orchestrator.core.undo.touches import ABSENT
from orchestrator.tools.computer.programs import ran_of
from orchestrator.tools.environment.channels import run_id_of

_IN_DOUBT = (
    "The computer's disk or the orchestrator's store was put back, or the computer was copied, while this was under "
    "way: nobody knows whether it was done."
)
_REASONS = {
    "interrupted": "The computer restarted while this ran.",
    "unknown": "The computer restarted in the middle of the change, and something else took the file's place.",
    "void": "It never ran.",
}


def settled(record: CallRecord, state: Any, **rest: Any) -> facts.ToolSettled:
    """The fact that a call was settled; ``rest``: its other fields."""
    return facts.ToolSettled(call_id=record.call_id, run_id=run_id_of(record), state=state, **rest)


def in_doubt(record: CallRecord) -> facts.ToolSettled:
    """Of a change that was started before something was put back or copied: no answer counts."""
    return settled(record, "unknown", reason=_IN_DOUBT)


def by_journal(record: CallRecord, answer: Settlement) -> facts.ToolSettled:
    """What a computer's journal alone says of a call: its result is not there, or never was."""
    state = answer.call.state
    if state in ("interrupted", "unknown", "void"):
        return settled(record, state, reason=_REASONS[state])
    code = answer.call.code or ("returned" if answer.call.ok else "failed")
    ran = _ran(record, code)
    if answer.call.ok or (ran is not None and ran.ended == "timed_out"):
        how = {"observed": "It was watched and then stopped", "timed_out": "It reached its limit of time"}
        begin = how.get(code, "Done")
        text = f"{begin}{BY_JOURNAL} Its output was lost when the computer restarted."
        after = _left(record, answer.call.sha256) if answer.call.ok else {}
        return settled(record, "finished", ok=True, text=text, after=after, ran=ran)
    if code == "not_done":
        return settled(record, "void", reason="The computer restarted before the change; nothing was changed.")
    text = f"It did not succeed ({code}){BY_JOURNAL} Details were lost when it restarted."
    return settled(record, "finished", ok=False, text=text, code=code, ran=ran)


def _ran(record: CallRecord, code: str) -> facts.Ran | None:
    """The program that a call ran, as its bracket bound it; None: it runs none, or the program never began."""
    if record.call.tool not in RUNNERS or not record.before:
        return None
    path, sha256 = next(iter(record.before.items()))
    return ran_of({"path": path, "if_hash": sha256}, {}, code)


def _left(record: CallRecord, sha256: str | None) -> dict[str, str]:
    """What a change left behind, by the one hash that the computer's journal keeps; empty: it changed no file."""
    if sha256 is None or record.before is None:
        return {}
    moved = record.call.tool == "cc_move"
    return {path: ABSENT if moved and found != ABSENT else sha256 for path, found in record.before.items()}
