"""What becomes of a call or a settle, on its way from one node to another: results and errors, with their bytes."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from orchestrator.computers.nodes.messages import Failure, Said
from orchestrator.core.errors import (
    CallLost,
    CallVoid,
    ComputerAway,
    ComputerFailed,
    InvalidRequest,
    OrchestratorError,
)
from orchestrator.core.ports import Answer, CallResult, Settlement
from orchestrator.core.wire.identity import Heard
from orchestrator.core.wire.wire import RunId, SettledCall


class ResultTold(Said):
    """What a computer answered, or the error that it answered with; its bytes go beside it."""

    data: dict[str, Any] = Field(default_factory=dict)
    failure: Failure | None = None
    size: int = 0
    """Of its bytes, which follow those of the results before it."""


class SettlementTold(Said):
    """What became of one run."""

    call: SettledCall
    result: ResultTold | None = None


class Answered(Said):
    """The answer to a call, or to a settle."""

    failure: Failure | None = None
    """Why there is none."""
    data: dict[str, Any] = Field(default_factory=dict)
    settled: tuple[SettlementTold, ...] = ()
    heard: int = 0
    boot: str = ""
    """Of whom that was heard."""

    @property
    def named(self) -> Heard:
        """What the asked node has heard from the computer."""
        return Heard(self.heard, self.boot)


def failure_of(error: OrchestratorError) -> Failure:
    """An error as it is told."""
    told: dict[str, Any] = {"message": error.message, "remedy": error.remedy}
    match error:
        case ComputerAway():
            return Failure(kind="away", **told)
        case CallVoid():
            return Failure(kind="void", reason=error.reason, **told)
        case ComputerFailed():
            return Failure(kind="failed", reason=error.reason, data=error.data, **told)
        case CallLost():
            return Failure(kind="lost", **told)
        case InvalidRequest():
            return Failure(kind="refused", **told)
        case _:
            return Failure(kind="unknown", **told)


def error_of(failure: Failure, body: bytes = b"") -> OrchestratorError:
    """The error that was told; what is not known may have come after a frame was written, so that counts as lost."""
    match failure.kind:
        case "away":
            return ComputerAway(failure.message, remedy=failure.remedy)
        case "void":
            return CallVoid(failure.reason, failure.message)
        case "failed":
            return ComputerFailed(failure.reason, failure.message, failure.data, body)
        case "refused":
            return InvalidRequest(failure.message, remedy=failure.remedy)
        case _:
            return CallLost(failure.message, remedy=failure.remedy)


def failed(error: OrchestratorError) -> Answer:
    """The answer to a request that came to an error."""
    body = error.body if isinstance(error, ComputerFailed) else b""
    return Answer(Answered(failure=failure_of(error)).told(), body)


def answered(answer: Answer) -> Answered:
    """What another node answered. Raises what it came to, and CallLost where that cannot be read."""
    try:
        told = Answered.read(answer.payload)
    except InvalidRequest as error:
        raise CallLost(error.message) from None
    if told.failure is not None:
        raise error_of(told.failure, answer.body)
    return told


def call_told(result: CallResult, heard: Heard) -> Answer:
    """The result of a call, as it is told."""
    # As Answered reads it.
    return Answer({"data": result.data, "heard": heard.journal_seq, "boot": heard.boot}, result.body)


def called(answer: Answer) -> tuple[CallResult, Heard]:
    """What another node answered to a call, and what it heard. Raises as `answered` does.

    Every call to another node ends here: what is well is not made a model of.
    """
    said = answer.payload
    data, heard, boot = said.get("data"), said.get("heard"), said.get("boot")
    well = said.get("failure") is None
    if well and isinstance(data, dict) and isinstance(heard, int) and isinstance(boot, str):
        return CallResult(data, answer.body), Heard(heard, boot)
    told = answered(answer)
    return CallResult(told.data, answer.body), told.named


def settled_told(settled: Mapping[RunId, Settlement], heard: Heard) -> Answer:
    """What became of runs, as it is told."""
    rows, parts = [], []
    for one in settled.values():
        result, body = _result_told(one.result)
        rows.append(SettlementTold(call=one.call, result=result))
        parts.append(body)
    told = Answered(settled=tuple(rows), heard=heard.journal_seq, boot=heard.boot)
    return Answer(told.told(), b"".join(parts))


def settled_of(answer: Answer) -> tuple[dict[RunId, Settlement], Heard]:
    """What another node says that became of runs, and what it heard. Raises as `answered` does."""
    told, body = answered(answer), answer.body
    settled, at = {}, 0
    for row in told.settled:
        size = row.result.size if row.result is not None else 0
        result = None if row.result is None else _result_of(row.result, body[at : at + size])
        settled[RunId(row.call.call_id)] = Settlement(row.call, result)
        at += size
    return settled, told.named


def _result_told(result: CallResult | Exception | None) -> tuple[ResultTold | None, bytes]:
    match result:
        case CallResult():
            return ResultTold(data=result.data, size=len(result.body)), result.body
        case ComputerFailed():
            return ResultTold(failure=failure_of(result), size=len(result.body)), result.body
        case _:
            return None, b""


def _result_of(told: ResultTold, body: bytes) -> CallResult | Exception:
    return CallResult(told.data, body) if told.failure is None else error_of(told.failure, body)


__all__ = ["Answered", "answered", "call_told", "called", "failed", "settled_of", "settled_told"]
